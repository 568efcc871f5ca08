"""E9: the price β of the KL: where PPO goes at each, what it earns there, and what it writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ppobook import validation
from ppobook.experiments import results
from ppobook.teaching import style
from ppobook.teaching.figures._figure import Figure

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure as Picture

_POOLINGS = {"last": "the last token", "sum": "all tokens, and adds up"}
# What is shown of a policy, and with how many digits it is stored.
_COLUMNS = {"kl": 2, "proxy": 2, "gold": 2, "held_out": 2, "length": 1, "ended": 3}
_SHADES = (0.35, 1.0)


def _recorded() -> pd.DataFrame:
    """The runs of `language_overoptimisation` that differ in β and in the reward model only."""
    runs = results("language_overoptimisation")
    usual = runs[(runs["missing_eos_penalty"] == 0) & (runs["lr"] == runs["lr"].max())]
    return usual.sort_values(["pooling", "kl_coef", "update", "seed"])


def beta_explorer(kl_coef: float = 0.0, *, pooling: str = "last", update: int | None = None) -> Figure:
    """Move β and the update: reward and gold of ten seeds against the distance, and texts from there.

    The runs are recorded ones of PPO in the tiny language world.

    Parameters
    ----------
    kl_coef : one of 0, 0.03, 0.1, 0.3, 1
        β, where its slider starts.
    pooling : "last" or "sum"
        What the reward models read.
    update : int, optional
        After how many updates; one at which the runs were measured. Default: the last.

    Returns
    -------
    Figure
        To stand as the last line of a code cell.

    Raises
    ------
    ValueError
        A β, a pooling or an update that was not recorded.
    """
    runs, texts = _recorded(), results("language_beta_texts")
    betas, updates = (sorted(runs[column].unique().tolist()) for column in ("kl_coef", "update"))
    pooling = validation.choice("pooling", pooling, _POOLINGS)
    kl_coef = validation.number("kl_coef", kl_coef)
    update = validation.count("update", updates[-1] if update is None else update, low=0)
    for name, value, known in (("kl_coef", kl_coef, betas), ("update", update, updates)):
        if value not in known:
            raise ValueError(f"{name} must be one of {', '.join(f'{x:g}' for x in known)}, got {value!r}")

    mine = runs[(runs["pooling"] == pooling) & (runs["kl_coef"] == kl_coef)]
    here = mine[mine["update"] == update][list(_COLUMNS)].mean()
    path = mine.groupby("update")[["gold", "proxy"]].mean()
    top = path["gold"].idxmax()
    there = texts[(texts["pooling"] == pooling) & (texts["kl_coef"] == kl_coef) & (texts["update"] == update)]
    first = there.iloc[0]
    alt = f"""
        Two panels against the square root of the KL to the reference, with a curve for each β of
        {", ".join(f"{beta:g}" for beta in betas)}: the reward model's reward, and gold. With β = {kl_coef:g},
        after {update} updates, ten seeds have a KL of {here["kl"]:.1f} nats on average, a reward of
        {here["proxy"]:.1f} and {here["gold"]:.2f} gold; the highest gold on the way is
        {path["gold"].max():.2f}, after {top} updates. A text from there: “{first["text"]}”.
    """
    state = {
        "betas": [f"{beta:g}" for beta in betas],
        "updates": updates,
        "columns": list(_COLUMNS),
        "pooling": list(_POOLINGS).index(pooling),
        "beta": betas.index(kl_coef),
        "look": updates.index(update),
        "seed": 0,
        "poolings": [
            {
                "words": words,
                # [β][look], each a text: the numbers of ten seeds, column after column.
                "runs": [
                    [_packed(look) for _, look in one.groupby("update")]
                    for _, one in runs[runs["pooling"] == name].groupby("kl_coef")
                ],
                # [β][look][seed]: what was written.
                "texts": [
                    [[_texts(some) for _, some in look.groupby("seed")] for _, look in one.groupby("update")]
                    for _, one in texts[texts["pooling"] == name].groupby("kl_coef")
                ],
            }
            for name, words in _POOLINGS.items()
        ],
        "seeds": sorted(texts["seed"].unique().tolist()),
    }
    return Figure("beta", state, alt=alt, still=lambda: _still(runs, there, pooling, kl_coef, update))


def _packed(look: pd.DataFrame) -> str:
    """Ten seeds after some update in one text: a notebook would give each number a line of its own."""
    return "/".join(" ".join(f"{x:.{digits}f}" for x in look[column]) for column, digits in _COLUMNS.items())


def _texts(some: pd.DataFrame) -> list[str]:
    """Prompt, text, gold and reward of each."""
    return [f"{row.prompt}|{row.text}|{row.gold:.2f}|{row.proxy:.2f}" for row in some.itertuples()]


def _still(runs: pd.DataFrame, there: pd.DataFrame, pooling: str, kl_coef: float, update: int) -> Picture:
    import textwrap

    from matplotlib.figure import Figure as Picture

    picture = Picture(figsize=(style.WIDTH, 5.0))
    axes = picture.subplots(1, 2)
    for ax, column, title in zip(axes, ("proxy", "gold"), ("the reward model's", "gold"), strict=True):
        for beta, some in runs[runs["pooling"] == pooling].groupby("kl_coef"):
            path = some.groupby("update")[["kl", column]].mean()
            chosen = beta == kl_coef
            x = np.sqrt(path["kl"].clip(lower=0))
            ax.plot(
                x,
                path[column],
                color=style.colour("ppo" if chosen else "muted"),
                lw=2.5 if chosen else 1,
                alpha=_SHADES[chosen],
            )
            if chosen:
                dots = some[some["update"] == update]
                ax.plot(
                    np.sqrt(dots["kl"].clip(lower=0)),
                    dots[column],
                    "o",
                    ms=5,
                    color=style.colour("ppo"),
                    alpha=0.6,
                )
        ax.axhline(0, color=style.colour("faint"), lw=1, zorder=0)
        ax.set_title(title)
    picture.supxlabel("√KL to the reference")
    words = [f"β = {kl_coef:g}, after {update} updates:"]
    for row in there.head(2).itertuples():
        words += textwrap.wrap(f"{row.prompt} {row.text}", 62, subsequent_indent="    ")
    picture.suptitle("\n".join(words), fontsize=11, x=0.02, ha="left", family="DejaVu Sans Mono")
    return picture

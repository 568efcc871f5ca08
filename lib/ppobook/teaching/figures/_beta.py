"""E9: the price β of the KL: where PPO goes at each, what it earns there, and what it writes."""

from __future__ import annotations

import json
import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np

from ppobook import _reads
from ppobook.experiments import results, results_folder
from ppobook.teaching import style
from ppobook.teaching.figures._figure import Figure, annotate, packed

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure as Picture

_RECORD = "language_overoptimisation"
_POOLINGS = {"last": "the last token", "sum": "all tokens, and adds up"}
# What is shown of a policy, and with how many digits it is stored.
_COLUMNS = {"kl": 2, "proxy": 2, "gold": 2, "held_out": 2, "length": 1, "ended": 3}


def beta_explorer() -> Figure:
    """Move β: reward and gold of ten seeds against the distance from the reference, and texts from there.

    The runs are recorded ones of PPO in the tiny language world. The last place of the slider is the policy
    after SFT, where an endless β would end.
    """
    kl_coef, pooling = 0.0, "last"  # that are shown at first
    runs = results(_RECORD).sort_values(["pooling", "kl_coef", "update", "seed"])
    betas = sorted(runs["kl_coef"].unique().tolist())
    texts = _texts()

    mine = runs[(runs["pooling"] == pooling) & (runs["kl_coef"] == kl_coef)]
    updates = int(mine["update"].max())
    here = mine[mine["update"] == updates][list(_COLUMNS)].mean()
    golds = mine.groupby("update")["gold"].mean()
    written = texts[pooling, kl_coef]
    alt = f"""
        Two panels against the KL to the reference, with a curve for each β of
        {", ".join(f"{beta:g}" for beta in betas)}: the reward model's reward, and gold. With β = {kl_coef:g},
        after {updates} updates, ten seeds have a KL of {here["kl"]:.1f} nats on average, a reward of
        {here["proxy"]:.1f} and {here["gold"]:.2f} gold; the highest gold on the way is {golds.max():.2f},
        after {golds.idxmax()} updates. A text from there: “{written[0]["text"]}”.
    """
    state = {
        "betas": [f"{beta:g}" for beta in betas],
        "updates": sorted(runs["update"].unique().tolist()),
        "columns": list(_COLUMNS),
        "pooling": list(_POOLINGS).index(pooling),
        "beta": betas.index(kl_coef),
        "poolings": [
            {
                "words": words,
                # [β][update], each a text: the numbers of ten seeds, column after column.
                "runs": [
                    [packed(look, _COLUMNS) for _, look in one.groupby("update")]
                    for _, one in runs[runs["pooling"] == name].groupby("kl_coef")
                ],
                # [β, and SFT]: what was written.
                "texts": [texts[name, beta] for beta in (*betas, None)],
            }
            for name, words in _POOLINGS.items()
        ],
    }
    return Figure(
        "beta",
        state,
        alt=alt,
        height=4.9,
        still=lambda picture: _still(picture, runs, written, pooling, kl_coef),
    )


def _texts() -> dict[tuple[str, float | None], list[dict[str, Any]]]:
    """Read the final texts of the first seed's policies, by pooling and β; with no β, those after SFT."""
    path = _reads.note(results_folder() / _RECORD / "texts.json")
    found: dict[tuple[str, float | None], list[dict[str, Any]]] = {}
    for entry in json.loads(path.read_text(encoding="utf-8")):
        text = entry["text"].removesuffix("<eos>").strip()
        kept = {
            "prompt": entry["prompt"],
            "text": text if entry["text"].endswith("<eos>") else f"{text} … (no end)",
            "proxy": entry["proxy"],
            "gold": entry["gold"],
        }
        found.setdefault((entry["pooling"], entry["kl_coef"]), []).append(kept)
    return found


def _still(
    picture: Picture, runs: pd.DataFrame, written: list[dict[str, Any]], pooling: str, kl_coef: float
) -> None:
    ends = runs[(runs["pooling"] == pooling) & (runs["update"] == runs["update"].max())]
    best = ends.groupby("kl_coef")["gold"].mean().idxmax()
    graphs, words = picture.subfigures(2, 1, squeeze=False, height_ratios=[3, 2]).ravel()
    for ax, column, title in zip(
        graphs.subplots(1, 2), ("proxy", "gold"), ("the reward model's", "gold"), strict=True
    ):
        for beta, some in runs[runs["pooling"] == pooling].groupby("kl_coef"):
            path = some.groupby("update")[["kl", column]].mean()
            chosen = beta == kl_coef
            look = {"lw": 2.8, "zorder": 3} if chosen else {"lw": 1.2}
            hue = style.colour("ppo" if chosen else "muted")
            x = np.sqrt(path["kl"].clip(lower=0))
            ax.plot(x, path[column], color=hue, **look)
            if column == "gold" and (chosen or beta == best):
                end = x.iloc[-1], path[column].iloc[-1]
                annotate(
                    ax, f"β {beta:g}", end, (6, 2), color=style.colour("ppo" if chosen else "muted", "text")
                )
            if chosen:
                mine = some[some["update"] == some["update"].max()]
                x = np.sqrt(mine["kl"].clip(lower=0))
                ax.plot(x, mine[column], "o", ms=5, color=hue, alpha=0.6)
        ax.axhline(0, color=style.colour("faint"), lw=1, zorder=0)
        ax.set_title(title)
        ticks = [0, 1, 5, 10, 20, 40]
        ax.set_xticks(np.sqrt(ticks), [str(kl) for kl in ticks])
    graphs.supxlabel("KL to the reference, nats", fontsize=13)
    lines = [f"Written with β = {kl_coef:g}:"]
    for one in written[:2]:
        lines += textwrap.wrap(f"{one['prompt']} {one['text']}", 60, subsequent_indent="    ")
    words.text(0.02, 0.95, "\n".join(lines), fontsize=12, va="top", linespacing=1.5)

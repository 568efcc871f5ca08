"""Diagnose common failures of training from a run's history.

    findings = examine(run.history)
    too_short(run.history)

Each rule reads columns of the history and reports what it found in which updates, the usual causes, and what
to try. A rule whose columns are missing is skipped. The thresholds below are chosen so that healthy runs do
not reach them: a finding deserves a look; no finding does not prove that all is well.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

# While every ratio stays in [0.8, 1.2] the sampled KL cannot pass 0.0231, so 0.05 says that many have left.
KL_HIGH = 0.05
# One update in ten: a single one may be bad luck, and a healthy run has a few.
KL_SHARE = 0.1
# At a KL of one nat the old policy's samples say almost nothing about the new one. Once is enough.
KL_WILD = 1.0
# With more than half of a batch outside of the clip range, few samples still have a gradient.
CLIP_HIGH = 0.5
# Nearly all of it outside. After such an update a policy soon stops learning, so once is enough.
CLIP_WILD = 0.8
# Not one sample in a thousand outside: the clip, and the several passes it is there for, do nothing.
CLIP_LOW = 1e-3
# A critic that predicts the mean for every state has 0. A little below is noise; this critic misleads.
VARIANCE_LOW = -0.1
# The share of updates above which a problem counts as persistent.
HABIT = 0.5
# The first quarter of the updates, in which the critic may still be wrong.
NEW = 0.25
# A tenth of a categorical policy's initial entropy: it hardly explores any more…
ENTROPY_LEFT = 0.1
# …and the same for a Gaussian, whose entropy has no zero: each standard deviation shrunk to a tenth.
ENTROPY_NATS = math.log(10)
# …before a quarter of the steps were taken.
ENTROPY_EARLY = 0.25
# More than half of what was gained lost again. Noise of a few updates is averaged out first.
COLLAPSE = 0.5
WINDOW = 10
# Fewer updates show no trend…
FEW = 20
# …and fewer, once the critic is no longer new, do not show what it does as a habit.
FEW_VALUES = 5
# Two means further apart than this many standard errors differ by more than chance.
ERRORS = 3.0
# TRPO's line search fails now and then near an optimum; in one update of five it is a fault.
SEARCH_FAILS = 0.2


@dataclass(frozen=True)
class Finding:
    """Something a history shows."""

    name: str  # "KL explodes", say
    evidence: str  # which numbers, in which updates
    causes: str  # what usually leads to it
    remedy: str  # what to try, first things first
    updates: tuple[int, ...]  # that show it


def examine(
    history: Any, config: Mapping[str, Any] | None = None, *, action_dims: int | None = None
) -> list[Finding]:
    """Diagnose a run's history.

    Parameters
    ----------
    history : DataFrame
        `Run.history`, one row an update; or a table with some of its columns, "update" among them.
    config : mapping, optional
        `Run.config`: with it the remedies name the settings as they are now.
    action_dims : int, optional
        Action dimensions of a Gaussian policy; 0 for a categorical one. By default, a policy whose entropy is
        never negative is taken for a categorical one, and otherwise the entropy is not examined.

    Returns
    -------
    list of Finding
        Most severe first; empty if nothing was found. A short history shows little: see `too_short`.
    """
    case = _Case(history, config, action_dims)
    return [found for rule in RULES if (found := rule(case)) is not None]


def too_short(history: Any) -> dict[str, str]:
    """Return the findings that a history is too short to show, and what is missing for each.

    "no learning" has "3 of 20 updates with a finished episode", say.
    """
    case = _Case(history, None, None)
    for rule in RULES:
        rule(case)
    return case.too_short


class _Case:
    """A history, with helpers for the rules."""

    def __init__(self, history: Any, config: Mapping[str, Any] | None, action_dims: int | None) -> None:
        self.history = history = history.reset_index(drop=True)
        self.config = dict(config or {})
        self.too_short: dict[str, str] = {}
        self.action_dims = action_dims
        self.updates = history["update"].to_numpy(int)

    def column(self, name: str) -> np.ndarray | None:
        """A column as floats; None if it is missing or has no value."""
        if name not in self.history.columns:
            return None
        x = self.history[name].to_numpy(float)
        return None if np.isnan(x).all() else x

    def shows(self, name: str, values: np.ndarray, needed: int, what: str) -> bool:
        """Return True if there are enough values for a finding of this name; otherwise, record it."""
        count = int((~np.isnan(values)).sum())
        if count < needed:
            self.too_short[name] = f"{count} of {needed} {what}"
        return count >= needed

    def advice(self, *parts: str | tuple[str, ...]) -> str:
        """Return what to try.

        A part ("a smaller {}", "lr", "max_kl") names the first of these settings that the run has, with its
        current value, and is left out if it has none of them.
        """
        said = []
        for part in parts:
            sentence, *names = (part,) if isinstance(part, str) else part
            name = next((name for name in names if not self.config or name in self.config), None)
            if names and name is None:
                continue
            value = self.config.get(name) if name else None
            now = f" (now {value:g})" if isinstance(value, int | float) else ""
            said.append(sentence.format(f"{name}{now}"))
        return "; ".join(said)

    def many(self, where: np.ndarray) -> str:
        """ "in 12 of 40 updates (3, 4, 5, …)"."""
        some = [str(update) for update in self.updates[where][:3]]
        more = ", …" if where.sum() > 3 else ""
        return f"in {where.sum()} of {len(where)} updates ({', '.join(some)}{more})"

    def finding(self, name: str, evidence: str, causes: str, remedy: str, where: np.ndarray) -> Finding:
        return Finding(name, evidence, causes, remedy, tuple(self.updates[where].tolist()))


def _not_finite(case: _Case) -> Finding | None:
    names = ("policy_loss", "value_loss", "grad_norm", "entropy", "approx_kl")
    columns = {name: x for name in names if (x := case.column(name)) is not None}
    bad = {name: ~np.isfinite(x) for name, x in columns.items() if not np.isfinite(x).all()}
    if not bad:
        return None
    name, where = min(bad.items(), key=lambda item: int(item[1].argmax()))
    first = case.updates[where][0]
    return case.finding(
        "not a number",
        f"{', '.join(bad)} not finite; {name} first, in update {first}",
        "a step so large that the weights overflow, a logarithm of or a division by 0 in a custom loss, or "
        "rewards or observations that are not bounded",
        case.advice(
            f"look at the batch of update {first}",
            ("a smaller {}", "lr", "max_kl"),
            "normalised observations and rewards",
        ),
        np.any(list(bad.values()), axis=0),
    )


def _kl_explodes(case: _Case) -> Finding | None:
    # The exact KL, where it is recorded: of a Gaussian, the sampled one has a long tail.
    name = next((name for name in ("step_kl", "kl", "approx_kl") if case.column(name) is not None), None)
    kl = None if name is None else case.column(name)
    if kl is None:
        return None
    limit = max(KL_HIGH, 2 * float(case.config.get("max_kl") or 0))  # a larger max_kl allows more
    high, wild = kl > limit, kl > KL_WILD
    if not (wild.any() or high.mean() >= KL_SHARE):
        return None
    worst = int(np.nanargmax(kl))
    return case.finding(
        "KL explodes",
        f"{name} above {limit:g} {case.many(high)}; at most {kl[worst]:.3g}, in update {case.updates[worst]}",
        "steps that are too long, too many passes over one batch, or a ratio against the wrong "
        "log-probabilities",
        case.advice(
            ("a smaller {}", "lr", "max_kl"),
            ("fewer {}", "epochs"),
            # TRPO bounds each step by its max_kl; in PPO it ends an update early.
            *([] if "cg_iterations" in case.config else [("{}, which stops an update in time", "max_kl")]),
        ),
        high,
    )


def _clip_high(case: _Case) -> Finding | None:
    clipped = case.column("clip_fraction")
    if clipped is None:
        return None
    where = clipped > CLIP_HIGH
    if where.mean() < KL_SHARE and not (clipped > CLIP_WILD).any():
        return None
    return case.finding(
        "clip fraction near 1",
        f"clip_fraction above {CLIP_HIGH:g} {case.many(where)}; {np.nanmax(clipped):.3g} at most",
        "steps that are too long: most samples are outside of the clip range, where they have no "
        "gradient; or old log-probabilities that are not those of the policy that collected the rollout",
        case.advice(("a smaller {}", "lr"), ("fewer {}", "epochs"), "old_logp as the rollout recorded it"),
        where,
    )


def _clip_low(case: _Case) -> Finding | None:
    clipped = case.column("clip_fraction")
    if clipped is None or not case.shows("clip fraction 0", clipped, FEW, "updates"):
        return None
    where = clipped < CLIP_LOW
    if where.mean() <= 1 - KL_SHARE:
        return None
    kl = case.column("approx_kl")
    moved = "" if kl is None else f"; the median of approx_kl is {np.nanmedian(kl):.2g}"
    return case.finding(
        "clip fraction 0",
        f"clip_fraction below {CLIP_LOW:g} {case.many(where)}{moved}",
        *_unless_too_long(
            case,
            "steps so short that the ratio never leaves the clip range: the batch is thrown away half used; "
            "a single gradient step a batch; or old_logp recomputed in each step, which makes every ratio 1",
            case.advice(
                ("a larger {}", "lr"), ("more {}", "epochs"), "old_logp as the rollout recorded it, detached"
            ),
        ),
        where,
    )


def _variance_negative(case: _Case) -> Finding | None:
    explained = case.column("explained_variance")
    if explained is None:
        return None
    seen = ~np.isnan(explained)
    seen[: math.ceil(NEW * len(seen))] = False
    what = f"updates after the first {NEW:.0%} of them"
    if not case.shows("explained variance negative", explained[seen], FEW_VALUES, what):
        return None
    where = seen & (explained < VARIANCE_LOW)
    if where.sum() <= HABIT * seen.sum():
        return None
    return case.finding(
        "explained variance negative",
        f"explained_variance below {VARIANCE_LOW:g} {case.many(where)}; the median is "
        f"{np.median(explained[seen]):.3g}, the first {NEW:.0%} of the updates left out",
        "a critic that is worse than none: targets of the wrong scale or sign, a learning rate that is too "
        "high or too low for it, values bootstrapped where the episode had terminated",
        case.advice(
            ("another {}", "value_lr", "lr"),
            ("a larger {}", "value_coef", "value_epochs"),
            ("{}", "normalize_rewards"),
            "a look at where terminated and truncated are used",
        ),
        where,
    )


def _entropy_gone(case: _Case) -> Finding | None:
    entropy, steps = case.column("entropy"), case.column("steps")
    if entropy is None or steps is None or np.isnan(entropy[0]):
        return None
    dims = case.action_dims
    if dims is None:
        if np.nanmin(entropy) < 0:
            return None
        dims = 0
    first = entropy[0]
    floor = ENTROPY_LEFT * first if dims == 0 else first - ENTROPY_NATS * dims
    total = max(float(case.config.get("total_steps", 0)), steps[-1])
    where = (entropy < floor) & (steps <= ENTROPY_EARLY * total)
    if not where.any():
        return None
    at = int(where.argmax())
    return case.finding(
        "entropy gone too fast",
        f"entropy from {first:.3g} to {entropy[at]:.3g} by update {case.updates[at]}, after "
        f"{steps[at] / total:.0%} of the steps",
        "a policy that became deterministic before it had explored: steps that are too long, no entropy "
        "bonus or one with the wrong sign, advantages that are not normalised",
        case.advice(
            ("a larger {}", "entropy_coef"),
            ("a smaller {}", "lr", "max_kl"),
            "the sign of the entropy term, in a custom loss",
        ),
        where,
    )


def _collapse(case: _Case) -> Finding | None:
    name = "the return collapses"
    returns = _returns(case, name)
    if returns is None:
        return None
    smooth = _smooth(returns)
    if np.isnan(smooth).all():
        case.too_short[name] = f"no {WINDOW} updates half of which have a finished episode"
        return None
    best = int(np.nanargmax(smooth))
    first, last = smooth[~np.isnan(smooth)][[0, -1]]
    gained, lost = smooth[best] - first, smooth[best] - last
    if gained <= 0 or lost <= COLLAPSE * gained or lost <= ERRORS * _error(returns):
        return None
    where = np.arange(len(smooth)) > best
    return case.finding(
        name,
        f"return_mean, over {WINDOW} updates, was {smooth[best]:.4g} at update {case.updates[best]} and is "
        f"{last:.4g} at the end; it began at {first:.4g}",
        "a step that was too long, to a policy whose own data no longer show the way back",
        case.advice(
            ("a smaller {}", "lr", "max_kl"),
            ("one that falls to 0, by {}", "lr_final"),
            ("fewer {}", "epochs"),
            "a look at approx_kl and entropy just before",
        ),
        where,
    )


def _no_learning(case: _Case) -> Finding | None:
    returns = _returns(case, "no learning")
    if returns is None:
        return None
    seen = np.flatnonzero(~np.isnan(returns))
    quarter = len(seen) // 4
    early, late = returns[seen[:quarter]], returns[seen[-quarter:]]
    gained = late.mean() - early.mean()
    error = math.sqrt((early.var(ddof=1) + late.var(ddof=1)) / quarter)
    smooth = _smooth(returns)
    best = np.max(smooth, where=~np.isnan(smooth), initial=-np.inf)
    was_better = best - early.mean() > ERRORS * max(error, _error(returns))
    if gained > ERRORS * error or was_better:
        return None
    still = bool(np.ptp(returns[seen]) == 0)
    return case.finding(
        "no learning",
        f"return_mean is {returns[seen[0]]:.4g} in every update"
        if still
        else f"return_mean {early.mean():.4g} in the first quarter and {late.mean():.4g} in the last, "
        f"{'less' if gained < 0 else 'more'} by {abs(gained):.2g}; {ERRORS:g} standard errors are "
        f"{ERRORS * error:.2g}",
        *_unless_too_long(
            case,
            "a reward that is never reached, or the best return already; steps that are too short; a run "
            "that is too short; an advantage with the wrong sign",
            case.advice(
                ("a larger {}", "lr", "max_kl"), "more steps", "a look at the return of a random policy"
            ),
        ),
        np.isin(np.arange(len(returns)), seen[-quarter:]),
    )


def _search_fails(case: _Case) -> Finding | None:
    accepted = case.column("accepted")
    if accepted is None:
        return None
    where = accepted < 0.5
    if where.mean() <= SEARCH_FAILS:
        return None
    return case.finding(
        "the line search fails",
        f"no step was accepted {case.many(where)}",
        "a search direction that is not uphill: too few iterations of conjugate gradient, too little "
        "damping, advantages of nearly nothing but noise; or a trust region too large for the linear and "
        "quadratic approximations",
        case.advice(
            ("more {}", "cg_iterations"),
            ("a larger {}", "cg_damping"),
            ("a larger {}", "num_steps"),
            ("a smaller {}", "max_kl"),
        ),
        where,
    )


def _unless_too_long(case: _Case, causes: str, remedy: str) -> tuple[str, str]:
    """Causes and remedy of a policy that hardly moves, which are others once a step was too long."""
    for rule in (_kl_explodes, _clip_high):
        if (found := rule(case)) is not None:
            return (
                f"steps that were too long, see {found.name!r}: they can leave a policy that is almost "
                f"deterministic, which has hardly a gradient any more",
                f"first what helps against {found.name!r}",
            )
    return causes, remedy


def _returns(case: _Case, name: str) -> np.ndarray | None:
    """The returns, for a finding of this name; None if there are too few."""
    if "return_mean" not in case.history.columns:
        return None
    returns = case.history["return_mean"].to_numpy(float)
    return returns if case.shows(name, returns, FEW, "updates with a finished episode") else None


def _smooth(returns: np.ndarray) -> np.ndarray:
    """The return over a window of updates; NaN where less than half of a window has one."""
    return pd.Series(returns).rolling(WINDOW, min_periods=WINDOW // 2).mean().to_numpy()


def _error(returns: np.ndarray) -> float:
    """The standard error of a window's mean: how far two neighbouring updates differ, as an estimate."""
    jumps = np.diff(returns[~np.isnan(returns)])
    return float(np.sqrt(np.mean(jumps**2) / 2 / WINDOW)) * math.sqrt(2)


# Worst first.
RULES: tuple[Callable[[_Case], Finding | None], ...] = (
    _not_finite,
    _collapse,
    _kl_explodes,
    _clip_high,
    _clip_low,
    _entropy_gone,
    _variance_negative,
    _search_fails,
    _no_learning,
)

"""The numbers of reference/myths.yml: each from a recorded experiment, or from what a chapter's cell printed.

A function a myth: it returns the numbers that the text of this name asks for, and fails where they no longer
bear the verdict out. Only the standard library is used, since the site is built without NumPy.
"""

from __future__ import annotations

import csv
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, median

from site_sections import UnfoundedError

# What chapters print for an interval, as two groups.
INTERVAL = r"(\S+) to (\S+)"

Numbers = dict[str, str]
Row = dict[str, str]


@dataclass
class Evidence:
    """The files that numbers are read from, and a note of those that were read."""

    root: Path
    experiments: list[str] = field(default_factory=list)
    chapters: list[str] = field(default_factory=list)

    def table(self, name: str) -> list[Row]:
        """The rows of a recorded experiment."""
        self.experiments.append(name)
        with (self.root / "results" / name / "table.csv").open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))

    def printed(self, chapter: str, pattern: str) -> list[str]:
        """The groups of a pattern in what the cells of a chapter, as `01`, printed when it was made."""
        path = next((self.root / "chapters").glob(f"{chapter}_*.ipynb"))
        self.chapters.append(path.stem)
        found = re.search(pattern, printed_by(path), re.M)
        if found is None:
            said = f"chapter {int(chapter)} must have printed {pattern!r}, and has not"
            raise UnfoundedError(f"reference/myths.yml: {said}")
        return list(found.groups())


def printed_by(notebook: Path) -> str:
    """All text that the cells of a notebook printed."""
    texts = []
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        for output in cell.get("outputs", ()):
            text = output.get("text") or output.get("data", {}).get("text/plain", "")
            texts.append(text if isinstance(text, str) else "".join(text))
    return "\n".join(texts)


def has_to_hold(is_so: bool, what: str) -> None:
    """Refuse numbers that do not bear out what is said of them."""
    if not is_so:
        raise UnfoundedError(f"reference/myths.yml: the numbers must say that {what}, and no longer do")


def grouped(rows: Iterable[Row], by: str, column: str) -> dict[str, list[float]]:
    """The values of a column, group by group."""
    groups: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        groups[row[by]].append(float(row[column]))
    return groups


def signed(text: str) -> float:
    """A number with either minus sign."""
    return float(text.replace("−", "-"))


# --- chapters 1 and 2 ---------------------------------------------------------------------------------------


def lower_variance(of: Evidence) -> Numbers:
    """Chapter 1: what centring and dividing do to an estimate's spread."""
    paid, centred, divided = (
        of.printed("01", rf"^{name} +gradient \S+ +spread \S+ +ratio (\S+)")[0]
        for name in ("as paid", "minus the mean", "and divided")
    )
    low, high = of.printed("01", r"^Adam, normalised less Adam, as they are +(\S+) to (\S+)")
    has_to_hold(float(centred) < float(paid) / 2, "subtracting the mean lowers the spread")
    has_to_hold(centred == divided, "dividing changes nothing of the ratio")
    has_to_hold(signed(low) < 0 < signed(high), "the interval holds zero")
    return {"paid": paid, "centred": centred, "divided": divided, "low": low, "high": high}


def monotonic(of: Evidence) -> Numbers:
    """Chapter 2: how many of TRPO's steps make the policy worse."""
    first, second = (
        of.printed("02", rf"^{half} half: (\d+)% truly worse")[0] for half in ("first", "second")
    )
    called = of.printed("02", r"^called better by the surrogate: (\d+)%")[0]
    has_to_hold(float(second) >= 10, "a good part of the later steps makes the policy worse")
    return {"first": first, "second": second, "called": called}


# --- chapter 3 ----------------------------------------------------------------------------------------------


def clip_bounds_kl(of: Evidence) -> Numbers:
    """The largest KL of an update with one clip range, at each learning rate."""
    by_rate = grouped(of.table("clip_lr"), "lr", "approx_kl")
    rates = sorted(by_rate, key=float)
    least, most = max(by_rate[rates[0]]), max(by_rate[rates[-1]])
    has_to_hold(most > 1 and most > 100 * least, "the clip alone bounds no KL")
    return {"least": f"{least:.3f}", "most": f"{most:.1f}", "slow": rates[0], "fast": rates[-1]}


def lower_bound(of: Evidence) -> Numbers:
    """Return how often the clipped term is above the plain one, by the sign of the advantage."""
    above = {
        sign: of.printed("03", rf"^A {sign} 0   above the plain term: (\d+) times +below it: True")[0]
        for sign in "<>"
    }
    slip = of.printed("03", r"^A < 0 .*slip above it: (True|False)")[0]
    has_to_hold(set(above.values()) == {"0"}, "the clipped term is never above the plain one")
    has_to_hold(slip == "True", "the slip is no lower bound")
    return {"good": above[">"], "bad": above["<"]}


def trpo_cost(of: Evidence) -> Numbers:
    """CPU milliseconds for a thousand steps of training, method by method."""
    cost: dict[str, list[float]] = defaultdict(list)
    for row in of.table("clip_cost"):
        cost[row["case"]].append(1e6 * float(row["cpu"]) / float(row["steps"]))
    trpo, clip, plain = (median(cost[case]) for case in ("TRPO", "PPO-clip", "PPO-clip, autograd"))
    has_to_hold(trpo < clip < plain, "TRPO does not cost more than PPO")
    return {"trpo": f"{trpo:.0f}", "clip": f"{clip:.0f}", "plain": f"{plain:.0f}"}


# --- chapters 4 to 6 ----------------------------------------------------------------------------------------


def monte_carlo(of: Evidence) -> Numbers:
    """Return which share of the targets at lambda 1 contains the critic."""
    falls, _ = of.printed("04", r"^random +in (\d+)% of the targets, mean weight there (\S+)")
    stands, weight = of.printed("04", r"^good +in (\d+)% of the targets, mean weight there (\S+)")
    has_to_hold(float(stands) > 90 > 50 > float(falls), "it depends on how episodes end")
    return {"falls": falls, "stands": stands, "weight": weight}


def value_clipping(of: Evidence) -> Numbers:
    """Returns with value clipping less those without, at the end and while learning."""
    found, highs = {}, []
    for world in ("CartPole", "Acrobot", "Pendulum"):
        pattern = rf"^{world}-v1 +clipped minus unclipped: at the end {INTERVAL}, while learning {INTERVAL}"
        low, high, low_while, high_while = of.printed("05", pattern)
        found |= {f"{world}_end": f"{low} to {high}", f"{world}_while": f"{low_while} to {high_while}"}
        has_to_hold(min(signed(low), signed(low_while)) <= 0, f"value clipping does not help on {world}")
        highs.append(min(signed(high), signed(high_while)))
    has_to_hold(max(highs) < 0, "value clipping does harm in each world, at the end or on the way")
    return found


def must_normalise(of: Evidence) -> Numbers:
    """Return what a thousand times larger advantages change, and what normalising them is worth."""
    small, usual, plain = (
        of.printed("05", rf"^{name} +a thousand times larger ends elsewhere by (\S+) of the way")[0]
        for name in ("Adam, eps 1e-8", "Adam, eps 1e-5", "plain steps")
    )
    found = {"small": small, "usual": usual, "plain": f"{float(plain):.0f}"}
    case = "advantages not normalized"
    for world in ("CartPole", "Acrobot", "Pendulum"):
        pattern = rf"^{world}-v1 +{case} less the base: {INTERVAL}, while learning {INTERVAL}"
        low, high, low_while, high_while = of.printed("05", pattern)
        found |= {f"{world}_end": f"{low} to {high}", f"{world}_while": f"{low_while} to {high_while}"}
        has_to_hold(min(signed(high), signed(high_while)) < 0, f"normalising helps on {world}")
    has_to_hold(float(small) < 0.05 and float(plain) > 1, "Adam does not see the scale, and plain steps do")
    return found


def usual_range(of: Evidence) -> Numbers:
    """Returns at the clip range 0.2 over the learning rates."""
    rows = [row for row in of.table("practice_clip_lr") if float(row["clip_eps"]) == 0.2]
    means = {rate: fmean(values) for rate, values in grouped(rows, "lr", "final").items()}
    worst, best = min(means, key=means.__getitem__), max(means, key=means.__getitem__)
    fast = max(means, key=float)
    has_to_hold(means[best] > 3 * means[worst], "at a clip range of 0.2 some learning rates do not learn")
    numbers = {"worst": means[worst], "best": means[best], "fast": means[fast]}
    rates = {"worst_rate": worst, "best_rate": best, "fast_rate": fast}
    return {name: f"{value:.0f}" for name, value in numbers.items()} | rates


def no_tuning(of: Evidence) -> Numbers:
    """Return how many cells of chapter 6's maps are near the best one."""
    cells, close, useless = of.printed(
        "06", r"^(\d+) cells; within 5 % of the best: (\d+); below half of the best: (\d+)"
    )
    has_to_hold(int(close) < int(cells) / 2, "most cells are far from the best")
    return {"cells": cells, "close": close, "useless": useless}


# --- chapters 7 to 10 ---------------------------------------------------------------------------------------


def over_a_peak(of: Evidence, margin: float = 0.3) -> dict[tuple[str, str], int]:
    """Runs whose gold ends below its highest while the reward ends above, by pooling and price on the KL."""
    runs: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for row in of.table("language_overoptimisation"):
        runs[row["pooling"], row["kl_coef"], row["seed"]].append(row)
    count: dict[tuple[str, str], int] = defaultdict(int)
    for (pooling, price, _), run in runs.items():
        top, end = max(run, key=lambda row: float(row["gold"])), max(run, key=lambda row: int(row["update"]))
        fell = float(end["gold"]) < float(top["gold"]) - margin
        count[pooling, price] += fell and float(end["proxy"]) > float(top["proxy"])
    return count


def clip_holds_policy(of: Evidence) -> Numbers:
    """Return how far sixty clipped updates go without a price on the KL, and what they do to gold."""
    over = over_a_peak(of)["last", "0"]
    rows = of.table("language_overoptimisation")
    rows = [row for row in rows if row["pooling"] == "last" and row["kl_coef"] == "0"]
    updates = max(int(row["update"]) for row in rows)
    end = [row for row in rows if int(row["update"]) == updates]
    begin = [row for row in rows if int(row["update"]) == 0]
    kl, gold, before = (
        fmean(float(row[c]) for row in some) for some, c in ((end, "kl"), (end, "gold"), (begin, "gold"))
    )
    has_to_hold(gold < before and over == len(end), "gold is lost although every update was clipped")
    found = {"kl": f"{kl:.0f}", "gold": f"{gold:.1f}", "before": f"{before:.1f}"}
    return found | {"updates": str(updates), "over": str(over), "runs": str(len(end))}


def kl_mitigates(of: Evidence) -> Numbers:
    """With which prices on the KL runs go over a peak, for both kinds of reward model."""
    count = over_a_peak(of)
    prices = {"none": "0", "small": "0.03", "middle": "0.1"}
    kinds = ("last", "sum")
    found = {f"{kind}_{name}": count[kind, at] for kind in kinds for name, at in prices.items()}
    has_to_hold(found["last_small"] == 0 < found["sum_small"], "one price is enough for one kind only")
    return {name: str(value) for name, value in found.items()}


def argmax_tokens(of: Evidence) -> Numbers:
    """By how much the maximum of noisy estimates is too high."""
    largest = "actions: on average the largest estimate is"
    few, many = (of.printed("07", rf"^ *{k} {largest} (\S+)")[0] for k in (2, 50000))
    has_to_hold(float(many) > 3 * float(few), "the maximum is the more biased the more actions there are")
    return {"few": few, "many": many}


def without_critic(of: Evidence) -> Numbers:
    """Return how far GRPO's other changes turn the gradient, near the reference and away from it."""
    close = of.printed("08", r"^close 1 +\S+ +1\.0 +\S+ +\S+ +(\S+)$")[0]
    far = [of.printed("08", rf"^far {i} +\S+ +1\.0 +\S+ +\S+ +(\S+)$")[0] for i in (1, 2, 3)]
    least = min(far, key=float)
    has_to_hold(float(close) > 0.9 > float(least), "close to the reference little turns, away from it more")
    return {"close": close, "far": least}


def dpo_cannot(of: Evidence) -> Numbers:
    """Return how often DPO's own reward ranks pairs as gold does."""
    rows = of.table("language_dpo_own")
    steps = max(int(row["update"]) for row in rows)
    last = [row for row in rows if int(row["update"]) == steps]
    theirs, own = (fmean(float(row[column]) for row in last) for column in ("on_reference", "on_own"))
    has_to_hold(own < 0.5 < theirs, "on its own texts DPO's reward is worse than a coin")
    return {"theirs": f"{100 * theirs:.0f}", "own": f"{100 * own:.0f}", "steps": str(steps)}


def more_pairs(of: Evidence) -> Numbers:
    """Gold at the end with the reward model frozen, with more old pairs, and with new ones."""
    rows = of.table("language_refresh")
    updates = max(int(row["update"]) for row in rows)
    gold = grouped((row for row in rows if int(row["update"]) == updates), "judge", "gold")
    frozen, many, fresh = (fmean(gold[name]) for name in ("frozen", "many", "refreshed"))
    has_to_hold(many < frozen + 1 < fresh, "more pairs of the old policy do not help, and new ones do")
    return {"frozen": f"{frozen:.1f}", "many": f"{many:.1f}", "fresh": f"{fresh:.1f}"}


NUMBERS: dict[str, Callable[[Evidence], Numbers]] = {
    "lower-variance": lower_variance,
    "monotonic": monotonic,
    "clip-bounds-kl": clip_bounds_kl,
    "lower-bound": lower_bound,
    "trpo-cost": trpo_cost,
    "monte-carlo": monte_carlo,
    "value-clipping": value_clipping,
    "must-normalise": must_normalise,
    "usual-range": usual_range,
    "no-tuning": no_tuning,
    "clip-holds-policy": clip_holds_policy,
    "kl-mitigates": kl_mitigates,
    "argmax-tokens": argmax_tokens,
    "without-critic": without_critic,
    "dpo-cannot": dpo_cannot,
    "more-pairs": more_pairs,
}

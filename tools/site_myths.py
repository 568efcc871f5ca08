"""The page of myths; conf.py loads this file as an extension.

`{myths}` shows reference/myths.yml: the sentences, who says them, what was measured, the verdicts. The
numbers are read when the page is made. One that no longer bears its verdict out is a warning, and so an
error of the build.

Where a myth says what a chapter `printed`, as regular expressions whose groups have names, the numbers are
read by these, and what `holds` of them, as expressions, is tested. Of the others there is a function of the
myth's name. It returns the numbers, and fails where they no longer bear the verdict out. Only the standard
library is used, since the site is built without NumPy.
"""

from __future__ import annotations

import csv
import json
import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, median
from typing import Any

import yaml
from sphinx.application import Sphinx

import site_sections
from ppobook.teaching.contents import number_of
from site_sections import Page, UnfoundedError

DATA = "reference/myths.yml"

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
        """The groups of a pattern in what the cells of a chapter printed."""
        return list(self.found(chapter, pattern).groups())

    def found(self, chapter: str, pattern: str) -> re.Match[str]:
        """The match of a pattern in what the cells of a chapter, as `01`, printed when it was made."""
        path = next((self.root / "chapters").glob(f"{chapter}_*.ipynb"))
        self.chapters.append(path.stem)
        found = re.search(pattern, printed_by(path), re.M)
        if found is None:
            said = f"chapter {int(chapter)} must have printed {pattern!r}, and has not"
            raise UnfoundedError(f"reference/myths.yml: {said}")
        return found


def of_myth(name: str, myth: dict[str, Any], of: Evidence) -> Numbers:
    """Return the numbers that a myth's text asks for."""
    if "printed" not in myth:
        found: Numbers = globals()[name.replace("-", "_")](of)
        return found
    groups = [of.found(myth["chapter"], pattern).groupdict() for pattern in myth["printed"]]
    numbers = {key: value for group in groups for key, value in group.items()}
    values = {key: signed(value) for key, value in numbers.items()}
    for claim in myth["holds"]:
        has_to_hold(eval(claim, {"__builtins__": {}}, values), claim)
    return numbers


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


# --- chapter 3 ----------------------------------------------------------------------------------------------


def clip_bounds_kl(of: Evidence) -> Numbers:
    """The largest KL of an update with one clip range, at each learning rate."""
    by_rate = grouped(of.table("clip_lr"), "lr", "approx_kl")
    rates = sorted(by_rate, key=float)
    least, most = max(by_rate[rates[0]]), max(by_rate[rates[-1]])
    has_to_hold(most > 1 and most > 100 * least, "the clip alone bounds no KL")
    return {"least": f"{least:.3f}", "most": f"{most:.1f}", "slow": rates[0], "fast": rates[-1]}


def trpo_cost(of: Evidence) -> Numbers:
    """CPU milliseconds for a thousand steps of training, method by method."""
    cost: dict[str, list[float]] = defaultdict(list)
    for row in of.table("clip_cost"):
        cost[row["case"]].append(1e6 * float(row["cpu"]) / float(row["steps"]))
    trpo, clip, plain = (median(cost[case]) for case in ("TRPO", "PPO-clip", "PPO-clip, autograd"))
    has_to_hold(trpo < clip < plain, "TRPO does not cost more than PPO")
    return {"trpo": f"{trpo:.0f}", "clip": f"{clip:.0f}", "plain": f"{plain:.0f}"}


# --- chapters 4 to 6 ----------------------------------------------------------------------------------------


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


# --- the page -----------------------------------------------------------------------------------------------


def read(root: Path) -> dict[str, dict[str, Any]]:
    """Return the myths by name."""
    found: dict[str, dict[str, Any]] = yaml.safe_load((root / DATA).read_text(encoding="utf-8"))
    return found


def measured(myth: dict[str, Any], name: str, of: Evidence) -> str:
    """Return what was measured, with its numbers.

    Raises
    ------
    UnfoundedError
        The numbers are not there, or speak against the verdict.
    """
    values = {key: re.sub(r"(?<!\w)-(?=\d)", "−", value) for key, value in of_myth(name, myth, of).items()}
    # Braces also belong to roles, as in {math}`x`.
    return re.sub(r"\{(\w+)\}(?!`)", lambda found: values[found[1]], myth["measured"])


def source_of(of: Evidence) -> str:
    """Return where the numbers come from, with seeds and date, and how to get them again."""
    said = []
    for name in dict.fromkeys(of.experiments):
        facts = json.loads((of.root / "results" / name / "facts.json").read_text(encoding="utf-8"))
        when = f"{len(facts['seeds'])} seeds, {facts['date']}"
        said.append(f"`results/{name}`, {when}; again with `ppobook record {name}`")
    for chapter in dict.fromkeys(of.chapters):
        said.append(
            f"the cells of chapter {number_of(chapter)}; again with `make notebooks NAME={chapter[:2]}`"
        )
    return f"*Read from {'; and from '.join(said)}.*"


def write(page: Page, _words: str) -> list[str]:
    """`{myths}`: a table of all, and a section for each."""
    page.depend(DATA)
    table = ["| The sentence | Verdict |", "| :--- | :--- |"]
    lines: list[str] = []
    for name, myth in read(page.root).items():
        of = Evidence(page.root)
        try:
            text = measured(myth, name, of)
        except UnfoundedError as error:
            page.warn(error)
            continue
        for experiment in of.experiments:
            page.depend(f"results/{experiment}/table.csv", f"results/{experiment}/facts.json")
        page.depend(*(f"chapters/{chapter}.ipynb" for chapter in of.chapters))
        table.append(f"| [{myth['heading']}](#myth-{name}) | {myth['verdict']} |")
        lines += section_of(name, myth, text, source_of(of))
    return [*table, "", *lines]


def section_of(name: str, myth: dict[str, Any], text: str, source: str) -> list[str]:
    """A myth's lines."""
    verdict = myth["verdict"].lower()
    return [
        *(f"(myth-{name})=", f"## “{myth['heading']}”: {verdict}", ""),
        *(f"**The sentence.** {myth['sentence'].strip()}", ""),
        *(f"**Who says it.** {myth['who'].strip()}", ""),
        *(f"**Verdict: {verdict}.** {myth['because'].strip()}", ""),
        *(f"**Measured.** {text.strip()} {source}", ""),
        *(f"**In the book.** {{ref}}`{myth['section']}`", ""),
    ]


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    site_sections.add(app, "myths", write)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

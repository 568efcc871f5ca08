"""A student's feedback on one assignment: one HTML page that needs nothing else, on paper and on a phone too.

It says what was right, which mistake it was, what to think about and where to read. It never shows what would
help somebody to pass without understanding: of a hidden probe no number, of a call no argument.
"""

from __future__ import annotations

import functools
import itertools
import re
import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup

from ppobook.course.gradebook import Score
from ppobook.course.records import PackPart, Record, Sheet, Submission
from ppobook.course.safe_text import inline, plain, rendered, statement
from ppobook.course.settings import Course

FILE = Path(__file__).with_suffix(".toml")
# The verdicts in the check's own words; others may quote what the student's process says.
_ADVISED = ("right", "so far", "mistake", "property")
# What a student's own exception says might carry a probe out, so not much of it is shown.
_EXCEPTION = 160


def words(folder: Path) -> dict[str, str]:
    """Read the sentences of a page: English, and in their places those of the course's own feedback.toml."""
    english: dict[str, str] = tomllib.loads(FILE.read_text(encoding="utf-8"))
    own = folder / FILE.name
    theirs = tomllib.loads(own.read_text(encoding="utf-8")) if own.exists() else {}
    for key, sentence in theirs.items():
        braces = sorted(re.findall(r"\{\w+\}", english.get(key, "")))
        if key not in english or sorted(re.findall(r"\{\w*\}", str(sentence))) != braces:
            raise ValueError(f"{own}: {key} must be a sentence of a page with {braces or 'no braces'}")
    return {**english, **theirs}


def number(value: float, decimal: str = ".") -> str:
    """Write points, which are never negative, as one does: 3, 2.5."""
    return f"{value + 1e-9:.2f}".rstrip("0").rstrip(".").replace(".", decimal)


@dataclass(frozen=True)
class Page:
    """The page of one student, called ``name``; ``words`` are the sentences of a page.

    ``over`` is False while something that is handed in can still count; until then no rubric is shown.
    """

    course: Course
    words: Mapping[str, str]
    sheet: Sheet
    submission: Submission
    record: Record
    score: Score
    name: str
    over: bool = True

    def html(self) -> str:
        errors = [
            f"{one['place']}: {one['type']}: {one['message']}".partition("\n")[0]
            for one in self.record.result.get("errors", ())[:20]
        ]
        return _template().render(
            **{name: getattr(self, name) for name in self.__dataclass_fields__},
            late=self._late(),
            times=list(self._times()),
            errors=[Markup(plain(line, _EXCEPTION)) for line in errors],
            say=self.say,
            number=self.number,
            of=lambda points, most: self.say("of", points=self.number(points), max=self.number(most)),
            verdict=self._verdict,
        )

    def say(self, key: str, **values: Any) -> Markup:
        """Return a sentence of the page, escaped."""
        return _shown(self.words[key]).format(**{k: _shown(value) for k, value in values.items()})

    def number(self, value: float) -> str:
        return number(value, self.words["decimal"])

    def _late(self) -> Markup:
        days, share = self.submission.late_days, self.submission.share
        if self.submission.late_unknown:
            return self.say("late_perhaps" if "extended" in dict(self._times()) else "late_unknown")
        if not days:
            return self.say("in_time" if self.submission.received else "not_late")
        if share <= 0:
            return self.say("too_late")
        values = {"points": self.number(self.score.penalty), "percent": self.number(100 * (1 - share))}
        return self.say("late_one" if days == 1 else "late_many", days=days, **values)

    def _times(self) -> Iterator[tuple[str, str]]:
        due = self.submission.due or self.sheet.due
        known = {"received": self.submission.received, "extended" if due > self.sheet.due else "due": due}
        for key, time in known.items():
            if time is not None:
                local = time.astimezone(self.course.timezone)
                yield key, f"{local:%Y-%m-%d %H:%M} ({self.course.timezone.key})"

    def _verdict(self, part: PackPart) -> dict[str, Any]:
        """What a check found, in the sentences that a student may read."""
        found = self.record.parts.get(part.name, {})
        kind, name = str(found.get("kind", "")), str(found.get("mistake") or "")
        said = [str(text) for text in found.get("said", ())]
        key = kind.replace(" ", "_")
        checked = [text.partition(" — ")[0] for text in said if text[:1] in ("✓", "✗")]
        return {
            "kind": kind,
            "name": name,
            "sentence": key if key in self.words else "other",
            "what": said[0][:_EXCEPTION] if kind == "raised" and said else name,
            "checked": checked if kind in _ADVISED else [],
            # What another variant says of its numbers.
            "note": next((text for text in said if text[:1] == "("), "") if kind in _ADVISED else "",
            "advice": list(self._advice(kind, said)),
        }

    def _advice(self, kind: str, said: list[str]) -> Iterator[tuple[str, str]]:
        for paragraph in said:
            head, text = headed(paragraph)
            # What was seen on random problems is numbers of hidden probes.
            if (head in ("Think", "Read") and kind in _ADVISED) or (head == "Seen" and kind == "mistake"):
                yield head.lower(), Markup(inline(text))
            elif kind == "raised" and (line := re.search(r"in line \d+ of your cell:.*", paragraph)):
                yield "seen", Markup(plain(line[0], _EXCEPTION))


def _shown(value: Any) -> Markup:
    return value if isinstance(value, Markup) else Markup(plain(value))


def _by_title(parts: Collection[PackPart]) -> list[tuple[str, list[PackPart]]]:
    """The parts by exercise, in their order."""
    grouped = itertools.groupby(parts, lambda one: one.title or one.exercise or one.name)
    return [(title, list(own)) for title, own in grouped]


@functools.cache
def _template() -> Template:
    made = Environment(
        autoescape=True, finalize=_shown, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined
    )
    made.filters["groupby_title"] = _by_title
    made.globals |= {
        "style": Markup(FILE.with_suffix(".css").read_text(encoding="utf-8")),
        "rendered": lambda text: Markup(rendered(text)),
        "statement": lambda text: Markup(statement(text)),
    }
    return made.from_string(FILE.with_suffix(".html").read_text(encoding="utf-8"))


def headed(paragraph: str) -> tuple[str, str]:
    """Return the head of a check's paragraph, such as Seen, Think or Read, and the rest as a sentence."""
    head, _, text = paragraph.partition(": ")
    # A label of a section is for a notebook.
    text = re.sub(r" \(sec-[\w-]+\)\.$", ".", text)
    return head, text[:1].upper() + text[1:]

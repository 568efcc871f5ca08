"""A student's feedback on one assignment: one HTML page that needs nothing else, on paper and on a phone too.

It says what was right, which mistake it was, what to think about and where to read. It never shows what would
help somebody to pass without understanding: of a hidden probe no number, of a call no argument.
"""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from zoneinfo import ZoneInfo

from ppobook.course.gradebook import PartScore, Score
from ppobook.course.records import Record, Sheet, SheetPart, Submission
from ppobook.course.safe_text import inline, plain, rendered, statement

_READ = re.compile(r"chapter (\d+), (.+), “(.+)” \((sec-[\w-]+)\)\.?")
# The verdicts that have a sentence of their own.
KINDS = (
    *("right", "so_far", "not_yet", "mistake", "property"),
    *("raised", "returned", "slow", "missing", "unreadable", "ended"),
)
_SECTIONS = ("Seen", "Think", "Read")
# The verdicts in the check's own words; others may quote what the student's process says.
_ADVISED = ("right", "so far", "mistake", "property")
# What a student's own exception says might carry a probe out, so not much of it is shown.
_EXCEPTION = 160


@dataclass(frozen=True)
class Setting:
    """The data that all pages of a course share.

    Attributes
    ----------
    title : str
        The course's.
    language : str
        "en", "de", "fr" or "es".
    timezone : ZoneInfo
    site : str
        The address of the book's site; empty if there is none.
    pages : mapping from int to str
        For each chapter, the path of its page on the site.
    """

    title: str
    language: str = "en"
    timezone: ZoneInfo = field(default_factory=lambda: ZoneInfo("UTC"))
    site: str = ""
    pages: Mapping[int, str] = field(default_factory=dict)


@functools.cache
def sentences() -> dict[str, dict[str, str]]:
    """The fixed sentences, by language."""
    return tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def number(value: float, language: str = "en") -> str:
    """Points as one writes them: 3, 2.5, in German 2,5."""
    half_up = value + 1e-9 if value >= 0 else value - 1e-9
    text = f"{half_up:.2f}".rstrip("0").rstrip(".")
    return ("0" if text == "-0" else text).replace(".", sentences()[language]["decimal"])


def page(
    setting: Setting,
    sheet: Sheet,
    submission: Submission,
    record: Record,
    score: Score,
    name: str,
    *,
    over: bool = True,
    varied: Collection[str] = (),
) -> str:
    """The page of one student.

    Parameters
    ----------
    setting, sheet
    submission : Submission
        The one that counts, for the late days.
    record : Record
        What grading found.
    score : Score
        What the gradebook holds.
    name : str
        The student's.
    over : bool
        Whether nothing that is handed in from now on can count; before that no rubric is shown.
    varied : collection of str
        The parts that were handed out in another form than the book's, of which the advice speaks.
    """
    return _Page(setting, sheet, submission, record, score, over, varied).html(name)


class _Page:
    def __init__(
        self,
        setting: Setting,
        sheet: Sheet,
        submission: Submission,
        record: Record,
        score: Score,
        over: bool,
        varied: Collection[str],
    ) -> None:
        self.varied = varied
        self.setting, self.sheet, self.submission = setting, sheet, submission
        self.record, self.score, self.over = record, score, over
        self.words = sentences()[setting.language]

    def number(self, value: float) -> str:
        return number(value, self.setting.language)

    def of(self, points: float, most: float) -> str:
        return self.words["of"].format(points=self.number(points), max=self.number(most))

    def html(self, name: str) -> str:
        title = f"{self.words['feedback']}: {self.sheet.called}"
        body = "\n".join([*self.head(name), *self.exercises(), *self.errors()])
        style = Path(__file__).with_suffix(".css").read_text(encoding="utf-8")
        return (
            f'<!doctype html>\n<html lang="{self.setting.language}">\n<head>\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            '<meta name="robots" content="noindex">\n<meta name="referrer" content="no-referrer">\n'
            '<meta http-equiv="Content-Security-Policy" '
            "content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
            f"<title>{plain(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main>\n{body}\n"
            "</main>\n</body>\n</html>\n"
        )

    # --- the top ----------------------------------------------------------------------------------------

    def head(self, name: str) -> Iterator[str]:
        words = self.words
        yield f'<header>\n<p class="course">{plain(self.setting.title)}</p>'
        yield f"<h1>{plain(words['feedback'])}: {plain(self.sheet.called)}</h1>"
        yield f'<p class="student">{plain(name)} ({plain(self.score.student)})</p>'
        yield f'<p class="total">{self.of(self.score.final, self.score.max)}</p>'
        if self.score.waiting:
            yield f'<p class="note">{plain(words["unfinished"])}</p>'
        yield f'<p>{plain(self.late())}</p>\n<dl class="times">'
        due = self.submission.due or self.sheet.due
        for word, time in (("received", self.submission.received), ("due", due)):
            if time is None:  # the platform did not say it
                continue
            local = time.astimezone(self.setting.timezone)
            shown = f"{local:%Y-%m-%d %H:%M} ({self.setting.timezone.key})"
            yield f"<div><dt>{plain(words[word])}</dt><dd>{plain(shown)}</dd></div>"
        yield "</dl>"
        if len(self.submission.students) > 1:
            yield f"<p>{plain(words['group'])}</p>"
        yield from self.table()
        yield "</header>"

    def late(self) -> str:
        days, share = self.submission.late_days, self.submission.share
        if self.submission.late_unknown:
            return self.words["late_unknown"]
        if not days:
            return self.words["in_time"]
        if share <= 0:
            return self.words["too_late"].format(days=days)
        key = "late_one" if days == 1 else "late_many"
        taken = self.number(self.score.penalty)
        return self.words[key].format(days=days, points=taken, percent=self.number(100 * (1 - share)))

    def table(self) -> Iterator[str]:
        words = self.words
        yield f'<table>\n<thead><tr><th scope="col">{plain(words["part"])}</th>'
        yield f'<th scope="col">{plain(words["points"])}</th></tr></thead>\n<tbody>'
        for part, score in self.parts():
            points = "…" if score.waiting else self.number(score.points)
            yield (
                f'<tr><th scope="row"><a href="#{plain(part.name)}">{plain(part.name)}</a></th>'
                f"<td>{points} / {self.number(score.max)}</td></tr>"
            )
        yield "</tbody>\n<tfoot>"
        if self.score.penalty:
            for name, value in (("sum", self.score.points), ("", -self.score.penalty)):
                label = words[name] if name else f"−{self.number(100 * (1 - self.submission.share))} %"
                shown = self.number(value).replace("-", "−")
                yield f'<tr><th scope="row">{plain(label)}</th><td>{shown}</td></tr>'
        total = f"{self.number(self.score.final)} / {self.number(self.score.max)}"
        yield f'<tr class="sum"><th scope="row">{plain(words["total"])}</th><td>{total}</td></tr>'
        yield "</tfoot>\n</table>"

    def parts(self) -> Iterator[tuple[SheetPart, PartScore]]:
        for part in self.sheet.parts:
            if part.name in self.score.parts:
                yield part, self.score.parts[part.name]

    # --- the parts --------------------------------------------------------------------------------------

    def exercises(self) -> Iterator[str]:
        title = None
        for part, score in self.parts():
            if part.title != title:
                title = part.title
                yield f"<h2>{plain(title or part.exercise or part.name)}</h2>"
            state = "waits" if score.waiting else "full" if score.points >= score.max else "part"
            state = "none" if state == "part" and not score.points else state
            yield f'<section class="{state}" id="{plain(part.name)}">'
            points = self.words["waiting"] if score.waiting else self.of(score.points, score.max)
            yield (f'<h3><code>{plain(part.name)}</code> <span class="points">{plain(points)}</span></h3>')
            yield from self.tested(part, score) if part.role == "test" else self.read(part, score)
            if score.comment:
                yield f'<div class="comment"><h4>{plain(self.words["comment"])}</h4>'
                yield f"{rendered(score.comment)}</div>"
            yield "</section>"

    def tested(self, part: SheetPart, score: PartScore) -> Iterator[str]:
        verdict = self.record.parts.get(part.name, {})
        kind, name = str(verdict.get("kind", "")), str(verdict.get("mistake") or "")
        said = paragraphs(str(verdict.get("message") or ""))
        key = kind.replace(" ", "_")
        key = key if key in KINDS else "other"
        what = said[0].text[:_EXCEPTION] if kind == "raised" and said else name
        mark = "✓" if kind == "right" else "✗"
        before, _, after = self.words[key].partition("{what}")
        english = f'<span lang="en">{plain(what)}</span>' if before != self.words[key] else ""
        sentence = f"{plain(before)}{english}{plain(after)}"
        yield f'<p class="verdict"><span class="mark">{mark}</span> {sentence}</p>'
        if score.manual is not None:
            yield f"<p>{plain(self.words['changed'])}</p>"
        if part.name in self.varied and kind in ("mistake", "property"):
            yield f"<p>{plain(self.words['varied'])}</p>"
        yield from self.advice(kind, said)

    def advice(self, kind: str, said: list[Paragraph]) -> Iterator[str]:
        listed = [p.text.partition(" — ")[0] for p in said if p.text[:1] in ("✓", "✗")]
        if listed and kind in _ADVISED:
            yield f"<details{' open' if kind == 'property' else ''}>"
            yield f'<summary>{plain(self.words["checked"])}</summary>\n<ul class="checks" lang="en">'
            yield from (f"<li>{plain(line)}</li>" for line in listed)
            yield "</ul>\n</details>"
        rows = []
        for paragraph in said:
            # What was seen on random problems is numbers of hidden probes.
            if paragraph.head == "Seen" and kind == "mistake":
                rows.append(("seen", f'<span lang="en">{inline(paragraph.text)}</span>'))
            elif paragraph.head == "Think" and kind in _ADVISED:
                rows.append(("think", f'<span lang="en">{inline(paragraph.text)}</span>'))
            elif paragraph.head == "Read" and kind in _ADVISED:
                rows.append(("read", self.where(paragraph.text)))
            elif kind == "raised" and (line := re.search(r"in line \d+ of your cell:.*", paragraph.text)):
                rows.append(("seen", f'<span lang="en">{plain(line[0], _EXCEPTION)}</span>'))
        if rows:
            yield '<dl class="advice">'
            yield from (
                f"<div><dt>{plain(self.words[key])}</dt><dd>{value}</dd></div>" for key, value in rows
            )
            yield "</dl>"

    def where(self, text: str) -> str:
        found = _READ.fullmatch(text)
        if not found:
            return f'<span lang="en">{plain(text)}</span>'
        chapter, title, heading, label = found.groups()
        shown = plain(self.words["section"].format(number=chapter, title=title, heading=heading))
        path = self.setting.pages.get(int(chapter))
        if not (self.setting.site and path):
            return shown
        return f'<a href="{plain(self.setting.site.rstrip("/"))}/{plain(path)}#{plain(label)}">{shown}</a>'

    def read(self, part: SheetPart, score: PartScore) -> Iterator[str]:
        text = self.record.text(part.name)
        if not text.strip():
            yield f"<p>{plain(self.words['nothing'])}</p>"
        else:
            yield f"<details>\n<summary>{plain(self.words['your_answer'])}</summary>"
            yield f'<div class="answer">{rendered(text)}</div>\n</details>'
        if part.rubric and (score.waiting or not self.over):
            yield f"<p>{plain(self.words['rubric_later'])}</p>"
        elif part.rubric:
            yield f"<details>\n<summary>{plain(self.words['rubric'])}</summary>"
            yield f'<div class="rubric" lang="en">{statement(part.rubric)}</div>\n</details>'

    def errors(self) -> Iterator[str]:
        """The cells that stopped: where, and the error's class and first line."""
        found = list(self.record.result.get("errors", ()))[:20]
        if not found:
            return
        yield f'<h2>{plain(self.words["errors"])}</h2>\n<ul class="errors">'
        for error in found:
            line = f"{error['place']}: {error['type']}: {error['message']}".partition("\n")[0]
            yield f'<li lang="en">{plain(line, _EXCEPTION)}</li>'
        yield "</ul>"


@dataclass(frozen=True)
class Paragraph:
    """One paragraph of a check's message; ``head`` is "Seen", "Think", "Read" or empty."""

    head: str
    text: str


def paragraphs(message: str) -> list[Paragraph]:
    """Return the text below the headline of a check's message, with its broken lines joined."""
    joined: list[str] = []
    for line in message.splitlines()[1:]:
        if re.match(r"  \S", line) or not joined:
            joined.append(line.strip())
        else:
            joined[-1] += f" {line.strip()}"
    found = []
    for text in joined:
        head, _, rest = text.partition(": ")
        # It follows a heading on the page, so it begins as a sentence does.
        own = rest[:1].upper() + rest[1:] if head in ("Seen", "Think") else rest
        found.append(Paragraph(head, own) if head in _SECTIONS else Paragraph("", text))
    return found

"""A student's feedback on one assignment: one HTML page that needs nothing else, on paper and on a phone too.

It says what was right, which mistake it was, what to think about and where to read. It never shows what would
help somebody to pass without understanding: of a hidden probe no number, of a call no argument.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from zoneinfo import ZoneInfo

from ppobook.course.gradebook import PartScore, Score
from ppobook.course.records import Record, Sheet, SheetPart, Submission
from ppobook.course.safe_text import inline, plain, rendered, statement

FILE = Path(__file__).with_suffix(".toml")
_READ = re.compile(r"chapter (\d+), (.+), “(.+)” \((sec-[\w-]+)\)\.?")
# The verdicts in the check's own words; others may quote what the student's process says.
_ADVISED = ("right", "so far", "mistake", "property")
# What a student's own exception says might carry a probe out, so not much of it is shown.
_EXCEPTION = 160


def words(folder: Path) -> dict[str, str]:
    """Read the sentences of a page: English, and in their places those of the course's own feedback.toml."""
    english: dict[str, str] = tomllib.loads(FILE.read_text(encoding="utf-8"))
    own = folder / FILE.name
    try:
        theirs = tomllib.loads(own.read_text(encoding="utf-8")) if own.exists() else {}
    except ValueError as error:
        raise ValueError(f"{own} must be TOML, got an error: {error}") from None
    for key, sentence in theirs.items():
        braces = sorted(re.findall(r"\{\w+\}", english.get(key, "")))
        if key not in english or sorted(re.findall(r"\{\w*\}", str(sentence))) != braces:
            raise ValueError(f"{own}: {key} must be a sentence of a page with {braces or 'no braces'}")
    return {**english, **theirs}


def number(value: float, decimal: str = ".") -> str:
    """Write points as one does: 3, 2.5."""
    half_up = value + 1e-9 if value >= 0 else value - 1e-9
    text = f"{half_up:.2f}".rstrip("0").rstrip(".")
    return ("0" if text == "-0" else text).replace(".", decimal)


@dataclass(frozen=True)
class Setting:
    """The data that all pages of a course share.

    ``words`` are the sentences of a page, ``site`` is the address of the book's site or empty, and ``pages``
    has for each chapter the path of its page there.
    """

    title: str
    words: Mapping[str, str]
    timezone: ZoneInfo = field(default_factory=lambda: ZoneInfo("UTC"))
    site: str = ""
    pages: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Page:
    """The page of one student, called ``name``.

    ``over`` is False while something that is handed in can still count; until then no rubric is shown.
    ``varied`` are the parts that were handed out in another form than the book's, of which the advice speaks.
    """

    setting: Setting
    sheet: Sheet
    submission: Submission
    record: Record
    score: Score
    name: str
    over: bool = True
    varied: Collection[str] = ()

    def say(self, key: str, **values: str) -> str:
        """Return a sentence of the page, escaped."""
        return plain(self.setting.words[key].format(**values))

    def number(self, value: float) -> str:
        return number(value, self.setting.words["decimal"])

    def of(self, points: float, most: float) -> str:
        return self.say("of", points=self.number(points), max=self.number(most))

    def html(self) -> str:
        body = "\n".join([*self._head(), *self._exercises(), *self._errors()])
        style = FILE.with_suffix(".css").read_text(encoding="utf-8")
        return (
            f'<!doctype html>\n<html lang="{self.say("language")}">\n<head>\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            '<meta name="robots" content="noindex">\n<meta name="referrer" content="no-referrer">\n'
            '<meta http-equiv="Content-Security-Policy" '
            "content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">\n"
            f"<title>{self._title()}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main>\n{body}\n"
            "</main>\n</body>\n</html>\n"
        )

    def _title(self) -> str:
        return f"{self.say('feedback')}: {plain(self.sheet.called)}"

    # --- the top ----------------------------------------------------------------------------------------

    def _head(self) -> Iterator[str]:
        yield f'<header>\n<p class="course">{plain(self.setting.title)}</p>'
        yield f"<h1>{self._title()}</h1>"
        yield f'<p class="student">{plain(self.name)} ({plain(self.score.student)})</p>'
        if self.score.excused:
            yield f'<p class="note">{self.say("excused", reason=self.score.excused)}</p>'
        yield f'<p class="total">{self.of(self.score.final, self.score.max)}</p>'
        if self.score.waiting:
            yield f'<p class="note">{self.say("unfinished")}</p>'
        yield f'<p>{self._late()}</p>\n<dl class="times">'
        due = self.submission.due or self.sheet.due
        times = {"extended" if due > self.sheet.due else "due": due}
        if self.submission.received is not None:
            times = {"received": self.submission.received, **times}
        for key, time in times.items():
            local = time.astimezone(self.setting.timezone)
            shown = f"{local:%Y-%m-%d %H:%M} ({self.setting.timezone.key})"
            yield f"<div><dt>{self.say(key)}</dt><dd>{plain(shown)}</dd></div>"
        yield "</dl>"
        if len(self.submission.students) > 1:
            yield f"<p>{self.say('group')}</p>"
        yield from self._table()
        yield "</header>"

    def _late(self) -> str:
        days, share = self.submission.late_days, self.submission.share
        if self.submission.late_unknown:
            return self.say("late_unknown")
        if not days:
            return self.say("in_time")
        if share <= 0:
            return self.say("too_late", days=str(days))
        values = {"points": self.number(self.score.penalty), "percent": self.number(100 * (1 - share))}
        return (
            self.say("late_one", **values) if days == 1 else self.say("late_many", days=str(days), **values)
        )

    def _table(self) -> Iterator[str]:
        yield f'<table>\n<thead><tr><th scope="col">{self.say("part")}</th>'
        yield f'<th scope="col">{self.say("points")}</th></tr></thead>\n<tbody>'
        for part, score in self._parts():
            points = "…" if score.waiting else "–" if score.excused else self.number(score.points)
            yield (
                f'<tr><th scope="row"><a href="#{plain(part.name)}">{plain(part.name)}</a></th>'
                f"<td>{points} / {self.number(score.max)}</td></tr>"
            )
        yield "</tbody>\n<tfoot>"
        if self.score.penalty:
            yield f'<tr><th scope="row">{self.say("sum")}</th><td>{self.number(self.score.points)}</td></tr>'
            percent = self.number(100 * (1 - self.submission.share))
            yield f'<tr><th scope="row">−{percent} %</th><td>−{self.number(self.score.penalty)}</td></tr>'
        total = f"{self.number(self.score.final)} / {self.number(self.score.max)}"
        yield f'<tr class="sum"><th scope="row">{self.say("total")}</th><td>{total}</td></tr>'
        yield "</tfoot>\n</table>"

    def _parts(self) -> Iterator[tuple[SheetPart, PartScore]]:
        for part in self.sheet.parts:
            yield part, self.score.parts[part.name]

    # --- the parts --------------------------------------------------------------------------------------

    def _exercises(self) -> Iterator[str]:
        title = None
        for part, score in self._parts():
            if part.title != title:
                title = part.title
                yield f"<h2>{plain(title or part.exercise or part.name)}</h2>"
            state = "waits" if score.waiting else "full" if score.points >= score.max else "part"
            state = "none" if state == "part" and not score.points else state
            yield f'<section class="{state}" id="{plain(part.name)}">'
            points = self.say("waiting") if score.waiting else self.of(score.points, score.max)
            yield f'<h3><code>{plain(part.name)}</code> <span class="points">{points}</span></h3>'
            if score.reason:
                key = "part_excused" if score.excused else "changed"
                yield f'<p class="note">{self.say(key, reason=score.reason)}</p>'
            yield from self._tested(part, score) if part.role == "test" else self._read(part, score)
            if score.comment:
                yield f'<div class="comment"><h4>{self.say("comment")}</h4>{rendered(score.comment)}</div>'
            yield "</section>"

    def _tested(self, part: SheetPart, score: PartScore) -> Iterator[str]:
        verdict = self.record.parts.get(part.name, {})
        kind, name = str(verdict.get("kind", "")), str(verdict.get("mistake") or "")
        said = paragraphs(str(verdict.get("message") or ""))
        what = said[0][1][:_EXCEPTION] if kind == "raised" and said else name
        key = kind.replace(" ", "_")
        before, braces, after = self.setting.words.get(key, self.setting.words["other"]).partition("{what}")
        english = f'<span lang="en">{plain(what)}</span>' if braces else ""
        mark = "✓" if kind == "right" else "✗"
        sentence = f"{plain(before)}{english}{plain(after)}"
        yield f'<p class="verdict"><span class="mark">{mark}</span> {sentence}</p>'
        if kind == "mistake" and name in part.partial:
            yield f"<p>{self.say('partial', percent=self.number(100 * part.partial[name]))}</p>"
        if part.name in self.varied and kind in ("mistake", "property"):
            yield f"<p>{self.say('varied')}</p>"
        listed = [text.partition(" — ")[0] for _, text in said if text[:1] in ("✓", "✗")]
        if listed and kind in _ADVISED:
            yield f"<details{' open' if kind == 'property' else ''}>"
            yield f'<summary>{self.say("checked")}</summary>\n<ul class="checks" lang="en">'
            yield from (f"<li>{plain(line)}</li>" for line in listed)
            yield "</ul>\n</details>"
        if rows := list(self._advice(kind, said)):
            yield '<dl class="advice">'
            yield from (f"<div><dt>{self.say(word)}</dt><dd>{value}</dd></div>" for word, value in rows)
            yield "</dl>"

    def _advice(self, kind: str, said: list[tuple[str, str]]) -> Iterator[tuple[str, str]]:
        for head, text in said:
            # What was seen on random problems is numbers of hidden probes.
            if (head == "Seen" and kind == "mistake") or (head == "Think" and kind in _ADVISED):
                yield head.lower(), f'<span lang="en">{inline(text)}</span>'
            elif head == "Read" and kind in _ADVISED:
                yield "read", self._where(text)
            elif kind == "raised" and (line := re.search(r"in line \d+ of your cell:.*", text)):
                yield "seen", f'<span lang="en">{plain(line[0], _EXCEPTION)}</span>'

    def _where(self, text: str) -> str:
        found = _READ.fullmatch(text)
        if not found:
            return f'<span lang="en">{plain(text)}</span>'
        chapter, title, heading, label = found.groups()
        shown = self.say("section", number=chapter, title=title, heading=heading)
        path = self.setting.pages.get(int(chapter))
        if not (self.setting.site and path):
            return shown
        return f'<a href="{plain(self.setting.site.rstrip("/"))}/{plain(path)}#{plain(label)}">{shown}</a>'

    def _read(self, part: SheetPart, score: PartScore) -> Iterator[str]:
        text = self.record.text(part.name)
        if text.strip():
            yield f"<details>\n<summary>{self.say('your_answer')}</summary>"
            yield f'<div class="answer">{rendered(text)}</div>\n</details>'
        else:
            yield f"<p>{self.say('cell_missing' if part.name in self.record.missing else 'nothing')}</p>"
            if score.waiting:
                yield f"<p>{self.say('unclear')}</p>"
        if part.rubric and (score.waiting or not self.over):
            yield f"<p>{self.say('rubric_later')}</p>"
        elif part.rubric:
            yield f"<details>\n<summary>{self.say('rubric')}</summary>"
            yield f'<div class="rubric" lang="en">{statement(part.rubric)}</div>\n</details>'

    def _errors(self) -> Iterator[str]:
        """The cells that stopped: where, and the error's class and first line."""
        found = list(self.record.result.get("errors", ()))[:20]
        if found:
            yield f'<h2>{self.say("errors")}</h2>\n<ul class="errors">'
            for error in found:
                line = f"{error['place']}: {error['type']}: {error['message']}".partition("\n")[0]
                yield f'<li lang="en">{plain(line, _EXCEPTION)}</li>'
            yield "</ul>"


def paragraphs(message: str) -> list[tuple[str, str]]:
    """Return the paragraphs below a check's headline, each with its head: Seen, Think, Read or none."""
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
        found.append((head, own) if head in ("Seen", "Think", "Read") else ("", text))
    return found

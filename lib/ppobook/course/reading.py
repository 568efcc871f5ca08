"""Reading course.yml: every value with its place, so that a message can name the line and the key.

Scalars stay the text that was written, and whoever asks says what they are: `no` can be a student, `007` an
id.
Keys that stand twice and aliases, which can make a small file large, are refused.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Any, TypeVar

import yaml

from ppobook import validation
from ppobook.run.spellings import did_you_mean

T = TypeVar("T")

_UNITS = {"minute": 60, "hour": 3600, "day": 86400}
_DURATION = re.compile(rf"(\d+)\s*({'|'.join(_UNITS)})s?")
_MOMENT = re.compile(r"(\d{4}-\d{2}-\d{2})(?:[ T](\d{1,2}:\d{2}))?")


@dataclass(frozen=True)
class Value:
    """One value of the file: a text, a list of values, a mapping of values, or None where nothing stands.

    ``place`` is its name in messages, "assignments[0].due"; ``line`` counts from 1, and ``last`` is its last.
    An option of a command is one without a file.
    """

    content: Any
    place: str
    line: int
    last: int
    file: str = ""

    def wrong(self, expected: str, hint: str = "") -> ValueError:
        """The error that says what must stand here."""
        return self.error(f"must be {expected}, got {self.shown()}{hint}")

    def error(self, said: str) -> ValueError:
        """An error that begins with the file, the line and the key."""
        where = f"{self.file}, line {self.line}: " if self.file else ""
        return ValueError(f"{where}{self.place or 'it'} {said}")

    def shown(self) -> str:
        """Describe the present value, for a message."""
        if self.content is None:
            return "nothing"
        if isinstance(self.content, str):
            return repr(self.content)
        return "a list" if isinstance(self.content, list) else "a mapping"

    # --- what it is -----------------------------------------------------------------------------------------

    def mapping(self, known: Collection[str] | None = None, needed: Collection[str] = ()) -> dict[str, Value]:
        """The values by key; with ``known``, no other keys are allowed."""
        keys = f", with the keys {', '.join(known)}" if known else ""
        if not isinstance(self.content, dict):
            raise self.wrong(f"a mapping{keys}")
        for key, value in self.content.items():
            if known is not None and key not in known:
                hint = did_you_mean(key, known) or f"; the keys are {', '.join(known)}"
                where = f" in {self.place}" if self.place else ""
                raise ValueError(f"{self.file}, line {value.line}: there is no key {key!r}{where}{hint}")
        for key in needed:
            if key not in self.content or self.content[key].content is None:
                raise self.error(f"must have the key {key!r}, which is missing")
        return {key: value for key, value in self.content.items() if value.content is not None}

    def items(self) -> list[Value]:
        """The values of a list; nothing is an empty one."""
        if self.content is None:
            return []
        if not isinstance(self.content, list):
            raise self.wrong("a list")
        return self.content

    def text(self, what: str = "a text") -> str:
        """A text that is not empty."""
        if not isinstance(self.content, str) or not self.content.strip():
            raise self.wrong(what)
        return self.content.strip()

    def matching(self, pattern: str, what: str, *, secret: bool = False) -> str:
        """A text of this form; one that is secret is not repeated in the message."""
        text = self.text(what)
        if not re.fullmatch(pattern, text):
            raise self.error(f"must be {what}, got others") if secret else self.wrong(what)
        return text

    def choice(self, known: Collection[str]) -> str:
        """One of these texts."""
        text = self.text(validation.one_of(list(known)))
        if text not in known:
            raise self.wrong(validation.one_of(list(known)), did_you_mean(text, known))
        return text

    def number(self, *, low: float = 0, high: float = math.inf) -> float:
        """A finite number from ``low`` to ``high``."""
        expected = f"a number of at least {low:g}" if high == math.inf else f"a number in [{low:g}, {high:g}]"
        text = self.text(expected)
        # float() would also take "nan", "inf" and "1_0".
        if not re.fullmatch(r"-?\d+(\.\d+)?", text) or not low <= float(text) <= high:
            raise self.wrong(expected)
        return float(text)

    def count(self, *, low: int = 0) -> int:
        """An integer of at least ``low``."""
        text = self.text(f"an integer of at least {low}")
        if not re.fullmatch(r"\d{1,12}", text) or int(text) < low:
            raise self.wrong(f"an integer of at least {low}")
        return int(text)

    def day(self) -> date:
        """A day."""
        moment, _ = self._moment("a date such as 2027-03-01", with_time=False)
        return moment

    def moment(self) -> datetime:
        """A day and a time, without a time zone; the end of the day where no time stands."""
        day, clock = self._moment("a date and time such as 2027-03-01 23:59", with_time=True)
        return datetime.combine(day, clock or time(23, 59))

    def _moment(self, expected: str, *, with_time: bool) -> tuple[date, time | None]:
        found = _MOMENT.fullmatch(self.text(expected))
        if found is None or (found[2] and not with_time):
            raise self.wrong(expected)
        try:
            clock = time.fromisoformat(found[2].zfill(5)) if found[2] else None
            return date.fromisoformat(found[1]), clock
        except ValueError:  # the 30th of February
            raise self.wrong(expected) from None

    def duration(self) -> timedelta:
        """A time span: 15 minutes, 1 hour, 2 days."""
        expected = "a time such as 15 minutes, 1 hour or 2 days"
        text = self.text(expected)
        if text == "0":
            return timedelta()
        found = _DURATION.fullmatch(text)
        if found is None or len(found[1]) > 5:
            raise self.wrong(expected)
        return timedelta(seconds=int(found[1]) * _UNITS[found[2]])


def optional(values: dict[str, Value], key: str, read: Callable[[Value], T], default: T) -> T:
    """Return a key's value as `read` parses it; the default where there is none."""
    return read(values[key]) if key in values else default


def listed(values: dict[str, Value], key: str) -> list[Value]:
    """The values of a key's list; none where there is no such key."""
    return values[key].items() if key in values else []


def parse(text: str, file: str) -> Value:
    """The values of a YAML text.

    Raises
    ------
    ValueError
        It is no YAML, has a key twice, or an alias.
    """
    try:
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            if isinstance(event, yaml.AliasEvent):
                line = f", line {event.start_mark.line + 1}" if event.start_mark else ""
                raise ValueError(f"{file}{line}: an alias (*{event.anchor}) must be written out")
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f", line {mark.line + 1}" if mark else ""
        raise ValueError(f"{file}{line}: it must be YAML; {error.problem or error.context}") from None
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError(f"{file}: it must be YAML; {' '.join(str(error).split())}") from None
    if node is None:
        raise ValueError(f"{file}: it must have a title, a term and assignments, got an empty file")
    return _value(node, "", file)


def _value(node: Any, place: str, file: str) -> Value:
    line = node.start_mark.line + 1
    # The mark stands behind the last token: for a block, at the line that follows.
    last = node.end_mark.line + (node.end_mark.column > 0)
    content: Any
    if isinstance(node, yaml.MappingNode):
        content = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise ValueError(f"{file}, line {key.start_mark.line + 1}: a key must be a text")
            if key.value in content:
                raise ValueError(
                    f"{file}, line {key.start_mark.line + 1}: the key {key.value!r} must stand once, and "
                    f"stands in line {content[key.value].line} already"
                )
            content[key.value] = _value(value, f"{place}.{key.value}".lstrip("."), file)
    elif isinstance(node, yaml.SequenceNode):
        content = [_value(one, f"{place}[{i}]", file) for i, one in enumerate(node.value)]
    else:
        content = None if node.tag == "tag:yaml.org,2002:null" else node.value
    return Value(content, place, line, last, file)

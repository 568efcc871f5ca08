"""Entry quizzes: a few questions, whose answers say which sections to read.

A quiz lives in `quizzes/NAME.yml`. In a notebook, `quiz("NAME")` shows it: where a script runs, question by
question with a reading list at the end; where none does, as a plain list whose answers are folded.
"""

from __future__ import annotations

import html
import re
from dataclasses import asdict, dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

import yaml

from ppobook import _reads

if TYPE_CHECKING:
    from pathlib import Path

    from ppobook.teaching.figures import Figure

_FOLDER: Final = resources.files("ppobook.teaching") / "quizzes"


@dataclass(frozen=True)
class Option:
    """One answer on offer. `because` says why it is right, or which ideas it mixes up."""

    text: str
    because: str
    right: bool = False
    section: str = ""


@dataclass(frozen=True)
class Question:
    """A question, the section that it stands for, and four or so answers of which one is right."""

    id: str
    ask: str
    section: str
    options: tuple[Option, ...]


@dataclass(frozen=True)
class Quiz:
    """Questions, and the headings of the sections that they can send a reader to."""

    name: str
    chapter: str
    sections: dict[str, str]
    questions: tuple[Question, ...]

    def state(self) -> dict[str, Any]:
        """Return the data of the interactive version as plain lists and dictionaries."""
        return {
            "sections": [{"label": label, "title": title} for label, title in self.sections.items()],
            "questions": [asdict(question) for question in self.questions],
        }

    def to_html(self) -> str:
        """The quiz for a page without a script: answers are folded, and nothing marks the right option."""
        items: list[str] = []
        for question in self.questions:
            options = "".join(f"<li>{_inline(option.text)}</li>" for option in question.options)
            remarks = "".join(
                f"<li><strong>{'Right' if option.right else 'Not quite'}: {_inline(option.text)}.</strong> "
                f"{_inline(option.because)}</li>"
                for option in question.options
            )
            items.append(
                f"<li><p>{_inline(question.ask)}</p><ul>{options}</ul>"
                f"<details><summary>Answer to question {len(items) + 1}</summary><ul>{remarks}</ul>"
                f"<p>To read: {html.escape(self.sections[question.section])}.</p></details></li>"
            )
        return f'<div class="ppobook-quiz-plain"><ol>{"".join(items)}</ol></div>'

    def to_text(self) -> str:
        """The bare questions, each with its section."""
        return "\n".join(
            f"{number}. {question.ask}  [{self.sections[question.section]}]"
            for number, question in enumerate(self.questions, start=1)
        )


def quiz(name: str) -> Figure:
    """The quiz of `quizzes/NAME.yml`, to stand as the last line of a code cell.

    Raises
    ------
    ValueError
        No such quiz, or an invalid one.
    """
    from ppobook.teaching.figures import Figure

    loaded = load_quiz(name)
    return Figure("quiz", loaded.state(), alt=f"Entry quiz.\n{loaded.to_text()}", plain=loaded.to_html())


def load_quiz(name: str) -> Quiz:
    """Read `quizzes/NAME.yml`.

    Raises
    ------
    ValueError
        No such quiz, or an invalid one: the message names the question.
    """
    files = {item.name.removesuffix(".yml"): item for item in _FOLDER.iterdir() if item.name.endswith(".yml")}
    if not isinstance(name, str) or name not in files:
        raise ValueError(f"name must be one of {', '.join(sorted(files))}, got {name!r}")
    path: Path = _reads.note(str(files[name]))
    return parse_quiz(yaml.safe_load(path.read_text(encoding="utf-8")), name)


def parse_quiz(content: Any, name: str) -> Quiz:
    """Make a `Quiz` from the content of its YAML file, and validate it."""
    sections = dict(content["sections"])
    questions = []
    for entry in content["questions"]:
        where = f"quiz {name}, question {entry.get('id', '?')}"
        unknown = set(entry) - {"id", "ask", "section", "options"}
        if unknown:
            raise ValueError(
                f"{where} must have only the keys id, ask, section, options, got {sorted(unknown)}"
            )
        options = []
        for option in entry["options"]:
            unknown = set(option) - {"text", "because", "right", "section"}
            if unknown:
                raise ValueError(
                    f"{where}: an option must have only the keys text, because, right, section, got "
                    f"{sorted(unknown)}"
                )
            if not isinstance(option.get("text"), str) or not option["text"].strip():
                raise ValueError(f"{where}: the text of an option must be a quoted string, got {option}")
            if not str(option.get("because", "")).strip():
                raise ValueError(f"{where}: because must say why option {option['text']!r} is right or wrong")
            options.append(Option(**{"section": entry["section"], **option}))
        if sum(option.right for option in options) != 1:
            raise ValueError(
                f"{where}: exactly one option must be right, got {sum(o.right for o in options)}"
            )
        for label in {entry["section"], *(option.section for option in options)} - set(sections):
            raise ValueError(f"{where}: section must be one of {', '.join(sections)}, got {label!r}")
        questions.append(Question(entry["id"], entry["ask"], entry["section"], tuple(options)))
    return Quiz(name, content["chapter"], sections, tuple(questions))


def _inline(text: str) -> str:
    """Escape a text for HTML; what stands between backticks becomes code, between asterisks emphasis."""
    parts = []
    for part in re.split(r"(`[^`]+`|\*[^*]+\*)", text):
        tag = {"`": "code", "*": "em"}.get(part[:1] if len(part) > 2 and part[0] == part[-1] else "")
        parts.append(f"<{tag}>{html.escape(part[1:-1])}</{tag}>" if tag else html.escape(part))
    return "".join(parts)

"""Entry quizzes: a few questions, whose answers say which sections to read.

A quiz lives in `quizzes/NAME.yml`. In a notebook, `quiz("NAME")` shows it: where a script runs, question by
question with a reading list at the end; where none does, as a plain list whose answers are folded.
"""

from __future__ import annotations

import html
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml

from ppobook import _reads
from ppobook.teaching.decks import inline

if TYPE_CHECKING:
    from ppobook.teaching.figures import Figure

_FOLDER: Final = Path(__file__).with_name("quizzes")


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
            options = "".join(f"<li>{inline(option.text)}</li>" for option in question.options)
            remarks = "".join(
                f"<li><strong>{'Right' if option.right else 'Not quite'}: {inline(option.text.rstrip('.'))}."
                f"</strong> {inline(option.because)}</li>"
                for option in question.options
            )
            items.append(
                f"<li><p>{inline(question.ask)}</p><ul>{options}</ul>"
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
    """The quiz of `quizzes/NAME.yml`, to stand as the last line of a code cell."""
    from ppobook.teaching.figures import Figure

    loaded = load_quiz(name)
    return Figure("quiz", loaded.state(), alt=f"Entry quiz.\n{loaded.to_text()}", plain=loaded.to_html())


def load_quiz(name: str) -> Quiz:
    """Read `quizzes/NAME.yml`."""
    if name not in names():
        raise ValueError(f"name must be one of {', '.join(names())}, got {name!r}")
    content = yaml.safe_load(_reads.note(_FOLDER / f"{name}.yml").read_text(encoding="utf-8"))
    questions = []
    for entry in content["questions"]:
        options = (Option(**{"section": entry["section"], **option}) for option in entry.pop("options"))
        questions.append(Question(**entry, options=tuple(options)))
    return Quiz(name, content["chapter"], content["sections"], tuple(questions))


def names() -> list[str]:
    """The names of all quizzes."""
    return sorted(path.stem for path in _FOLDER.glob("*.yml"))

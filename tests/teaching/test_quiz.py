"""The entry quizzes: sound questions, an explanation for every wrong answer, sections that exist."""

import copy
import re
from importlib import resources
from pathlib import Path

import pytest
import yaml

from ppobook import _reads
from ppobook.teaching.questions import load_quiz, parse_quiz, quiz

ROOT = Path(__file__).parents[2]
FOLDER = resources.files("ppobook.teaching") / "quizzes"
NAMES = sorted(item.name.removesuffix(".yml") for item in FOLDER.iterdir() if item.name.endswith(".yml"))


def headings(chapter: str) -> dict[str, str]:
    """Section label -> heading, of a chapter's source."""
    text = (ROOT / f"{chapter}.md").read_text(encoding="utf-8")
    return dict(re.findall(r"^\(([\w-]+)\)=\n#+ (.+)$", text, flags=re.MULTILINE))


@pytest.mark.parametrize("name", NAMES)
def test_sections_exist_under_the_heading_that_the_quiz_gives(name):
    quiz = load_quiz(name)
    found = headings(quiz.chapter)
    assert quiz.sections.items() <= found.items()
    assert {question.section for question in quiz.questions} == set(quiz.sections), (
        "a section without a question"
    )


@pytest.mark.parametrize("name", NAMES)
def test_one_right_option_and_a_reason_for_each(name):
    questions = load_quiz(name).questions
    assert len({question.id for question in questions}) == len(questions)
    for question in questions:
        assert sum(option.right for option in question.options) == 1, question.id
        assert len({option.text for option in question.options}) == len(question.options) >= 3, question.id
        for option in question.options:
            assert len(option.because) > 30, (question.id, option.text)


def test_showing_a_quiz_notes_what_it_read_and_keeps_a_plain_version(monkeypatch):
    monkeypatch.setenv("PPOBOOK_BUILD", "1")
    shown = quiz("00_setting_out")
    assert any(path.endswith("quizzes/00_setting_out.yml") for path in _reads.paths)
    data, _ = shown._repr_mimebundle_()
    assert data["text/html"] == load_quiz("00_setting_out").to_html()
    assert not any("widget" in kind for kind in data)


GOOD = yaml.safe_load(
    """
    chapter: chapters/x
    sections: {sec-a: A}
    questions:
      - id: one
        section: sec-a
        ask: "1 + 1 < 3, or is `a * b` *not* 2?"
        options:
          - {text: "2", because: so it is, right: true}
          - {text: "3", because: that is 1 + 2}
    """
)


def test_texts_are_escaped_and_their_marks_turned_into_tags():
    html = parse_quiz(GOOD, "x").to_html()
    assert "1 + 1 &lt; 3, or is <code>a * b</code> <em>not</em> 2?" in html


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda q: q["options"][0].pop("right"), "exactly one option must be right, got 0"),
        (lambda q: q["options"][1].update(right=True), "exactly one option must be right, got 2"),
        (lambda q: q["options"][1].pop("because"), "because must say why option '3'"),
        (lambda q: q["options"][1].update(text=3), "must be a quoted string, got"),
        (lambda q: q["options"][1].update(hint="no"), r"must have only the keys .*, got \['hint'\]"),
        (lambda q: q["options"][1].update(section="sec-b"), "section must be one of sec-a, got 'sec-b'"),
        (lambda q: q.update(section="sec-b"), "section must be one of sec-a, got 'sec-b'"),
        (lambda q: q.update(answer=1), r"must have only the keys .*, got \['answer'\]"),
    ],
)
def test_a_quiz_that_would_mislead_is_refused_with_the_question_named(spoil, message):
    content = copy.deepcopy(GOOD)
    spoil(content["questions"][0])
    with pytest.raises(ValueError, match=message) as caught:
        parse_quiz(content, "x")
    assert "quiz x, question one" in str(caught.value)

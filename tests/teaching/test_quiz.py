"""The entry quizzes: sound questions, an explanation for every wrong answer, sections that exist."""

import re
from pathlib import Path

import pytest

from ppobook import _reads
from ppobook.teaching.questions import Option, Question, Quiz, load_quiz, names, quiz

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", names())
def test_sections_exist_under_the_heading_that_the_quiz_gives(name):
    quiz = load_quiz(name)
    text = (ROOT / f"{quiz.chapter}.md").read_text(encoding="utf-8")
    headings = dict(re.findall(r"^\(([\w-]+)\)=\n#+ (.+)$", text, flags=re.MULTILINE))
    assert quiz.sections.items() <= headings.items()
    assert {question.section for question in quiz.questions} == set(quiz.sections)
    options = [option for question in quiz.questions for option in question.options]
    assert {option.section for option in options} <= set(quiz.sections)


@pytest.mark.parametrize("name", names())
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
    data, _ = quiz("00_setting_out")._repr_mimebundle_()
    assert any(path.endswith("quizzes/00_setting_out.yml") for path in _reads.paths)
    assert data["text/html"] == load_quiz("00_setting_out").to_html()
    assert not any("widget" in kind for kind in data)


def test_texts_are_escaped_and_their_marks_turned_into_tags():
    ask = "1 + 1 < 3, or is `a * b` *not* 2?"
    question = Question("one", ask, "sec-a", (Option("2", "so it is", True, "sec-a"),))
    html = Quiz("x", "chapters/x", {"sec-a": "A"}, (question,)).to_html()
    assert "1 + 1 &lt; 3, or is <code>a * b</code> <em>not</em> 2?" in html

"""Feedback pages: what they say, in four languages, and what they never say."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from made_up_class import DUE, MISTAKE, SHEET, grade_one

from ppobook.course import feedback
from ppobook.course.feedback import Setting
from ppobook.course.gradebook import PartScore, Score
from ppobook.course.records import Record, Submission
from ppobook.course.safe_text import plain, rendered

SETTING = Setting(
    "Policy optimization",
    timezone=ZoneInfo("Europe/Berlin"),
    site="https://book.example/",
    pages={3: "chapters/03_the_clipped_surrogate.html"},
)
HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "![x](http://evil.example/x.png)",
    "[x](javascript:alert(1))",
    "<http://evil.example>",
    "[x]\n\n[x]: http://evil.example",
    "$</span><script>alert(1)</script>$",
    "$$\n\\href{javascript:alert(1)}{x}\n</div>\n$$",
    "$\\text{<script>alert(1)</script>}$",
    "$\\mbox{<img src=x onerror=alert(1)>} \\style{color:red}{x} \\class{answer}{x}$",
    "$\\operatorname{<script>}\\tag{<script>}$",
    '{math}`\\text{"><script>alert(1)</script>}`',
    "\\begin{align}\n\\text{<script>} & \\unicode{60}script>\n\\end{align}",
    "```html\n</code></pre><script>alert(1)</script>\n```",
    "|<b>|\n|-|\n|<script>|",
    "</main></body></html>",
    "\x00\x1b[2J\ud800",
]


MATHEMATICS = {"math", "mrow", "mi", "mo", "mn", "mtext", "mstyle", "msub", "mtable", "mtr", "mtd"}
LAYOUT = {"xmlns", "display", "aria-label", "displaystyle", "scriptlevel", "columnalign", "columnspacing"} | {
    *("rowspacing", "mathvariant", "stretchy")
}


class Alive(HTMLParser):
    """The elements and addresses of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.addresses: set[str] = set()
        self.attributes: set[str] = set()
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.addresses |= {value for name, value in attrs if name in ("href", "src", "action")}


def page(setting: Setting = SETTING, *, name: str = "Ada Lovelace", late: int = 0, **answer: Any) -> str:
    import json

    result = grade_one(json.dumps(answer).encode(), "ada")
    result["errors"] = [
        {"place": "cell 7", "type": "NameError", "message": message} for message in answer.get("errors", ())
    ]
    record = Record("week-03", "ada", "ada", "sha", DUE.isoformat(), "pack-1", {}, "1", result=result)
    parts = {}
    for part in SHEET.parts:
        auto = result["parts"].get(part.name, {}).get("points")
        parts[part.name] = PartScore(part.max, auto, None, answer.get("comment", ""), auto is None)
    if "mark" in answer:
        parts["hunt-minmax-why"] = replace(parts["hunt-minmax-why"], manual=answer["mark"], waiting=False)
    points = sum(part.points for part in parts.values())
    share = max(0, 1 - late / 10)
    score = Score("ada", DUE, parts, points * (1 - share))
    submission = Submission(answer.get("students", ("ada",)), "ada", Path(), DUE, late, share)
    over, varied = answer.get("over", True), answer.get("varied", ())
    return feedback.page(setting, SHEET, submission, record, score, name, over=over, varied=varied)


def test_the_rubric_is_there_once_it_is_marked_and_all_is_handed_in():
    assert "Model answer and rubric" in page(mark=2.5, text="It is min.")
    for early in (page(text="It is min."), page(mark=2.5, text="It is min.", over=False)):
        assert "Model answer and rubric" not in early
        assert "follow when this answer is marked and nothing can be handed in any more" in early


def text(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", html.partition("<body>")[2]))


def test_it_says_what_was_right_and_which_mistake_it_was_and_where_to_read():
    html = page(**{"clipped-loss": 0}, mark=2.5, text="It is `min`.", comment="Good.", late=1)
    said = text(html)
    assert "Ada Lovelace (ada)" in said
    assert "4.95 of 10 points" in said
    assert "One day late: 0.55 points (10 %) are taken off." in said
    assert "2027-03-01 23:59 (Europe/Berlin)" in said
    assert "Not right yet. The mistake is a known one: old_logp is not detached" in said
    assert "The old policy is the anchor. Who may move it?" in said
    link = "https://book.example/chapters/03_the_clipped_surrogate.html#sec-short-ppo"
    assert f'<a href="{link}">Chapter 3, The clipped surrogate, “PPO in fifty lines”</a>' in html
    assert "✓ Right." in said
    assert "2.5 of 3 points" in said
    assert "It is <code>min</code>." in html
    assert "It never comes back. (2 points.)" in said
    assert "Good." in said


def test_of_a_variant_the_advice_is_said_to_be_about_the_books_form():
    said = feedback.sentences()["en"]["varied"]
    assert said in text(page(varied=("clipped-loss",), **{"clipped-loss": 0}))
    assert said not in text(page(varied=("hunt-minmax",), **{"clipped-loss": 0}))


def test_without_a_site_the_section_is_named():
    html = page(replace(SETTING, site=""), **{"clipped-loss": 0})
    assert "Chapter 3, The clipped surrogate, “PPO in fifty lines”" in html
    assert not [address for address in Alive(html).addresses if not address.startswith("#")]


def test_what_is_not_marked_yet_is_said_to_come():
    assert "Some answers are not marked yet" in page(text="It is min.")
    assert "Some answers" not in page(mark=0)
    assert "Nothing was written." in page(text=" ")


def test_a_group_is_not_named():
    html = page(students=("ada", "bob"))
    assert "Your group handed in one submission" in html
    assert "bob" not in html


@pytest.mark.parametrize("language", feedback.sentences())
def test_the_sentences_of_all_languages_are_the_same(language):
    english, theirs = feedback.sentences()["en"], feedback.sentences()[language]
    assert set(theirs) == set(english)
    for key, sentence in english.items():
        assert sorted(re.findall(r"\{\w+\}", theirs[key])) == sorted(re.findall(r"\{\w+\}", sentence)), key
    html = page(replace(SETTING, language=language), mark=1, late=3, **{"clipped-loss": 0.5})
    assert f'<html lang="{language}">' in html
    if language != "en":
        assert "3,15" in text(html)
        same = [key for key in english if english[key] == theirs[key]]
        assert set(same) <= {"points", "total", "decimal", "section", "comment"}, same


@pytest.mark.parametrize("kind", [*feedback.KINDS, "new kind"])
def test_every_verdict_has_its_sentence(kind):
    verdict = (kind.replace("_", " "), "its name", "✗ Headline\n  A paragraph.")
    said = unescape(text(page(verdicts={"clipped-loss": verdict})))
    assert feedback.sentences()["en"].get(kind, "Not right yet.").partition("{")[0] in said


def test_numbers_of_hidden_probes_are_not_shown():
    failed = (
        "property",
        "agrees with the slow definition",
        "✗ Not right; this fails: agrees with the slow definition\n  Seen: for shape [3, 7] yours gives"
        " 0.4711.\n  ✓ a scalar — 0.4712\n  ✗ agrees with the slow definition\n"
        "  Read: chapter 3, The clipped surrogate, “PPO in fifty lines” (sec-short-ppo).",
    )
    raised = (
        "raised",
        "ValueError",
        "✗ Your function stopped with an exception\n  ValueError: " + "0.4713 " * 100 + "\n  It happened in"
        " line 3 of your cell:\n        raise ValueError(logp)\n  It was called with (tensor([0.4714])).",
    )
    html = page(verdicts={"clipped-loss": failed, "hunt-minmax": raised})
    assert "agrees with the slow definition" in html
    assert "✓ a scalar" in html
    assert "raise ValueError(logp)" in html
    assert not re.search(r"0\.471[124]", html)
    assert html.count("0.4713") < 25


@pytest.mark.parametrize("hostile", HOSTILE)
def test_a_students_text_does_nothing(hostile):
    usual = Alive(
        page(
            text="A **text** $x_1$.\n\n```\nx\n```\n\n|a|\n|-|\n|b|\n\n> q\n\n- l",
            errors=["E"],
            mark=1,
            comment="c",
        )
    )
    kind = ("raised", hostile, f"✗ Your function stopped\n  {hostile}")
    html = page(
        name=hostile, text=hostile, errors=[hostile], verdicts={"clipped-loss": kind}, comment=hostile, mark=1
    )
    found = Alive(html)
    assert found.tags <= usual.tags | {"h1", "h2", "h3"} | MATHEMATICS
    assert found.attributes <= usual.attributes | {"class", "start", "open"} | LAYOUT
    assert found.addresses <= usual.addresses
    html.encode()


def test_markdown_and_formulas_are_rendered_and_links_are_text():
    html = rendered(
        "**Yes**, $a_1 < b_2$ and {ref}`ex-one`, see [here](http://x.example).\n\n$$\nx_i * y_i\n$$"
    )
    assert "<strong>Yes</strong>" in html
    assert "<mo>&lt;</mo><msub><mi>b</mi><mn>2</mn></msub>" in html
    assert "<code>ex-one</code>" in html
    assert "[here](http://x.example)" in html
    assert re.search(r'<math aria-label="x_i \* y_i" [^>]*display="block"', html)
    assert "<code>\\left(</code>" in rendered("What is $\\left($ for?")
    assert "<mi>γ</mi>" in rendered("A discount {math}`\\gamma`.")
    assert len(rendered("x" * 100_000)) < 21_000
    assert plain("<b>") == "&lt;b&gt;"


def test_a_checks_message_is_read_back():
    found = feedback.paragraphs(MISTAKE)
    assert [p.head for p in found] == ["Seen", "Think", "Read"]
    assert found[0].text.endswith("ratio could also be raised by making the old policy less sure.")
    assert found[2].text.endswith("(sec-short-ppo).")

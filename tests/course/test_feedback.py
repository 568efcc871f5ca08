"""Feedback pages: what they say, what they never say, and the zip that a platform takes back."""

import json
import re
import time
import zipfile
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from made_up_class import COURSE, DUE, MISTAKE, SHEET, grade_one

from ppobook.course import feedback, handed_in
from ppobook.course.feedback import Page
from ppobook.course.gradebook import PartScore, Score
from ppobook.course.records import Record, Submission
from ppobook.course.safe_text import rendered

WORDS = feedback.words(Path())
WHY = "hunt-minmax-why"
HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "![x](http://evil.example/x.png) ![x](picture:0) ![x](data:image/svg+xml;base64,AAAA)",
    "[x](javascript:alert(1)) <http://evil.example>",
    "[x]\n\n[x]: http://evil.example",
    "$$\n\\href{javascript:alert(1)}{x}\n</div>\n$$",
    "$\\text{<script>alert(1)</script>}$",
    "$\\mbox{<img src=x onerror=alert(1)>} \\style{color:red}{x} \\class{answer}{x}$",
    '{math}`\\text{"><script>alert(1)</script>}`',
    "\\begin{align}\n\\text{<script>} & \\unicode{60}script>\n\\end{align}",
    "```html\n</code></pre><script>alert(1)</script>\n```",
    "|<b>|\n|-|\n|<script>|",
    "</main></body></html>\x00\x1b[2J\ud800",
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


def page(words: Any = WORDS, *, name: str = "Ada Lovelace", late: int = 0, **answer: Any) -> str:
    result = grade_one(json.dumps(answer, default=str).encode(), "ada")
    result["errors"] = [
        {"place": "cell 7", "type": "NameError", "message": message} for message in answer.get("errors", ())
    ]
    record = Record("week-03", "ada", "sha", "pack-1", {}, result=result)
    parts = {}
    for part in SHEET.parts:
        auto = result["parts"].get(part.name, {}).get("points")
        parts[part.name] = PartScore(part.points, auto, comment=answer.get("comment", ""))
    parts[WHY] = replace(parts[WHY], manual=answer.get("mark"))
    parts |= {name: replace(parts[name], **facts) for name, facts in answer.get("corrected", {}).items()}
    share = max(0, 1 - late / 10)
    score = Score("ada", parts, share, answer.get("excused", ""))
    submission = Submission(answer.get("students", ("ada",)), "ada", Path(), DUE, late, share)
    submission = replace(submission, **answer.get("submission", {}))
    loss = replace(SHEET.parts[0], partial=answer.get("partial", {}))
    sheet = replace(SHEET, title=answer.get("title", ""), parts=(loss, *SHEET.parts[1:]))
    return Page(COURSE, words, sheet, submission, record, score, name, answer.get("over", True)).html()


def text(html: str) -> str:
    return unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", html.partition("<body>")[2])))


def test_it_says_what_was_right_and_which_mistake_it_was_and_where_to_read():
    facts = {"clipped-loss": 0, "mark": 2.5, "text": "It is `min`.", "comment": "Good.", "title": "Sheet 3"}
    html = page(**facts, late=1)
    said = text(html)
    assert "Feedback: Sheet 3 Ada Lovelace (ada)" in said
    assert "4.95 of 10 points" in said
    assert "One day late: 0.55 points (10 %) are taken off." in said
    assert "Due 2027-03-01 23:59 (Europe/Berlin)" in said
    assert "Not right yet. The mistake is a known one: old_logp is not detached" in said
    assert "The old policy is the anchor. Who may move it?" in said
    assert "Chapter 3, The clipped surrogate (PPO-clip), “PPO in fifty lines”" in said
    assert "✓ Right." in said
    assert "2.5 of 3 points" in said
    assert "It is <code>min</code>." in html
    assert "It never comes back. (2 points.)" in said
    assert "Good." in said
    assert WORDS["errors"] not in said
    assert not [address for address in Alive(html).addresses if not address.startswith("#")]


RUBRIC, LATER = WORDS["rubric"], WORDS["rubric_later"]
ELSEWHERE = f"{WORDS['cell_missing']} {WORDS['unclear']} Your answer Cell 9: It is I."


@pytest.mark.parametrize(
    ("answer", "there", "absent"),
    [
        ({"text": "It is min."}, LATER, RUBRIC),
        ({"text": "It is min."}, "Some answers are not marked yet", RUBRIC),
        ({"mark": 2.5, "over": False}, LATER, RUBRIC),
        ({"mark": 2.5}, RUBRIC, LATER),
        ({"partial": {"old_logp is not detached": 0.25}, "clipped-loss": 0}, "This mistake leaves 25 %", ""),
        ({"corrected": {WHY: {"manual": 3, "reason": "not clear"}}}, "points of this part: not clear", ""),
        (
            {"corrected": {WHY: {"excused": True, "reason": "no"}}},
            "the others count as much more: no",
            "0 of 3",
        ),
        ({"excused": "joined later"}, "excused from this assignment: joined later", ""),
        ({"submission": {"received": None, "late_unknown": True}}, WORDS["late_unknown"], "Handed in"),
        ({"submission": {"late_unknown": True, "due": DUE.replace(day=4)}}, WORDS["late_perhaps"], ""),
        ({"submission": {"received": None}}, WORDS["not_late"], "In time"),
        ({"submission": {"due": DUE.replace(day=4)}}, "Due, with your extension 2027-03-04 23:59", ""),
        ({"text": " "}, "Nothing was written.", ""),
        ({"missing": [WHY]}, WORDS["cell_missing"], "Your answer"),
        ({"missing": [WHY], "unclear": ["Cell 9: It is I."]}, ELSEWHERE, WORDS["nothing"]),
        ({"verdicts": {"clipped-loss": ("mistake", "a", [*MISTAKE, "(A = 3)"])}}, "(A = 3)", ""),
        ({"students": ("ada", "bob")}, "Your group handed in one submission", "bob"),
        ({"errors": ["name 'x' is not defined\nhere"]}, "cell 7: NameError: name 'x' is not defined", "here"),
    ],
)
def test_what_it_says_of_a_submission(answer, there, absent):
    said = text(page(**answer))
    assert there in said
    assert not absent or absent not in said


def test_the_sentences_can_be_translated(tmp_path):
    (tmp_path / "feedback.toml").write_text(
        'language = "de"\ndecimal = ","\nof = "{points} von {max} Punkten"\n'
    )
    html = page(feedback.words(tmp_path), mark=0.5)
    assert '<html lang="de">' in html
    assert "7,5 von 10 Punkten" in html
    for wrong in ('of = "{points} von {most}"', 'zzz = "x"'):
        (tmp_path / "feedback.toml").write_text(wrong)
        with pytest.raises(ValueError, match=r"feedback\.toml"):
            feedback.words(tmp_path)


def test_numbers_of_hidden_probes_are_not_shown():
    seen = ["Seen: for shape [3, 7] yours gives 0.4711.", "✓ a scalar — 0.4712", MISTAKE[-1]]
    said = ["It happened in line 3 of your cell: raise ValueError(logp)", "It was called with (0.4714)."]
    verdicts = {
        "clipped-loss": ("property", "agrees with the slow definition", seen),
        "hunt-minmax": ("raised", "ValueError", [f"ValueError: {'0.4713 ' * 100}", *said]),
    }
    html = page(verdicts=verdicts)
    assert "agrees with the slow definition" in html
    assert "✓ a scalar" in html
    assert "raise ValueError(logp)" in html
    assert not re.search(r"0\.471[124]", html)
    assert html.count("0.4713") < 25


@pytest.mark.parametrize("hostile", HOSTILE)
def test_a_students_text_does_nothing(hostile):
    markdown = "A **text** $x_1$.\n\n```\nx\n```\n\n|a|\n|-|\n|b|\n\n> q\n\n- l"
    usual = Alive(page(text=markdown, errors=["E"], mark=1, comment="c"))
    kind = ("raised", hostile, [hostile])
    html = page(
        name=hostile, text=hostile, errors=[hostile], verdicts={"clipped-loss": kind}, comment=hostile, mark=1
    )
    found = Alive(html)
    assert found.tags <= usual.tags | {"h1", "h2", "h3"} | MATHEMATICS
    assert found.attributes <= usual.attributes | {"class", "start", "open"} | LAYOUT
    assert found.addresses <= usual.addresses
    html.encode()


@pytest.mark.parametrize(
    "piece", ["`", "{a}`", "{a}``", "[a](", "![a", "*a ", "$a ", "> ", "|", "\\begin{align}\n", "<img "]
)
def test_no_text_takes_long(piece):
    began = time.process_time()
    assert len(rendered("{a}" + piece * (20_000 // len(piece)))) < 1_000_000
    assert time.process_time() - began < 5


def test_markdown_and_formulas_are_rendered_and_links_are_text():
    html = rendered("**Yes**, $a_1 < b_2$ and {ref}`ex-one`, see [here](http://x.example).\n\n$$\nx * y\n$$")
    assert "<strong>Yes</strong>" in html
    assert "<mo>&lt;</mo><msub><mi>b</mi><mn>2</mn></msub>" in html
    assert "<code>ex-one</code>" in html
    assert "[here](http://x.example)" in html
    assert re.search(r'<math [^>]*display="block" aria-label="x \* y"', html)
    assert "<code>\\left(</code>" in rendered("What is $\\left($ for?")
    assert "<mi>γ</mi>" in rendered("A discount {math}`\\gamma`.")
    assert "x [… the rest is not shown]" in rendered("x" * 100_000)


# --- giving it back -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "label", "place"),
    [
        ("Ada Lovelace_4711_assignsubmission_file_/week-03.ipynb", "Ada Lovelace_4711", None),
        ("Ada Lovelace_4711_assignsubmission_file_week-03.ipynb", "Ada Lovelace_4711", None),
        ("Ada Lovelace_4711_assignsubmission_file/week-03.ipynb", "Ada Lovelace_4711", None),
        ("lovelaceada_101_5512_week-03-1.ipynb", "lovelaceada_101", "lovelaceada_101_5512_week-03.html"),
        ("lovelaceada_LATE_101_5512_a_b.zip", "lovelaceada_101", "lovelaceada_LATE_101_5512_week-03.html"),
        ("anon_x7Qd2_5512_week-03.ipynb", "anon_x7Qd2", "anon_x7Qd2_5512_week-03.html"),
    ],
)
def test_a_page_gets_the_name_by_which_the_platform_finds_the_student(tmp_path, name, label, place):
    with zipfile.ZipFile(tmp_path / "download.zip", "w") as archive:
        archive.writestr(name, "{}")
        archive.writestr(name.replace("Ada", "Bob").replace("lovelaceada", "bob").replace("x7", "y7"), "{}")
    (tmp_path / "page.html").write_text("<p>Ada's")
    out = tmp_path / "out.zip"
    left = handed_in.zipped(tmp_path / "download.zip", {label: tmp_path / "page.html"}, out, "week-03.html")
    assert len(left) == 1
    with zipfile.ZipFile(out) as archive:
        assert archive.namelist() == [place or "Ada Lovelace_4711_assignsubmission_file_week-03.html"]
        assert archive.read(archive.namelist()[0]) == b"<p>Ada's"

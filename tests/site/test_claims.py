"""The claims ledger: marks in the chapters hold, and a mark that does not hold is a warning of the build."""

from __future__ import annotations

import contextlib
import functools
import html
import io
import json
import re
from pathlib import Path

import pytest
from sphinx_process import sphinx

from claims import numbers, text
from claims.backing import Chapter

ROOT = Path(__file__).resolve().parents[2]
CHAPTERS = sorted((ROOT / "chapters").glob("*.md"))


@functools.cache
def chapter(path: Path) -> Chapter:
    found = Chapter(path, path.with_suffix(".ipynb"))
    with contextlib.redirect_stdout(io.StringIO()):
        found.recompute()
    return found


# --- the book -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem[:2])
def test_what_stands_behind_each_marked_sentence_says_it(path: Path) -> None:
    known = chapter(path)
    assert known.marked
    wrong = {s.text: found.wrong for s in known.marked if (found := known.backing(s)).wrong}
    assert wrong == {}
    assert known.text.stray == 0
    assert any(known.backing(sentence).recomputed for sentence in known.marked)


# --- marks and numbers --------------------------------------------------------------------------------------


def test_marks_without_a_sentence_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "01_small.md"
    path.write_text(
        "# Small <!-- claim: a -->\n\n| x <!-- claim: c --> |\n\n"
        "It is 3.\n<!-- claim: d --> It is 4. <!-- claim: d --> <!-- claim: e -->\n\n"
        "It is 7. <!-- claim: h\n\n## Cards\n\nIt is 8. <!-- claim: i -->\n",
        encoding="utf-8",
    )
    read = text.read(path)
    assert read.stray == 4
    marks = {s.text: s.mark.expressions for s in read.sentences if s.mark}
    assert marks == {"It is 3.": ("d",), "It is 4.": ("d", "e")}


def test_a_mark_belongs_to_the_sentence_before_it() -> None:
    paragraph = (
        "It has 3 rows, e.g. these. **It ends at 492.** <!-- claim: ends; apart[1]; set 10, 0.2 --> And on."
    )
    (first, none), (second, mark), (third, _) = text.split(paragraph)
    assert (first, none) == ("It has 3 rows, e.g. these.", None)
    assert second == "**It ends at 492.**"
    assert mark == text.Mark(("ends", "apart[1]"), (10.0, 0.2))
    assert third == "And on."


@pytest.mark.parametrize(
    ("sentence", "values", "says"),
    [
        ("It earns 492.", [491.6], True),
        ("It earns 492.", [490.9], False),
        ("The interval is −15 to 216.", [-14.8, 216.3], True),
        ("About 7 samples in 100 are outside.", [0.0712], True),
        ("62 % against 75 %.", [0.62, 0.748], True),
        ("Three of ten seeds fell.", [3, 10], True),
        ("It is more than a third.", [0.41], True),
        ("It costs a quarter more.", [1.26], True),
        ("One update in nine went that far.", [0.112], True),
        ("It is five times as large.", [5.2], True),
        ("The gain is -0.5.", [0.52], False),
        ("It holds 12 %.", [0.12], True),
        ("A share of 0.12 is outside.", [12.0], False),
        ("It takes 1,234 steps.", [1235], False),
        ("It is about 3.", [3.6], False),
        ("Twenty-five fell.", [25], True),
        ("It rises tenfold.", [10.8], True),
        ("In chapter 3 {ref}`sec-3` and `x3` say {math}`3`.", [], True),
    ],
)
def test_numbers_in_digits_and_words(sentence: str, values: list[float], says: bool) -> None:
    assert all(numbers.says(number, values) for number in numbers.in_sentence(sentence)) is says


# --- a small book -------------------------------------------------------------------------------------------

CELLS = [
    'from ppobook import results\nruns = results("clip_cost")\nworst = runs["cpu"].max()\nworst',
    "guess = [len('abc')]\nlength = sum(guess) + 4.5\nprint(length)",
    "assert worst < 1e6 and length > 7",
]
SOURCE = """---
jupytext: 1
---

# Small

(sec-small)=
## A part

Five seeds are in the table. <!-- claim: runs["seed"].nunique() --> It is 7.5 long. <!-- claim: length -->

""" + "\n\n".join(f"```{{code-cell}} ipython3\n{cell}\n```" for cell in CELLS)
CONF = """
import site_hooks
extensions = ["myst_nb", "site_claims"]
include_patterns = ["index.md", "chapters/*.ipynb"]
nb_execution_mode = "off"
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
def setup(app):
    app.add_config_value("book_meta", {"chapters": {"chapters/01_small": {"title": "Small"}}}, "env")
    app.add_config_value("book_repository", "", "env")
    app.add_role("source", site_hooks.source_role)
"""


def write(folder: Path, source: str = SOURCE) -> None:
    (folder / "chapters").mkdir(exist_ok=True)
    (folder / "conf.py").write_text(CONF, encoding="utf-8")
    (folder / "index.md").write_text("# Book\n\n```{claims}\n```\n\n```{toctree}\nchapters/01_small\n```\n")
    (folder / "chapters/01_small.md").write_text(source, encoding="utf-8")
    if not (folder / "results").exists():
        (folder / "results").symlink_to(ROOT / "results")
    prose = source.partition("# Small")[2].partition("```")[0]
    cells = [{"cell_type": "markdown", "id": "a", "metadata": {}, "source": f"# Small{prose}"}]
    for number, cell in enumerate(CELLS):
        out = [{"output_type": "stream", "name": "stdout", "text": "7.5\n"}] if "print" in cell else []
        code = {"cell_type": "code", "execution_count": 1, "metadata": {}, "outputs": out, "source": cell}
        cells.append({**code, "id": f"c{number}"})
    kernel = {"kernelspec": {"name": "python3", "display_name": "P", "language": "python"}}
    notebook = {"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}
    (folder / "chapters/01_small.ipynb").write_text(json.dumps(notebook), encoding="utf-8")


def said(folder: Path, source: str) -> list[str]:
    write(folder, source)
    known = chapter(folder / "chapters/01_small.md")
    return [wrong for sentence in known.marked for wrong in known.backing(sentence).wrong]


@pytest.mark.parametrize(
    ("old", "new", "wrong"),
    [
        ("Five seeds", "Five seeds", None),
        ("Five seeds", "Six seeds", "it says 'Six', and what stands behind it does not"),
        ("It is 7.5", "It is 7.6", "it says '7.6', and what stands behind it does not"),
        ("claim: length", "claim: breadth", "its mark names 'breadth', which the chapter's"),
        ("worst < 1e6", "runs['cpu'].max() < 0", "AssertionError"),
        ('"clip_cost"', '"clip_price"', "name must be a recorded experiment"),
        ('runs["cpu"]', 'runs["seconds"]', "KeyError 'seconds'"),
        ('claim: runs["seed"].nunique()', 'claim: runs["seeds"].nunique()', "KeyError 'seeds'"),
        ('runs["seed"].nunique()', 'results("clip_cost")["seed"].nunique()', None),
        ('runs["seed"].nunique()', 'len(facts("clip_cost")["seeds"])', None),
        ("claim: length", "claim: length; set 7.5", None),
        ("claim: length", "claim: set 7.5", "no table, assertion or output stands behind it"),
        ("It is 7.5 long", "It is −7.5 long", "it says '−7.5', and what stands behind it does not"),
    ],
)
def test_a_mark_that_does_not_hold_is_found(tmp_path: Path, old: str, new: str, wrong: str | None) -> None:
    assert old in SOURCE
    found = said(tmp_path, SOURCE.replace(old, new))
    assert found == [] if wrong is None else any(wrong in sentence for sentence in found)


def test_the_page_shows_each_claim_and_no_page_shows_a_mark(tmp_path: Path) -> None:
    pytest.importorskip("site_claims", reason="Sphinx is not installed")
    write(tmp_path, SOURCE.replace("It is 7.5", "It is 7.6"))
    done = sphinx(tmp_path, "--keep-going", "-q", ".", "html")
    assert done.returncode != 0
    assert re.findall(r"WARNING: (.*)", done.stderr) == [
        "it says '7.6', and what stands behind it does not: 'It is 7.6 long.'"
    ]
    page = (tmp_path / "html/index.html").read_text(encoding="utf-8")
    shown = " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())
    assert "Five seeds are in the table." in shown
    assert "1 · Small 2 sentences" in shown
    assert page.count('<details class="claims-of">') == 1
    assert "5 seeds, 100 to 104 · recorded 2026-" in shown
    assert "computed again by this build" in shown
    assert "python results/clip_cost/run.py make notebooks NAME=01" in shown
    assert 'href="chapters/01_small.html#sec-small"' in page
    small = (tmp_path / "html/chapters/01_small.html").read_text(encoding="utf-8")
    assert "It is 7.6 long." in small
    assert "claim:" not in small

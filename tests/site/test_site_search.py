"""The index of the search, without building the site."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
site_search = pytest.importorskip("site_search", reason="Sphinx is not installed")

PAGE = r"""<nav>Sidebar</nav><article class="bd-article"><section id="clip">
<h1>3 The clip<a class="headerlink" href="#clip">#</a></h1><p>It limits
<span class="math">\(\varepsilon_t \le 0.2\)</span>.</p>
<section id="sec-loss"><h2><span class="section-number">3.1 </span>A loss</h2><p class="minutes">5 minutes</p>
<div class="cell"><div class="cell_input"><pre>secret = 1</pre></div></div><p>For <em>good</em> actions.</p>
<script>alert(1)</script></section></section></article><footer>Footer</footer>"""


def test_a_page_is_taken_apart_into_sections() -> None:
    top, section = site_search.entries_of_page("chapters/03_clipped_value_loss", PAGE)
    assert top == [
        "chapters/03_clipped_value_loss.html",
        "3 The clip",
        "3 The clip",
        "chapter",
        "It limits ε_t ≤ 0.2.",
        "clipped value loss cvl",
    ]
    address, title, page, kind, text, words = section
    assert address == "chapters/03_clipped_value_loss.html#sec-loss"
    assert (title, page, kind, words) == ("3.1 A loss", "3 The clip", "chapter-section", "")
    assert text == "For good actions."


def test_a_symbol_a_word_and_a_card_are_found_by_themselves() -> None:
    page = r"""<article class="bd-article"><section id="a"><h1>Notation</h1><p>Look here.</p><table>
    <tr><th>symbol</th></tr><tr id="symbol-x-R_t"><td>\(R_t\)</td><td>the target</td></tr></table>
    <p>After.</p>
    <dl><dt id="term-nat">nat<a class="headerlink" href="#term-nat">#</a></dt><dd><p>A unit.</p></dd></dl>
    <div class="flash-card"><details id="card-1"><summary>Why?</summary><div><p>So.</p><pre>x = 1</pre></div>
    </details></div><p>The end.</p></section></article>"""
    found = site_search.entries_of_page("reference/notation", page)
    assert [entry[0].partition("#")[2] for entry in found] == ["", "symbol-x-R_t", "term-nat", "card-1"]
    assert [entry[1] for entry in found] == ["Notation", "R_t", "nat", "Why?"]
    assert [entry[3] for entry in found] == ["at-hand", "word", "word", "card"]
    assert [entry[4] for entry in found] == [
        "Look here. symbol After. The end.",
        "the target",
        "A unit.",
        "So.",
    ]


@pytest.mark.parametrize(
    ("tex", "plain"),
    [
        (r"\(\pi_\theta(a \mid s)\)", "π_θ(a | s)"),
        (r"\[\min\left(r_t, 1\right)\]", "min(r_t, 1)"),
        (r"\(\frac{1}{2} (V - R)^2\)", "1/2 (V - R)^2"),
        (r"\(\frac{c_{t+1}}{\sqrt{n}}\)", "(c_(t+1))/(√n)"),
        (r"\[\int_0^1 \log u \; n u^{n-1}\, du\]", "∫_0^1 log u n u^(n-1) du"),
        (r"\(\underbrace{p(s)}_{\text{world}}\)", "p(s)"),
    ],
)
def test_formulas_are_put_in_plain_letters(tex: str, plain: str) -> None:
    assert site_search.readable(tex).replace(" ", "") == plain.replace(" ", "")

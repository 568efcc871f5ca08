"""What keeps pages light, without building the site."""

from __future__ import annotations

from pathlib import Path

import pytest

site_light = pytest.importorskip("site_light", reason="Sphinx is not installed")
tinycss2 = pytest.importorskip("tinycss2")

STYLES = ("a11y-high-contrast-light", "a11y-high-contrast-dark")


def test_words_in_the_ordinary_colour_have_no_mark_up() -> None:
    plain = site_light.plain_classes(*STYLES)
    assert {"n", "p"} <= plain
    assert not {"k", "s1", "c1", "nb"} & plain
    listing = (
        '<pre><span></span><span class="k">def</span> <span class="n">f</span><span class="p">()</span></pre>'
    )
    assert site_light.without_plain_spans(listing, plain) == '<pre><span class="k">def</span> f()</pre>'


def test_pictures_are_fetched_when_near_and_keep_their_room(tmp_path: Path) -> None:
    drawn = tmp_path / "a.svg"
    drawn.write_text(
        '<?xml version="1.0"?>\n<svg width="300pt" height="75.4pt" viewBox="0 0 1 1">', encoding="utf-8"
    )
    assert site_light.size_of(drawn) == (400, 101)
    others = '<img src="data:image/png;base64,a"><img loading="eager" src="b.png">'
    page = f'<img alt="x" src="../_images/a.svg">{others}'
    changed = site_light.fetch_when_near(page, {"a.svg": (400, 101)})
    assert changed == f'<img loading="lazy" width="400" height="101" alt="x" src="../_images/a.svg">{others}'


def test_the_size_of_a_png_is_read() -> None:
    assert site_light.size_of(Path(__file__).parents[2] / "_static" / "social.png") == (1200, 630)


@pytest.mark.parametrize(
    ("css", "kept"),
    [
        (".used{a:b}", ".used{a:b}"),
        (".unused{a:b}", ""),
        (".unused,.used p{a:b}", ".used p{a:b}"),
        ("#place .used{a:b}", "#place .used{a:b}"),
        ("#nowhere .used{a:b}", ""),
        (".used:not(.unused){a:b}", ".used:not(.unused){a:b}"),
        ('p > a[href^=".x"]{a:b}', 'p > a[href^=".x"]{a:b}'),
        ("@media print{.used{a:b}.unused{c:d}}", "@media print{.used{a:b}}"),
        ("@media print{.unused{c:d}}", ""),
        ("@font-face{src:url(x)}", "@font-face{src:url(x)}"),
        (":root{--x:#abc}", ":root{--x:#abc}"),
    ],
)
def test_rules_that_can_match_nothing_go(css: str, kept: str) -> None:
    rules = tinycss2.parse_stylesheet(css, skip_comments=True, skip_whitespace=True)
    assert site_light.needed(rules, {"used", "place"}) == kept


def test_names_in_use_are_those_of_pages_and_scripts(tmp_path: Path) -> None:
    scripts = tmp_path / "_static" / "vendored"
    scripts.mkdir(parents=True)
    (tmp_path / "a.html").write_text('<p class="one two" id="three">four</p>', encoding="utf-8")
    (tmp_path / "_static" / "b.js").write_text('x.classList.add("is-five")', encoding="utf-8")
    (scripts / "c.js").write_text('"six"', encoding="utf-8")
    names = site_light.names_in_use(tmp_path)
    assert {"one", "two", "three", "is-five"} <= names
    assert not {"four", "six"} & names

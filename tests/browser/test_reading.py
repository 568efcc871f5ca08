"""Reading: what is fetched, numbers, contents that follow, the switch for code, the keyboard, the search."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, Response, expect

from .conftest import OpenPage, ready

CHAPTER = "/chapters/03_the_clipped_surrogate.html"
EXERCISES = "/exercises/03_the_clipped_surrogate.html"


# --- what is fetched ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("address", ["/index.html", CHAPTER, "/chapters/07_rlhf.html", EXERCISES])
def test_a_page_weighs_less_than_700_kilobytes(page: Page, site_url: str, address: str) -> None:
    """Count compressed bytes, as hosts of static pages send them."""
    fetched: list[Response] = []
    page.on("response", lambda response: fetched.append(response))
    ready(page, site_url + address)
    page.wait_for_load_state("networkidle")
    sizes = {response.url: len(gzip.compress(response.body())) for response in fetched}
    heaviest = sorted(sizes.items(), key=lambda one: -one[1])[:5]
    assert sum(sizes.values()) < 700_000, (sum(sizes.values()), heaviest)


FORMULA = re.compile(
    r'<(?:span|div) class="math [^"]*"[^>]*>(?:<span class="eqno">.*?</span>)?(\\[\[(][^<]*)<'
)


def test_every_formula_is_set(page: Page, site: Path, site_url: str) -> None:
    page.goto(site_url + CHAPTER)
    written = [found for path in site.rglob("*.html") for found in FORMULA.findall(path.read_text("utf-8"))]
    assert len(written) > 1500
    wrong = page.evaluate(
        r"""(all) => {
          const box = document.createElement("textarea"), seen = new Map();
          return all.filter((html) => {
            if (!seen.has(html)) {
              box.innerHTML = html;
              const tex = /^\s*\\([([])([\s\S]*)\\[)\]]\s*$/.exec(box.value);
              try { katex.renderToString(tex[2], { displayMode: tex[1] === "[" }); seen.set(html, false); }
              catch { seen.set(html, true); }
            }
            return seen.get(html);
          });
        }""",
        written,
    )
    assert not wrong


# --- numbers ------------------------------------------------------------------------------------------------


def test_chapters_and_sections_have_their_numbers_wherever_they_stand(page: Page, site_url: str) -> None:
    page.goto(site_url + CHAPTER)
    expect(page).to_have_title(re.compile("^3 The clipped surrogate"))
    expect(page.locator(".bd-article h1")).to_contain_text("3 The clipped surrogate")
    headings = page.locator(".bd-article h2:visible").all_inner_texts()
    assert [text.split()[0] for text in headings] == [f"3.{n}" for n in range(1, len(headings) + 1)]
    lines = page.locator("#contents > ul > li > a").all_inner_texts()
    assert [text.split()[0] for text in lines] == [text.split()[0] for text in headings]
    expect(page.locator(".bd-sidebar-primary a.current").first).to_contain_text("3 The clipped surrogate")
    expect(page.locator("a.right-next")).to_contain_text("Exercises 3")
    expect(page.locator("a.left-prev")).to_contain_text("Exercises 2")


# --- contents, code -----------------------------------------------------------------------------------------


def marked(page: Page) -> str:
    """The place that the contents mark, once they have had time to."""
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    return page.locator("#contents a[aria-current]").get_attribute("href") or ""


def test_the_contents_follow_the_reader(open_page: OpenPage, site_url: str) -> None:
    page = open_page()
    ready(page, site_url + CHAPTER)
    anchors = [link.get_attribute("href") or "" for link in page.locator("#contents > ul > li > a").all()]
    for anchor in (anchors[2], anchors[9], anchors[0]):
        page.locator(f'#contents a[href="{anchor}"]').click()
        expect(page.locator(f'#contents a[href="{anchor}"]')).to_have_attribute("aria-current", "true")
    # While the page is scrolled, the mark stays within what is seen of the contents.
    for share in (0.3, 0.6, 0.9):
        page.evaluate("share => scrollTo(0, share * document.documentElement.scrollHeight)", share)
        anchor = marked(page)
        expect(page.locator(f'#contents a[href="{anchor}"]')).to_be_in_viewport()
        next_down = page.evaluate(
            "a => document.getElementById(a.slice(1)).getBoundingClientRect().top", anchor
        )
        assert next_down < 200
    width = page.locator("#contents .progress > div").evaluate("bar => parseFloat(bar.style.width)")
    assert 85 < width < 97
    # On arrival too.
    page.goto("about:blank")
    page.goto(f"{site_url}{CHAPTER}{anchors[7]}")
    expect(page.locator(f'#contents a[href="{anchors[7]}"]')).to_have_attribute("aria-current", "true")


def test_one_switch_hides_all_code_and_is_remembered(page: Page, site_url: str) -> None:
    page.goto(site_url + CHAPTER)
    code, switch = (
        page.locator(".bd-article div.cell_input:visible"),
        page.get_by_role("button", name="Code", exact=True),
    )
    assert code.count() >= 3
    switch.click()
    expect(code).to_have_count(0)
    expect(switch).to_have_attribute("aria-pressed", "false")
    page.goto(site_url + "/chapters/04_generalized_advantage_estimation.html")
    expect(code).to_have_count(0)
    switch.focus()
    page.keyboard.press("Enter")
    assert code.count() >= 3


# --- keyboard -----------------------------------------------------------------------------------------------

STOPS = """() => [...document.querySelectorAll(".bd-article :is(a, button, input, summary, [tabindex])")]
  .filter((stop) => stop.tabIndex >= 0 && stop.checkVisibility())
  .map((stop) => stop.closest(".katex") ? "formula" : stop.matches(".copybtn") ? "copy" : stop.tagName)"""
CONTENTS_FIRST = """() => Boolean(document.querySelector("#contents a").compareDocumentPosition(
  document.querySelector(".bd-article")) & Node.DOCUMENT_POSITION_FOLLOWING)"""


def test_the_way_by_keyboard_is_short(page: Page, site_url: str) -> None:
    ready(page, site_url + CHAPTER)
    stops = page.evaluate(STOPS)
    assert stops.count("formula") == 0
    assert stops.count("copy") <= 1
    assert len(stops) < 260
    assert page.evaluate(CONTENTS_FIRST)


# --- search -------------------------------------------------------------------------------------------------


def results(page: Page, query: str) -> list[str]:
    """Return what the search lists, by title; names of the library in brackets."""
    page.locator(".search-page input").fill(query)
    expect(page.locator("#search-results")).to_have_attribute("data-shown", query, timeout=60_000)
    return page.locator("#search-results li > a").evaluate_all(
        "all => all.map(({ href, innerText }) => href.includes('/autoapi/') ? `[${innerText}]` : innerText)"
    )


def test_a_word_of_the_glossary_comes_first_under_each_of_its_names(page: Page, site_url: str) -> None:
    page.goto(site_url + "/search.html")
    expected = {
        **{word: word for word in ("advantage", "GAE", "entropy", "reference policy", "reward hacking")},
        **{"KL": "KL divergence", "value function": "value", "ratios": "importance ratio", "beta": "β"},
    }
    assert {query: results(page, query)[0] for query in expected} == expected


def test_chapters_and_sections_come_before_names_of_the_library(page: Page, site_url: str) -> None:
    page.goto(site_url + "/search.html")
    expected = {
        "entropy": r"5\.\d+ The entropy bonus",
        "clip": r"3(\.\d+)? The clipped surrogate",
        "GAE": r"4(\.\d+)? (GAE|Generalized advantage estimation)",
        "DPO": r"9(\.\d+)? ",
        "trust region": r"2 Trust regions",
        "value clipping": r"5\.\d+ .*clip",
        "gae lambda": r"4(\.\d+)? ",
    }
    wrong = {}
    for query, first in expected.items():
        found = results(page, query)
        library = [at for at, title in enumerate(found) if title.startswith("[")]
        if not any(re.match(first, title) for title in found[:2]) or min(library, default=9) < 5:
            wrong[query] = found[:6]
    assert not wrong
    # One thing has several names.
    found = [results(page, name)[:5] for name in ("ε", "epsilon", "eps")]
    assert len(found[0]) == 5
    assert found[0] == found[1] == found[2]


def test_where_a_search_leads_its_words_are_marked_and_no_others(page: Page, site_url: str) -> None:
    page.goto(site_url + "/search.html?q=sign of the entropy")
    page.locator("#search-results a", has_text="The entropy bonus").click()
    expect(page.locator(".bd-article h1")).to_be_visible()
    read = (
        "() => [...(CSS.highlights.get('book-found') ?? [])].map((range) => range.toString().toLowerCase())"
    )
    page.wait_for_function(f"({read})().length > 3")
    marked = set(page.evaluate(read))
    assert "entropy" in marked
    assert all(re.search("sign|entrop", word) for word in marked)
    page.keyboard.press("Escape")
    assert page.evaluate(read) == []


# --- lost readers, and new ones ----------------------------------------------------------------------------


def test_a_lost_reader_is_led_back_from_any_depth(page: Page, site_url: str) -> None:
    page.forgiven.append("404")  # type: ignore[attr-defined]
    page.goto(site_url + "/chapters/old/03_clipped_surrogate.html")
    expect(page.get_by_role("heading", name="There is no such page")).to_be_visible()
    assert page.evaluate("getComputedStyle(document.body).getPropertyValue('--pst-color-primary')")
    first = page.locator("#search-results a", has_text="The clipped surrogate").first
    expect(first).to_be_visible(timeout=30_000)
    first.click()
    expect(page.locator(".bd-article h1")).to_contain_text("3 The clipped surrogate")


# --- checklists ---------------------------------------------------------------------------------------------


def test_what_is_ticked_on_a_learning_path_stays_ticked(page: Page, site_url: str) -> None:
    ready(page, site_url + "/reference/paths.html")
    page.get_by_role("checkbox", name="Chapter 0").first.check()
    page.reload()
    assert page.locator("input:checked.task-list-item-checkbox").count() == 1

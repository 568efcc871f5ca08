"""The glossary: every word is used and explained, and its first use in a chapter says what it is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from sphinx_process import sphinx

import site_glossary

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / site_glossary.DATA).read_text(encoding="utf-8")
WORDS = site_glossary.words_of(TEXT)
CHAPTERS = {path.stem: path.read_text(encoding="utf-8") for path in sorted((ROOT / "chapters").glob("*.md"))}


def prose(text):
    """A chapter without its code cells."""
    return re.sub(r"^```\{code-cell\}.*?^```$", "", text, flags=re.M | re.S)


# --- the data -----------------------------------------------------------------------------------------------


def test_each_word_is_used_in_a_chapter():
    used = set()
    for chapter, text in CHAPTERS.items():
        words = [word for word in WORDS.values() if word.chapter <= int(chapter[:2])]
        (found,) = site_glossary.first_uses([prose(text)], words, site_glossary.everyday_of(TEXT))
        used |= {name for *_, name in found}
    assert not set(WORDS) - used


# --- first uses ---------------------------------------------------------------------------------------------


# --- a small book -------------------------------------------------------------------------------------------

CONF = """
extensions = ["myst_nb", "site_glossary", "site_road", "sphinx_design"]
include_patterns = ["index.md", "chapters/*.md", "reference/*.md"]
nb_execution_mode = "off"
myst_enable_extensions = ["colon_fence", "dollarmath"]
numfig = True

def setup(app):
    app.add_config_value("book_meta", {}, "env")
"""

CHAPTER = """# The policy

:::{admonition} In this chapter
A policy.
:::

(sec-hill)=
## A hill

A `policy` is code; a [policy](https://example.org) a link. A policy has *logits*, and a policy gradient.

## Deeper: more of the policy

*About the critic.*

The **critic**, and the policy.
"""

DATA = """[terms]
"critic" = { says = "What estimates a value <here>.", section = "sec-hill" }
"logits" = { says = "Real numbers, one an action.", section = "sec-hill", also = ["logit"] }
"policy" = { says = "The rule by which an agent acts.", section = "sec-hill" }
"policy gradient" = { says = "The way up.", section = "sec-hill" }
"""


def build(folder):
    """Build the book, and say what was written."""
    done = sphinx(folder, "-b", "html", ".", "_build")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    folder = tmp_path_factory.mktemp("book")
    files = {
        "conf.py": CONF,
        "index.md": "# Book\n\nA policy.\n\n```{toctree}\nchapters/01_hill\nreference/glossary\n```\n",
        "chapters/01_hill.md": CHAPTER,
        "reference/glossary.md": "# Glossary\n\n```{words}\n```\n",
        "reference/glossary.toml": DATA,
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    build(folder)
    return folder


def page(book, name):
    return (book / "_build" / f"{name}.html").read_text(encoding="utf-8")


def test_first_uses_link_to_the_glossary_and_are_described(book):
    text = page(book, "chapters/01_hill")
    links = re.findall(r'<a ([^>]*class="term"[^>]*)>([^<]*)</a>', text)
    assert [word for _, word in links] == ["policy", "logits", "policy gradient", "critic"]
    for attributes, word in links:
        anchor = word.replace(" ", "-")
        assert f'href="../reference/glossary.html#term-{anchor}"' in attributes
        assert 'tabindex="-1"' in attributes
        assert f'aria-describedby="says-{anchor}"' in attributes
        assert text.count(f'id="says-{anchor}"') == 1
    assert re.search(r"<strong><a [^>]*>critic</a></strong>", text), "not in the line that opens the box"
    assert '<p id="says-critic">What estimates a value &lt;here&gt;.</p>' in text
    assert 'src="../_static/terms.js' in text


def test_a_new_sentence_reaches_the_chapters(book):
    path = book / "reference" / "glossary.toml"
    path.write_text(DATA.replace("The way up.", "Uphill."), encoding="utf-8")
    build(book)
    assert ">Uphill.</p>" in page(book, "chapters/01_hill")
    assert "Uphill." in page(book, "reference/glossary")

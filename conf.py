"""Sphinx's configuration of the book. The spine is book.yml. Our own extensions are tools/site_*.py: links
and solutions in _hooks, the main road through a chapter in _road, numbers in _numbers, the search in _search,
the front page in _front and _way_in, the library's page and the one for lost readers in _way_in, downloads in
_editions, what keeps pages light in _light, and what makes a build quick in _speed. Pages that are made from
the rest of the book: _cards, _cheatsheet, _claims, _desk, _glossary, _myths, _notation, _outcomes, _paths,
_reading."""

import os
import sys
from pathlib import Path

import yaml
from pybtex.backends.plaintext import Backend as Plaintext
from pybtex.plugin import register_plugin
from sphinxcontrib.bibtex import plugin as bibtex
from sphinxcontrib.bibtex.style.referencing import BracketStyle
from sphinxcontrib.bibtex.style.referencing.author_year import AuthorYearReferenceStyle

ROOT = Path(__file__).parent
sys.path += [str(ROOT / "tools"), str(ROOT / "lib")]

import ppobook  # noqa: E402
import repository  # noqa: E402

# Forty grammars of addresses, for a check that notebooks do not ask for: a fifth of a build with nothing new.
sys.modules.setdefault("rfc3987_syntax", None)

# --- the book -----------------------------------------------------------------------------------------------

book_meta = yaml.safe_load((ROOT / "book.yml").read_text(encoding="utf-8"))["meta"]
book_repository = repository.address(ROOT, book_meta.get("repository"))
book_site = os.environ.get("PPOBOOK_SITE") or book_meta.get("site") or repository.pages(book_repository)
book_solutions = book_meta["solutions"] and os.environ.get("PPOBOOK_SOLUTIONS", "1") != "0"

project = book_meta["title"]
author = book_meta["author"]
copyright = author
release = ppobook.__version__
language = "en"

extensions = [
    "myst_nb",
    "sphinx_external_toc",
    "sphinx_design",
    "sphinx_exercise",
    "sphinx_proof",
    "sphinx_copybutton",
    "sphinxcontrib.bibtex",
    "sphinx.ext.napoleon",
    "autoapi.extension",
    "ppobook.teaching.site",
    "site_cheatsheet",
    "site_glossary",
    "site_cards",
    "site_claims",
    "site_desk",
    "site_editions",
    "site_front",
    "site_hooks",
    "site_light",
    "site_notation",
    "site_myths",
    "site_numbers",
    "site_outcomes",
    "site_paths",
    "site_reading",
    "site_road",
    "site_search",
    "site_speed",
    "site_way_in",
]
external_toc_path = "book.yml"
# The pages. Of a chapter the notebook is the page, and the text beside it is only its source.
include_patterns = [
    "index.md",
    "chapters/*.ipynb",
    "exercises/*.ipynb",
    "desk/*.ipynb",
    "reference/**",
    "autoapi/**",
]
# (The folders are named so that Sphinx need not walk through them.)
exclude_patterns = [".*", "_build", "work", "runs", "**/.ipynb_checkpoints"]
templates_path = ["_templates"]
# Autoapi lists the library's pages, not the spine; and two classes may have an attribute of one name.
suppress_warnings = ["etoc.toctree", "ref.python"]

# --- text ---------------------------------------------------------------------------------------------------

nb_execution_mode = "off"
nb_merge_streams = True
nb_code_prompt_show = "Show the code"
nb_code_prompt_hide = "Hide the code"
myst_enable_extensions = ["amsmath", "attrs_inline", "colon_fence", "deflist", "dollarmath", "tasklist"]
myst_enable_checkboxes = True
myst_heading_anchors = 3
numfig = True
numfig_format = {"figure": "Figure %s", "table": "Table %s", "code-block": "Listing %s"}
math_eqref_format = "({number})"
html_secnumber_suffix = " "
html_math_renderer = "katex"
myst_update_mathjax = False
copybutton_exclude = ".linenos, .gp, .go"
copybutton_selector = "div.highlight:not(.cell_output *, .output *) > pre"


class RoundBrackets(AuthorYearReferenceStyle):
    """(Williams, 1992), as in the field, where the default is [Williams, 1992]."""

    def __init__(self) -> None:
        brackets = BracketStyle(left="(", right=")")
        super().__init__(bracket_parenthetical=brackets, bracket_textual=brackets, bracket_year=brackets)


bibtex.register_plugin("sphinxcontrib.bibtex.style.referencing", "round", RoundBrackets)
# (For each citation, this one would be looked for among all that is installed.)
register_plugin("pybtex.backends", "plaintext", Plaintext, force=True)
bibtex_bibfiles = ["references.bib"]
bibtex_reference_style = "round"
bibtex_default_style = "plain"

# --- the library's pages: read from the source, nothing is imported -----------------------------------------

autoapi_dirs = ["lib/ppobook"]
autoapi_options = ["members", "undoc-members"]
autoapi_keep_files = True
autoapi_ignore = ["*/teaching/site.py"]
autoapi_add_toctree_entry = False
autoapi_member_order = "groupwise"
autoapi_python_class_content = "class"
napoleon_use_ivar = True
# Docstrings say what an argument is and which shape it has; a signature is easier to read without types.
autodoc_typehints = "none"
# `name` in a docstring is code, and a link where the library has something of this name.
default_role = "py:obj"

# --- the page -----------------------------------------------------------------------------------------------

html_theme = "sphinx_book_theme"
html_domain_indices = False  # the API pages list the modules
html_title = book_meta["title"]
html_baseurl = f"{book_site.rstrip('/')}/" if book_site else ""
html_static_path = ["_static"]
html_css_files = ["book.css"]
book_scripts = ("formulas.js", "book.js", "wide.js", "contents.js", "search.js", "found.js")
html_js_files = [(name, {"defer": "defer"}) for name in book_scripts]
html_additional_pages = {"search": "search.html", "404": "404.html"}
html_favicon = "_static/favicon.svg"
html_copy_source = True
html_show_sphinx = False
html_last_updated_fmt = None
html_context = {"default_mode": "auto"}
html_theme_options = {
    "repository_url": book_repository,
    "repository_branch": book_meta["branch"],
    "navbar_start": [],
    "navbar_center": [],
    "navbar_end": [],
    "navbar_persistent": [],
    "use_repository_button": bool(book_repository),
    "use_fullscreen_button": False,
    "back_to_top_button": False,
    "home_page_in_toc": True,
    "show_navbar_depth": 1,
    "collapse_navbar": True,  # to show all, the theme takes half a second for each page
    "show_toc_level": 1,
    "article_footer_items": ["page-links.html"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
    "footer_content_items": ["copyright.html", "extra-footer.html"],
    "extra_footer": "Text: CC BY 4.0. Code: MIT.",
}

"""The book's search; conf.py loads this file as an extension. _static/search.js shows what it finds.

At the end of a build, the pages are taken apart into sections: the text of the article, without code, outputs
and what the theme puts around it. A symbol of the notation, a word of the glossary and a card are found by
themselves. Each entry knows what it is, so that a chapter comes before a name of the library. Letters and
names of one thing, as ε, epsilon and clip_eps, are made one by search.js. The stems of words are Snowball's;
they, and the words that are too common to be looked for, come with Sphinx.
"""

from __future__ import annotations

import html
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Final

import sphinx.search
from sphinx.application import Sphinx
from sphinx.search.en import SearchEnglish

import site_glossary

FILE = "search-data.js"
#: What stands in a page without being its text.
FURNITURE: Final = {
    *("headerlink", "minutes", "eqno", "admonition-title", "toctree-wrapper", "chapters", "exercise-list"),
    *("term-tips", "flash-card", "cell_input", "cell_output", "highlight", "solution"),
    *("ppobook-figure", "ppobook-still"),
}
#: Where one looks something up.
AT_HAND: Final = {f"reference/{name}" for name in ("cheatsheet", "notation", "glossary", "cards", "myths")}
#: What readers call a page, or a section by its anchor, that calls itself otherwise.
ALSO: Final = {
    "desk/desk": "progress done solved exercises next",
    "desk/drill": "interview practice timer clock",
    "reference/cheatsheet": "formulas equations hyperparameters defaults settings coefficients",
    "exercises/04_generalized_advantage_estimation#six-steps-by-hand": "compute gae td advantages example",
    "reference/cards#card-across-kl-q-p": "kl direction forward reverse",
    "reference/claims": "evidence seeds intervals",
    "reference/editions": "download offline ebook pdf epub print",
    "reference/myths#myth-clip-bounds-kl": "ppo stable stability clips prevents large updates",
    "reference/instructors": "hand assign collect grade students course class",
    "reference/notation": "symbols shapes units",
    "reference/paths": "order plan hours weeks",
    "reference/reading": "read next papers books",
}
#: What is found by itself, by its tag and how its id begins: a row of the notation, a word, a card.
ALONE: Final = {"tr": "symbol-", "dt": "term-", "details": "card-"}
#: What ends it, and which part of it is its title.
LAST: Final = {"tr": "tr", "dt": "dd", "details": "details"}
TITLES: Final = {"tr": "td", "dt": "dt", "details": "summary"}
VOID: Final = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "wbr"}
# As KaTeX writes them, for an excerpt.
NAMES: Final = """
    alpha beta gamma delta epsilon varepsilon eta theta lambda mu nu pi rho sigma tau phi psi Delta nabla sum
    cdot le ge mid to approx infty int prod partial sim ell dots pm propto kappa Psi Phi ne neq times
    lVert rVert lvert rvert leftarrow top Longrightarrow
"""
LETTERS: Final = dict(zip(NAMES.split(), "αβγδεεηθλμνπρστφψΔ∇Σ·≤≥|→≈∞∫∏∂~ℓ…±∝κΨΦ≠≠×‖‖||←ᵀ⇒", strict=True))
# Groups hold one level of braces; what is nested deeper is put flat from the inside.
GROUP: Final = r"\{((?:[^{}]|\{[^{}]*\})*)\}"
FRACTION: Final = re.compile(rf"\\[dt]?frac\s*(?:{GROUP}\s*{GROUP}|(\w)\s*(\w))")
ROOT: Final = re.compile(rf"\\sqrt\s*{GROUP}")
#: What stands below a brace only names what is above.
BRACED: Final = re.compile(rf"\\underbrace\s*{GROUP}\s*_\s*{GROUP}")
BINOMIAL: Final = re.compile(rf"\\binom\s*{GROUP}\s*{GROUP}")
#: An index or an exponent of several signs.
RAISED: Final = re.compile(r"([_^])\{([^{}]*[^{}\s\w\\][^{}]*)\}")
KEPT: Final = {"ln", "log", "min", "max", "exp", "clip", "sum", "tanh", "arcsin", "bmod", "Pr"}


def readable(text: str) -> str:
    r"""A passage with its formulas as plain letters: `\(\varepsilon = 0.2\)` becomes "ε = 0.2"."""

    def formula(found: re.Match[str]) -> str:
        inside = found[1]
        for pattern, put in (
            (BRACED, lambda m: m[1]),
            (RAISED, lambda m: f"{m[1]}({m[2]})"),
            (FRACTION, fraction),
            (ROOT, lambda m: f"√{held(m[1])}"),
            (BINOMIAL, lambda m: f"({m[1].strip()} over {m[2].strip()})"),
        ):
            while inside != (inside := pattern.sub(put, inside)):
                pass
        inside = re.sub(r"\\(?:begin|end)\{[a-z*]+\}|&|\\(?:left|right|[bB]igg?[lr]?)\b", "", inside)
        inside = re.sub(r"\\(?:[,;!:]|q?quad\b)|\\\\(?:\[[^]]*\])?|~", " ", inside)
        inside = re.sub(
            r"\\(?:mathrm|operatorname\*?|text\w*|hat|bar|tilde|overline|mathbb|mathbf|mathcal|mathrel)\b",
            "",
            inside,
        )
        inside = re.sub(r"\\([A-Za-z]+)", lambda name: LETTERS.get(name[1]) or kept(name[1]), inside)
        return re.sub(r"[{}\\]|(?<=_)\s", "", inside)

    def fraction(found: re.Match[str]) -> str:
        above, below = (found[i] if found[i] is not None else found[i + 2] for i in (1, 2))
        return f"{held(above)}/{held(below)}"

    def held(part: str) -> str:
        return part if re.fullmatch(r"\\?\w+", part.strip()) else f"({part.strip()})"

    def kept(name: str) -> str:
        return name if name in KEPT else " "

    text = re.sub(r"\\[(\[](.*?)\\[)\]]", formula, text, flags=re.S)
    return re.sub(r"\s+", " ", text).strip()


class Sections(HTMLParser):
    """The sections of a page's article: anchor, number, title and text of each."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[dict[str, str]] = []
        self.open: list[tuple[str, str]] = []  # each open tag, and what it does to what is inside
        self.anchor = ""
        self.section: dict[str, str] = {}  # the section that one is in
        self.alone = ""  # the tag of what is found by itself and is open
        self.before = 0  # how many tags were open before it
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        """Note where a section or its title begins, and what is to be left out."""
        if tag in VOID:
            return
        given = dict(attributes)
        classes = set((given.get("class") or "").split())
        role = ""
        if tag in ALONE and (given.get("id") or "").startswith(ALONE[tag]):
            self.alone, self.before = tag, len(self.open)
            self.begin(given["id"] or "")
        if self.alone and tag == TITLES[self.alone] and not self.found[-1]["title"]:
            role = "title"
        elif tag in ("script", "style", "pre", "svg") or classes & FURNITURE:
            role = "out"
        elif tag == "section" and not self.inside("exercise"):
            self.anchor = given.get("id") or ""
        elif tag in ("h1", "h2", "h3"):
            role = "title"
            self.begin("" if tag == "h1" else self.anchor)
            self.section = self.found[-1]
        elif "exercise" in classes:
            role = "exercise"
        self.open.append((tag, role))

    def handle_endtag(self, tag: str) -> None:
        """Close it."""
        while self.open and self.open.pop()[0] != tag:
            pass
        if self.found and tag not in ("span", "em", "strong", "a", "code", "sub", "sup"):
            self.now["text"] += " "
        if self.alone and tag == LAST[self.alone]:
            self.alone, self.before = "", 0

    def handle_data(self, data: str) -> None:
        """Add to the title or to the text."""
        if self.found and not self.inside("out"):
            self.now["title" if self.inside("title") else "text"] += data

    def begin(self, anchor: str) -> None:
        """Begin an entry."""
        self.found.append({"anchor": anchor, "title": "", "text": ""})

    @property
    def now(self) -> dict[str, str]:
        """The entry that one is in."""
        return self.found[-1] if self.alone else self.section

    def inside(self, role: str) -> bool:
        """Return whether an open tag has this role; of what is found by itself, a tag within it."""
        return any(role == one for _, one in self.open[self.before :])


def kind_of(docname: str) -> str:
    """Return what a page is to somebody who searches."""
    folder = docname.partition("/")[0]
    if docname in AT_HAND:
        return "at-hand"
    return {"chapters": "chapter", "exercises": "exercise"}.get(folder, "reference")


def keys_of(docname: str) -> str:
    """Words that stand for a page: of its file's name, their initials, as "gae", and other names for it."""
    words = [word for word in re.split(r"[/_]", docname)[1:] if not word.isdigit()]
    return " ".join([*words, "".join(word[0] for word in words), *ALSO.get(docname, "").split()])


def entries_of_page(docname: str, page: str) -> list[list[str]]:
    """Return what can be found of a page: address, title, title of its page, kind, text, further words."""
    article = page.partition('<article class="bd-article">')[2].partition("</article>")[0]
    sections = Sections(article).found
    if not sections:
        return []
    top, entries = readable(sections[0]["title"]), []
    for section in sections:
        anchor, kind = section["anchor"], kind_of(docname)
        address = f"{docname}.html" + (f"#{anchor}" if anchor else "")
        kind = f"{kind}-section" if anchor else kind
        if anchor.startswith(tuple(ALONE.values())):
            kind = "card" if anchor.startswith(ALONE["details"]) else "word"
        words = ALSO.get(f"{docname}#{anchor}", "") if anchor else keys_of(docname)
        entries.append([address, readable(section["title"]), top, kind, readable(section["text"]), words])
    return entries


def entries_of_library(docname: str, page: str) -> list[list[str]]:
    """The names that a page of the library explains, each with its first sentence."""
    top = docname.removeprefix("autoapi/").removesuffix("/index").replace("/", ".")
    entries = []
    described = r'<dt class="sig[^"]*" id="(ppobook[^"]*)">.*?</dt>\s*<dd>(?:<p>(.*?)</p>)?'
    for name, first in re.findall(described, page, re.S):
        said = readable(html.unescape(re.sub(r"<[^>]+>", "", first)))
        entries.append([f"{docname}.html#{name}", name.removeprefix(f"{top}."), top, "library", said, ""])
    about = re.search(r"<h1>.*?</h1>\s*<p>(.*?)</p>", page, re.S)
    said = readable(html.unescape(re.sub(r"<[^>]+>", "", about[1]))) if about else ""
    return [[f"{docname}.html", top, "The library", "library", said, ""], *entries]


def forms_of(glossary: Path) -> dict[str, str]:
    """The glossary's name for each way to write one of its words."""
    words = site_glossary.words_of(glossary.read_text(encoding="utf-8")) if glossary.is_file() else {}
    forms = {form.lower(): word.name for word in words.values() for form in (*word.forms, *word.also)}
    return forms | {name.lower(): name for name in words}


def write_index(app: Sphinx, exception: Exception | None) -> None:
    """Write what search.js reads."""
    if exception is not None or app.builder.name != "html":
        return
    index = Path(app.outdir, FILE)
    pages = {docname: Path(app.builder.get_outfilename(docname)) for docname in sorted(app.env.found_docs)}
    # (When a page comes or goes, or this code changes, all of them are written.)
    if index.exists() and all(page.stat().st_mtime_ns < index.stat().st_mtime_ns for page in pages.values()):
        return
    entries = []
    for docname, page in pages.items():
        take = entries_of_library if docname.startswith("autoapi/") else entries_of_page
        entries += take(docname, page.read_text(encoding="utf-8"))
    # A script, since a page in a local file may not fetch.
    parts = [
        f"window.{name} = {json.dumps(data, ensure_ascii=False, separators=(',', ':'))};\n"
        for name, data in (
            ("bookEntries", entries),
            ("bookForms", forms_of(Path(app.srcdir, site_glossary.DATA))),
            ("bookSmallWords", sorted({*SearchEnglish.stopwords, "explain", "explained"})),
        )
    ]
    stems = Path(sphinx.search.__file__).parent / "minified-js"
    parts += [
        (stems / name).read_text(encoding="utf-8")
        for name in ("base-stemmer.js", SearchEnglish.js_stemmer_rawcode)
    ]
    index.write_text("\n".join(parts), encoding="utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.connect("build-finished", write_index)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

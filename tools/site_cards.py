"""The page of all cards; conf.py loads this file as an extension. _static/cards.js keeps what is due.

- `{cards} desk` is where cards are studied, `{cards} themes` the cards that belong together, `{cards} decks`
  every deck. All are read from the decks, so a card that changes there changes here.
- The build writes the same cards as a package for Anki beside the page.
- Above the cards of a chapter stands a link to that page.
"""

from __future__ import annotations

import html
import os
import re
import time
from pathlib import Path
from typing import Any, Final

import yaml
from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.util.docutils import SphinxDirective

import site_anki
from ppobook.teaching import decks
from ppobook.teaching.decks import Card

FOLDER: Final = Path("reference", "cards")
#: The deck of cards that stand at no chapter's end.
ACROSS: Final = "across"
PAGE: Final = "reference/cards"
PACKAGE: Final = "steps-you-can-trust.apkg"
#: Days until a card comes again, by its box.
INTERVALS: Final = (1, 3, 7, 16, 35, 80)


Themes = dict[str, dict[str, Any]]


# --- the cards ----------------------------------------------------------------------------------------------


def all_cards(root: Path) -> dict[str, tuple[str, Card]]:
    """Return each card with its deck, by name: the chapters' in the order of the book, then those across."""
    found = {name: decks.cards(name).cards for name in decks.names()}
    found[ACROSS] = decks.read(root / FOLDER / f"{ACROSS}.yml")
    return {card.name: (deck, card) for deck, cards in found.items() for card in cards}


def read_themes(root: Path, cards: dict[str, tuple[str, Card]]) -> Themes:
    """Return what themes.yml says: of each theme its title, and for each of its lines the names of its cards.

    A theme that gives a tag in place of cards has one line, without words: all cards with this tag.
    """
    found: Themes = yaml.safe_load((root / FOLDER / "themes.yml").read_text(encoding="utf-8"))
    for theme in found.values():
        if "tag" in theme:
            theme["cards"] = {"": [name for name, (_, card) in cards.items() if card.tag == theme["tag"]]}
    return found


def themes_of(name: str, themes: Themes) -> list[str]:
    """Return the themes that a card belongs to."""
    return [key for key, theme in themes.items() if any(name in own for own in theme["cards"].values())]


# --- the page -----------------------------------------------------------------------------------------------


def title_of(config: Config, deck: str) -> str:
    """Return what a deck is called on the page."""
    chapter = config.book_meta["chapters"].get(f"chapters/{deck}")
    return f"{int(deck[:2])} · {chapter['title']}" if chapter else "Across the chapters"


class Cards(SphinxDirective):
    """`{cards} desk`, `{cards} themes` or `{cards} decks`."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """The part of the page that was asked for."""
        root = Path(self.env.srcdir)
        for path in [*(root / FOLDER).glob("*.yml"), *Path(decks.__file__).parent.glob("cards/*.yml")]:
            self.env.note_dependency(str(path))
        self.cards = all_cards(root)
        self.of_themes = read_themes(root, self.cards)
        self.tags = yaml.safe_load((root / FOLDER / "tags.yml").read_text(encoding="utf-8"))
        return {"desk": self.desk, "themes": self.themes, "decks": self.decks}[self.arguments[0]]()

    def desk(self) -> list[nodes.Node]:
        """An empty box, which becomes the desk where there is a browser."""
        groups = [("Themes", [(f"theme {key}", theme["title"]) for key, theme in self.of_themes.items()])]
        for deck in dict.fromkeys(deck for deck, _ in self.cards.values()):
            tags = dict.fromkeys(card.tag for own, card in self.cards.values() if own == deck)
            title = title_of(self.config, deck)
            own = [(f"tag {deck} {tag}", self.tags[tag]) for tag in tags]
            groups.append((title, [(f"deck {deck}", f"{title}: all"), *own]))
        return [raw(desk(groups))]

    def themes(self) -> list[nodes.Node]:
        """Each theme with its lines, and links to their cards."""
        made: list[nodes.Node] = []
        for key, theme in self.of_themes.items():
            section = nodes.section("", nodes.title("", theme["title"]), ids=[f"cards-{key}"])
            for line, own in theme["cards"].items():
                if line:
                    section += nodes.paragraph("", line, classes=["card-theme"])
                links = (
                    f'<li><p><a class="reference internal" href="#card-{name}">'
                    f"{decks.inline(self.cards[name][1].front)}</a></p></li>\n"
                    for name in own
                )
                section += raw(f'<ul class="simple">\n{"".join(links)}</ul>')
            made.append(section)
        return made

    def decks(self) -> list[nodes.Node]:
        """A section for each deck."""
        sections: dict[str, nodes.section] = {}
        for deck, card in self.cards.values():
            if deck not in sections:
                title = nodes.title("", title_of(self.config, deck))
                sections[deck] = nodes.section("", title, ids=[f"cards-{deck.partition('_')[0]}"])
            sections[deck] += self.card(deck, card)
        return list(sections.values())

    def card(self, deck: str, card: Card) -> nodes.container:
        """A question, its answer, and where the book explains it."""
        themes = themes_of(card.name, self.of_themes)
        keys = [f"deck {deck}", f"tag {deck} {card.tag}", *(f"theme {key}" for key in themes)]
        where = addnodes.pending_xref(
            "", nodes.inline("", card.section), refdomain="std", reftype="ref", reftarget=card.section,
            refexplicit=False, refwarn=True, refdoc=self.env.docname,
        )  # fmt: skip
        opening = (
            f'<details id="card-{card.name}" class="card-fold" data-keys="{html.escape("|".join(keys))}">'
            f'<summary><span class="question">{decks.inline(card.front)}</span></summary>'
            f'<div class="answer">{decks._paragraphs(card.back)}'
        )
        tag = nodes.Text(f"{self.tags[card.tag]} · ")
        place = nodes.paragraph("", "", tag, where, classes=["where"])
        return nodes.container("", raw(opening), place, raw("</div></details>"), classes=["flash-card"])


def raw(text: str) -> nodes.raw:
    """A piece of HTML."""
    return nodes.raw("", text, format="html")


def desk(groups: list[tuple[str, list[tuple[str, str]]]]) -> str:
    """Return where cards are studied; cards.js shows it and gives it life."""
    options = ['<option value="">All cards</option>']
    for label, entries in groups:
        inner = "".join(
            f'<option value="{html.escape(k)}">{html.escape(text)}</option>' for k, text in entries
        )
        options.append(f'<optgroup label="{html.escape(label)}">{inner}</optgroup>')
    per_day = "".join(f'<option value="{n}">{text}</option>' for n, text in PER_DAY)
    return DESK.format(options="".join(options), per_day=per_day, days=" ".join(map(str, INTERVALS)))


PER_DAY: Final = ((5, "5"), (10, "10"), (20, "20"), (100_000, "all"))
DESK: Final = f"""
<p><a class="card-package" href="{PACKAGE}" download>All cards for Anki</a> ({PACKAGE})</p>
<noscript><p>Without JavaScript nothing is kept, but each card below can be opened.</p></noscript>
<div class="card-desk" data-days="{{days}}" hidden>
<div class="card-row">
<label>Which cards <select class="which">{{options}}</select></label>
<label>New ones a day <select class="per-day">{{per_day}}</select></label>
</div>
<p class="due" role="status"></p>
<div class="card-row start">
<button type="button" class="study">Study</button>
<button type="button" class="forget">Forget my progress</button>
</div>
<div class="one-card" role="group" aria-label="The card" hidden>
<p class="which-one"></p>
<div class="question" tabindex="-1"></div>
<div class="answer" tabindex="-1" hidden></div>
<div class="card-row">
<button type="button" class="show">Show the answer</button>
<button type="button" class="again" aria-keyshortcuts="1" hidden>1 · Not yet</button>
<button type="button" class="knew" aria-keyshortcuts="2" hidden>2 · Knew it</button>
<button type="button" class="stop">Stop</button>
</div>
</div>
</div>
"""


def add_link(app: Sphinx, _page: str, _template: str, context: dict[str, Any], _doctree: object) -> None:
    """Give a chapter's cards a link to the page of all cards, and leave out the names of their outcomes."""
    if app.builder.name == "html" and 'class="ppobook-cards"' in context.get("body", ""):
        link = f'<p class="all-cards"><a href="{context["pathto"](PAGE)}">All decks on one page</a>'
        link += ", with what is due today, and for Anki.</p>\n"
        context["body"] = context["body"].replace(
            '<div class="ppobook-cards"', f'{link}<div class="ppobook-cards"', 1
        )
        context["body"] = re.sub(r'(<p class="where">)[\w-]+ · (?=<a [^>]*>read it)', r"\1", context["body"])


# --- for Anki -----------------------------------------------------------------------------------------------


def deck_for_anki(config: Config, deck: str) -> str:
    """Return what a deck is called there: Anki puts decks in the order of the alphabet."""
    chapter = config.book_meta["chapters"].get(f"chapters/{deck}")
    return f"{deck[:2]} {chapter['title']}" if chapter else title_of(config, deck)


def notes_for_anki(app: Sphinx) -> list[site_anki.Note]:
    """Every card, as Anki takes it."""
    root, base = Path(app.srcdir), app.config.html_baseurl
    cards = all_cards(root)
    themes = read_themes(root, cards)
    labels = app.env.domains["std"].labels
    made = []
    for deck, card in cards.values():
        docname, anchor, section = labels.get(card.section, ("", "", card.section))
        where = html.escape(section)
        if base and docname:
            address = f"{base}{app.builder.get_target_uri(docname)}#{anchor}"
            where = f'<a href="{html.escape(address)}">{where}</a>'
        made.append(
            site_anki.Note(
                name=card.name,
                deck=f"{app.config.project}::{deck_for_anki(app.config, deck)}",
                front=decks.inline(card.front),
                back=decks._paragraphs(card.back),
                where=where,
                tags=tuple(f"ppobook::{tag}" for tag in (card.tag, *themes_of(card.name, themes))),
            )
        )
    return made


def write_package(app: Sphinx, exception: Exception | None) -> None:
    """Write the package for Anki beside the page."""
    if exception is None and app.builder.name == "html" and PAGE in app.env.found_docs:
        when = int(os.environ.get("SOURCE_DATE_EPOCH") or time.time())
        site_anki.write(notes_for_anki(app), Path(app.outdir, PAGE).parent / PACKAGE, when)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.add_directive("cards", Cards)
    app.connect("html-page-context", add_link)
    app.connect("build-finished", write_package)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

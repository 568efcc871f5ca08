"""The claims ledger; conf.py loads this file as an extension.

`{claims}` lists every sentence of the chapters that a mark calls a measurement (tools/claims/text.py says how
one is written), with what stands behind it. Each is held against that: a mark that names nothing, a number
that the recorded table, the assertion or the stored output does not say, an assertion that fails on the table
as it is now, are warnings, and so errors of a build with -W. Without pandas and torch, which a site can be
built without, nothing is computed again, and only what needs no computing is compared.
"""

from __future__ import annotations

import contextlib
import html
import io
import json
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging

from claims.backing import Backing, Chapter
from claims.text import Sentence
from ppobook.teaching.contents import number_of
from site_way_in import Written

log = logging.getLogger(__name__)
LONGEST = 1500  # characters of what a cell printed


class Claims(Written):
    """`{claims}`: the marked sentences, chapter by chapter."""

    def run(self) -> list[nodes.Node]:
        """Make a folded list of each chapter, below its name."""
        root = Path(self.env.srcdir)
        tables = [*root.glob("results/*/table.csv"), *root.glob("results/*/facts.json")]
        found: list[nodes.Node] = []
        made = getattr(self.env, "book_claims", {})
        self.env.book_claims = made
        for docname, facts in self.config.book_meta["chapters"].items():
            files = [root / f"{docname}.md", root / f"{docname}.ipynb", *tables]
            for file in files:
                self.env.note_dependency(str(file))
            now = can_compute(), facts["title"], [(str(file), file.stat().st_mtime_ns) for file in files]
            # To compute a chapter's claims again takes a second.
            if docname not in made or made[docname][0] != now:
                lines, wrong = self.chapter(docname, facts["title"])
                if not wrong:
                    made[docname] = now, lines
            else:
                lines = made[docname][1]
            if lines:
                found += self.block("claims", lines)
        return found

    def chapter(self, docname: str, title: str) -> tuple[list[str], int]:
        """Return the lines of a chapter's list, and how many warnings it gave."""
        root = Path(self.env.srcdir)
        chapter = Chapter(root / f"{docname}.md", root / f"{docname}.ipynb")
        if can_compute():
            with contextlib.redirect_stdout(io.StringIO()):
                chapter.recompute()
        stray = chapter.text.stray
        wrong = [(1, f"{stray} marks stand behind no sentence, or are misspelt")] if stray else []
        number = number_of(chapter.name)
        count = f"{len(chapter.marked)} sentence{'s' if len(chapter.marked) > 1 else ''}"
        head = f'{html.escape(f"{number} · {title}")} <span class="count">{count}</span>'
        lines = [f'<details class="claims-of"><summary>{head}</summary>', ""]
        lines += [f"(claims-{number})=", f"[The chapter](/{docname}.ipynb)", ""]
        for sentence in chapter.marked:
            backing = chapter.backing(sentence)
            said = warnings(backing, can_compute())
            wrong += [(sentence.line, f"{one}: {sentence.text!r}") for one in said]
            lines += self.claim(docname, chapter, sentence, backing)
        for line, one in wrong:
            log.warning("%s", one, location=f"{docname}.md:{line}")
        return [*lines, "</details>", ""] if chapter.marked else [], len(wrong)

    def claim(self, docname: str, chapter: Chapter, sentence: Sentence, backing: Backing) -> list[str]:
        """A sentence, where it stands, what is behind it, and, folded, what that says."""
        said = [where(docname, sentence), source(backing)]
        dates = []
        by_seeds: dict[str, list[str]] = {}
        for table in backing.tables:
            facts = json.loads(self.read(f"results/{table}/facts.json"))
            link = f"{{source}}`results/{table} <results/{table}/table.csv>`"
            by_seeds.setdefault(seeds(facts["seeds"]), []).append(link)
            dates.append(facts["date"])
        said += [f"{', '.join(links)}: {which}" for which, links in by_seeds.items()]
        if dates:
            said.append(f"recorded {' and '.join(dict.fromkeys(sorted(dates)))}")
        else:
            said += [own_seeds(backing.lines), "run with the chapter"]
        said.append(intervals(sentence, backing))
        if sentence.mark and sentence.mark.chosen:
            said.append("numbers not compared: " + ", ".join(f"{x:g}" for x in sentence.mark.chosen))
        again = [self.command(table) for table in backing.tables]
        again.append(f"make notebooks NAME={chapter.name.partition('_')[0]}")
        shown = "\n".join([*(part[:LONGEST] for part in backing.shown), *backing.asserts])
        return [
            plain(sentence.text, docname),
            f": {' · '.join(filter(None, said))}",
            "",
            '  <details class="on-screen"><summary>What it says, and how to run it again</summary>'
            f"<pre>{block(shown)}</pre><pre>{block(chr(10).join(dict.fromkeys(again)))}</pre></details>",
            "",
        ]

    def command(self, table: str) -> str:
        """Return what records a table again."""
        made_by = json.loads(self.read(f"results/{table}/facts.json"))["made_by"]
        return f"python {made_by if '/' in made_by else f'results/{table}/{made_by}'}"


def can_compute() -> bool:
    """Return whether tables can be read and the chapters' code be run."""
    return all(find_spec(name) for name in ("pandas", "scipy", "torch"))


def warnings(backing: Backing, computed: bool) -> list[str]:
    """Return what is wrong; where nothing was computed, only what needs no computing to know."""
    return [wrong for wrong in backing.wrong if computed or wrong.startswith("its mark")]


def where(docname: str, sentence: Sentence) -> str:
    """A link to the section."""
    title = re.sub(r"[\[\]{}`]", "", sentence.section.title)
    if sentence.section.label:
        return f"{{ref}}`{title} <{sentence.section.label}>`"
    return f"[{title}](/{docname}.ipynb)"


def source(backing: Backing) -> str:
    """Return what kind of thing stands behind it."""
    cells = ", ".join(f"{cell + 1}" for cell in sorted(set(backing.cells)))
    kinds = [f"code cell{'s' if ',' in cells else ''} {cells}"] if cells else []
    if backing.asserts:
        count = len(backing.asserts)
        kinds.append(f"{count} assertion{'s' if count > 1 else ''}")
    return " with ".join(kinds) + (", computed again by this build" if backing.recomputed else "")


def seeds(given: list[int]) -> str:
    """Return how many seeds, and which."""
    if not given:
        return "no seeds"
    if len(given) == 1:
        return f"seed {given[0]}"
    whole = list(range(given[0], given[-1] + 1)) == given
    which = f"{given[0]} to {given[-1]}" if whole else ", ".join(map(str, given[:12]))
    return f"{len(given)} seeds, {which}"


def own_seeds(lines: list[str]) -> str:
    """The seeds that a chapter's own lines name, as far as they can be read from them."""
    source = "\n".join(lines)
    if counts := re.findall(r"\bfor seed in range\((\d+)\)", source):
        most = max(map(int, counts))
        return seeds(list(range(most)))
    return "one fixed seed" if re.search(r"\bseed=\d|default_rng\(\d|manual_seed\(\d", source) else ""


_SPAN = re.compile(r"[-−+]?\d[\d.,]*%? to [-−+]?\d[\d.,]*%?|low=[^,)]*, high=[^,)]*")


def intervals(sentence: Sentence, backing: Backing) -> str:
    """The interval that the sentence gives, else those that what is behind it shows."""
    own = _SPAN.findall(sentence.text)
    found = own or [span for part in backing.shown for span in _SPAN.findall(part)]
    spans = list(dict.fromkeys(span.rstrip(".,") for span in found))[:4]
    named = [re.sub(r"low=(.*), high=(.*)", r"\1 to \2", span) for span in spans]
    return f"interval {', '.join(named)}" if named else "no interval"


def plain(text: str, docname: str) -> str:
    """A sentence that stands by itself: with links from here, and without half of a pair of stars."""
    text = re.sub(r"\]\((?!\.\./|#|\w+:)", "](/chapters/", text)
    text = text.replace("](../", "](/").replace("](#", f"](/{docname}.ipynb#")
    for stars in ("**", "*"):
        bare = re.sub(r"\{[\w:-]+\}`[^`]*`|`[^`]*`|\$[^$]+\$", "", text)
        if bare.replace("**", "" if stars == "*" else "**").count(stars) % 2:
            text = text.replace("*", "")
    return text


def block(text: str) -> str:
    """A text for a `pre` that stands on one line of its source."""
    return html.escape(text).replace("\n", "&#10;")


def drop_marks(_app: Sphinx, doctree: nodes.document) -> None:
    """Leave the marks out of the pages."""
    for node in list(doctree.findall(nodes.raw)):
        if re.match(r"<!--\s*claim:", node.astext()):
            node.parent.remove(node)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.add_directive("claims", Claims)
    # Before what looks at the words of a page.
    app.connect("doctree-read", drop_marks, priority=100)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

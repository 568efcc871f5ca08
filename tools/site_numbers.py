"""Numbers of chapters, sections and exercises, wherever their titles stand; conf.py loads this file.

- A chapter's title begins with its number, and a set of exercises says whose it is: in its heading, in the
  sidebar, in links to it, in the search, in the browser's tab.
- Sections of a chapter are counted as its equations are: 3.8. A section with an exercise has its number.
  A link that shows its title shows its number.
- Figures, equations and exercises are counted by chapter: Figure 1.3, (1.12), Exercise 1.2. Where a comment
  of the code names an equation, the page has its number.
- A page of exercises begins with a list of them: number, title, kind and minutes; and a box does not repeat
  the title of its section.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx_exercise.nodes import exercise_enumerable_node

from ppobook.teaching.contents import number_of


def chapter_of(docname: str) -> int | None:
    """The number of the chapter that a page is, or whose exercises it has; None for all others."""
    return number_of(docname) if re.fullmatch(r"(chapters|exercises)/\d+_\w+", docname) else None


# --- titles -------------------------------------------------------------------------------------------------


def number_title(_app: Sphinx, docname: str, source: list[str]) -> None:
    """Put the chapter's number into the title of its notebook, or of its exercises'."""
    number = chapter_of(docname)
    if number is None:
        return
    notebook = json.loads(source[0])
    cell = next(cell for cell in notebook["cells"] if cell["cell_type"] == "markdown")
    text = "".join(cell["source"])
    if docname.startswith("chapters/"):
        text = re.sub(r"^# ", f"# {number} ", text, count=1, flags=re.M)
    else:
        text = re.sub(r"^# Exercises: ", f"# Exercises {number}: ", text, count=1, flags=re.M)
    cell["source"] = text
    source[0] = json.dumps(notebook)


# --- figures, equations, exercises --------------------------------------------------------------------------


def count_running(_app: Sphinx, env: BuildEnvironment) -> list[str]:
    """Give Sphinx back its own numbers of the last build, so that it writes pages whose numbers change."""
    env.toc_fignumbers = getattr(env, "book_running_numbers", {})
    env.toc_secnumbers = {}
    return []


def count_by_chapter(_app: Sphinx, env: BuildEnvironment) -> list[str]:
    """Turn the running numbers that Sphinx gave into chapter.number, for pages whose name begins with one."""
    env.book_running_numbers = deepcopy(env.toc_fignumbers)
    counters: Counter[tuple[int, str]] = Counter()
    for docname, kinds in env.toc_fignumbers.items():
        number = chapter_of(docname)
        if number is None:
            continue
        for kind, numbers in kinds.items():
            for target in numbers:
                counters[number, kind] += 1
                numbers[target] = (number, counters[number, kind])
    return []


# --- sections -----------------------------------------------------------------------------------------------


def exercises_in(document: nodes.document) -> Iterator[tuple[nodes.section, nodes.Element]]:
    """The exercises of a page, each with the section that it stands in."""
    for box in document.findall(exercise_enumerable_node):
        place = box.parent
        while place is not None and not (
            isinstance(place, nodes.section) and place.parent.parent is document
        ):
            place = place.parent
        if place is not None:
            yield place, box


def note_sections_of_exercises(app: Sphinx, doctree: nodes.document) -> None:
    """Remember which section each exercise of a page stands in."""
    if app.env.docname.startswith("exercises/"):
        found = {f"#{section['ids'][0]}": box["ids"][0] for section, box in exercises_in(doctree)}
        app.env.metadata[app.env.docname]["exercises"] = found


def number_sections(_app: Sphinx, env: BuildEnvironment) -> list[str]:
    """Number the sections of chapters, and those with an exercise as it is numbered."""
    for docname, toc in env.tocs.items():
        chapter = chapter_of(docname)
        if chapter is None:
            continue
        numbers: dict[str, tuple[int, ...]] = {}
        of_exercises = env.toc_fignumbers.get(docname, {}).get("exercise", {})
        placed = env.metadata[docname].get("exercises", {})
        count = 0
        for link, depth in headings(toc):
            anchor = link["anchorname"]
            numbers[anchor] = ()
            if depth == 2 and docname.startswith("chapters/"):
                count += 1
                numbers[anchor] = (chapter, count)
            elif depth == 2 and anchor in placed:
                numbers[anchor] = of_exercises.get(placed[anchor], ())
            link["secnumber"] = numbers[anchor] or None
        env.toc_secnumbers[docname] = numbers
    return []


def headings(toc: nodes.Element, depth: int = 0) -> Iterator[tuple[nodes.Element, int]]:
    """The headings of a page in the order of the text, each with its level: 1 is the title."""
    for part in toc.children:
        if isinstance(part, nodes.bullet_list):
            yield from headings(part, depth + 1)
        elif isinstance(part, addnodes.compact_paragraph):
            yield part[0], max(depth, 1)
        elif isinstance(part, nodes.list_item):
            yield from headings(part, max(depth, 1))


# --- links to sections --------------------------------------------------------------------------------------


class NumberLinks(SphinxPostTransform):
    """Say the number of a section in links that show its title: "§1.4 How far a policy has moved"."""

    default_priority = 5  # before the links are resolved

    def run(self, **_: Any) -> None:
        """Give a link without words of its own the section's number and title."""
        labels = self.env.domaindata["std"]["labels"]
        for link in self.document.findall(addnodes.pending_xref):
            if link.get("reftype") != "ref" or link.get("refexplicit"):
                continue
            docname, anchor, title = labels.get(link["reftarget"], ("", "", ""))
            number = self.env.toc_secnumbers.get(docname, {}).get(f"#{anchor}")
            if number and docname.startswith("chapters/"):
                words = f"§{'.'.join(map(str, number))} {title}"
                link[:] = [nodes.inline(words, words, classes=["xref", "std", "std-ref"])]
                link["refexplicit"] = True


# --- equations in the code ----------------------------------------------------------------------------------


class NumberEquations(SphinxPostTransform):
    """Let a line of code end in its equation's number, "# (3.2)", where the source has the label."""

    default_priority = 5  # before the code is colored

    def run(self, **_: Any) -> None:
        """Put numbers for labels into every piece of code, printed ones too."""
        equations = self.env.domains.math_domain.equations

        def number(comment: re.Match[str]) -> str:
            docname, _ = equations.get(comment[1], ("", 0))
            kinds = self.env.toc_fignumbers.get(docname, {}).get("displaymath", {})
            found = kinds.get(f"equation-{comment[1]}")
            return f"# ({'.'.join(map(str, found))})" if found else comment[0]

        for code in self.document.findall(nodes.literal_block):
            text = re.sub(r"# ([a-z]+(?:-[a-z]+)+)$", number, code.astext(), flags=re.M)
            if text != code.astext():
                code.rawsource, code[:] = text, [nodes.Text(text)]


# --- the page of exercises ----------------------------------------------------------------------------------


class ListExercises(SphinxPostTransform):
    """Begin a page of exercises with a list of them, and let no box repeat its section's title."""

    default_priority = 25  # after the boxes have their titles

    def run(self, **_: Any) -> None:
        """Add the list, where there is more than one exercise."""
        docname = self.env.docname
        if not docname.startswith("exercises/"):
            return
        numbers = self.env.toc_fignumbers.get(docname, {}).get("exercise", {})
        entries = []
        for section, box in exercises_in(self.document):
            number = ".".join(map(str, numbers.get(box["ids"][0], ())))
            entries.append(entry(section, box, number))
            shorten_title(section, box)
        for box in self.document.findall(exercise_enumerable_node):
            drop_outcome(box)
        if len(entries) > 1:
            page = next(self.document.findall(nodes.section))
            said = nodes.paragraph | nodes.bullet_list
            place = next(i for i, part in enumerate(page) if i and not isinstance(part, said))
            page.insert(place, nodes.bullet_list("", *entries, classes=["exercise-list"]))


def entry(section: nodes.section, box: nodes.Element, number: str) -> nodes.list_item:
    """A line of the list: "3.1 The clipped loss · Build · 15 minutes"."""
    link = nodes.reference(
        "", f"{number} {section[0].astext()}", internal=True, refuri=f"#{section['ids'][0]}"
    )
    said = next((line.astext() for line in box.findall(nodes.emphasis)), "").split(" · ")
    words = " · ".join(part for part in said if not part.startswith(("difficulty", "outcome")))
    line = nodes.paragraph(
        "", "", link, nodes.inline("", f" · {words}" if words else "", classes=["minutes"])
    )
    return nodes.list_item("", line)


def shorten_title(section: nodes.section, box: nodes.Element) -> None:
    """Leave "Exercise 3.1" of "Exercise 3.1 (The clipped loss)" below the heading "3.1 The clipped loss"."""
    title = box[0]
    if title.astext().strip() == f"({section[0].astext()})":
        title.children = []


def drop_outcome(box: nodes.Element) -> None:
    """Leave the outcome's name, which is for the tools, out of "Build · 15 minutes · outcome: four-cases"."""
    line = next(box.findall(nodes.emphasis), None)
    if line is not None and (said := line.astext().partition(" · outcome: "))[1]:
        line[:] = [nodes.Text(said[0])]


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.add_post_transform(NumberEquations)
    app.add_post_transform(NumberLinks)
    app.add_post_transform(ListExercises)
    app.connect("source-read", number_title)
    app.connect("doctree-read", note_sections_of_exercises, priority=800)
    # Before Sphinx numbers and after it, at 500.
    app.connect("env-get-updated", count_running, priority=100)
    app.connect("env-get-updated", count_by_chapter, priority=900)
    app.connect("env-get-updated", number_sections, priority=910)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

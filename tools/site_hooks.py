"""The site's own hooks beside its extensions; conf.py loads this file as one more of them.

- Solutions stand folded below each blank of an exercise page, read from the executed master. One setting
  leaves them out.
- Each page has its links: run it on Binder or Colab, suggest an edit, report a mistake; where the book's
  repository has no known address, they are left out.
- Colab gets copies of the notebooks with a cell in front that installs what they need.
- The settings of an algorithm stand on its page with their defaults and what they mean.
- Of the types of arguments, classes are links and other words are words.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import json
import re
import tomllib
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import logging

from notebook_builder import references
from ppobook.course import masters

log = logging.getLogger(__name__)

RUNNABLE = ("chapters/", "exercises/")
# Colab opens notebooks from GitHub only, so the workflow that publishes the site puts the copies on a branch.
COLAB_BRANCH = "colab"
COLAB_FOLDER = "colab"


# --- references ---------------------------------------------------------------------------------------------


def take_roles(_app: Sphinx, docname: str, source: list[str]) -> None:
    """Read a notebook's citations and references as its author wrote them, not as JupyterLab shows them."""
    if docname.startswith((*RUNNABLE, "desk/")):
        notebook = json.loads(source[0])
        references.as_roles(notebook)
        source[0] = json.dumps(notebook)


# --- solutions ----------------------------------------------------------------------------------------------


def fold_in_solutions(app: Sphinx, docname: str, source: list[str]) -> None:
    """Put each solution, folded, below the cell of the reader's notebook that it answers."""
    if not docname.startswith("exercises/") or not app.config.book_solutions:
        return
    master = Path(app.srcdir) / "exercises" / "masters" / f"{Path(docname).name}.ipynb"
    app.env.note_dependency(str(master))
    if not master.exists():
        log.warning("%s: there is no executed master %s, so the page has no solutions", docname, master.name)
        return
    notebook = json.loads(source[0])
    solutions = masters.solutions(master)
    answered = {p.index: solutions[p.name] for p in masters.parts(notebook) if p.role != "test"}
    cells = []
    for index, cell in enumerate(notebook["cells"]):
        cells.append(cell)
        if index in answered and re.fullmatch(r"\*\*Your [^*]+\*\*.?", "".join(cell["source"])):
            cell["source"] = ""  # a place for an answer is of no use on a page
        for output in cell.get("outputs", []):
            if output["output_type"] == "stream":
                text = "".join(output["text"])
                output["text"] = re.sub(r"^not yet: [\w-]+$", "(Your result appears here.)", text, flags=re.M)
        if index in answered:
            cells.append(
                {
                    "cell_type": "markdown",
                    "id": f"folded-{index}",
                    "metadata": {},
                    "source": folded(answered[index]),
                }
            )
    source[0] = json.dumps({**notebook, "cells": cells})


def folded(solution: masters.Solution) -> str:
    """A solution as MyST, in a box that is closed at first."""
    if solution.kind == "code":
        title, body = "Solution", fenced("`", "python", without_blanks(solution.source))
    else:
        title, body = "Model answer", solution.source
    return fenced(":", f"{{dropdown}} {title}", f":class-container: solution\n\n{body}")


def without_blanks(source: str) -> str:
    """A solution less what was there to be filled: `table = {1: ...}` just before `table = {1: 2}`."""
    lines = source.splitlines()
    blank: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        body = getattr(node, "body", [])
        for one, other in pairwise(body if isinstance(body, list) else []):
            if isinstance(one, ast.Assign) and isinstance(other, ast.Assign):
                same = ast.dump(one.targets[0]) == ast.dump(other.targets[0])
                values = [part.value for part in ast.walk(one.value) if isinstance(part, ast.Constant)]
                if same and ... in values:
                    blank |= set(range(one.lineno, (one.end_lineno or one.lineno) + 1))
    return "\n".join(line for number, line in enumerate(lines, 1) if number not in blank)


def fenced(mark: str, head: str, body: str) -> str:
    """A fence that is longer than any within it."""
    longest = max((len(run) for run in re.findall(rf"{re.escape(mark)}+", body)), default=0)
    fence = mark * max(3, longest + 1)
    return f"{fence}{head}\n{body}\n{fence}"


# --- links of a page ----------------------------------------------------------------------------------------


def add_links(app: Sphinx, pagename: str, _template: str, context: dict[str, Any], doctree: object) -> None:
    """Give the page what `page-links.html` shows at its end."""
    meta, repository = app.config.book_meta, app.config.book_repository
    if doctree is None or not repository:
        return
    context["edit_url"] = f"{repository}/edit/{meta['branch']}/{source_of(app, pagename)}"
    title = re.sub(r"<[^>]+>", "", context.get("title", pagename))
    report = {
        "title": f"Mistake in “{title}”",
        "labels": "erratum",
        "body": f"Page: {pagename} (version {app.config.release})\n\nWhere on the page:\n\n"
        "What it says:\n\nWhat it should say, and why:\n",
    }
    context["report_url"] = f"{repository}/issues/new?{urlencode(report, quote_via=quote)}"


def add_launch_buttons(
    app: Sphinx, pagename: str, _template: str, context: dict[str, Any], doctree: object
) -> None:
    """Give a notebook's page its way to Binder and Colab, beside the theme's own buttons."""
    host, _, slug = app.config.book_repository.partition("://")[2].partition("/")
    if doctree is None or not pagename.startswith(RUNNABLE) or host != "github.com":
        return  # Colab reads notebooks from GitHub only
    branch = app.config.book_meta["branch"]
    places = {
        "Binder": f"https://mybinder.org/v2/gh/{slug}/{branch}?urlpath=lab/tree/{pagename}.ipynb",
        "Colab": f"https://colab.research.google.com/github/{slug}/blob/{COLAB_BRANCH}/{pagename}.ipynb",
    }
    logos = {"Binder": "logo_binder.svg", "Colab": "logo_colab.png"}
    buttons = [
        {
            "type": "link",
            "text": name,
            "tooltip": f"Run this page on {name}",
            "icon": f"_static/images/{logos[name]}",
            "url": url,
        }
        for name, url in places.items()
    ]
    group = {"type": "group", "tooltip": "Run this page", "icon": "fas fa-rocket", "buttons": buttons}
    context["header_buttons"].insert(0, {**group, "label": "launch-buttons"})


def source_of(app: Sphinx, docname: str) -> str:
    """The file that a person edits to change a page, from the root of the repository."""
    if docname.startswith(("chapters/", "desk/")):
        return f"{docname}.md"
    if docname.startswith("exercises/"):
        return f"exercises/masters/{Path(docname).name}.md"
    if docname.startswith("autoapi/"):
        module = Path("lib", *Path(docname).parts[1:-1])
        package = module / "__init__.py"
        return (package if (Path(app.srcdir) / package).exists() else module.with_suffix(".py")).as_posix()
    return Path(app.env.doc2path(docname, base=False)).as_posix()


def source_role(
    _name: str, rawtext: str, text: str, _line: int, inliner: Any, *_: object
) -> tuple[list[nodes.Node], list[nodes.Node]]:
    """`{source}`: a file or folder of the repository, linked where its address is known."""
    title, path = (found[1], found[2]) if (found := re.fullmatch(r"(.+) <(.+)>", text)) else (text, text)
    config = inliner.document.settings.env.config
    name = nodes.literal(rawtext, title)
    if not config.book_repository:
        return [name], []
    url = f"{config.book_repository}/blob/{config.book_meta['branch']}/{path}"
    return [nodes.reference(rawtext, "", name, refuri=url)], []


# --- copies for Colab ---------------------------------------------------------------------------------------


def write_colab_copies(app: Sphinx, exception: Exception | None) -> None:
    """Write a copy of each notebook that installs the book's library before anything else."""
    if exception is not None or app.builder.name != "html" or not app.config.book_repository:
        return
    address = f"{app.config.book_repository}@{app.config.book_meta['branch']}"
    project = tomllib.loads((Path(app.srcdir) / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    # Colab brings the rest of what a chapter needs, and would not like its Jupyter replaced.
    widgets = next(need for need in project["optional-dependencies"]["lab"] if need.startswith("anywidget"))
    install = {
        "cell_type": "code",
        "execution_count": None,
        "id": "install",
        "metadata": {},
        "outputs": [],
        "source": "# The book's library, and what its figures need on Colab. It takes a minute, once.\n"
        f'%pip install -q "ppobook @ git+{address}" "{widgets}"\n'
        "from google.colab import output\n\n"
        "output.enable_custom_widget_manager()",
    }
    for docname in sorted(app.env.found_docs):
        path = Path(app.env.doc2path(docname))
        if docname.startswith(RUNNABLE) and path.suffix == ".ipynb":
            notebook = json.loads(path.read_text(encoding="utf-8"))
            notebook["cells"].insert(0, install)
            copy = Path(app.outdir) / COLAB_FOLDER / f"{docname}.ipynb"
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(json.dumps(notebook, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


# --- the library's pages ------------------------------------------------------------------------------------


def keep_formulas(
    _app: Sphinx, _what: str, _name: str, _obj: object, _options: object, lines: list[str]
) -> None:
    """Show what a docstring sets apart by indentation, formulas and code, as it stands there.

    To Sphinx it would be a quotation, set as running text. Here, outside of such blocks, the mark-up that a
    shape or an absolute value could be taken for is switched off: `[N, T, *obs]`, `|x|`.
    """
    result: list[str] = []
    depth, block = 0, None
    for line in lines:
        indent = len(line) - len(line.lstrip())
        if block is not None and line.strip() and indent < block:
            block = None
        if block is None and line.strip():
            apart = bool(result) and not result[-1].strip()
            if apart and indent > depth and not result[-2].rstrip().endswith("::"):
                result += [" " * depth + "::", ""]
                block = indent
            elif apart and indent > depth:
                block = indent
            else:
                depth = indent
        if block is None:
            line = re.sub(r"(?<=[\[( ])\*(?=\w+[\]),])", r"\\*", line)
            line = re.sub(r"(?<!`)\|(?=[^|`]*\|)|(?<=\w)\|(?!`)", r"\\|", line)
        result.append(line)
    lines[:] = result


class LinkClassesOnly(SphinxPostTransform):
    """In the type of an argument, link classes and nothing else.

    Sphinx looks up every word there, and in `tensor, shape (B, T)` would take "shape" and "T" for attributes
    that some class has by these names.
    """

    default_priority = 5  # before references are looked up, at 10

    def run(self, **_: Any) -> None:
        """Put the word itself where the one that it would lead to is no class."""
        domain = self.env.domains["py"]
        for link in list(self.document.findall(addnodes.pending_xref)):
            if link.get("refdomain") == "py" and link.get("reftype") == "class":
                place = link.get("py:module"), link.get("py:class"), link["reftarget"], None, 1
                found = [entry.objtype for _, entry in domain.find_obj(self.env, *place)]
                if found and not {"class", "exception"} & set(found):
                    link.replace_self(link.children)


def list_settings(app: Sphinx, what: str, name: str, obj: Any, _skip: bool, _options: object) -> bool | None:
    """Below a class of settings: each one with its default and what it is, own and inherited.

    It is asked of every member whether to leave it out. The settings' bare attributes are.
    """
    if what == "class" and name.endswith("Settings") and "**" not in obj.docstring:
        lines = [obj.docstring, ""]
        for setting, default, choices, text in settings_of(name):
            allowed = f" ({', '.join(choices)})" if choices else ""
            lines += [f"**{setting}** = ``{default}``", f"    {text}{allowed}", ""]
        obj.docstring = "\n".join(lines)
    # Methods keep to the usual rule.
    return True if what == "attribute" and "Settings." in name else None


def settings_of(dotted: str) -> list[tuple[str, str, list[str], str]]:
    """Return name, default, choices and help of every setting of a class; its module needs no torch.

    The class is looked up where it is defined, since other modules, which import it, need torch.
    """
    module = "ppobook.language.settings" if dotted.startswith("ppobook.language.") else "ppobook.settings"
    defaults = getattr(importlib.import_module(module), dotted.rpartition(".")[2])()
    return [
        (f.name, repr(getattr(defaults, f.name)), [*(f.metadata["choices"] or ())], f.metadata["help"])
        for f in dataclasses.fields(defaults)
    ]


def drop_pages_of_gone_modules(app: Sphinx) -> None:
    """Remove what AutoAPI wrote for modules that are no more: it keeps its pages from build to build."""
    pages = Path(app.srcdir, "autoapi")
    for page in pages.rglob("index.rst"):
        module = Path(app.srcdir, "lib", page.parent.relative_to(pages))
        if page.parent != pages and not (module.is_dir() or module.with_suffix(".py").exists()):
            page.unlink()


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.add_config_value("book_meta", {}, "env")
    app.add_config_value("book_repository", "", "env")
    app.add_role("source", source_role)
    app.add_config_value("book_solutions", True, "env")
    app.add_post_transform(LinkClassesOnly)
    app.connect("builder-inited", drop_pages_of_gone_modules, priority=100)  # before AutoAPI looks
    app.connect("source-read", take_roles)
    app.connect("source-read", fold_in_solutions)
    # After the theme has made its own buttons.
    app.connect("html-page-context", add_launch_buttons, priority=900)
    # Before the theme, which leaves out a part of the page that would be empty.
    app.connect("html-page-context", add_links, priority=100)
    # Before napoleon, which runs at 500.
    app.connect("autodoc-process-docstring", keep_formulas, priority=400)
    app.connect("autoapi-skip-member", list_settings)
    app.connect("build-finished", write_colab_copies)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

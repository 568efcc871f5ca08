"""A build upon an earlier one: as little as possible is written, and it comes out as if built anew."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from sphinx_process import sphinx

TOOLS = Path(__file__).resolve().parents[2] / "tools"
sys.path.append(str(TOOLS))
site_rebuilds = pytest.importorskip("site_rebuilds", reason="Sphinx is not installed")

from astroid.builder import AstroidBuilder  # noqa: E402
from astroid.exceptions import AstroidImportError  # noqa: E402
from astroid.manager import AstroidManager  # noqa: E402
from sphinx.builders.html import _assets  # noqa: E402
from sphinx.cmd.build import main as sphinx_build  # noqa: E402

FILES = {
    "conf.py": """
import site_numbers
extensions = ["myst_parser", "autoapi.extension", "site_rebuilds"]
html_theme = "basic"
html_static_path = ["_static"]
html_css_files = ["small.css"]
exclude_patterns = ["_build", "_other"]
numfig = True
autoapi_dirs = ["lib/small"]
autoapi_keep_files = True
autoapi_add_toctree_entry = False
def setup(app):
    app.connect("env-get-updated", site_numbers.count_running, priority=100)
    app.connect("env-get-updated", site_numbers.count_by_chapter, priority=900)
""",
    "index.md": "# Small\n\n```{toctree}\n01_one\n02_two\nautoapi/small/index\n```\n",
    "01_one.md": "# One\n\nSome text.\n\n```{figure} _static/a.svg\n:name: first\n\nOne.\n```\n",
    "02_two.md": "# Two\n\nSee {ref}`first`, {numref}`first` and [the other page](01_one).\n",
    "_static/small.css": "p { color: black }",
    "_static/a.svg": '<svg xmlns="http://www.w3.org/2000/svg"/>',
    "lib/small/__init__.py": '"""Small."""\n',
    "lib/small/left.py": '"""Left."""\n\n\ndef f():\n    """Something, as :func:`small.right.g`."""\n',
    "lib/small/right.py": '"""Right."""\n\n\ndef g():\n    """Another thing."""\n',
}
LEFT, RIGHT = "autoapi/small/left/index", "autoapi/small/right/index"
ALL = {"index", "01_one", "02_two", "autoapi/small/index", LEFT, RIGHT}


def build(folder: Path, name: str = "_build") -> int:
    _assets._file_checksum_inner.cache_clear()  # of an earlier build in this process
    out = folder / name
    return sphinx_build(["-W", "--keep-going", "-Q", "-d", f"{out}/doctrees", str(folder), f"{out}/html"])


def pages(folder: Path, name: str = "_build") -> dict[str, tuple[str, int]]:
    html = folder / name / "html"
    return {
        path.relative_to(html).with_suffix("").as_posix(): (path.read_text("utf-8"), path.stat().st_mtime_ns)
        for path in html.rglob("*.html")
        if path.name not in ("genindex.html", "search.html", "py-modindex.html")
    }


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small site that has been built."""
    folder = tmp_path_factory.mktemp("small")
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    assert build(folder) == 0
    assert set(pages(folder)) == ALL
    return folder


def edit(name: str, old: str, new: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        text = (folder / name).read_text("utf-8")
        assert old in text
        (folder / name).write_text(text.replace(old, new), encoding="utf-8")

    return change


def remove_a_module(folder: Path) -> None:
    (folder / "lib/small/right.py").unlink()


FIGURE = "```{figure} _static/a.svg\n\nNew.\n```\n\n"
CHANGES = {
    "nothing": (lambda folder: None, set()),
    "text": (edit("01_one.md", "Some text", "Other words"), {"index", "01_one"}),
    "title": (edit("01_one.md", "# One", "# Another"), ALL),
    "number": (edit("01_one.md", "```{figure}", FIGURE + "```{figure}"), ALL),
    "setting": (
        edit("conf.py", "numfig = True", "numfig = True\nnumfig_format = {'figure': 'Picture %s'}"),
        ALL,
    ),
    "style sheet": (edit("_static/small.css", "black", "blue"), ALL),
    "docstring": (edit("lib/small/right.py", "Another", "Some other"), {RIGHT, "autoapi/small/index"}),
    "comment": (edit("lib/small/right.py", "\n\n\n", "\n\n\n# Nothing to see.\n"), set()),
    "name": (edit("lib/small/right.py", "def g", "def h"), ALL),
    "module gone": (remove_a_module, ALL - {RIGHT}),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_writes_what_shows_it(built: Path, tmp_path: Path, change: str) -> None:
    make, written = CHANGES[change]
    # (Its time goes with a file, so that the copy is as far built as the original.)
    folder = shutil.copytree(built, tmp_path / "small")
    assert build(folder) == 0  # the place has changed, and with it the paths that Sphinx remembers
    before = pages(folder)
    make(folder)
    assert build(folder) == 0
    after = pages(folder)
    assert {name for name, page in after.items() if page != before[name]} == written
    assert set(after) == ALL - ({RIGHT} if change == "module gone" else set())
    assert build(folder, "_other") == 0
    anew = pages(folder, "_other")
    assert {name: text for name, (text, _) in after.items()} == {
        name: text for name, (text, _) in anew.items()
    }


def test_figures_are_counted_when_a_page_has_been_read(
    built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = shutil.copytree(built, tmp_path / "small")
    assert build(folder) == 0
    counted = []
    theirs = site_rebuilds.count_figures

    def count(collector: object, env: object) -> list[str]:
        counted.append(env)
        return theirs(collector, env)

    monkeypatch.setattr(site_rebuilds, "count_figures", count)
    assert build(folder) == 0
    assert not counted
    CHANGES["text"][0](folder)
    assert build(folder) == 0
    assert len(counted) == 1


def test_a_file_that_is_put_back_with_its_time_is_read(built: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(built, tmp_path / "small")
    page, kept = folder / "01_one.md", tmp_path / "kept.md"
    os.utime(page, (1, 1))
    shutil.copy2(page, kept)
    assert build(folder) == 0
    CHANGES["text"][0](folder)
    assert build(folder) == 0
    assert "Other words" in pages(folder)["01_one"][0]
    shutil.copy2(kept, page)
    assert build(folder) == 0
    assert "Some text" in pages(folder)["01_one"][0]


def test_a_picture_that_is_gone_comes_back(built: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(built, tmp_path / "small")
    assert build(folder) == 0
    picture = folder / "_build" / "html" / "_images" / "a.svg"
    picture.unlink()
    assert build(folder) == 0
    assert picture.is_file()


def test_no_installed_package_is_read() -> None:
    manager = AstroidManager()
    site_rebuilds.read_the_library_only()
    net = AstroidBuilder(manager).string_build("import torch\n\n\nclass Net(torch.nn.Module):\n    pass\n")[
        "Net"
    ]
    assert [base.qname() for base in net.ancestors()] in ([], ["builtins.object"])
    assert manager.ast_from_module_name("re").name == "re"
    with pytest.raises(AstroidImportError):
        manager.ast_from_module_name("torch")


def test_warnings_come_until_they_are_mended(built: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(built, tmp_path / "small")
    edit("02_two.md", "# Two", "# Two\n\n{ref}`nowhere`")(folder)
    assert build(folder) == 1
    assert build(folder) == 1
    edit("02_two.md", "{ref}`nowhere`", "Here.")(folder)
    assert build(folder) == 0


def test_after_an_interruption_all_is_built_again(built: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(built, tmp_path / "small")
    assert build(folder) == 0
    page = folder / "_build" / "html" / "01_one.html"
    page.write_text("half", encoding="utf-8")
    (folder / "_build" / "doctrees" / "unfinished").touch()
    assert build(folder) == 0
    assert "Some text" in page.read_text("utf-8")


# A book whose last page is too deep for the sidebar; it counts how often the theme asks Sphinx for one.
DEEP = {
    "conf.py": """
import os
from site_rebuilds import Sidebar
extensions = ["myst_parser"]
html_theme = "sphinx_book_theme"
exclude_patterns = ["_build", "_other"]
def count(app, page, template, context, doctree):
    def toctree(**options):
        with open(app.outdir / "asked", "a", encoding="utf-8") as asked:
            asked.write("x")
        return theirs(**options)
    theirs, context["toctree"] = context["toctree"], toctree
def setup(app):
    app.connect("html-page-context", count, priority=100)
    if "ONCE" in os.environ:
        app.connect("builder-inited", Sidebar().come_between)
""",
    "index.md": "# Deep\n\n```{toctree}\n:caption: One part\none\na/index\n```\n"
    "```{toctree}\n:caption: Another\ntwo\nElsewhere <https://example.org/a>\n```\n",
    "one.md": "# One\n\n## A heading\n",
    "two.md": "# Two & `more`\n",
    "a/index.md": "# A\n\n```{toctree}\nb/index\n```\n",
    "a/b/index.md": "# B\n\n```{toctree}\nc/index\nbeside\n```\n",
    "a/b/beside.md": "# The current active one\n",
    "a/b/c/index.md": "# C\n\n```{toctree}\nd/index\n```\n",
    "a/b/c/d/index.md": "# D\n\n```{toctree}\ne\n```\n",
    "a/b/c/d/e.md": "# E\n",
}
# How many entries of the sidebar lead to each page.
MARKS = {
    **{"index": 0, "search": 0, "genindex": 0, "one": 1, "two": 1, "a/index": 1, "a/b/index": 2},
    **{"a/b/beside": 3, "a/b/c/index": 3, "a/b/c/d/index": 4, "a/b/c/d/e": 4},
}


def test_the_sidebar_is_the_themes(tmp_path: Path) -> None:
    for name, text in DEEP.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    theirs, ours = tmp_path / "_build", tmp_path / "_other"
    for out, environment in ((theirs, {}), (ours, {"ONCE": "1"})):
        done = sphinx(tmp_path, "-q", "-b", "html", ".", str(out), **environment)
        assert done.returncode == 0, done.stderr
    assert (theirs / "asked").stat().st_size == len(MARKS)
    assert (ours / "asked").stat().st_size == 1
    for name, marks in MARKS.items():
        page = (theirs / f"{name}.html").read_text("utf-8")
        assert len(re.findall(r"toctree-l\d current active", page)) == marks
        assert (ours / f"{name}.html").read_text("utf-8") == page, name

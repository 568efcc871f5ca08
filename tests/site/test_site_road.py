"""The main road on the site: a small book is built."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from sphinx_process import sphinx

pytest.importorskip("myst_nb", reason="MyST-NB is not installed")

CONF = """
extensions = ["myst_nb", "site_road", "site_way_in"]
include_patterns = ["index.md", "chapters/*.ipynb"]
nb_execution_mode = "off"
myst_enable_extensions = ["colon_fence", "dollarmath"]
numfig = True

def setup(app):
    chapter = {"title": "Hills", "minutes": {"compute": 2}, "outcomes": [{"id": "a", "text": "climb"}]}
    app.add_config_value("book_meta", {"chapters": {"chapters/01_hills": chapter}}, "env")
"""

SPINE = """
parts:
  - caption: Walks
    chapters:
      - file: chapters/01_hills
"""

INDEX = """# Book

```{chapters}
```

```{toctree}
chapters/01_hills
```
"""

TEXT = f"""# Hills

See {{ref}}`the proof <sec-proof>` and {{eq}}`slope`.

## Climbing

{"word " * 1000}

:::{{admonition}} A good place to stop
:class: sitting
You can climb.
:::

(sec-proof)=
### Deeper: the proof

*By coupling, for who doubts {{math}}`x`.*

#### Within

$$
y = a x
$$ (slope)

### After

{"word " * 500}

:::{{admonition}} A good place to stop
:class: sitting
And on.
:::

## Deeper: without a line

Text.

## Cards
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("book")
    (root / "chapters").mkdir()
    (root / "conf.py").write_text(CONF, encoding="utf-8")
    (root / "book.yml").write_text(SPINE, encoding="utf-8")
    (root / "index.md").write_text(INDEX, encoding="utf-8")
    write(root, TEXT)
    return root


def write(root: Path, text: str) -> None:
    cells = [{"cell_type": "markdown", "id": "a", "metadata": {}, "source": text}]
    notebook: dict[str, Any] = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (root / "chapters" / "01_hills.ipynb").write_text(json.dumps(notebook), encoding="utf-8")


def build(source: Path, builder: str) -> Path:
    out = source / "_build" / builder
    options = ["-q", "-b", builder, "-d", f"{source}/_build/doctrees"]
    done = sphinx(source, *options, str(source), str(out))
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture(scope="module")
def page(source: Path) -> str:
    return (build(source, "html") / "chapters" / "01_hills.html").read_text(encoding="utf-8")


def test_a_box_is_folded_below_its_title_and_its_line(page: str) -> None:
    box = re.search(r'<section id="sec-proof">(.*?)</section>\s*<section id="after">', page, re.S)
    assert box is not None
    before, _, inside = box[1].partition('<details class="deeper"><summary><h3>Deeper: the proof')
    assert 'id="deeper-the-proof"' in before
    summary, _, inside = inside.partition('</summary><div class="inside">')
    assert '<span class="about"><em>By coupling, for who doubts ' in summary
    assert 'href="#sec-proof"' in summary
    assert inside.index("<h4>Within") < inside.index('id="equation-slope"') < inside.index("</div></details>")


def test_sections_and_places_to_stop_say_their_minutes(page: str) -> None:
    assert re.findall(r'<p class="minutes">(.*?)</p>', page) == ["6 minutes"]
    assert page.index("<h2>Climbing") < page.index('<p class="minutes">') < page.index("word word")
    since = r'A good place to stop<span class="minutes"> · (.*?)</span>'
    assert re.findall(since, page) == ["4 minutes since the start", "2 minutes since the last"]


def test_the_front_page_says_what_was_counted(source: Path, page: str) -> None:
    front = source / "_build" / "html" / "index.html"
    text = front.read_text(encoding="utf-8")
    assert "5 minutes to read, 2 to compute" in text
    assert text.index("<strong>Walks") < text.index("1 · <a ") < text.index("<li>climb</li>")
    write(
        source, TEXT.replace("## Cards", "word " * 2500 + "\n\n## Cards").replace("Deeper: without", "With")
    )
    build(source, "html")
    assert "15 minutes to read, 2 to compute" in front.read_text(encoding="utf-8")
    write(source, TEXT)

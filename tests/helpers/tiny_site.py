"""A site of two chapters, a page of exercises and a page of the library, built within a test."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from sphinx_process import sphinx

ROOT = Path(__file__).resolve().parents[2]

CONF = """
project = "Tiny"
extensions = ["myst_nb", "sphinx_external_toc", "sphinx_design", "site_road", "site_light"]
external_toc_path = "book.yml"
html_theme = "sphinx_book_theme"
html_static_path = ["_static"]
html_css_files = ["book.css"]
html_math_renderer = "katex"
html_baseurl = "https://example.org/tiny/"
html_theme_options = {"pygments_light_style": "default", "pygments_dark_style": "default"}
templates_path = ["_templates"]
myst_enable_extensions = ["colon_fence", "dollarmath"]
nb_execution_mode = "off"
exclude_patterns = ["_build"]
book_meta = {}
def setup(app):
    app.add_config_value("book_meta", {}, "env")
"""
# As the book's own pages do.
LAYOUT = """{% extends "!layout.html" %}
{%- block extrahead %}
<meta property="og:url" content="https://example.org/tiny/{{ pagename }}.html"/>
{%- endblock %}
"""
BOOK = """
format: jb-book
root: index
parts:
  - caption: First part
    chapters:
      - file: chapters/01_one
        sections:
          - file: exercises/01_one
  - caption: Second part
    chapters:
      - file: chapters/02_two
      - file: autoapi/tiny/index
meta: {title: Tiny, subtitle: a book for tests, author: Nobody & Co}
"""
DOT = """<svg xmlns="http://www.w3.org/2000/svg" width="20" height="20">
<circle id="dot" cx="10" cy="10" r="9"/><circle id="dot" cx="10" cy="10" r="8"/></svg>"""
ONE = r"""# 1 One

<div class="term-tips" hidden><span id="says-text">Words.</span></div>

<details class="on-screen"><summary>For the screen</summary>Long.</details>

<a aria-describedby="says-text" href="02_two.html">Words</a> of a text.

Some text with $\alpha \le \beta_1$, and a link to [the second](02_two.md), to [a place in it](#there), to
[the library](../autoapi/tiny/index.md) and to <https://example.org/elsewhere>.

```{math}
:label: sum
\sum_{i=1}^{n} x_i = \frac{1}{2}
```

## A figure

:::{figure} ../_static/dot.svg
:name: fig-dot
:alt: One grey dot

A dot.
:::

| name | value |
|---|---|
| a | 1 < 2 |

## Deeper: more of it

*For those who want more.*

Folded on the site. Its formula needs more room than there is:

$$ WIDE $$

```python
print("WIDE")
```
""".replace("$$ WIDE $$", "$$ " + " + ".join(f"x_{{{i}}} y_{{{i}}}" for i in range(40)) + " $$")
TWO = """# 2 Two

Back to [the first](01_one.ipynb).

(there)=
## There

The end.
"""
EXERCISES = r"""# Exercises 1: one

## 1.1 The *first*

What is $1 + 1$?

:::{dropdown} Hint
Count.
:::

:::{dropdown} Solution
:class-container: solution

It is $2$.
:::

## 1.2 The second

What is 2 + 2?

:::{dropdown} Model answer
:class-container: solution

Four.
:::
"""
DRAWING = {
    "cell_type": "code",
    "execution_count": 1,
    "id": "draw",
    "metadata": {"tags": ["hide-input"]},
    "outputs": [{"name": "stdout", "output_type": "stream", "text": "what was drawn"}],
    "source": "draw_something()",
}


def notebook(text: str, *cells: dict) -> str:
    """A notebook with one text, and these cells below it."""
    first = {"cell_type": "markdown", "id": "text", "metadata": {}, "source": text}
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    return json.dumps({"cells": [first, *cells], "metadata": kernel, "nbformat": 4, "nbformat_minor": 5})


def build(folder: Path) -> Path:
    """Write the sources there and build them: the folder of the site."""
    files = {
        "conf.py": CONF,
        "book.yml": BOOK,
        "index.md": "# Tiny\n\nA front page.\n",
        "_templates/layout.html": LAYOUT,
        "chapters/01_one.ipynb": notebook(ONE.replace("WIDE", "long " * 60), DRAWING),
        "chapters/02_two.md": TWO,
        "exercises/01_one.md": EXERCISES,
        "autoapi/tiny/index.md": "# tiny\n\nThe library.\n",
        "_static/dot.svg": DOT,
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    static = ROOT / "_static"
    for name in ("book.css", "formulas.js", "front.svg"):
        shutil.copy(static / name, folder / "_static")
    shutil.copytree(static / "vendored" / "katex", folder / "_static" / "vendored" / "katex")
    out = folder / "_build"
    options = ["--keep-going", "-q", "-d", f"{out}/doctrees"]
    sphinx(folder, *options, str(folder), f"{out}/html").check_returncode()
    return out / "html"

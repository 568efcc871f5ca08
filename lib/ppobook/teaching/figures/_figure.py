"""Shared parts of all interactive figures.

A figure is a state, computed by the library, and a script that lets a reader play with it. The same script
runs in three places: in JupyterLab as an anywidget, on the web page without any kernel, and nowhere at all,
in a stored notebook on GitHub or with scripts switched off, where a still picture stands for it.
"""

from __future__ import annotations

import base64
import io
import json
import os
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from ppobook.teaching import style

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture

#: The output type under which a notebook stores a figure, and from which the site makes it live.
MIME: Final = "application/vnd.ppobook.figure+json"

_FOLDER: Final = Path(__file__).parent


def modules() -> list[str]:
    """Names of the figures whose script is here."""
    return sorted(path.stem for path in _FOLDER.glob("*.js") if path.stem != "kit")


def source(module: str) -> str:
    """The script of a figure, ready to be imported by a browser as an ES module.

    A module loaded from a local file may import nothing, so what figures share stands in front of each: the
    palette as a constant, then `kit.js`.
    """
    parts = [f"const PALETTE = {json.dumps(dict(style.palette))};"]
    parts += [(_FOLDER / f"{name}.js").read_text(encoding="utf-8") for name in ("kit", module)]
    return "\n".join(parts)


class Figure:
    """An interactive figure, to stand as the last line of a code cell.

    Parameters
    ----------
    module : str
        Its script: "baseline" for `baseline.js`.
    state : mapping
        What the library computed. The script reads it by `model.get(name)` and hands back what the reader
        changed by `model.set(name, value)`; in JupyterLab that arrives in `widget()`.
    alt : str
        What the figure shows, for someone who cannot see it.
    still : callable
        Draws the picture that stands where no script runs, into an empty matplotlib figure.
    height : float
        Of that picture, in inches.
    plain : str
        HTML that stands there instead, for what is text and no picture.
    """

    def __init__(
        self,
        module: str,
        state: Mapping[str, Any],
        *,
        alt: str,
        still: Callable[[Picture], None] | None = None,
        height: float = 4.0,
        plain: str = "",
    ) -> None:
        # NaN is no JSON, and a browser would refuse the whole state because of it.
        self.state: dict[str, Any] = json.loads(json.dumps(dict(state), allow_nan=False))
        self.module = module
        self.alt = " ".join(alt.split())
        self._still, self._height = still, height
        self._plain = plain
        self._png: str | None = None
        self._widget: Any = None

    def still(self) -> str:
        """The still picture: a PNG of twice the screen's resolution, in base64."""
        assert self._still is not None
        if self._png is None:
            import matplotlib as mpl
            from matplotlib.figure import Figure as Picture
            from PIL import Image

            drawn, file = io.BytesIO(), io.BytesIO()
            with mpl.rc_context(cast("Any", style.settings())):
                picture = Picture(figsize=(style.WIDTH, self._height))
                self._still(picture)
                picture.savefig(drawn, format="png", dpi=2 * 96)
            # A notebook may have 1 MB: 128 colours look the same here and weigh a third.
            few = Image.open(drawn).convert("RGB").quantize(128, dither=Image.Dither.NONE)
            few.save(file, format="png", optimize=True)
            self._png = base64.b64encode(file.getvalue()).decode("ascii")
        return self._png

    def widget(self) -> Any:
        """The live figure, as an anywidget with one trait for each name in the state."""
        if self._widget is None:
            import anywidget
            import traitlets

            traits = {name: traitlets.Any(value).tag(sync=True) for name, value in self.state.items()}
            kind = type("LiveFigure", (anywidget.AnyWidget,), {"_esm": source(self.module), **traits})
            self._widget = kind()
        return self._widget

    def __repr__(self) -> str:
        return f"Interactive figure “{self.module}”. {self.alt}"

    def _repr_mimebundle_(
        self, include: Iterable[str] | None = None, exclude: Iterable[str] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        content: dict[str, Any] = {"module": self.module, "state": self.state, "alt": self.alt}
        data: dict[str, Any] = {MIME: content, "text/plain": repr(self)}
        metadata: dict[str, Any] = {}
        if self._plain:
            # The site's renderer sees one output type, so the text travels in ours as well.
            content["plain"] = data["text/html"] = self._plain
        else:
            data["image/png"] = png = self.still()
            size = _png_size(base64.b64decode(png))
            # Half the pixels, because the picture is drawn for a screen of double density.
            metadata["image/png"] = {"width": size[0] // 2, "height": size[1] // 2, "alt": self.alt}
        # A stored notebook has no kernel behind it, so a run that is going to be stored makes no widget.
        if find_spec("anywidget") is not None and not os.environ.get("PPOBOOK_BUILD"):
            live, live_metadata = self.widget()._repr_mimebundle_()
            data, metadata = {**live, **data}, {**live_metadata, **metadata}
        return data, metadata


def _png_size(png: bytes) -> tuple[int, int]:
    """Width and height in pixels, from the header that every PNG begins with."""
    return int.from_bytes(png[16:20], "big"), int.from_bytes(png[20:24], "big")


def packed(look: pd.DataFrame, digits: Mapping[str, int]) -> str:
    """These columns in one text: a notebook would give each number of a list a line of its own."""
    columns = (look[column].fillna(0.0) for column in digits)
    return "/".join(
        " ".join(f"{x:.{n}f}" for x in column) for column, n in zip(columns, digits.values(), strict=True)
    )


def annotate(ax: Axes, text: str, at: tuple[float, float], offset: tuple[float, float], **more: Any) -> None:
    """Write a text so many points from a place."""
    ax.annotate(text, at, xytext=offset, textcoords="offset points", fontsize=12, **more)


def arrow(ax: Axes, end: Any, hue: str, lw: float = 2.2, **more: Any) -> None:
    """Draw an arrow from the origin."""
    look = {"arrowstyle": "-|>", "color": hue, "lw": lw, "shrinkA": 0, "shrinkB": 0, **more}
    ax.annotate("", end, (0, 0), arrowprops=look)

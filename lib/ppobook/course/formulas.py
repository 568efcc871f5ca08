"""Formulas of LaTeX as MathML, which browsers show without a library, a script or a network."""

from __future__ import annotations

import html
import re
from types import MappingProxyType
from typing import Any
from xml.etree.ElementTree import Element, SubElement, tostring

from latex2mathml.converter import Converter

LONGEST = 2000  # characters

# What a formula is made of, and how it is laid out. The converter writes more: addresses, classes, styles,
# and what stands in \text, unescaped.
_ELEMENTS = {
    *("math", "mrow", "mi", "mn", "mo", "mtext", "mspace", "mpadded", "mphantom", "mstyle", "menclose"),
    *("mfrac", "msqrt", "mroot", "msub", "msup", "msubsup", "munder", "mover", "munderover"),
    *("mmultiscripts", "mprescripts", "none", "mtable", "mtr", "mlabeledtr", "mtd"),
}
_ATTRIBUTES = {
    *("xmlns", "display", "displaystyle", "scriptlevel", "mathvariant", "linethickness", "accent", "width"),
    *("form", "fence", "stretchy", "largeop", "movablelimits", "minsize", "maxsize", "lspace", "rspace"),
    *("columnalign", "columnspacing", "rowspacing", "columnlines", "rowlines", "notation", "linebreak"),
}


# Behind these a formula in a line may go on in the next one.
_THIN = "0.167em"
_FUNCTIONS = {"log", "ln", "exp", "sin", "cos", "tan", "sinh", "cosh", "tanh", "det", "arg", "Pr"}
_SHORT = 12  # elements
_RELATIONS = set("=<>≤≥≈≠∝∼≡→←⇒⇔∈")


def mathml(formula: str, *, block: bool = False, mark: str = "") -> str:
    """A formula of LaTeX as MathML, which keeps the formula as its label.

    It can come from anybody: what isn't mathematics is left out, and text is escaped. A long one in a line of
    text is in pieces, as a browser breaks no line within one.

    Parameters
    ----------
    formula : str
    block : bool
        Whether it stands on a line of its own.
    mark : str
        What stands behind it and may not begin a line: a full stop, a comma.

    Raises
    ------
    ValueError
        It can't be read as a formula.
    """
    if len(formula) > LONGEST:
        raise ValueError(f"a formula must have at most {LONGEST} characters, got {len(formula)}")
    # The converter knows the environments that stand alone, and not those that stand inside a formula.
    written = re.sub(r"(begin|end)\{(?:aligned|split|align)\}", r"\1{align*}", formula.strip())
    written = re.sub(r"(begin|end)\{gathered\}", r"\1{matrix}", written)
    written = re.sub(r"(\\\\)\[[\d.]+\w+\]", r"\1", written)
    converter = Converter(display="block" if block else "inline")
    # No commands of its own: two dozen that double each other would fill the memory.
    refusing: Any = MappingProxyType({})
    converter.macros = refusing
    try:
        made = converter.convert_to_element(written)
        _clean(made)
        if mark:
            SubElement(made[0], "mtext").text = mark
        pieces = [made] if block else _pieces(made)
    except Exception as error:  # of any kind, as the text can be anything
        raise ValueError(f"a formula must be LaTeX, got {formula[:60]!r}") from error
    label = html.escape(formula.strip())
    written = "".join(tostring(piece, encoding="unicode") for piece in pieces)
    if len(pieces) == 1:
        return written.replace("<math ", f'<math aria-label="{label}" ', 1)
    hidden = written.replace("<math ", '<math aria-hidden="true" ')
    return f'<span role="math" aria-label="{label}">{hidden}</span>'


def _pieces(made: Element) -> list[Element]:
    """A formula in pieces, each but the last of which ends with a relation; a short one in one piece."""
    rows: list[list[Element]] = [[]]
    (row,) = made
    if len(row) < _SHORT:
        return [made]
    for element in row:
        rows[-1].append(element)
        if element.tag == "mo" and element.text in _RELATIONS and len(rows[-1]) > 1:
            element.set("form", "infix")
            rows.append([])
    pieces = []
    for inner in filter(None, rows):
        piece = Element("math", made.attrib)
        SubElement(piece, "mrow").extend(inner)
        pieces.append(piece)
    return pieces


def _clean(element: Element) -> None:
    """Leave of an element what is mathematics; characters that it names become themselves."""
    if element.tag not in _ELEMENTS:
        element.tag = "mrow"
    for name in set(element.attrib) - _ATTRIBUTES:
        del element.attrib[name]
    element.text = html.unescape(element.text) if element.text else None
    element.tail = None
    inside = list(element)
    for before, inner, after in zip([None, *inside], inside, [*inside[1:], None], strict=False):
        _clean(inner)
        text = inner.text or ""
        if inner.tag == "mi" and text in _FUNCTIONS:
            inner.tag = "mo"
        if inner.tag == "mo" and text.isalpha() and len(text) > 1:  # a function's name, not a sign
            inner.set("lspace", _THIN if before is not None and before.tag != "mo" else "0")
            inner.set("rspace", _THIN if after is not None and after.tag != "mo" else "0")
        elif inner.tag == "mo" and text == "|":
            inner.set("lspace", "0")
            inner.set("rspace", "0")

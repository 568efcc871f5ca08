"""Formulas of LaTeX as MathML, which browsers show without a library, a script or a network."""

from __future__ import annotations

import html
import re
from types import MappingProxyType
from typing import Any
from xml.etree.ElementTree import Element, tostring

from latex2mathml.converter import Converter

LONGEST = 2000  # characters

# What a formula is made of, and how it is laid out. The converter writes more: addresses, classes, styles.
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


def mathml(formula: str, *, block: bool = False) -> str:
    """Convert a formula to MathML that has the formula as its label.

    It can come from anybody: what isn't mathematics is left out, and text is escaped.
    """
    if len(formula) > LONGEST:
        raise ValueError(f"a formula must have at most {LONGEST} characters, got {len(formula)}")
    # The converter knows the environments that stand alone, but not those that stand inside a formula.
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
    except Exception as error:  # of any kind, as the text can be anything
        raise ValueError(f"a formula must be LaTeX, got {formula[:60]!r}") from error
    made.set("aria-label", formula.strip())
    return tostring(made, encoding="unicode")


def _clean(element: Element) -> None:
    """Leave of an element what is mathematics; characters that it names become themselves."""
    if element.tag not in _ELEMENTS:
        element.tag = "mrow"
    for name in set(element.attrib) - _ATTRIBUTES:
        del element.attrib[name]
    element.text = html.unescape(element.text) if element.text else None
    element.tail = None
    for inner in element:
        _clean(inner)

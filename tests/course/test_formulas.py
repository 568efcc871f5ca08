"""Formulas as MathML: what a page shows of them, and that nothing else can be in one."""

import contextlib
import re
import time

import pytest

from ppobook.course.safe_text import mathml
from ppobook.teaching.workspace import find_source


def test_a_formula_keeps_what_was_written_as_its_label():
    made = mathml(r"\frac{a}{b} < 1")
    assert r'aria-label="\frac{a}{b} &lt; 1"' in made
    assert "<mfrac><mrow><mi>a</mi></mrow><mrow><mi>b</mi></mrow></mfrac><mo>&lt;</mo>" in made
    assert 'display="block"' in mathml("x", block=True)


@pytest.mark.parametrize("formula", [r"\left(", "{", r"\def\a{xx}\a", "x" * 2001])
def test_what_is_no_formula_is_refused(formula):
    with pytest.raises(ValueError, match="a formula must"):
        mathml(formula)


@pytest.mark.parametrize("piece", ["x'", "&", r"\sqrt{", "{", r"\frac", "x^", r"\left("])
def test_no_formula_takes_long(piece):
    began = time.process_time()
    for formula in (piece * (2000 // len(piece)), piece * 150 + "}" * 150):
        with contextlib.suppress(ValueError):
            mathml(formula)
    assert time.process_time() - began < 10


def test_every_formula_of_the_exercises_is_shown():
    found = 0
    for path in (find_source() / "exercises" / "masters").glob("*.md"):
        text = re.sub(r"^```.*?^```$", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
        for display, line, role in re.findall(
            r"\$\$(.+?)\$\$|(?<![\w$])\$([^$\n]+)\$|\{math\}`(.+?)`", text, re.S
        ):
            assert "<math" in mathml(display or line or role)
            found += 1
    assert found > 300

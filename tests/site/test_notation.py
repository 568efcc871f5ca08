"""The notation ledger: each name is one of the library's, with its shape, and each symbol is in a chapter."""

import importlib
import inspect
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest

import site_notation

ROOT = Path(__file__).parents[2]
TABLES = site_notation.rows_of((ROOT / site_notation.DATA).read_text(encoding="utf-8"))
ROWS = [row for rows in TABLES.values() for row in rows]
PLACES = [(row, name, place) for row in ROWS for name, place in row["places"].items()]
CHAPTERS = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / "chapters").glob("*.md")}


def thing_at(place):
    """The function or class of the library at `returns.gae` or `envs.tabular.TabularMDP.q_values`."""
    parts = place.split(".")
    for end in range(len(parts), 0, -1):
        try:
            thing = importlib.import_module(".".join(["ppobook", *parts[:end]]))
        except ModuleNotFoundError:
            continue
        for part in parts[end:]:
            thing = getattr(thing, part)
        return thing
    raise AssertionError(place)


@pytest.mark.parametrize(("row", "name", "place"), PLACES, ids=[f"{n}-{p}" for _, n, p in PLACES])
def test_each_name_is_the_librarys(row, name, place):
    target, _, member = place.partition(":")
    thing = thing_at(target)
    if not member:
        assert target.split(".")[-1] == name
        return
    assert member == name
    if inspect.isfunction(thing):
        assert name in inspect.signature(thing).parameters
    else:
        known = {field.name for field in fields(thing)} if is_dataclass(thing) else set()
        assert name in known or hasattr(thing, name) or name in inspect.getsource(thing.__init__)


def test_each_symbol_is_first_met_in_the_chapter_that_brings_it():
    met = {
        (row["symbols"] or row["names"])[0]: int(site_notation.first_chapter(row, CHAPTERS)[:2])
        for row in ROWS
    }
    brought = {r"\gamma": 1, r"G_t": 1, r"\delta_{\text{KL}}": 2, r"F": 2, r"\varepsilon": 3, r"\delta_t": 4}
    brought |= {"c_v": 3, r"V^{\text{targ}}_t": 4, "d_t": 4, r"V_\phi(s_t)": 5, r"d_\pi(s)": 2, "Z": 9}
    brought |= {r"\lambda": 4, r"R(x, y)": 7, r"y_w": 7, r"G": 8, r"h": 9, r"\mu": 10, r"C": 10}
    assert {symbol: met[symbol] for symbol in brought} == brought

"""Copies of rooms of the language part with a mistake in them, made in this process.

`test_planted_bugs` plants in a copy of the whole library, and runs its tests. Here a check is a function of
the room, so that it can be asked of the true one and of the copy alike.
"""

import sys
import types
from pathlib import Path
from typing import NamedTuple

import ppobook.language


class Bug(NamedTuple):
    """A mistake, and where: the text `here`, which `file` has once, becomes `wrong`; `check` must notice."""

    mistake: str
    file: str
    here: str
    wrong: str
    check: object


def text_with(bug, name):
    """The text of a room, with the bug if it is the bug's."""
    text = Path(sys.modules[f"ppobook.language.{name}"].__file__).read_text(encoding="utf-8")
    if name != bug.file:
        return text
    found = text.count(bug.here)
    assert found == 1, f"{name}.py has this {found} times, and once is wanted: {bug.here!r}"
    return text.replace(bug.here, bug.wrong)


def copied(bug, name):
    """A room, empty as yet, and the code that fills it."""
    original = sys.modules[f"ppobook.language.{name}"]
    copy = types.ModuleType(original.__name__)
    copy.__file__ = original.__file__
    return copy, compile(text_with(bug, name), original.__file__, "exec")


def planted_in_chain(bug, files, monkeypatch):
    """The last of some rooms, each of which imports those before it, with a bug in it or in one of them."""
    for name in files[files.index(bug.file) :]:
        copy, code = copied(bug, name)
        monkeypatch.setitem(sys.modules, copy.__name__, copy)
        monkeypatch.setattr(ppobook.language, name, copy)
        exec(code, vars(copy))
    return copy


def planted_beside_tokens(bug, name):
    """A room with a bug in it, or in the functions that it has from `tokens`."""
    copies = {}
    for one in ("tokens", name):
        copies[one], code = copied(bug, one)
        exec(code, vars(copies[one]))
    # Its functions alone: the classes must stay those that everybody has.
    for function in ("completion_logits", "token_logp"):
        setattr(copies[name], function, getattr(copies["tokens"], function))
    return copies[name]

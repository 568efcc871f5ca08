"""The command `ppobook`: it finds the command that was typed, runs it, and turns errors into one sentence.

A command is a function; its module is imported when it is called, and imports torch after it has read its
arguments. Nothing is imported from a user's module unless its name was typed: `my_module:MyPPO`.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import re
import signal
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from traceback import extract_tb

import ppobook
from ppobook.run.spellings import did_you_mean

COMMANDS = {
    "train": ("ppobook.cli.train:train", "train a policy, or resume a run"),
    "evaluate": ("ppobook.cli.policies:evaluate", "evaluate a trained policy"),
    "doctor": ("ppobook.cli.policies:doctor", "find what goes wrong in a run, with the evidence"),
    "compare": ("ppobook.cli.policies:compare", "compare runs, with intervals over their seeds"),
    "watch": ("ppobook.cli.policies:watch", "film a trained policy"),
    "record": (
        "ppobook.cli.policies:record",
        "run a recorded experiment: many settings and seeds, one table",
    ),
    "envs": ("ppobook.cli.work:envs", "list environments"),
    "work": ("ppobook.cli.work:work", "copy chapters and exercises into a folder of your own"),
    "reset": ("ppobook.cli.work:reset", "start an exercise over; your answers go into a backup"),
    "progress": ("ppobook.cli.work:progress", "show which exercises are right, what is next, what is left"),
    "language": ("ppobook.cli.language:run", "train and evaluate small language models"),
    "course": ("ppobook.cli.course:run", "run a course: hand out, collect, grade, give back"),
}

EXAMPLES = """\
  ppobook train ppo --env CartPole-v1 --seed 0 --total-steps 100000 --out RUN
  ppobook train --resume RUN
  ppobook evaluate RUN
  ppobook doctor RUN
  ppobook compare RUN RUN RUN --out comparison.svg
  ppobook watch RUN --out episode.gif
  ppobook language --help

  ppobook --version; ppobook --traceback COMMAND … shows where an error came from"""

# The extra that brings a module with it, for whoever has not installed it.
EXTRAS = {
    "matplotlib": "plot",
    "imageio": "watch",
    "ray": "scale",
}
# Errors of use; others are printed as Python prints them, with their traceback.
USUAL = (ValueError, TypeError, OSError, ModuleNotFoundError, FloatingPointError)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # ASCII lacks "…" and γ
            stream.reconfigure(errors="replace")
    traceback = words[:1] == ["--traceback"]
    try:
        if words == ["--version"]:
            print(f"ppobook {ppobook.__version__}")
        else:
            run_command(words[traceback:], "ppobook", COMMANDS, EXAMPLES)
        sys.stdout.flush()
    except KeyboardInterrupt as stopped:
        if argv is None:  # the process ends: a further Ctrl-C must not cut its last line
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        _say(f"{stopped}{_notes(stopped)}".removeprefix("; ") or "stopped by Ctrl-C")
        return 128 + getattr(stopped, "signal", signal.SIGINT)
    except BrokenPipeError:  # the reader of a pipe, such as head, has closed it
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - the interpreter flushes it at exit
    except USUAL as error:
        if traceback:
            raise
        if extra := EXTRAS.get(getattr(error, "name", None) or ""):
            error.add_note(f"pip install 'ppobook[{extra}]'")
        not_finite = isinstance(error, FloatingPointError)
        _say(f"{error}{'' if not_finite else _place(error)}{_notes(error)}")
        return 1 if not_finite else 2
    return 0


def _say(text: str) -> None:
    # Arguments of Python as options, and those of one folder as its name.
    text = re.sub(r"\b(out|resume)='(.*?)'", r"--\1 \2", re.sub(r"\bfolders?=(?=')", "", text))
    with contextlib.suppress(OSError):  # the terminal may be gone, which is what SIGHUP is about
        print(f"ppobook: {text}", file=sys.stderr)


def _notes(error: BaseException) -> str:
    """Return the notes on an error, such as which update is saved."""
    return "".join(f"; {note}" for note in getattr(error, "__notes__", []))


def _place(error: BaseException | None) -> str:
    """The last line of a user's own code that an error came from, "; my_module.py, line 7, in loss"."""
    libraries = (os.path.dirname(os.path.dirname(ppobook.__file__)), *sysconfig.get_paths().values())
    while error is not None:
        for frame in reversed(extract_tb(error.__traceback__)):
            file = os.path.abspath(frame.filename)
            if os.path.isfile(file) and not file.startswith(libraries):
                return f"; {os.path.relpath(file)}, line {frame.lineno}, in {frame.name}"
        error = error.__cause__
    return ""


def run_command(
    words: Sequence[str], prog: str, commands: Mapping[str, tuple[str, str]], examples: str
) -> None:
    """Run the command that the first word names, with the other words; without words, print the help."""
    if not words or words[0] in ("-h", "--help", "help"):
        print(f"usage: {prog} COMMAND …\n\ncommands:")
        for name, (_, summary) in commands.items():
            print(f"  {name:<14} {summary}")
        print(f"\n{prog} COMMAND --help shows the options of a command.\n\nexamples:\n{examples}")
        return
    name = words[0].replace("-", "_")
    if name not in commands:
        hint = did_you_mean(name, commands) or f". See {prog} --help"
        raise ValueError(f"the command must be one of {', '.join(commands)}, got {words[0]!r}{hint}")
    module, _, function = commands[name][0].partition(":")
    getattr(importlib.import_module(module), function)(words[1:], f"{prog} {name}")

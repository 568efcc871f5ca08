"""The command `ppobook`: it finds the command that was typed, runs it, and turns errors into one sentence.

A command is a function; its module is imported when it is called, and imports torch after it has read its
arguments. Nothing is imported from a user's module unless its name was typed: `my_module:MyPPO`.
"""

from __future__ import annotations

import codecs
import contextlib
import importlib
import io
import os
import signal
import sys
from collections.abc import Mapping, Sequence

import ppobook
from ppobook.run.naming import as_options

COMMANDS = {
    "train": ("ppobook.cli.train:train", "train a policy, or resume a run"),
    "evaluate": ("ppobook.cli.evaluate:evaluate", "evaluate a trained policy"),
    "doctor": ("ppobook.cli.doctor:doctor", "find what goes wrong in a run, with the evidence"),
    "compare": ("ppobook.cli.compare:compare", "compare runs, with intervals over their seeds"),
    "watch": ("ppobook.cli.evaluate:watch", "film a trained policy"),
    "export": ("ppobook.cli.evaluate:export", "export a trained policy to ONNX"),
    "record": ("ppobook.cli.record:record", "run a recorded experiment: many settings and seeds, one table"),
    "envs": ("ppobook.cli.work:envs", "list environments"),
    "work": ("ppobook.cli.work:work", "copy chapters and exercises into a folder of your own"),
    "reset": ("ppobook.cli.work:reset", "start an exercise over; your answers go into a backup"),
    "progress": ("ppobook.cli.work:progress", "show which exercises are right, what is next, what is left"),
    "language": ("ppobook.cli.language:run", "train and evaluate small language models"),
    "course": ("ppobook.cli.course:run", "run a course: hand out, collect, grade, give back"),
}

# Those that `ppobook language` has not, and that read runs.
OF_POLICIES = ("doctor", "watch")

EXAMPLES = """\
  ppobook train ppo --env CartPole-v1 --seed 0 --total-steps 100000 --out RUN
  ppobook train --resume RUN
  ppobook evaluate RUN
  ppobook doctor RUN
  ppobook compare RUN RUN RUN --out comparison.svg
  ppobook watch RUN --out episode.gif
  ppobook export RUN policy.onnx
  ppobook language --help

  ppobook --version; ppobook --traceback COMMAND … shows where an error came from"""

# A missing module of these was not installed; any other is missing in the user's own code.
_DEPENDENCIES = {"gymnasium", "matplotlib", "numpy", "pandas", "scipy", "torch", "tqdm", "tyro", "yaml"}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    _print_anything()
    traceback = words[:1] == ["--traceback"]
    try:
        if words == ["--version"]:
            print(f"ppobook {ppobook.__version__}")
        else:
            with as_options():
                try:
                    run_command(words[traceback:], "ppobook", COMMANDS, EXAMPLES)
                except SystemExit:  # after --help, which is printed as well
                    sys.stdout.flush()
                    raise
        sys.stdout.flush()
    except KeyboardInterrupt as stopped:
        if argv is None:  # the process ends: a further Ctrl-C must not cut its last line
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        _say(_stopped(stopped))
        return 128 + getattr(stopped, "signal", signal.SIGINT)
    except BrokenPipeError:  # the reader of a pipe, such as head, has closed it
        _print_nothing()
        return 0
    except SystemExit as ended:
        place, notes = _place(ended), _notes(ended)
        if not (place or notes):  # after --help
            raise
        _say(f"sys.exit was called{place}{notes}")
        if ended.code:
            raise
        return 1  # what was asked for is not done
    except BaseException as error:  # GeneratorExit, too
        usual = isinstance(error, ValueError | TypeError | OSError | ModuleNotFoundError | FloatingPointError)
        place = "" if isinstance(error, FloatingPointError) else _place(error)
        if _from_stdout(error):
            _print_nothing()
            _say(f"stdout must take what is printed, got: {getattr(error, 'strerror', error)}")
            return 2
        if traceback or not (usual or place):
            raise
        ours = isinstance(error, ModuleNotFoundError) and f"{error.name}".split(".")[0] in _DEPENDENCIES
        remedy = "; it comes with `make lab`, or `pip install -e .` in the book's folder" if ours else ""
        syntax = isinstance(error, SyntaxError)
        said = error.msg if isinstance(error, SyntaxError) else error  # without its place, which follows
        kind = type(error).__name__
        message = f"{error}" if usual else f"{kind}: {said}" if f"{said}" else kind
        _say(f"{message}{remedy}{place}{_notes(error)}")
        return 1 if isinstance(error, FloatingPointError) or not (usual or syntax) else 2
    return 0


def _from_stdout(error: BaseException) -> bool:
    """Whether an error is that nothing can be printed. Errors about files name these."""
    if not isinstance(error, OSError) or error.errno is None or error.filename is not None:
        return False
    try:
        print(flush=True)
    except OSError:
        return True
    return False


def _print_nothing() -> None:
    """Print nothing from here on: the interpreter flushes stdout at exit."""
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115


def _say(text: str) -> None:
    with contextlib.suppress(OSError):  # the terminal may be gone, which is what SIGHUP is about
        print(f"ppobook: {text}", file=sys.stderr)


def _stopped(error: BaseException | None) -> str:
    """What a KeyboardInterrupt says; a further Ctrl-C may have come while the first was on its way."""
    while error is not None:
        if isinstance(error, KeyboardInterrupt) and (said := f"{error}{_notes(error)}"):
            return said.removeprefix("; ")
        error = error.__context__
    return "stopped by Ctrl-C"


def _notes(error: BaseException) -> str:
    """What was noted on an error: which update is saved, for one."""
    return "".join(f"; {note}" for note in getattr(error, "__notes__", []))


def _place(error: BaseException | None) -> str:
    """The last line of a user's own code that an error came from, "; my_module.py, line 7, in loss"."""
    import sysconfig
    from traceback import extract_tb

    libraries = [os.path.dirname(os.path.dirname(ppobook.__file__)), *sysconfig.get_paths().values()]
    while error is not None:
        lines = [
            (frame.filename, frame.lineno, f", in {frame.name}") for frame in extract_tb(error.__traceback__)
        ]
        if isinstance(error, SyntaxError):  # in a file that was to be imported
            lines.append((error.filename or "", error.lineno, ""))
        for named, line, function in reversed(lines):
            file = os.path.abspath(named)
            if os.path.isfile(file) and not any(file.startswith(f"{folder}{os.sep}") for folder in libraries):
                return f"; {os.path.relpath(file)}, line {line}{function}"
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
    if words[0].startswith("-"):
        raise ValueError(f"{words[0]}: {prog} has no such option. See {prog} --help")
    if name not in commands:
        from ppobook import validation
        from ppobook.cli.users import used_elsewhere
        from ppobook.run.spellings import did_you_mean

        hint = f": use ppobook {name}" if name in COMMANDS else used_elsewhere(name)
        if commands is not COMMANDS and name in OF_POLICIES:
            hint = f": ppobook {name} is for policies; language models have none"
        hint = hint or did_you_mean(name, commands)
        known = validation.one_of(list(commands), show=len(commands))
        raise ValueError(f"the command must be {known}, got {words[0]!r}{hint}")
    module, _, function = commands[name][0].partition(":")
    getattr(importlib.import_module(module), function)(words[1:], f"{prog} {name}")


def _print_anything() -> None:
    """Let stdout and stderr replace characters that their encoding lacks, as ASCII lacks "…" and γ.

    One that was closed, as by >&-, takes everything and shows nothing.
    """
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        # "surrogateescape", the default of the C locale, refuses such characters too, and "backslashreplace",
        # stderr's, would write \u2026.
        if isinstance(stream, io.TextIOWrapper) and stream.errors in _UNREADABLE:
            stream.reconfigure(errors="ppobook")


def _replaced(error: UnicodeError) -> tuple[str, int]:
    """What stands for the characters that an encoding lacks; and where they end."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    return "".join(_PLAIN.get(character, "?") for character in lacking), error.end


_UNREADABLE = ("strict", "surrogateescape", "backslashreplace")
_PLAIN = {"…": "...", "−": "-", "–": "-", "×": "x"}
codecs.register_error("ppobook", _replaced)

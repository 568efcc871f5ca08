"""Planted bugs: the usual mistakes, made one by one in the running library; for each, a test that must fail.

The bugs stand in tests/planted/*.diff: file and mistake, the lines that are replaced (-) and put in (+), and
the test that must find the bug (?), all parametrizations of it or one::

    objectives.py: entropy sign
    - entropy_coef * parts["entropy"]
    + -entropy_coef * parts["entropy"]
    ? test_objectives.py::test_ppo_loss_is_its_parts_and_says_what_they_were

The text after "- " must stand in the file exactly once. The changed file is compiled, and each live function
whose code differs gets the new code until the test has run; so only code inside functions can be changed. All
bugs of a file are tried in one process, whose tests have passed without a bug before.
"""

import contextlib
import gc
import importlib
import inspect
import json
import os
import subprocess
import sys
import tempfile
import types
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
TABLES = ROOT / "tests" / "planted"


class Bug(NamedTuple):
    file: str
    mistake: str
    here: str
    wrong: str
    test: str


def read(name):
    """The bugs of a table."""
    bugs = []
    for block in (TABLES / name).read_text(encoding="utf-8").split("\n\n"):
        lines = [line for line in block.splitlines() if not line.startswith("#")]
        if lines:
            file, mistake = lines[0].split(": ", 1)
            kinds = {kind: [line[2:] for line in lines[1:] if line[0] == kind] for kind in "-+?"}
            assert sum(map(len, kinds.values())) == len(lines) - 1, f"{name} has a line of no kind: {block}"
            here, wrong = "\n".join(kinds["-"]), "\n".join(kinds["+"])
            bugs.append(Bug(file, mistake, here, wrong, *kinds["?"]))
    return bugs


def functions(text, filename):
    """The code of all functions of a module and of its classes, by name and order."""

    def inside(code):
        for part in code.co_consts:
            if isinstance(part, types.CodeType):
                if part.co_flags & inspect.CO_OPTIMIZED:
                    yield part
                else:  # the body of a class
                    yield from inside(part)

    return list(inside(compile(text, filename, "exec", dont_inherit=True)))


@contextlib.contextmanager
def planted(bug):
    """The library with a bug in it, in this process."""
    module = importlib.import_module("ppobook." + bug.file.removesuffix(".py").replace("/", "."))
    text = Path(module.__file__).read_text(encoding="utf-8")
    found = text.count(bug.here)
    assert found == 1, f"{bug.file} must have these lines once, got {found} times:\n{bug.here}"
    right = functions(text, module.__file__)
    wrong = functions(text.replace(bug.here, bug.wrong), module.__file__)
    assert [code.co_qualname for code in right] == [code.co_qualname for code in wrong]
    changed = {
        (old.co_qualname, old.co_firstlineno): new
        for old, new in zip(right, wrong, strict=True)
        if old != new
    }
    # Every function, also those that a decorator has wrapped; what is frozen is not among the objects.
    gc.unfreeze()
    old = {}
    for x in gc.get_objects():
        if type(x) is types.FunctionType and x.__code__.co_filename == module.__file__:
            key = x.__code__.co_qualname, x.__code__.co_firstlineno
            if key in changed:
                old[x] = x.__code__, changed[key]
    assert old, f"{bug.file} must be changed inside a function, got:\n{bug.here}"
    try:
        for function, (_, new) in old.items():
            function.__code__ = new
        yield
    finally:
        for function, (code, _) in old.items():
            function.__code__ = code


class Trial:
    """A pytest plugin that runs the tests of some bugs, first as they are, then each with its bug."""

    def __init__(self, bugs):
        self.bugs, self.broken, self.passed, self.outcomes = bugs, {}, {}, []

    def pytest_collectreport(self, report):
        if report.failed:
            self.broken[report.nodeid] = report.longreprtext

    def pytest_runtestloop(self, session):
        items = {bug.test: [] for bug in self.bugs}
        for item in session.items:
            for test in items:
                if f"tests/{test}" in (item.nodeid, item.nodeid.partition("[")[0]):
                    items[test].append(item)
        for test, variants in items.items():
            reason = self.broken.get("tests/" + test.partition("::")[0], "there is no such test")
            self.passed[test] = [self.error(item) for item in variants] or [reason]
        for bug in self.bugs:
            self.outcomes.append(self.outcome(bug, items[bug.test]))
        return True

    def error(self, item):
        """The text of a test's failure; empty if it passes."""
        from _pytest.runner import runtestprotocol

        reports = runtestprotocol(item, log=False, nextitem=None)
        return "\n".join(r.longreprtext or r.outcome for r in reports if not r.passed)

    def outcome(self, bug, items):
        """ "found", or what happened instead."""
        for error in self.passed[bug.test]:
            if error:
                return f"{bug.test} does not pass without a bug: {error}"
        try:
            with planted(bug):
                for item in items:
                    if error := self.error(item):
                        lines = [line for line in error.splitlines() if line.startswith("E")]
                        asserted = any("assert" in line.lower() for line in lines)
                        return "found" if asserted else f"{bug.test} failed, but by no assertion: {error}"
        except AssertionError as error:
            return str(error)
        return f"{bug.test} passes with this bug in {bug.file}: {bug.mistake}\n{bug.wrong}"


def outcomes(bugs):
    """ "found" for each bug, or what happened instead; tried in another process."""
    environment = {name: x for name, x in os.environ.items() if not name.startswith(("PYTEST_", "COV_"))}
    environment |= {"OMP_NUM_THREADS": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "bugs.json"
        table.write_text(json.dumps(bugs), encoding="utf-8")
        command = [sys.executable, __file__, str(table)]
        child = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )
        found = json.loads(table.read_text(encoding="utf-8"))
    assert child.returncode == 0, child.stdout + child.stderr
    return dict(zip(bugs, found, strict=True))


def main(path):
    import hypothesis
    import pytest

    # The first example that fails will do; the smallest would take longer to find.
    phases = [hypothesis.Phase.explicit, hypothesis.Phase.generate]
    hypothesis.settings.register_profile("planted", phases=phases, derandomize=True, database=None)
    hypothesis.settings.load_profile("planted")
    table = Path(path)
    trial = Trial([Bug(*fields) for fields in json.loads(table.read_text(encoding="utf-8"))])
    files = sorted({"tests/" + bug.test.partition("::")[0] for bug in trial.bugs})
    files = [file for file in files if (ROOT / file).exists()]
    pytest.main(["-q", "-p", "no:cacheprovider", "--tb=short", *files], plugins=[trial])
    table.write_text(json.dumps(trial.outcomes), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])

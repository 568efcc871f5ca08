"""Whole submissions: what they earn; those of a cheat earn nothing, and harm nobody."""

import json
import time
from pathlib import Path

import far_answers
import numpy as np
import pytest

from ppobook.course import masters
from ppobook.course.grading import Result, grade_submission, part_seeds
from ppobook.course.pack import Pack
from ppobook.course.remote import Grader
from ppobook.course.sandbox import Limits
from ppobook.teaching import checks

MASTERS = Path(__file__).parents[2] / "exercises" / "masters"
NAMES = sorted(path.stem for path in MASTERS.glob("*.ipynb"))
SECRET = "5f0c" * 16


def pack_of(name):
    master = masters.read(MASTERS / f"{name}.ipynb")
    return Pack.of(name, masters.reader(master)), masters.solutions(master)


def part_of(name, exercises):
    """A pack of some exercises of a set, and their solutions: its first code cell, and theirs."""
    pack, solutions = pack_of(name)
    cells = pack.notebook["cells"]
    kept = [next(c for c in cells if c["cell_type"] == "code")]
    kept += [c for c in cells if {t.split(":")[1] for t in masters.tags(c) if ":" in t} & set(exercises)]
    small = Pack.of(name, pack.notebook | {"cells": kept})
    return small, {key: solutions[key] for key in exercises}


def filled(pack, answers):
    return json.dumps(masters.fill(pack.notebook, answers)).encode()


PACK, SOLUTIONS = part_of("03_the_clipped_surrogate", ["clipped-loss", "ratio-one", "eps-kl"])
RIGHT = {name: solution.source for name, solution in SOLUTIONS.items()}
LIMITS = Limits(cell_seconds=2.0, memory_mb=900, processes=40)


@pytest.fixture
def grade(server):
    def made(answers=None, *, pack=PACK, before="", data=None, **options):
        """Grade the right answers with some of them replaced, and perhaps a cell of the student's first."""
        submission = data or filled(pack, RIGHT | (answers or {}))
        if before:
            notebook = json.loads(submission)
            cell = {"cell_type": "code", "id": "mine", "metadata": {}, "source": before, "outputs": []}
            notebook["cells"].insert(1, cell)
            submission = json.dumps(notebook).encode()
        options = {"limits": LIMITS, "seed": part_seeds(SECRET, "ada")} | options
        return grade_submission(pack, submission, server=server, **options)

    return made


def kinds(result):
    return {name: part.kind for name, part in result.parts.items()}


ALL_RIGHT = dict.fromkeys(RIGHT, "right")


# --- the book's own solutions


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.slow) if n[:2] in ("01", "02", "06") else n for n in NAMES],
)
def test_the_masters_solutions_are_right_and_its_blanks_are_not_yet(server, name):
    pack, solutions = pack_of(name)
    result = grade_submission(
        pack, filled(pack, solutions), server=server, seed=part_seeds(SECRET, "eve"), limits=Limits()
    )
    assert {part: found.message for part, found in result.parts.items() if found.kind != "right"} == {}
    assert result.points == sum(part.points for part in pack.tested) > 0
    assert not result.notes
    blank = grade_submission(pack, json.dumps(pack.notebook).encode(), server=server)
    assert set(kinds(blank).values()) == {"not yet"}
    assert blank.points == 0


def test_planted_answers_get_the_verdict_that_they_get_here(server):
    with server.start() as sandbox:
        grader = Grader(sandbox)
        assert grader.cell(far_answers.cell(), 20.0) is None
        for place in [p for p in far_answers.planted() if p[2] != "capstone-learning"][5::300]:
            module, table, name, keys = place
            near = checks.run(name, far_answers.here(*place))
            far = checks.run(name, grader.name(f"planted({module!r}, {table!r}, {name!r}, *{keys!r})"))
            assert (far.kind, far.name) == (near.kind, near.name), place


def test_a_result_is_json_and_back(grade):
    result = grade()
    assert kinds(result) == ALL_RIGHT
    assert Result.from_json(result.as_json()) == result
    assert 0 < result.cpu < 20
    assert result.peak_mb > 10


def test_wrong_answers_are_called_by_their_names(grade):
    wrong = "def clipped_loss(logp, old_logp, advantages, eps):\n    return {}(logp - old_logp).exp().mean()"
    result = grade({"clipped-loss": RIGHT["clipped-loss"].replace("-torch.minimum", "torch.minimum")})
    assert result.parts["clipped-loss"].kind == "mistake"
    assert result.parts["clipped-loss"].points == 0
    assert result.points == sum(part.points for part in PACK.tested) - result.parts["clipped-loss"].max
    half = grade({"clipped-loss": wrong.format("-")}, partial={"property": 0.5, "mistake": 0.5})
    assert half.parts["clipped-loss"].points == half.parts["clipped-loss"].max / 2


def test_parts_have_probes_of_their_own():
    seed, other = part_seeds(SECRET, "ada"), part_seeds(SECRET, "bob")
    assert len({seed("a"), seed("b"), other("a"), part_seeds("", "ada")("a")}) == 4
    assert seed("a") == part_seeds(SECRET, "ada")("a")


def test_a_stored_probe_that_is_replayed_fails(grade):
    """All the answers to the public check, by what was asked, and nothing for what is asked in grading."""
    seen = {}

    def note(*args, **kwargs):
        space = {}
        exec("import numpy as np, torch\n" + RIGHT["ratio-one"], space)
        answer = [v for k, v in space.items() if callable(v) and k not in ("np", "torch")][-1](
            *args, **kwargs
        )
        key = repr([np.asarray(x.detach() if hasattr(x, "detach") else x).round(4).tolist() for x in args])
        seen[key] = answer.detach().tolist()
        return answer

    assert checks.run("ratio-one", note).right
    name = next(part.expression for part in PACK.tested if part.name == "ratio-one")
    replay = f"""
def {name}(*args):
    key = repr([np.asarray(x.detach() if hasattr(x, 'detach') else x).round(4).tolist() for x in args])
    return torch.tensor({seen!r}[key])
"""
    assert grade({"ratio-one": replay}, seed=lambda part: 0).parts["ratio-one"].kind == "right"
    assert grade({"ratio-one": replay}).parts["ratio-one"].kind == "raised"


def test_an_adapter_turns_the_function_into_the_checks_form(grade):
    turned = RIGHT["clipped-loss"].replace(
        "(logp, old_logp, advantages, eps)", "(eps, advantages, old_logp, logp)", 1
    )
    parts = [
        part
        if part.name != "clipped-loss"
        else type(part)(part.name, part.points, part.expression, adapter=lambda f: lambda *a: f(*reversed(a)))
        for part in PACK.tested
    ]
    pack = Pack(PACK.assignment, PACK.notebook, tuple(parts), PACK.manual)
    assert kinds(grade({"clipped-loss": turned}, pack=pack)) == ALL_RIGHT
    assert grade(pack=pack).parts["clipped-loss"].kind != "right"


# --- what a cheat tries

WRONG = {"clipped-loss": "def clipped_loss(logp, old_logp, advantages, eps):\n    return logp.sum() * 0"}
PATCHES = {
    "comparisons": "import torch, numpy as np\n"
    "torch.allclose = np.allclose = np.isclose = lambda *a, **k: True\n"
    "np.testing.assert_allclose = lambda *a, **k: None",
    "assert": "import builtins; builtins.AssertionError = type('A', (BaseException,), {})",
    "the check": "from ppobook.teaching import checks, check\n"
    "checks.run = lambda *a: checks.Verdict('right', '', '')\n"
    "checks.close = checks.findings.close = lambda *a: True\nchecks.check = print",
    "the verdict": "from ppobook.teaching.checks import findings, probes, Verdict\n"
    "Verdict.right = property(lambda s: True)\nprobes._near = lambda *a: True\n"
    "findings.Property = lambda *a: a",
    "frames and gc": "import gc, sys\nfor o in gc.get_objects():\n"
    "    if type(o).__name__ == 'Notebook': o.run = lambda *a: None\n"
    "f = sys._getframe()\nwhile f: f.f_locals.clear() if False else None; f = f.f_back",
}


@pytest.mark.parametrize("before", PATCHES.values(), ids=PATCHES)
def test_patching_earns_nothing(grade, before):
    result = grade(WRONG, before=before)
    assert result.parts["clipped-loss"].kind in ("mistake", "property", "returned", "raised", "missing")
    assert result.parts["clipped-loss"].points == 0


ENDINGS = {
    "exit": ("import sys; sys.exit()", "raised"),
    "_exit": ("import os; os._exit(0)", "ended"),
    "killed": ("import os; os.kill(os.getpid(), 9)", "ended"),
    "endless": ("while True: pass", "slow"),
    "stubborn": ("while True:\n        try: 1\n        except BaseException: pass", "slow"),
    "recursion": ("return clipped_loss(logp, old_logp, advantages, eps)", "raised"),
    "memory": ("return torch.zeros(10**12)", "raised"),
    "closed": ("import os; os.closerange(3, 100)", "ended"),
    "quiet": ("raise __import__('ppobook').course.channel.Ended('x', 'y')", "ended"),
}


@pytest.mark.parametrize(("body", "kind"), ENDINGS.values(), ids=ENDINGS)
def test_a_function_that_ends_or_does_not_end_costs_its_own_points_only(grade, body, kind):
    answer = f"def clipped_loss(logp, old_logp, advantages, eps):\n    {body}\n"
    result = grade({"clipped-loss": answer}, limits=Limits(seconds=5.0, memory_mb=900))
    assert kinds(result) == ALL_RIGHT | {"clipped-loss": kind}, result.parts["clipped-loss"].message


CELLS = {
    "_exit": "import os; os._exit(0)",
    "endless": "while True: pass",
    "stubborn": "import signal\nsignal.signal(14, lambda *a: 0)\nwhile True: pass",
    "forks": "import os\nwhile True:\n    os.fork()",
    "memory": "import os, time, numpy as np\nfor _ in range(9):\n"
    "    if os.fork() == 0: a = np.ones(2**25); time.sleep(99)\ntime.sleep(99)",
    "disk": "open('x', 'w').write('x' * 2**30)",
    "output": "while True: print('x' * 10**6)",
    "an error": "1 / 0",
    "no Python": "def f(:",
    "exit": "raise SystemExit",
    "a link": "import os; os.symlink('/etc/passwd', 'x'); open('x').read()",
}


@pytest.mark.parametrize("cell", CELLS.values(), ids=CELLS)
def test_a_cell_that_does_harm_is_told_and_the_rest_is_graded(grade, cell):
    result = grade(before=cell)
    assert kinds(result) == ALL_RIGHT
    assert [error.place for error in result.errors] == ["cell 2"]


def test_a_process_that_ends_again_and_again_is_left(grade):
    began = time.monotonic()
    result = grade({name: "import os; os._exit(0)" for name in RIGHT}, before="import os; os._exit(0)")
    assert result.points == 0
    assert set(kinds(result).values()) <= {"missing", "ended"}
    assert time.monotonic() - began < 30


def test_threads_that_stay_do_not_matter(grade):
    spin = "import threading\ndef spin():\n    while True: pass\nthreading.Thread(target=spin).start()"
    assert kinds(grade(before=spin)) == ALL_RIGHT


def test_a_name_that_was_deleted_is_missing_and_one_that_comes_later_counts(grade):
    result = grade({"eps-kl": RIGHT["eps-kl"] + "\ndel " + PACK.tested[-1].expression})
    assert result.parts["eps-kl"].kind == "missing"
    assert "is not defined" in result.parts["eps-kl"].message
    data = json.loads(filled(PACK, RIGHT | {"eps-kl": "x = 1"}))
    cell = {"cell_type": "code", "id": "z", "metadata": {}, "source": RIGHT["eps-kl"], "outputs": []}
    data["cells"].append(cell)
    assert kinds(grade(data=json.dumps(data).encode())) == ALL_RIGHT
    assert grade({"eps-kl": f"{PACK.tested[-1].expression} = 7"}).parts["eps-kl"].kind == "returned"


def test_what_cannot_be_read_earns_nothing_and_says_why(grade):
    result = grade(data=filled(PACK, RIGHT)[:500])
    assert set(kinds(result).values()) == {"unreadable"}
    assert "truncated" in result.notes[0]
    assert result.points == 0
    assert kinds(grade()) == ALL_RIGHT

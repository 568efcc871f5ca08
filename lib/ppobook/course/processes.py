"""The processes that grade. They import what grades and nothing of the gradebook, which is the parent's.

A submission that ends its process, or that can't be graded in it, gets nothing, with the reason, and another
process takes the place. All of them end with their parent.
"""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import os
import queue
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import AbstractContextManager
from multiprocessing.connection import Connection
from typing import Any

from ppobook.course.records import Submission
from ppobook.course.sandbox import NoSandbox

# What grades one submission: its bytes, who handed it in, and, where it can't be graded, the reason.
Grade = Callable[[bytes, str, str], Mapping[str, Any]]
# Called once in each process that grades.
OpenGrader = Callable[[], AbstractContextManager[Grade]]

# A result, or what went wrong; then "time" or "machine" where another try would not help.
Answer = tuple[Mapping[str, Any], str, str]

MEMORY = 4 * 2**30  # bytes that a process which grades may ask for; an answer that needs more is wrong


class _Process:
    """One process that grades."""

    def __init__(self, open_grader: OpenGrader, number: int) -> None:
        # "spawn": a fork of a process that has torch's threads may hang.
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_work, args=(theirs, open_grader, os.getpid(), number))
        self._process.start()
        theirs.close()
        try:
            self._pipe.recv()
        except (EOFError, OSError):
            raise ChildProcessError(f"grading could not be started: its process {self.ended()}") from None

    def grade(self, submission: Submission, reason: str, seconds: float) -> Answer:
        try:
            self._pipe.send((submission.path.read_bytes(), submission.by, reason))
            if self._pipe.poll(seconds):
                return self._pipe.recv()
        except (EOFError, OSError):
            return {}, f"the process that graded it {self.ended()}", ""
        self._process.kill()
        self.ended()
        return {}, f"grading it took longer than {seconds:g} seconds", "time"

    @property
    def lives(self) -> bool:
        return self._process.is_alive()

    def ended(self) -> str:
        """Say how it ended."""
        self._pipe.close()
        self._process.join()
        code = self._process.exitcode
        return (
            f"ended by {signal.Signals(-code).name}" if code and code < 0 else f"ended with exit code {code}"
        )

    def end(self) -> None:
        self._process.terminate()
        self.ended()


def graded(
    submissions: Sequence[Submission], open_grader: OpenGrader, processes: int, seconds: float = 3600.0
) -> Iterator[tuple[Submission, Mapping[str, Any], str]]:
    """Grade submissions in several processes: each with its result, and what went wrong.

    A submission that can't be graded is tried once more, and if that fails too, it gets a result of
    nothing. One that takes longer than `seconds` is not tried twice.

    Raises
    ------
    ChildProcessError
        Grading could not be started at all.
    """
    free: queue.SimpleQueue[int] = queue.SimpleQueue()
    running: dict[int, _Process] = {}
    stopped = threading.Event()

    def process(number: int) -> _Process:
        if number not in running or not running[number].lives:
            if stopped.is_set():
                raise ChildProcessError("grading was stopped")
            running[number] = _Process(open_grader, number)
        return running[number]

    def one(submission: Submission) -> tuple[Submission, Mapping[str, Any], str]:
        number = free.get()
        try:
            for _ in range(2):
                result, wrong, fault = process(number).grade(submission, "", seconds)
                if result or fault == "machine":
                    return submission, result, wrong
                if fault == "time":
                    break
            result, *_ = process(number).grade(submission, wrong, seconds)
            return submission, result, wrong
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
            for one_of_them in [*running.values()]:
                one_of_them.end()


def _work(pipe: Connection, open_grader: OpenGrader, parent: int, number: int) -> None:
    """One process: grade what comes through the pipe, until it closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's, which then ends this process
    if sys.platform == "linux":
        _bind(number)
    if os.getppid() != parent:
        os._exit(1)
    spent = 0.0
    with open_grader() as grade_one:
        pipe.send("ready")
        while True:
            try:
                content, by, reason = pipe.recv()
            except (EOFError, OSError):
                break
            try:
                result = dict(grade_one(content, by, reason))
                now = time.process_time()  # for the first, with what starting this process took
                result["cpu"] = result.get("cpu", 0.0) + now - spent
                answer: Answer = result, "", ""
                spent = now
            except Exception as error:
                traceback.print_exc(file=sys.stderr)
                fault = "machine" if isinstance(error, OSError | NoSandbox) else ""
                answer = {}, f"{type(error).__name__}: {error}".rstrip(": ")[:500], fault
            with contextlib.suppress(OSError):
                pipe.send(answer)


def _bind(number: int) -> None:
    """End this process with its parent, even by kill -9, and limit its memory and its processors.

    The sandboxes that it makes have the same one processor, so that none takes the time of another.
    """
    import resource

    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    here = MEMORY if most == resource.RLIM_INFINITY else min(MEMORY, most)
    resource.setrlimit(resource.RLIMIT_DATA, (here, most))
    processors = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {processors[number % len(processors)]})

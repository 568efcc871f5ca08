"""The processes that grade. They import what grades and nothing of the gradebook, which is the parent's.

A process that dies takes one submission with it and is replaced; all of them end with their parent.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import multiprocessing
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from ppobook.course.records import Submission

# What grades one submission: its bytes, and who handed it in, whose hidden numbers are drawn.
Grade = Callable[[bytes, str], Mapping[str, Any]]
# Called once in each process that grades.
OpenGrader = Callable[[], AbstractContextManager[Grade]]


MEMORY = 4 * 2**30  # bytes that a process which grades may ask for; an answer that needs more is wrong


def graded(
    submissions: Sequence[Submission],
    open_grader: OpenGrader,
    processes: int,
    seconds: float = 3600.0,
) -> Iterator[tuple[Submission, Mapping[str, Any], str]]:
    """Grade submissions in several processes: each with its result, or why there is none.

    A process that takes longer than `seconds` for one submission is ended, and another takes its place.

    Raises
    ------
    ChildProcessError
        Grading could not be started at all.
    """
    waiting = list(reversed(submissions))
    # A process without a submission is still being started.
    workers: dict[Connection, tuple[BaseProcess, Submission | None]] = {}
    until: dict[Connection, float] = {}  # when a process must have sent its answer
    try:
        for _ in range(min(max(1, processes), len(waiting))):
            pipe, process = _start(open_grader)
            workers[pipe] = process, None
        while workers:
            first = min(until.values(), default=math.inf) - time.monotonic()
            for ready in wait(list(workers), None if first == math.inf else max(first, 0.0)):
                assert isinstance(ready, Connection)
                pipe = ready
                process, submission = workers.pop(pipe)
                late = until.pop(pipe, math.inf) < time.monotonic()
                try:
                    result, error = pipe.recv()
                except (EOFError, OSError):
                    pipe.close()
                    process.join()
                    if submission is None:
                        raise ChildProcessError(
                            f"grading could not be started: its process ended {_ending(process.exitcode)}"
                        ) from None
                    result, error = {}, f"the process that graded it ended {_ending(process.exitcode)}"
                    if late:
                        error = f"grading it took longer than {seconds:g} seconds, and was ended"
                    if waiting:
                        pipe, process = _start(open_grader)
                        workers[pipe] = process, None
                else:
                    if waiting:
                        workers[pipe] = process, waiting.pop()
                        until[pipe] = time.monotonic() + seconds
                        _send(pipe, workers[pipe][1])
                    else:
                        _end(pipe, process)
                if submission is not None:
                    yield submission, result, error
            for pipe, moment in until.items():
                if moment < time.monotonic():
                    workers[pipe][0].kill()
    finally:
        for pipe, (process, _) in workers.items():
            process.terminate()
            _end(pipe, process)


def _send(pipe: Connection, submission: Submission | None) -> None:
    if submission is not None:
        with contextlib.suppress(OSError):  # the process died, which its pipe will say
            pipe.send((submission.path.read_bytes(), submission.by))


def _end(pipe: Connection, process: BaseProcess) -> None:
    pipe.close()
    process.join(timeout=10)
    if process.is_alive():
        process.kill()
        process.join()


def _start(open_grader: OpenGrader) -> tuple[Connection, BaseProcess]:
    # "spawn": a fork of a process that has torch's threads may hang.
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_work, args=(theirs, open_grader, os.getpid()), daemon=False)
    process.start()
    theirs.close()
    return ours, process


def _work(pipe: Connection, open_grader: OpenGrader, parent: int) -> None:
    """One process: grade what comes through the pipe, until it closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's, which then ends this process
    _end_with_parent(parent)
    _bind()
    with open_grader() as grade_one:
        pipe.send(({}, ""))  # ready
        while True:
            try:
                content, by = pipe.recv()
            except (EOFError, OSError):
                break
            try:
                answer: tuple[Mapping[str, Any], str] = (grade_one(content, by), "")
            except Exception as error:
                traceback.print_exc(file=sys.stderr)
                answer = {}, f"{type(error).__name__}: {error}".rstrip(": ")[:500]
            try:
                pipe.send(answer)
            except OSError:
                break


def _end_with_parent(parent: int) -> None:
    """Let the system end this process when its parent ends, even by kill -9."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        os._exit(1)


def _bind() -> None:
    """Limit this process's memory, where the system can; those of the students have limits of their own."""
    if sys.platform == "linux":
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_DATA)
        here = MEMORY if most == resource.RLIM_INFINITY else min(MEMORY, most)
        resource.setrlimit(resource.RLIMIT_DATA, (here, most))


def _ending(code: int | None) -> str:
    if code is not None and code < 0:
        return f"by {signal.Signals(-code).name}"
    return f"with exit code {code}"

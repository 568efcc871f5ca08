"""Requests to the system that a submission's process has no use for, and that it is refused.

Some make memory that is no process's own, which nobody could count to it: shared memory, files in memory,
message queues. Others lead past the namespaces: sockets of other kinds than those between its own processes
(a virtual machine's host can be reached by one), the keys of a session. The rest is where a kernel's bugs
have been.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys

__all__ = ["program", "refuse"]

# By machine: the system's name for it, and the numbers that it gives to requests.
_MACHINES = {
    "x86_64": (0xC000003E, {"mmap": 9, "socket": 41}, (
        *(319, 447, 29, 64, 68),  # memfd_create, memfd_secret, shmget, semget, msgget
        *(248, 249, 250),  # add_key, request_key, keyctl
        *(101, 298, 321, 323, 425),  # ptrace, perf_event_open, bpf, userfaultfd, io_uring_setup
    )),
    "aarch64": (0xC00000B7, {"mmap": 222, "socket": 198}, (
        *(279, 447, 194, 190, 186),
        *(217, 218, 219),
        *(117, 241, 280, 282, 425),
    )),
}  # fmt: skip
_OTHER_NUMBERS = 0x40000000  # from here on, x86_64 knows the same requests by numbers of another kind
_LOAD, _AND, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x06
_ALLOW, _END, _FAIL = 0x7FFF0000, 0x80000000, 0x00050000
_NUMBER, _MACHINE, _ARGUMENTS = 0, 4, 16  # where they stand in what the filter looks at
_SHARED_ANONYMOUS, _UNIX = 0x21, 1
_SET_FILTER, _FILTER = 22, 2


def program(machine: str) -> bytes:
    """The filter that the kernel runs at each request, as Berkeley Packet Filter.

    Parameters
    ----------
    machine : such as "x86_64"; empty where it is of a kind whose numbers aren't listed here
    """
    if machine not in _MACHINES or struct.calcsize("P") != 8:
        return b""
    name, looked_at, refused = _MACHINES[machine]

    def line(code: int, value: int, then: int = 0, otherwise: int = 0) -> bytes:
        return struct.pack("=HBBI", code, then, otherwise, value)

    def argument(number: int) -> bytes:
        return line(_LOAD, _ARGUMENTS + 8 * number)

    fail, allow = line(_RETURN, _FAIL | errno.EPERM), line(_RETURN, _ALLOW)
    lines = [line(_LOAD, _MACHINE), line(_EQUAL, name, 1), line(_RETURN, _END), line(_LOAD, _NUMBER)]
    lines += [line(_AT_LEAST, _OTHER_NUMBERS, 0, 1), fail]
    lines += [part for number in refused for part in (line(_EQUAL, number, 0, 1), fail)]
    lines += [line(_EQUAL, looked_at["socket"], 0, 4), argument(0), line(_EQUAL, _UNIX, 1), fail, allow]
    lines += [line(_EQUAL, looked_at["mmap"], 0, 4), argument(3), line(_AND, _SHARED_ANONYMOUS)]
    lines += [line(_EQUAL, _SHARED_ANONYMOUS, 0, 1), fail, allow]
    return b"".join(lines)


def refuse() -> None:
    """Have such requests of this process, and of all that it starts, refused from now on.

    Raises
    ------
    OSError
        The system can't.
    """
    content = program(os.uname().machine)
    if not content or sys.platform != "linux":
        return
    lines = ctypes.create_string_buffer(content, len(content))
    described = struct.pack("HxxxxxxP", len(content) // 8, ctypes.addressof(lines))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_SET_FILTER, _FILTER, ctypes.c_char_p(described), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "requests to the system can't be refused")

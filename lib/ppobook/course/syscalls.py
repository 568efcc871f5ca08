"""The system calls that a submission's processes are refused, as a filter for the kernel.

Some make memory that is no process's own, which nobody could count to it: shared memory, files in memory,
message queues, attributes of files, pages given to a pipe, rules of landlock. Others lead past the namespaces
or into other processes: sockets (a virtual machine's host can be reached by one), the keys of a session,
another process's memory and files. `sched_setaffinity` would give back the processors that were taken away.
The rest is where a kernel's bugs have been.
"""

from __future__ import annotations

import errno
import struct

# By machine: the kernel's name for it, the number of mmap, and those of the calls that are refused.
MACHINES = {
    "x86_64": (0xC000003E, 9, (
        *(319, 447, 29, 64, 68),  # memfd_create, memfd_secret, shmget, semget, msgget
        *(41, 248, 249, 250),  # socket, add_key, request_key, keyctl
        *(101, 310, 311, 438),  # ptrace, process_vm_readv, process_vm_writev, pidfd_getfd
        *(203, 298, 321, 323, 425),  # sched_setaffinity, perf_event_open, bpf, userfaultfd, io_uring_setup
        *(188, 189, 190, 463),  # setxattr, lsetxattr, fsetxattr, setxattrat
        *(278, 444),  # vmsplice, landlock_create_ruleset
    )),
    "aarch64": (0xC00000B7, 222, (
        *(279, 447, 194, 190, 186),
        *(198, 217, 218, 219),
        *(117, 270, 271, 438),
        *(122, 241, 280, 282, 425),
        *(5, 6, 7, 463),
        *(75, 444),
    )),
}  # fmt: skip
_OTHER_NUMBERS = 0x40000000  # from here on, x86_64 knows the same calls by other numbers
_LOAD, _AND, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x06
_ALLOW, _END, _FAIL = 0x7FFF0000, 0x80000000, 0x00050000
_NUMBER, _MACHINE, _ARGUMENTS = 0, 4, 16  # where they stand in what the filter looks at
_SHARED_ANONYMOUS = 0x21


def program(machine: str) -> bytes:
    """The filter, as Berkeley Packet Filter; for `machine` such as "x86_64"."""
    name, mmap, refused = MACHINES[machine]

    def line(code: int, value: int, then: int = 0, otherwise: int = 0) -> bytes:
        return struct.pack("=HBBI", code, then, otherwise, value)

    fail, allow = line(_RETURN, _FAIL | errno.EPERM), line(_RETURN, _ALLOW)
    lines = [line(_LOAD, _MACHINE), line(_EQUAL, name, 1), line(_RETURN, _END), line(_LOAD, _NUMBER)]
    lines += [line(_AT_LEAST, _OTHER_NUMBERS, 0, 1), fail]
    lines += [part for number in refused for part in (line(_EQUAL, number, 0, 1), fail)]
    lines += [line(_EQUAL, mmap, 0, 4), line(_LOAD, _ARGUMENTS + 8 * 3), line(_AND, _SHARED_ANONYMOUS)]
    lines += [line(_EQUAL, _SHARED_ANONYMOUS, 0, 1), fail, allow]
    return b"".join(lines)

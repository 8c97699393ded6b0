"""A filter that lets single system calls of a child fail with an errno, as containers and sandboxes do."""

from __future__ import annotations

import ctypes
import platform
import struct
from collections.abc import Callable

# x86-64's numbers.
CALLS = {
    "ioctl": 16,
    "pwrite64": 18,
    "madvise": 28,
    "fcntl": 72,
    "flock": 73,
    "fsync": 74,
    "fdatasync": 75,
    "ftruncate": 77,
    "rename": 82,
    "mkdir": 83,
    "unlink": 87,
    "fchmod": 91,
    "fstatfs": 138,
    "mlock": 149,
    "sched_getaffinity": 204,
    "io_setup": 206,
    "getdents64": 217,
    "mbind": 237,
    "mkdirat": 258,
    "unlinkat": 263,
    "renameat": 264,
    "fallocate": 285,
    "eventfd2": 290,
    "preadv": 295,
    "pwritev": 296,
    "renameat2": 316,
    "getrandom": 318,
    "preadv2": 327,
    "pwritev2": 328,
    "statx": 332,
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
}
# Starts a thread.
CLONE3 = "clone3"
_NUMBERS = CALLS | {CLONE3: 435}
# openat() with this in its flags makes a file without a name.
TMPFILE = "openat with O_TMPFILE"
_OPENAT, _O_TMPFILE = 257, 0o20000000

_LOAD, _EQUAL, _ANY_BIT, _RETURN = 0x20, 0x15, 0x45, 0x06
_NUMBER, _THIRD_ARGUMENT = 0, 32  # where they lie in struct seccomp_data
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS, _MODE_FILTER = 22, 38, 2


def unavailable() -> str:
    """Why there is no filter here; empty where there is."""
    return "" if platform.machine() == "x86_64" else f"the filter knows the calls of x86_64, not {platform.machine()}"


def _program(call: str, error: int) -> bytes:
    def step(code: int, value: int, then: int = 0, otherwise: int = 0) -> bytes:
        return struct.pack("=HBBI", code, then, otherwise, value)

    steps = [step(_LOAD, _NUMBER)]
    if call == TMPFILE:
        steps += [
            step(_EQUAL, _OPENAT, 0, 3),
            step(_LOAD, _THIRD_ARGUMENT),
            step(_ANY_BIT, _O_TMPFILE, 0, 1),
        ]
    else:
        steps += [step(_EQUAL, _NUMBERS[call], 0, 1)]
    return b"".join([*steps, step(_RETURN, _ERRNO | error), step(_RETURN, _ALLOW)])


def refusing(call: str, error: int) -> Callable[[], None]:
    """What a child does before its program begins (preexec_fn): from then on the call fails with that errno."""
    program = _program(call, error)
    code = ctypes.create_string_buffer(program, len(program))
    libc = ctypes.CDLL(None, use_errno=True)

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_void_p))

    filtering = Program(len(program) // 8, ctypes.addressof(code))

    def install() -> None:
        if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "no_new_privs")
        if libc.prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.byref(filtering), 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "seccomp")
        assert code  # the kernel has read it

    return install

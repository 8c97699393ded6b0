"""Large blocks of malloc's go back to the system when they are freed, unless the environment says otherwise."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

CODE = """
import ctypes
from penstock.deepspeed.heap import map_large_blocks

class Info(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in (
        "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")]

libc = ctypes.CDLL(None)
if not hasattr(libc, "mallinfo2"):
    print("unknown")
    raise SystemExit
libc.mallinfo2.restype = Info
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]
libc.free(libc.malloc(24 << 20))  # from here on glibc by itself takes such blocks from its heap
%s
before = libc.mallinfo2().hblkhd
block = libc.malloc(16 << 20)
print("mapped" if libc.mallinfo2().hblkhd - before >= 16 << 20 else "from the heap")
libc.free(block)
"""


def where(call: str, environment: dict[str, str]) -> str:
    command = [sys.executable, "-c", CODE % call]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize(
    ("call", "variables", "place"),
    [
        ("", {}, "from the heap"),
        ("map_large_blocks()", {}, "mapped"),
        ("map_large_blocks()", {"MALLOC_MMAP_THRESHOLD_": "1073741824"}, "from the heap"),
        ("map_large_blocks()", {"GLIBC_TUNABLES": "glibc.malloc.mmap_threshold=1073741824"}, "from the heap"),
    ],
)
def test_where_a_large_block_lies(
    call: str, variables: dict[str, str], place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES"):
        monkeypatch.delenv(name, raising=False)
    found = where(call, {**os.environ, **variables})
    if found == "unknown":
        pytest.skip("this malloc does not say where its blocks are")
    assert found == place

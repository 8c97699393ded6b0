"""malloc's free lists, which grow by the size of a model while one is built, loaded and trained."""

from __future__ import annotations

import ctypes
import os

_BLOCK_BYTES = 4 << 20  # a smaller one is not worth a mapping of its own
_FREE_BYTES = 64 << 20  # at the heap's end, which stay for the next small blocks
_MMAP_THRESHOLD, _TRIM_THRESHOLD = -3, -1  # glibc's malloc.h

_libc = ctypes.CDLL(None)


def map_large_blocks() -> None:
    """Makes malloc map what is at least 4 MiB, so that its memory goes back to the system with it.

    By itself glibc soon takes blocks of up to 32 MiB from its heap. Gradients of that size leave holes there: 2.6 GB in
    a backward of Qwen3-1.7B. An environment that sets the threshold counts.
    """
    is_set = "MALLOC_MMAP_THRESHOLD_" in os.environ or "mmap_threshold" in os.environ.get("GLIBC_TUNABLES", "")
    if hasattr(_libc, "mallopt") and not is_set:
        _libc.mallopt(_MMAP_THRESHOLD, _BLOCK_BYTES)
        _libc.mallopt(_TRIM_THRESHOLD, _FREE_BYTES)


def return_free_heap() -> None:
    """Gives what is free back to the system, which glibc does not by itself. Milliseconds."""
    if hasattr(_libc, "malloc_trim"):
        _libc.malloc_trim(0)

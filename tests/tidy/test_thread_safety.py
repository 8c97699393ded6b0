"""Clang's analysis knows the locks: what touches what they guard without them is not compiled."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CLANG = shutil.which("clang++-19") or shutil.which("clang++")

START = """
#include "alloc/mutex.h"
#include "swap/engine/engine_part.h"
#include "swap/engine/locked.h"
namespace penstock {
struct Counter { Mutex mutex; int count PENSTOCK_GUARDED_BY(mutex) = 0; };
struct Part : EnginePart {
"""
END = "\n};\n}\n"

GOOD = """
  std::uint64_t operations() { const BriefLock lock(context_); return context_.operations; }
  bool knows(TensorId tensor) { Locked locked(context_); return record(tensor) != nullptr; }
  TensorRecord* record(TensorId tensor) PENSTOCK_NEEDS_LOCK { return table_.record_of(tensor); }
  void drop(TensorRecord& record, Locked& locked) PENSTOCK_NEEDS_LOCK { memory_.drop(record, locked); }
  void wait() { Locked locked(context_); locked.wait([this]() PENSTOCK_NEEDS_LOCK { return context_.closed; }); }
  int counted(Counter& counter) { const MutexLock lock(counter.mutex); return counter.count; }
"""

# A line each.
BAD = {
    "a member of the context": "bool closed() { return context_.closed; }",
    "the table": "std::size_t count() { return table_.records().size(); }",
    "a record": "bool is_here(const TensorRecord& record) { return record.memory.is_current(); }",
    "a block": "void count(Block& block) { ++block.leases; }",
    "memory in use": "std::uint64_t room() { return memory_.residency().room_bytes(); }",
    "a function that needs the lock": "void end() { context_.operation_ended(); }",
    "after the lock": "bool late() { { const BriefLock lock(context_); } return context_.closed; }",
    "a callback": "auto later() { const BriefLock lock(context_); return [this] { return context_.closed; }; }",
    "a lock that says nothing": "bool other() { const std::lock_guard lock(context_.mutex); return context_.closed; }",
    "what another mutex guards": "int counted(Counter& counter) { return counter.count; }",
    "another counter's mutex": "int one(Counter& a, Counter& b) { const MutexLock lock(a.mutex); return b.count; }",
    "after unlock()": "int early(Counter& a) { MutexLock lock(a.mutex); lock.unlock(); return a.count; }",
    "twice": "void twice() { const BriefLock one(context_); const BriefLock two(context_); }",
}


def errors(members: str) -> list[str]:
    """Clang's, which count lines from the first of `members`."""
    if CLANG is None:
        pytest.skip("no clang++ here")
    flags = ["-std=c++20", "-fsyntax-only", "-I", str(ROOT), "-ferror-limit=0"]
    done = subprocess.run(
        [CLANG, *flags, "-Wthread-safety", "-Werror=thread-safety", "-xc++", "-"],
        input=f'{START}#line 1 "part"\n{members}{END}',
        capture_output=True,
        text=True,
        check=False,
    )
    found = [line for line in done.stderr.splitlines() if "error:" in line]
    assert (done.returncode == 0) == (not found)
    return found


def test_what_has_the_lock_is_compiled() -> None:
    assert errors(GOOD) == []


def test_what_lacks_the_lock_is_not() -> None:
    found = errors("\n".join(BAD.values()))
    assert all("-Wthread-safety" in error for error in found), found
    missed = [what for line, what in enumerate(BAD, 1) if not any(error.startswith(f"part:{line}:") for error in found)]
    assert missed == []

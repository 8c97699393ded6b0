"""A control group with a limit on memory, for one test's children: what a container has."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path


class MemoryGroup:
    """`join` is a child's preexec_fn. Raises OSError where the machine has no such groups, or not for us."""

    def __init__(self, bytes_max: int) -> None:
        top, self._unified = _memory_controller()
        self.path = Path(tempfile.mkdtemp(prefix="penstock-test-", dir=top))
        try:
            name = "memory.max" if self._unified else "memory.limit_in_bytes"
            (self.path / name).write_text(str(bytes_max))
            with contextlib.suppress(OSError):  # neither is there without swap
                swap = "memory.swap.max" if self._unified else "memory.swappiness"
                (self.path / swap).write_text("0")
        except OSError:
            self.path.rmdir()
            raise

    def join(self) -> None:
        (self.path / "cgroup.procs").write_text(str(os.getpid()))

    def killed(self) -> int:
        """How many processes the kernel has killed for want of memory."""
        name = "memory.events" if self._unified else "memory.oom_control"
        counts = dict(line.split() for line in (self.path / name).read_text().splitlines())
        return int(counts["oom_kill"])


def _memory_controller() -> tuple[Path, bool]:
    """The top of a hierarchy that counts memory, and whether it is version 2."""
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, place, kind, options, *_ = line.split()
        if kind == "cgroup" and "memory" in options.split(","):
            return Path(place), False
        if kind == "cgroup2" and "memory" in (Path(place) / "cgroup.subtree_control").read_text().split():
            return Path(place), True
    raise OSError("no control group counts memory here")


@contextlib.contextmanager
def memory_group(bytes_max: int) -> Iterator[MemoryGroup]:
    """Goes again, with what it has counted, when the block ends."""
    group = MemoryGroup(bytes_max)
    try:
        yield group
    finally:
        group.path.rmdir()

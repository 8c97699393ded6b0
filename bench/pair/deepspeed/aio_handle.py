"""DeepSpeed's asynchronous I/O handle on a file that is there: the loop of its `ds_io`.

The work: {"file": "...", "bytes": N, "direction": "read"}   or "write"
A run:    {"settings": {...of aio_handle...}, "io_size": N}

As ds_io does, a run moves one pinned buffer after another, waits for each, and takes the file from the begin again when
it has come to its end.
"""

from __future__ import annotations

from typing import Any

from conversation import Moved, serve

BUFFER_BYTES_MAX = 400 << 20  # ds_io's own default for a buffer


class AioHandle:
    """A handle with its settings and its pinned buffer; both are made anew for other settings."""

    def __init__(self, work: dict[str, Any]) -> None:
        from deepspeed.ops.op_builder import AsyncIOBuilder

        self.module = AsyncIOBuilder().load(verbose=False)
        self.writes = work["direction"] == "write"
        self.buffer_bytes = int(work["bytes"])
        while self.buffer_bytes > BUFFER_BYTES_MAX and self.buffer_bytes % 2 == 0:
            self.buffer_bytes //= 2
        self.file: str = work["file"]
        self.pieces = int(work["bytes"]) // self.buffer_bytes
        self.settings: dict[str, Any] | None = None
        self.handle: Any = None
        self.buffer: Any = None

    def prepare(self, order: dict[str, Any]) -> None:
        import torch

        settings = order["settings"]
        if settings == self.settings:
            return
        if self.handle is not None:
            self.handle.free_cpu_locked_tensor(self.buffer)
        self.handle = self.module.aio_handle(
            settings["block_size"],
            settings["queue_depth"],
            settings["single_submit"],
            settings["overlap_events"],
            settings["intra_op_parallelism"],
        )
        self.buffer = self.handle.new_cpu_locked_tensor(self.buffer_bytes, torch.empty(0, dtype=torch.uint8))
        self.buffer.fill_(7)
        self.settings = settings

    def move(self, order: dict[str, Any]) -> Moved:
        buffers = max(1, int(order["io_size"]) // self.buffer_bytes)
        for number in range(buffers):
            self.move_buffer(number % self.pieces * self.buffer_bytes)
        moved = buffers * self.buffer_bytes
        return Moved(0, moved) if self.writes else Moved(moved, 0)

    def move_buffer(self, offset: int) -> None:
        begin = self.handle.async_pwrite if self.writes else self.handle.async_pread
        if begin(self.buffer, self.file, offset) != 0 or self.handle.wait() != 1:
            raise OSError(f"DeepSpeed's handle could not {'write' if self.writes else 'read'} {self.file} at {offset}")


def main() -> None:
    serve(AioHandle)

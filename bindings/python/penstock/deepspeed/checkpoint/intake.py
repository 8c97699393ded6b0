"""What of a checkpoint goes where: records to tensors of the engine, the rest to memory when all records are whole."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from penstock._core import SwapEngine
from penstock.deepspeed.checkpoint.archive import Archive, take
from penstock.deepspeed.checkpoint.progress import ProgressLine
from penstock.deepspeed.torch_dtype import engine_dtype

_Target = tuple[int, int, str]  # tensor of the engine, offset in the record in bytes, dtype of the record


@dataclass
class _Lanes:
    """Targets of one record: masters, states and frozen parameters in the first, 16-bit copies in the second."""

    whole: list[_Target] = field(default_factory=list)
    copies: list[_Target] = field(default_factory=list)

    def sorted(self) -> list[list[_Target]]:
        return [sorted(lane, key=lambda target: target[1]) for lane in (self.whole, self.copies)]


class Intake:
    """Nothing changes before publish()."""

    def __init__(self, engine: SwapEngine) -> None:
        self._engine = engine
        self._archives: list[Archive] = []
        self._lanes: dict[str, dict[str, _Lanes]] = {}  # path -> record -> lanes
        self._at_begin: list[Callable[[], Any]] = []
        self._at_publish: list[Callable[[], Any]] = []
        self._core: Any = None

    def add(self, archive: Archive) -> None:
        """All of its records are checked, whether they go anywhere or not."""
        self._archives.append(archive)
        self._lanes[archive.path] = defaultdict(_Lanes)

    def to_engine(self, archive: Archive, saved: torch.Tensor, tensor: int, copy: bool = False) -> None:
        """`saved`, of load(), is to be the tensor's content; it is converted where it has another dtype. copy: another
        tensor takes the same bytes.
        """
        place = archive.record_of(saved)
        if place is None or not saved.is_contiguous():
            self._at_publish.append(lambda: self._put(archive, saved, tensor))
            return
        record, offset = place
        lanes = self._lanes[archive.path][record]
        (lanes.copies if copy else lanes.whole).append((tensor, offset, engine_dtype(saved.dtype)))

    def at_begin(self, work: Callable[[], Any]) -> None:
        """What comes before contents change."""
        self._at_begin.append(work)

    def at_publish(self, work: Callable[[], Any]) -> None:
        """What changes memory of DeepSpeed's own."""
        self._at_publish.append(work)

    def run(self, path: str, speaks: bool) -> None:
        """Reads all archives. Errors: a file system's; CorruptError; no room. Nothing has changed then."""
        self._core = self._engine.take_archives()
        progress = ProgressLine("loading", path, sum(archive.nbytes for archive in self._archives), speaks)
        for archive in self._archives:
            targets = {record: lanes.sorted() for record, lanes in self._lanes[archive.path].items()}
            take(self._core, archive, targets, progress)
            progress.file_done(archive.nbytes)
        progress.end("loaded")

    def publish(self) -> None:
        """Once; after that it does nothing."""
        core, self._core = self._core, None
        if core is None:
            return
        for work in self._at_begin:
            work()
        core.publish()
        for work in self._at_publish:
            work()

    def _put(self, archive: Archive, saved: torch.Tensor, tensor: int) -> None:
        lease = self._engine.allocate(tensor)
        archive.copy(saved.view(-1), torch.utils.dlpack.from_dlpack(lease))
        self._engine.commit(lease).result()

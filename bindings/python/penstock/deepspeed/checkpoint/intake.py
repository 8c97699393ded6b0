"""What of a checkpoint goes where: records to tensors of the engine, the rest to memory when all records are whole."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from penstock._core import MomentLayout, SwapEngine
from penstock.deepspeed import plain_tensors
from penstock.deepspeed.checkpoint.archive import Archive, Source, stream
from penstock.deepspeed.checkpoint.progress import ProgressLine
from penstock.deepspeed.sub_group import SubGroup
from penstock.deepspeed.torch_dtype import engine_dtype

# Tensor of the engine; of the record an offset in bytes, elements, dtype.
_Target = tuple[int, int, int, str]


@dataclass(frozen=True)
class Piece:
    """A file's record, and the tensors of the engine that go on with ranges of it."""

    path: str
    record: str
    nbytes: int  # of the record
    lanes: list[list[_Target]]
    padding: list[tuple[int, int, int]]  # lane, tensor, elements of 0 that follow


@dataclass
class _Lanes:
    """Targets of one record: masters, states and frozen parameters in the first, 16-bit copies in the second."""

    whole: list[_Target] = field(default_factory=list)
    copies: list[_Target] = field(default_factory=list)

    def sorted(self) -> list[list[_Target]]:
        return [sorted(lane, key=lambda target: target[1]) for lane in (self.whole, self.copies)]


class Intake:
    """Nothing changes before publish().

    tensors: of the engine, whose contents lie ready. One that is put before publish() is newer, and stays.
    """

    def __init__(self, engine: SwapEngine) -> None:
        self.tensors: set[int] = set()
        self._engine = engine
        self._archives: list[Archive] = []
        self._lanes: dict[str, dict[str, _Lanes]] = {}  # path -> record -> lanes
        self._layouts: dict[int, MomentLayout] = {}
        self._pieces: list[Piece] = []
        self._at_begin: list[Callable[[], Any]] = []
        self._at_publish: list[Callable[[], Any]] = []
        self._core: Any = None

    def add(self, archive: Archive) -> None:
        """All of its records are checked, whether they go anywhere or not."""
        self._archives.append(archive)
        self._lanes[archive.path] = defaultdict(_Lanes)

    def to_engine(self, archive: Source, saved: torch.Tensor, tensor: int, copy: bool = False) -> None:
        """`saved`, of load(), is to be the tensor's content; it is converted where it has another dtype. copy: another
        tensor takes the same bytes.
        """
        place = archive.record_of(saved)
        if place is None or not saved.is_contiguous():
            self._at_publish.append(lambda: self._put(archive, saved, tensor))
            return
        record, offset = place
        lanes = self._lanes[archive.path][record]
        self.tensors.add(tensor)
        (lanes.copies if copy else lanes.whole).append((tensor, offset, saved.numel(), engine_dtype(saved.dtype)))

    def to_state(self, archive: Source, saved: torch.Tensor, group: SubGroup, name: str) -> None:
        """`saved` is to be the content of a sub-group's state, or master."""
        flat = saved.detach()
        self.encode(group, name)
        for chunk, (tensor, begin, numel) in enumerate(group.ranges(name, 0, group.numel)):
            part = flat.narrow(0, begin, numel)
            if group.layout(name, chunk) is None or archive.record_of(part) is not None:
                self.to_engine(archive, part, tensor)
            else:
                self._at_publish.append(functools.partial(self._put_chunk, archive, part, group, name, chunk))

    def encode(self, group: SubGroup, name: str) -> None:
        """A state that is stored in fewer bits: its targets take float32."""
        layouts = zip(group.tensors[name], group.layouts(name), strict=True)
        self._layouts.update((tensor, layout) for tensor, layout in layouts if layout is not None)

    def add_piece(self, piece: Piece) -> None:
        """Its record is checked, also where no tensor takes it. Pieces of one tensor and lane come in a row."""
        self._pieces.append(piece)

    def at_begin(self, work: Callable[[], Any]) -> None:
        """What comes before contents change."""
        self._at_begin.append(work)

    def at_publish(self, work: Callable[[], Any]) -> None:
        """What changes memory of DeepSpeed's own."""
        self._at_publish.append(work)

    def to_memory(self, target: torch.Tensor, read: Callable[[torch.Tensor], None]) -> None:
        """Of what is small: read() fills a copy now, since a file that fails after publish() leaves a mixture."""
        copy = plain_tensors.empty(target.shape, target.dtype)
        read(copy)
        self._at_publish.append(functools.partial(target.copy_, copy))

    def run(self, path: str, speaks: bool) -> None:
        """Reads all archives. Errors: a file system's; CorruptError; no room. Nothing has changed then."""
        self._core = self._engine.take_archives()
        for tensor, layout in self._layouts.items():
            self._core.encode(tensor, layout)
        total = sum(archive.nbytes for archive in self._archives) + sum(piece.nbytes for piece in self._pieces)
        progress = ProgressLine("loading", path, total, speaks)
        for archive in self._archives:
            targets = {record: lanes.sorted() for record, lanes in self._lanes[archive.path].items()}
            stream(self._core, archive.path, [(name, targets.get(name, [])) for name in archive.large], progress)
            archive.refuse_replaced()  # what was streamed is of the file that was looked into
            progress.file_done(archive.nbytes)
        for piece in self._pieces:
            self._take_piece(piece, progress)
            progress.file_done(piece.nbytes)
        progress.end("loaded")

    def _take_piece(self, piece: Piece, progress: ProgressLine) -> None:
        stream(self._core, piece.path, [(piece.record, piece.lanes)], progress)
        for lane, tensor, elements in piece.padding:
            self._core.pad(lane, tensor, elements)

    def begin(self) -> None:
        """Something is about to change, of contents or of what DeepSpeed has in memory. Once, too."""
        works, self._at_begin = self._at_begin, []
        for work in works:
            work()

    def publish(self) -> None:
        """Once; after that it does nothing."""
        core, self._core = self._core, None
        if core is None:
            return
        self.begin()
        core.publish()
        works, self._at_publish = self._at_publish, []  # which hold the archives' files open
        for work in works:
            work()

    def drop(self) -> None:
        """What was read, at once: the error that ends a load may live on, and hold all of this."""
        self._core = None
        self._archives.clear()
        self._at_begin.clear()
        self._at_publish.clear()

    @staticmethod
    def _put_chunk(archive: Source, saved: torch.Tensor, group: SubGroup, name: str, chunk: int) -> None:
        group.put_chunk(name, chunk, archive.read(saved).float()).result()

    def _put(self, archive: Source, saved: torch.Tensor, tensor: int) -> None:
        lease = self._engine.allocate(tensor)
        archive.copy(saved.view(-1), torch.utils.dlpack.from_dlpack(lease))
        self._engine.commit(lease).result()

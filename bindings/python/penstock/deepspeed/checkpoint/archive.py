"""The files that torch.save writes, without torch holding what is in them.

Saving: torch pickles, and its archive reserves a record for each storage; the engine fills the records. Loading: torch
unpickles, and large storages are views of the mapped file, which say which record they are. Its bytes are read by
Archive.read() and copy(), whose errors are exceptions: a look at a mapped page that the drive cannot read is SIGBUS.
"""

from __future__ import annotations

import errno
import io
import mmap
import os
import pickle
import sys
import types
import warnings
import zlib
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from penstock._core import ArchiveIntake, MomentLayout, SwapEngine, archive_records
from penstock.deepspeed import plain_tensors
from penstock.deepspeed.checkpoint.archive_frame import ArchiveFrame
from penstock.deepspeed.checkpoint.content import Content
from penstock.deepspeed.checkpoint.signature import RECORD, Signature
from penstock.deepspeed.checkpoint.torch_internals import private
from penstock.errors import CorruptError, StorageError, UnsupportedError

# Records begin there, so that direct I/O reaches them.
ALIGNMENT = 4096
# Storages from here on are not read before they are asked for.
LARGE_BYTES = 1 << 20
# Read at once by copy().
_CHUNK_BYTES = 8 << 20

Progress = Callable[[int], None]


@dataclass(frozen=True)
class _Record:
    """What torch wants in a record: bytes, or a storage, whose content is `content`'s where that is given."""

    name: str
    data: Any
    nbytes: int
    content: Content | None = None

    @property
    def is_reserved(self) -> bool:
        """The engine writes it."""
        return self.nbytes > 0 and isinstance(self.data, torch.UntypedStorage)


class ArchivePlan:
    """What torch.save would write of `state`. Holds all that it refers to, and no copy of what is on the CPU."""

    def __init__(self, state: Any) -> None:
        self._records: list[_Record] = []
        self._contents: dict[int, Content] = {}  # by the address of the storage that stands for it
        module = types.SimpleNamespace(Pickler=self._pickler())
        with _alignment():
            private(torch.serialization, "_save")(state, self, module, 2, False)

    @property
    def nbytes(self) -> int:
        """Of the file, to within a block for each record and what the archive says of it twice."""
        return sum(record.nbytes + ALIGNMENT + 256 for record in self._records)

    @property
    def contents_nbytes(self) -> int:
        return sum(record.nbytes for record in self._records)

    def sign(self, signature: Signature) -> None:
        record = signature.encode()
        self._records.append(_Record(RECORD, record, len(record)))

    def write(self, path: str, engine: SwapEngine, progress: Progress) -> None:
        """Errors: what the file system refuses, with errno and path; then there may be a part of the file."""
        frame = ArchiveFrame()
        frame.fill(self._lay_out, ALIGNMENT)
        frame.save(path)
        filled = [self._filled(record) for record in self._records if record.is_reserved]
        filling = engine.fill_archive(os.fsencode(path), filled)
        while (moved := filling.step()) is not None:
            progress(moved)

    def _lay_out(self, writer: Any) -> None:
        for record in self._records:
            if record.is_reserved:
                writer.write_record_metadata(record.name, record.nbytes)
            else:
                writer.write_record(record.name, record.data, record.nbytes)
        writer.write_end_of_file()

    @staticmethod
    def _filled(record: _Record) -> tuple[str, list[tuple[int, MomentLayout | None]], int]:
        tensors = [] if record.content is None else record.content.tensors
        return record.name, tensors, 0 if tensors else record.data.data_ptr()

    # What torch takes for an archive that it writes.

    def write_record(self, name: str, data: Any, nbytes: int) -> None:
        content = None
        if isinstance(data, torch.UntypedStorage):
            content = self._contents.get(data.data_ptr())
        self._records.append(_Record(name, data, nbytes, content))

    def _pickler(plan) -> type[pickle.Pickler]:
        class Pickler(pickle.Pickler):
            def reducer_override(self, value: Any) -> Any:
                if not isinstance(value, Content):
                    return NotImplemented
                storage = _nothing(value.nbytes)
                plan._contents[storage.data_ptr()] = value
                return value.reduced(storage)

        return Pickler


class Source(Protocol):
    """Has the tensors of a checkpoint: an Archive, or memory."""

    @property
    def path(self) -> str: ...

    def record_of(self, tensor: torch.Tensor) -> tuple[str, int] | None: ...

    def read(self, tensor: torch.Tensor) -> torch.Tensor: ...

    def read_all(self, value: Any) -> None: ...

    def copy(self, tensor: torch.Tensor, target: torch.Tensor) -> None: ...


class Archive:
    """A file that torch.save has written, open to read. Its records' CRC-32s are checked: of small ones when they are
    read, of large ones (`large`) by who takes them to the engine. large_bytes: storages from here on are large.
    """

    def __init__(self, path: str, large_bytes: int = LARGE_BYTES) -> None:
        self.path = path
        self._large_bytes = large_bytes
        self.records = {name: (offset, nbytes, crc) for name, offset, nbytes, crc in archive_records(os.fsencode(path))}
        self._has_crcs = any(crc for _, _, crc in self.records.values())
        self._file = open(path, "rb", buffering=0)
        self._pages = _mapped(self._file, path)
        self._views: dict[int, str] = {}  # address of a storage -> its record

    @property
    def nbytes(self) -> int:
        return sum(nbytes for _, nbytes, _ in self.records.values())

    def load(self) -> Any:
        """What was saved, on the CPU. It runs what the pickle says, as torch.load(weights_only=False), which obeys
        TORCH_FORCE_WEIGHTS_ONLY_LOAD, too. Raises UnsupportedError where the bytes of its numbers are in another order
        than here: large records are read as they lie.
        """
        if self.has_record("byteorder") and self.get_record("byteorder") != sys.byteorder.encode():
            raise UnsupportedError(
                f"{self.path} was saved on a machine with another byte order: load it with torch.load, and save that"
            )
        load = private(torch.serialization, "_load")
        if os.getenv("TORCH_FORCE_WEIGHTS_ONLY_LOAD", "0").lower() not in ("1", "y", "yes", "true"):
            return load(self, "cpu", pickle)
        try:
            return load(self, "cpu", private(torch, "_weights_only_unpickler"))
        except pickle.UnpicklingError as failure:
            raise UnsupportedError(
                f"{self.path} has more than tensors, and TORCH_FORCE_WEIGHTS_ONLY_LOAD is set: unset it where you "
                f"trust the file ({str(failure).splitlines()[0]})"
            ) from failure

    def refuse_replaced(self) -> None:
        """Raises StorageError where the path names another file than was opened: two saves must not be mixed."""
        opened = os.fstat(self._file.fileno())
        try:
            there = os.stat(self.path)
        except FileNotFoundError:
            there = None
        if there is None or not os.path.samestat(opened, there):
            text = f"{self.path} was replaced while it was read: another process has saved there; load again"
            raise StorageError(errno.ESTALE, text, self.path)

    @property
    def signature(self) -> Signature | None:
        """None: it was not written by penstock, or by a version before signatures."""
        return Signature.decode(self.get_record(RECORD)) if self.has_record(RECORD) else None

    @property
    def large(self) -> list[str]:
        """The records that load() has not read."""
        return list(self._views.values())

    def record_of(self, tensor: torch.Tensor) -> tuple[str, int] | None:
        """The record that a tensor of load() is a view of, and where it begins, in bytes; None: it is in memory."""
        if tensor.layout != torch.strided:  # the values of a sparse tensor stay views of the file
            return None
        name = self._views.get(tensor.untyped_storage().data_ptr())
        return None if name is None else (name, tensor.storage_offset().__index__() * tensor.element_size())

    def read(self, tensor: torch.Tensor) -> torch.Tensor:
        """A tensor of load(), in memory that it shares with nothing. Errors: of the file system."""
        if self.record_of(tensor) is None:
            return tensor.clone()
        target = plain_tensors.empty(tensor.shape, tensor.dtype)
        self.copy(tensor, target)
        return target.requires_grad_(tensor.requires_grad)

    def read_all(self, value: Any) -> None:
        """Dense tensors of load(), also in containers and attributes, are in memory after this; shared as they were."""
        storages: dict[str, torch.UntypedStorage] = {}  # by record
        seen: set[int] = set()
        left = [value]
        while left:
            part = left.pop()
            if id(part) in seen or isinstance(part, (str, bytes, type)):
                continue
            seen.add(id(part))
            if torch.is_tensor(part):
                place = self.record_of(part)
                if place is not None:
                    self._bring(part, place[0], storages)
                continue
            if isinstance(part, dict):
                left.extend(part.values())
            elif isinstance(part, (list, tuple, set, frozenset, deque)):
                left.extend(part)
            left.extend(getattr(part, "__dict__", {}).values())

    def _bring(self, tensor: torch.Tensor, record: str, storages: dict[str, torch.UntypedStorage]) -> None:
        if record not in storages:
            offset, nbytes, _ = self.records[record]
            content = plain_tensors.empty(nbytes, torch.uint8)
            self._read_at(offset, content.numpy())
            storages[record] = content.untyped_storage()
        place = (tensor.storage_offset(), tensor.shape, tensor.stride())
        brought = plain_tensors.empty(0, tensor.dtype).set_(storages[record], *place)
        brought = brought.conj() if tensor.is_conj() else brought
        tensor.data = torch._neg_view(brought) if tensor.is_neg() else brought

    def copy(self, tensor: torch.Tensor, target: torch.Tensor) -> None:
        """As target.copy_(tensor), of a tensor of load(). Errors: of the file system; then a part of it is there."""
        place = self.record_of(tensor)
        source, flat = tensor.detach(), target.detach()
        if place is None or not source.is_contiguous() or not flat.is_contiguous():
            flat.copy_(source)
            return
        record, start = place
        offset = self.records[record][0] + start
        flat = flat.view(-1)
        chunk = plain_tensors.empty(min(_CHUNK_BYTES // source.element_size(), flat.numel()), source.dtype)
        for first in range(0, flat.numel(), max(chunk.numel(), 1)):
            part = chunk[: flat.numel() - first]
            self._read_at(offset + first * part.element_size(), part.view(torch.uint8).numpy())
            flat[first : first + part.numel()].copy_(part)

    def _read_at(self, offset: int, into: Any) -> None:
        target, done = memoryview(into), 0
        while done < len(target):
            try:
                count = os.preadv(self._file.fileno(), [target[done:]], offset + done)
            except OSError as error:
                raise _unreadable(error, self.path) from error
            if count == 0:
                raise self._damaged(f"it ends at {offset + done} bytes")
            done += count

    # What torch takes for an archive that it reads.

    def has_record(self, name: str) -> bool:
        return name in self.records

    def get_record(self, name: str) -> bytes:
        offset, nbytes, crc = self._known(name)
        content = bytearray(nbytes)
        self._read_at(offset, content)
        if self._has_crcs and zlib.crc32(content) != crc:
            error = CorruptError(
                f"record {name} of {self.path} is damaged: its CRC-32 is {zlib.crc32(content):08x} instead of {crc:08x}"
            )
            error.filename = self.path
            raise error
        return bytes(content)

    def get_storage_from_record(self, name: str, nbytes: int, dtype: Any) -> torch.Tensor:
        offset, present, _ = self._known(name)
        if present != nbytes:
            raise self._damaged(f"record {name} has {present} bytes where {nbytes} are expected")
        if nbytes < self._large_bytes:
            return torch.frombuffer(bytearray(self.get_record(name)), dtype=torch.uint8) if nbytes else _empty()
        view = torch.frombuffer(self._pages, dtype=torch.uint8, count=nbytes, offset=offset)
        self._views[view.untyped_storage().data_ptr()] = name
        return view

    def serialization_id(self) -> str:
        return ""

    def _known(self, name: str) -> tuple[int, int, int]:
        try:
            return self.records[name]
        except KeyError:
            raise self._damaged(f"there is no record {name}") from None

    def _damaged(self, what: str) -> CorruptError:
        error = CorruptError(f"{self.path} is no whole checkpoint file: {what}")
        error.filename = self.path
        return error


def stream(intake: ArchiveIntake, path: str, records: list[tuple[str, list[list[Any]]]], progress: Progress) -> None:
    """Records of an archive into the engine, those without targets for their CRC-32 alone."""
    intake.begin(os.fsencode(path), records)
    while (moved := intake.step()) is not None:
        progress(moved)


def _alignment() -> Any:
    from torch.utils import serialization

    return private(serialization, "config").patch({"save.storage_alignment": ALIGNMENT})


def _nothing(nbytes: int) -> torch.UntypedStorage:
    """A storage that takes no memory: it may not be written, and nothing reads it."""
    pages = mmap.mmap(-1, max(nbytes, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=mmap.PROT_READ)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it may not be written
        return torch.frombuffer(pages, dtype=torch.uint8, count=nbytes).untyped_storage()


def _empty() -> torch.Tensor:
    """As torch.load's, no tensor makes its storage larger: that would be whatever lies in the new memory."""
    return torch.from_numpy(plain_tensors.empty(0, torch.uint8).numpy())


def _mapped(file: io.FileIO, path: str) -> mmap.mmap:
    """The file's bytes. What is written there is this process's own, and no memory is set aside for it."""
    kind = mmap.MAP_PRIVATE | getattr(mmap, "MAP_NORESERVE", 0)
    try:
        return mmap.mmap(file.fileno(), 0, flags=kind, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    except OSError as error:
        raise _unreadable(error, path) from error


def _unreadable(error: OSError, path: str) -> StorageError:
    return StorageError(error.errno or 0, f"cannot read {path}: {error.strerror}", path)

"""One sub-group of the optimizer in the engine: its flat master and its states, each cut into chunks."""

from __future__ import annotations

import weakref
from collections.abc import Container, Iterable, Iterator
from typing import NamedTuple

import torch
from torch.utils.dlpack import from_dlpack

from penstock._core import Future, Lease, MomentLayout, SwapEngine
from penstock.deepspeed import plain_tensors
from penstock.deepspeed.torch_dtype import engine_dtype

MASTER = "master"
MOMENTS = ("exp_avg", "exp_avg_sq")


class OpenRange(NamedTuple):
    """A range of a state, of the master or, with no name, of the gradient, in memory of its own."""

    name: str | None
    begin: int
    content: torch.Tensor


class SubGroup:
    """A chunk of a state is a tensor of the engine. All states are cut at the same elements.

    key: its name in the engine until a plan gives it the user's. numel: elements of this rank. chunk_numel: elements of
    all chunks but the last; `numel` or more makes one chunk.
    """

    def __init__(self, engine: SwapEngine, space: int, key: str, numel: int, chunk_numel: int) -> None:
        self.key = key
        self.numel = numel
        self.cuts = [(begin, min(chunk_numel, numel - begin)) for begin in range(0, numel, chunk_numel)]
        self.tensors: dict[str, list[int]] = {}  # of "master" and of states, by name: a tensor a chunk
        self.dtypes: dict[str, torch.dtype] = {}  # of the same, as the optimizer sees them
        self.leases: dict[str, Lease] = {}  # of states of one chunk that are swapped in
        # Of moments that are not all fp32: elements in a row, format, and how many of the last ones are padding.
        self.segments: list[tuple[int, str, int]] = []
        # What the script has set, until the step: ds_id (None: the sub-group) -> offset, numel, tensor of the engine.
        self.set_gradients: dict[int | None, tuple[int, int, int]] = {}
        self.opened: OpenRange | None = None  # what the script is changing
        self.is_stepped = False  # whole in memory, by the optimizer
        self.shown: dict[str, weakref.ref[torch.Tensor]] = {}  # the optimizer's tensors of states that are swapped out
        self._engine = engine
        self._space = space
        self._chunk_numel = chunk_numel
        self._layouts: dict[str, list[MomentLayout | None]] = {}  # of moments with `segments`, by chunk; None: fp32
        self._written: dict[str, set[int]] = {}  # chunks that have a content
        self._scratch: int | None = None  # never committed

    @property
    def is_cut(self) -> bool:
        return len(self.cuts) > 1

    def declare(self, name: str, dtype: torch.dtype) -> None:
        """Makes the tensors of a state, which have no content yet. Begins anew where an interrupt has ended it."""
        kind, role = engine_dtype(dtype), "master" if name == MASTER else "moment"
        if self.segments and name in MOMENTS and dtype == torch.float32:
            self._layouts[name] = MomentLayout.cut(name, self.segments, self._chunk_numel)
        tensors = []
        for chunk, (_, numel) in enumerate(self.cuts):
            layout = self.layout(name, chunk)
            form = (kind, [numel]) if layout is None else ("u8", [layout.nbytes])
            full_name = f"{self.key}.{name}{self._suffix(chunk)}"
            if (left := self._engine.find(self._space, full_name)) is not None:
                self._engine.forget(left[0])
            tensors.append(self._engine.declare(self._space, full_name, *form, role))
        self._written[name], self.dtypes[name] = set(), dtype
        self.tensors[name] = tensors  # last: the state is there

    def note_unused(self, name: str) -> None:
        """No step touches the state."""
        for tensor in self.tensors[name]:
            self._engine.set_trained(tensor, False)

    def layout(self, name: str, chunk: int) -> MomentLayout | None:
        """How a chunk lies in its tensor; None: as it is."""
        layouts = self._layouts.get(name)
        return None if layouts is None else layouts[chunk]

    def layouts(self, name: str) -> list[MomentLayout | None]:
        return self._layouts.get(name) or [None] * len(self.cuts)

    def rename(self, prefix: str) -> None:
        """To `prefix` and the state's name. Chunks have their number behind a slash, as in `penstock plan`."""
        for name, tensors in self.tensors.items():
            for chunk, tensor in enumerate(tensors):
                self._engine.rename(tensor, f"{prefix} {name}{self._suffix(chunk)}")

    def forget(self, name: str) -> None:
        """Gives a state up. One that does not exist is left alone."""
        self.leases.pop(name, None)
        self._written.pop(name, None)
        self._layouts.pop(name, None)
        self.dtypes.pop(name, None)
        for tensor in self.tensors.pop(name, ()):
            self._engine.forget(tensor)

    def forget_states(self, but: Container[str] = ()) -> None:
        """Gives up all but these, and the master."""
        for name in [name for name in self.tensors if name != MASTER and name not in but]:
            self.forget(name)

    def has_content(self, name: str) -> bool:
        return bool(self._written.get(name))

    def contents(self) -> list[str]:
        """Names of what has a content: "master" and states."""
        return [name for name in self.tensors if self.has_content(name)]

    def has_chunk(self, name: str, chunk: int) -> bool:
        """Whether this chunk has a content."""
        return chunk in self._written[name]

    def note_content(self, name: str) -> None:
        """All chunks have one."""
        self._written[name] = set(range(len(self.cuts)))

    def complete(self, name: str) -> None:
        """A step that failed has made only some chunks of a state: the others are zero, as it found them."""
        for chunk in set(range(len(self.cuts))) - self._written[name]:
            lease = self._engine.allocate(self.tensors[name][chunk])
            from_dlpack(lease).zero_()
            self.commit(name, chunk, lease)

    # Of one chunk.

    def read_chunk(self, name: str, chunk: int) -> torch.Tensor:
        """The content to read, as long as that tensor lives."""
        content, layout = from_dlpack(self._engine.get(self.tensors[name][chunk]).result()), self.layout(name, chunk)
        if layout is None:
            return content
        values = plain_tensors.empty(layout.elements, torch.float32)
        layout.decode(content, values)
        return values

    def put_chunk(self, name: str, chunk: int, content: torch.Tensor) -> Future:
        """`content`, which stays as it is until then, becomes the content."""
        layout = self.layout(name, chunk)
        if layout is not None:
            content, values = plain_tensors.empty(layout.nbytes, torch.uint8), content
            layout.encode(values.contiguous(), content)
        return self._engine.put(self.tensors[name][chunk], content)

    def replace_chunk(self, name: str, chunk: int, content: torch.Tensor) -> None:
        self.put_chunk(name, chunk, content).result()
        self._written[name].add(chunk)

    def contents_of(self, chunk: int, but: Container[str]) -> list[int]:
        """The tensors of a chunk that have a content, of all states but these."""
        return [
            tensors[chunk] for name, tensors in self.tensors.items() if name not in but and chunk in self._written[name]
        ]

    def lease_of(self, name: str, chunk: int) -> Lease:
        """Memory of the next content of a chunk, with the last one in it: zero where there is none. It lies as its
        layout says; bytes of zero are zeros there too.
        """
        tensor = self.tensors[name][chunk]
        if chunk in self._written[name]:
            lease: Lease = self._engine.get(tensor, True).result()
            return lease
        lease = self._engine.allocate(tensor)
        from_dlpack(lease).zero_()
        return lease

    def commit(self, name: str, chunk: int, lease: Lease) -> None:
        self._engine.commit(lease)
        self._written[name].add(chunk)

    # Of a whole state.

    def write(self, name: str, parts: Iterable[torch.Tensor], dtype: torch.dtype) -> None:
        """`parts` in a row become the content; they are cast to `dtype`."""
        if name not in self.tensors:
            self.declare(name, dtype)
        rest = iter(parts)
        part = plain_tensors.empty(0, torch.float32)
        for chunk, (_, numel) in enumerate(self.cuts):
            lease = self._engine.allocate(self.tensors[name][chunk])
            target, done = from_dlpack(lease), 0
            while done < numel:
                while part.numel() == 0:
                    part = next(rest).detach()
                count = min(part.numel(), numel - done)
                target.narrow(0, done, count).copy_(part.narrow(0, 0, count))
                part = part.narrow(0, count, part.numel() - count)
                done += count
            self.commit(name, chunk, lease)

    def put(self, name: str, content: torch.Tensor) -> None:
        """`content` becomes the content, without a copy. Raises what a write raises."""
        if name not in self.tensors:
            self.declare(name, content.dtype)
        flat = content.contiguous()
        for future in [self.put_chunk(name, chunk, flat.narrow(0, *cut)) for chunk, cut in enumerate(self.cuts)]:
            future.result()
        self.note_content(name)

    def read(self, name: str, dtype: torch.dtype, begin: int = 0, numel: int | None = None) -> torch.Tensor:
        """The content, or a range of it, in memory of its own."""
        part = plain_tensors.empty(self.numel if numel is None else numel, dtype)
        futures = []
        for chunk, (first, count) in enumerate(self.cuts):
            start, end = max(begin, first), min(begin + part.numel(), first + count)
            if start >= end:
                continue
            target = part.narrow(0, start - begin, end - start)
            if end - start == count and self.layout(name, chunk) is None:
                futures.append(self._engine.get_into(self.tensors[name][chunk], target))
            else:
                target.copy_(self.read_chunk(name, chunk).narrow(0, start - first, end - start))
        for future in futures:
            future.result()
        return part

    def write_range(self, name: str, begin: int, content: torch.Tensor) -> None:
        """Changes elements from `begin` on. Where it fails each chunk is as it was or changed, whole."""
        for chunk, (first, count) in enumerate(self.cuts):
            start, end = max(begin, first), min(begin + content.numel(), first + count)
            if start >= end:
                continue
            part = content.narrow(0, start - begin, end - start)
            if part.numel() == count:
                self.replace_chunk(name, chunk, part)
            elif self.layout(name, chunk) is None:
                lease = self._engine.get(self.tensors[name][chunk], True).result()
                from_dlpack(lease).narrow(0, start - first, part.numel()).copy_(part)
                self.commit(name, chunk, lease)
            else:  # what is decoded encodes to the same bytes, so the rest stays as it is
                whole = self.read_chunk(name, chunk)
                whole.narrow(0, start - first, part.numel()).copy_(part)
                self.replace_chunk(name, chunk, whole)

    def chunks(self, name: str) -> Iterator[tuple[int, torch.Tensor]]:
        """Where each chunk begins, and its content to read, as long as that tensor lives."""
        for chunk, (begin, _) in enumerate(self.cuts):
            yield begin, self.read_chunk(name, chunk)

    def ranges(self, name: str, begin: int, numel: int) -> Iterator[tuple[int, int, int]]:
        """The tensors over elements [begin, begin + numel) of a state: tensor, elements before it, elements in it."""
        for tensor, (first, count) in zip(self.tensors[name], self.cuts, strict=True):
            start, end = max(begin, first), min(begin + numel, first + count)
            if start < end:
                yield tensor, start - begin, end - start

    def scratch(self, dtype: torch.dtype) -> torch.Tensor:
        """Memory for a gradient of the sub-group. Where it is not cut the memory is the engine's and goes back with the
        last view: the kernel would zero a fresh allocation at every step.
        """
        if self.is_cut:
            return plain_tensors.empty(self.numel, dtype)
        if self._scratch is None:
            name = f"{self.key}.gradient"
            self._scratch = self._engine.declare(self._space, name, engine_dtype(dtype), [self.numel], "gradient")
        return from_dlpack(self._engine.allocate(self._scratch))

    def _suffix(self, chunk: int) -> str:
        return f"/{chunk}" if self.is_cut else ""

"""The engine by names: put, get, prefetch."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterable, Mapping
from typing import Any

from penstock._core import Future, Lease, SwapEngine
from penstock.errors import ArgumentError, ConfigError, UnknownTensorError

# DLPack type codes and the names that the engine gives their types.
_BY_TYPE_NAME = {
    "bool": "bool",
    "uint8": "u8",
    "int8": "i8",
    "int16": "i16",
    "uint16": "u16",
    "float16": "f16",
    "bfloat16": "bf16",
    "int32": "i32",
    "uint32": "u32",
    "float32": "f32",
    "float64": "f64",
    "int64": "i64",
    "uint64": "u64",
    "float8_e4m3fn": "f8_e4m3",
    "float8_e5m2": "f8_e5m2",
}


class Engine:
    """Keeps tensors on drives and in RAM by name. Thread-safe; blocking calls release the GIL.

    config: a DeepSpeed JSON file (its keys and the `penstock` block are read), a mapping of the same, or None.
    path: directory or directories to swap to; None: what the configuration names.

    With `"mode": "durable"` in the block, the (first) path is a store that outlives the process: names() has what it
    holds, and what was flush()ed or close()d survives a crash. One process uses it at a time; others get an OSError
    (EBUSY) that says which.
    """

    def __init__(
        self,
        config: str | os.PathLike[str] | Mapping[str, Any] | None = None,
        path: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] | None = None,
    ) -> None:
        text, origin = _read_config(config)
        self._core = SwapEngine(text, origin)
        self._space = self._core.open_namespace("main", _paths(path))
        brought = self._core.tensors(self._space)
        self._ids: dict[str, int] = {name: number for name, (number, _, _) in brought.items()}
        self._described: dict[str, tuple[str, list[int]]] = {
            name: (dtype, shape) for name, (_, dtype, shape) in brought.items()
        }
        self._declaring = threading.Lock()

    def put(self, name: str, tensor: Any) -> None:
        """Stores the content of `tensor` (DLPack or buffer protocol, on the CPU) under `name`.

        What does not lie in C order is copied first. Blocks until `tensor` may be changed again and the content is
        where it belongs. A name keeps size and dtype of its first content; putting another shape of the same size
        is an ArgumentError.
        """
        self.put_async(name, tensor).result()

    def put_async(self, name: str, tensor: Any) -> Future:
        """As put(), but `tensor` must stay as it is until the future is done."""
        array = _contiguous(tensor)
        tensor_id, is_new = self._declared(name, *_describe(array))
        try:
            return self._core.put(tensor_id, array)
        except TypeError:
            if is_new:
                self.forget(name)
            raise ArgumentError(f"penstock cannot store {_kind(tensor)}: {_TAKEN}") from None

    def get(self, name: str, update: bool = False) -> Lease:
        """A lease on the content; blocks until it is in memory. `update`: the caller will change it and commit()."""
        lease: Lease = self.get_async(name, update=update).result()
        return lease

    def get_async(self, name: str, out: Any = None, update: bool = False) -> Future:
        """Begins to fetch. With `out` (writable, same size) the content is read into it and result() is None."""
        tensor_id = self._id(name)
        if out is not None:
            try:
                return self._core.get_into(tensor_id, _contiguous(out))
            except TypeError:
                raise ArgumentError(f"penstock cannot read into {_kind(out)}: {_TAKEN}, writable") from None
        return self._core.get(tensor_id, update)

    def commit(self, lease: Lease) -> Future:
        """Makes what a lease taken for update holds the tensor's next content."""
        return self._core.commit(lease)

    def prefetch(self, names: Iterable[str]) -> None:
        """Says what will be needed next, in this order. Never blocks."""
        self._core.prefetch([self._id(name) for name in names])

    def forget(self, name: str) -> None:
        """Drops a tensor and its space on drives; leases that are out stay valid."""
        with self._declaring:
            self._core.forget(self._id(name))
            del self._ids[name], self._described[name]

    def flush(self) -> None:
        """Blocks until everything put or committed is where it belongs; raises the first failure.

        A durable store is published: all of it survives a crash from here on.
        """
        self._core.flush()

    def plan(self) -> dict[str, Any]:
        """Plans for the tensors known now; returns classes, places and bytes."""
        self._core.plan()
        return self._core.placement()

    def stats(self) -> dict[str, int]:
        """Counters since the engine was opened (docs/ARCHITECTURE.md says what each counts)."""
        return self._core.stats()

    def state(self, name: str) -> dict[str, Any]:
        """Where a tensor is: in memory, resident, on a drive; its place and generation."""
        return self._core.state(self._id(name))

    def names(self) -> list[str]:
        return list(self._ids)

    def close(self) -> None:
        """Waits for I/O in flight, then gives up drives and memory. Idempotent. Leases stay readable."""
        self._core.close()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _declared(self, name: str, dtype: str, shape: list[int]) -> tuple[int, bool]:
        """The tensor of this name, and whether it is a new one."""
        with self._declaring:
            known = self._described.get(name)
            if known is None:
                try:
                    interrupted = self._core.find(self._space, name)  # by Ctrl-C, when it was declared but not noted
                    if interrupted is not None:
                        self._core.forget(interrupted)  # nothing was put yet
                    self._ids[name] = self._core.declare(self._space, name, dtype, shape)
                except TypeError:
                    raise ArgumentError(f"{name!r} is no name for a tensor: a text is") from None
                self._described[name] = (dtype, shape)
            elif known != (dtype, shape):
                was, now = (f"{one} of shape {list(sides)}" for one, sides in (known, (dtype, shape)))
                raise ArgumentError(f"tensor '{name}' is {was}, not {now}: forget() it first, or put the same")
            return self._ids[name], known is None

    def _id(self, name: str) -> int:
        try:
            return self._ids[name]
        except KeyError:
            raise UnknownTensorError(f"there is no tensor '{name}': put it first") from None


def _read_config(config: str | os.PathLike[str] | Mapping[str, Any] | None) -> tuple[str, str]:
    if config is None:
        return "{}", "defaults"
    if isinstance(config, Mapping):
        return json.dumps(dict(config)), "the mapping given"
    try:
        with open(config, encoding="utf-8") as file:
            return file.read(), os.fspath(config)
    except OSError as error:
        raise ConfigError(f"cannot read the configuration {os.fspath(config)}: {error.strerror}") from error


def _paths(path: Any) -> list[str]:
    if path is None:
        return []
    if isinstance(path, (str, os.PathLike)):
        return [os.fspath(path)]
    return [os.fspath(entry) for entry in path]


_TAKEN = "what it takes has DLPack or the buffer protocol, lies in C order and in the CPU's memory"


def _kind(tensor: Any) -> str:
    return f"this {type(tensor).__module__}.{type(tensor).__qualname__}".replace("builtins.", "")


def _contiguous(tensor: Any) -> Any:
    """What the engine can take: a torch tensor loses its autograd history, anything else is itself."""
    detach = getattr(tensor, "detach", None)
    return detach() if callable(detach) else tensor


def _describe(array: Any) -> tuple[str, list[int]]:
    dtype = getattr(array, "dtype", None)
    if dtype is None:
        try:
            return "u8", [memoryview(array).nbytes]
        except TypeError:
            raise ArgumentError(f"penstock cannot store {_kind(array)}: {_TAKEN}") from None
    name = str(dtype).rpartition(".")[2]
    try:
        return _BY_TYPE_NAME[name], list(array.shape)
    except KeyError:
        raise ArgumentError(f"penstock cannot store dtype {name}") from None

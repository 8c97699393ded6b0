"""The engine by names: put, get, prefetch."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Mapping
from typing import Any

from penstock._core import Future, Lease, SwapEngine
from penstock.device_array import capsule_of, device_name, device_of
from penstock.errors import ArgumentError, ClosedError, ConfigError, UnknownTensorError
from penstock.type_names import OURS, THEIRS

_Path = str | bytes | os.PathLike[str] | os.PathLike[bytes]


class Engine:
    """Keeps tensors on drives and in RAM by name. Thread-safe; blocking calls release the GIL.

    config: a DeepSpeed JSON file (its keys and the `penstock` block are read), a mapping of the same, or None.
    path: directory or directories to swap to; None: what the configuration names.

    With `"mode": "durable"` in the block, the (first) path is a store that outlives the process: names() has what it
    holds, and what was flush()ed or close()d survives a crash. One process uses it at a time; others get an OSError
    (EBUSY) that says which.

    devices: accelerators (or one) whose tensors put() and get_async() take as well: `cuda:0`, `hip:1`. Contents go
    there and back through pinned memory within `max_pinned_bytes`, a quarter of which is theirs. `host:0` is a
    simulated one: CPU tensors go the way of a device's where `device="host:0"` is said.
    """

    def __init__(
        self,
        config: str | os.PathLike[str] | Mapping[str, Any] | None = None,
        path: _Path | Iterable[_Path] | None = None,
        devices: str | Iterable[str] = (),
    ) -> None:
        text, origin = _read_config(config)
        self._core = SwapEngine(text, origin, devices=_devices(devices))
        self._space = self._core.open_namespace("main", _paths(path))
        brought = self._core.tensors(self._space).values()
        self._last_brought = max((number for number, _, _ in brought), default=0)

    def put(self, name: str, tensor: Any, convert: bool = False, device: str | None = None) -> None:
        """Stores the content of `tensor` (DLPack or buffer protocol) under `name`.

        On a device, what its current stream was given so far comes first; there, it must lie in C order; on the CPU,
        what does not is copied first. Blocks until `tensor` may be changed again and the content is where it belongs.
        A name keeps size and dtype of its first content; putting another shape of the same size is an ArgumentError.
        `convert`: a tensor on a device may be f32, bf16 or f16 where the name is another of these.

        After an error the name has its content from before. But from a device, and of a durable engine's name that is
        resident in RAM, the bytes have come by then: a write that fails leaves the new ones in memory, as it does for
        commit(), says so, and flush() tries again.
        """
        self.put_async(name, tensor, convert, device).result()

    def put_async(self, name: str, tensor: Any, convert: bool = False, device: str | None = None) -> Future:
        """As put(), but `tensor` must stay as it is until the future is done."""
        if _is_masked(tensor):
            raise ArgumentError("penstock cannot store a mask: put `.filled()`, or `.data` and `.mask`")
        array = _detached(tensor)
        if _is_lazy(array):
            array = array.resolve_conj().resolve_neg()
        device = _device(array, convert, device)
        if device is None:
            array = _in_c_order(array)
        dtype, shape = _describe(array)
        _check_name(name)
        kept = self._kept_dtype(name, dtype, shape, convert)
        handed_over = _as_bytes(array) if device is None else self._on_device(array, device, False)
        try:
            if device is None:
                return self._core.put_named(self._space, name, dtype, shape, handed_over)
            return self._core.put_named_from_device(self._space, name, kept, shape, handed_over, device, dtype)
        except TypeError:
            raise ArgumentError(f"penstock cannot store {_kind(tensor)}: {_TAKEN}") from None

    def get(self, name: str, update: bool = False) -> Lease:
        """A lease on the content; blocks until it is in memory. It is to read only, unless `update`: the caller will
        change it and commit(). A lease that is dropped instead leaves the content as it was, but for a tensor that is
        kept in RAM (`ram_bytes`, rules): that has one copy, which the caller has changed. Until the commit another
        get has the last committed content from the drive; of the tensor with one copy it is an ArgumentError.

        torch and DLPack before 1.0 ignore that a lease is to read only: what is written into torch.from_dlpack(lease)
        changes the content for its other readers.
        """
        lease: Lease = self.get_async(name, update=update).result()
        return lease

    def get_async(
        self, name: str, out: Any = None, update: bool = False, convert: bool = False, device: str | None = None
    ) -> Future:
        """Begins to fetch. With `out` (writable, same size) the content is read into it and result() is None. `out` has
        the tensor's dtype or is bytes; for bf16, which NumPy lacks, it may have integers of 16 bits. Where the name is
        put again before the future is done, it may have that content already.

        `out` may lie on a device: what its current stream was given so far comes first, and when the future is done the
        content is there for every stream. `convert` as for put().
        """
        tensor_id, kept, _ = self._known(name)
        if out is None:
            return self._core.get(tensor_id, update)
        if _is_masked(out):
            raise ArgumentError("`out` has a mask, which would hide what is read: give its `.data`")
        array = _detached(out)
        if _is_lazy(array):
            raise ArgumentError("`out` shows the negative or conjugate of its memory: give a tensor of its own")
        device = _device(array, convert, device)
        try:
            dtype = _describe(array, "read into")[0]
            if device is None:
                if not _may_hold(dtype, kept):
                    raise ArgumentError(f"tensor '{name}' is {kept}, `out` is {dtype}: give the same dtype, or bytes")
                return self._core.get_into(tensor_id, _as_bytes(array))
            if not convert:
                if not _may_hold(dtype, kept):
                    other = "say convert=True, or give" if {dtype, kept} <= _CONVERTED else "give"
                    raise ArgumentError(f"tensor '{name}' is {kept}, not {dtype}: {other} the same dtype, or bytes")
                dtype = kept
            return self._core.get_to_device(tensor_id, self._on_device(array, device, True), device, dtype)
        except TypeError:
            raise ArgumentError(f"penstock cannot read into {_kind(out)}: {_TAKEN}, writable") from None

    def commit(self, lease: Lease) -> Future:
        """Makes what a lease taken for update holds the tensor's next content. One to read is an ArgumentError.

        From then on other readers share its memory, so it is to read only: to change the tensor again, get it again.
        """
        return self._core.commit(lease)

    def prefetch(self, names: str | Iterable[str]) -> None:
        """Says what will be needed next: a name, or several in order. Never blocks. Of a closed one nothing is."""
        names = [names] if isinstance(names, str) else names
        with contextlib.suppress(ClosedError):
            self._core.prefetch([self._known(name)[0] for name in names])

    def forget(self, name: str) -> None:
        """Drops a tensor and its space on drives; leases that are out stay valid."""
        self._core.forget(self._known(name)[0])

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
        """Counters since the engine was opened. docs/TUNING.md explains those to tune by."""
        return self._core.stats()

    def state(self, name: str) -> dict[str, Any]:
        """Where a tensor is: in memory, resident, on a drive; its place and generation."""
        return self._core.state(self._known(name)[0])

    def names(self) -> list[str]:
        """In the order of their first puts, behind what a durable store has brought.

        Not those without elements, which `penstock import` and `export` carry: an engine holds none.
        """
        tensors = self._core.tensors(self._space)
        return sorted(tensors, key=lambda name: max(tensors[name][0], self._last_brought))

    def close(self) -> None:
        """Waits for I/O in flight, then gives up drives and memory. Idempotent. Leases stay readable."""
        self._core.close()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _on_device(self, array: Any, device: str, to_device: bool) -> Any:
        """`array` as the engine takes it; the engine's copies wait for what its producer has begun."""
        stream = self._core.device_stream(device, to_device)
        return capsule_of(array, stream) if device_of(array) == device else array

    def _kept_dtype(self, name: str, dtype: str, shape: list[int], convert: bool) -> str:
        """In which dtype `name` is kept, when a tensor of `dtype` and `shape` becomes its content."""
        known = self._core.find(self._space, name)
        if known is None:
            return dtype
        was, now = known[1:], (known[1] if convert else dtype, shape)
        if was != now:
            old, new = (f"{one} of shape {sides}" for one, sides in (was, now))
            raise ArgumentError(f"tensor '{name}' is {old}, not {new}: forget() it first, or put the same")
        return known[1]

    def _known(self, name: str) -> tuple[int, str, list[int]]:
        """Number, dtype and shape. Nothing of a name is kept here: the core declares and finds names in one step each,
        whatever a signal's handler, a finalizer or another thread does to them.
        """
        with contextlib.suppress(TypeError):  # no text
            known = self._core.find(self._space, name)
            if known is not None:
                return known
        raise UnknownTensorError(f"there is no tensor '{name}': put it first")


def _read_config(config: str | os.PathLike[str] | Mapping[str, Any] | None) -> tuple[str, str]:
    if config is None:
        return "{}", "defaults"
    if isinstance(config, Mapping):
        try:
            return json.dumps(dict(config)), "the mapping given"
        except (TypeError, ValueError) as error:
            raise ConfigError(f"the mapping given has a value that JSON lacks: {error}") from error
    try:
        with open(config, encoding="utf-8") as file:
            return file.read(), os.fspath(config)
    except OSError as error:
        raise ConfigError(f"cannot read the configuration {os.fspath(config)}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"the configuration {os.fspath(config)} is not UTF-8, at byte {error.start}") from error


def _paths(path: Any) -> list[str]:
    if path is None:
        return []
    try:
        paths = [os.fsdecode(entry) for entry in ([path] if isinstance(path, (str, bytes, os.PathLike)) else path)]
        "".join(paths).encode()
    except (TypeError, UnicodeEncodeError):
        raise ArgumentError(f"{path!r} is no path, nor are these several: a path is a text, UTF-8") from None
    return paths


def _devices(devices: Any) -> list[str]:
    several = isinstance(devices, Iterable) and not isinstance(devices, str)
    return [device_name(device) for device in (devices if several else [devices])]


def _check_name(name: Any) -> None:
    try:
        name.encode()
    except (AttributeError, UnicodeEncodeError):
        raise ArgumentError(f"{name!r} is no name for a tensor: a text is") from None


def _device(array: Any, convert: bool, said: str | None) -> str | None:
    device = device_of(array) or (device_name(said) if said is not None else None)
    if convert and device is None:
        raise ArgumentError("convert=True is for tensors on a device; on the CPU, convert first")
    return device


def _may_hold(dtype: str, kept: str) -> bool:
    """Whether memory of `dtype` may be filled with a tensor's bits: NumPy's users have integers for bf16."""
    return dtype == kept or "u8" in (dtype, kept) or (kept == "bf16" and dtype in ("u16", "i16"))


_CONVERTED = {"f32", "bf16", "f16"}  # by a device, among each other

_TAKEN = "what it takes has DLPack or the buffer protocol, lies in C order, in the CPU's memory or a device's"


def _kind(tensor: Any) -> str:
    return f"this {type(tensor).__module__}.{type(tensor).__qualname__}".replace("builtins.", "")


def _is_masked(tensor: Any) -> bool:
    """Of NumPy; torch's gives no memory."""
    return hasattr(tensor, "mask") and hasattr(tensor, "filled")


def _is_lazy(tensor: Any) -> bool:
    """Of torch: a view whose numbers are the conjugate or negative of what is in memory: `z.conj()`, and its `imag`."""
    marks = (getattr(tensor, name, None) for name in ("is_conj", "is_neg"))
    return any(callable(mark) and bool(mark()) for mark in marks)


def _detached(tensor: Any) -> Any:
    """What the engine can take: a torch tensor loses its autograd history, anything else is itself."""
    detach = getattr(tensor, "detach", None)
    if callable(detach):
        return detach()
    if not hasattr(tensor, "__dlpack__") and not hasattr(tensor, "dtype"):
        with contextlib.suppress(TypeError):
            return memoryview(tensor)  # has strides, which a ctypes array has not
    return tensor


def _in_c_order(array: Any) -> Any:
    """What has strides is copied, of any type: the core copies those alone that its library knows."""
    if isinstance(array, memoryview):
        return array if array.c_contiguous else memoryview(array.tobytes())
    if getattr(getattr(array, "flags", None), "c_contiguous", True) is False:  # of NumPy
        return array.copy()
    is_contiguous = getattr(array, "is_contiguous", None)  # of torch
    try:
        return array.contiguous() if callable(is_contiguous) and not is_contiguous() else array
    except RuntimeError:  # a sparse or nested tensor, which the core refuses
        return array


def _as_bytes(array: Any) -> Any:
    """The memory of a NumPy array of a type of ml_dtypes, which has no buffer protocol; all else is itself."""
    is_registered = getattr(getattr(array, "dtype", None), "isbuiltin", None) == 2  # NumPy: "a user-defined type"
    return array.reshape(-1).view("u1") if is_registered and array.flags.c_contiguous else array


def _describe(array: Any, verb: str = "store") -> tuple[str, list[int]]:
    dtype = getattr(array, "dtype", None)
    if dtype is None:
        try:
            return "u8", [memoryview(array).nbytes]
        except TypeError:
            raise ArgumentError(f"penstock cannot {verb} {_kind(array)}: {_TAKEN}") from None
    name = str(dtype).rpartition(".")[2]
    kept = name if name in THEIRS else OURS.get(name)  # a lease's is ours already
    if kept is None:
        raise ArgumentError(f"penstock cannot {verb} dtype {dtype}")
    try:
        return kept, list(array.shape)
    except RuntimeError:  # a nested tensor has none
        raise ArgumentError(f"penstock cannot {verb} {_kind(array)}: {_TAKEN}") from None

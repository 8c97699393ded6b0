"""NumPy's view of a lease; imported only when somebody asks for it."""

from __future__ import annotations

from typing import Any

_NUMPY_NAMES = {
    "bool": "bool",
    "u8": "uint8",
    "i8": "int8",
    "i16": "int16",
    "u16": "uint16",
    "f16": "float16",
    "i32": "int32",
    "u32": "uint32",
    "f32": "float32",
    "f64": "float64",
    "i64": "int64",
    "u64": "uint64",
}
# NumPy has no such types of its own: the bits, as integers of the same width.
_BITS = {"bf16": "uint16", "f8_e4m3": "uint8", "f8_e5m2": "uint8"}


def array_of(lease: Any) -> Any:
    """A writable array over the lease's memory, without a copy; it keeps the memory alive."""
    import numpy

    name = _NUMPY_NAMES.get(lease.dtype) or _BITS[lease.dtype]
    return numpy.frombuffer(lease, dtype=name).reshape(lease.shape)

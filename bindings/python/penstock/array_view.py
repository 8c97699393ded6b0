"""NumPy's view of a lease; imported only when a caller asks for it."""

from __future__ import annotations

from typing import Any

from penstock.errors import UnsupportedError

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
    "c64": "complex64",
}
# NumPy has no such types of its own; the package ml_dtypes brings them.
_ML_DTYPES_NAMES = {
    "bf16": "bfloat16",
    "f8_e4m3": "float8_e4m3fn",
    "f8_e4m3fnuz": "float8_e4m3fnuz",
    "f8_e5m2": "float8_e5m2",
    "f8_e5m2fnuz": "float8_e5m2fnuz",
    "f8_e8m0": "float8_e8m0fnu",
}


def array_of(lease: Any) -> Any:
    """An array over the lease's memory, without a copy; it keeps the memory alive. It is writable where the lease was
    got with update=True.
    """
    import numpy

    return numpy.frombuffer(lease, dtype=_dtype_of(lease)).reshape(lease.shape)


def _dtype_of(lease: Any) -> Any:
    name = _NUMPY_NAMES.get(lease.dtype)
    if name is not None:
        return name
    if lease.dtype not in _ML_DTYPES_NAMES:
        raise UnsupportedError(
            f"tensor '{lease.name}' is {lease.dtype}, whose elements share bytes: memoryview(lease) has the bytes"
        )
    try:
        import ml_dtypes
    except ImportError:
        raise UnsupportedError(
            f"tensor '{lease.name}' is {lease.dtype}, which NumPy lacks: take torch.from_dlpack(lease), or install "
            "ml_dtypes"
        ) from None
    return getattr(ml_dtypes, _ML_DTYPES_NAMES[lease.dtype])

"""NumPy's view of a lease; imported only when a caller asks for it."""

from __future__ import annotations

from typing import Any

from penstock.errors import UnsupportedError
from penstock.type_names import THEIRS


def array_of(lease: Any) -> Any:
    """An array over the lease's memory, without a copy; it keeps the memory alive. It is writable where the lease was
    got with update=True.
    """
    import numpy

    return numpy.frombuffer(lease, dtype=_dtype_of(lease)).reshape(lease.shape)


def _dtype_of(lease: Any) -> Any:
    name = THEIRS.get(lease.dtype)
    if name is None:
        raise UnsupportedError(
            f"tensor '{lease.name}' is {lease.dtype}, whose elements share bytes: memoryview(lease) has the bytes"
        )
    if not name.startswith(("bfloat", "float8")):  # those NumPy has not
        return name
    try:
        import ml_dtypes
    except ImportError:
        raise UnsupportedError(
            f"tensor '{lease.name}' is {lease.dtype}, which NumPy lacks: take torch.from_dlpack(lease), or install "
            "ml_dtypes"
        ) from None
    return getattr(ml_dtypes, name)

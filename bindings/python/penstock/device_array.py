"""Tensors in the memory of an accelerator: whose device it is, and what DLPack hands over of them."""

from __future__ import annotations

from typing import Any

from penstock.errors import ArgumentError

# DLPack's numbers of device types (dlpack.h: kDLCUDA, kDLROCM) and the runtimes that penstock opens for them.
_RUNTIMES = {2: "cuda", 10: "hip"}


def device_name(name: str) -> str:
    """`cuda` is `cuda:0`."""
    if not isinstance(name, str):
        raise ArgumentError(f"{name!r} is no device: a text is, such as cuda:0")
    return name if ":" in name else f"{name}:0"


def device_of(tensor: Any) -> str | None:
    """`cuda:0`, `hip:1`; None where its memory is the CPU's, or unknown to DLPack."""
    dlpack_device = getattr(tensor, "__dlpack_device__", None)
    if not callable(dlpack_device):
        return None
    try:
        kind, number = dlpack_device()
    except (TypeError, ValueError, RuntimeError):  # a class; meta, nested and other tensors that DLPack lacks
        return None
    runtime = _RUNTIMES.get(int(kind))
    return None if runtime is None else f"{runtime}:{number}"


def capsule_of(tensor: Any, stream: int) -> Any:
    """Its memory; what its producer has begun there so far comes before what `stream` is given next."""
    try:
        return tensor.__dlpack__(stream=stream)
    except BufferError as error:
        raise ArgumentError(f"this tensor's memory cannot be had: {error}") from error

"""The only module here that knows how penstock's Python package speaks of devices.

A device is `cuda:0` or `hip:0`, whose tensors are torch's of that device, or `host:0`, a simulated one whose memory is
the host's: there tensors are of the CPU, and every call says that they are to go over the device.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from figure import NotRunError


def simulated(device: str) -> bool:
    return device.startswith("host")


def require(device: str) -> None:
    """NotRunError with the reason, unless tensors can be swapped to and from `device` here."""
    try:
        import torch
    except ImportError as error:
        raise NotRunError(f"this Python has no torch ({error})") from None
    if not simulated(device) and not torch.cuda.is_available():
        raise NotRunError(f"torch {torch.__version__} sees no GPU")
    try:
        import penstock
    except ImportError as error:
        raise NotRunError(f"penstock cannot be imported: {error}") from None
    if "devices" not in inspect.signature(penstock.Engine.__init__).parameters:
        raise NotRunError("this penstock has no devices: its Engine takes no `devices`")


def torch_device(device: str) -> str:
    """Where torch makes tensors of this device."""
    return "cpu" if simulated(device) else device.replace("hip", "cuda")


def synchronize(device: str) -> None:
    """Blocks until the device has done all that was asked of it."""
    if not simulated(device):
        import torch

        torch.cuda.synchronize(torch_device(device))


class DeviceEngine:
    """penstock.Engine with one device. Everything from the drive: nothing stays in RAM."""

    def __init__(self, device: str, path: Path, max_pinned: int, ram_bytes: int = 0) -> None:
        import penstock

        engine_of: Any = penstock.Engine
        block = {"max_pinned_bytes": max_pinned, "ram_bytes": ram_bytes}
        path.mkdir(parents=True, exist_ok=True)
        self._engine: Any = engine_of(config={"penstock": block}, path=str(path), devices=[device])
        self._over = {"device": device} if simulated(device) else {}

    def put(self, name: str, tensor: Any, convert: bool = False) -> None:
        self._engine.put(name, tensor, **self._said(convert))

    def put_async(self, name: str, tensor: Any) -> Any:
        return self._engine.put_async(name, tensor, **self._over)

    def get(self, name: str, out: Any, convert: bool = False) -> None:
        self._engine.get_async(name, out=out, **self._said(convert)).result()

    def get_async(self, name: str, out: Any) -> Any:
        return self._engine.get_async(name, out=out, **self._over)

    def prefetch(self, names: Iterable[str]) -> None:
        self._engine.prefetch(names)

    def flush(self) -> None:
        self._engine.flush()

    def stats(self) -> dict[str, int]:
        counted: dict[str, int] = self._engine.stats()
        return counted

    def close(self) -> None:
        self._engine.close()

    def __enter__(self) -> DeviceEngine:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _said(self, convert: bool) -> dict[str, Any]:
        return {**self._over, "convert": True} if convert else self._over


def pinned_bytes(counted: dict[str, int]) -> int:
    """All host memory that an engine keeps registered: its slots, and the chunks between drive and device."""
    return counted["pinned_bytes"]


# What penstock.deepspeed reads, so that it uses a simulated device where there is no other.
def deepspeed_environment(device: str) -> dict[str, str]:
    return {"PENSTOCK_DEVICE": device} if simulated(device) else {}


def through_device(counted: dict[str, int]) -> int | None:
    """Bytes of both ways, of PENSTOCK_STATS or stats(); None: this penstock does not count them."""
    if "to_device_bytes" not in counted:
        return None
    return counted["to_device_bytes"] + counted.get("from_device_bytes", 0)

"""How the content of a partition reaches the memory that the runtime computes with."""

from __future__ import annotations

import os
from typing import Protocol

import torch
from deepspeed.accelerator import get_accelerator
from torch.utils.dlpack import from_dlpack

from penstock._core import Future, Lease, SwapEngine
from penstock.deepspeed import plain_tensors
from penstock.deepspeed.torch_dtype import engine_dtype


def tensor_of(lease: Lease) -> torch.Tensor:
    """Its memory. A partition that is read ahead in torch.inference_mode() may be used by the next training pass, and
    autograd refuses tensors that were made in that mode.
    """
    with torch.inference_mode(False):
        tensor: torch.Tensor = from_dlpack(lease)
    return tensor


class Delivery(Protocol):
    """A partition on its way."""

    def result(self) -> torch.Tensor:
        """Blocks until it is there. Errors: the read's."""

    @property
    def lease(self) -> Lease | None:
        """What holds its memory, where that is the engine's."""


class HostDelivery:
    """Into the engine's memory: the partition is a view of a lease.

    update: its holder may write into it. Others read only; torch, which has no such tensors, would not stop them.
    """

    def __init__(self, engine: SwapEngine, tensor: int, update: bool = False) -> None:
        self._future: Future = engine.get(tensor, update)
        self.lease: Lease | None = None

    def result(self) -> torch.Tensor:
        self.lease = self._future.result()
        return tensor_of(self.lease)


class DeviceDelivery:
    """Into memory of the device that torch has given: the engine's own is free again when the copy's event has
    happened, not when the partition is.

    The copy begins after what the current stream was given so far, since the allocator may have handed out memory that
    this stream still uses; when result() returns the content is there for every stream.
    """

    lease: Lease | None = None

    def __init__(self, engine: SwapEngine, tensor: int, numel: int, dtype: torch.dtype, device: str) -> None:
        with torch.inference_mode(False):
            self._target = plain_tensors.empty(numel, dtype, torch_device(device))
        self._future = engine.get_to_device(tensor, self._target, device, engine_dtype(dtype), _current_stream(device))

    def result(self) -> torch.Tensor:
        self._future.result()
        return self._target


def training_device() -> str | None:
    """The device that partitions are brought to, as the engine names it; None: they are used in host memory.

    PENSTOCK_DEVICE overrides what DeepSpeed's accelerator is: `host:0` simulates one, empty means none.
    """
    said = os.environ.get("PENSTOCK_DEVICE")
    if said is not None:
        return said or None
    accelerator = get_accelerator()
    if accelerator.device_name() != "cuda":  # as torch calls AMD's too
        return None
    runtime = "cuda" if torch.version.hip is None else "hip"
    return f"{runtime}:{accelerator.current_device()}"


def torch_device(device: str) -> str:
    """What torch calls it; a simulated one's memory is the CPU's."""
    runtime, _, number = device.partition(":")
    return "cpu" if runtime == "host" else f"cuda:{number or 0}"


def _current_stream(device: str) -> int:
    return 0 if torch_device(device) == "cpu" else int(torch.cuda.current_stream(torch_device(device)).cuda_stream)

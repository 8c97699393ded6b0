"""Leases of parameters that DeepSpeed has done with, while a device may still read their memory."""

from __future__ import annotations

from typing import Any

from deepspeed.accelerator import get_accelerator

from penstock._core import Lease


class RetiredLeases:
    """Leases that DeepSpeed has given back while the accelerator may still copy from them.

    `ds_tensor.to(device, non_blocking=True)` reads host memory after it has returned; an event behind it says
    when that is over. On the CPU there is no such copy and nothing is kept.
    """

    def __init__(self) -> None:
        self._asynchronous = not get_accelerator().is_synchronized_device()
        self._waiting: list[tuple[Any, Lease]] = []

    def add(self, lease: Lease) -> None:
        if not self._asynchronous:
            lease.release()
            return
        event = get_accelerator().Event()
        event.record()
        self._waiting.append((event, lease))
        self._waiting = [entry for entry in self._waiting if not entry[0].query()]

"""Where the weights of a sub-group go while it is stepped: they are rounded from each chunk of its master."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.dlpack import from_dlpack


class NewWeights:
    """Takes a sub-group's master from its first element to its last.

    Weights in memory, the device's too, are written in place. Those that are swapped become new contents, each when it
    is whole; until then its memory is the engine's.
    """

    def __init__(self, stage3: Any, number: int) -> None:
        self._flat = stage3.fp16_partitioned_groups_flat[number]
        self._params = iter(zip(stage3.fp16_groups[number], stage3.fp16_partitioned_groups[number], strict=True))
        self._target: torch.Tensor | None = None  # of the parameter that is being written
        self._param: Any = None
        self._lease: Any = None
        self._done = 0  # elements of it

    def take(self, begin: int, master: torch.Tensor) -> None:
        if self._flat is not None:
            self._flat.data.narrow(0, begin, master.numel()).copy_(master)
            return
        while master.numel() > 0:
            if self._target is None:
                self._begin_parameter()
            target = self._target
            assert target is not None
            count = min(target.numel() - self._done, master.numel())
            target.narrow(0, self._done, count).copy_(master.narrow(0, 0, count))
            master = master.narrow(0, count, master.numel() - count)
            self._done += count
            if self._done == target.numel():
                self._end_parameter()

    def drop(self) -> None:
        """Gives back the memory of what is not whole: it has its last content still."""
        self._target = self._lease = None

    def _begin_parameter(self) -> None:
        from penstock.deepspeed.parameter_swapper import parameter_swapper

        self._param, partition = next(self._params)
        swapper = parameter_swapper(self._param)
        if swapper is None:
            self._target = partition.data
        else:
            self._lease = swapper.new_content(self._param)
            self._target = from_dlpack(self._lease)
        self._done = 0

    def _end_parameter(self) -> None:
        if self._lease is not None:
            self._param.nvme_swapper.commit_content(self._param, self._lease)
        self._target = self._lease = None

"""What stands in a checkpoint for a tensor that the engine has."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import torch
from torch.utils.dlpack import from_dlpack

from penstock._core import MomentLayout, SwapEngine
from penstock.deepspeed import plain_tensors
from penstock.deepspeed.checkpoint.torch_internals import private


class Content:
    """Stands in what is saved for a tensor whose content the engine has: one-dimensional, on the CPU.

    tensors: of the engine, which have it one after the other. layouts: of those that have it in fewer bits.
    """

    def __init__(
        self,
        engine: SwapEngine,
        tensors: list[int],
        numel: int,
        like: torch.Tensor,
        layouts: list[MomentLayout | None] | None = None,
    ) -> None:
        self.engine = engine
        self.tensors = list(zip(tensors, layouts or [None] * len(tensors), strict=True))
        self.numel = numel
        self.dtype = like.dtype
        self.requires_grad = like.requires_grad

    @property
    def nbytes(self) -> int:
        return self.numel * self.dtype.itemsize

    def read(self) -> torch.Tensor:
        """A copy of it in memory."""
        copy, done = plain_tensors.empty(self.numel, self.dtype), 0
        for tensor, layout in self.tensors:
            part = from_dlpack(self.engine.get(tensor).result())
            target = copy.narrow(0, done, part.numel() if layout is None else layout.elements)
            if layout is None:
                target.copy_(part)
            else:
                layout.decode(part, target)
            done += target.numel()
        return copy.requires_grad_(self.requires_grad)

    def reduced(self, storage: torch.UntypedStorage) -> tuple[Any, ...]:
        """As a tensor over `storage` says how it is built."""
        hooks: OrderedDict[int, Any] = OrderedDict()
        form = (0, (self.numel,), (1,), self.requires_grad, hooks)
        if self.dtype in private(torch.storage, "_new_dtypes")():  # no typed storage has these
            return torch._utils._rebuild_tensor_v3, (storage, *form, self.dtype)
        kind: Any = torch.storage.TypedStorage
        typed = kind(wrap_storage=storage, dtype=self.dtype, _internal=True)
        return torch._utils._rebuild_tensor_v2, (typed, *form)

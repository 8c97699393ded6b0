"""The norm of a gradient without a copy of it."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch

from penstock._core import squared_sum
from penstock.deepspeed import plain_tensors
from penstock.deepspeed.torch_dtype import engine_dtype

_DTYPES = (torch.float32, torch.bfloat16, torch.float16)
_PROOF_NUMELS = (9, 5003, 40_001)  # below and above what torch gives to several threads
_PART_NUMEL = 250_000_000  # DeepSpeed's: the norm of a larger tensor is of the norms of its parts


def without_widening(original: Callable[..., None]) -> Callable[..., None]:
    """Of a gradient that stays in the flat buffer only the norm is wanted, not a copy in fp32."""

    @functools.wraps(original)
    def at_boundary(self: Any, param: Any, grad_buffer: Any, gradients: Any, offsets: Any) -> None:
        sub_group = self.grad_position[self.get_param_id(param)][0]
        if self._swappable_optimizer_subgroup(sub_group):
            self.norm_for_param_grads[self.get_param_id(param)] = self._constant_buffered_norm2(grad_buffer)
        else:
            original(self, param, grad_buffer, gradients, offsets)

    return at_boundary


def in_place(original: Callable[..., Any]) -> Callable[..., Any]:
    """Of _constant_buffered_norm2, which widens 250 million elements at once: 2 GB in double precision."""

    @functools.wraps(original)
    def norm(self: Any, input: torch.Tensor, buffer_size: int = _PART_NUMEL) -> Any:
        is_plain = input.device.type == "cpu" and input.dtype in _DTYPES and input.is_contiguous()
        lanes = _lanes_of_torch() if is_plain and _is_in_double() else 0
        if lanes == 0 or input.numel() == 0:
            return original(self, input, buffer_size)
        total: Any = 0.0
        flat: Any = input.detach().view(-1)
        for part in flat.split(buffer_size):
            total = total + _norm(part, lanes) ** 2.0
        return total**0.5

    return norm


def _norm(elements: torch.Tensor, lanes: int) -> torch.Tensor:
    """What elements.double().norm(2) gives."""
    norm = math.sqrt(squared_sum(elements, engine_dtype(elements.dtype), lanes))
    return plain_tensors.full((), norm, torch.float64)


@functools.cache
def _lanes_of_torch() -> int:
    """In how many lanes torch's norm adds here, by random numbers; 0: in another order than that of lanes."""
    generator = torch.Generator().manual_seed(1)
    proofs = [plain_tensors.empty(numel, torch.float32).normal_(0, 0.1, generator=generator) for numel in _PROOF_NUMELS]
    for lanes in (4, 2, 8):
        if all(torch.equal(_norm(proof, lanes), proof.double().norm(2)) for proof in proofs):
            return lanes
    return 0


def _is_in_double() -> bool:
    """Whether DeepSpeed takes norms in double precision: not where the accelerator has none (since 0.19.8)."""
    from deepspeed.accelerator import get_accelerator

    is_supported = getattr(get_accelerator(), "is_fp64_supported", None)
    return is_supported is None or bool(is_supported())

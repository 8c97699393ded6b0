"""New tensors of just the dtype that is asked for, also within zero.Init, which replaces torch.empty and its like by
functions whose real numbers are all of the model's dtype. Methods of a tensor are not replaced.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

# Its own dtype may be any, since this module may be imported within zero.Init.
_LIKE = torch.empty(0, device="cpu")


def empty(shape: int | Sequence[int], dtype: torch.dtype, device: str = "cpu") -> torch.Tensor:
    return _LIKE.new_empty(_sizes(shape), dtype=dtype, device=device)


def zeros(shape: int | Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    return _LIKE.new_zeros(_sizes(shape), dtype=dtype)


def full(shape: int | Sequence[int], value: float, dtype: torch.dtype) -> torch.Tensor:
    return _LIKE.new_full(_sizes(shape), value, dtype=dtype)


def _sizes(shape: int | Sequence[int]) -> Sequence[int]:
    return (shape,) if isinstance(shape, int) else shape

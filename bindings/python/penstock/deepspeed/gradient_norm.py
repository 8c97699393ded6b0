"""The norm of a gradient without a copy of it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


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

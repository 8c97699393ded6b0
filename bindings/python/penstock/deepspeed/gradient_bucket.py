"""One rank has nothing to reduce: its gradients go to DeepSpeed's flat buffer in small buckets.

DeepSpeed collects gradients of `reduce_bucket_size` elements, 5e8 by default, and joins them in a second buffer of that
size before it reduces them: 2 GB in bfloat16. Large buckets make communication efficient; of one rank, the gradients
are the same in buckets of any size. Of several ranks, the configuration's size stays as it is.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from torch import distributed

from penstock._core import ONE_RANK_BUCKET_ELEMENTS
from penstock.deepspeed.gradient_cycle import cycle_of
from penstock.deepspeed.naming import full_name
from penstock.errors import ArgumentError

_ATTRIBUTE = "penstock_reduced"  # ds_ids of parameters that gave a gradient in this backward; absent: not bounded


def bounding(original: Callable[[Any], None]) -> Callable[[Any], None]:
    """Of initialize_optimizer_states, after which the stage-3 optimizer makes its buckets."""

    @functools.wraps(original)
    def initialize(self: Any) -> None:
        original(self)
        too_large = self.reduce_bucket_size > ONE_RANK_BUCKET_ELEMENTS
        if too_large and distributed.get_world_size() == 1 and cycle_of(self) is not None:
            self.reduce_bucket_size = ONE_RANK_BUCKET_ELEMENTS
            setattr(self, _ATTRIBUTE, set())

    return initialize


def filling(original: Callable[..., Any]) -> Callable[..., Any]:
    """Of reduce_independent_p_g_buckets_and_remove_grads, which gets each gradient.

    DeepSpeed fails where one bucket gets two gradients of one parameter in one backward. In two buckets the second one
    takes the place of the first: without the check, smaller buckets would make wrong gradients of that error.
    """

    @functools.wraps(original)
    def fill(self: Any, param: Any) -> Any:
        if getattr(param, "_z3_optimizer", self) is not self:
            return None  # a hook of an engine that a later one of the same model has replaced: it ends no backward
        reduced: set[int] | None = getattr(self, _ATTRIBUTE, None)
        # DeepSpeed passes over a gradient that a tiled computation goes on adding to.
        if reduced is not None and getattr(param, "ds_grad_is_ready", True):
            if param.ds_id in reduced:
                raise ArgumentError(_second_gradient(param))
            reduced.add(param.ds_id)
        return original(self, param)

    return fill


def emptying(original: Callable[..., Any]) -> Callable[..., Any]:
    """Of independent_gradient_partition_epilogue, which ends a backward, and of _pre_step."""

    @functools.wraps(original)
    def empty(self: Any) -> Any:
        getattr(self, _ATTRIBUTE, set()).clear()
        return original(self)

    return empty


def _second_gradient(param: Any) -> str:
    name = full_name(param) or f"parameter #{param.ds_id}"
    return (
        f"{name} has a second gradient in one backward, of which stage 3 would keep the second alone. Checkpointing "
        "with use_reentrant=True does this to a module that is used twice: set use_reentrant=False. Or another "
        "engine's backward went through this model: freeze it there (requires_grad_(False)). After a backward that "
        "failed, make a new engine"
    )

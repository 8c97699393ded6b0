"""DeepSpeed's own swappers: what stands in their place, and whether one exists already."""

from __future__ import annotations

import gc
from typing import Any

from penstock.errors import CompatibilityError


def parameter_swapper(_original: Any) -> Any:
    from penstock.deepspeed.parameter_swapper import ParameterSwapper

    return ParameterSwapper


def optimizer_swapper(_original: Any) -> Any:
    """One class with and without pipelining."""
    from penstock.deepspeed.optimizer_swapper import OptimizerSwapper

    return OptimizerSwapper


def require_none_exists() -> None:
    """Raises CompatibilityError where a model has been built with a stock swapper."""
    from deepspeed.runtime.swap_tensor.optimizer_utils import OptimizerSwapper
    from deepspeed.runtime.swap_tensor.partitioned_param_swapper import AsyncPartitionedParameterSwapper

    stock = (AsyncPartitionedParameterSwapper, OptimizerSwapper)
    for candidate in gc.get_objects():
        if issubclass(type(candidate), stock):
            raise CompatibilityError(
                f"penstock.deepspeed.install() comes too late: DeepSpeed's own {type(candidate).__name__} exists "
                "already. Call it before the model is built (zero.Init, from_pretrained), or start the script "
                "with `python -m penstock.deepspeed`"
            )

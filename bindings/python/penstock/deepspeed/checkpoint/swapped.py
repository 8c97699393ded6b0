"""What of an engine of DeepSpeed is in penstock."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penstock.deepspeed.optimizer_swapper import OptimizerSwapper
from penstock.deepspeed.parameter_swapper import parameter_swapper
from penstock.deepspeed.session import open_session_of_run


def optimizer_swapper(engine: Any) -> OptimizerSwapper | None:
    swapper = getattr(getattr(engine, "optimizer", None), "optimizer_swapper", None)
    return swapper if isinstance(swapper, OptimizerSwapper) else None


def configuration_of(engine: Any) -> dict[str, Any]:
    """That of its optimizer, or of the first in this process."""
    swapper = optimizer_swapper(engine)
    return open_session_of_run().config if swapper is None else swapper.config


def is_swapped(engine: Any) -> bool:
    """Also where each is too small: where parameters belong on NVMe, DeepSpeed has no flat weights to load into."""
    belongs_on_nvme = getattr(getattr(engine, "optimizer", None), "params_in_nvme_and_cpu", False)
    return (
        belongs_on_nvme
        or optimizer_swapper(engine) is not None
        or any(parameter_swapper(param) is not None for param in engine.module.parameters())
    )


def states_in_order(stage3: Any) -> Iterator[Any]:
    """The flat master of each sub-group, as torch's state_dict() of the optimizer numbers them: by parameter group."""
    masters = stage3.fp32_partitioned_groups_flat
    for group in range(len(stage3.optimizer.param_groups)):
        for sub_group, master in enumerate(masters):
            if stage3.sub_group_to_group_id[sub_group] == group:
                yield master

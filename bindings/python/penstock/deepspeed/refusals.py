"""Features of DeepSpeed that do not work with what penstock swaps, refused before a swap file is made."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock.errors import UnsupportedError

_STAGE_THAT_SWAPS = 3


@dataclass(frozen=True)
class Refusal:
    """applies: whether a DeepSpeedConfig asks for it. sentence: why not, and what to do instead."""

    applies: Callable[[Any], Any]
    sentence: str


def _zero(name: str) -> Callable[[Any], Any]:
    """A setting of `zero_optimization`, false in versions that do not have it."""
    return lambda config: getattr(config.zero_config, name, None)


def _optimizer(name: str) -> Callable[[Any], Any]:
    return lambda config: getattr(config.zero_config.offload_optimizer, name, None)


def _swaps(config: Any, section: str) -> bool:
    offload = getattr(config.zero_config, section)
    return str(getattr(offload, "device", None)).rpartition(".")[2] == "nvme"


def _swaps_parameters_and(applies: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda config: _swaps(config, "offload_param") and applies(config)


TABLE: tuple[Refusal, ...] = (
    Refusal(
        _zero("zenflow"),
        "zero_optimization.zenflow does not work with tensors on NVMe: ZenFlow steps part of the weights with "
        "states of its own, which are not swapped; remove `zenflow`, or offload to device cpu",
    ),
    Refusal(
        _optimizer("super_offload"),
        "offload_optimizer.super_offload does not work with tensors on NVMe: SuperOffload steps masters in other "
        "processes, which do not see what is swapped; remove `super_offload`, or offload to device cpu",
    ),
    Refusal(
        lambda config: getattr(getattr(config, "compile_config", None), "deepcompile", False),
        "compile.deepcompile does not work with tensors on NVMe: compiled graphs gather parameters without the "
        "swapper; set `deepcompile` to false, or offload to device cpu",
    ),
    Refusal(
        _swaps_parameters_and(lambda config: (_zero("zero_hpz_partition_size")(config) or 1) > 1),
        "zero_hpz_partition_size does not work with parameters on NVMe: DeepSpeed has no place for their second "
        "partition; set it to 1, or offload_param.device to cpu",
    ),
    Refusal(
        _swaps_parameters_and(lambda config: float(_optimizer("ratio")(config) or 1.0) < 1.0),
        "offload_optimizer.ratio below 1 does not work with parameters on NVMe: DeepSpeed makes the masters of swapped "
        "parameters in host memory only; set `ratio` to 1, or offload_param.device to cpu",
    ),
    Refusal(
        lambda config: (_zero("mics_shard_size")(config) or 0) > 0,
        "zero_optimization.mics_shard_size does not work with tensors on NVMe: MiCS gathers parameters in a way that "
        "penstock was not tested with; remove it, or offload to device cpu",
    ),
    *(
        Refusal(
            _zero(name),
            f"zero_optimization.{name} does not work with tensors on NVMe: penstock was not tested with quantized "
            "tensors; set it to false, or offload to device cpu",
        )
        for name in ("zero_quantized_weights", "zero_quantized_nontrainable_weights", "zero_quantized_gradients")
    ),
)


def refuse_what_cannot_be_swapped(config: Any) -> None:
    """Raises UnsupportedError where a DeepSpeedConfig swaps something and asks for what does not work with that."""
    if int(config.zero_config.stage) < _STAGE_THAT_SWAPS:
        return
    if not (_swaps(config, "offload_param") or _swaps(config, "offload_optimizer")):
        return
    for refusal in TABLE:
        if refusal.applies(config):
            raise UnsupportedError(refusal.sentence)


def refusing(original: Callable[..., None]) -> Callable[..., None]:
    """For the engine's constructor, which is given what DeepSpeed has read."""
    signature = inspect.signature(original)

    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        config = signature.bind(self, *args, **kwargs).arguments.get("config_class")
        if config is not None:
            refuse_what_cannot_be_swapped(config)
        original(self, *args, **kwargs)

    return init

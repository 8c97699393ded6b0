"""Features of DeepSpeed that do not work with what penstock swaps, refused before a swap file is made."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from penstock._core import refused_settings
from penstock.errors import ConfigError, UnsupportedError

Applies = Callable[[Any], Any]  # whether a DeepSpeedConfig asks for it

_STAGE_THAT_SWAPS = 3


def _zero(name: str) -> Applies:
    """A setting of `zero_optimization`, false in versions that do not have it."""
    return lambda config: getattr(config.zero_config, name, None)


def _optimizer(name: str) -> Applies:
    return lambda config: getattr(config.zero_config.offload_optimizer, name, None)


def _swaps(config: Any, section: str) -> bool:
    offload = getattr(config.zero_config, section)
    return str(getattr(offload, "device", None)).rpartition(".")[2] == "nvme"


def _swaps_parameters_and(applies: Applies) -> Applies:
    return lambda config: _swaps(config, "offload_param") and applies(config)


# Keys of `_core.refused_settings()`, which `penstock plan` looks for in the file.
APPLIES: dict[str, Applies] = {
    "zero_optimization.zenflow": _zero("zenflow"),
    "zero_optimization.offload_optimizer.super_offload": _optimizer("super_offload"),
    "compile.deepcompile": lambda config: getattr(getattr(config, "compile_config", None), "deepcompile", False),
    "zero_optimization.zero_hpz_partition_size": _swaps_parameters_and(
        lambda config: (_zero("zero_hpz_partition_size")(config) or 1) > 1
    ),
    "zero_optimization.offload_optimizer.ratio": _swaps_parameters_and(
        lambda config: float(_optimizer("ratio")(config) or 1.0) < 1.0
    ),
    "zero_optimization.mics_shard_size": lambda config: (_zero("mics_shard_size")(config) or 0) > 0,
    "zero_optimization.zero_quantized_weights": _zero("zero_quantized_weights"),
    "zero_optimization.zero_quantized_nontrainable_weights": _zero("zero_quantized_nontrainable_weights"),
    "zero_optimization.zero_quantized_gradients": _zero("zero_quantized_gradients"),
}


def sentences() -> list[str]:
    """Why each does not work, and what to do instead, in the order of APPLIES."""
    texts = refused_settings()
    return [texts[key] for key in APPLIES]


def refuse_what_cannot_be_swapped(config: Any) -> None:
    """Raises UnsupportedError where a DeepSpeedConfig swaps something and asks for what does not work with that, and
    ConfigError where zero.Init was given none.
    """
    if config is None:
        raise ConfigError('zero.Init(remote_device="nvme") has no configuration: give it one (config_dict_or_path=)')
    if int(config.zero_config.stage) < _STAGE_THAT_SWAPS:
        return
    if not (_swaps(config, "offload_param") or _swaps(config, "offload_optimizer")):
        return
    for key, applies in APPLIES.items():
        if applies(config):
            raise UnsupportedError(refused_settings()[key])


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

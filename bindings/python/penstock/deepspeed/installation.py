"""Puts penstock's swappers where DeepSpeed looks for its own, and takes them away again."""

from __future__ import annotations

import functools
import gc
import inspect
import json
import sys
import threading
from collections.abc import Callable
from typing import Any

from penstock.errors import CompatibilityError

_lock = threading.Lock()
_undo: list[Callable[[], None]] = []


def install() -> None:
    """Makes DeepSpeed (in this process) swap through penstock. Idempotent.

    Raises CompatibilityError when a stock swapper exists already (call it before the model is built) and when
    the installed DeepSpeed is not one that penstock knows; the message lists the differences.
    """
    with _lock:
        if _undo:
            return
        from penstock.deepspeed import contract

        contract.require_known_surface()
        _require_no_stock_swapper()
        _patch_all()


def uninstall() -> None:
    """Puts DeepSpeed's own swappers back. Models that are built already go on with penstock's."""
    with _lock:
        while _undo:
            _undo.pop()()


def is_installed() -> bool:
    return bool(_undo)


def _patch(owner: Any, name: str, replacement: Any) -> None:
    original = getattr(owner, name)
    setattr(owner, name, replacement)
    _undo.append(lambda: setattr(owner, name, original))


def _patch_all() -> None:
    from deepspeed.runtime import engine
    from deepspeed.runtime.swap_tensor import (
        partitioned_optimizer_swapper,
        partitioned_param_swapper,
        pipelined_optimizer_swapper,
    )
    from deepspeed.runtime.zero import partition_parameters, stage3

    from penstock.deepspeed import checkpoint
    from penstock.deepspeed.optimizer_swapper import OptimizerSwapper
    from penstock.deepspeed.parameter_swapper import ParameterSwapper

    for module in (partition_parameters, partitioned_param_swapper):
        _patch(module, "AsyncPartitionedParameterSwapper", ParameterSwapper)
    for module in (stage3, partitioned_optimizer_swapper):
        _patch(module, "PartitionedOptimizerSwapper", OptimizerSwapper)
    for module in (stage3, pipelined_optimizer_swapper):
        _patch(module, "PipelinedOptimizerSwapper", OptimizerSwapper)

    init = partition_parameters.Init
    _patch(init, "__init__", _named_init(init.__init__))
    _patch(init, "_post_init_method", _named_post_init(init._post_init_method))
    optimizer = stage3.DeepSpeedZeroOptimizer_Stage3
    _patch(optimizer, "_configure_tensor_swapping", _configure_tensor_swapping)
    _patch(optimizer, "__init__", _remembering_config(optimizer.__init__))
    boundary = optimizer._offload_grad_partition_at_boundary
    _patch(optimizer, "_offload_grad_partition_at_boundary", _without_widening(boundary))
    for name, guard in checkpoint.guards(engine.DeepSpeedEngine).items():
        _patch(engine.DeepSpeedEngine, name, guard)
    _patch(engine.DeepSpeedEngine, "__init__", _announcing(engine.DeepSpeedEngine.__init__))


def _named_init(original: Callable[..., None]) -> Callable[..., None]:
    """A module that exists already has all its names."""
    from penstock.deepspeed.naming import name_parameters

    @functools.wraps(original)
    def init(self: Any, module: Any = None, *args: Any, **kwargs: Any) -> None:
        if module is not None:
            name_parameters(module)
        original(self, module, *args, **kwargs)

    return init


def _named_post_init(original: Callable[..., None]) -> Callable[..., None]:
    """A module is finished: its parameters have names relative to it, and its ties are made."""
    from penstock.deepspeed.naming import name_parameters
    from penstock.deepspeed.session import current_session

    @functools.wraps(original)
    def post_init(self: Any, module: Any) -> None:
        name_parameters(module)
        original(self, module)
        session = current_session()
        if session is not None:
            session.plan_is_stale = True

    return post_init


def _remembering_config(original: Callable[..., None]) -> Callable[..., None]:
    """The stage-3 optimizer is given the DeepSpeed configuration but does not keep it."""
    signature = inspect.signature(original)

    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        self.penstock_config = _as_mapping(signature.bind(self, *args, **kwargs).arguments["ds_config"])
        original(self, *args, **kwargs)

    return init


def _as_mapping(config: Any) -> dict[str, Any]:
    """DeepSpeed takes a mapping or the path of a JSON file."""
    if isinstance(config, dict):
        return config
    with open(config, encoding="utf-8") as file:
        loaded: dict[str, Any] = json.load(file)
        return loaded


def _configure_tensor_swapping(self: Any, offload_optimizer_config: Any, aio_config: Any) -> None:
    """In the place of the stage-3 optimizer's method: makes no folder, and lets the swapper see gradients."""
    from penstock.deepspeed.optimizer_swapper import OptimizerSwapper

    self.optimizer_swapper = OptimizerSwapper(
        swap_config=offload_optimizer_config,
        aio_config=aio_config,
        base_folder=str(offload_optimizer_config.nvme_path),
        optimizer=self.optimizer,
        largest_numel=max(self.fp16_partitioned_groups_flat_numel),
        device=self.device,
        dtype=self.master_weights_and_grads_dtype,
        timers=self.timers,
        stage3=self,
        config=self.penstock_config,
    )


def _without_widening(original: Callable[..., None]) -> Callable[..., None]:
    """Of a gradient that stays in the flat buffer only the norm is wanted, not a copy in fp32."""

    @functools.wraps(original)
    def at_boundary(self: Any, param: Any, grad_buffer: Any, gradients: Any, offsets: Any) -> None:
        sub_group = self.grad_position[self.get_param_id(param)][0]
        if self._swappable_optimizer_subgroup(sub_group):
            self.norm_for_param_grads[self.get_param_id(param)] = self._constant_buffered_norm2(grad_buffer)
        else:
            original(self, param, grad_buffer, gradients, offsets)

    return at_boundary


def _announcing(original: Callable[..., None]) -> Callable[..., None]:
    """One line where a configuration has nothing to swap, so that nobody believes otherwise."""

    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        reason = _nothing_to_swap(self)
        if reason and getattr(self, "global_rank", 0) == 0:
            print(f"penstock: nothing to swap ({reason}); DeepSpeed runs unchanged", file=sys.stderr, flush=True)

    return init


def _nothing_to_swap(engine: Any) -> str | None:
    zero = engine._config.zero_config
    devices = {
        key: str(getattr(offload, "device", None) or "none").rpartition(".")[2]
        for key in ("offload_param", "offload_optimizer")
        for offload in [getattr(zero, key)]
    }
    if "nvme" not in devices.values():
        return ", ".join(f"{key}: {device}" for key, device in devices.items())
    stage = int(zero.stage)
    if stage < 3:
        return f"ZeRO stage {stage} keeps in RAM what it is told to keep on NVMe; stage 3 swaps"
    return None


def _require_no_stock_swapper() -> None:
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

"""Whether an optimizer is stepped in chunks, and by what."""

from __future__ import annotations

from importlib import metadata
from typing import TYPE_CHECKING, Any

import torch
from torch import distributed

from penstock import messages
from penstock._core import adam_instructions
from penstock.deepspeed.compiled_op import CompiledOp
from penstock.deepspeed.cpu_adam import equals_op
from penstock.deepspeed.elementwise_step import ELEMENTWISE, ElementwiseStep
from penstock.deepspeed.kernel_step import KernelStep
from penstock.deepspeed.known_texts import TESTED_VERSIONS

if TYPE_CHECKING:
    from penstock.deepspeed.optimizer_swapper import OptimizerSwapper
    from penstock.deepspeed.streamed_step import StreamedStep

_PROVEN_VERSIONS = TESTED_VERSIONS[TESTED_VERSIONS.index("0.19.4") :]  # before 0.19 the op rounded otherwise
_OTHER_OP = "DeepSpeed's compiled op rounds otherwise than penstock's kernels here (before 0.19 it does)"
_CPU_ADAM = ("deepspeed.ops.adam.cpu_adam", "DeepSpeedCPUAdam")


def streamed_step(stage3: Any, swapper: OptimizerSwapper) -> StreamedStep | None:
    """None: this optimizer is stepped a whole sub-group at a time."""
    optimizer: Any = getattr(stage3, "optimizer", None)
    kind = type(optimizer)
    reason = _why_whole(stage3, optimizer, swapper.dtype)
    if reason is None:
        is_cpu_adam = (kind.__module__, kind.__name__) == _CPU_ADAM
        return KernelStep(stage3, swapper) if is_cpu_adam else ElementwiseStep(stage3, swapper)
    if distributed.get_rank() == 0:
        messages.note(f"{kind.__name__} is stepped a whole sub-group at a time: {reason}")
    return None


def _why_whole(stage3: Any, optimizer: Any, dtype: torch.dtype) -> str | None:
    """Why an optimizer is not stepped in chunks; None: it is."""
    kind = (type(optimizer).__module__, type(optimizer).__name__)
    if dtype != torch.float32 or getattr(optimizer, "fp32_optimizer_states", True) is False:
        return "its masters and states are not float32"
    if getattr(stage3, "torch_autocast_gradscaler", None) or getattr(stage3, "zenflow", False):
        return "torch's GradScaler and ZenFlow look at whole gradients"
    if kind == _CPU_ADAM:
        return None if _has_equal_kernels(optimizer) else _OTHER_OP
    if kind not in ELEMENTWISE:
        return "penstock does not know that it treats every element by itself"
    has_hooks = optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks
    return "hooks of its step look at whole sub-groups" if has_hooks else None


def _has_equal_kernels(optimizer: Any) -> bool:
    op = optimizer.ds_opt_adam
    return _is_known_to_equal(op) or equals_op(op, optimizer.adam_w_mode)


def _is_known_to_equal(op: Any) -> bool:
    """Whether it is not worth compiling the op for the proof: tests have proven this version for these instructions."""
    try:
        is_tested = metadata.version("deepspeed") in _PROVEN_VERSIONS
    except metadata.PackageNotFoundError:
        return False
    return isinstance(op, CompiledOp) and not op.is_loaded and is_tested and adam_instructions() in ("avx2", "avx512")

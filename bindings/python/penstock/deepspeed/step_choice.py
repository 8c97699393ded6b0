"""Whether an optimizer is stepped in chunks, and by what."""

from __future__ import annotations

import os
import shlex
import subprocess
from importlib import metadata
from typing import TYPE_CHECKING, Any

import torch
from torch import distributed

from penstock import messages
from penstock._core import step_instructions
from penstock.deepspeed.compiled_op import CompiledOp
from penstock.deepspeed.cpu_adagrad import CpuAdagrad
from penstock.deepspeed.cpu_adam import CpuAdam
from penstock.deepspeed.cpu_kernel import CpuKernel
from penstock.deepspeed.cpu_lion import CpuLion
from penstock.deepspeed.elementwise_step import ELEMENTWISE, ElementwiseStep, kind_of
from penstock.deepspeed.kernel_step import KernelStep
from penstock.deepspeed.known_texts import TESTED_VERSIONS
from penstock.deepspeed.step_hooks import HOOKED, is_hooked

if TYPE_CHECKING:
    from penstock.deepspeed.optimizer_swapper import OptimizerSwapper
    from penstock.deepspeed.streamed_step import StreamedStep

_KERNELS: dict[tuple[str, str], type[CpuKernel]] = {
    ("deepspeed.ops.adagrad.cpu_adagrad", "DeepSpeedCPUAdagrad"): CpuAdagrad,
    ("deepspeed.ops.adam.cpu_adam", "DeepSpeedCPUAdam"): CpuAdam,
    ("deepspeed.ops.lion.cpu_lion", "DeepSpeedCPULion"): CpuLion,
}
_OTHER_OP = "DeepSpeed's compiled op rounds otherwise than penstock's kernels here (before 0.19 it does)"


def streamed_step(stage3: Any, swapper: OptimizerSwapper) -> StreamedStep | None:
    """None: this optimizer is stepped a whole sub-group at a time."""
    optimizer: Any = getattr(stage3, "optimizer", None)
    kind = kind_of(optimizer)
    reason = _why_whole(stage3, optimizer, swapper.dtype)
    if reason is None:
        kernel = _KERNELS.get(kind)
        if kernel is not None and _equals_op(kernel, optimizer):
            return KernelStep(stage3, swapper, kernel)
        if kind in ELEMENTWISE:
            return ElementwiseStep(stage3, swapper)
        reason = _OTHER_OP if kernel is not None else "penstock does not know that it treats every element by itself"
    if distributed.get_rank() == 0:
        messages.note(f"{kind[1]} is stepped a whole sub-group at a time: {reason}")
    return None


def _why_whole(stage3: Any, optimizer: Any, dtype: torch.dtype) -> str | None:
    """Why an optimizer may not be stepped in chunks, whatever it is; None: it may."""
    if dtype != torch.float32 or getattr(optimizer, "fp32_optimizer_states", True) is False:
        return "its masters and states are not float32"
    if getattr(stage3, "zenflow", False):
        return "ZenFlow looks at whole gradients"
    if kind_of(optimizer) in ELEMENTWISE and is_hooked(optimizer):
        return HOOKED
    return None


def _equals_op(kernel: type[CpuKernel], optimizer: Any) -> bool:
    return _is_known_to_equal(kernel, optimizer) or kernel.equals_op(optimizer)


def _is_known_to_equal(kernel: type[CpuKernel], optimizer: Any) -> bool:
    """Whether it is not worth compiling the op for the proof: tests have proven this version for these instructions,
    as GCC compiles it.
    """
    try:
        version = metadata.version("deepspeed")
    except metadata.PackageNotFoundError:
        return False
    is_proven = version in TESTED_VERSIONS[TESTED_VERSIONS.index(kernel.EQUAL_SINCE) :]
    op = kernel.op_of(optimizer)
    is_proven = is_proven and step_instructions() in ("avx2", "avx512")
    return isinstance(op, CompiledOp) and not op.is_loaded and is_proven and _is_compiled_by_gcc()


def _is_compiled_by_gcc() -> bool:
    """Whether torch would take GCC for the op, or has no compiler. Others fuse other products and sums in the scalar
    code behind the last whole vector.
    """
    command = [*shlex.split(os.environ.get("CXX", "c++")), "--version"]
    try:
        said = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30).stdout
    except (OSError, subprocess.TimeoutExpired):
        return True
    return "Free Software Foundation" in said

"""DeepSpeed's CPU Adam by penstock's kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from penstock._core import Adam
from penstock.deepspeed.cpu_kernel import CpuKernel, Update


class CpuAdam(CpuKernel):
    """The powers of the betas are a running product, over all sub-groups."""

    KIND = "adam"
    STATES = ("exp_avg", "exp_avg_sq")
    TAKES_NARROW_STATES = True
    EQUAL_SINCE = "0.19.4"

    def __init__(self, optimizer: Any, take: Callable[[Update], bool]) -> None:
        super().__init__(optimizer, take)
        self._decoupled_decay = optimizer.adam_w_mode
        self._adam = Adam()

    def adam_update(
        self,
        optimizer_id: int,
        step: int,
        lr: float,
        beta1: float,
        beta2: float,
        eps: float,
        weight_decay: float,
        bias_correction: bool,
        master: torch.Tensor,
        gradient: torch.Tensor,
        exp_avg: torch.Tensor,
        exp_avg_sq: torch.Tensor,
    ) -> None:
        factors = [float(factor) for factor in (lr, beta1, beta2, eps, weight_decay)]  # or tensors of one element
        arguments = (int(step), *factors, bool(bias_correction), self._decoupled_decay)
        self._step(self._adam.update, arguments, gradient, master, exp_avg, exp_avg_sq)

    @classmethod
    def create(cls, op: Any, optimizer_id: int, optimizer: Any) -> None:
        op.create_adam(optimizer_id, 1e-3, 0.9, 0.999, 1e-8, 0.01, optimizer.adam_w_mode, False)

    @classmethod
    def prove_step(cls, stepper: Any, optimizer_id: int, step: int, master: Any, gradient: Any, *states: Any) -> None:
        stepper.adam_update(optimizer_id, step, 1e-3, 0.9, 0.999, 1e-8, 0.01, True, master, gradient, *states)

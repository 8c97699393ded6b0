"""DeepSpeed's CPU Lion by penstock's kernel."""

from __future__ import annotations

from typing import Any

import torch

from penstock._core import lion_update
from penstock.deepspeed.cpu_kernel import CpuKernel


class CpuLion(CpuKernel):
    KIND = "lion"
    STATES = ("exp_avg",)
    UNUSED_STATES = ("exp_avg_sq",)
    EQUAL_SINCE = "0.19.8"

    def lion_update(
        self,
        optimizer_id: int,
        step: int,
        lr: float,
        beta1: float,
        beta2: float,
        weight_decay: float,
        master: torch.Tensor,
        gradient: torch.Tensor,
        exp_avg: torch.Tensor,
    ) -> None:
        factors = [float(factor) for factor in (lr, beta1, beta2, weight_decay)]  # or tensors of one element
        self._step(lion_update, factors, gradient, master, exp_avg)

    @classmethod
    def create(cls, op: Any, optimizer_id: int, optimizer: Any) -> None:
        op.create_lion(optimizer_id, 1e-3, 0.9, 0.99, 0.01, False)

    @classmethod
    def prove_step(cls, stepper: Any, optimizer_id: int, step: int, master: Any, gradient: Any, *states: Any) -> None:
        rate = -1e-3 if step % 3 == 0 else 1e-3  # vectors and scalar code treat its sign in two ways
        stepper.lion_update(optimizer_id, step, rate, 0.9, 0.99, 0.01, master, gradient, *states)

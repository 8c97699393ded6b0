"""DeepSpeed's CPU Adagrad by penstock's kernel."""

from __future__ import annotations

from typing import Any

import torch

from penstock._core import adagrad_update
from penstock.deepspeed.cpu_kernel import CpuKernel


class CpuAdagrad(CpuKernel):
    KIND = "adagrad"
    STATES = ("exp_avg_sq",)
    EQUAL_SINCE = "0.19.8"

    def adagrad_update(
        self,
        optimizer_id: int,
        step: int,
        lr: float,
        eps: float,
        weight_decay: float,
        master: torch.Tensor,
        gradient: torch.Tensor,
        exp_avg_sq: torch.Tensor,
    ) -> None:
        factors = [float(factor) for factor in (lr, eps, weight_decay)]  # or tensors of one element
        self._step(adagrad_update, factors, gradient, master, exp_avg_sq)

    @classmethod
    def create(cls, op: Any, optimizer_id: int, optimizer: Any) -> None:
        op.create_adagrad(optimizer_id, 1e-2, 1e-10, 0.01, False)

    @classmethod
    def prove_step(cls, stepper: Any, optimizer_id: int, step: int, master: Any, gradient: Any, *states: Any) -> None:
        stepper.adagrad_update(optimizer_id, step, 1e-2, 1e-10, 0.01, master, gradient, *states)

"""DeepSpeed's CPU Lion by penstock's kernel."""

from __future__ import annotations

import functools
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
        update = functools.partial(
            lion_update,
            float(lr),  # these may be tensors of one element
            float(beta1),
            float(beta2),
            float(weight_decay),
            threads=torch.get_num_threads(),
        )
        self._step(update, gradient, master, exp_avg)

    @classmethod
    def create(cls, op: Any, optimizer_id: int, optimizer: Any) -> None:
        op.create_lion(optimizer_id, 1e-3, 0.9, 0.99, 0.01, False)

    @classmethod
    def prove_step(cls, stepper: Any, optimizer_id: int, step: int, master: Any, gradient: Any, *states: Any) -> None:
        stepper.lion_update(optimizer_id, step, 1e-3, 0.9, 0.99, 0.01, master, gradient, *states)

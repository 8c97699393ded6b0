"""DeepSpeed's CPU Adam by penstock's own kernels, which are equal to its compiled op in every bit."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from penstock._core import Adam

# update(master, exp_avg, exp_avg_sq, gradient, gradient_dtype, gradient_factor)
Update = Callable[..., None]

_PROOF_NUMEL = 1003  # whole vectors of every width, and some elements behind them
_PROOF_STEPS = 12  # enough for a product of floats and a power to differ
_PROOF_ID = -1  # no optimizer of DeepSpeed's has it


class CpuAdam:
    """What `DeepSpeedCPUAdam` has as its `ds_opt_adam`. Everything else that is asked for is the compiled op's.

    One object steps all sub-groups of an optimizer, as the op does: the powers of the betas are a running product.
    """

    def __init__(self, op: Any, decoupled_decay: bool, take: Callable[[Update], bool]) -> None:
        """take: gets each update first; says whether it has carried it out."""
        self.op: Any = op.op if isinstance(op, CpuAdam) else op
        self._decoupled_decay = decoupled_decay
        self._take = take
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
        update = functools.partial(
            self._adam.update,
            int(step),
            float(lr),  # these may be tensors of one element
            float(beta1),
            float(beta2),
            float(eps),
            float(weight_decay),
            bool(bias_correction),
            self._decoupled_decay,
            threads=torch.get_num_threads(),
        )
        if not self._take(update):
            update(master, exp_avg, exp_avg_sq, gradient, "f32", 1.0)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.op, name)


def equals_op(op: Any, decoupled_decay: bool) -> bool:
    """Whether the kernels give what the compiled op gives here, on random numbers: it may be of another version, or
    compiled for other instructions. Two sub-groups a step, as in training.
    """
    generator = torch.Generator().manual_seed(1)
    theirs, ours = ([torch.zeros(_PROOF_NUMEL) for _ in range(3)] for _ in range(2))
    theirs[0].normal_(generator=generator)
    ours[0].copy_(theirs[0])
    op.create_adam(_PROOF_ID, 1e-3, 0.9, 0.999, 1e-8, 0.01, decoupled_decay, False)
    kernels = CpuAdam(op, decoupled_decay, lambda _: False)
    try:
        for step in range(1, _PROOF_STEPS + 1):
            gradient = torch.empty(_PROOF_NUMEL).normal_(0, 0.1, generator=generator)
            for _ in range(2):
                for adam, states in ((op, theirs), (kernels, ours)):
                    adam.adam_update(
                        _PROOF_ID, step, 1e-3, 0.9, 0.999, 1e-8, 0.01, True, states[0], gradient, *states[1:]
                    )
    finally:
        op.destroy_adam(_PROOF_ID)
    return all(torch.equal(a, b) for a, b in zip(theirs, ours, strict=True))

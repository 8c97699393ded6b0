"""DeepSpeed's CPU optimizers by penstock's own kernels, which are equal to their compiled ops in every bit."""

from __future__ import annotations

import abc
import functools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import torch

from penstock.deepspeed import plain_tensors

# update(master, *states, gradient, gradient_dtype, gradient_factor), the last three by name
Update = Callable[..., None]

_PROOF_NUMEL = 1003  # whole vectors of every width, and some elements behind them
_PROOF_STEPS = 12  # enough for a product of floats and a power to differ
_PROOF_ID = -1  # no optimizer of DeepSpeed's has it


class CpuKernel(abc.ABC):
    """What an optimizer has in the place of its compiled op. Everything else that is asked for is the op's.

    One object steps all sub-groups of an optimizer, as the op does.
    """

    KIND: ClassVar[str]  # as the op's functions have it: create_adam
    STATES: ClassVar[tuple[str, ...]]  # those that a step changes, in the order of an update's arguments
    UNUSED_STATES: ClassVar[tuple[str, ...]] = ()  # that the optimizer makes besides, and that stay as they are
    TAKES_NARROW_STATES: ClassVar[bool] = False
    EQUAL_SINCE: ClassVar[str]  # the first version of DeepSpeed whose op rounds as the kernel does

    def __init__(self, optimizer: Any, take: Callable[[Update], bool]) -> None:
        """take: gets each update first; says whether it has carried it out."""
        op = self.op_of(optimizer)
        self.op: Any = op.op if isinstance(op, CpuKernel) else op
        self._take = take

    @classmethod
    def op_of(cls, optimizer: Any) -> Any:
        return getattr(optimizer, f"ds_opt_{cls.KIND}")

    def replace_op(self, optimizer: Any) -> None:
        setattr(optimizer, f"ds_opt_{self.KIND}", self)

    @classmethod
    @abc.abstractmethod
    def prove_step(cls, stepper: Any, optimizer_id: int, step: int, master: Any, gradient: Any, *states: Any) -> None:
        """Calls `stepper`, the op or a kernel, as the optimizer does, with usual hyperparameters."""

    @classmethod
    @abc.abstractmethod
    def create(cls, op: Any, optimizer_id: int, optimizer: Any) -> None:
        """As the optimizer does in its constructor, with the same hyperparameters as prove_step()."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.op, name)

    @classmethod
    def equals_op(cls, optimizer: Any) -> bool:
        """Whether the kernel gives what the compiled op gives here, on random numbers: it may be of another version, or
        compiled for other instructions. Two sub-groups a step, as in training.
        """
        generator = torch.Generator().manual_seed(1)
        zeros = plain_tensors.zeros(_PROOF_NUMEL, torch.float32)
        theirs, ours = ([zeros.clone() for _ in range(1 + len(cls.STATES))] for _ in range(2))
        theirs[0].normal_(generator=generator)
        ours[0].copy_(theirs[0])
        kernel = cls(optimizer, lambda _: False)
        cls.create(kernel.op, _PROOF_ID, optimizer)
        try:
            for step in range(1, _PROOF_STEPS + 1):
                gradient = torch.empty_like(zeros).normal_(0, 0.1, generator=generator)
                for _ in range(2):
                    for stepper, (master, *states) in ((kernel.op, theirs), (kernel, ours)):
                        cls.prove_step(stepper, _PROOF_ID, step, master, gradient.clone(), *states)
        finally:
            getattr(kernel.op, f"destroy_{cls.KIND}")(_PROOF_ID)
        return all(torch.equal(a, b) for a, b in zip(theirs, ours, strict=True))

    def _step(
        self, kernel: Callable[..., None], factors: Sequence[Any], gradient: torch.Tensor, *states: torch.Tensor
    ) -> None:
        """factors: the kernel's arguments before the states."""
        update = functools.partial(kernel, *factors, threads=torch.get_num_threads())
        if not self._take(update):
            update(*states, gradient=gradient, gradient_dtype="f32")

"""What the script of a random training changes between backwards and steps."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import deepspeed
import torch
from deepspeed.utils import (
    safe_get_full_fp32_param,
    safe_get_full_grad,
    safe_get_full_optimizer_state,
    safe_get_local_fp32_param,
    safe_get_local_grad,
    safe_set_full_fp32_param,
    safe_set_full_grad,
    safe_set_full_optimizer_state,
    safe_set_local_fp32_param,
    safe_set_local_grad,
)
from trial import Trial, digest

STATES = (
    "exp_avg",
    "exp_avg_sq",
    "max_exp_avg_sq",
    "momentum_buffer",
    "square_avg",
    "grad_avg",
    "acc_delta",
    "exp_inf",
    "sum",
)


class Changes:
    """Verbs of a RandomTraining, which has these."""

    drawn: dict[str, Any]
    trial: Trial
    engine: Any
    config: dict[str, Any]
    weights_changed: bool
    frozen: dict[int, list[Callable[[], Any]]]

    def do_hyperparameter(self, group: int, name: str, value: Any) -> None:
        groups = self.engine.optimizer.param_groups
        chosen = groups[group % len(groups)]
        if name in chosen:
            chosen[name] = value

    def do_gathered(self, which: int, factor: float) -> None:
        params = list(self.engine.module.parameters())
        params = [param for number, param in enumerate(params) if number % 3 == which]
        with deepspeed.zero.GatheredParameters(params, modifier_rank=0):
            if self.trial.rank == 0:
                for param in params:
                    param.data.mul_(factor)
        self.weights_changed = True

    def do_set_full(self, which: int) -> None:
        for number, (_, param) in enumerate(self._trained()):
            if number % 3 == which and self._divides(param):
                safe_set_full_fp32_param(param, safe_get_full_fp32_param(param) * 0.5)
                for state in STATES:
                    value = self._state(param, state)
                    if value is not None:
                        safe_set_full_optimizer_state(param, value * 0.5, state)
        self.weights_changed = True

    def do_set_gradient(self, which: int, local: bool) -> None:
        """Between backward and step. Without managed accumulation stock DeepSpeed has no gradient before the step, and
        forgets what is set.
        """
        engine = self.engine
        if not engine.managed_gradient_accumulation():
            return
        self._backward()
        if self._ends_cycle():
            for number, (name, param) in enumerate(self._trained()):
                if number % 3 == which and (local or self._divides(param)):
                    self.trial.record("gradient", name, digest(safe_get_full_grad(param)))
                    if local:
                        safe_set_local_grad(param, safe_get_local_grad(param) * 1.5)  # its padding stays 0
                    else:
                        safe_set_full_grad(param, safe_get_full_grad(param) * 0.5 + 0.01)
                    self.trial.record("gradient", name, digest(safe_get_full_grad(param)))
        self._step()

    def _divides(self, param: Any) -> bool:
        """Whether all ranks have as much of it: else DeepSpeed cannot set the whole of it."""
        return int(param.ds_numel) % self.trial.ranks == 0

    def do_set_local(self, which: int) -> None:
        for number, (_, param) in enumerate(self._trained()):
            if number % 3 == which:
                safe_set_local_fp32_param(param, safe_get_local_fp32_param(param) * 0.5)
        self.weights_changed = True

    def do_freeze(self, which: int) -> None:
        """Freezes a block, or lets it train again."""
        which %= len(self.drawn["blocks"])
        if which == 0 or self.drawn["blocks"][which][2] in ("frozen", "reentrant"):
            return
        trained = [param for param in self.engine.module.blocks[which].parameters() if param.requires_grad]
        offloaded = self.config["zero_optimization"].get("offload_optimizer")
        if self._in_cycle() and which not in self.frozen and not offloaded:
            return  # stage 3 drops what a frozen parameter has of the cycle; the reference's hooks would keep it
        if which in self.frozen:
            for thaw in self.frozen.pop(which):
                thaw()
        elif self.trial.reference:
            self.frozen[which] = [param.register_hook(torch.zeros_like).remove for param in trained]
        else:
            self.frozen[which] = [param.requires_grad_ for param in trained]
            for param in trained:
                param.requires_grad_(False)

    def do_merged(self, which: int) -> None:
        """A few elements through `.data` of what is gathered to be read. With several ranks that changes nothing."""
        params = [param for number, param in enumerate(self.engine.module.parameters()) if number % 3 == which]
        with deepspeed.zero.GatheredParameters(params):
            for param in params:
                param.data.view(-1)[5:9] += 0.25
        self.weights_changed = self.weights_changed or self.trial.ranks == 1

    def do_hooked(self, factor: float) -> None:
        """Steps with a hook of the inner optimizer's, which scales what is stepped."""

        def scale(optimizer: Any, *_: Any) -> None:
            for param in (param for group in optimizer.param_groups for param in group["params"]):
                if param.grad is not None:
                    param.grad.mul_(factor)

        handle = self.engine.optimizer.optimizer.register_step_pre_hook(scale)
        self._train_cycles(2)
        handle.remove()

    def do_boundary(self, count: int) -> None:
        """The script says when a cycle ends."""
        engine = self.engine
        if not engine.managed_gradient_accumulation() or self._in_cycle():
            return
        for number in range(count):
            engine.set_gradient_accumulation_boundary(number == count - 1)
            self._backward()
            self._step()
        engine._is_gradient_accumulation_boundary = None
        engine.micro_steps = 0

    def do_states(self) -> None:
        """What the inner optimizer has, as a script reads it."""
        if self.trial.ranks > 1:  # padding may be anything
            return
        stage3 = self.engine.optimizer
        for number, master in enumerate(stage3.fp32_partitioned_groups_flat):
            for name, value in sorted(stage3.optimizer.state[master].items()):
                if torch.is_tensor(value) and value.numel() > 1:
                    self.trial.record("state", number, name, digest(value))

    def _trained(self) -> list[tuple[str, Any]]:
        frozen = {id(param) for block in self.frozen for param in self.engine.module.blocks[block].parameters()}
        return [
            (name, param)
            for name, param in self.engine.module.named_parameters()
            if param.requires_grad and id(param) not in frozen
        ]

    def _state(self, param: Any, name: str) -> torch.Tensor | None:
        with contextlib.suppress(KeyError):
            value: torch.Tensor | None = safe_get_full_optimizer_state(param, name)
            return value
        return None

"""A training that a seed draws: a small model, a configuration, and what a script does one after the other. It is run
twice, through penstock and with `device: cpu`; what it sees must be equal to the last digit.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deepspeed
import torch
from deepspeed.utils import safe_get_full_fp32_param
from random_changes import STATES, Changes
from random_model import RandomModel
from random_uses import Uses
from trial import Trial, change, digest, dtype_of

Drawn = dict[str, Any]


class RandomTraining(Changes, Uses):
    """Carries out what was drawn."""

    def __init__(self, drawn: Drawn, trial: Trial, saved: Path) -> None:
        """saved: where both trainings have their checkpoints, each in a directory of its own."""
        self.drawn = drawn
        self.trial = trial
        self.saved = saved
        self.call = 0  # micro-steps and other forwards begun
        self.weights_changed = False  # they are not what the masters say, until a step; a checkpoint has only these
        self.is_pending = False  # a backward has come, and no step behind it: a checkpoint has no gradients
        self.frozen: dict[int, list[Callable[[], Any]]] = {}  # blocks, with what lets them train again
        self.tags = 0
        self.accumulation = 0  # micro-steps a cycle, where the script has changed them
        deepspeed.get_accelerator().is_fp16_supported = lambda: True  # torch computes with it on any processor
        # DeepSpeed compiles Muon's update, whose digits depend on what the compiler has seen before in this process.
        torch.compiler.set_stance("force_eager")
        self.settle_sizes()
        self.config = trial.on_reference(change(trial.config(), drawn["config"]))
        block = self.config.get("penstock") or {}
        if trial.device != "cpu" and block.get("max_pinned_bytes") == "4MiB":  # transfers to a device need some
            block["max_pinned_bytes"] = "5MiB"
        self.engine = self.build()

    def settle_sizes(self) -> None:
        """What penstock swaps, and how states are cut, at sizes of a small model."""
        self.trial.swap_from(self.drawn["minimum_bytes"])
        if self.trial.reference:
            return
        from penstock.deepspeed import optimizer_swapper

        optimizer_swapper.STATE_CHUNK_ELEMENTS = self.drawn["chunk_elements"]

    def build(self, seed: int = 5) -> Any:
        drawn, config = self.drawn, self.config
        torch.manual_seed(seed)
        born = deepspeed.zero.Init(config_dict_or_path=config, dtype=dtype_of(config), enabled=drawn["zero_init"])
        with born:
            model = RandomModel(self.trial, drawn["width"], drawn["blocks"], dtype_of(config))
        for param in model.parameters():
            param.use_muon = len(getattr(param, "ds_shape", param.shape)) == 2  # Muon asks
        trained = [param for param in model.parameters() if param.requires_grad]
        cuts = [len(trained) * number // len(drawn["groups"]) for number in range(len(drawn["groups"]) + 1)]
        groups = [
            {"params": trained[begin:end], **group}
            for group, begin, end in zip(drawn["groups"], cuts, cuts[1:], strict=False)
            if begin < end
        ]
        optimizer = None
        if drawn["torch_optimizer"]:
            optimizer = getattr(torch.optim, drawn["torch_optimizer"])(groups, **drawn["torch_arguments"])
        if (config.get("optimizer") or {}).get("type") == "Muon":
            groups = trained
        return self.trial.initialize(
            model, config, optimizer=optimizer, model_parameters=None if optimizer is not None else groups
        )

    def run(self) -> None:
        for verb, *arguments in self.drawn["actions"]:
            self.trial.record("-", verb, *arguments)
            getattr(self, f"do_{verb}")(*arguments)
        self.trial.record("-", "end")
        self.see()

    # What it does.

    def do_train(self, count: int, factor: float) -> None:
        """Where the script says when a cycle ends: after every other backward, and after the first one."""
        for number in range(count):
            self._backward(factor)
            if self.engine.managed_gradient_accumulation() or number % 2 == 0:
                self._step()

    def _train_cycles(self, count: int) -> None:
        for _ in range(count * self.engine.gradient_accumulation_steps()):
            self._backward()
            self._step()

    def _backward(self, factor: float = 1.0) -> None:
        self.engine.backward(self._loss() * factor)
        self.is_pending = True

    def _loss(self) -> torch.Tensor:
        loss: torch.Tensor = self.engine(self._batch())
        self.trial.record("loss", repr(loss.item()))
        return loss

    def _batch(self) -> torch.Tensor:
        generator = torch.Generator().manual_seed(1000 * self.call + self.trial.rank)
        self.engine.module.call = self.call
        self.call += 1
        return torch.randn(3, self.drawn["width"], generator=generator).to(self.trial.device)

    def _step(self) -> None:
        engine = self.engine
        at_boundary = self._ends_cycle()
        skipped = engine.skipped_steps
        engine.step()
        if at_boundary:
            self.trial.record_norm(engine)
            self.trial.record("skipped", engine.skipped_steps, engine.optimizer.cur_scale)
            self.is_pending = False
            self.weights_changed = self.weights_changed and engine.skipped_steps != skipped

    def _ends_cycle(self) -> bool:
        """Whether the next step() is one of the optimizer's."""
        engine = self.engine
        return not engine.managed_gradient_accumulation() or bool(engine.is_gradient_accumulation_boundary())

    def _in_cycle(self) -> bool:
        """Whether there are gradients that no step has used."""
        return self.is_pending or self.engine.micro_steps % self.engine.gradient_accumulation_steps() != 0

    def do_coalesced(self, count: int) -> None:
        """Several backwards, whose gradients are reduced together."""
        engine = self.engine
        if engine.managed_gradient_accumulation() and engine.gradient_accumulation_steps() == 1:
            with engine.coalesce_grad_reduction():
                for _ in range(count):
                    self._backward()
            self._step()

    def do_step_alone(self) -> None:
        """Without a backward."""
        if self.trial.reference:
            self.engine.backward(self.engine(self._batch()) * 0)
            if not self.engine.managed_gradient_accumulation():
                self.engine._unmanaged_backward_count -= 1  # it is not the script's
        else:
            self._batch()
        self._step()

    def do_evaluate(self) -> None:
        self.engine.eval()
        with torch.no_grad():
            self._loss()
        self.engine.train()

    def do_forward_alone(self) -> None:
        self._loss()

    def do_forward_fails(self, where: int) -> None:
        self.engine.module.fails_at = where % len(self.drawn["blocks"])
        with contextlib.suppress(ValueError):
            self._loss()
        self.engine.module.fails_at = -1

    def do_accumulate(self, steps: int) -> None:
        """Another number of micro-steps a cycle from now on."""
        engine = self.engine
        if engine.managed_gradient_accumulation() and not self._in_cycle():
            engine.micro_steps = 0  # loading leaves them
            self.accumulation = steps
            self._set_accumulation()
            self._train_cycles(1)

    def _set_accumulation(self) -> None:
        micro_batch = self.engine.train_micro_batch_size_per_gpu() * self.trial.ranks
        self.engine.set_train_batch_size(micro_batch * self.accumulation)

    def do_load_part(self, what: dict[str, bool]) -> None:
        """Goes back to an older checkpoint with a part of it."""
        if self.weights_changed or self.frozen or self._in_cycle():
            return
        tag = f"part{self.tags}"
        self.tags += 1
        self.engine.save_checkpoint(str(self._own()), tag=tag)
        self._train_cycles(2)
        self.engine.load_checkpoint(str(self._own()), tag=tag, **what)

    def do_second_engine(self, steps: int) -> None:
        """Another one trains while this one lives."""
        first, self.engine = self.engine, self.build(7)
        before = self.weights_changed, self.is_pending, self.frozen
        self.frozen = {}
        self._train_cycles(steps)
        self.see()
        self.trial.engines.remove(self.engine)
        self.engine.destroy()
        self.engine = first
        self.weights_changed, self.is_pending, self.frozen = before
        gc.collect()

    def do_zero_grad(self) -> None:
        """Between a backward and the next one. A step in between uses the old gradients, as stock DeepSpeed's does."""
        self._backward()
        self.engine.optimizer.zero_grad()
        self._backward()
        self._step()

    def do_see(self) -> None:
        self.see()

    def do_save_weights(self) -> None:
        where = self.saved / f"weights-{self.tags}"
        self.tags += 1
        self.engine.save_16bit_model(str(where), "weights.bin")
        file = where / "weights.bin"
        if self.trial.rank == 0 and file.exists():
            for name, tensor in torch.load(file).items():
                self.trial.record("saved", name, tensor.dtype, tuple(tensor.shape), digest(tensor))
        torch.distributed.barrier()

    def do_resume(self, how: str, more: int) -> None:
        """Saves, goes on for some steps, and comes back: here, in a new engine, or with what the reference has saved.

        The reference only saves: stock DeepSpeed computes the powers of betas anew when it loads.
        """
        engine = self.engine
        if self.weights_changed or self.frozen or self._in_cycle():
            return
        tag = f"save{self.tags}"
        self.tags += 1
        engine.save_checkpoint(str(self._own()), tag=tag)
        if self.trial.reference:
            return
        call, seen = self.call, len(self.trial.seen)
        self._train_cycles(more)
        if how == "new":
            self._replace()
        origin = self.saved / "reference" if how == "foreign" else self._own()
        self.engine.load_checkpoint(str(origin), tag=tag)
        self.call = call
        del self.trial.seen[seen:]

    def _own(self) -> Path:
        return self.saved / ("reference" if self.trial.reference else "penstock")

    def do_restart(self) -> None:
        """Another engine after this one."""
        if not self.frozen:
            self._replace()
            self.weights_changed = self.is_pending = False

    def _replace(self) -> None:
        self.trial.engines.remove(self.engine)
        self.engine.destroy()
        self.engine = None
        gc.collect()
        self.engine = self.build(6)
        if self.accumulation:
            self._set_accumulation()

    # What it sees.

    def see(self) -> None:
        """A digest of each weight as the model uses it, of its master and of its states."""
        record = self.trial.record
        for name, param in self.engine.module.named_parameters():
            with deepspeed.zero.GatheredParameters([param]):
                record("weight", name, tuple(param.shape), digest(param.data))
        for name, param in self._trained():
            record("master", name, digest(safe_get_full_fp32_param(param)))
            for state in STATES:
                value = self._state(param, state)
                if value is not None:
                    record(state, name, tuple(value.shape), digest(value))
        for group in self.engine.optimizer.param_groups:
            # DeepSpeed's Lion adds "amsgrad" when it loads.
            record("group", {key: value for key, value in group.items() if key not in ("params", "amsgrad")})


def train(drawn: Drawn, saved: Path, trial: Trial) -> None:
    RandomTraining(drawn, trial, saved).run()

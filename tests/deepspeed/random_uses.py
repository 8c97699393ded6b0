"""What the script of a random training does with the model beside training it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deepspeed
import torch
from deepspeed.utils.zero_to_fp32 import get_fp32_state_dict_from_zero_checkpoint
from trial import Trial, digest


class Uses:
    """Verbs of a RandomTraining, which has these."""

    trial: Trial
    engine: Any
    saved: Path
    call: int
    tags: int
    frozen: dict[int, list[Callable[[], Any]]]
    weights_changed: bool

    def do_average(self, which: int) -> None:
        """Evaluates with other weights, as of a moving average, and brings back the trained ones."""
        params = [param for number, param in enumerate(self.engine.module.parameters()) if number % 3 == which]
        with deepspeed.zero.GatheredParameters(params, modifier_rank=0):
            trained = [param.data.clone() for param in params]
            for param in params:
                param.data.mul_(0.5)
        self.do_evaluate()
        with deepspeed.zero.GatheredParameters(params, modifier_rank=0):
            for param, values in zip(params, trained, strict=True):
                param.data.copy_(values)
        self.weights_changed = True

    def do_inference(self) -> None:
        self.engine.eval()
        with torch.inference_mode():
            self._loss()
        self.engine.train()

    def do_train_in_eval(self) -> None:
        self.engine.eval()
        self._train_cycles(1)
        self.engine.train()

    def do_thread(self) -> None:
        """Another thread trains and evaluates."""
        failures = []

        def work() -> None:
            try:
                self._train_cycles(1)
                self.do_evaluate()
            except Exception as failure:
                failures.append(failure)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        if failures:
            raise failures[0]

    def do_save(self, tag: int) -> None:
        """In the middle of a cycle, too, and over an older one. Nothing is loaded."""
        self.engine.save_checkpoint(str(self._own() / "only"), tag=f"only{tag}", client_state={"call": self.call})

    def do_to_fp32(self) -> None:
        """As DeepSpeed's own script reads it."""
        if self.weights_changed or self.frozen or self._in_cycle():
            return
        tag = f"fp32-{self.tags}"
        self.tags += 1
        self.engine.save_checkpoint(str(self._own()), tag=tag)
        torch.distributed.barrier()
        if self.trial.rank == 0:
            for name, tensor in get_fp32_state_dict_from_zero_checkpoint(str(self._own()), tag).items():
                self.trial.record("fp32", name, tuple(tensor.shape), digest(tensor))
        torch.distributed.barrier()

    def do_schedule(self) -> None:
        if self.engine.lr_scheduler is not None:
            self.engine.lr_scheduler.step()
        self._train_cycles(1)

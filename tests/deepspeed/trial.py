"""One training of a habit: the same script through penstock, or on its reference, in a process of its own."""

from __future__ import annotations

import contextlib
import copy
import hashlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import deepspeed
import torch
from deepspeed.utils import safe_get_full_fp32_param, safe_get_full_optimizer_state

Config = dict[str, Any]

# Where trials train: `cuda` where bench/gpu/run has them train on a GPU. Numbers are drawn on the CPU in any case.
DEVICE = os.environ.get("PENSTOCK_TEST_DEVICE", "cpu")

# Matrices are swapped, also where two ranks share one and its numbers are bf16: 1 MiB is the least. Biases are not.
WIDTH = 1024


@dataclass(frozen=True)
class Checkpoint:
    """A training that saves when each of these numbers of steps is done, and goes on; or one that does not train until
    then (one number), and loads what the other has saved.
    """

    directory: str
    after_steps: tuple[int, ...]
    resumes: bool = False

    @staticmethod
    def seen(steps: int) -> str:
        """What is seen where a training saves, or goes on from what was saved."""
        return f"checkpoint {steps}"

    @staticmethod
    def is_before(line: str, steps: int) -> bool:
        """Whether it was seen in a step before these, of whichever engine."""
        words = line.split()
        return words[0] == "step" and int(words[1]) < steps


@dataclass
class Trial:
    """What a habit's script is given, and what it has seen.

    reference: stock DeepSpeed with `device: cpu`.
    swap: a directory of this training's own.
    device: where models and batches are.
    seen: losses, norms and whatever else must be equal to the last digit.
    """

    reference: bool
    swap: str
    rank: int = 0
    ranks: int = 1
    seen: list[str] = field(default_factory=list)
    device: str = DEVICE
    engines: list[Any] = field(default_factory=list)
    checkpoint: Checkpoint | None = None
    micro_steps_begun: dict[int, int] = field(default_factory=dict)

    def config(self, **changes: Any) -> Config:
        """Everything on NVMe, nothing kept in RAM; `a__b=1` changes or adds ["a"]["b"], None takes a key away."""
        config = {
            "train_micro_batch_size_per_gpu": 1,
            "bf16": {"enabled": True},
            "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "weight_decay": 0.01}},
            "zero_optimization": {
                "stage": 3,
                "offload_param": {"device": "nvme", "nvme_path": self.swap, "max_in_cpu": 0},
                "offload_optimizer": {"device": "nvme", "nvme_path": self.swap},
                "sub_group_size": 2_500_000,  # two matrices
                "stage3_param_persistence_threshold": 10_000,
                "stage3_max_reuse_distance": 0,
            },
            "penstock": {"ram_bytes": 0, "max_pinned_bytes": "32MiB"},
        }
        return self.on_reference(change(config, changes))

    def on_reference(self, config: Config) -> Config:
        """What is on NVMe is in RAM there; nothing else differs."""
        if self.reference:
            for offload in ("offload_param", "offload_optimizer"):
                section = config["zero_optimization"].get(offload) or {}
                if section.get("device") == "nvme":
                    section["device"] = "cpu"
        return config

    def swap_from(self, minimum_bytes: int) -> None:
        """Partitions of so many bytes are swapped from now on, where `aio.block_size` is no more."""
        if not self.reference:
            from penstock.deepspeed import optimizer_swapper, parameter_swapper

            optimizer_swapper.MINIMUM_BYTES = parameter_swapper.MINIMUM_BYTES = minimum_bytes

    def initialize(self, model: torch.nn.Module, config: Config | None = None, **arguments: Any) -> Any:
        """deepspeed.initialize with the parameters that are trained."""
        arguments.setdefault("model_parameters", [p for p in model.parameters() if p.requires_grad])
        engine, *_ = deepspeed.initialize(model=model, config=config or self.config(), **arguments)
        self.engines.append(engine)
        torch.manual_seed(17 + self.rank)
        return engine

    def batch(self) -> torch.Tensor:
        return torch.randn(4, WIDTH).to(self.device)

    def record(self, *values: Any) -> None:
        self.seen.append(" ".join(str(value) for value in values))

    def loss(self, engine: Any, *arguments: Any) -> torch.Tensor:
        """A forward; its loss is seen."""
        loss = engine(*(arguments or (self.batch(),)))
        self.record("loss", repr(loss.item()))
        return loss

    def step(self, engine: Any, *arguments: Any) -> None:
        """Forward, backward, step; loss and norm are seen."""
        if not self._at_checkpoint(engine):
            return
        seen_before = len(self.seen)
        engine.backward(self.loss(engine, *arguments))
        at_boundary = engine.is_gradient_accumulation_boundary()
        engine.step()
        if at_boundary or self.checkpoint is None:  # a norm of a step before is not in a checkpoint
            self.record_norm(engine)
        if self.checkpoint is not None:
            done = (self.micro_steps_begun[self.engines.index(engine)] - 1) // engine.gradient_accumulation_steps()
            self.seen[seen_before:] = [f"step {done} {line}" for line in self.seen[seen_before:]]

    def _at_checkpoint(self, engine: Any) -> bool:
        """Saves or loads where that is due. Whether this step is trained."""
        checkpoint = self.checkpoint
        if checkpoint is None:
            return True
        number = self.engines.index(engine)
        begun = self.micro_steps_begun[number] = self.micro_steps_begun.get(number, 0) + 1
        accumulation = engine.gradient_accumulation_steps()
        done, within = divmod(begun - 1, accumulation)
        if within == 0 and done in checkpoint.after_steps:
            self._save_or_load(engine, f"{checkpoint.directory}/{done}/{number}", checkpoint.resumes)
            self.record(Checkpoint.seen(done))
        return not checkpoint.resumes or done >= checkpoint.after_steps[0]

    def _save_or_load(self, engine: Any, where: str, loads: bool) -> None:
        own = f"{where}/script-{self.rank}"  # what a script keeps by itself
        counting = {name: module for name, module in engine.module.named_modules() if hasattr(module, "calls")}
        if loads:
            engine.load_checkpoint(where)
            rng, calls = torch.load(own)
            torch.set_rng_state(rng)
            for name, module in counting.items():
                module.calls = calls[name]
        else:
            engine.save_checkpoint(where)
            calls = {name: module.calls for name, module in counting.items()}
            torch.save((torch.get_rng_state(), calls), own)

    def steps(self, engine: Any, count: int = 4) -> None:
        if self.checkpoint is not None:
            count = 9 * engine.gradient_accumulation_steps()
        for _ in range(count):
            self.step(engine)

    def record_norm(self, engine: Any) -> None:
        norm = engine.get_global_grad_norm()
        self.record("norm", repr(float(norm)) if norm is not None else None)

    def left_out(self, compute: Callable[[], torch.Tensor]) -> torch.Tensor | float:
        """A part that this micro-step does not use. The reference computes and masks it: its gradient is zero, also
        where the loss is infinite.
        """
        if not self.reference:
            return 0.0
        result = compute()
        return torch.where(torch.zeros_like(result, dtype=torch.bool), result, 0.0)

    def record_weights(self, engine: Any) -> None:
        """A digest of each weight as the model uses it and, where it is trained, of its master and states."""
        for name, param in engine.module.named_parameters():
            with deepspeed.zero.GatheredParameters([param]):
                self.record("weight", name, digest(param.data))
            if param.requires_grad and hasattr(engine.optimizer, "fp16_groups"):
                self.record("master", name, digest(safe_get_full_fp32_param(param)))
                for state in ("exp_avg", "exp_avg_sq", "momentum_buffer", "square_avg", "sum"):
                    with contextlib.suppress(KeyError):
                        value = safe_get_full_optimizer_state(param, state)
                        self.record(state, name, None if value is None else digest(value))


def change(config: Config, changes: Config) -> Config:
    """A copy with dotted (`__`) keys replaced; None removes."""
    config = copy.deepcopy(config)
    for key, value in changes.items():
        *parents, last = key.split("__")
        target = config
        for parent in parents:
            target = target.setdefault(parent, {})
        if value is None:
            target.pop(last, None)
        else:
            target[last] = value
    return config


def digest(tensor: torch.Tensor) -> str:
    data = tensor.detach().cpu().flatten()
    if data.is_floating_point():
        data = data + 0  # -0 and 0 are one number
    return hashlib.sha256(data.view(torch.uint8).numpy().tobytes()).hexdigest()[:16]


@contextlib.contextmanager
def partitioned_at_birth(trial: Trial, config: Config) -> Iterator[None]:
    """zero.Init as from_pretrained uses it."""
    with deepspeed.zero.Init(config_dict_or_path=config, dtype=dtype_of(config)):
        yield


def dtype_of(config: Config) -> torch.dtype:
    if (config.get("bf16") or {}).get("enabled"):
        return torch.bfloat16
    return torch.float16 if (config.get("fp16") or {}).get("enabled") else torch.float32

"""Habits between steps: evaluation, gathering, exceptions, checkpointing of activations, compiling."""

from __future__ import annotations

from typing import Any

import deepspeed
import torch
from habit import habit
from habit_models import Checkpointed, Layer, Stack
from habits_placement import WithAdapter, adapted
from torch import nn
from trial import Trial, digest


@habit("GatheredParameters(modifier_rank=0) between steps")
def modified(trial: Trial) -> None:
    engine = trial.initialize(Stack())
    for step in range(4):
        trial.step(engine)
        with deepspeed.zero.GatheredParameters(list(engine.module.layers[step % 3].parameters()), modifier_rank=0):
            if trial.rank == 0:
                for param in engine.module.layers[step % 3].parameters():
                    param.data.mul_(0.5)
    trial.record_weights(engine)


@habit("modified parameters of a frozen model")
def modified_frozen(trial: Trial) -> None:
    engine = trial.initialize(adapted())
    for _ in range(2):
        trial.step(engine)
        for layer in engine.module.layers:
            with deepspeed.zero.GatheredParameters(list(layer.parameters()), modifier_rank=0):
                if trial.rank == 0:
                    layer.linear.inner.weight.data.mul_(0.5)
    trial.step(engine)
    trial.record_weights(engine)


class Scorer(Stack):
    """Ends in a small module that stays on the device, as a reward model does."""

    def __init__(self) -> None:
        super().__init__(4)
        self.score = nn.Linear(1024, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (self.score(self.features(x)).float() - 1).pow(2).mean()


def _evaluate(trial: Trial, engine: Any, passes: int = 1) -> None:
    engine.eval()
    for _ in range(passes):
        with torch.no_grad():
            trial.record("evaluation", repr(engine(trial.batch()).item()))
    engine.train()


@habit("evaluation, then a gather of all parameters", short=1)
def gathered_after_evaluation(trial: Trial) -> None:
    engine = trial.initialize(Scorer())
    for _ in range(3):
        trial.step(engine)
        _evaluate(trial, engine)
        with deepspeed.zero.GatheredParameters(list(engine.module.parameters())):
            trial.record([digest(param.data) for param in engine.module.parameters()])
    trial.record_weights(engine)


@habit("evaluation with gradients enabled, then a gather")
def gathered_after_forward(trial: Trial) -> None:
    engine = trial.initialize(Scorer())
    for _ in range(3):
        trial.step(engine)
        trial.loss(engine)
        for param in engine.module.parameters():
            with deepspeed.zero.GatheredParameters([param]):
                trial.record(digest(param.data))
    trial.step(engine)
    trial.record_weights(engine)


@habit(
    "evaluation in torch.inference_mode()",
    ranks=(1,),  # of several, what stock gathers is of that mode
    cpu_only="stock fails there, whose gathered copy is of that mode",
)
def inference_mode(trial: Trial) -> None:
    """What it reads ahead is used by the training pass behind it."""
    engine = trial.initialize(Stack(4))
    for _ in range(3):
        trial.step(engine)
        engine.eval()
        for _ in range(2):
            with torch.inference_mode():
                trial.record("evaluation", repr(engine(trial.batch()).item()))
        engine.train()
    trial.record_weights(engine)


class Scaled(nn.Module):
    """Two embeddings that scale the rows that they look up, one of them frozen."""

    def __init__(self) -> None:
        super().__init__()
        self.trained = nn.Embedding(2048, 1024, max_norm=8.0)
        self.frozen = nn.Embedding(2048, 1024, max_norm=4.0).requires_grad_(False)
        self.layers = Stack()

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        loss: torch.Tensor = self.layers(self.trained(words) + self.frozen(words))
        return loss


@habit(
    "embeddings with `max_norm`",
    ranks=(1,),  # of several, stock shows each rank its own change until the next pass
    cpu_only="stock shows the change of its gathered copy until the next pass, which ends with it",
)
def scaled_in_forward(trial: Trial) -> None:
    """What a forward changes of a parameter is in its weights until the next step, in frozen ones for good."""
    engine = trial.initialize(Scaled())
    for _ in range(3):
        trial.step(engine, torch.randint(0, 64, (4, 8)).to(trial.device))
        with torch.no_grad():
            trial.loss(engine, torch.randint(0, 2048, (4, 8)).to(trial.device))
        trial.record_weights(engine)
    trial.step(engine, torch.randint(0, 64, (4, 8)).to(trial.device))
    trial.record_weights(engine)


class Clamping(nn.Linear):
    """Its forward changes its parameters in place: a weight is clamped, as a critic's is, and a frozen code decays."""

    def __init__(self, width: int) -> None:
        super().__init__(width, width)
        self.code = nn.Parameter(torch.ones(width, width), requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            self.weight.clamp_(-0.02, 0.02)
            self.code.mul_(0.75)
        return super().forward(x) + x @ self.code * 1e-3


@habit("weights that a forward changes in place", ranks=(1,))  # of several, the change ends with the gathered copy
def changed_in_forward(trial: Trial) -> None:
    model = Stack()
    model.layers[1].linear = Clamping(model.layers[1].linear.in_features)
    engine = trial.initialize(model)
    for _ in range(3):
        trial.step(engine)
        with torch.no_grad():
            trial.loss(engine)
        trial.record_weights(engine)


@habit("evaluation, then LoRA is merged")
def merged(trial: Trial) -> None:
    engine = trial.initialize(adapted())
    trial.steps(engine, 3)
    _evaluate(trial, engine, 2)
    for layer in engine.module.layers:
        adapter: WithAdapter = layer.linear
        with deepspeed.zero.GatheredParameters(list(adapter.parameters()), modifier_rank=0):
            if trial.rank == 0:
                adapter.inner.weight.data += (adapter.up.weight.data.float() @ adapter.down.weight.data.float()).to(
                    adapter.inner.weight.dtype
                )
                adapter.up.weight.data.zero_()
    _evaluate(trial, engine)
    trial.record_weights(engine)


@habit("evaluation, then weights are changed in place in GatheredParameters", short=1)
def changed_after_evaluation(trial: Trial) -> None:
    """What the evaluation has read ahead and not used is changed too; the first layers are frozen, so that it stays."""
    model = Stack(8)
    for layer in model.layers[:4]:
        layer.linear.weight.requires_grad_(False)
    engine = trial.initialize(model, trial.config(zero_optimization__stage3_max_reuse_distance=0))
    for _ in range(2):
        trial.steps(engine, 2)
        _evaluate(trial, engine)
        with deepspeed.zero.GatheredParameters(list(engine.module.parameters())):
            for layer in engine.module.layers:
                layer.linear.weight.data += 0.01
        _evaluate(trial, engine)
    trial.record_weights(engine)


class Dropped(Stack):
    """Each pass leaves a layer out: what was read ahead for it is not used."""

    def __init__(self, trial: Trial) -> None:
        super().__init__(5)
        self._trial = trial
        self.calls = 0

    def features(self, x: torch.Tensor) -> torch.Tensor:
        x = x.to(self.norm.weight.dtype)
        self.calls += 1
        for number, layer in enumerate(self.layers):
            if number == self.calls % 5:
                x = x + self._trial.left_out(lambda layer=layer, x=x: layer(x))
            else:
                x = layer(x)
        return self.norm(x)


@habit("layer dropping", reference="`device: cpu`, that part times 0")
def dropping(trial: Trial) -> None:
    engine = trial.initialize(Dropped(trial))
    trial.steps(engine, 8)
    trial.record_weights(engine)


class Failing(Stack):
    fails = False

    def features(self, x: torch.Tensor) -> torch.Tensor:
        x = x.to(self.norm.weight.dtype)
        for number, layer in enumerate(self.layers):
            x = layer(x)
            if self.fails and number == 1:
                raise ValueError("in the middle of a forward")
        return self.norm(x)


@habit("an exception caught in forward")
def failed_forward(trial: Trial) -> None:
    engine = trial.initialize(Failing())
    for step in range(6):
        engine.module.fails = step in (2, 4)
        try:
            trial.step(engine)
        except ValueError as error:
            trial.record(error)
    trial.record_weights(engine)


@habit("an exception caught between backward and step")
def failed_before_step(trial: Trial) -> None:
    engine = trial.initialize(Stack())
    for step in range(5):
        try:
            engine.backward(trial.loss(engine))
            if step == 2:
                raise ValueError("between backward and step")
            engine.step()
            trial.record_norm(engine)
        except ValueError as error:
            trial.record(error)
    trial.record_weights(engine)


class CheckpointedTwice(Checkpointed):
    """A module that is used twice, each time in a backward within the backward."""

    def recomputed(self, layer: Layer, x: torch.Tensor) -> torch.Tensor:
        return torch.utils.checkpoint.checkpoint(self.layers[0], x, use_reentrant=True)


class CheckpointedByDeepSpeed(Checkpointed):
    def recomputed(self, layer: Layer, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = deepspeed.checkpointing.checkpoint(layer, x)
        return out


@habit("checkpointing of activations (torch)")
def checkpointed(trial: Trial) -> None:
    engine = trial.initialize(Checkpointed())
    trial.steps(engine)
    trial.record_weights(engine)


@habit("checkpointing with use_reentrant=True of a module that is used twice", ranks=(1,), refused="a second gradient")
def checkpointed_twice(trial: Trial) -> None:
    engine = trial.initialize(CheckpointedTwice())
    trial.steps(engine)


class Generator(Stack):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.features(x)


def _against_a_critic(trial: Trial, freezes: bool) -> None:
    """The critic learns what is real; then the generator trains, whose loss is the critic's of what it has made."""
    generator, critic = trial.initialize(Generator()), trial.initialize(Stack())
    for _ in range(3):
        made = generator(trial.batch())
        critic.backward(trial.loss(critic) - trial.loss(critic, made.detach()))
        critic.step()
        trial.record_norm(critic)
        critic.module.requires_grad_(not freezes)
        generator.backward(trial.loss(critic, generator(trial.batch())))
        generator.step()
        trial.record_norm(generator)
        critic.module.requires_grad_(True)
        if trial.reference:
            critic.optimizer.zero_grad()
    for engine in (generator, critic):
        trial.record_weights(engine)


@habit(
    "two engines: one trains through the other, which is frozen there",
    reference="`device: cpu`, zero_grad() of the other",
)
def frozen_critic(trial: Trial) -> None:
    _against_a_critic(trial, True)


@habit(
    "two engines: one trains through the other, which is not frozen",
    ranks=(1,),
    refused="another engine's backward went through this model: freeze it there",
)
def unfrozen_critic(trial: Trial) -> None:
    _against_a_critic(trial, False)


@habit(
    "`cpu_checkpointing`",
    fails=("at least 1D", "on the CPU accelerator DeepSpeed frees the activation that it keeps; it trains on a GPU"),
)
def cpu_checkpointing(trial: Trial) -> None:
    config = trial.config(activation_checkpointing={"cpu_checkpointing": True, "partition_activations": False})
    engine = trial.initialize(CheckpointedByDeepSpeed(), config)
    deepspeed.checkpointing.configure(None, deepspeed_config=config)
    trial.steps(engine)
    trial.record_weights(engine)


@habit("torch.compile (`engine.compile()`)")
def compiled(trial: Trial) -> None:
    engine = trial.initialize(Stack())
    engine.compile(backend="eager")
    trial.steps(engine)
    trial.record_weights(engine)


@habit("a forward within GatheredParameters(modifier_rank=0), behind a change")
def forward_within(trial: Trial) -> None:
    engine = trial.initialize(Stack(4))
    params = list(engine.module.parameters())
    trial.steps(engine, 3)
    _evaluate(trial, engine)
    for _ in range(2):
        with deepspeed.zero.GatheredParameters(params, modifier_rank=0):
            for param in params:  # in all ranks, so that the forward's result is one
                param.data.mul_(0.5)
            _evaluate(trial, engine)
        _evaluate(trial, engine)
    trial.steps(engine, 2)
    trial.record_weights(engine)

"""Habits of where things lie: which of parameters and states are swapped, how the model is built and divided."""

from __future__ import annotations

from typing import Any

import deepspeed
import torch
from habit import habit
from habit_models import Layer, Stack, Tied, loss_of
from habits_gradients import FP32, IN_RAM, NO_OPTIMIZER
from torch import distributed, nn
from trial import WIDTH, Trial, digest, partitioned_at_birth

ZERO = "zero_optimization__"


class Scale(nn.Module):
    """One parameter, half of which is swapped too: rows that the input is multiplied by."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(0.5, 1.5, 1024 * WIDTH).view(-1, WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x.to(self.weight.dtype)[:, None, :] * self.weight).mean(dim=1)


class Scales(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scales = nn.ModuleList(Scale() for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for scale in self.scales:
            x = scale(x)
        return loss_of(x)


def _train(trial: Trial, model: nn.Module | None = None, **changes: Any) -> None:
    engine = trial.initialize(model or Stack(), trial.config(**changes))
    trial.steps(engine)
    trial.record_weights(engine)


@habit("parameters only on NVMe")
def parameters_only(trial: Trial) -> None:
    _train(trial, **NO_OPTIMIZER)


@habit("optimizer states only on NVMe", short=1)
def optimizer_only(trial: Trial) -> None:
    _train(trial, **IN_RAM)


@habit("parameters in RAM, states on NVMe")
def parameters_in_ram(trial: Trial) -> None:
    _train(trial, zero_optimization__offload_param={"device": "cpu"})


@habit("fp32", short=1)
def fp32(trial: Trial) -> None:
    _train(trial, **FP32)


@habit("default `max_in_cpu`, default budgets")
def defaults(trial: Trial) -> None:
    _train(trial, zero_optimization__offload_param__max_in_cpu=None, penstock=None)


@habit("`max_in_cpu` for one part of the model")
def some_in_cpu(trial: Trial) -> None:
    _train(trial, Stack(5), zero_optimization__offload_param__max_in_cpu=2_200_000)


@habit("everything kept in RAM (`ram_bytes`)")
def residents(trial: Trial) -> None:
    _train(trial, penstock={"ram_bytes": "1GiB", "max_pinned_bytes": "32MiB"})


@habit("one sub-group")
def one_sub_group(trial: Trial) -> None:
    _train(trial, zero_optimization__sub_group_size=1_000_000_000)


@habit("many sub-groups, some of them in RAM")
def many_sub_groups(trial: Trial) -> None:
    _train(trial, zero_optimization__sub_group_size=1_000)


@habit("persistent parameters above the swap threshold")
def persistent(trial: Trial) -> None:
    _train(trial, zero_optimization__stage3_param_persistence_threshold=3_000_000)


@habit("persistent parameters above the swap threshold, one a module", short=2, since="0.19.8")
def persistent_alone(trial: Trial) -> None:
    """Several ranks gather such a parameter straight from its partition. Of several gathers at once, DeepSpeed before
    0.19.8 waits for the last one only, which is enough under NCCL, and not under gloo.
    """
    _train(trial, Scales(), zero_optimization__stage3_param_persistence_threshold=3_000_000)


@habit("default reuse distance and prefetch")
def reuse(trial: Trial) -> None:
    _train(trial, zero_optimization__stage3_max_reuse_distance=None)


@habit("no prefetch (`stage3_prefetch_bucket_size` 0)")
def no_prefetch(trial: Trial) -> None:
    _train(trial, zero_optimization__stage3_prefetch_bucket_size=0)


@habit("`pipeline_read` and `pipeline_write`")
def pipelined(trial: Trial) -> None:
    _train(trial, **{f"{ZERO}offload_optimizer__pipeline_{way}": True for way in ("read", "write")})


@habit("`fast_init`")
def fast_init(trial: Trial) -> None:
    _train(trial, zero_optimization__offload_optimizer__fast_init=True)


@habit("several parameter groups")
def groups(trial: Trial) -> None:
    model = Stack()
    matrices = [param for param in model.parameters() if param.dim() > 1]
    others = [param for param in model.parameters() if param.dim() == 1]
    engine = trial.initialize(
        model,
        model_parameters=[
            {"params": matrices[:1], "lr": 1e-2, "weight_decay": 0.1},
            {"params": matrices[1:]},
            {"params": others, "weight_decay": 0.0},
        ],
    )
    trial.steps(engine)
    trial.record_weights(engine)


@habit("frozen parts")
def frozen(trial: Trial) -> None:
    model = Stack()
    model.layers[0].requires_grad_(False)
    model.norm.requires_grad_(False)
    _train(trial, model)


class WithAdapter(nn.Module):
    """A frozen matrix and two narrow ones that train, as LoRA has them."""

    def __init__(self, inner: nn.Linear, rank: int = 8) -> None:
        super().__init__()
        self.inner = inner.requires_grad_(False)
        self.down = nn.Linear(inner.in_features, rank, bias=False)
        self.up = nn.Linear(rank, inner.out_features, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x) + self.up(self.down(x))


def adapted() -> Stack:
    model = Stack().requires_grad_(False)
    for layer in model.layers:
        layer.linear = WithAdapter(layer.linear)
    return model


@habit("LoRA: a frozen base, small adapters", short=1)
def lora(trial: Trial) -> None:
    _train(trial, adapted(), gradient_clipping=1.0)


@habit("tied weights", short=1)
def tied(trial: Trial) -> None:
    engine = trial.initialize(Tied())
    for _ in range(4):
        trial.step(engine, torch.randint(0, 2048, (2, 8)).to(trial.device))
    trial.record_weights(engine)


@habit("built under zero.Init")
def built_in_parts(trial: Trial) -> None:
    config = trial.config()
    with partitioned_at_birth(trial, config):
        model = Stack()
    engine = trial.initialize(model, config)
    trial.steps(engine)
    trial.record_weights(engine)


@habit("tied weights, built under zero.Init")
def tied_in_parts(trial: Trial) -> None:
    config = trial.config()
    with partitioned_at_birth(trial, config):
        model = Tied()
    engine = trial.initialize(model, config)
    for _ in range(4):
        trial.step(engine, torch.randint(0, 2048, (2, 8)).to(trial.device))
    trial.record_weights(engine)


class Mixture(Stack):
    """Four experts in one module, each of a few rows; some have none."""

    def __init__(self) -> None:
        super().__init__(2)
        self.experts = Experts()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return loss_of(self.experts(self.features(x)))


class Experts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.experts = nn.ModuleList(Layer() for _ in range(4))
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        chosen = (torch.arange(len(x)) + self.calls) % 3  # the fourth never runs
        return torch.stack([self.experts[int(number)](row) for number, row in zip(chosen, x, strict=True)])


@habit("model, engine and training within one zero.Init", short=1)
def within_init(trial: Trial) -> None:
    config = trial.config(gradient_clipping=0.3)
    with partitioned_at_birth(trial, config):
        engine = trial.initialize(Stack(), config)
        trial.steps(engine)
        trial.record_weights(engine)
    trial.record_weights(engine)


@habit("a clipped step while another model is built under zero.Init")
def step_within_init(trial: Trial) -> None:
    config = trial.config(gradient_clipping=0.3)
    engine = trial.initialize(Stack(), config)
    trial.step(engine)
    with partitioned_at_birth(trial, config):
        Stack()
        trial.step(engine)
    trial.step(engine)
    trial.record_weights(engine)


@habit("leaf modules (experts)")
def leaf_modules(trial: Trial) -> None:
    model = Mixture()
    deepspeed.utils.set_z3_leaf_modules(model, [Experts])
    _train(trial, model, gradient_clipping=1.0)


@habit("two engines: one trains, one without optimizer")
def two_engines(trial: Trial) -> None:
    reference_config = trial.config(**NO_OPTIMIZER, optimizer=None)
    model, frozen_model = Stack(), Stack().requires_grad_(False)
    engine = trial.initialize(model)
    other, *_ = deepspeed.initialize(model=frozen_model, config=reference_config)
    trial.engines.append(other)
    for _ in range(4):
        batch = trial.batch()
        with torch.no_grad():
            trial.record("other", repr(other(batch).item()))
        trial.step(engine, batch)
    trial.record_weights(engine)
    trial.record_weights(other)


@habit("two engines that both train")
def two_training_engines(trial: Trial) -> None:
    engines = [trial.initialize(Stack()) for _ in range(2)]
    for _ in range(3):
        for engine in engines:
            trial.step(engine)
    for engine in engines:
        trial.record_weights(engine)


@habit("built under several zero.Init, then one engine")
def several_swappers(trial: Trial) -> None:
    config = trial.config()
    with partitioned_at_birth(trial, config):
        model = Stack(1)
    for _ in range(3):
        with partitioned_at_birth(trial, config):
            layer = Layer()
        model.layers.append(layer)
    engine = trial.initialize(model, config)
    for _ in range(3):
        trial.step(engine)
        with deepspeed.zero.GatheredParameters(list(model.parameters())):
            trial.record([digest(param.data) for param in model.parameters()])
    trial.record_weights(engine)


@habit("ZeRO-Inference: no optimizer")
def inference(trial: Trial) -> None:
    config = trial.config(**NO_OPTIMIZER, optimizer=None)
    engine, *_ = deepspeed.initialize(model=Stack(), config=config)
    trial.engines.append(engine)
    engine.eval()
    for _ in range(3):
        with torch.no_grad():
            trial.record(repr(engine(trial.batch()).item()))
    trial.record_weights(engine)


@habit("a trained part in fp32 in a bf16 model")
def mixed_dtypes(trial: Trial) -> None:
    config = trial.config()
    model = Stack(1)  # not converted, since the others are partitioned already
    for _ in range(2):
        with partitioned_at_birth(trial, config):
            layer = Layer()
        model.layers.append(layer)
    engine = trial.initialize(model, config)
    trial.steps(engine)
    trial.record([str(param.ds_tensor.dtype) for param in model.parameters()])
    trial.record_weights(engine)


class Untyped(Stack):
    """A matrix that says itself that it is fp32, as XLNet's are, and a frozen one."""

    def __init__(self) -> None:
        super().__init__(2)
        self.mix = nn.Parameter(torch.FloatTensor(WIDTH, WIDTH).fill_(1e-3))
        self.fixed = nn.Parameter(torch.FloatTensor(WIDTH, WIDTH).fill_(1e-3), requires_grad=False)

    def features(self, x: torch.Tensor) -> torch.Tensor:
        x = super().features(x)
        return x + torch.tanh(x @ self.mix) + x @ self.fixed


@habit("built under zero.Init, a part that says itself that it is fp32")
def untyped(trial: Trial) -> None:
    """zero.Init gives it the configuration's dtype, as it does to tensors that are made within."""
    config = trial.config()
    with partitioned_at_birth(trial, config):
        model = Untyped()
    engine = trial.initialize(model, config)
    trial.steps(engine)
    trial.record([str(param.dtype) for param in model.parameters()])
    trial.record_weights(engine)


@habit(
    "a parameter of complex numbers",
    refused="penstock cannot swap a tensor of torch.complex64",
    cpu_only="DeepSpeed refuses it there itself",
)
def complex_numbers(trial: Trial) -> None:
    model = Stack(1)
    model.norm.turn = nn.Parameter(torch.ones(WIDTH, WIDTH, dtype=torch.complex64), requires_grad=False)
    trial.initialize(model)


def _built_under(trial: Trial, offload_at_birth: Any, offload: Any) -> None:
    """zero.Init and the engine have different `offload_param`."""
    with deepspeed.zero.Init(config_dict_or_path=trial.config(zero_optimization__offload_param=offload_at_birth)):
        model = Stack()
    model.layers[0].requires_grad_(False)
    engine = trial.initialize(model, trial.config(zero_optimization__offload_param=offload))
    trial.steps(engine)
    trial.record_weights(engine)


@habit("`zero.Init` with `offload_param` on NVMe, and an engine with none")
def swapped_at_birth_only(trial: Trial) -> None:
    _built_under(trial, {"device": "nvme", "nvme_path": trial.swap, "max_in_cpu": 0}, None)


@habit("`zero.Init` without `offload_param`, and an engine on NVMe", refused="give zero.Init the same configuration")
def swapped_by_the_engine_only(trial: Trial) -> None:
    _built_under(trial, None, {"device": "nvme", "nvme_path": trial.swap, "max_in_cpu": 0})


@habit("a frozen model that each rank has whole (`zero.Init` with a group of one rank), changed in place", ranks=(2,))
def whole_on_each_rank(trial: Trial) -> None:
    groups = [distributed.new_group([rank]) for rank in range(trial.ranks)]
    config = trial.config()
    with deepspeed.zero.Init(config_dict_or_path=config, dtype=torch.bfloat16, data_parallel_group=groups[trial.rank]):
        frozen = Stack(2)
    frozen.requires_grad_(False)
    engine = trial.initialize(Stack(2), config)
    for _ in range(3):
        trial.step(engine)
        with deepspeed.zero.GatheredParameters(list(frozen.parameters())), torch.no_grad():
            for param in frozen.parameters():
                param.mul_(0.5)
    for name, param in frozen.named_parameters():
        with deepspeed.zero.GatheredParameters([param]):
            trial.record("frozen", name, digest(param.data))
    trial.record_weights(engine)

"""linear_training.py CONFIG STEPS [OPTIMIZER [LAYERS]]: trains square matrices under DeepSpeed without transformers.

CONFIG is what deepspeed.initialize gets: the path of a file, base64, or with `dict:PATH` the file's content as a dict.
OPTIMIZER is a class of torch.optim; without one it is the configuration's. A line a step: loss and sum of weights.
With `install` among the arguments penstock is installed by the script itself, as plain python runs it; with `whole` the
model exists before DeepSpeed shards it; with `device` DeepSpeed takes the CPU for a device beside the CPU.
"""

from __future__ import annotations

import contextlib
import json
import sys
from typing import Any

import torch

OPTIONS = {"install", "whole", "device"}
arguments = [argument for argument in sys.argv[1:] if argument not in OPTIONS and "local_rank" not in argument]
if "install" in sys.argv:
    import penstock.deepspeed

    penstock.deepspeed.install()

import deepspeed

given, steps, name, layers = [*arguments, *("", "4")[len(arguments) - 2 :]]
SIDE = 1024  # 2 MiB in bf16: one rank's half is still swapped


class Matrices(torch.nn.Module):
    def __init__(self, count: int) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(SIDE, SIDE) for _ in range(count))

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = torch.relu(layer(x)) + x
        return x.float().square().mean()


config: Any = given
if given.startswith("dict:"):
    with open(given.removeprefix("dict:"), encoding="utf-8") as file:
        config = json.load(file)
# Gloo does here what is compiled for minutes otherwise, anew for each version of DeepSpeed.
deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
deepspeed.init_distributed(dist_backend="gloo")
torch.manual_seed(0)
if "device" in sys.argv:
    deepspeed.accelerator.get_accelerator()._name = "cpu:0"
whole = "whole" in sys.argv
with contextlib.nullcontext() if whole else deepspeed.zero.Init(config_dict_or_path=config):
    model = Matrices(int(layers))
optimizer = getattr(torch.optim, name)(model.parameters(), lr=0.01) if name else None
engine, *_ = deepspeed.initialize(
    model=model, config=config, optimizer=optimizer, model_parameters=None if optimizer else model.parameters()
)
torch.manual_seed(1 + engine.local_rank)
for step in range(int(steps)):
    loss = engine(torch.randn(4, SIDE, dtype=torch.bfloat16))
    engine.backward(loss)
    engine.step()
    with deepspeed.zero.GatheredParameters(list(model.parameters())):
        weights = sum(param.double().sum().item() for param in model.parameters())
    print(f"STEP {step} rank {engine.global_rank} loss {loss.item()!r} weights {weights!r}", flush=True)
if torch.distributed.is_initialized():
    torch.distributed.destroy_process_group()

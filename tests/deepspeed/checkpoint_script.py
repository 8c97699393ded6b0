"""checkpoint_script.py DEVICE DIRECTORY WHAT…: trains four layers, one of them frozen, under DeepSpeed, and does WHAT in
this order: `train:N`, `save`, `save:TAG`, `load`, `load:TAG`, `see`. Exceptions of save and load are printed, and the
script goes on. DEVICE: nvme (through penstock) or cpu.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import torch

device, directory, *steps = sys.argv[1:]
rank, ranks = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
if device == "nvme":
    import penstock.deepspeed

    penstock.deepspeed.install()

import deepspeed
from habit_models import Layer, Stack
from trial import Trial

deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
deepspeed.init_distributed(dist_backend="gloo", verbose=False)
swap = os.environ.get("CHECKPOINT_SWAP", f"{directory}.swap")
trial = Trial(device == "cpu", swap, rank, ranks)
changes: dict[str, Any] = {}
if os.environ.get("CHECKPOINT_RAM"):
    changes["penstock__ram_bytes"] = os.environ["CHECKPOINT_RAM"]
schedule = {"type": "WarmupDecayLR", "params": {"total_num_steps": 50, "warmup_num_steps": 5}}
config = trial.config(scheduler=schedule, **changes)
torch.manual_seed(5)
with deepspeed.zero.Init(config_dict_or_path=config, dtype=torch.bfloat16):
    model = Stack(int(os.environ.get("CHECKPOINT_LAYERS", "4")))
model.layers[1].requires_grad_(False)
engine = trial.initialize(model, config)


def attempt(call: Any) -> None:
    try:
        call()
    except Exception as error:
        print(f"FAILED {type(error).__name__}: {error}", flush=True)


for what in steps:
    verb, _, argument = what.partition(":")
    if verb == "train":
        torch.manual_seed(100 * rank + engine.global_steps)
        trial.steps(engine, int(argument))
    elif verb == "save":
        client = {"mine": [engine.global_steps]}
        attempt(lambda: engine.save_checkpoint(directory, tag=argument or None, client_state=client))
    elif verb == "load":
        attempt(lambda: print("CLIENT", engine.load_checkpoint(directory, tag=argument or None)[1].get("mine")))
    elif verb == "see":
        trial.see_weights(engine)
        trial.see("lr", engine.get_lr(), engine.global_steps)
    print(f"DONE {what}", flush=True)
    for line in trial.seen:
        print(f"SEEN {line}")
    trial.seen.clear()
torch.distributed.destroy_process_group()

"""checkpoint_training.py DIR STAGE…: trains a small model with each stage on the CPU and saves it to DIR/stageN.

One process a rank, as torchrun's variables say. Rank 0 writes DIR/stageN.json: names and shapes as DeepSpeed's own
zero_to_fp32 reads them back, which penstock's must be equal to.
"""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path

import deepspeed
import torch
from deepspeed.utils.zero_to_fp32 import get_fp32_state_dict_from_zero_checkpoint

SIDE = 24


class Model(torch.nn.Module):
    """Sub-groups, a frozen parameter, a buffer, and weights that two names share."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(SIDE, SIDE) for _ in range(4))
        self.head = torch.nn.Linear(SIDE, 7, bias=False)
        self.register_buffer("scale", torch.ones(3))
        self.layers[0].bias.requires_grad_(False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.relu(layer(x)) + x
        return self.head(x).float().square().mean()


def train(stage: int, directory: Path) -> None:
    config = {
        "train_micro_batch_size_per_gpu": 1,
        "bf16": {"enabled": True},
        "zero_allow_untested_optimizer": True,
        "zero_optimization": {"stage": stage, "sub_group_size": 700},
    }
    with deepspeed.zero.Init(config_dict_or_path=config) if stage == 3 else contextlib.nullcontext():
        model = Model()
    trained = [param for param in model.parameters() if param.requires_grad]
    engine, *_ = deepspeed.initialize(model=model, config=config, optimizer=torch.optim.AdamW(trained, lr=1e-3))
    for _ in range(3):
        engine.backward(engine(torch.randn(2, SIDE, dtype=torch.bfloat16)))
        engine.step()
    engine.save_checkpoint(str(directory / f"stage{stage}"))
    if stage > 0 and engine.global_rank == 0:
        state = get_fp32_state_dict_from_zero_checkpoint(str(directory / f"stage{stage}"))
        shapes = {name: list(tensor.shape) for name, tensor in state.items()}
        (directory / f"stage{stage}.json").write_text(json.dumps(shapes))
    engine.destroy()


if __name__ == "__main__":
    # Gloo does here what is compiled for minutes otherwise.
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    deepspeed.init_distributed(dist_backend="gloo", verbose=False)
    torch.manual_seed(0)
    for number in sys.argv[2:]:
        train(int(number), Path(sys.argv[1]))
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()

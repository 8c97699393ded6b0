"""Checkpoints as DeepSpeed 0.19 writes them, made with torch.save: the structure of real ones, without the training."""

from __future__ import annotations

import math
import shutil
import zipfile
from collections import OrderedDict
from pathlib import Path

import torch

# A sub-group (stage 3) or group (stages 1 and 2) each.
GROUPS = (
    OrderedDict({"layers.0.weight": (16, 16), "layers.0.bias": (16,), "layers.1.weight": (7, 3)}),
    OrderedDict({"layers.2.weight": (40, 10), "head.bias": (5,)}),
)
FROZEN = {"embed.weight": (11, 4)}
STEP = 500
# In a pickle the number alone stands for deepspeed.runtime.zero.config.ZeroStageEnum(3).


def model_state(stage, ranks, rank, groups=GROUPS, step=STEP, **changes):
    shapes = [OrderedDict((name, torch.Size(shape)) for name, shape in group.items()) for group in groups]
    module = OrderedDict(scale=torch.ones(3))
    for name, shape in [*(item for group in groups for item in group.items()), *FROZEN.items()]:
        module[name] = torch.zeros((0,) if stage == 3 else shape, dtype=torch.bfloat16)
    frozen = {name: math.ceil(math.prod(shape) / ranks) for name, shape in FROZEN.items()}
    state = {
        "module": module,
        "buffer_names": ["scale"],
        "optimizer": None,
        "param_shapes": shapes,
        "frozen_param_shapes": OrderedDict((name, torch.Size(shape)) for name, shape in FROZEN.items()),
        "shared_params": {"lm_head.weight": "layers.0.weight"},
        "frozen_param_fragments": OrderedDict(
            (name, torch.full((part,), float(rank), dtype=torch.bfloat16)) for name, part in frozen.items()
        ),
        "lr_scheduler": None,
        "global_steps": step,
        "global_samples": step * 4,
        "dp_world_size": ranks,
        "mp_world_size": 1,
        "ds_config": {"zero_optimization": {"stage": stage}},
        "ds_version": "0.19.8",
    }
    return {**state, **changes}


def optimizer_state(stage, ranks, groups=GROUPS, step=STEP, empty=()):
    """The groups of `empty` are those of stock DeepSpeed on NVMe."""
    flat = []
    for index, group in enumerate(groups):
        elements = sum(math.ceil(math.prod(shape) / ranks) for shape in group.values())
        flat.append(torch.randn(0 if index in empty else elements))
    base = {
        "state": {
            index: {"step": torch.tensor(float(step)), "exp_avg": torch.rand_like(t), "exp_avg_sq": torch.rand_like(t)}
            for index, t in enumerate(flat)
            if index not in empty
        },
        "param_groups": [{"lr": 1e-3, "betas": (0.9, 0.999), "params": list(range(len(flat)))}],
    }
    common = {"zero_stage": stage, "loss_scaler": None, "overflow": False}
    state = (
        {**common, "partition_count": ranks, "optimizer_state_dict": base, "fp32_flat_groups": flat}
        if stage == 3
        else {
            **common,
            "partition_count": [ranks] * len(groups),
            "base_optimizer_state": base,
            "single_partition_of_fp32_groups": flat,
        }
    )
    return {"optimizer_state_dict": state, "ds_config": {}, "ds_version": "0.19.8"}


def write_checkpoint(directory, stage=3, ranks=2, step=STEP, tag=None, **optimizer):
    """A save directory with `latest`; the folder of the tag."""
    directory, tag = Path(directory), tag or f"global_step{step}"
    folder = directory / tag
    folder.mkdir(parents=True)
    for rank in range(ranks):
        if stage == 3:
            torch.save(
                model_state(stage, ranks, rank, step=step), folder / f"zero_pp_rank_{rank}_mp_rank_00_model_states.pt"
            )
        name = f"bf16_zero_pp_rank_{rank}_mp_rank_00_optim_states.pt"
        torch.save(optimizer_state(stage, ranks, step=step, **optimizer), folder / name)
    if stage < 3:
        torch.save(model_state(stage, ranks, 0, step=step), folder / "mp_rank_00_model_states.pt")
    (directory / "latest").write_text(tag)
    return folder


def write_universal(directory, ranks=2):
    """What ds_to_universal.py makes of a checkpoint of stage 3: a tag beside the other. Its folder."""
    source = write_checkpoint(directory, ranks=ranks)
    folder = Path(directory) / "universal"
    folder.mkdir()
    for file in source.glob("*_model_states.pt"):
        shutil.copy(file, folder)
    for name, shape in [item for group in GROUPS for item in group.items()]:
        (folder / "zero" / name).mkdir(parents=True)
        for state in ("fp32", "exp_avg", "exp_avg_sq"):
            torch.save(torch.rand(math.prod(shape)), folder / "zero" / name / f"{state}.pt")
    torch.save(optimizer_state(3, ranks)["optimizer_state_dict"], folder / "zero" / "optimizer_state.pt")
    (Path(directory) / "latest_universal").write_text("universal")
    return folder


def records_of(path):
    """Name, offset of the first byte and size of each record that has bytes, as they lie."""
    with zipfile.ZipFile(path) as archive, open(path, "rb") as file:
        for info in archive.infolist():
            file.seek(info.header_offset + 26)
            lengths = file.read(4)
            name_bytes, extra_bytes = int.from_bytes(lengths[:2], "little"), int.from_bytes(lengths[2:], "little")
            if info.file_size:
                yield (
                    info.filename.partition("/")[2],
                    info.header_offset + 30 + name_bytes + extra_bytes,
                    info.file_size,
                )


def sign(folder, save):
    """As penstock does (checkpoint/signature.py), in each file of a folder of a tag."""
    for file in folder.glob("*.pt"):
        rank = file.name.partition("pp_rank_")[2].partition("_")[0] or "0"
        with zipfile.ZipFile(file, "a") as archive:
            prefix = archive.namelist()[0].partition("/")[0]
            archive.writestr(f"{prefix}/penstock", f"{save} {rank}")


def exchange(one, other):
    beside = one.with_suffix(".beside")
    one.rename(beside)
    other.rename(one)
    beside.rename(other)


def flip(path, offset):
    with open(path, "r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 0x10]))


def replace_pickle(path, pickle, storages=None):
    """A file of torch.save's layout with this data.pkl; Python's zipfile computes the CRC-32s."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("archive/data.pkl", pickle)
        archive.writestr("archive/byteorder", "little")
        for key, content in (storages or {}).items():
            archive.writestr(f"archive/data/{key}", content)
        archive.writestr("archive/version", "3\n")


# What stock DeepSpeed leaves of parameters that it swapped: tensors without elements.
WHOLE = {"model.layers.0.weight": ("BF16", [8, 8], 128), "model.layers.1.weight": ("BF16", [8], 16)}
STUBS = {"model.layers.0.weight": ("BF16", [0], 0), "model.layers.1.weight": ("BF16", [0], 0)}


def shard(rank, kind="model", stage=3):
    if kind == "optim":
        return f"bf16_zero_pp_rank_{rank}_mp_rank_00_optim_states.pt"
    return f"zero_pp_rank_{rank}_mp_rank_00_model_states.pt" if stage == 3 else "mp_rank_00_model_states.pt"

"""A checkpoint saved through penstock, converted by DeepSpeed's ds_to_universal.py, is loaded by any number of ranks as
with `device: cpu`, to the last digit.
"""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from checkpoint_player import Play, Played, play

UNIVERSAL = {"checkpoint__load_universal": True}
TORCH_ADAM = {"type": "AdamW", "params": {"lr": 1e-3, "weight_decay": 0.01, "torch_adam": True}}
PLACES: dict[str, dict[str, Any]] = {
    "fp32": {"bf16": None},
    "states in RAM": {"zero_optimization__offload_optimizer": {"device": "cpu"}},
    "parameters in RAM": {"zero_optimization__offload_param": {"device": "cpu"}},
    "one sub-group": {"zero_optimization__sub_group_size": 1_000_000_000},
    "torch AdamW": {"optimizer": TORCH_ADAM, "zero_allow_untested_optimizer": True},
    "torch AdamW, many sub-groups": {"optimizer": TORCH_ADAM, "zero_optimization__sub_group_size": 1},
}


def train(device: str, directory: Path, swap: str, *steps: str, ranks: int = 1, **changes: Any) -> Played:
    played = play(Play(device, str(directory), str(directory.parent / swap), steps, is_uneven=True, **changes), ranks)
    assert played.exits == [0] * ranks, played.output
    return played


def save(directory: Path, ranks: int = 1, **changes: Any) -> None:
    """Trains two steps, saves, converts."""
    run = train("nvme", directory, "saving", "train:2", "save:good", "convert:good", ranks=ranks, changes=changes)
    assert not run.failures


def both(directory: Path, *steps: str, ranks: int = 1, **changes: Any) -> tuple[Played, Played]:
    """Through penstock, and stock with device cpu; what they have seen is equal, what they raise as well."""
    runs = [
        train(device, directory, device, *steps, ranks=ranks, changes={**UNIVERSAL, **changes})
        for device in ("nvme", "cpu")
    ]
    assert runs[0].failures == runs[1].failures
    ours, stock = ([line for line in run.output.split("\n") if line.startswith(("KEYS", "CLIENT"))] for run in runs)
    assert sorted(ours) == sorted(stock), "what load_checkpoint() returns"
    for step in steps:
        if not step.startswith(("load", "weights", "module")):
            assert runs[0].seen(step) == runs[1].seen(step)
    return runs[0], runs[1]


@pytest.mark.parametrize(
    ("saving", "loading"),
    [(1, 1), *(pytest.param(*ranks, marks=pytest.mark.deep) for ranks in ((1, 2), (2, 1), (2, 2), (2, 3), (3, 2)))],
)
def test_ranks(compiled: None, tmp_path: Path, saving: int, loading: int) -> None:
    save(tmp_path / "saved", saving)
    ours, _ = both(tmp_path / "saved", "load", "train:3", "see", ranks=loading)
    assert not ours.failures
    assert "CLIENT [2]" in ours.output and "penstock: loaded" in ours.output


@pytest.mark.deep
@pytest.mark.parametrize("place", PLACES)
def test_places(compiled: None, tmp_path: Path, place: str) -> None:
    """Wherever states and weights lie; into an engine that has trained already."""
    save(tmp_path / "saved", **PLACES[place])
    ours, _ = both(tmp_path / "saved", "train:1", "load", "train:3", "see", ranks=2, **PLACES[place])
    assert not ours.failures


@pytest.mark.deep
def test_where_the_error_of_a_step_is_caught(compiled: None, tmp_path: Path) -> None:
    """The error's traceback holds the optimizer's states, of which there is nothing to be read."""
    save(tmp_path / "saved")
    runs = [
        train("nvme", tmp_path / "saved", "nvme", *steps, "train:3", "see", changes=UNIVERSAL)
        for steps in (("train:4", "load"), ("train:4", "rescue"))
    ]
    assert not runs[0].failures and not runs[1].failures
    for step in ("train:3", "see"):
        assert runs[0].seen(step) == runs[1].seen(step)


@pytest.mark.parametrize(
    "place", [pytest.param(place, marks=pytest.mark.deep) for place in PLACES][:-1] + [*PLACES][-1:]
)
def test_saved_again_and_resumed(compiled: None, tmp_path: Path, place: str) -> None:
    """An ordinary checkpoint of a run that began with a universal one: torch's sub-groups share their step count."""
    save(tmp_path / "saved", **PLACES[place])
    resumed = []
    for device in ("nvme", "cpu"):
        before = ["load", "train:2", f"save:{device}"]
        train(device, tmp_path / "saved", device, *before, changes={**UNIVERSAL, **PLACES[place]})
        run = train(device, tmp_path / "saved", device, f"load:{device}", "train:3", "see", changes=PLACES[place])
        assert not run.failures
        resumed.append([run.seen(step) for step in ("train:3", "see")])
    assert resumed[0] == resumed[1]


@pytest.mark.deep
@pytest.mark.parametrize("part", ["weights", "module"])
@pytest.mark.parametrize("from_fp32", [True, False])
def test_parts(compiled: None, tmp_path: Path, part: str, from_fp32: bool) -> None:
    """load_optimizer_states=False and load_module_only=True, into an engine that has trained otherwise."""
    save(tmp_path / "saved")
    changes = {"zero_optimization__load_from_fp32_weights": from_fp32}
    ours, _ = both(tmp_path / "saved", "train:1", part, "see", "train:2", "see:after", ranks=2, **changes)
    assert not ours.failures


def linked_copy(directory: Path, name: str) -> Path:
    """Another tag with the same files, which are not to be written into."""
    return Path(shutil.copytree(directory / "universal", directory / name, copy_function=os.link))


def write_own(file: Path, content: bytes | bytearray) -> None:
    file.unlink()
    file.write_bytes(content)


@pytest.mark.deep
def test_what_is_damaged_is_found_and_changes_nothing(compiled: None, tmp_path: Path) -> None:
    """One byte of each of 20 records, files that are missing, cut short or of another shape."""
    from penstock._core import archive_records

    saved = tmp_path / "saved"
    save(saved)
    draw = random.Random(7)
    tags: dict[str, str] = {}
    for number in range(20):
        tag = linked_copy(saved, f"flip{number}")
        file = draw.choice(sorted(path for path in (tag / "zero").rglob("*.pt") if path.parent.name != "zero"))
        name, offset, nbytes = draw.choice(
            [
                (name, offset, nbytes)
                for name, offset, nbytes, _ in archive_records(bytes(file))
                if nbytes > 0 and (name.startswith("data/") or name == "data.pkl")
            ]
        )
        content = bytearray(file.read_bytes())
        content[offset + draw.randrange(nbytes)] ^= 1 << draw.randrange(8)
        write_own(file, content)
        tags[tag.name] = f"record {name} of {file} is damaged"
    mix = Path("zero") / "mix.weight"
    for file in (Path("zero") / "optimizer_state.pt", mix / "exp_avg.pt", mix / "fp32.pt"):
        missing = linked_copy(saved, f"missing-{file.stem}")
        (missing / file).unlink()
        tags[missing.name] = f"there is no {missing / file}"
        cut = linked_copy(saved, f"cut-{file.stem}")
        content = (cut / file).read_bytes()
        write_own(cut / file, content[: len(content) * 2 // 3])
        tags[cut.name] = str(cut / file)
    other = linked_copy(saved, "other")
    (other / mix / "exp_avg_sq.pt").unlink()
    torch.save(torch.zeros(7), other / mix / "exp_avg_sq.pt")
    tags["other"] = f"{other / mix / 'exp_avg_sq.pt'} has 7 elements"
    tags["good"] = "is no universal checkpoint: there is no "
    loads = [f"load:{tag}" for tag in tags]
    steps = ("train:1", "see", *loads, "train:1", "see:after", "load:universal", "see:loaded")
    run = train("nvme", saved, "damaged", *steps, changes=UNIVERSAL)
    plain = train("nvme", saved, "plain", "train:1", "train:1", "see:after")
    assert len(run.failures) == len(tags), run.output
    for line, sentence in zip(run.failures, tags.values(), strict=True):
        assert sentence in line
    assert run.seen("see:after") == plain.seen("see:after")
    assert "CLIENT [2]" in run.output


@pytest.mark.deep
def test_a_model_of_other_shapes_is_refused(compiled: None, tmp_path: Path) -> None:
    """It has a layer more."""
    save(tmp_path / "saved")
    steps = ("train:1", "load:universal", "train:1", "see")
    run = train("nvme", tmp_path / "saved", "other", *steps, layers=5, changes=UNIVERSAL)
    plain = train("nvme", tmp_path / "saved", "plain", "train:1", "train:1", "see", layers=5)
    assert (
        len(run.failures) == 1
        and "the universal checkpoint is of another model, or not whole: there is no" in run.failures[0]
    )
    assert run.seen("see") == plain.seen("see")

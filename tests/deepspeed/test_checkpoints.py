"""A checkpoint saved through penstock is that of `device: cpu`; what is damaged, missing or cut changes nothing."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from checkpoint_player import Play, Played, play
from checkpoints import copy_of, differences

RANKS = [1, pytest.param(2, marks=pytest.mark.deep)]


def train(device: str, directory: Path, *steps: str, ranks: int = 1, **changes: Any) -> Played:
    played = play(Play(device, str(directory), f"{directory}.swap", steps, **changes), ranks)
    assert played.exits == [0] * ranks, played.output
    return played


@pytest.mark.parametrize("ranks", RANKS)
def test_it_is_that_of_device_cpu_and_both_resume_both(compiled: None, tmp_path: Path, ranks: int) -> None:
    saved = {}
    for device in ("nvme", "cpu"):
        saved[device] = train(device, tmp_path / device, "train:2", "save", "train:3", "see", ranks=ranks)
        assert not saved[device].failures
    assert differences(tmp_path / "nvme" / "global_step2", tmp_path / "cpu" / "global_step2") == []
    assert (tmp_path / "nvme" / "latest").read_text() == (tmp_path / "cpu" / "latest").read_text() == "global_step2"
    assert sorted(path.name for path in (tmp_path / "nvme").iterdir()) == sorted(
        path.name for path in (tmp_path / "cpu").iterdir()
    )
    assert "penstock: saved" in saved["nvme"].output
    resumed = {}
    for device in ("nvme", "cpu"):
        for origin in ("nvme", "cpu"):
            run = train(device, tmp_path / origin, "load", "train:3", "see", ranks=ranks)
            assert "CLIENT [2]" in run.output, run.output
            resumed[device, origin] = run.seen("train:3") + run.seen("see")
    uninterrupted = saved["nvme"].seen("train:3") + saved["nvme"].seen("see")
    assert resumed["nvme", "nvme"] == uninterrupted
    assert resumed["nvme", "cpu"] == uninterrupted
    assert resumed["cpu", "nvme"] == resumed["cpu", "cpu"], "as stock resumes its own"


@pytest.fixture
def checkpoint(compiled: None, tmp_path: Path) -> Path:
    """One of two steps, its tag `good`."""
    run = train("nvme", tmp_path / "saved", "train:2", "save:good")
    assert not run.failures
    return tmp_path / "saved"


OPTIMIZER = "bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt"
MODEL = "zero_pp_rank_0_mp_rank_00_model_states.pt"


def test_what_is_damaged_is_found_and_changes_nothing(checkpoint: Path) -> None:
    """One byte of each of 20 records, files that are missing, cut short or of another model."""
    from penstock._core import archive_records

    draw = random.Random(7)
    tags: dict[str, str] = {}
    records = [
        (file, name, offset, nbytes)
        for file in (OPTIMIZER, MODEL)
        for name, offset, nbytes, _ in archive_records(bytes(checkpoint / "good" / file))
        if nbytes > 0 and (name.startswith("data/") or name == "data.pkl")
    ]
    for number, (file, name, offset, nbytes) in enumerate(draw.sample(records, min(20, len(records)))):
        tag = copy_of(checkpoint, "good", f"flip{number}")
        with (tag / file).open("r+b") as opened:
            at = offset + draw.randrange(nbytes)
            opened.seek(at)
            byte = opened.read(1)
            opened.seek(at)
            opened.write(bytes([byte[0] ^ (1 << draw.randrange(8))]))
        tags[tag.name] = f"record {name} of {tag / file} is damaged"
    missing = copy_of(checkpoint, "good", "missing")
    (missing / OPTIMIZER).unlink()
    tags["missing"] = f"there is no {missing / OPTIMIZER}"
    for file in (OPTIMIZER, MODEL):
        cut = copy_of(checkpoint, "good", f"cut-{file[:4]}")
        with (cut / file).open("r+b") as opened:
            opened.truncate((cut / file).stat().st_size * 2 // 3)
        tags[cut.name] = str(cut / file)
    for file, other, kind in ((OPTIMIZER, MODEL, "of optimizer states"), (MODEL, OPTIMIZER, "of a model's states")):
        taken = copy_of(checkpoint, "good", f"other-{file[:4]}")
        shutil.copyfile(checkpoint / "good" / other, taken / file)
        tags[taken.name] = f"{taken / file} is not the file {kind}: it has no "
    stock = copy_of(checkpoint, "good", "stock")
    states = torch.load(stock / OPTIMIZER, weights_only=False)
    groups = states["optimizer_state_dict"]["fp32_flat_groups"]
    groups[:] = [torch.empty(0) for _ in groups]
    torch.save(states, stock / OPTIMIZER)
    tags["stock"] = "DeepSpeed has saved it from NVMe by itself"
    tags["absent"] = f"there is no checkpoint at {checkpoint / 'absent'}"
    assert len(tags) >= 15
    loads = [f"load:{tag}" for tag in tags]
    run = train("nvme", checkpoint, "train:1", "see", *loads, "train:1", "see:after", "load:good", "see:good")
    plain = train("nvme", checkpoint, "train:1", "train:1", "see:after")
    failures = run.failures
    assert len(failures) == len(tags), run.output
    for line, sentence in zip(failures, tags.values(), strict=True):
        assert sentence in line
    assert run.seen("see:after") == plain.seen("see:after")
    assert "CLIENT [2]" in run.output


def test_weights_alone_are_checked_too(checkpoint: Path) -> None:
    """DeepSpeed takes them from the masters of the tag that `latest` names, and looks at no CRC."""
    from penstock._core import archive_records

    file = copy_of(checkpoint, "good", "flip") / OPTIMIZER
    name, offset, *_ = max(archive_records(bytes(file)), key=lambda record: record[2])
    with file.open("r+b") as opened:
        opened.seek(offset + 7)
        opened.write(b"\x7f")
    (checkpoint / "latest").write_text("flip")
    run = train("nvme", checkpoint, "train:1", "weights:flip", "weights:good", "train:1", "see")
    plain = train("nvme", checkpoint, "train:1", "train:1", "see")
    assert len(run.failures) == 2 and all(f"record {name} of {file} is damaged" in line for line in run.failures)
    assert "[weights-of-latest] DeepSpeed loads the weights of flip" in run.output
    assert run.seen("see") == plain.seen("see")


@pytest.mark.deep
def test_more_ranks_than_saved_it_are_refused(checkpoint: Path) -> None:
    run = train("nvme", checkpoint, "load:good", "weights:good", ranks=2)
    assert len(run.failures) == 4
    assert any("was saved by 1 rank, and this run has 2: convert it" in line for line in run.failures)
    assert not any("is not whole" in line for line in run.failures)


def test_another_model_is_refused(checkpoint: Path) -> None:
    run = train("nvme", checkpoint, "train:1", "load:good", "train:1", "see", layers=3)
    plain = train("nvme", checkpoint, "train:1", "train:1", "see", layers=3)
    assert len(run.failures) == 1 and "it was saved with another model" in run.failures[0]
    assert run.seen("see") == plain.seen("see")


@pytest.mark.parametrize(("saved", "loaded"), [("bf16", "fp32"), pytest.param("fp32", "bf16", marks=pytest.mark.deep)])
def test_another_precision_is_refused(compiled: None, tmp_path: Path, saved: str, loaded: str) -> None:
    """What the sentence advises can be done."""
    changes: dict[str, dict[str, Any]] = {"bf16": {}, "fp32": {"bf16": None}}
    directory = tmp_path / "saved"
    first = train("nvme", directory, "train:2", "save:good", "convert:good", changes=changes[saved])
    run = train("nvme", directory, "train:1", "load:good", "train:1", "see", "weights:good", changes=changes[loaded])
    plain = train("nvme", directory, "train:1", "train:1", "see", changes=changes[loaded])
    universal = {**changes[loaded], "checkpoint__load_universal": True}
    converted = train("nvme", directory, "load:universal", "train:1", changes=universal)
    assert not first.failures and not converted.failures
    assert (
        len(run.failures) == 1
        and f"was saved by a run in {saved if saved == 'bf16' else 'fp16 or fp32'}" in run.failures[0]
    )
    assert "`ds_to_universal.py`" in run.failures[0] and "`load_optimizer_states=False`" in run.failures[0]
    assert run.seen("see") == plain.seen("see")
    assert run.output.count("CLIENT [2]") == converted.output.count("CLIENT [2]") == 1


def test_another_order_of_its_parameters_is_refused(checkpoint: Path) -> None:
    """All lengths are the same: masters and moments would go to other parameters."""
    run = train("nvme", checkpoint, "train:1", "load:good", "train:1", "see", is_reversed=True)
    plain = train("nvme", checkpoint, "train:1", "train:1", "see", is_reversed=True)
    assert len(run.failures) == 1 and "another order of parameters: it has layers.0." in run.failures[0]
    assert run.seen("see") == plain.seen("see")


@pytest.mark.parametrize(
    ("saved", "ours", "expected"),
    [
        ("a b c", "a b c", None),
        ("a b c", "x y z", None),
        ("a b c", "a b z", None),
        ("a b c", "a c b", ("b", "c")),
        ("a b c", "b a z", ("a", "b")),  # c has been renamed, and that is not all
        ("a b c", "x a c", ("a", "x")),
        ("a b c", "a b", ("c", "b")),
        ("a b", "a b c", ("b", "c")),
    ],
)
def test_which_parameters_are_the_same(saved: str, ours: str, expected: tuple[str, str] | None) -> None:
    from penstock.deepspeed.checkpoint.loading import other_parameter

    theirs, own = ([(name, (4, 4)) for name in names.split()] for names in (saved, ours))
    found = other_parameter(theirs, own)
    assert (found and tuple(name for name, _ in found)) == expected
    assert other_parameter([("a", (4, 2))], [("b", (2, 4))]) == (("a", (4, 2)), ("b", (2, 4)))


def test_files_of_two_saves_are_refused(checkpoint: Path) -> None:
    train("nvme", checkpoint, "train:1", "save:other")
    for tag, file in (("model", MODEL), ("states", OPTIMIZER)):
        shutil.copyfile(checkpoint / "other" / file, copy_of(checkpoint, "good", tag) / file)
    run = train("nvme", checkpoint, "load:model", "load:states", "load:good", "see")
    assert [line.rpartition(" are ")[2] for line in run.failures] == ["of two saves: they do not belong together"] * 2
    assert run.seen("see") == train("nvme", checkpoint, "load:good", "see").seen("see")


@pytest.mark.deep
@pytest.mark.parametrize(
    "file", ["bf16_zero_pp_rank_{}_mp_rank_00_optim_states.pt", MODEL.replace("rank_0", "rank_{}", 1)]
)
def test_files_of_two_ranks_that_were_exchanged_are_refused(compiled: None, tmp_path: Path, file: str) -> None:
    train("nvme", tmp_path / "saved", "train:2", "save:good", ranks=2)
    tag = tmp_path / "saved" / "good"
    (tag / file.format(0)).rename(tag / "kept")
    (tag / file.format(1)).rename(tag / file.format(0))
    (tag / "kept").rename(tag / file.format(1))
    run = train("nvme", tmp_path / "saved", "load:good", ranks=2)
    assert len(run.failures) == 2
    assert all(f"{tag / file.format(0)} was saved by rank 1" in line for line in run.failures), run.failures


def test_a_tag_that_is_there_is_replaced_at_once(checkpoint: Path) -> None:
    (checkpoint / "good" / "notes.txt").write_text("mine")
    (checkpoint / ".good.partial").mkdir()
    (checkpoint / ".good.partial" / "left").write_text("of a save that was killed")
    run = train("nvme", checkpoint, "load:good", "train:1", "save:good", "see", "load:good", "train:1", "see:after")
    assert not run.failures
    assert "CLIENT [3]" in run.output
    assert sorted(path.name for path in (checkpoint / "good").iterdir()) == sorted([OPTIMIZER, MODEL, "notes.txt"])
    assert not list(checkpoint.glob(".*"))


@pytest.mark.deep
def test_memory_that_keeps_all_of_it(compiled: None, tmp_path: Path) -> None:
    """The states in RAM: saved from there, and loaded to there."""
    run = train("nvme", tmp_path / "saved", "train:2", "save", "train:2", "see", ram_bytes="1GiB")
    assert not run.failures
    again = train("nvme", tmp_path / "saved", "train:1", "load", "train:2", "see", ram_bytes="1GiB")
    assert again.seen("see") == run.seen("see")


@pytest.mark.deep
@pytest.mark.parametrize("part", ["weights", "module"])
def test_parts_are_loaded_as_with_device_cpu(checkpoint: Path, part: str) -> None:
    """load_optimizer_states=False and load_module_only=True, into an engine that has trained otherwise."""
    (checkpoint / "latest").write_text("good")
    runs = {
        device: train(device, checkpoint, "train:1", f"{part}:good", "see", "train:2", "see:after")
        for device in ("nvme", "cpu")
    }
    assert runs["nvme"].failures == runs["cpu"].failures
    for after in ("see", "train:2", "see:after"):
        assert runs["nvme"].seen(after) == runs["cpu"].seen(after)

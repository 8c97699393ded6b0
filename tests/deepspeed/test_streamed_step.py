"""The step over chunks: of many of them, cut short, checked against the compiled op, and given up for it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from checkpoints import differences
from chunked_training import train


@pytest.mark.deep
@pytest.mark.parametrize("ranks", [1, 2])
def test_checkpoints_of_many_chunks(compiled: None, tmp_path: Path, ranks: int) -> None:
    saved = {
        device: train(device, tmp_path / device, "train:2", "save", "train:3", "see", ranks=ranks, is_uneven=True)
        for device in ("nvme", "cpu")
    }
    tags = (tmp_path / device / "global_step2" for device in ("nvme", "cpu"))
    assert differences(*tags, has_padding=ranks == 2) == []
    seen = {device: run.seen("train:3") + run.seen("see") for device, run in saved.items()}
    assert seen["nvme"] == seen["cpu"]
    resumed = train("nvme", tmp_path / "cpu", "load", "train:3", "see", ranks=ranks, is_uneven=True)
    assert not resumed.failures
    assert resumed.seen("train:3") + resumed.seen("see") == seen["nvme"]


@pytest.mark.deep
@pytest.mark.parametrize("ranks", [1, 2])
def test_a_universal_checkpoint_into_many_chunks(compiled: None, tmp_path: Path, ranks: int) -> None:
    """The matrix has padding in two ranks, which runs over the ends of chunks."""
    train("cpu", tmp_path / "saved", "train:2", "save:good", "convert:good", is_uneven=True)
    changes = {"checkpoint": {"load_universal": True}}
    runs = {
        device: train(
            device, tmp_path / "saved", "load:universal", "train:3", "see", ranks=ranks, is_uneven=True, changes=changes
        )
        for device in ("nvme", "cpu")
    }
    seen = {device: run.seen("train:3") + run.seen("see") for device, run in runs.items()}
    assert not runs["nvme"].failures
    assert seen["nvme"] == seen["cpu"]


def test_a_step_that_fails_half_way(compiled: None, tmp_path: Path) -> None:
    """Its first chunks are updated and the others are not. A checkpoint puts all of it right; also of the first step,
    which has made some of the moments. One of the mixture takes no other's place.
    """
    whole = train("nvme", tmp_path / "whole", "train:2", "save", "train:3", "see")
    later = train("nvme", tmp_path / "whole", "train:4", "break:5", "load", "train:3", "see")
    steps = ("save:broken", "save:global_step2", "load:global_step2", "train:3", "see")
    first = train("nvme", tmp_path / "whole", "break:5", *steps)
    assert [line.partition(":")[0] for line in later.failures] == ["FAILED StorageError"], later.output
    failed, refused = first.failures
    assert failed.startswith("FAILED StorageError:"), first.output
    assert f"{tmp_path / 'whole' / 'global_step2'} is left as it is: the optimizer's last step stopped at" in refused
    for run in (later, first):
        assert run.seen("train:3") + run.seen("see") == whole.seen("train:3") + whole.seen("see")
    assert [run.output.count("[half-step]") for run in (whole, later, first)] == [0, 0, 1]
    assert (tmp_path / "whole" / "broken").is_dir() and (tmp_path / "whole" / "latest").read_text() == "global_step2"


@pytest.mark.deep
@pytest.mark.parametrize(
    "steps",
    [("break:5",), ("train:2", "break:0", "train:1", "break:160")],
    ids=["the first step", "a later one"],
)
def test_a_step_after_one_that_stopped_is_refused(compiled: None, tmp_path: Path, steps: tuple[str, ...]) -> None:
    """It would update some parameters twice. One that has stopped before its first chunk has changed nothing."""
    whole = train("nvme", tmp_path, "train:2", "save", "train:3", "see")
    run = train("nvme", tmp_path, *steps, "try", "try", "load:global_step2", "train:3", "see")
    stopped, *refused = [line for line in run.failures if "the drive of this test" not in line] or [""]
    assert run.output.count("the drive of this test fails; the step stopped at parameter 'layers.") == 1, run.output
    assert len([stopped, *refused]) == 2
    for line in (stopped, *refused):
        assert line.startswith("FAILED Error: the optimizer's last step stopped at parameter 'layers."), line
        assert "the parameters before it are updated, those behind it are not" in line
        assert line.endswith("load a checkpoint first")
    assert run.seen("train:3") + run.seen("see") == whole.seen("train:3") + whole.seen("see")


@pytest.mark.deep
def test_a_load_where_the_error_of_a_step_is_caught(compiled: None, tmp_path: Path) -> None:
    """The error's traceback holds the optimizer's states, of which there is nothing to be read."""
    whole = train("nvme", tmp_path, "train:2", "save", "train:3", "see")
    run = train("nvme", tmp_path, "train:4", "rescue:global_step2", "train:3", "see")
    assert not run.failures
    assert run.seen("train:3") + run.seen("see") == whole.seen("train:3") + whole.seen("see")


@pytest.mark.deep
@pytest.mark.parametrize("count", [2, 9])
def test_a_first_step_that_is_interrupted_and_tried_again(compiled: None, tmp_path: Path, count: int) -> None:
    """While it declares the moments, some of which exist then."""
    whole = train("nvme", tmp_path, "train:1", "train:3", "see")
    run = train("nvme", tmp_path, f"interrupt:{count}", "train:3", "see")
    assert not run.failures and "INTERRUPTED" in run.output
    assert run.seen("train:3") + run.seen("see") == whole.seen("train:3") + whole.seen("see")


@pytest.mark.deep
def test_a_step_of_whole_sub_groups_that_stopped(compiled: None, tmp_path: Path) -> None:
    changes = {"zero_optimization__sub_group_size": 1_500_000}  # two matrices, and the third
    whole = train("nvme", tmp_path, "train:2", "save", "train:3", "see", equals_op=False, changes=changes)
    steps = ("train:2", "break:0", "train:1", "break:1", "try", "load:global_step2", "train:3", "see")
    run = train("nvme", tmp_path, *steps, equals_op=False, changes=changes)
    sentence = "stopped at parameter 'layers.2.linear.bias' (sub-group 1 of 2, 0 elements of it are updated)"
    assert [sentence in line for line in run.failures] == [False, True, True], run.output
    assert run.failures[2].endswith("load a checkpoint first")
    assert run.seen("train:3") + run.seen("see") == whole.seen("train:3") + whole.seen("see")


@pytest.mark.deep
def test_no_step_follows_a_lost_write(compiled: None, tmp_path: Path) -> None:
    """Some weights or states are older than others, until a checkpoint has been loaded."""
    whole = train("nvme", tmp_path, "train:2", "save", "train:3", "see")
    run = train("nvme", tmp_path, "train:3", "lose", "try", "try", "load:global_step2", "train:3", "see")
    lost, *refused = run.failures
    assert lost == "FAILED StorageError: the drive of this test is full"
    assert len(refused) == 2
    for line in refused:
        assert "a drive has not taken what training wrote" in line and "load a checkpoint before" in line
    assert run.seen("see") == whole.seen("see")


def test_the_proof_finds_another_op(compiled: None) -> None:
    from deepspeed.ops.op_builder import CPUAdamBuilder
    from penstock.deepspeed.cpu_adam import CpuAdam

    def equals_op(op: Any, adam_w_mode: bool) -> bool:
        return CpuAdam.equals_op(SimpleNamespace(ds_opt_adam=op, adam_w_mode=adam_w_mode))

    op = CPUAdamBuilder().load(verbose=False)
    assert equals_op(op, True) and equals_op(op, False)

    class Older:
        """Before 0.19 each call but the first of a step computed the powers of the betas anew."""

        def __init__(self) -> None:
            self.step = 0

        def __getattr__(self, name: str) -> Any:
            return getattr(op, name)

        def adam_update(self, number: int, step: int, lr: float, *rest: Any) -> None:
            if step == self.step:
                op.adam_update(number, 0, lr, *rest[:5], *(tensor.new_empty(0) for tensor in rest[5:]))
            self.step = step
            op.adam_update(number, step, lr, *rest)

    assert not equals_op(Older(), True)


@pytest.mark.deep
def test_the_proof_of_lion_and_adagrad(compiled: None) -> None:
    """Before 0.19.8 Lion's op stepped by another amount, and Adagrad's left weight decay out of what it divides."""
    from deepspeed.ops.op_builder import CPUAdagradBuilder, CPULionBuilder
    from penstock.deepspeed.cpu_adagrad import CpuAdagrad
    from penstock.deepspeed.cpu_lion import CpuLion

    class Other:
        def __init__(self, op: Any) -> None:
            self._op = op

        def __getattr__(self, name: str) -> Any:
            return getattr(self._op, name)

        def lion_update(self, number: int, step: int, lr: float, *rest: Any) -> None:
            self._op.lion_update(number, step, lr * (1 + 2**-20), *rest)

        def adagrad_update(self, number: int, step: int, lr: float, eps: float, decay: float, *rest: Any) -> None:
            self._op.adagrad_update(number, step, lr, eps, 0.0, *rest)

    lion, adagrad = CPULionBuilder().load(verbose=False), CPUAdagradBuilder().load(verbose=False)
    assert CpuLion.equals_op(SimpleNamespace(ds_opt_lion=lion))
    assert not CpuLion.equals_op(SimpleNamespace(ds_opt_lion=Other(lion)))
    assert CpuAdagrad.equals_op(SimpleNamespace(ds_opt_adagrad=adagrad))
    assert not CpuAdagrad.equals_op(SimpleNamespace(ds_opt_adagrad=Other(adagrad)))


@pytest.mark.deep
def test_without_the_proof_whole_sub_groups_are_stepped(compiled: None, tmp_path: Path) -> None:
    runs = {}
    for device, is_equal in (("cpu", True), ("nvme", True), ("nvme", False)):
        run = train(device, tmp_path / f"{device}{is_equal}", "train:4", "see", equals_op=is_equal)
        runs[device, is_equal] = run.seen("train:4") + run.seen("see")
        assert ("a whole sub-group at a time: DeepSpeed's compiled op" in run.output) == (not is_equal)
    assert runs["nvme", True] == runs["nvme", False] == runs["cpu", True]


def test_ranges_of_a_state(tmp_path: Path) -> None:
    """Of one chunk, of several, over their ends; as they are cut and as they are not."""
    import torch
    from penstock._core import SwapEngine
    from penstock.deepspeed.sub_group import SubGroup

    engine = SwapEngine("{}", "test")
    space = engine.open_namespace("states", [str(tmp_path)])
    content = torch.arange(1000, dtype=torch.float32)
    for number, chunk_numel in enumerate((128, 1000, 4096)):
        group = SubGroup(engine, space, f"group {number}", 1000, chunk_numel)
        group.write("master", [content[:10], content[10:10], content[10:777], content[777:]], torch.float32)
        group.put("exp_avg", -content)
        for begin, numel in ((0, 1000), (0, 128), (127, 2), (300, 500), (999, 1), (1000, 0)):
            wanted = content[begin : begin + numel]
            assert torch.equal(group.read("master", torch.float32, begin, numel), wanted)
            assert torch.equal(group.read("exp_avg", torch.float32, begin, numel), -wanted)
            pieces = list(group.ranges("master", begin, numel))
            assert sum(count for _, _, count in pieces) == numel
            assert [before for _, before, _ in pieces] == sorted({before for _, before, _ in pieces})
    engine.close()


@pytest.mark.parametrize("narrow", [False, True])
def test_ranges_that_are_changed(tmp_path: Path, narrow: bool) -> None:
    """Within a chunk, over its ends, all of one; as floats, and in blocks of 8 bits."""
    import torch
    from penstock._core import SwapEngine
    from penstock.deepspeed.sub_group import SubGroup

    engine = SwapEngine("{}", "test")
    space = engine.open_namespace("states", [str(tmp_path)])
    for number, chunk_numel in enumerate((512, 2000, 4096)):
        group = SubGroup(engine, space, f"group {number}", 2000, chunk_numel)
        if narrow:
            group.segments = [(1024, "8bit", 0), (976, "fp32", 0)]
        group.put("exp_avg", torch.linspace(-1, 1, 2000))
        for begin, numel in ((0, 2000), (0, 512), (511, 2), (300, 1100), (1999, 1), (2000, 0)):
            expected = group.read("exp_avg", torch.float32)
            change = torch.full((numel,), 0.5)  # the largest of its blocks, so exact in 8 bits
            group.write_range("exp_avg", begin, change)
            found = group.read("exp_avg", torch.float32)
            assert torch.equal(found[begin : begin + numel], change)
            blocks = slice(begin // 256 * 256, -(-(begin + numel) // 256) * 256)  # of which some elements have changed
            found[blocks] = expected[blocks] = 0
            assert torch.equal(found, expected)
    engine.close()

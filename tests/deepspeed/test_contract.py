"""The installed DeepSpeed is the one that penstock knows; one that has moved is refused with what has moved."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from penstock.deepspeed import contract


def test_the_installed_surface_is_known() -> None:
    report = contract.compare()
    assert report.differences == []
    if report.version in contract.TESTED_VERSIONS:
        assert report.changed_bodies == []


def test_every_call_of_deepspeed_was_found() -> None:
    """A scan that sees nothing would find no differences either."""
    import ast

    root = contract._installed_root()
    calls = [
        call
        for name in contract._FILES
        for call in contract.calls_on_swappers(name, ast.parse((root / name).read_text()))
    ]
    methods = {(call.owner, call.method) for call in calls}
    assert ("nvme_swapper", "swap_in") in methods and ("param_swapper", "get_buffer") in methods
    assert ("optimizer_swapper", "swap_in_optimizer_state") in methods
    assert len(calls) >= 30


@pytest.fixture
def moved(tmp_path: Path) -> Path:
    """A copy of DeepSpeed's runtime that a test may change."""
    copy = tmp_path / "runtime"
    root = contract._installed_root()
    for name in contract._FILES:
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / name, copy / name)
    return copy


def change(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def test_a_new_method_is_a_difference(moved: Path) -> None:
    change(moved / "zero/stage3.py", "self.optimizer_swapper.init_timers()", "self.optimizer_swapper.begin(epoch=1)")
    differences = contract.compare(moved).differences
    assert any("optimizer_swapper.begin(epoch)" in line and "new to penstock" in line for line in differences)


def test_new_arguments_are_a_difference(moved: Path) -> None:
    change(
        moved / "zero/partitioned_param_coordinator.py",
        "nvme_swapper.swap_in(swap_in_params, async_op=True)",
        "nvme_swapper.swap_in(swap_in_params, async_op=True, priority=3)",
    )
    differences = contract.compare(moved).differences
    assert any("priority" in line and "does not fit" in line for line in differences)


def test_places_that_are_patched_must_be_there(moved: Path) -> None:
    change(
        moved / "zero/stage3.py",
        "def _configure_tensor_swapping(self, offload_optimizer_config, aio_config)",
        "def _configure_swapping(self)",
    )
    change(moved / "zero/stage3.py", "grad_partitions_flat_buffer", "flat_gradients")
    (moved / "zero/parameter_offload.py").unlink()
    differences = " | ".join(contract.compare(moved).differences)
    assert "_configure_tensor_swapping" in differences
    assert "grad_partitions_flat_buffer" in differences
    assert "parameter_offload.py is gone" in differences


def test_a_changed_body_is_a_remark_only(moved: Path) -> None:
    change(
        moved / "zero/stage3.py",
        "def _swap_in_sub_group_to_flat_buffer(self, flat_buffer, sub_group_id):\n",
        "def _swap_in_sub_group_to_flat_buffer(self, flat_buffer, sub_group_id):\n        pass\n",
    )
    report = contract.compare(moved)
    assert report.differences == []
    assert any("_swap_in_sub_group_to_flat_buffer" in line for line in report.changed_bodies)

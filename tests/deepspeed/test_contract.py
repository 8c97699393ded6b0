"""The installed DeepSpeed is the one that penstock knows; one that has moved is refused with what has moved."""

from __future__ import annotations

import importlib
import logging
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT
from penstock.deepspeed import contract, installation
from penstock.deepspeed.patch_table import TABLE, Place
from penstock.errors import CompatibilityError


def test_the_installed_surface_is_known() -> None:
    report = contract.compare()
    assert report.differences == []
    if report.version in contract.TESTED_VERSIONS:
        assert report.unknown_texts == [] and report.warning is None


def test_the_documents_table_has_the_tested_versions() -> None:
    rows = re.findall(r"^\| (0[^|]*) \|", (ROOT / "docs" / "DEEPSPEED.md").read_text(), flags=re.M)
    assert set(contract.TESTED_VERSIONS) <= set(", ".join(rows).split(", "))


def test_each_place_of_the_table_is_there_in_the_newest_tested_version() -> None:
    report = contract.compare()
    if report.version != contract.TESTED_VERSIONS[-1]:
        pytest.skip(f"DeepSpeed {report.version} is installed")
    assert report.skipped == []
    assert report.patched == [place for place in TABLE if place.wrap is not None]
    for place in TABLE:
        owner = importlib.import_module(place.module)
        assert hasattr(getattr(owner, place.owner) if place.owner else owner, place.attribute), str(place)


def test_every_call_of_deepspeed_was_found() -> None:
    """A scan that sees nothing would find no differences either."""
    import ast

    root = contract.installed_root()
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
    """A copy of what the table names of DeepSpeed, that a test may change."""
    copy = tmp_path / "deepspeed"
    root = contract.installed_root()
    for name in {*contract._FILES, *(place.file for place in TABLE)}:
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / name, copy / name)
    return copy


def change(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def test_a_new_method_is_a_difference(moved: Path) -> None:
    change(
        moved / "runtime/zero/stage3.py",
        "self.optimizer_swapper.init_timers()",
        "self.optimizer_swapper.begin(epoch=1)",
    )
    differences = contract.compare(moved).differences
    assert any("optimizer_swapper.begin(epoch)" in line and "new to penstock" in line for line in differences)


def test_new_arguments_are_a_difference(moved: Path) -> None:
    change(
        moved / "runtime/zero/partitioned_param_coordinator.py",
        "nvme_swapper.swap_in(swap_in_params, async_op=True)",
        "nvme_swapper.swap_in(swap_in_params, async_op=True, priority=3)",
    )
    differences = contract.compare(moved).differences
    assert any("priority" in line and "does not fit" in line for line in differences)


def test_places_that_are_patched_must_be_there(moved: Path) -> None:
    change(
        moved / "runtime/zero/stage3.py",
        "def _configure_tensor_swapping(self, offload_optimizer_config, aio_config)",
        "def _configure_swapping(self)",
    )
    change(moved / "runtime/zero/stage3.py", "grad_partitions_flat_buffer", "flat_gradients")
    (moved / "runtime/zero/parameter_offload.py").unlink()
    differences = " | ".join(contract.compare(moved).differences)
    assert "_configure_tensor_swapping" in differences
    assert "grad_partitions_flat_buffer" in differences
    assert "parameter_offload.py is gone" in differences


OPTIONAL = "_offload_grad_partition_at_boundary"


def optional_or_skip(moved: Path) -> str:
    if OPTIONAL not in (moved / "runtime/zero/stage3.py").read_text():
        pytest.skip(f"this DeepSpeed has no {OPTIONAL}")
    return OPTIONAL


def skipped(report: contract.Report) -> list[str]:
    """What is left out besides places that this DeepSpeed lacks as it is."""
    lacking = contract.compare().skipped
    return [line for line in report.skipped if line not in lacking]


def rename_optional(moved: Path) -> str:
    name = optional_or_skip(moved)
    change(moved / "runtime/zero/stage3.py", f"def {name}", "def _offload_at_boundary")
    return name


def test_a_place_that_is_not_needed_is_skipped(moved: Path) -> None:
    name = rename_optional(moved)
    report = contract.compare(moved)
    assert report.differences == [] and report.warning is None
    assert [line for line in skipped(report) if f"has no {name}" in line] == skipped(report) != []
    assert name not in [place.name for place in report.patched]
    report.version = "9.9"
    assert report.warning is not None and f"not all here: {report.skipped[0]}" in report.warning


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("offload_fp32_gradients,", "gradients,", "instead of"),
        ("offload_fp32_offsets):\n", "offload_fp32_offsets):\n        pass\n", "not tested with"),
    ],
    ids=["parameters", "text"],
)
def test_an_optimisation_of_another_function_is_skipped(moved: Path, old: str, new: str, reason: str) -> None:
    definition = f"def {optional_or_skip(moved)}(self, param, grad_buffer, "
    arguments = "offload_fp32_gradients, offload_fp32_offsets):\n"
    change(moved / "runtime/zero/stage3.py", definition + arguments, definition + arguments.replace(old, new))
    report = contract.compare(moved)
    assert report.differences == []
    assert len(skipped(report)) == 1 and reason in skipped(report)[0]


def test_an_unknown_text_is_a_warning_that_names_it(moved: Path) -> None:
    change(
        moved / "runtime/zero/stage3.py",
        "def _swap_in_sub_group_to_flat_buffer(self, flat_buffer, sub_group_id):\n",
        "def _swap_in_sub_group_to_flat_buffer(self, flat_buffer, sub_group_id):\n        pass\n",
    )
    report = contract.compare(moved)
    assert report.differences == []
    assert report.warning is not None
    assert report.warning.startswith(f"DeepSpeed {report.version} is one of the tested versions")
    assert "1 functions" not in report.warning and "_swap_in_sub_group_to_flat_buffer" in report.warning


@pytest.fixture
def as_if(monkeypatch: pytest.MonkeyPatch, moved: Path) -> Any:
    """install() sees another version of DeepSpeed; nothing stays patched behind the test."""

    def pretend(version: str) -> None:
        # The handlers of pytest are no program's. Here, since it gives loggers some when a test begins.
        monkeypatch.setattr(logging.getLogger("penstock"), "propagate", False)
        monkeypatch.setattr(contract, "_version", lambda: version)
        monkeypatch.setattr(contract, "installed_root", lambda: moved)
        monkeypatch.delenv("RANK", raising=False)

    yield pretend
    installation.uninstall()


def test_an_untested_version_is_named_once(as_if: Any, capfd: pytest.CaptureFixture[str]) -> None:
    as_if("0.99.1")
    installation.install()
    installation.install()
    lines = [line for line in capfd.readouterr().err.split("\n") if line.startswith("penstock: ")]
    assert len(lines) == 1 and "0.99.1 is not one of the tested versions" in lines[0]
    assert lines[0].startswith("penstock: warning: [untested-deepspeed] ")
    assert contract.TESTED_VERSIONS[-1] in lines[0]


def test_only_rank_0_names_it(as_if: Any, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    as_if("0.99.1")
    monkeypatch.setenv("RANK", "1")
    installation.install()
    assert "0.99.1" not in capfd.readouterr().err


def test_what_is_not_needed_is_not_installed(as_if: Any, moved: Path) -> None:
    from deepspeed.runtime.zero.stage3 import DeepSpeedZeroOptimizer_Stage3 as Stage3

    name = rename_optional(moved)
    before, required = getattr(Stage3, name), Stage3._configure_tensor_swapping
    as_if("0.99.1")
    installation.install()
    assert getattr(Stage3, name) is before
    assert Stage3._configure_tensor_swapping is not required
    installation.uninstall()
    assert Stage3._configure_tensor_swapping is required


def test_a_missing_place_is_refused_unless_allowed(as_if: Any, moved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    change(moved / "runtime/zero/stage3.py", "def _configure_tensor_swapping", "def _configure_swapping")
    as_if("0.99.1")
    with pytest.raises(CompatibilityError, match=r"0\.99\.1 .*1 differences: .*_configure_tensor_swapping"):
        installation.install()
    assert not installation.is_installed()
    monkeypatch.setenv(contract.OVERRIDE, "1")
    installation.install()
    assert installation.is_installed()


def test_a_private_function_is_found_under_its_own_name() -> None:
    place = Place("runtime/zero/stage3.py", "_Owner", "__private", required=False)
    assert place.attribute == "_Owner__private" and replace(place, name="__init__").attribute == "__init__"

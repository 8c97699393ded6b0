"""A configuration is whatever DeepSpeed reads: a mapping, a file with comments, base64; and read by DeepSpeed alone."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from conftest import Runner, linear_config

pytestmark = pytest.mark.deep
SCRIPT = Path(__file__).with_name("linear_training.py")


def commented(file: Path, config: dict[str, Any]) -> str:
    file.write_text("# written by hand\n" + json.dumps(config, indent=1).replace("{\n", "{ // a comment\n", 1))
    with pytest.raises(json.JSONDecodeError):
        json.loads(file.read_text())
    return str(file)


def train(runner: Runner, given: str, penstock: bool = True) -> list[str]:
    run = runner.script(SCRIPT, [given, "2", "AdamW"], penstock)
    assert run.returncode == 0, run.output
    if penstock:
        assert ("penstock: nothing to swap" in run.output) == ("nothing" in Path(given).name)
    return [line for line in run.output.split("\n") if line.startswith("STEP")]


def test_a_file_with_comments_and_nothing_to_swap(runner: Runner, tmp_path: Path) -> None:
    given = commented(tmp_path / "nothing.json", linear_config(None))
    assert len(train(runner, given)) == 2


def test_files_with_comments_base64_and_mappings_are_read_alike(runner: Runner, swap: Path, tmp_path: Path) -> None:
    expected = train(runner, runner.config(linear_config(None)), penstock=False)
    assert len(expected) == 2
    config = linear_config(swap)
    encoded = base64.urlsafe_b64encode(json.dumps(config).encode()).decode()
    for given in (commented(tmp_path / "swapped.json", config), encoded, f"dict:{runner.config(config)}"):
        assert train(runner, given) == expected
        assert runner.stats()["plan"]["max_pinned_bytes"] == 16 << 20, "as the block `penstock` says"

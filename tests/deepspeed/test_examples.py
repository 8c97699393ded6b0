"""The examples as users run them: saved, killed by SIGKILL, run again, and equal to a run that was never killed."""

from __future__ import annotations

import hashlib
import json
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import ROOT, Once, Run, Runner, adapted
from safetensors.torch import load_file
from seeded_model import SMALL, seeded_model

pytestmark = pytest.mark.deep
EXAMPLES = ROOT / "examples"
STEPS = 7
SAVE_STEPS = 2


@pytest.fixture(scope="session")
def word_model(once: Once, compiled: None) -> Path:
    """A model that draws most of its words from those that its tokenizer can write."""
    return once("word-model", lambda made: seeded_model(SMALL, made / "words", vocab_size=512)) / "words"


class Example:
    """One example in a directory of its own, on the drive or (`swap` None) with device cpu and without penstock."""

    def __init__(self, runner: Runner, name: str, model: Path, swap: Path | None, output: Path) -> None:
        config = json.loads((EXAMPLES / f"{name}.json").read_text())
        if swap is None:
            del config["penstock"]
        else:
            config["penstock"] = {"ram_bytes": 0, "max_pinned_bytes": "16MiB"}
        config["zero_optimization"]["sub_group_size"] = 2_000_000
        self._config = output.with_suffix(".json")
        self._config.write_text(json.dumps(adapted(config, swap, {})))
        self._runner, self._name, self._model, self._swap = runner, name, model, swap
        self.output = output

    def run(self, killed_when: Callable[[], bool] | None = None) -> Run:
        options = ["--deepspeed", str(self._config), "--steps", str(STEPS), "--save-steps", str(SAVE_STEPS)]
        arguments = [str(self._model), str(self.output), *options]
        script = EXAMPLES / f"{self._name}.py"
        return self._runner.script(script, arguments, self._swap is not None, killed_when)

    def whole(self) -> None:
        run = self.run()
        assert run.returncode == 0, run.output

    def is_there(self, pattern: str) -> Callable[[], bool]:
        return lambda: any(self.output.glob(pattern))

    def killed(self, pattern: str) -> Run:
        """As soon as there is such a file."""
        assert not self.is_there(pattern)()
        run = self.run(self.is_there(pattern))
        assert run.returncode == -9, run.output
        return run

    @property
    def history(self) -> list[dict[str, Any]]:
        """What Trainer has logged of each step, without times."""
        state = json.loads((self.output / "trainer_state.json").read_text())
        logs = [log for log in state["log_history"] if "loss" in log]
        return [{key: value for key, value in log.items() if "time" not in key} for log in logs]

    def weights(self, directory: str) -> dict[str, str]:
        """A digest of every file of weights."""
        files = sorted((self.output / directory).glob("*.safetensors"))
        assert files
        return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def _killed_and_resumed(runner: Runner, name: str, model: Path, tmp_path: Path) -> tuple[Example, Example, Example]:
    """Through penstock, killed in a save and again after the next; with device cpu, killed after the same save; with
    device cpu, never killed.
    """
    uninterrupted = Example(runner, name, model, None, tmp_path / "uninterrupted")
    uninterrupted.whole()
    through = Example(runner, name, model, tmp_path / "swap", tmp_path / "through")
    through.killed("checkpoint-4/.global_step4.partial")
    assert not (through.output / "checkpoint-4" / "trainer_state.json").exists()
    again = through.killed("checkpoint-4/trainer_state.json")
    assert "checkpoint-2/global_step2" in again.output and "penstock: loaded" in again.output, again.output
    through.whole()
    stock = Example(runner, name, model, None, tmp_path / "stock")
    stock.killed("checkpoint-4/trainer_state.json")
    stock.whole()
    assert len(uninterrupted.history) == STEPS
    assert [log["step"] for log in through.history] == list(range(1, STEPS + 1))
    return through, stock, uninterrupted


def test_full_finetuning(runner: Runner, small_model: Path, tmp_path: Path) -> None:
    through, stock, uninterrupted = _killed_and_resumed(runner, "finetune", small_model, tmp_path)
    losses = {log["loss"] for log in through.history}
    norms = {log["grad_norm"] for log in through.history}
    assert len(losses) == len(norms) == STEPS and 0 not in losses | norms
    for other in (stock, uninterrupted):
        assert through.history == other.history
        assert through.weights("final") == other.weights("final")


def test_grpo_with_lora(runner: Runner, word_model: Path, tmp_path: Path) -> None:
    through, stock, uninterrupted = _killed_and_resumed(runner, "grpo_lora", word_model, tmp_path)
    rewards = {log["reward"] for log in through.history}
    norms = {log["grad_norm"] for log in through.history}
    assert len(rewards) >= STEPS - 2 and len(norms) == STEPS and 0 not in norms
    assert all(log["reward_std"] > 0 for log in through.history)
    assert len({log["loss"] for log in through.history[1:]} - {0.0}) == STEPS - 1, (
        "the first has no distance to the base"
    )
    for other in (stock, uninterrupted):
        assert through.history == other.history
        for directory in ("adapter", "merged"):
            assert through.weights(directory) == other.weights(directory)
    _merged_is_base_and_adapter(through.output, word_model)


def _merged_is_base_and_adapter(output: Path, model: Path) -> None:
    merged, base = load_file(output / "merged" / "model.safetensors"), load_file(model / "model.safetensors")
    assert merged.keys() == base.keys()
    changed = [name for name in merged if not torch.equal(merged[name], base[name].to(merged[name].dtype))]
    assert changed and all("_proj.weight" in name for name in changed)


@pytest.mark.parametrize("name", ["finetune", "grpo_lora"])
def test_half_a_checkpoint_is_not_resumed_from(tmp_path: Path, name: str) -> None:
    """What a kill leaves while Trainer writes the last file, or before that."""
    newest = runpy.run_path(str(EXAMPLES / f"{name}.py"))["newest_whole_checkpoint"]
    assert newest(tmp_path) is None
    for step, state in ((9, '{"epoch": 1}'), (10, '{"epoch": 2}'), (11, '{"epo'), (12, ""), (13, None)):
        directory = tmp_path / f"checkpoint-{step}"
        directory.mkdir()
        if state is not None:
            (directory / "trainer_state.json").write_text(state)
    assert newest(tmp_path) == str(tmp_path / "checkpoint-10")

"""Moments in bf16, 8 and 4 bits: what a run with them saves, resumes, converts, shows and refuses."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest
import torch
from checkpoint_player import Play, Played, play
from conftest import Runner, free_port
from habit_models import Stack, loss_of
from habit_process import Outcome
from habit_process import run as run_habit
from trial import Trial

CHUNK = 50 * 128  # elements; of a matrix of this test there are more than a hundred
NARROW = ("8bit", *(pytest.param(states, marks=pytest.mark.deep) for states in ("bf16", "4bit")))
MOMENTS = ("exp_avg", "exp_avg_sq")


def train(device: str, directory: Path, states: str, *steps: str, ranks: int = 1, **changes: Any) -> Played:
    """`states` is the value of `optimizer_states`."""
    changes = {"penstock__optimizer_states": states, **changes}
    what = Play(device, str(directory), f"{directory}.swap", steps, chunk_numel=CHUNK, is_uneven=True, changes=changes)
    played = play(what, ranks)
    assert played.exits == [0] * ranks, played.output
    return played


def seen(run: Played, *steps: str) -> list[str]:
    return [line for step in steps for line in run.seen(step)]


def saved_states(directory: Path, tag: str = "global_step1", rank: int = 0) -> dict[str, list[torch.Tensor]]:
    """By sub-group: the master and the moments that are in the checkpoint."""
    name = f"bf16_zero_pp_rank_{rank}_mp_rank_00_optim_states.pt"
    saved = torch.load(directory / tag / name, weights_only=False)["optimizer_state_dict"]
    states = saved["optimizer_state_dict"]["state"]
    return {
        "master": saved["fp32_flat_groups"],
        **{name: [states[number][name] for number in sorted(states)] for name in MOMENTS},
    }


@pytest.mark.deep
@pytest.mark.parametrize("states", ["8bit", "bf16", "4bit"])
@pytest.mark.parametrize("ranks", [1, 2])
def test_a_resumed_run_goes_on_in_the_same_digits(compiled: None, tmp_path: Path, states: str, ranks: int) -> None:
    whole = train("nvme", tmp_path, states, "train:2", "save", "train:3", "see", ranks=ranks)
    resumed = train("nvme", tmp_path, states, "load", "train:3", "see", ranks=ranks)
    later = train("nvme", tmp_path, states, "train:1", "load", "train:3", "see", ranks=ranks)
    assert not resumed.failures and not later.failures
    assert "does not go on" not in resumed.output + later.output
    assert seen(whole, "train:3", "see") == seen(resumed, "train:3", "see") == seen(later, "train:3", "see")


@pytest.mark.parametrize("states", NARROW)
def test_the_first_step_is_exact_and_its_moments_are_rounded(compiled: None, tmp_path: Path, states: str) -> None:
    """Before it all moments are zero, so that masters are those of any run; moments are rounded once."""
    narrow = train("nvme", tmp_path / states, states, "train:1", "save", "train:5", "see")
    exact = train("cpu", tmp_path / "exact", "fp32", "train:1", "save", "train:5", "see")
    assert seen(narrow, "train:1") == seen(exact, "train:1")
    assert seen(narrow, "see") != seen(exact, "see"), "the states are narrow"
    ours, theirs = saved_states(tmp_path / states), saved_states(tmp_path / "exact")
    for mine, wanted in zip(ours["master"], theirs["master"], strict=True):
        assert torch.equal(mine, wanted)
    for name in MOMENTS:
        for mine, wanted in zip(ours[name], theirs[name], strict=True):
            assert not torch.equal(mine, wanted)
            # The largest of a block is exact, and no element is further from it than the coarsest map's values are.
            assert mine.abs().max() == wanted.abs().max() or states == "bf16"
            assert (mine - wanted).abs().max() <= wanted.abs().max() / 8


@pytest.mark.deep
@pytest.mark.parametrize("states", ["bf16", "8bit", "4bit"])
def test_a_checkpoint_is_read_by_every_other_run(compiled: None, tmp_path: Path, states: str) -> None:
    """It has fp32 moments, so DeepSpeed itself resumes from it, with what penstock has with fp32 states. (In later
    steps DeepSpeed's powers of the betas are others than those of an uninterrupted run.)
    """
    train("nvme", tmp_path, states, "train:2", "save")
    runs = {
        device: train(device, tmp_path, "fp32", "load:global_step2", "see", "train:1", "save:next")
        for device in ("cpu", "nvme")
    }
    assert seen(runs["cpu"], "see", "train:1") == seen(runs["nvme"], "see", "train:1")
    line = f"global_step2 was saved with {states} states, which are fp32 from here on"
    assert runs["nvme"].output.count(line) == 1
    in_memory = {"zero_optimization__offload_optimizer": {"device": "cpu"}}
    same_setting = train("nvme", tmp_path, states, "load:global_step2", "train:1", **in_memory)
    assert same_setting.output.count(line) == 1
    back = train("nvme", tmp_path, states, "load:next", "train:1", "see")
    assert back.output.count(f"next was saved with fp32 states, which are {states} from here on") == 1
    assert not back.failures


@pytest.mark.deep
@pytest.mark.parametrize("ranks", [1, 2])
def test_a_universal_checkpoint(compiled: None, tmp_path: Path, ranks: int) -> None:
    """One rank has the same states: blocks are those of before. Two have other blocks, and go on all the same."""
    saved = train("nvme", tmp_path, "8bit", "train:2", "save:good", "convert:good", "see")
    universal = {"checkpoint": {"load_universal": True}}
    resumed = train("nvme", tmp_path, "8bit", "load:universal", "see", "train:2", ranks=ranks, **universal)
    assert not resumed.failures
    assert "does not go on" not in resumed.output
    if ranks == 1:
        assert seen(saved, "see") == seen(resumed, "see")


@pytest.mark.deep
def test_patterns_keep_fp32(compiled: None, tmp_path: Path) -> None:
    """All parameters exempt: the run is that without the setting. One: its moments alone are exact."""
    exact = train("nvme", tmp_path / "exact", "fp32", "train:1", "save", "train:3", "see")
    every = train("nvme", tmp_path / "all", "4bit", "train:1", "train:3", "see", penstock__fp32_states=["*"])
    assert seen(exact, "train:3", "see") == seen(every, "train:3", "see")
    one = train("nvme", tmp_path / "one", "4bit", "train:1", "save", penstock__fp32_states=["*.0.*", "no such*"])
    assert one.output.count("[idle-pattern] penstock.fp32_states has 'no such*', which matches no parameter") == 1
    every_narrow = train("nvme", tmp_path / "one", "4bit", "load", "train:1")
    line = "was saved with 4bit (fp32: *.0.*, no such*) states, which are 4bit from here on"
    assert every_narrow.output.count(line) == 1
    ours, theirs = saved_states(tmp_path / "one"), saved_states(tmp_path / "exact")
    equal = [a == b for x, y in zip(ours["exp_avg"], theirs["exp_avg"], strict=True) for a, b in zip(x, y, strict=True)]
    assert 0.15 < sum(equal) / len(equal) < 0.7


@pytest.mark.deep
def test_a_step_that_fails_half_way(compiled: None, tmp_path: Path) -> None:
    whole = train("nvme", tmp_path / "whole", "8bit", "train:2", "save", "train:3", "see")
    later = train("nvme", tmp_path / "whole", "8bit", "train:4", "break:5", "load", "train:3", "see")
    first = train("nvme", tmp_path / "whole", "8bit", "break:5", "save:broken", "load:global_step2", "train:3", "see")
    for run in (later, first):
        assert [line.partition(":")[0] for line in run.failures] == ["FAILED StorageError"], run.output
        assert seen(run, "train:3", "see") == seen(whole, "train:3", "see")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param({"penstock__optimizer_states": "8bits"}, "did you mean '8bit'?", marks=pytest.mark.deep),
        pytest.param({"penstock__fp32_states": "embed"}, "a list of patterns is allowed", marks=pytest.mark.deep),
        (
            {"penstock__optimizer_states": "4bit", "optimizer": {"type": "Lion", "params": {"lr": 1e-4}}},
            "penstock.optimizer_states is '4bit', and this optimizer has no such form",
        ),
        (
            {
                "penstock__optimizer_states": "bf16",
                "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "torch_adam": True}},
                "zero_allow_untested_optimizer": True,
            },
            "penstock.optimizer_states is 'bf16', and this optimizer has no such form",
        ),
    ],
)
def test_bad_input(compiled: None, tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    what = Play("nvme", str(tmp_path), f"{tmp_path}/swap", ("train:1",), changes=changes)
    run = play(what)
    assert run.exits == [1]
    assert message in run.output.replace('"', "'"), run.output[-2000:]


@pytest.mark.deep
def test_a_text_is_learned_as_well(runner: Runner, swap: Path) -> None:
    """300 steps on the repository's documents, and the loss over texts that were not among them.

    Weights are fp32: a processor without AVX-512's bf16 takes seven times as long for products of bf16.
    """
    losses = {}
    for states in ("fp32", "bf16", "8bit", "4bit"):
        config = {
            "train_micro_batch_size_per_gpu": 8,
            "gradient_clipping": 1.0,
            "optimizer": {"type": "AdamW", "params": {"lr": 2e-3, "weight_decay": 0.01}},
            "scheduler": {"type": "WarmupDecayLR", "params": {"total_num_steps": 300, "warmup_num_steps": 30}},
            "zero_optimization": {
                "stage": 3,
                "offload_optimizer": {"device": "nvme", "nvme_path": str(swap)},
                "stage3_param_persistence_threshold": 0,
            },
            "penstock": {"ram_bytes": 0, "optimizer_states": states},
        }
        script = Path(__file__).with_name("text_training.py")
        run = runner.script(script, [runner.config(config), "300", "1"])
        assert run.returncode == 0, run.output
        losses[states] = float(run.output.rpartition("TESTED ")[2].split()[0])
    assert losses["fp32"] < 3, "it has learned something"
    for states, within in (("bf16", 0.01), ("8bit", 0.01), ("4bit", 0.02)):
        assert losses[states] == pytest.approx(losses["fp32"], rel=within)


@pytest.mark.deep
def test_states_of_an_optimizer_in_ram(compiled: None, tmp_path: Path) -> None:
    """The setting changes nothing there, which one line says."""
    in_ram = {"zero_optimization__offload_optimizer": {"device": "cpu"}}
    runs = [train("nvme", tmp_path / states, states, "train:2", "see", **in_ram) for states in ("fp32", "4bit")]
    assert seen(runs[0], "train:2", "see") == seen(runs[1], "train:2", "see")
    assert [run.output.count("[idle-states]") for run in runs] == [0, 1]


def engines_of(forms: tuple[str, ...], trial: Trial) -> None:
    """An engine for each value of `optimizer_states`. All are there before one of them is trained."""
    engines = []
    for form in forms:
        torch.manual_seed(5)
        engines.append(trial.initialize(Stack(), trial.config(penstock__optimizer_states=form)))
    for engine in engines:
        torch.manual_seed(7)
        trial.steps(engine, 3)
        trial.record_weights(engine)
    for number, engine in enumerate(engines):
        engine.save_checkpoint(str(Path(trial.swap).parent / f"saved-{number}"))
        engine.load_checkpoint(str(Path(trial.swap).parent / f"saved-{number}"))


@pytest.mark.deep
def test_each_engine_of_a_process_has_its_own(compiled: None, tmp_path: Path) -> None:
    def outcome(*forms: str) -> Outcome:
        found = run_habit(functools.partial(engines_of, forms), tmp_path / "-".join(forms), 1, False, free_port())
        assert not found.errors, found.log
        assert "does not go on" not in found.log and "one-budget" not in found.log, found.log
        return found

    exact, narrow = outcome("fp32"), outcome("8bit")
    assert exact.seen != narrow.seen
    assert outcome("fp32", "8bit").seen[0] == exact.seen[0] + narrow.seen[0]
    assert outcome("8bit", "fp32").seen[0] == narrow.seen[0] + exact.seen[0]


class SmallUneven(Stack):
    """Two ranks divide the last matrix with an element of padding. It is too small to be swapped; its states are."""

    def __init__(self) -> None:
        super().__init__()
        self.head = torch.nn.Linear(self.width, 13, bias=False)
        self.last = torch.nn.Linear(13, 1023, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return loss_of(self.last(self.head(self.features(x))))


def with_decay(states: str, unset: float, trial: Trial) -> None:
    """Memory that torch.empty() gives holds `unset`, as heaps do now and then."""
    empty = torch.empty

    def filled(*args: Any, **kwargs: Any) -> torch.Tensor:
        tensor = empty(*args, **kwargs)
        return tensor.fill_(unset) if tensor.is_floating_point() else tensor

    torch.manual_seed(5)
    model, torch.empty = SmallUneven(), filled  # type: ignore[assignment]
    optimizer = {"type": "Adam", "params": {"lr": 1e-3, "weight_decay": 0.1, "adam_w_mode": False}}
    config = trial.config(penstock__optimizer_states=states, optimizer=optimizer)
    engine = trial.initialize(model, config)
    torch.empty = empty
    trial.steps(engine, 3)
    trial.record_weights(engine)


@pytest.mark.deep
@pytest.mark.parametrize("states", ["8bit", "4bit"])
def test_padding_of_an_uneven_partition_counts_for_nothing(compiled: None, tmp_path: Path, states: str) -> None:
    def outcome(unset: float) -> Outcome:
        training = functools.partial(with_decay, states, unset)
        found = run_habit(training, tmp_path / str(unset), 2, False, free_port())
        assert not found.errors, found.log
        return found

    clean = outcome(0.0)
    assert "nan" not in str(clean.seen)
    assert outcome(1000.0).seen == clean.seen
    assert outcome(float("nan")).seen == clean.seen

"""What is saved and resumed goes on as if it had never stopped, to the last digit; and `device: cpu` resumes it too."""

from __future__ import annotations

from pathlib import Path

import habits  # noqa: F401
import pytest
from conftest import free_port
from habit import HABITS
from habit_process import Outcome, run
from trial import DEVICE, Checkpoint

SAVE_BY_THEMSELVES = ("habits_resuming", "habits_saving", "habits_trainer")
TRAINING = [
    name
    for name, habit in HABITS.items()
    if not habit.refused and not habit.fails and habit.train.__module__ not in SAVE_BY_THEMSELVES
]
WITHOUT_MASTERS = "16-bit weights without their masters are in no checkpoint"
NOT_RESUMED = {
    "GatheredParameters(modifier_rank=0) between steps": WITHOUT_MASTERS,
    "a hook of all modules that renews a few elements of each linear layer's weight": WITHOUT_MASTERS,
    "nn.Linear.forward replaced by one that renews a few elements of its weight": WITHOUT_MASTERS,
    "a checkpoint whose momentum a hook has rounded to bf16, loaded and trained on": "the hook changes what is saved",
    "hooks of the optimizer's state_dict() and load_state_dict() that change moments": "they change what is saved",
    "hooks of the step of DeepSpeed's CPU Adam": "a hook of one step, which may be before the load",
    "hooks of the step of torch AdamW, that come and go": "a hook of one step, which may be before the load",
    "torch.autograd.grad of the input, then a backward": "a pass before the step is of the model before the load",
}
# On a device a change ends with the gathered copy, which lives longer once DeepSpeed has recorded an order of use.
NOT_RESUMED_ON_A_DEVICE = "weights that a forward changes in place"
AFTER = (2, 3, 6)  # of nine steps
SHORT = {("plain training, bf16", 1)}


def _case(name: str, ranks: int) -> object:
    marks = [] if (name, ranks) in SHORT else [pytest.mark.deep]
    return pytest.param(name, ranks, id=f"{name}-{ranks}", marks=marks)


CASES = [_case(name, ranks) for name in TRAINING for ranks in HABITS[name].ranks if name not in NOT_RESUMED]


def _run(name: str, where: Path, ranks: int, checkpoint: tuple[str, tuple[int, ...], bool]) -> Outcome:
    outcome = run(name, where, ranks, False, free_port(), checkpoint)
    assert not outcome.errors, outcome.log
    return outcome


def _after(steps: int, outcome: Outcome) -> list[list[str]]:
    """What each rank saw after it had saved, or loaded; other saves, and a later engine's steps before, aside."""
    others = {Checkpoint.seen(other) for other in AFTER} - {Checkpoint.seen(steps)}
    return [
        [
            line
            for line in seen[seen.index(Checkpoint.seen(steps)) :]
            if line not in others and not Checkpoint.is_before(line, steps)
        ]
        for seen in outcome.seen
    ]


@pytest.mark.parametrize(("name", "ranks"), CASES)
def test_resumed(name: str, ranks: int, tmp_path: Path) -> None:
    if DEVICE != "cpu" and (HABITS[name].cpu_only or name == NOT_RESUMED_ON_A_DEVICE):
        pytest.skip(HABITS[name].cpu_only or "a change ends with the gathered copy there")
    where = str(tmp_path / "checkpoint")
    through = _run(name, tmp_path / "through", ranks, (where, AFTER, False))
    saved = [steps for steps in AFTER if Checkpoint.seen(steps) in through.seen[0]]
    if not saved:
        pytest.skip(f"does not train {AFTER[0]} steps in a row")
    for steps in saved:
        resumed = _run(name, tmp_path / f"resumed-{steps}", ranks, (where, (steps,), True))
        assert _after(steps, resumed) == _after(steps, through), steps

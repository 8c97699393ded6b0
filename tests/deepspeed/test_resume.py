"""What is saved and resumed goes on as if it had never stopped, to the last digit; and `device: cpu` resumes it too."""

from __future__ import annotations

from pathlib import Path

import habits  # noqa: F401
import pytest
from conftest import free_port
from habit import HABITS
from habit_process import Outcome, run
from trial import CHECKPOINT

TRAINING = [name for name, habit in HABITS.items() if not habit.refused and not habit.fails]
# What is not in a checkpoint of DeepSpeed: 16-bit weights that a script has changed, without their masters.
LOSES_ITS_CHANGES = "GatheredParameters(modifier_rank=0) between steps"
SHORT = {("plain training, bf16", 1, 2)}


def _case(name: str, ranks: int, steps: int) -> object:
    marks = [] if (name, ranks, steps) in SHORT else [pytest.mark.deep]
    return pytest.param(name, ranks, steps, id=f"{name}-{ranks}-{steps}", marks=marks)


CASES = [
    _case(name, ranks, steps)
    for name in TRAINING
    for ranks in HABITS[name].ranks
    for steps in (2, 3, 6)
    if name != LOSES_ITS_CHANGES
]


def _run(name: str, where: Path, ranks: int, checkpoint: tuple[str, int, bool]) -> Outcome:
    outcome = run(name, where, ranks, False, free_port(), checkpoint)
    assert not outcome.errors, outcome.log
    return outcome


def _after_checkpoint(outcome: Outcome) -> list[list[str]]:
    return [seen[seen.index(CHECKPOINT) :] for seen in outcome.seen]


@pytest.mark.parametrize(("name", "ranks", "steps"), CASES)
def test_resumed(name: str, ranks: int, steps: int, tmp_path: Path) -> None:
    """Saved after so many steps of nine."""
    where = str(tmp_path / "checkpoint")
    through = _run(name, tmp_path / "through", ranks, (where, steps, False))
    if CHECKPOINT not in through.seen[0]:
        pytest.skip(f"does not train {steps} steps in a row")
    resumed = _run(name, tmp_path / "resumed", ranks, (where, steps, True))
    assert _after_checkpoint(resumed) == _after_checkpoint(through)

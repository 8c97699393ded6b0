"""What is saved and resumed goes on as if it had never stopped, to the last digit; and `device: cpu` resumes it too."""

from __future__ import annotations

from pathlib import Path

import habits  # noqa: F401
import pytest
from conftest import free_port
from habit import HABITS
from habit_process import Outcome, run
from trial import CHECKPOINT

# Habits that do not train nine steps one after the other with one engine, or do not say where the model's weights are:
# what they do beside is tested with those that do.
TRAINING = [name for name, habit in HABITS.items() if not habit.refused and not habit.fails]


def _run(name: str, where: Path, ranks: int, reference: bool, checkpoint: tuple[str, int, bool]) -> Outcome:
    outcome = run(name, where, ranks, reference, free_port(), checkpoint)
    assert not outcome.errors, outcome.log
    return outcome


def _after_checkpoint(outcome: Outcome) -> list[list[str]]:
    return [seen[seen.index(CHECKPOINT) :] for seen in outcome.seen]


@pytest.mark.deep
@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("name", TRAINING)
def test_resumed(name: str, ranks: int, tmp_path: Path) -> None:
    if ranks not in HABITS[name].ranks:
        pytest.skip("is not trained so")
    for steps in (2, 3, 6):
        where = str(tmp_path / f"checkpoint-{steps}")
        through = _run(name, tmp_path / f"through-{steps}", ranks, False, (where, steps, False))
        if CHECKPOINT not in through.seen[0]:
            pytest.skip(f"trains less than {steps} steps in a row")
        resumed = _run(name, tmp_path / f"resumed-{steps}", ranks, False, (where, steps, True))
        assert _after_checkpoint(resumed) == _after_checkpoint(through)

"""What users do under DeepSpeed gives through penstock what its reference gives, to the last digit."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import habits  # noqa: F401
import pytest
from conftest import free_port
from habit import HABITS, Habit
from habit_process import Outcome, run
from habit_table import DOCUMENT, rewritten
from packaging.version import Version
from trial import DEVICE


def _case(habit: Habit, ranks: int) -> object:
    marks = [] if habit.short == ranks else [pytest.mark.deep]
    return pytest.param(habit, ranks, id=f"{habit.name}-{ranks}", marks=marks)


@pytest.mark.parametrize(
    ("habit", "ranks"), [_case(habit, ranks) for habit in HABITS.values() for ranks in habit.ranks]
)
def test_habit(habit: Habit, ranks: int, tmp_path: Path) -> None:
    if DEVICE != "cpu" and habit.cpu_only:
        pytest.skip(habit.cpu_only)
    if habit.since and Version(version("deepspeed")) < Version(habit.since):
        pytest.skip(f"{habit.name}: results of stock DeepSpeed before {habit.since} differ from run to run")
    swapped = run(habit.name, tmp_path / "penstock", ranks, False, free_port())
    if habit.refused:
        assert swapped.errors and habit.refused in swapped.errors[0], swapped.log
        return
    reference = run(habit.name, tmp_path / "reference", ranks, True, free_port())
    if habit.fails and DEVICE == "cpu":
        for outcome in (swapped, reference):
            assert outcome.errors and habit.fails[0] in outcome.errors[0], outcome.log
        return
    assert not swapped.errors, swapped.log
    assert not reference.errors, reference.log
    _compare(swapped, reference)


def _compare(swapped: Outcome, reference: Outcome) -> None:
    for mine, theirs in zip(swapped.seen, reference.seen, strict=True):
        assert theirs
        assert mine == theirs


def test_ten_habits_are_in_the_short_run() -> None:
    assert sum(habit.short in habit.ranks for habit in HABITS.values()) >= 10


def test_the_document_has_this_table() -> None:
    document = DOCUMENT.read_text()
    assert document == rewritten(document), "run tests/deepspeed/habit_table.py"


def test_parameters_without_a_gradient_are_named_once(tmp_path: Path) -> None:
    outcome = run("no gradient for 60 steps", tmp_path / "penstock", 1, False, free_port())
    assert not outcome.errors, outcome.log
    said = [line for line in outcome.log.split("\n") if "no gradient for 50 steps" in line]
    assert len(said) == 1
    assert "idle.linear.weight, idle.linear.bias" in said[0] and "layers" not in said[0]

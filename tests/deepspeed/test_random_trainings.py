"""Trainings that a seed draws give through penstock what `device: cpu` gives, to the last digit. The list has the seeds
with which penstock has failed once, and some that draw what later ones do.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest
import random_drawing
from checkpoints import differences
from conftest import free_port
from habit_process import run

SHORT = (36, 1014)
DEEP = (
    0, 2, 3, 5, 10, 12, 14, 15, 18, 20, 24, 25, 27, 28, 30, 31, 42, 46, 48, 51, 283,
    1001, 1033, 1041, 1058, 1093, 1420, 3038,
    5010, 5067, 5098, 5116, 5142, 5165, 5300, 9000, 9012, 9014, 9017,
)  # fmt: skip
# Of three ranks sums depend on the order. Where a part has no gradient the reference reduces zeros for it; others lie
# elsewhere in a bucket then, and are added in another order. These seeds have no such part.
OF_THREE_RANKS = (6000, 6003, 6005, 6010)


@pytest.mark.parametrize("seed", [*SHORT, *(pytest.param(seed, marks=pytest.mark.deep) for seed in DEEP)])
def test_random_training(seed: int, tmp_path: Path) -> None:
    equals_reference(random_drawing.drawn(seed), tmp_path)


@pytest.mark.deep
@pytest.mark.parametrize("seed", OF_THREE_RANKS)
def test_three_ranks(seed: int, tmp_path: Path) -> None:
    equals_reference({**random_drawing.drawn(seed), "ranks": 3}, tmp_path)


def equals_reference(drawn: dict[str, Any], tmp_path: Path) -> None:
    import random_training

    saved = tmp_path / "saved"
    saved.mkdir()
    train = functools.partial(random_training.train, drawn, saved)
    reference = run(train, tmp_path / "reference", drawn["ranks"], True, free_port())
    swapped = run(train, tmp_path / "penstock", drawn["ranks"], False, free_port())
    assert not reference.errors, reference.log
    assert not swapped.errors, f"{drawn}\n{swapped.log}"
    for mine, theirs in zip(swapped.seen, reference.seen, strict=True):
        assert theirs
        assert mine == theirs, drawn
    if drawn["ranks"] == 1:  # with two, some files have padding, in which anything may stand
        for tag in (saved / "reference").glob("save*"):
            assert differences(saved / "penstock" / tag.name, tag) == []

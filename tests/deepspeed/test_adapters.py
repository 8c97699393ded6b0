"""PEFT's adapters train, evaluate, generate and resume through penstock what they do with `device: cpu`, to the last
digit. Left out are some that end in an error with both.
"""

from __future__ import annotations

import functools
from pathlib import Path

import adapters
import pytest
from habit_process import equals_reference

NAMES = tuple(adapters.ADAPTERS)
GROUPS = [NAMES[first::4] for first in range(4)]


@pytest.mark.deep
@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("group", GROUPS, ids=range(len(GROUPS)))
def test_adapters(group: tuple[str, ...], ranks: int, tmp_path: Path) -> None:
    equals_reference(functools.partial(adapters.train, group), tmp_path / "trained", ranks)

"""Runs in the order ABBA, and what is made of their ratios."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Sequence
from typing import TypeVar

First = TypeVar("First")
Second = TypeVar("Second")

DRAWS = 4000
SEED = 1  # of the bootstrap: the same figures give the same interval


def abba(
    first: Callable[[], First],
    second: Callable[[], Second],
    pairs: int,
    time_is_up: Callable[[], bool] = lambda: False,
) -> list[tuple[First, Second]]:
    """Pairs of runs; which of the two comes first changes with every pair. Fewer when time is up."""
    done: list[tuple[First, Second]] = []
    while len(done) < pairs and not time_is_up():
        if len(done) % 2 == 0:
            ours = first()
            done.append((ours, second()))
        else:
            theirs = second()
            done.append((first(), theirs))
    return done


def interval(values: Sequence[float], draws: int = DRAWS) -> tuple[float, float]:
    """95 % of the median: percentiles of medians of samples drawn from the values."""
    chance = random.Random(SEED)
    medians = sorted(statistics.median(chance.choices(values, k=len(values))) for _ in range(draws))
    return medians[int(0.025 * (draws - 1))], medians[int(0.975 * (draws - 1))]


def quartiles(values: Sequence[float]) -> tuple[float, float]:
    if len(values) < 2:
        return values[0], values[0]
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, high

"""A habit: something that users of DeepSpeed do, written once and run twice, through penstock and on its reference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from trial import Trial

Train = Callable[[Trial], None]


@dataclass(frozen=True)
class Habit:
    """`name` is a line of the table in docs/HABITS.md.

    short: with how many ranks it is in the short run (0: in the deep run only).
    reference: what the result is compared with, always under stock DeepSpeed.
    refused: part of the sentence with which penstock says that it does not serve this.
    fails: part of the error with which the reference fails too on the CPU, and why.
    cpu_only: why it is not compared on a GPU (bench/gpu/run).
    since: the first DeepSpeed whose own results are the same in each run.
    """

    name: str
    train: Train
    ranks: tuple[int, ...] = (1, 2)
    short: int = 0
    reference: str = "`device: cpu`"
    refused: str = ""
    fails: tuple[str, str] | None = None
    cpu_only: str = ""
    since: str = ""

    @property
    def result(self) -> str:
        """The last cell of its line."""
        if self.refused:
            return f"refused: {self.refused}"
        if self.fails:
            return f"fails as {self.reference} does: {self.fails[1]}"
        return f"equal to {self.reference}"


HABITS: dict[str, Habit] = {}


def habit(
    name: str,
    *,
    ranks: tuple[int, ...] = (1, 2),
    short: int = 0,
    reference: str = "`device: cpu`",
    refused: str = "",
    fails: tuple[str, str] | None = None,
    cpu_only: str = "",
    since: str = "",
) -> Callable[[Train], Train]:
    """Registers the function below it."""

    def register(train: Train) -> Train:
        assert name not in HABITS, f"two habits are called {name}"
        HABITS[name] = Habit(name, train, ranks, short, reference, refused, fails, cpu_only, since)
        return train

    return register

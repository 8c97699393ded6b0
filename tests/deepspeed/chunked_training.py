"""A training whose states are cut into many chunks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from checkpoint_player import Play, Played, play

CHUNK = 50 * 128  # elements; of a matrix of these tests there are more than a hundred


def train(device: str, directory: Path, *steps: str, ranks: int = 1, **changes: Any) -> Played:
    """As a Play with these `changes`; all ranks must end well."""
    what = Play(device, str(directory), f"{directory}.swap", steps, chunk_numel=CHUNK, **changes)
    played = play(what, ranks)
    assert played.exits == [0] * ranks, played.output
    return played

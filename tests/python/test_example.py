"""examples/swap_tensors.py, as users run it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).resolve().parents[2] / "examples" / "swap_tensors.py"


def test_it_swaps_updates_and_goes_on_after_an_error(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, PROGRAM, tmp_path], capture_output=True, text=True, check=True, timeout=100)
    sums, refused = done.stdout.splitlines()
    assert sums == f"sum {sum(range(32)) << 22}, after the update {sum(range(32), 100) << 22}"
    assert refused.startswith("refused: tensor 'layer.0' is u8 of shape [4194304], not u8 of shape [3]")
    assert list(tmp_path.iterdir()) == []

"""The swap of a model's tensors against fio on the same drive, in turns, as one sentence."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

PAIRS = 6


def against_fio(model: Path, directory: Path, report: Path) -> str:
    """Fetches the model's tensors in the order of a pass forward, fio as many bytes in requests of 1 MiB.

    Both take some 2 GB of space each in `directory` while they run. The whole report goes to `report`.
    """
    directory.mkdir(parents=True, exist_ok=True)
    command = [
        str(Path(sys.executable).parent / "penstock"), "bench", "--name=against-fio", "--workload=swap",
        f"--inventory={model}", "--phase=forward", "--max_pinned=64MiB", "--ram=0", f"--directory={directory}",
        "--pair=fio", f"--pairs={PAIRS}", "--output-format=json", f"--output={report}",
    ]  # fmt: skip
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        return f"was not measured: {done.stderr.strip() or f'penstock bench ended with status {done.returncode}'}"
    pair = json.loads(report.read_text())["jobs"][0]["pair"]
    return (
        f"{pair['ratio_median']:.2f} of fio's bandwidth (median of {pair['pairs']} pairs, IQR {pair['ratio_iqr']:.2f}) "
        f"at {pair['cpu_ratio_median']:.2f} of its CPU a byte; fio at its best: {pair['peer_settings']}"
    )

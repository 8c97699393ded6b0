"""How much host memory an engine registers for a device, against what it was asked to, and what registering takes."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

import torch
from stage import ROOT, Stage
from swap_device import DeviceEngine, synchronize, torch_device

MIB = 1 << 20
BUDGETS = (64 * MIB, 1024 * MIB)
PROGRAM = ROOT / "build" / "gpu" / "native" / "bench" / "micro" / "bench_pinning"


def register(stage: Stage) -> None:
    command = [str(PROGRAM), "--benchmark_format=json"]
    environment = {**os.environ, "PENSTOCK_DEVICE": stage.device}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment, check=True)
    for entry in json.loads(done.stdout)["benchmarks"]:
        measured = entry.get("error_message") or f"{entry['real_time']:.3f} {entry['time_unit']}"
        stage.row(f"registering: {entry['name']}", measured)


def open_and_use(stage: Stage, budget: int) -> None:
    """Until a tensor has come back. Memory that an NVIDIA driver has pinned is not in the kernel's count."""
    tensor = torch.ones(24 * MIB + 1, dtype=torch.bfloat16, device=torch_device(stage.device))
    synchronize(stage.device)
    before, begun = pinned_by_kernel(), time.monotonic()
    with DeviceEngine(stage.device, stage.swap, budget) as engine:
        engine.put("tensor", tensor)
        engine.get_async("tensor", tensor).result()
        seconds = time.monotonic() - begun
        counted, kernel = engine.stats()["pinned_bytes"], pinned_by_kernel() - before
    what = f"with {budget // MIB} MiB pinned"
    stage.row(f"opening and first transfer {what}", f"{seconds:.3f} s", "", "drive's files are made in it too")
    for who, held in (("engine", counted), ("kernel", kernel)):
        met = "met" if held <= 1.005 * budget else "**missed**"
        note = "VmPin and VmLck" if who == "kernel" else ""
        stage.row(f"pinned as the {who} counts, {what}", f"{held / MIB:.2f} MiB", f"at most that: {met}", note)


def pinned_by_kernel() -> int:
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines())
    return sum(int(status[key].split()[0]) * 1024 for key in ("VmPin", "VmLck"))


def main() -> None:
    stage = Stage()
    for budget in BUDGETS:
        open_and_use(stage, budget)
    register(stage)


if __name__ == "__main__":
    main()

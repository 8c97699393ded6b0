"""What the report says of the machine: accelerator, driver, cores, memory, kernel, file system, torch."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from pathlib import Path


def describe(python: Path, swap: Path) -> dict[str, str]:
    """Phrases by what they tell of; what cannot be found out is missing. `python`: the one that has torch."""
    pages, page = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    facts = {
        "cores": f"{len(os.sched_getaffinity(0))} cores",
        "memory": f"{pages * page / (1 << 30):.0f} GiB",
        "kernel": f"{platform.system()} {platform.release()}",
        "file_system": file_system(swap),
        "torch": _said(str(python), "-c", "import torch; print('torch', torch.__version__)"),
        "cuda": _compiler(),
    }
    card = _said("nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader")
    if card:
        name, driver, memory = (part.strip() for part in card.splitlines()[0].split(","))
        facts |= {"gpu": f"{name} ({memory})", "driver": f"driver {driver}"}
    else:
        facts["gpu"] = "no NVIDIA GPU"
    return {key: fact for key, fact in facts.items() if fact}


def commit(checkout: Path) -> str:
    """Of the checkout, where it is one."""
    return _said("git", "-C", str(checkout), "describe", "--always", "--dirty")


def file_system(path: Path) -> str:
    """Its kind, by the longest mount point above `path`."""
    kind, longest = "", -1
    resolved = path.resolve()
    for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines():
        _, point, name, *_ = line.split()
        if len(point) > longest and (resolved == Path(point) or Path(point) in resolved.parents):
            kind, longest = name, len(point)
    return kind


def _compiler() -> str:
    home = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"))
    nvcc = shutil.which("nvcc") or (str(home / "bin/nvcc") if (home / "bin/nvcc").exists() else None)
    told = _said(nvcc, "--version") if nvcc else ""
    return next(
        (f"nvcc {line.split('release ')[1].split(',')[0]}" for line in told.splitlines() if "release " in line), ""
    )


def _said(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""

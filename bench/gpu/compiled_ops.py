"""DeepSpeed's extensions, compiled before a stage's runs: those would compile them one after the other."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from stage import Stage

LOAD = "import deepspeed.accelerator as a, sys; a.get_accelerator().create_op_builder(sys.argv[1]).load()"
SHARE = 0.4  # of the stage's time, at most: a slow compiler takes time from its own run alone


def compile_ops(stage: Stage, builders: Sequence[str], environment: dict[str, str]) -> None:
    """All at once. A run that needs one that failed says so."""
    for left in Path(os.environ.get("TORCH_EXTENSIONS_DIR", "/nowhere")).glob("**/lock"):
        left.unlink()  # of a run that was ended while it compiled: the next would wait for it
    compilers = [
        subprocess.Popen([sys.executable, "-c", LOAD, name], env={**os.environ, **environment}) for name in builders
    ]
    reserve = (1 - SHARE) * stage.seconds_left()
    with contextlib.suppress(subprocess.TimeoutExpired):
        for compiler in compilers:
            compiler.wait(max(0.0, stage.seconds_left() - reserve))

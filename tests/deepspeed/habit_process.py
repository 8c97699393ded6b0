"""Runs trials in processes that are forked from one that has imported torch and DeepSpeed already: imports take longer
than a small training.
"""

from __future__ import annotations

import gc
import json
import multiprocessing
import os
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
TIMEOUT_S = 400
_PRELOADED = "preloaded"


@dataclass(frozen=True)
class Outcome:
    """What the ranks of one training saw, `seen[rank]`; `errors` are the sentences of those that ended in one."""

    seen: list[list[str]]
    errors: list[str]
    log: str


def context() -> ForkServerContext:
    """Its server starts with the first process, imports once, and has no thread."""
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if str(HERE) not in paths:  # the server of Python before 3.12 does not take over sys.path
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(HERE), *paths]))
    os.environ.update(DS_ACCELERATOR=os.environ.get("PENSTOCK_TEST_DEVICE", "cpu"), OMP_NUM_THREADS="1")
    made = multiprocessing.get_context("forkserver")
    made.set_forkserver_preload([_PRELOADED])
    return made


def run(
    training: str | Callable[[Any], None],
    directory: Path,
    ranks: int,
    reference: bool,
    port: str,
    checkpoint: tuple[str, tuple[int, ...], bool] | None = None,
) -> Outcome:
    """Trains the habit of that name, or calls a function with a Trial, with so many ranks, and a trial.Checkpoint of
    these. Blocks until all have ended or one has failed.
    """
    directory.mkdir(parents=True)
    ctx = context()
    processes = [
        ctx.Process(target=_rank, args=(training, directory, rank, ranks, reference, port, checkpoint), daemon=True)
        for rank in range(ranks)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(TIMEOUT_S)
        if process.exitcode != 0:  # the others wait for it
            for other in processes:
                other.kill()
    results = [_read(directory / f"result-{rank}.json") for rank in range(ranks)]
    log = "".join((directory / f"log-{rank}.txt").read_text(errors="replace") for rank in range(ranks))
    return Outcome(
        [result["seen"] for result in results], [result["error"] for result in results if result["error"]], log
    )


def equals_reference(training: Callable[[Any], None], directory: Path, ranks: int) -> None:
    """Asserts that it runs through penstock and as the reference, and that both see the same."""
    from conftest import free_port

    reference, swapped = (
        run(training, directory / name, ranks, name == "reference", free_port()) for name in ("reference", "penstock")
    )
    for outcome in (reference, swapped):
        assert not outcome.errors, outcome.log
    assert swapped.seen == reference.seen


def _read(file: Path) -> dict[str, Any]:
    if not file.exists():
        return {"seen": [], "error": "the process ended without a result"}
    result: dict[str, Any] = json.loads(file.read_text())
    return result


def become_rank(rank: int, ranks: int, port: str, log: Path) -> None:
    """This process is a rank from now on, as launchers say it, and prints to `log`."""
    os.environ.update(
        RANK=str(rank),
        LOCAL_RANK=str(rank),
        WORLD_SIZE=str(ranks),
        LOCAL_SIZE=str(ranks),
        LOCAL_WORLD_SIZE=str(ranks),
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT=port,
    )
    opened = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(opened, 1)
    os.dup2(opened, 2)


def _rank(training: Any, directory: Path, rank: int, ranks: int, reference: bool, port: str, checkpoint: Any) -> None:
    become_rank(rank, ranks, port, directory / f"log-{rank}.txt")
    os.environ["PENSTOCK_STATS"] = str(directory / "stats-%r.json")
    os.chdir(directory)
    seen, error = _train(training, directory, rank, ranks, reference, checkpoint)
    (directory / f"result-{rank}.json").write_text(json.dumps({"seen": seen, "error": error}))
    sys.stdout.flush()
    os._exit(1 if error else 0)


def _begin_distributed(device: str) -> None:
    """On a GPU sums have an order, and so equal digits in every run."""
    import deepspeed
    import torch

    if device != "cpu":
        torch.use_deterministic_algorithms(True, warn_only=True)
        torch.backends.cuda.enable_cudnn_sdp(False)
    deepspeed.init_distributed(dist_backend="gloo" if device == "cpu" else "nccl", verbose=False)


def _train(
    training: Any, directory: Path, rank: int, ranks: int, reference: bool, checkpoint: Any
) -> tuple[list[str], str]:
    import preloaded  # noqa: F401
    import torch
    from habit import HABITS
    from lease_watch import watch_leases
    from trial import Checkpoint, Trial

    trial = Trial(reference, str(directory / "swap"), rank, ranks)
    trial.checkpoint = Checkpoint(*checkpoint) if checkpoint else None
    try:
        if not reference:
            import penstock.deepspeed

            penstock.deepspeed.install()
            written = watch_leases()
        _begin_distributed(trial.device)
        torch.manual_seed(5)
        (HABITS[training].train if isinstance(training, str) else training)(trial)
        for engine in trial.engines:
            engine.destroy()
        trial.engines.clear()
        gc.collect()
        if not reference:
            from penstock.deepspeed.session import close_session

            close_session()
            assert not written, f"written into what is leased to read: {written}"
        torch.distributed.destroy_process_group()
    except BaseException as error:
        traceback.print_exc()
        sys.stderr.flush()
        return trial.seen, f"{type(error).__name__}: {error}"
    return trial.seen, ""

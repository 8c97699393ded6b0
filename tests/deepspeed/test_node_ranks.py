"""Ranks of one node share its memory, whatever has started them."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from conftest import free_port
from penstock.deepspeed.node_ranks import ranks_on_node, tasks_per_node

SRUN = {"SLURM_PROCID": "5", "SLURM_STEP_TASKS_PER_NODE": "4(x2),3"}


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, 1),
        ({"LOCAL_WORLD_SIZE": "4", **SRUN}, 4),
        ({"LOCAL_SIZE": "2"}, 2),
        ({"OMPI_COMM_WORLD_LOCAL_SIZE": "8"}, 8),
        ({"MV2_COMM_WORLD_LOCAL_SIZE": "8"}, 8),
        ({"MPI_LOCALNRANKS": "6"}, 6),
        ({"PALS_LOCAL_SIZE": "12"}, 12),
        ({"LOCAL_WORLD_SIZE": "zero", "LOCAL_SIZE": "0", "MPI_LOCALNRANKS": "3"}, 3),
        ({**SRUN, "SLURM_NODEID": "1"}, 4),
        ({**SRUN, "SLURM_NODEID": "2"}, 3),
        ({"SLURM_STEP_TASKS_PER_NODE": "2", "SLURM_NODEID": "7", "SLURM_NTASKS_PER_NODE": "2"}, 2),
        ({"SLURM_STEP_TASKS_PER_NODE": "many", "SLURM_NTASKS_PER_NODE": "5"}, 5),
        # A batch script is one process, whatever its job may start later.
        ({"SLURM_PROCID": "0", "SLURM_NTASKS_PER_NODE": "8", "SLURM_TASKS_PER_NODE": "8"}, 1),
    ],
)
def test_what_variables_say(environment: dict[str, str], expected: int) -> None:
    assert ranks_on_node(environment) == expected


def test_slurms_lists() -> None:
    assert tasks_per_node("4(x2),3") == [4, 4, 3]
    assert tasks_per_node("16") == [16]
    assert tasks_per_node("2,1(x3)") == [2, 1, 1, 1]
    assert tasks_per_node("4(x") == tasks_per_node("") == []


COUNT = """
import torch.distributed
from penstock.deepspeed.node_ranks import ranks_on_node
torch.distributed.init_process_group("gloo")
print("RANKS", ranks_on_node())
torch.distributed.destroy_process_group()
"""


def test_ranks_without_a_variable_ask_each_other() -> None:
    ours = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port(), "WORLD_SIZE": "2"}
    unset = {name: "" for name in ("LOCAL_WORLD_SIZE", "LOCAL_SIZE")}
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", COUNT],
            env={**os.environ, **unset, **ours, "RANK": str(rank)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    assert ["RANKS 2" in rank.communicate(timeout=200)[0] for rank in ranks] == [True, True]


def test_a_session_tells_its_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    from penstock.deepspeed import session

    for name in ("LOCAL_WORLD_SIZE", "LOCAL_SIZE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PENSTOCK_DEVICE", "")
    monkeypatch.setenv("SLURM_STEP_TASKS_PER_NODE", "4")
    started: list[int] = []
    monkeypatch.setattr(session, "SwapEngine", lambda config, origin, ranks: started.append(ranks))
    session.Session({})
    assert started == [4]


@pytest.mark.parametrize("section", ["bf16", "bfloat16"])
def test_a_session_passes_both_names_of_bf16(monkeypatch: pytest.MonkeyPatch, section: str) -> None:
    """The memory that the run's file lets DeepSpeed pin has two or four bytes an element."""
    from penstock.deepspeed import session

    monkeypatch.setenv("PENSTOCK_DEVICE", "")
    given: list[str] = []
    monkeypatch.setattr(session, "SwapEngine", lambda config, origin, ranks: given.append(config))
    session.Session({section: {"enabled": True}, "scheduler": {"type": object()}})
    assert [json.loads(config) for config in given] == [{section: {"enabled": True}, "scheduler": None}]


def test_a_session_keeps_what_its_configuration_was() -> None:
    """A script may change the same dict for its next engine, which is to be compared with the first."""
    from penstock.deepspeed.session import as_it_is_now

    scheduler = object()
    config = {"penstock": {"max_pinned_bytes": "16MiB"}, "scheduler": scheduler}
    kept = as_it_is_now(config)
    config["penstock"]["max_pinned_bytes"] = "24MiB"  # type: ignore[index]
    assert kept == {"penstock": {"max_pinned_bytes": "16MiB"}, "scheduler": scheduler}

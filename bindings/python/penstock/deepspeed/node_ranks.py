"""How many ranks of this training run on this node: they share its memory, so each gets a part of the budget."""

from __future__ import annotations

import os
import re
import socket
import sys
from collections.abc import Mapping

# What launchers and MPI libraries tell each rank: torchrun, accelerate and deepspeed; oneCCL; Open MPI; MVAPICH; Intel
# MPI and MPICH; the launcher of HPE Cray.
_VARIABLES = (
    "LOCAL_WORLD_SIZE",
    "LOCAL_SIZE",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "MV2_COMM_WORLD_LOCAL_SIZE",
    "MPI_LOCALNRANKS",
    "PALS_LOCAL_SIZE",
)


def ranks_on_node(environment: Mapping[str, str] = os.environ) -> int:
    """What a variable of the launcher says, else what the ranks of torch.distributed say; 1 where neither does.

    Without a variable this is a collective operation of the default group once that is initialized: every rank has to
    call it at the same point, as ranks do that build one model. Errors: those of the operation.
    """
    said = from_variables(environment) or from_slurm(environment)
    return said if said is not None else _from_process_group()


def from_variables(environment: Mapping[str, str]) -> int | None:
    for name in _VARIABLES:
        number = _positive(environment.get(name, ""))
        if number is not None:
            return number
    return None


def from_slurm(environment: Mapping[str, str]) -> int | None:
    """Of a task that srun started: the job step's tasks on this node. A batch script itself is not such a task."""
    tasks = environment.get("SLURM_STEP_TASKS_PER_NODE")
    if tasks is None:
        return None
    counts = tasks_per_node(tasks)
    node = environment.get("SLURM_NODEID", "0")
    if node.isdigit() and int(node) < len(counts):
        return counts[int(node)] or None
    return _positive(environment.get("SLURM_NTASKS_PER_NODE", ""))


def tasks_per_node(text: str) -> list[int]:
    """Slurm's list, one number a node: `4(x2),3` is 4, 4, 3. Empty where it is not such a list."""
    counts: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d+)(?:\(x(\d+)\))?", part.strip())
        if match is None:
            return []
        counts += [int(match[1])] * int(match[2] or 1)
    return counts


def _positive(text: str) -> int | None:
    return int(text) if text.isdigit() and int(text) > 0 else None


def _from_process_group() -> int:
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return 1
    nodes = [""] * distributed.get_world_size()
    if len(nodes) > 1:
        distributed.all_gather_object(nodes, _node())
    return max(1, nodes.count(_node()))


def _node() -> str:
    """The same for all processes of a running kernel, containers included; the host's name where /proc is not there."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return socket.gethostname()

"""DeepSpeed's own swappers on the tensors of a model: AsyncPartitionedParameterSwapper and the optimizer's.

The work: {"directory": D, "dtype": "bfloat16", "elements": [...of each parameter...], "loops": N, "spins": false,
           "groups": [{"elements": N, "parameters": [...]}],     what the optimizer steps as one
           "order": [["parameter" or "group", NUMBER, NS, BYTES READ, BYTES WRITTEN], ...]}
                    one loop; NS: computed after the fetch; bytes: as a caller sees them moving
           Files are in a directory of their own below D, which goes when this process ends.
A run:    {"settings": {...of `aio`, "pipeline": false}, "io_size": N}   io_size: the first so many bytes, or 0

Parameters are read as ZeRO-3's coordinator does it: one is waited for, then as many of the following ones are asked
for as there are buffers. A group is swapped in, its parameters are rewritten from its master, and it is swapped out.
What a run needs is written before it begins, with nothing counted.
"""

from __future__ import annotations

import gc
import os
import tempfile
import time
from types import SimpleNamespace
from typing import Any, NamedTuple

from conversation import Moved, serve

PARAMETER_BUFFERS = 5  # DeepSpeed's default
GROUP_BUFFERS = 4  # DeepSpeed's default: three states and one for gradients
PIPELINED_GROUP_BUFFERS = 10  # one group read, one stepped, one written, and one to begin with


class Use(NamedTuple):
    """One entry of the order."""

    kind: str
    number: int
    compute_ns: int
    read_bytes: int
    write_bytes: int


class Parameters:
    """The parameters under one setting, in DeepSpeed's files."""

    def __init__(self, work: dict[str, Any], settings: dict[str, Any]) -> None:
        import torch
        from deepspeed.runtime.swap_tensor.partitioned_param_swapper import (
            AsyncPartitionedParameterSwapper,
            PartitionedParamStatus,
        )
        from deepspeed.runtime.zero.offload_config import DeepSpeedZeroOffloadParamConfig

        self.status = PartitionedParamStatus
        self.dtype = getattr(torch, work["dtype"])
        self.elements: list[int] = work["elements"]
        offload = DeepSpeedZeroOffloadParamConfig(
            device="nvme",
            nvme_path=work["directory"],
            buffer_count=PARAMETER_BUFFERS,
            buffer_size=max(self.elements),
        )
        zero = SimpleNamespace(offload_param=offload)
        self.swapper = AsyncPartitionedParameterSwapper(
            SimpleNamespace(zero_config=zero, aio_config=settings), self.dtype
        )
        sums = [[self.elements[i] for i in group["parameters"]] for group in work["groups"]]
        if any(sums):
            self.swapper.reserve_partitioned_swap_space(max(sums, key=sum))
        self.parameters = [self.make(torch, number) for number in range(len(self.elements))]
        self.written: set[int] = set()

    def make(self, torch: Any, number: int) -> Any:
        tensor = torch.empty(0, dtype=self.dtype)
        tensor.ds_numel = self.elements[number]
        tensor.status = self.status.NOT_AVAILABLE
        return SimpleNamespace(ds_id=number, ds_tensor=tensor)

    def write(self, number: int) -> None:
        if number in self.written:
            return
        self.swapper.get_buffer(self.parameters[number], self.elements[number]).fill_(1)
        self.swapper.swap_out_and_release([self.parameters[number]])
        self.written.add(number)

    def read(self, number: int, following: list[int]) -> None:
        parameter = self.parameters[number]
        if parameter.ds_tensor.status == self.status.NOT_AVAILABLE:
            self.swapper.swap_in([parameter])
        if parameter.ds_tensor.status == self.status.INFLIGHT:
            self.swapper.synchronize_reads()
        for other in following:
            if self.swapper.available_swap_in_buffers() == 0:
                break
            if self.parameters[other].ds_tensor.status == self.status.NOT_AVAILABLE:
                self.swapper.swap_in([self.parameters[other]])

    def release(self, number: int) -> None:
        self.swapper.remove_partition_and_release_buffers([self.parameters[number]])

    def rewrite(self, numbers: list[int], master: Any) -> None:
        sources, begin = [], 0
        for number in numbers:
            sources.append(master.narrow(0, begin, self.elements[number]))
            begin += self.elements[number]
        if numbers:
            self.swapper.swap_out_partitioned_params([self.parameters[number] for number in numbers], sources)

    def close(self) -> None:
        self.swapper.synchronize_reads()
        self.swapper.aio_read_handle.free_cpu_locked_tensor(self.swapper.buffers)
        if self.swapper.partitioned_swap_buffer is not None:
            self.swapper.aio_write_handle.free_cpu_locked_tensor(self.swapper.partitioned_swap_buffer)


class Groups:
    """What the optimizer steps, under one setting: master and two moments of each group."""

    def __init__(self, work: dict[str, Any], settings: dict[str, Any]) -> None:
        import torch
        from deepspeed.runtime.swap_tensor.partitioned_optimizer_swapper import PartitionedOptimizerSwapper
        from deepspeed.runtime.swap_tensor.pipelined_optimizer_swapper import PipelinedOptimizerSwapper
        from deepspeed.runtime.zero.offload_config import DeepSpeedZeroOffloadOptimizerConfig

        self.torch = torch
        self.elements = [group["elements"] for group in work["groups"]]
        self.pipelined = settings["pipeline"]
        offload = DeepSpeedZeroOffloadOptimizerConfig(
            device="nvme",
            nvme_path=work["directory"],
            buffer_count=PIPELINED_GROUP_BUFFERS if self.pipelined else GROUP_BUFFERS,
            pipeline_read=self.pipelined,
            pipeline_write=self.pipelined,
        )
        self.optimizer = SimpleNamespace(state={})
        self.swapper = (PipelinedOptimizerSwapper if self.pipelined else PartitionedOptimizerSwapper)(
            offload,
            settings,
            work["directory"],
            self.optimizer,
            max(self.elements),
            torch.device("cpu"),
            torch.float32,
            None,
        )
        self.masters: dict[int, Any] = {}

    def write(self, number: int) -> None:
        if number in self.masters:
            return
        master: Any = self.torch.nn.Parameter(self.torch.empty(0), requires_grad=False)
        master.ds_id = str(number)
        self.swapper.initialize_parameters([master], [self.torch.ones(self.elements[number])])
        self.masters[number] = master
        self.read(number, None)
        self.optimizer.state[master] = {
            state: self.torch.ones(self.elements[number]) for state in ("exp_avg", "exp_avg_sq")
        }
        self.swapper.swap_out_optimizer_state(master, async_swap=False)

    def read(self, number: int, following: int | None) -> Any:
        ahead = None if following is None else self.masters[following]
        self.swapper.swap_in_optimizer_state(self.masters[number], async_parameter=ahead)
        return self.masters[number]

    def release(self, number: int, is_last: bool) -> None:
        self.swapper.swap_out_optimizer_state(self.masters[number], async_swap=not is_last)


class Swappers:
    def __init__(self, work: dict[str, Any]) -> None:
        import deepspeed
        import torch

        os.environ.pop("LOCAL_SIZE", None)  # else DeepSpeed takes 69 MB of /dev/shm for this one rank, and leaves them
        distributed: Any = torch.distributed
        if not distributed.is_initialized():
            distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
        deepspeed.init_distributed("gloo")
        self.directory = tempfile.TemporaryDirectory(prefix="deepspeed-", dir=os.path.abspath(work["directory"]))
        self.work = {**work, "directory": self.directory.name}
        self.order = [Use(*entry) for entry in work["order"]]
        self.settings: dict[str, Any] | None = None
        self.loops: int = work["loops"]
        self.parameters: Any = None  # Parameters of these settings, if there are any
        self.groups: Any = None  # Groups

    def prepare(self, order: dict[str, Any]) -> None:
        if order["settings"] != self.settings:
            self.close()
            self.settings = order["settings"]
            settings = {**order["settings"], "use_gds": False}
            self.parameters = Parameters(self.work, settings) if self.work["elements"] else None
            self.groups = Groups(self.work, settings) if self.work["groups"] else None
        for use in self.uses(order):
            if use.kind == "parameter":
                self.parameters.write(use.number)
                continue
            for number in self.work["groups"][use.number]["parameters"]:
                self.parameters.write(number)
            self.groups.write(use.number)

    def close(self) -> None:
        if self.parameters is not None:
            self.parameters.close()
        self.parameters = self.groups = None
        gc.collect()  # unpins what the optimizer's swapper has pinned

    def uses(self, order: dict[str, Any]) -> list[Use]:
        if not order["io_size"]:
            return self.order * self.loops
        some, moved = [], 0
        for use in self.order:
            if moved >= order["io_size"]:
                break
            some.append(use)
            moved += use.read_bytes + use.write_bytes
        return some

    def move(self, order: dict[str, Any]) -> Moved:
        uses = self.uses(order)
        for position, use in enumerate(uses):
            if use.kind == "parameter":
                self.take_parameter(uses, position)
            else:
                self.step_group(uses, position)
        return Moved(sum(use.read_bytes for use in uses), sum(use.write_bytes for use in uses))

    def take_parameter(self, uses: list[Use], position: int) -> None:
        use = uses[position]
        ahead = uses[position + 1 : position + 1 + PARAMETER_BUFFERS]
        self.parameters.read(use.number, [other.number for other in ahead if other.kind == "parameter"])
        self.compute(use.compute_ns)
        self.parameters.release(use.number)

    def step_group(self, uses: list[Use], position: int) -> None:
        use = uses[position]
        following = [other.number for other in uses[position + 1 : position + 2] if other.kind == "group"]
        master = self.groups.read(use.number, following[0] if following else None)
        self.compute(use.compute_ns)
        if self.parameters is not None:
            self.parameters.rewrite(self.work["groups"][use.number]["parameters"], master)
        self.groups.release(use.number, is_last=not following)

    def compute(self, ns: int) -> None:
        if not self.work["spins"]:
            time.sleep(ns / 1e9)
            return
        end = time.monotonic_ns() + ns
        while time.monotonic_ns() < end:
            pass


def main() -> None:
    serve(Swappers)

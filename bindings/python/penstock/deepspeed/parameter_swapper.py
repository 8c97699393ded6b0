"""Stands behind DeepSpeed's name AsyncPartitionedParameterSwapper: parameters that live in penstock."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from deepspeed.accelerator import get_accelerator
from deepspeed.runtime.swap_tensor.partitioned_param_swapper import PartitionedParamStatus as Status
from deepspeed.runtime.zero import partition_parameters
from torch.utils.dlpack import from_dlpack

from penstock._core import Lease
from penstock.deepspeed import plain_tensors
from penstock.deepspeed.checkpoint.content import Content
from penstock.deepspeed.delivery import Delivery, DeviceDelivery, HostDelivery, tensor_of
from penstock.deepspeed.naming import first_name, full_name
from penstock.deepspeed.refusals import refuse_what_cannot_be_swapped
from penstock.deepspeed.retired_leases import RetiredLeases
from penstock.deepspeed.self_changing import ContentState, is_changed, is_self_changing, state_of_all, state_of_content
from penstock.deepspeed.session import Session, current_session, open_session
from penstock.deepspeed.swapped_in import SwappedIn
from penstock.deepspeed.torch_dtype import engine_dtype
from penstock.errors import ArgumentError

# DeepSpeed leaves what is smaller than this in RAM; `aio.block_size` may raise it.
MINIMUM_BYTES = 1 << 20


@dataclass(frozen=True)
class SwappedParameter:
    """What get_path() gives the optimizer swapper instead of a file's name."""

    swapper: ParameterSwapper
    ds_id: int


# DeepSpeed's look-ahead goes on while less than this is swapped in: what the end of forward uses the begin of backward
# uses again, and is not read twice. More costs fresh pages at each pass: Qwen3-1.7B's shape takes 25 s a step with next
# to none, 29 s with 1.2 GB, 30 s with all weights (3.4 GB).
_LOOK_AHEAD_BYTES = 512 << 20


class ParameterSwapper:
    """DeepSpeed's parameter swapper over a penstock engine.

    Partitions have three states, DeepSpeed's own enum: AVAILABLE (`ds_tensor.data` is a view of a lease, or memory of
    the device), INFLIGHT (a get is under way), NOT_AVAILABLE (`data` is a placeholder). Memory goes back to the
    engine when the last tensor that views it is gone, not when DeepSpeed says so: on the CPU a module's
    weight and what autograd saved of it alias the partition. On a device it goes back with the copy, whatever DeepSpeed
    does to the partition.
    """

    def __init__(self, ds_config: Any, model_dtype: torch.dtype) -> None:
        refuse_what_cannot_be_swapped(ds_config)
        self.dtype = model_dtype
        offload = ds_config.zero_config.offload_param
        self._look_ahead = max(1, int(offload.buffer_count))
        self._minimum_bytes = max(MINIMUM_BYTES, int(ds_config.aio_config["block_size"]))
        self._session: Session = open_session(ds_config._param_dict)
        self._space = self._session.open_namespace("parameters", offload.nvme_path)  # before dead engines close it
        weakref.finalize(self, self._session.close_namespace, self._space).atexit = False
        self._engine = self._session.engine
        self._tensors: dict[int, int] = {}  # ds_id -> tensor of the engine
        self._params: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
        self._leases: dict[int, Lease] = {}  # of what is AVAILABLE
        self._states: dict[int, ContentState | None] = {}  # by ds_id, of the same: what it was when it came
        self._in_flight: dict[int, tuple[Any, Delivery]] = {}
        self._settling = threading.RLock()  # a partition comes or goes; the collector may run within, and forget()
        self._swapped_in = SwappedIn()
        self._placeholders: dict[torch.dtype, torch.Tensor] = {}
        self._retired = RetiredLeases()
        self._session.before_plan(self.settle_tensors)
        _swappers.add(self)

    # What DeepSpeed asks before it decides where a partition lives.

    def swappable_tensor(self, param: Any = None, numel: int | None = None) -> bool:
        elements = param.ds_tensor.ds_numel if numel is None else numel
        return elements * self.dtype.itemsize >= self._minimum_bytes

    is_swappable_tensor = swappable_tensor

    def available_swap_in_buffers(self) -> int:
        """How many partitions more DeepSpeed's own look-ahead may ask for. It keeps what it asks for until the use, and
        asks at each fetch, so that all weights would be in memory at once; the engine reads ahead in any case.
        """
        return self._look_ahead if self._swapped_in.bytes < _LOOK_AHEAD_BYTES else 0

    # Building and updating partitions.

    def get_buffer(self, param: Any, numel: int) -> torch.Tensor:
        """Memory for the first content of a partition, in the dtype of one in RAM, which zero.Init makes its own."""
        tensor = self._declare(param, numel)
        lease = self._engine.allocate(tensor)
        self._leases[param.ds_id] = lease
        return tensor_of(lease)

    def swap_out_and_release(
        self, params: Sequence[Any], async_op: bool = False, force_buffer_release: bool = False
    ) -> None:
        """The partition's memory becomes its content; written behind our back, readable at once."""
        self._session.check_writes()
        for param in params:
            owner = param.nvme_swapper
            if owner is not self:
                owner.swap_out_and_release([param])
                continue
            if self._is_superseded(param):
                self._release(param)
                continue
            lease = self._leases.get(param.ds_id)
            data = param.ds_tensor.data
            in_lease = lease is not None and data.data_ptr() == lease.data_ptr
            if lease is not None and in_lease and not lease.readonly:
                self._engine.commit(lease)
            else:  # what a device has, or another tensor was put there; or it was written into without notice
                content = data.clone() if in_lease else data.contiguous().cpu()
                self._engine.put(self._tensors[param.ds_id], content).result()
            self._release(param)

    def make_changeable(self, param: Any) -> None:
        """What is in memory of the partition may be written into from now on, also through a gathered `param.data` that
        aliases it. Until now it was shared with other readers."""
        lease = self._leases.get(param.ds_id)
        if lease is None or not lease.readonly:
            return
        changeable: Lease = self._engine.get(self._tensors[param.ds_id], True).result()
        if changeable.data_ptr != lease.data_ptr:
            aliased = param.data.data_ptr() == lease.data_ptr
            param.ds_tensor.data = tensor_of(changeable)
            if aliased:
                param.data = param.ds_tensor.data.view(param.data.shape)
        self._leases[param.ds_id] = changeable

    def watch(self, param: Any) -> None:
        """A script has gathered it, and may change it in place."""
        if param.ds_id in self._states:
            self._states[param.ds_id] = state_of_all(param, self._states[param.ds_id])

    def swap_out_partitioned_params(
        self, dst_fp16_params: Sequence[Any], src_fp32_params: Sequence[torch.Tensor]
    ) -> None:
        """New contents from the optimizer's masters, cast on the way."""
        self._session.check_writes()
        for param, source in zip(dst_fp16_params, src_fp32_params, strict=True):
            owner = param.nvme_swapper
            if owner is not self:
                owner.swap_out_partitioned_params([param], [source])
                continue
            lease = self.new_content(param)
            from_dlpack(lease).copy_(source.detach())
            self.commit_content(param, lease)
            del lease

    def new_content(self, param: Any) -> Lease:
        """Memory for the partition's next content, for commit_content()."""
        return self._engine.allocate(self._tensors[param.ds_id])

    def commit_content(self, param: Any, lease: Lease) -> None:
        self._engine.commit(lease)
        self._release(param)

    def reserve_partitioned_swap_space(self, partition_num_elems: Sequence[int]) -> None:
        """Nothing to reserve: contents are cast straight into the engine's memory."""

    # Reading.

    def swap_in(
        self,
        params: Sequence[Any],
        async_op: bool = True,
        swap_in_buffers: Sequence[torch.Tensor] | None = None,
    ) -> None:
        """Begins to fetch; any number, the whole model included. Without async_op all reads in flight end."""
        self._session.plan_if_stale()
        for param in params:
            owner = param.nvme_swapper
            if owner is not self:
                owner.swap_in([param], async_op=async_op)
            elif param.ds_tensor.status == Status.NOT_AVAILABLE:
                delivery = self._fetch(param)
                with self._settling:
                    self._in_flight[param.ds_id] = (param, delivery)
                    self._swapped_in.add(param.ds_id, param.ds_tensor.ds_numel * param.ds_tensor.element_size())
                    param.ds_tensor.status = Status.INFLIGHT
        if not async_op:
            self.synchronize_reads()

    def _fetch(self, param: Any) -> Delivery:
        tensor, device = self._tensors[param.ds_id], self._session.device
        if device is None:
            return HostDelivery(self._engine, tensor, update=_building() or is_self_changing(param))
        return DeviceDelivery(self._engine, tensor, param.ds_tensor.ds_numel, param.ds_tensor.dtype, device)

    def synchronize_reads(self) -> None:
        """Every read in flight ends, of all swappers: DeepSpeed asks one for the parameters of several."""
        with _ending_reads:
            for swapper in list(_swappers):
                swapper._end_reads()

    def _end_reads(self) -> None:
        for ds_id in list(self._in_flight):  # a copy: threads may begin others
            in_flight = self._in_flight.get(ds_id)
            if in_flight is None:  # given up meanwhile
                continue
            param, delivery = in_flight
            try:
                data = delivery.result()
            except BaseException:
                with self._settling:
                    if self._in_flight.get(ds_id) is in_flight:
                        self._release(param)
                raise
            with self._settling:
                if self._in_flight.get(ds_id) is not in_flight:  # a step has a newer content, for one
                    continue
                del self._in_flight[ds_id]
                param.ds_tensor.data = data
                if delivery.lease is not None:
                    self._leases[ds_id] = delivery.lease
                    self._states[ds_id] = state_of_content(param)
                param.ds_tensor.status = Status.AVAILABLE

    def synchronize_writes(self) -> None:
        """Contents are readable as soon as they are handed over; what failed is raised here."""
        self._session.check_writes()

    def swap_into_buffer(self, param: Any, dest_buffer: torch.Tensor) -> None:
        """The partition moves into DeepSpeed's own memory for good."""
        ds_id = param.ds_id
        in_place = dest_buffer.dtype == param.dtype and dest_buffer.device.type == "cpu" and dest_buffer.is_contiguous()
        if in_place:
            self._engine.get_into(self._tensors[ds_id], dest_buffer.detach()).result()
        else:
            lease = self._engine.get(self._tensors[ds_id]).result()
            dest_buffer.data.copy_(from_dlpack(lease))
        self._engine.forget(self._tensors.pop(ds_id))

    def remove_partition_and_release_buffers(self, params: Iterable[Any]) -> None:
        """Drops without writing, but for what was changed in place. Idempotent; unknown parameters are left alone.

        DeepSpeed asks it for persistent parameters whose gather it has just begun, too. These keep their partition,
        which the gather may still read, until they are partitioned again.
        """
        for param in params:
            owner = param.nvme_swapper
            if owner is not self:
                owner.remove_partition_and_release_buffers([param])
            elif param.ds_id in self._tensors and param.ds_status.name != "INFLIGHT":
                if is_changed(param, self._states.get(param.ds_id)) and not self._is_superseded(param):
                    self._keep_change(param)
                self._release(param)

    def _is_superseded(self, param: Any) -> bool:
        return self._tensors[param.ds_id] in self._session.superseded

    def _keep_change(self, param: Any) -> None:
        """What was changed becomes the content. Where it was not expected other readers may have seen it."""
        lease = self._leases.pop(param.ds_id)
        if lease.readonly:
            self._engine.put(self._tensors[param.ds_id], from_dlpack(lease).clone()).result()
        else:
            self._engine.commit(lease)
        self._retired.add(lease)

    # fast_init: the optimizer swapper reads parameters itself.

    def get_path(self, param: Any, must_exist: bool = False) -> SwappedParameter:
        if must_exist and param.ds_id not in self._tensors:
            raise KeyError(f"parameter {param.ds_id} was never swapped out")
        return SwappedParameter(self, param.ds_id)

    def read(self, ds_id: int) -> torch.Tensor:
        """The partition's content, as long as the tensor lives."""
        return from_dlpack(self._engine.get(self._tensors[ds_id]).result())

    def reserve_available_buffers(self) -> list[torch.Tensor]:
        """DeepSpeed insists on a non-empty list, which only stock's optimizer swapper would use."""
        return [plain_tensors.empty(0, self.dtype)]

    def release_reserved_buffers(self) -> None:
        """Nothing was reserved."""

    def content(self, param: Any) -> Content:
        """The partition, as a checkpoint has it."""
        return Content(self._engine, [self._tensors[param.ds_id]], param.ds_tensor.ds_numel, param.ds_tensor)

    def tensor(self, param: Any) -> int:
        return self._tensors[param.ds_id]

    def keeps(self, param: Any) -> bool:
        return param.ds_id in self._tensors

    def cast(self, param: Any, dtype: torch.dtype) -> None:
        """The content of a partition that is swapped out, in another dtype from now on."""
        content = self.read(param.ds_id).to(dtype)
        self._engine.forget(self._tensors.pop(param.ds_id))
        self._engine.put(self._declare(param, content.numel(), dtype), content).result()
        param.ds_tensor.data = self._placeholder(dtype, content.numel())

    def _declare(self, param: Any, numel: int, dtype: torch.dtype | None = None) -> int:
        tensor = self._tensors.get(param.ds_id)
        if tensor is None:
            kind = engine_dtype(dtype or torch.empty(0, dtype=param.dtype).dtype)
            tensor = self._engine.declare(self._space, first_name(param), kind, [numel], "param")
            self._tensors[param.ds_id] = tensor
            self._params[param.ds_id] = param
            if dtype is None:
                weakref.finalize(param, _forget, weakref.ref(self), param.ds_id).atexit = False
                self._session.has_new_parameters = True
            self._session.plan_is_stale = True
        return tensor

    def forget(self, ds_id: int) -> None:
        """Gives up the partition of a parameter that no longer exists."""
        self._drop(ds_id)
        tensor = self._tensors.pop(ds_id, None)
        if tensor is not None and current_session() is self._session:
            self._engine.forget(tensor)
            self._session.plan_is_stale = True

    def drop_read_ahead(self, param: Any) -> None:
        """What is in memory of a partition that will be written: DeepSpeed would write into it, and lose that."""
        if self.keeps(param):
            self._release(param)

    def _release(self, param: Any) -> None:
        with self._settling:
            lease = self._drop(param.ds_id)
            if param.ds_tensor.is_cuda:  # the stream that gathers from it may not have read it yet
                param.ds_tensor.data.record_stream(get_accelerator().current_stream())
            param.ds_tensor.data = self._placeholder(param.ds_tensor.dtype, param.ds_tensor.ds_numel)
            param.ds_tensor.status = Status.NOT_AVAILABLE
        if lease is not None:
            self._retired.add(lease)

    def _drop(self, ds_id: int) -> Lease | None:
        with self._settling:
            self._in_flight.pop(ds_id, None)
            self._states.pop(ds_id, None)
            self._swapped_in.remove(ds_id)
            return self._leases.pop(ds_id, None)

    def _placeholder(self, dtype: torch.dtype, numel: int) -> torch.Tensor:
        """As many elements as the partition has, in the memory of one.

        Not a number, so that a use before the content has come shows in the first loss; writing into it is an error.
        """
        if dtype not in self._placeholders:
            self._placeholders[dtype] = plain_tensors.full((), float("nan") if dtype.is_floating_point else 0, dtype)
        return self._placeholders[dtype].expand(numel)

    def settle_tensors(self) -> None:
        """Before a plan: the engine learns the names that users know, for rules and errors, and what is trained."""
        for ds_id, param in list(self._params.items()):
            tensor, name = self._tensors.get(ds_id), full_name(param)
            if tensor is None:
                continue
            self._engine.set_trained(tensor, param.requires_grad)
            if name is None:
                continue
            try:
                self._engine.rename(tensor, name)
            except ArgumentError:  # a second model under the same zero.Init
                self._engine.rename(tensor, f"{name} #{ds_id}")


def _building() -> bool:
    """Within zero.Init, where Module.apply changes partitions that it gathers, and says so only afterwards."""
    return bool(getattr(partition_parameters, "zero_init_context", 0))


def _forget(reference: weakref.ref[ParameterSwapper], ds_id: int) -> None:
    """A parameter is gone. Tied weights are built twice and partitioned before they are tied; the one that goes
    is as large as an embedding."""
    swapper = reference()
    if swapper is not None:
        swapper.forget(ds_id)


_swappers: weakref.WeakSet[ParameterSwapper] = weakref.WeakSet()
_ending_reads = threading.RLock()  # a thread that finds no read of its own left waits for the one that is ending it


def parameter_swapper(param: Any) -> ParameterSwapper | None:
    """The swapper that has the parameter's partition; None: it is in memory."""
    swapper = getattr(param, "nvme_swapper", None)
    return swapper if isinstance(swapper, ParameterSwapper) and swapper.keeps(param) else None

"""Stands behind DeepSpeed's optimizer swappers: master weights and optimizer states that live in penstock."""

from __future__ import annotations

import contextlib
import os
import weakref
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch.utils.dlpack import from_dlpack

from penstock._core import Future, Lease
from penstock.deepspeed.checkpoint.archive import Content
from penstock.deepspeed.gradient_cycle import GradientCycle, cycle_of
from penstock.deepspeed.parameter_swapper import MINIMUM_BYTES, SwappedParameter
from penstock.deepspeed.session import Session, open_session
from penstock.deepspeed.torch_dtype import engine_dtype
from penstock.errors import ArgumentError

_MASTER = "master"


class _Entry:
    """What is known of one sub-group's flat parameter."""

    def __init__(self, parameter: Any, numel: int) -> None:
        self.name = str(parameter.ds_id)
        self.numel = numel
        self.tensors: dict[str, int] = {}  # "master" and state names -> tensor of the engine
        self.leases: dict[str, Lease] = {}  # of what is swapped in
        self.gradient: int | None = None  # scratch tensor, never committed
        # What the script has set, until the step: ds_id (None: the sub-group) -> offset, numel, tensor of the engine.
        self.set_gradients: dict[int | None, tuple[int, int, int]] = {}


class OptimizerSwapper:
    """DeepSpeed's optimizer swapper over a penstock engine, with and without pipelining alike.

    Reading ahead and writing behind are the engine's, so `swap_in_optimizer_state` finds most of the state in
    memory and `swap_out_optimizer_state` returns at once. Gradients are not swapped at all: they lie in
    DeepSpeed's flat buffer in RAM, whose slice is copied (and widened to fp32, exactly) when a sub-group is
    stepped. Which of it is this step's gradient: GradientCycle. Gradients that the script sets are tensors of the
    engine until the step, since the flat buffer may be 16-bit.
    """

    def __init__(
        self,
        swap_config: Any,
        aio_config: Any,
        base_folder: str,
        optimizer: torch.optim.Optimizer,
        largest_numel: int,
        device: Any,
        dtype: torch.dtype,
        timers: Any,
        stage3: Any = None,
        config: dict[str, Any] | None = None,
    ) -> None:
        self.optimizer = optimizer
        self.dtype = dtype
        self._session: Session = open_session(config or {})
        self._engine = self._session.engine
        self._stage3 = weakref.ref(stage3) if stage3 is not None else lambda: None
        self._minimum_bytes = max(MINIMUM_BYTES, int(aio_config["block_size"]))
        self._space = self._session.open_namespace("optimizer", swap_config.nvme_path)
        self.close = weakref.finalize(self, self._session.close_namespace, self._space)  # once, by the first who calls
        self.close.atexit = False
        self._session.before_plan(self.settle_tensors)
        self._entries: dict[str, _Entry] = {}
        # Nothing lies here: contents are in unlinked files. Saving goes through penstock.deepspeed.checkpoint.
        self.swap_folder = os.path.join(base_folder, "optimizer")

    @staticmethod
    def parameter_id(param: Any) -> Any:
        return param.ds_id

    def is_swappable_tensor(self, tensor: torch.Tensor | None = None, numel: int | None = None) -> bool:
        if tensor is not None:
            return getattr(tensor, "swappable", True) and self._large(tensor.numel())
        return self._large(numel)

    swappable_tensor = is_swappable_tensor

    def _large(self, numel: Any) -> bool:
        return int(numel) * self.dtype.itemsize >= self._minimum_bytes

    # Masters at start-up.

    def initialize_parameters(self, parameters: Sequence[torch.Tensor], src_tensors: Sequence[torch.Tensor]) -> None:
        for parameter, weights in zip(parameters, src_tensors, strict=True):
            source = weights.detach()
            entry = self._new_entry(parameter, source.numel())
            tensor = self._declare(entry, _MASTER)
            if source.dtype == self.dtype:
                self._engine.put(tensor, source).result()
            else:
                lease = self._engine.allocate(tensor)
                from_dlpack(lease).copy_(source)
                self._engine.commit(lease)
            parameter.data = self._nothing()

    def initialize_from_swapped_fp16_params(
        self,
        fp16_partitions_info: Sequence[Sequence[tuple[torch.Tensor, int, SwappedParameter | None]]],
        fp16_num_elems: Sequence[int],
        fp16_pinned_buffers: Sequence[torch.Tensor],
        fp32_parameters: Sequence[torch.Tensor],
    ) -> None:
        """fast_init: masters straight from swapped parameters."""
        for parameter, partitions, numel in zip(fp32_parameters, fp16_partitions_info, fp16_num_elems, strict=True):
            entry = self._new_entry(parameter, numel)
            lease = self._engine.allocate(self._declare(entry, _MASTER))
            master, offset = from_dlpack(lease), 0
            for partition, elements, swapped in partitions:
                source = partition.data if swapped is None else swapped.swapper.read(swapped.ds_id)
                master.narrow(0, offset, elements).copy_(source)
                offset += elements
            self._engine.commit(lease)
            parameter.data = self._nothing()

    # The step.

    def swap_in_optimizer_state(self, parameter: torch.Tensor, async_parameter: Any = None) -> None:
        """On return the master, every state tensor and the gradient of `parameter` are in memory."""
        entry = self._entries.get(self.parameter_id(parameter))
        if entry is None:
            return
        self._session.plan_if_stale()
        futures = {}
        if not entry.leases:
            futures = {name: self._engine.get(tensor, True) for name, tensor in entry.tensors.items()}
        gradient = self._gradient(parameter, entry)  # while the states are being read
        if futures:
            self._install(parameter, entry, futures)
        if gradient is not None:
            parameter.grad = gradient

    def swap_out_optimizer_state(self, parameter: torch.Tensor, async_swap: bool = False) -> None:
        """What is in memory becomes the content; states that the optimizer has made since are found here."""
        entry = self._entries.get(self.parameter_id(parameter))
        if entry is None:
            return
        self._engine.check()
        self._commit(entry, _MASTER, parameter)
        for name, state in self._states(parameter).items():
            self._commit(entry, name, state)
        parameter.data = self._nothing()

    def swap_out_gradients(
        self,
        parameter: torch.Tensor,
        gradient_offsets: Sequence[int],
        gradient_tensors: Sequence[torch.Tensor],
    ) -> None:
        """Gradients stay where DeepSpeed has them: in its flat buffer."""

    # safe_get_*, safe_set_*, Muon.

    def release_swap_buffers(self, parameter: torch.Tensor) -> None:
        """Drops what is in memory without writing; views of it stay valid as long as they live."""
        entry = self._entries.get(self.parameter_id(parameter))
        if entry is None:
            return
        entry.leases.clear()
        parameter.data = self._nothing()
        for state in self._states(parameter).values():
            state.data = self._nothing()

    def writeback_optimizer_state_and_gradients(
        self, parameter: torch.Tensor, write_opt_state: bool, write_gradients: bool
    ) -> None:
        entry = self._entries.get(self.parameter_id(parameter))
        if entry is None:
            return
        if write_gradients and parameter.grad is not None:
            self._keep_gradient(parameter, entry, parameter.grad.detach())
        if write_opt_state:
            self.swap_out_optimizer_state(parameter)
        else:
            self.release_swap_buffers(parameter)

    def forget_set_gradients(self) -> None:
        """The step is over: gradients come from the next backward."""
        for entry in self._entries.values():
            while entry.set_gradients:
                self._engine.forget(entry.set_gradients.popitem()[1][2])

    def purge_state(self) -> None:
        """Optimizer states are void (a checkpoint was loaded over them); masters stay."""
        for entry in self._entries.values():
            for name in [name for name in entry.tensors if name != _MASTER]:
                entry.leases.pop(name, None)
                self._engine.forget(entry.tensors.pop(name))

    # Checkpoints.

    def contents(self, parameter: torch.Tensor) -> dict[str, Content]:
        """What is swapped of a sub-group: "master" and the names of states. Empty: nothing is."""
        entry = self._entries.get(getattr(parameter, "ds_id", ""))
        if entry is None:
            return {}
        states = self.optimizer.state.get(parameter, {})
        return {
            name: Content(self._engine, tensor, entry.numel, parameter if name == _MASTER else states[name])
            for name, tensor in entry.tensors.items()
        }

    def tensor(self, parameter: torch.Tensor, name: str) -> int:
        return self._entries[self.parameter_id(parameter)].tensors[name]

    def has_state(self, parameter: torch.Tensor, name: str) -> bool:
        return name in self._entries[self.parameter_id(parameter)].tensors

    def forget_state(self, parameter: torch.Tensor, name: str) -> None:
        tensor = self._entries[self.parameter_id(parameter)].tensors.pop(name, None)
        if tensor is not None:
            self._engine.forget(tensor)

    def prepare_state(self, parameter: torch.Tensor, name: str, dtype: torch.dtype) -> int:
        """The tensor that will take a state from a checkpoint. It has its content when the checkpoint is taken over."""
        entry = self._entries[self.parameter_id(parameter)]
        tensor = entry.tensors.get(name)
        return self._declare(entry, name, dtype) if tensor is None else tensor

    def forget_states(self, parameter: torch.Tensor, but: Iterable[str]) -> None:
        """Gives up states that are void: all but those named."""
        entry = self._entries[self.parameter_id(parameter)]
        for name in set(entry.tensors) - {_MASTER, *but}:
            entry.leases.pop(name, None)
            self.forget_state(parameter, name)

    def numel(self, parameter: torch.Tensor) -> int | None:
        """The elements of a sub-group that is swapped; None: it is not."""
        entry = self._entries.get(getattr(parameter, "ds_id", ""))
        return None if entry is None else entry.numel

    def swaps_state(self, parameter: torch.Tensor, value: Any) -> bool:
        """Whether a state of a checkpoint is swapped here."""
        entry = self._entries.get(getattr(parameter, "ds_id", ""))
        return entry is not None and torch.is_tensor(value) and self._belongs(value, entry)

    @contextlib.contextmanager
    def new_master(self, parameter: torch.Tensor) -> Iterator[torch.Tensor]:
        """Memory for a sub-group's next master, which is its content on leaving."""
        lease = self._engine.allocate(self._entries[self.parameter_id(parameter)].tensors[_MASTER])
        yield from_dlpack(lease)
        self._engine.commit(lease)

    def master(self, parameter: torch.Tensor) -> torch.Tensor:
        """A sub-group's master, to read, as long as the tensor lives."""
        return from_dlpack(self._engine.get(self._entries[self.parameter_id(parameter)].tensors[_MASTER]).result())

    def settle_tensors(self) -> None:
        """Before a plan: states get the names that `penstock plan` gives them, so that rules mean the same."""
        stage3: Any = self._stage3()
        for number, group in enumerate(getattr(stage3, "fp32_partitioned_groups_flat", ())):
            entry = self._entries.get(getattr(group, "ds_id", ""))
            for name, tensor in entry.tensors.items() if entry is not None else ():
                self._engine.rename(tensor, f"sub-group {number} {name}")

    # Bookkeeping that DeepSpeed calls and nothing here needs.

    def init_timers(self) -> None: ...
    def log_timers(self) -> None: ...
    def pre_backward(self) -> None: ...
    def post_backward(self) -> None: ...
    def flush_gradients(self) -> None: ...

    def _new_entry(self, parameter: torch.Tensor, numel: int) -> _Entry:
        entry = _Entry(parameter, numel)
        self._entries[self.parameter_id(parameter)] = entry
        return entry

    def _declare(self, entry: _Entry, name: str, dtype: torch.dtype | None = None) -> int:
        role = {_MASTER: "master", "gradient": "gradient"}.get(name, "moment")
        tensor = self._engine.declare(
            self._space, f"{entry.name}.{name}", engine_dtype(dtype or self.dtype), [entry.numel], role
        )
        if role != "gradient":
            entry.tensors[name] = tensor
            self._session.plan_is_stale = True
        return tensor

    def _install(self, parameter: torch.Tensor, entry: _Entry, futures: dict[str, Future]) -> None:
        """All or nothing: a read that fails leaves the sub-group swapped out."""
        leases = {name: future.result() for name, future in futures.items()}
        states = self.optimizer.state.get(parameter, {})
        for name, lease in leases.items():
            target = parameter if name == _MASTER else states[name]
            target.data = from_dlpack(lease)
        entry.leases = leases

    def _states(self, parameter: torch.Tensor) -> dict[str, torch.Tensor]:
        """State tensors of the parameter's length, swapped ones (which are empty now) included."""
        entry = self._entries[self.parameter_id(parameter)]
        return {
            name: value
            for name, value in self.optimizer.state.get(parameter, {}).items()
            if torch.is_tensor(value) and (name in entry.tensors or self._belongs(value, entry))
        }

    def _belongs(self, value: torch.Tensor, entry: _Entry) -> bool:
        return value.numel() == entry.numel and self.is_swappable_tensor(tensor=value)

    def _commit(self, entry: _Entry, name: str, target: torch.Tensor) -> None:
        """Raises ArgumentError where a tensor has another size than before; its content stays the last one."""
        lease = entry.leases.pop(name, None)
        data = target.data
        if lease is None and data.numel() == 0:
            return  # it is swapped out
        if data.numel() != entry.numel:
            raise ArgumentError(
                f"'{name}' of the optimizer's sub-group {entry.name} has {data.numel()} elements now and had "
                f"{entry.numel} before: penstock cannot swap a state that changes its size. Use an optimizer whose "
                'states keep theirs, or "device": "cpu" for offload_optimizer'
            )
        if lease is not None and data.data_ptr() == lease.data_ptr:
            self._engine.commit(lease)
        else:  # made by the optimizer, or another tensor was put there
            tensor = entry.tensors.get(name)
            if tensor is None:
                tensor = self._declare(entry, name, data.dtype)
            self._engine.put(tensor, data.contiguous()).result()
        target.data = self._nothing(data.dtype)

    def _gradient(self, parameter: torch.Tensor, entry: _Entry) -> torch.Tensor | None:
        """The sub-group's gradient in the master's dtype, in memory that may be changed."""
        source = self._flat_gradient(parameter)
        if source is None:
            return None
        cycle = self._cycle()
        if cycle is not None:
            cycle.settle()
        if entry.gradient is None:
            entry.gradient = self._declare(entry, "gradient")
        # Scratch memory of the engine, given back with the last view: a fresh allocation of this size
        # would be zeroed by the kernel at every step.
        gradient = from_dlpack(self._engine.allocate(entry.gradient)).copy_(source)
        for ds_id, (offset, numel, tensor) in entry.set_gradients.items():
            if ds_id is None or cycle is None or cycle.is_by_hand(ds_id):
                gradient.narrow(0, offset, numel).copy_(from_dlpack(self._engine.get(tensor).result()))
        return gradient

    def _keep_gradient(self, parameter: torch.Tensor, entry: _Entry, gradient: torch.Tensor) -> None:
        """Keeps what the script has set; all of the sub-group where DeepSpeed has computed it anew (Muon)."""
        cycle = self._cycle()
        stage3: Any = self._stage3()
        ranges: dict[int | None, tuple[int, int]] = {None: (0, entry.numel)}
        if cycle is not None and cycle.being_set is not None:
            positions = {param.ds_id: stage3.grad_position[stage3.get_param_id(param)] for param in cycle.being_set}
            ranges = {
                ds_id: (offset, numel)
                for ds_id, (number, offset, numel) in positions.items()
                if stage3.fp32_partitioned_groups_flat[number] is parameter
            }
        for ds_id, (offset, numel) in ranges.items():
            kept = entry.set_gradients.get(ds_id)
            if kept is None:
                name = f"{entry.name}.gradient of {'all' if ds_id is None else ds_id}"
                tensor = self._engine.declare(self._space, name, engine_dtype(gradient.dtype), [numel], "gradient")
                kept = entry.set_gradients[ds_id] = (offset, numel, tensor)
            self._engine.put(kept[2], gradient.narrow(0, offset, numel)).result()

    def _cycle(self) -> GradientCycle | None:
        stage3 = self._stage3()
        return None if stage3 is None else cycle_of(stage3)

    def _flat_gradient(self, parameter: torch.Tensor) -> torch.Tensor | None:
        stage3: Any = self._stage3()
        flat: torch.Tensor | None = getattr(stage3, "grad_partitions_flat_buffer", None)
        if flat is None:
            return None
        offset = 0
        for group, numel in zip(
            stage3.fp32_partitioned_groups_flat, stage3.fp16_partitioned_groups_flat_numel, strict=True
        ):
            if group is parameter:
                return flat.narrow(0, offset, int(numel))
            offset += int(numel)
        return None

    def _nothing(self, dtype: torch.dtype | None = None) -> torch.Tensor:
        return torch.empty(0, dtype=dtype or self.dtype)

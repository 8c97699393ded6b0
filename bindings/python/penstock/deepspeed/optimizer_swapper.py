"""Stands behind DeepSpeed's optimizer swappers: master weights and optimizer states that live in penstock."""

from __future__ import annotations

import contextlib
import os
import weakref
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch.utils.dlpack import from_dlpack

from penstock._core import STATE_CHUNK_ELEMENTS, Lease
from penstock.deepspeed import plain_tensors
from penstock.deepspeed.checkpoint.content import Content
from penstock.deepspeed.flat_gradient import flat_gradient
from penstock.deepspeed.gradient_cycle import GradientCycle, cycle_of
from penstock.deepspeed.muon import changes_in_memory
from penstock.deepspeed.narrow_states import NarrowStates
from penstock.deepspeed.parameter_swapper import MINIMUM_BYTES, SwappedParameter
from penstock.deepspeed.session import Session, as_it_is_now, open_session
from penstock.deepspeed.step_choice import streamed_step
from penstock.deepspeed.sub_group import MASTER, SubGroup
from penstock.deepspeed.swapped_state import SwappedState, detach, expect_length, expect_own, swap_in, swap_out
from penstock.deepspeed.torch_dtype import engine_dtype


class OptimizerSwapper:
    """DeepSpeed's optimizer swapper over a penstock engine, with and without pipelining alike.

    Where the optimizer can be stepped in chunks, `step` does so (StreamedStep), and nothing whole is in memory. Else
    `swap_in_optimizer_state` leases a sub-group's states, most of which the engine has read ahead, and
    `swap_out_optimizer_state` returns at once. What is no step gets whole states in both cases.

    Gradients are not swapped at all: they lie in DeepSpeed's flat buffer in RAM, whose slice is copied (and widened to
    fp32, exactly) when a sub-group is stepped. Which of it is this step's gradient: GradientCycle. Gradients that the
    script sets are tensors of the engine until the step, since the flat buffer may be 16-bit.
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
        self.dtype = dtype
        self.is_initializing = False  # DeepSpeed goes through all sub-groups without changing anything
        self.session: Session = open_session(config or {})
        self._space = self.session.open_namespace("optimizer", swap_config.nvme_path)  # before dead engines close it
        self.close = weakref.finalize(self, self.session.close_namespace, self._space)  # once, by the first who calls
        self.close.atexit = False
        self.engine = self.session.engine
        self._stage3 = weakref.ref(stage3) if stage3 is not None else lambda: None
        self.step = streamed_step(stage3, self)
        self.config = as_it_is_now(config or self.session.config)
        self._narrow = NarrowStates.of(self.config, self.step is not None and self.step.takes_narrow_states)
        self._minimum_bytes = max(MINIMUM_BYTES, int(aio_config["block_size"]))
        self.session.before_plan(self.settle_tensors)
        self._groups: dict[str, SubGroup] = {}
        # Nothing lies here: contents are in unlinked files.
        self.swap_folder = os.path.join(base_folder, "optimizer")

    @property
    def optimizer(self) -> torch.optim.Optimizer:
        """That of now: DeepSpeed puts a new Adagrad there, and scripts whatever they like."""
        stage3: Any = self._stage3()
        return stage3.optimizer  # type: ignore[no-any-return]

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
            self._initialize(parameter, weights.numel(), [weights])

    def initialize_from_swapped_fp16_params(
        self,
        fp16_partitions_info: Sequence[Sequence[tuple[torch.Tensor, int, SwappedParameter | None]]],
        fp16_num_elems: Sequence[int],
        fp16_pinned_buffers: Sequence[torch.Tensor],
        fp32_parameters: Sequence[torch.Tensor],
    ) -> None:
        """Masters straight from swapped parameters, without a whole sub-group in memory."""
        for parameter, partitions, numel in zip(fp32_parameters, fp16_partitions_info, fp16_num_elems, strict=True):
            parts = (
                (partition.data if swapped is None else swapped.swapper.read(swapped.ds_id)).narrow(0, 0, elements)
                for partition, elements, swapped in partitions
            )
            self._initialize(parameter, numel, parts)

    def _initialize(self, parameter: torch.Tensor, numel: int, parts: Iterable[torch.Tensor]) -> None:
        chunk_numel = STATE_CHUNK_ELEMENTS if self.step is not None else numel
        group = SubGroup(self.engine, self._space, str(self.parameter_id(parameter)), numel, chunk_numel)
        self._groups[self.parameter_id(parameter)] = group
        group.write(MASTER, parts, self.dtype)
        self.session.plan_is_stale = True
        parameter.data = self.nothing()

    def initialize_state(self, parameter: torch.Tensor, name: str, parts: Iterable[torch.Tensor]) -> None:
        """A state that is not zero at first: its chunks in a row."""
        self.prepare_state(parameter, name, self.dtype).write(name, parts, self.dtype)
        self.optimizer.state[parameter][name] = self.nothing()

    # The step.
    def swap_in_optimizer_state(self, parameter: torch.Tensor, async_parameter: Any = None) -> None:
        """On return the master, every state tensor and the gradient of `parameter` are in memory."""
        if (group := self.group(parameter)) is None:
            return
        group.opened = None
        if self.is_initializing:
            parameter.data = plain_tensors.zeros((), self.dtype).expand(group.numel)  # as long, without memory
            return
        self.settle_states(parameter)
        self.session.plan_if_stale()
        if parameter.numel() == 0:
            self._install(parameter, group)
        if (gradient := self.gradient(parameter, group)) is not None:
            parameter.grad = gradient

    def swap_out_optimizer_state(self, parameter: torch.Tensor, async_swap: bool = False) -> None:
        """What is in memory becomes the content; states that the optimizer has made since are found here."""
        group = self.group(parameter)
        if group is None:
            return
        self.session.check_writes()
        opened, group.opened = group.opened, None
        if opened is not None and opened.name is not None:
            group.write_range(opened.name, opened.begin, opened.content)
            return
        if not self.is_initializing:
            self._commit(group, MASTER, parameter)
        self._commit_states(parameter, group)
        parameter.data = self.nothing()

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
        group = self.group(parameter)
        if group is None:
            return
        group.opened = None
        group.leases.clear()
        if parameter.numel() != 0:
            for name, state in self._states(parameter, group).items():
                swap_out(state, group, name)
        parameter.data = self.nothing()

    def writeback_optimizer_state_and_gradients(
        self, parameter: torch.Tensor, write_opt_state: bool, write_gradients: bool
    ) -> None:
        group = self.group(parameter)
        if group is None:
            return
        opened = group.opened
        if write_gradients and opened is not None and opened.name is None:
            self._keep_gradient(parameter, group, opened.content, opened.begin)
        elif write_gradients and parameter.grad is not None:
            self._keep_gradient(parameter, group, parameter.grad.detach())
        if write_opt_state:
            self.swap_out_optimizer_state(parameter)
        else:
            self.release_swap_buffers(parameter)

    def end_step(self) -> None:
        """The step is over, or has failed."""
        if self.step is not None:
            self.step.end()

    def forget_set_gradients(self, but_of: Collection[int]) -> None:
        for group in self._groups.values():
            for ds_id in group.set_gradients.keys() - but_of:
                self.engine.forget(group.set_gradients.pop(ds_id)[2])

    def purge_state(self) -> None:
        """Optimizer states are void (a checkpoint was loaded over them); masters stay."""
        for group in self._groups.values():
            group.forget_states()

    # Checkpoints.
    def group(self, parameter: torch.Tensor) -> SubGroup | None:
        """The sub-group of a flat master; None: it is not swapped."""
        return self._groups.get(getattr(parameter, "ds_id", ""))

    def contents(self, parameter: torch.Tensor) -> dict[str, Content]:
        """What is swapped of a sub-group: "master" and the names of states. Empty: nothing is."""
        group = self.group(parameter)
        if group is None:
            return {}
        self.settle_states(parameter)
        states = {**self.optimizer.state.get(parameter, {}), MASTER: parameter}
        names = group.contents()
        for name in names:
            group.complete(name)
        return {
            name: Content(self.engine, group.tensors[name], group.numel, states[name], group.layouts(name))
            for name in names
        }

    def prepare_state(self, parameter: torch.Tensor, name: str, dtype: torch.dtype) -> SubGroup:
        """For a state whose content comes from elsewhere; of a checkpoint, when that is taken over."""
        group = self._groups[self.parameter_id(parameter)]
        if name not in group.tensors:
            self.declare_state(group, name, dtype)
        return group

    def declare_state(self, group: SubGroup, name: str, dtype: torch.dtype) -> None:
        """A state that does not exist yet."""
        if self._narrow is not None:
            self._narrow.settle(self._stage3(), self.group)
        group.declare(name, dtype)
        if self.step is not None and name in self.step.unused_states:
            group.note_unused(name)
        self.session.plan_is_stale = True

    def settle_states(self, parameter: torch.Tensor) -> None:
        """States that a script has put in memory are the content; the optimizer makes anew those that it took away."""
        group = self._groups[self.parameter_id(parameter)]
        states = self.optimizer.state.get(parameter, {})
        for name in group.contents():
            if name != MASTER and not torch.is_tensor(states.get(name)):
                detach(group, name)
                group.forget(name)
        if parameter.numel() == 0:
            self._commit_states(parameter, group)

    def forget_states(self, parameter: torch.Tensor, but: Iterable[str]) -> None:
        """Gives up states that are void: all but those named, which have their content from a checkpoint."""
        group, but = self._groups[self.parameter_id(parameter)], list(but)
        group.forget_states(but)
        for name in but:
            group.note_content(name)

    def swaps_state(self, parameter: torch.Tensor, name: str, value: Any) -> bool:
        """Whether a state of a checkpoint is swapped here."""
        group = self.group(parameter)
        return group is not None and torch.is_tensor(value) and self._belongs(name, value, group)

    @contextlib.contextmanager
    def new_master(self, parameter: torch.Tensor) -> Iterator[torch.Tensor]:
        """Memory for a sub-group's next master, which is its content on leaving."""
        group = self._groups[self.parameter_id(parameter)]
        if group.is_cut:
            whole = plain_tensors.empty(group.numel, self.dtype)
            yield whole
            group.put(MASTER, whole)
            return
        lease = self.engine.allocate(group.tensors[MASTER][0])
        yield from_dlpack(lease)
        group.commit(MASTER, 0, lease)

    def copy_master(self, parameter: torch.Tensor, target: torch.Tensor) -> None:
        """As target.copy_(master)."""
        for begin, chunk in self._groups[self.parameter_id(parameter)].chunks(MASTER):
            target.narrow(0, begin, chunk.numel()).copy_(chunk)

    def settle_tensors(self) -> None:
        """Before a plan: states get the names that `penstock plan` gives them, so that rules mean the same."""
        stage3: Any = self._stage3() if self.close.alive else None  # a script may keep what it has destroyed
        for number, master in enumerate(getattr(stage3, "fp32_partitioned_groups_flat", ())):
            group = self.group(master)
            if group is not None:
                group.rename(f"sub-group {number}")

    # Nothing here needs them.
    def init_timers(self) -> None: ...
    def log_timers(self) -> None: ...
    def pre_backward(self) -> None: ...
    def post_backward(self) -> None: ...
    def flush_gradients(self) -> None: ...

    def _install(self, parameter: torch.Tensor, group: SubGroup) -> None:
        """All or nothing: a read that fails leaves the sub-group swapped out."""
        states = self.optimizer.state.get(parameter, {})
        targets = {name: parameter if name == MASTER else states[name] for name in group.contents()}
        leases: dict[str, Lease] = {}
        for name in targets:
            group.complete(name)
        if group.is_cut or group.segments:
            contents = {name: group.read(name, target.dtype) for name, target in targets.items()}
        else:
            futures = {name: self.engine.get(group.tensors[name][0], True) for name in targets}
            leases = {name: future.result() for name, future in futures.items()}
            contents = {name: from_dlpack(lease) for name, lease in leases.items()}
        for name, target in targets.items():
            swap_in(target, contents[name])
        group.leases = leases

    def _states(self, parameter: torch.Tensor, group: SubGroup) -> dict[str, torch.Tensor]:
        """State tensors of the parameter's length, swapped ones (which are empty now) included."""
        return {
            name: value
            for name, value in self.optimizer.state.get(parameter, {}).items()
            if torch.is_tensor(value) and (name in group.tensors or self._belongs(name, value, group))
        }

    def _belongs(self, name: str, value: torch.Tensor, group: SubGroup) -> bool:
        is_whole = value.dim() == 1 and not isinstance(value, torch.nn.Parameter) and value.numel() == group.numel
        return is_whole and self.is_swappable_tensor(tensor=value) and not changes_in_memory(self._stage3(), name)

    def _commit_states(self, parameter: torch.Tensor, group: SubGroup) -> None:
        for name, state in self._states(parameter, group).items():
            self._commit(group, name, state)

    def _commit(self, group: SubGroup, name: str, target: torch.Tensor) -> None:
        """Raises ArgumentError where a tensor has another size than before; its content stays the last one."""
        lease = group.leases.pop(name, None)
        if isinstance(target, SwappedState):
            expect_own(target, group, name)
            return
        data = target.data
        if lease is None and data.numel() == 0:
            swap_out(target, group, name)  # what had no content then may have one now
            return
        expect_length(group, name, data)
        if lease is not None and data.data_ptr() == lease.data_ptr:
            group.commit(name, 0, lease)
        else:  # read whole, made by the optimizer, or another tensor was put there
            detach(group, name, target)
            if group.dtypes.get(name) != data.dtype:
                group.forget(name)
                self.declare_state(group, name, data.dtype)
            group.put(name, data)
        swap_out(target, group, name)

    def gradient(self, parameter: torch.Tensor, group: SubGroup) -> torch.Tensor | None:
        """The sub-group's gradient in the master's dtype, in memory that may be changed."""
        if (source := flat_gradient(self._stage3(), parameter)) is None:
            return None
        if (cycle := self.cycle()) is not None:
            cycle.settle()
        gradient = group.scratch(self.dtype).copy_(source)
        for offset, numel, content in self.valid_set_gradients(group):
            gradient.narrow(0, offset, numel).copy_(content)
        return gradient

    def valid_set_gradients(self, group: SubGroup) -> Iterator[tuple[int, int, torch.Tensor]]:
        """What the script has set and no backward has replaced: offset, elements, content."""
        cycle = self.cycle()
        for ds_id, (offset, numel, tensor) in group.set_gradients.items():
            if ds_id is None or cycle is None or cycle.is_by_hand(ds_id):
                yield offset, numel, from_dlpack(self.engine.get(tensor).result())

    def _keep_gradient(self, parameter: torch.Tensor, group: SubGroup, gradient: torch.Tensor, begin: int = 0) -> None:
        """Keeps what the script has set; all of the sub-group where DeepSpeed has computed it anew (Muon).

        begin: where `gradient` lies in the sub-group.
        """
        cycle = self.cycle()
        stage3: Any = self._stage3()
        ds_id: int | None = None
        offset, numel = 0, group.numel
        if cycle is not None and (param := cycle.being_set) is not None:
            ds_id = param.ds_id
            _, offset, numel = stage3.grad_position[stage3.get_param_id(param)]
        kept = group.set_gradients.get(ds_id)
        if kept is None:
            name = f"{group.key}.gradient of {'all' if ds_id is None else ds_id}"
            tensor = self.engine.declare(self._space, name, engine_dtype(gradient.dtype), [numel], "gradient")
            kept = group.set_gradients[ds_id] = (offset, numel, tensor)
        self.engine.put(kept[2], gradient.narrow(0, offset - begin, numel)).result()

    def cycle(self) -> GradientCycle | None:
        return None if (stage3 := self._stage3()) is None else cycle_of(stage3)

    def nothing(self, dtype: torch.dtype | None = None) -> torch.Tensor:
        return plain_tensors.empty(0, dtype or self.dtype)

"""Masters and states of a checkpoint that as many ranks have saved, on their way into a stage-3 optimizer."""

from __future__ import annotations

import functools
import itertools
from collections import Counter, defaultdict
from typing import Any

import torch

from penstock.deepspeed import plain_tensors
from penstock.deepspeed.checkpoint.archive import Source
from penstock.deepspeed.checkpoint.intake import Intake
from penstock.deepspeed.sub_group import MASTER, SubGroup
from penstock.deepspeed.swapped_state import SwappedState, loaded, put_aside, show_form, swap_out
from penstock.errors import ArgumentError, UnsupportedError

_MOMENTS = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq")  # as `penstock inspect` compares them with their masters


class LoadedStates:
    """What one rank's file of a checkpoint has of them, or a script gives."""

    def __init__(self, stage3: Any, archive: Source, saved: dict[str, Any], intake: Intake) -> None:
        from penstock.deepspeed.optimizer_swapper import OptimizerSwapper

        self.stage3 = stage3
        self.archive = archive
        self.saved = saved
        self.intake = intake
        swapper = stage3.optimizer_swapper
        self._swapper = swapper if isinstance(swapper, OptimizerSwapper) else None
        self.restores_powers = True
        self._prepared: list[tuple[SubGroup, str]] = []  # states that did not exist
        # Id of a master -> its swapped states in the checkpoint, and what stands for them in the optimizer.
        self._states: dict[int, dict[str, torch.Tensor]] = {}
        self._optimizer: dict[str, Any] = {}  # what collect() has read for the optimizer, without what is swapped

    def check(self) -> None:
        """Errors: it is of another model, other sub-groups or other ranks."""
        masters, saved = self.stage3.fp32_partitioned_groups_flat, self.saved["fp32_flat_groups"]
        if len(masters) != len(saved):
            raise ArgumentError(
                f"{self.archive.path} has {len(saved)} sub-groups, this run {len(masters)}: it was saved with another "
                "model, sub_group_size or set of trained parameters"
            )
        for number, (master, flat) in enumerate(zip(masters, saved, strict=True)):
            numel = self._numel(master)
            if flat.numel() == 0 and numel > 0:
                raise UnsupportedError(
                    f"{self.archive.path} has no weights in sub-group {number}: DeepSpeed has saved it from NVMe by "
                    "itself, which keeps no step counts, moments of small groups and scaler; it cannot be resumed"
                )
            if flat.numel() != numel:
                raise ArgumentError(
                    f"sub-group {number} of {self.archive.path} has {flat.numel()} elements, this run's {numel}: it "
                    "was saved with another model, sub_group_size or number of ranks"
                )

        self._refuse_other_groups_of_ranks()

    def _refuse_other_groups_of_ranks(self) -> None:
        """AutoEP divides experts over fewer ranks than the rest, and some of them whole: the lengths are the same."""
        saved = self.saved.get("ds_zero_partition_groups")
        if saved is not None and saved != self.stage3._zero3_partition_group_metadata():
            raise ArgumentError(
                f"{self.archive.path} has experts that are divided over the ranks in another way than in this run: it "
                "was saved with another `expert_parallel.autoep_size`"
            )

    def _numel(self, master: Any) -> int:
        group = self._group(master)
        return int(master.numel() if group is None else group.numel)

    def _group(self, master: Any) -> SubGroup | None:
        """None: it is in memory."""
        return None if self._swapper is None else self._swapper.group(master)

    def collect(self, with_states: bool = True) -> None:
        """Says where records go, and reads what is small. with_states: of states, too."""
        from penstock.deepspeed.checkpoint.swapped import states_in_order

        for number, saved in enumerate(self.saved["fp32_flat_groups"]):
            self._collect_master(number, saved)
        if not with_states:
            return
        if _loads_as_torch_does(self.stage3.optimizer):
            once = _without_repeats(self.saved["optimizer_state_dict"])
            self.saved = {**self.saved, "optimizer_state_dict": once}  # the dict may be a script's
            self._refuse_other_groups()
            self._refuse_other_moments()
        optimizer = self.saved["optimizer_state_dict"]
        states = _states_of(optimizer)
        for number, master in enumerate(states_in_order(self.stage3)):
            for name, value in states.get(number, {}).items():
                if self._swapper is not None and self._swapper.swaps_state(master, name, value):
                    group = self._swapper.prepare_state(master, name, value.dtype)
                    if not group.has_content(name):
                        self._prepared.append((group, name))
                    self.intake.to_state(self.archive, value, group, name)
                    self._states.setdefault(id(master), {})[name] = plain_tensors.empty(0, value.dtype)
        if self._swapper is not None and self._prepared:
            self._swapper.settle_tensors()  # an error names tensors as users know them
        self._optimizer = self._in_memory(optimizer)

    def _refuse_other_groups(self) -> None:
        """As torch does when weights are loaded already. A script may make them fit, in a hook or a subclass."""
        saved = [len(group["params"]) for group in self.saved["optimizer_state_dict"]["param_groups"]]
        counts = Counter(self.stage3.sub_group_to_group_id.values())
        ours = [counts[number] for number in range(len(self.stage3.optimizer.param_groups))]
        if saved != ours:
            raise ArgumentError(
                f"{self.archive.path} has {len(saved)} parameter groups with {saved} sub-groups, this run {len(ours)} "
                f"with {ours}: it was saved with other parameter groups"
            )

    def _refuse_other_moments(self) -> None:
        """Where a step goes element by element. It would fail, when the states before the load are gone. What steps
        whole sub-groups may have states of any shape.
        """
        from penstock.deepspeed.checkpoint.swapped import states_in_order

        if getattr(self.stage3.optimizer_swapper, "step", None) is None:
            return
        states = _states_of(self.saved["optimizer_state_dict"])
        for number, master in enumerate(states_in_order(self.stage3)):
            saved, numel = states.get(number, {}), self._numel(master)
            for name in _MOMENTS:
                moment = saved.get(name)
                if torch.is_tensor(moment) and moment.numel() not in (1, numel):
                    raise ArgumentError(
                        f"{name} of sub-group {number} in {self.archive.path} has {moment.numel()} elements, its "
                        f"master {numel}: what wrote the file has cut it, or mixed two checkpoints"
                    )

    def _collect_master(self, number: int, saved: torch.Tensor) -> None:
        from penstock.deepspeed.parameter_swapper import parameter_swapper

        master = self.stage3.fp32_partitioned_groups_flat[number]
        group = self._group(master)
        if group is not None:
            self.intake.to_state(self.archive, saved, group, MASTER)
        if self.stage3.fp16_partitioned_groups_flat[number] is not None:
            return
        offset = 0
        partitions = self.stage3.fp16_partitioned_groups[number]
        for param, partition in zip(self.stage3.fp16_groups[number], partitions, strict=True):
            part = saved.detach().narrow(0, offset, partition.ds_numel)
            offset += partition.ds_numel
            swapper = parameter_swapper(param)
            if swapper is None:
                self.intake.to_memory(partition.data, functools.partial(self.archive.copy, part))
            else:
                self.intake.at_begin(functools.partial(swapper.drop_read_ahead, param))
                self.intake.to_engine(self.archive, part, swapper.tensor(param), copy=True)

    def give_up(self) -> None:
        for group, name in self._prepared:
            group.forget(name)
        self._prepared.clear()

    def install(self, load_optimizer_states: bool) -> None:
        """As DeepSpeed's _rigid_load_state_dict, for swapped and other sub-groups alike."""
        from penstock.deepspeed.checkpoint.adam_powers import initial_betas, restore_powers

        stage3, saved = self.stage3, self.saved
        self.intake.begin()
        stage3.loss_scaler = saved["loss_scaler"]
        stage3.dynamic_loss_scale = saved["dynamic_loss_scale"]
        stage3.overflow = saved["overflow"]
        if self._swapper is not None:
            for master in stage3.fp32_partitioned_groups_flat:
                self._swapper.release_swap_buffers(master)  # what an exception has left swapped in
        if load_optimizer_states and self._swapper is not None:
            if _loads_as_torch_does(stage3.optimizer):
                _let_go_of_states(stage3.optimizer)  # else it may keep some of them: all come into memory
            for master in stage3.fp32_partitioned_groups_flat:
                if (group := self._swapper.group(master)) is not None:
                    put_aside(group, list(group.shown))
        self.intake.publish()
        self._prepared.clear()
        betas = initial_betas(stage3)
        if load_optimizer_states:
            stage3._clear_fp32_optimizer_param_groups()  # which torch's Adagrad leaves full when it is made
            stage3._set_fp32_optimizer_param_groups()
            with loaded(self._show_states(), self._cast):
                stage3.optimizer.load_state_dict(self._optimizer)
            if self._keeps_types:
                self._restore_types()
            stage3._clear_fp32_optimizer_param_groups()
        for master, flat in zip(stage3.fp32_partitioned_groups_flat, saved["fp32_flat_groups"], strict=True):
            if self._swapper is None or self._group(master) is None:
                self.archive.copy(flat, master.data)
            elif load_optimizer_states:
                self._swapper.settle_states(master)
        install_weights(stage3, self._swapper)
        if load_optimizer_states and self.restores_powers:
            restore_powers(stage3, betas)

    def _show_states(self) -> list[SwappedState]:
        """To hooks of the optimizer's load_state_dict(), and to what a subclass does there: the new contents."""
        shown = []
        for master in self.stage3.fp32_partitioned_groups_flat:
            group = self._group(master)
            if self._swapper is None or group is None:
                continue
            names = self._states.get(id(master), {})
            self._swapper.forget_states(master, names)
            for name, state in names.items():
                swap_out(state, group, name)
                assert isinstance(state, SwappedState)
                shown.append(state)
        return shown

    @property
    def _keeps_types(self) -> bool:
        """torch casts states to the type of their master. Where DeepSpeed's CPU Adam has fp32 states of 16-bit masters,
        that rounds them: no uninterrupted run does.
        """
        masters = self.stage3.fp32_partitioned_groups_flat
        has_fp32_states = getattr(self.stage3.optimizer, "fp32_optimizer_states", False)
        return has_fp32_states and any(master.dtype != torch.float32 for master in masters)

    def _cast(self, state: SwappedState, dtype: torch.dtype) -> None:
        """As torch casts what it loads."""
        group, name = state.group(), state.state_name
        assert group is not None and self._swapper is not None
        if dtype == group.dtypes[name] or self._keeps_types:
            return
        content = group.read(name, group.dtypes[name]).to(dtype)
        group.forget(name)
        self._swapper.declare_state(group, name, dtype)
        group.put(name, content)
        show_form(state, group, name)

    def _restore_types(self) -> None:
        """As _cast(), of states in memory. What a hook has changed stays as the hook left it."""
        from penstock.deepspeed.checkpoint.swapped import states_in_order

        for number, master in enumerate(states_in_order(self.stage3)):
            state = self.stage3.optimizer.state.get(master, {})
            for name, saved in _states_of(self._optimizer).get(number, {}).items():
                now = state.get(name)
                if torch.is_tensor(saved) and torch.is_tensor(now) and saved.dtype != now.dtype:
                    if torch.equal(saved.to(now), now):
                        state[name] = saved.to(now.device)

    def _in_memory(self, optimizer: dict[str, Any]) -> dict[str, Any]:
        """Without what is swapped, and with nothing that only a file has. What tensors share stays shared: behind a
        universal checkpoint it is the sub-groups' step count.
        """
        from penstock.deepspeed.checkpoint.swapped import states_in_order

        kept = optimizer
        if states := dict(_states_of(optimizer)):  # a script may have put other keys and values there
            for number, master in enumerate(states_in_order(self.stage3)):
                if number in states:
                    swapped = self._states.get(id(master), {})
                    states[number] = {name: swapped.get(name, value) for name, value in states[number].items()}
            kept = {**optimizer, "state": states}
        self.archive.read_all(kept)
        return kept


def _states_of(optimizer: Any) -> dict[Any, Any]:
    """By number, as torch's optimizers have them in their state_dict(). Empty where a class has a form of its own: its
    states come through memory.
    """
    states = optimizer.get("state") if isinstance(optimizer, dict) else None
    return states if isinstance(states, dict) else {}


def _without_repeats(optimizer: dict[str, Any]) -> dict[str, Any]:
    """Stage 3 makes torch's Adagrad anew over its masters. What it saves before the first step has each of them twice,
    by the number of the second.
    """
    groups = optimizer["param_groups"]
    params = [list(dict.fromkeys(group["params"])) for group in groups]
    if [group["params"] for group in groups] == params:
        return optimizer
    numbers = {param: number for number, param in enumerate(itertools.chain.from_iterable(params))}
    return {
        **optimizer,
        "param_groups": [
            {**group, "params": [numbers[param] for param in own]} for group, own in zip(groups, params, strict=True)
        ],
        "state": {numbers.get(param, param): states for param, states in _states_of(optimizer).items()},
    }


def _loads_as_torch_does(optimizer: Any) -> bool:
    """Whether its load_state_dict() looks at nothing but what it is given."""
    is_plain = getattr(type(optimizer), "load_state_dict", None) is torch.optim.Optimizer.load_state_dict
    return is_plain and not optimizer._optimizer_load_state_dict_pre_hooks


def _let_go_of_states(optimizer: Any) -> None:
    """A load makes them anew."""
    try:
        optimizer.state = defaultdict(dict)
    except AttributeError:  # it shows those of an optimizer that it wraps
        optimizer.state.clear()


def install_weights(stage3: Any, swapper: Any) -> None:
    """Weights in memory, from masters; what is swapped has come with the masters. swapper: an OptimizerSwapper, or None
    where masters are in memory.
    """
    for number, flat in enumerate(stage3.fp16_partitioned_groups_flat):
        if flat is None:
            continue
        master = stage3.fp32_partitioned_groups_flat[number]
        if swapper is not None and swapper.group(master) is not None:
            swapper.copy_master(master, flat.data)
        else:
            flat.data.copy_(master.data)
        attach_weights(stage3, number)


def attach_weights(stage3: Any, number: int) -> None:
    """Each parameter's partition is its part of the sub-group's flat weights."""
    flat, partitions = stage3.fp16_partitioned_groups_flat[number], stage3.fp16_partitioned_groups[number]
    for partition, part in zip(partitions, stage3.unflatten(flat, partitions), strict=True):
        partition.data = part.data

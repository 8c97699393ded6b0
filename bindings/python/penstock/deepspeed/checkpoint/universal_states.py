"""Universal checkpoints: what ds_to_universal.py makes of a checkpoint, for any number of ranks.

A file has one state of one parameter, whole and flat; a rank takes its range of each. The reference is what stage 3 of
DeepSpeed does with `device: cpu` (load_hp_checkpoint_state_from_checkpoint_dir_stage3), its peculiarities included:

- all parameter groups take the hyperparameters of the first;
- all sub-groups share one step count, also where it is a tensor that each of them counts up (torch.optim.AdamW);
- CPU Adam computes the powers of its betas anew, where a checkpoint of this number of ranks brings back the product;
- frozen parameters and buffers stay as the script has made them.
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch

from penstock.deepspeed import plain_tensors
from penstock.deepspeed.checkpoint.archive import LARGE_BYTES, Archive
from penstock.deepspeed.checkpoint.intake import Intake, Piece
from penstock.deepspeed.checkpoint.loaded_states import attach_weights, install_weights
from penstock.deepspeed.partition_ranks import own_range, ranks_of
from penstock.deepspeed.sub_group import MASTER, SubGroup
from penstock.deepspeed.swapped_state import put_aside
from penstock.deepspeed.torch_dtype import engine_dtype
from penstock.errors import ArgumentError, StorageError, UnsupportedError

_MASTER = "fp32"
_MOMENTS = ("exp_avg", "exp_avg_sq")  # there are universal checkpoints of Adam only
_MASTERS, _COPIES = 0, 1  # lanes


@dataclass
class _Range:
    """This rank's part of one file."""

    path: str
    record: str
    nbytes: int  # of the record
    offset: int  # bytes within it
    elements: int
    padding: int  # elements of 0 behind it, where the parameter is not a whole number a rank
    dtype: torch.dtype
    begin: int  # of the elements in the whole state

    def add_to(self, piece: Piece, lane: int, targets: Iterable[tuple[int, int, int]]) -> None:
        """targets: tensor, elements of this part before it, elements in it."""
        kind = engine_dtype(self.dtype)
        for tensor, before, count in targets:
            stored = max(0, min(self.elements - before, count))
            if stored:
                piece.lanes[lane].append((tensor, self.offset + before * self.dtype.itemsize, stored, kind))
            if stored < count:
                piece.padding.append((lane, tensor, count - stored))

    def copy_to(self, flat: torch.Tensor) -> None:
        """Opens the file again: to keep each open until then would take a descriptor for every state."""
        archive = opened(self.path, 1)
        saved = _tensor_of(archive.load(), self.path).view(-1)
        archive.copy(saved.narrow(0, self.begin, self.elements), flat.narrow(0, 0, self.elements))
        flat.narrow(0, self.elements, self.padding).zero_()


class UniversalStates:
    """Weights, masters and moments of a universal checkpoint, on their way into a stage-3 optimizer.

    with_moments: as DeepSpeed's load_optimizer_states. with_masters: else they follow from the 16-bit weights.
    """

    def __init__(self, stage3: Any, folder: str, intake: Intake, with_moments: bool, with_masters: bool) -> None:
        from penstock.deepspeed.optimizer_swapper import OptimizerSwapper

        self._stage3 = stage3
        self._folder = folder
        self._intake = intake
        self._keys = (_MASTER, *_MOMENTS) if with_moments else (_MASTER,)
        self._with_masters = with_masters
        swapper = stage3.optimizer_swapper
        self._swapper = swapper if isinstance(swapper, OptimizerSwapper) else None
        self._optimizer: dict[str, Any] | None = None
        self._ranges: dict[tuple[int, str], list[_Range]] = {}  # number of a sub-group, key -> a range a parameter
        self._prepared: list[tuple[SubGroup, str]] = []  # states that did not exist
        self._taken: dict[int, list[str]] = {}  # number of a sub-group -> its swapped moments
        self._small: dict[tuple[int, str], torch.Tensor] = {}  # of sub-groups that are too small to be swapped
        self.is_pending = True  # masters will be those of the files

    def check(self, shapes: dict[str, Any]) -> None:
        """Reads what describes tensors in every file. shapes: of the saved model's parameters, where they are known."""
        if len(self._keys) > 1:
            self._optimizer = self._read_optimizer()
        for number, group in enumerate(self._stage3.fp16_groups):
            for key in self._keys:
                partitions = self._stage3.fp16_partitioned_groups[number]
                self._ranges[number, key] = [
                    self._range(number, key, param, int(partition.ds_numel), shapes)
                    for param, partition in zip(group, partitions, strict=True)
                ]

    def _read_optimizer(self) -> dict[str, Any]:
        """What is not a state of a parameter. The file has a whole rank's states beside it, which nothing reads."""
        path = os.path.join(self._folder, "optimizer_state.pt")
        saved: dict[str, Any] = opened(path).load()
        if "optimizer_state_dict" not in saved:
            raise UnsupportedError(
                f"{path} was converted from ZeRO stage 1 or 2: DeepSpeed's stage 3 loads universal checkpoints of "
                "stage 3 only"
            )
        if saved["optimizer_state_dict"]["param_groups"][0].get("amsgrad"):
            raise UnsupportedError(
                f"{path} is of an optimizer with `amsgrad`: ds_to_universal.py leaves out max_exp_avg_sq, so it cannot "
                "be resumed; load the checkpoint that it was made of, with as many ranks as have saved it"
            )
        return saved

    def _range(self, number: int, key: str, param: Any, partition: int, shapes: dict[str, Any]) -> _Range:
        name = self._stage3.param_names[param]
        path = os.path.join(self._folder, name, f"{key}.pt")
        archive = opened(path, 1)  # nothing is read before its CRC-32 is
        saved = _tensor_of(archive.load(), path)
        numel, shape = int(param.ds_numel), tuple(param.ds_shape)
        if saved.numel() != numel or tuple(shapes.get(name, shape)) != shape:
            raise ArgumentError(
                f"{path} has {saved.numel()} elements of a parameter {list(shapes.get(name, saved.shape))}, in this "
                f"run it is {list(shape)}: it was saved with another model"
            )
        ranks, _ = ranks_of(self._stage3, param)
        if math.ceil(numel / ranks) != partition or getattr(param, "ds_autotp_universal_checkpoint_meta", None):
            raise UnsupportedError(
                f"{path} cannot be loaded while tensors are on NVMe: {name} is divided in another way than over the "
                "data-parallel ranks (tensor parallelism); load with `device: cpu`"
            )
        begin, elements = own_range(self._stage3, param, partition)
        place = archive.record_of(saved)
        if not saved.is_contiguous() or (place is None and numel > 0):
            raise UnsupportedError(f"{path} has no tensor in one piece, which is what ds_to_universal.py writes")
        record, offset = place or ("", 0)
        return _Range(
            path=path,
            record=record,
            nbytes=archive.records[record][1] if record else 0,
            offset=offset + begin * saved.dtype.itemsize,
            elements=elements,
            padding=partition - elements,
            dtype=saved.dtype,
            begin=begin,
        )

    def _is_swapped(self, master: Any) -> bool:
        return self._swapper is not None and self._swapper.group(master) is not None

    def collect(self) -> None:
        """Says where ranges go, in an order in which each tensor of the engine has its own in a row, and reads what is
        small.
        """
        for (number, key), ranges in self._ranges.items():
            group = self._target_group(number, key)
            begin = 0
            for index, part in enumerate(ranges):
                size = part.elements + part.padding
                piece = Piece(part.path, part.record, part.nbytes, [[], []], [])
                if group is not None:
                    name = MASTER if key == _MASTER else key
                    part.add_to(piece, _MASTERS, group.ranges(name, begin, size))
                copy = self._copy_target(number, index, part) if key == _MASTER else None
                if copy is not None:
                    part.add_to(piece, _COPIES, [(copy, 0, size)])
                if part.nbytes:
                    self._intake.add_piece(piece)
                begin += size
            self._read_small(number, key)
        if self._swapper is not None and self._prepared:
            self._swapper.settle_tensors()  # an error names tensors as users know them

    def _read_small(self, number: int, key: str) -> None:
        """Where masters belong on NVMe, those that are not there are small."""
        master = self._stage3.fp32_partitioned_groups_flat[number]
        if self._swapper is not None and not self._is_swapped(master):
            read = plain_tensors.empty(master.numel(), master.dtype)
            self._copy_to(read, number, key)
            self._small[number, key] = read

    def _target_group(self, number: int, key: str) -> SubGroup | None:
        """The sub-group whose state takes it; None: memory does, or nothing."""
        master = self._stage3.fp32_partitioned_groups_flat[number]
        if self._swapper is None or not self._is_swapped(master):
            return None
        if key == _MASTER:
            return self._swapper.group(master) if self._with_masters else None
        group = self._swapper.prepare_state(master, key, master.dtype)
        if not group.has_content(key):
            self._prepared.append((group, key))
        self._intake.encode(group, key)
        self._taken.setdefault(number, []).append(key)
        return group

    def _copy_target(self, number: int, index: int, part: _Range) -> int | None:
        """The tensor that takes a parameter's weights, where they are swapped."""
        from penstock.deepspeed.parameter_swapper import parameter_swapper

        if self._stage3.fp16_partitioned_groups_flat[number] is not None:
            return None
        param = self._stage3.fp16_groups[number][index]
        swapper = parameter_swapper(param)
        if swapper is None:
            partition = self._stage3.fp16_partitioned_groups[number][index]
            self._intake.to_memory(partition.data, part.copy_to)
            return None
        self._intake.at_begin(functools.partial(swapper.drop_read_ahead, param))
        return swapper.tensor(param)

    def give_up(self) -> None:
        for group, name in self._prepared:
            group.forget(name)
        self._prepared.clear()

    def install(self) -> None:
        """As DeepSpeed's _load_universal_checkpoint, for swapped and other sub-groups alike."""
        stage3 = self._stage3
        self._intake.begin()
        if self._swapper is not None:
            for master in stage3.fp32_partitioned_groups_flat:
                self._swapper.release_swap_buffers(master)  # what an exception has left swapped in
        for number, names in self._taken.items():
            self._put_aside(stage3.fp32_partitioned_groups_flat[number], names)
        self._intake.publish()
        self._prepared.clear()
        for number, names in self._taken.items():
            assert self._swapper is not None
            group = self._swapper.group(stage3.fp32_partitioned_groups_flat[number])
            assert group is not None
            for name in names:
                group.note_content(name)
        self.is_pending = False
        if self._optimizer is not None:
            stage3._load_global_state_stage3(self._optimizer)
            self._install_moments(self._optimizer["optimizer_state_dict"])
        if self._with_masters:
            for number, master in enumerate(stage3.fp32_partitioned_groups_flat):
                if not self._is_swapped(master):
                    self._copy_to(master.data, number, _MASTER)
            install_weights(stage3, self._swapper)
            return
        for number, flat in enumerate(stage3.fp16_partitioned_groups_flat):
            if flat is not None:
                self._copy_to(flat.data, number, _MASTER)
                attach_weights(stage3, number)
        stage3.refresh_fp32_params()

    def _put_aside(self, master: Any, names: Iterable[str]) -> None:
        """A script may hold the tensors of moments that get new ones."""
        assert self._swapper is not None
        group, states = self._swapper.group(master), self._stage3.optimizer.state.get(master, {})
        assert group is not None
        for name in names:
            states.pop(name, None)
        put_aside(group, names)

    def _install_moments(self, optimizer: dict[str, Any]) -> None:
        stage3 = self._stage3
        for number, master in enumerate(stage3.fp32_partitioned_groups_flat):
            states = stage3.optimizer.state[master]
            states["step"] = optimizer["state"][0]["step"]
            for key in _MOMENTS:
                if self._is_swapped(master):
                    states[key] = plain_tensors.empty(0, master.dtype)
                else:
                    states[key] = torch.zeros_like(master, requires_grad=False)
                    self._copy_to(states[key], number, key)
            if self._swapper is not None and self._is_swapped(master):
                self._swapper.settle_states(master)
        values = {name: value for name, value in optimizer["param_groups"][0].items() if name != "params"}
        for group in stage3.optimizer.param_groups:
            group.update(values, params=[])

    def _copy_to(self, flat: torch.Tensor, number: int, key: str) -> None:
        if (number, key) in self._small:
            flat.copy_(self._small.pop((number, key)))
            return
        offset = 0
        for part in self._ranges[number, key]:
            size = part.elements + part.padding
            part.copy_to(flat.narrow(0, offset, size))
            offset += size


def opened(path: str, large_bytes: int = LARGE_BYTES) -> Archive:
    if not os.path.exists(path):
        text = f"the universal checkpoint is of another model, or not whole: there is no {path}"
        raise StorageError(2, text, path)
    return Archive(path, large_bytes)


def _tensor_of(saved: Any, path: str) -> torch.Tensor:
    if isinstance(saved, dict):
        if saved.get("is_expert_param"):
            raise UnsupportedError(
                f"{path} has experts that are divided over ranks: they cannot be loaded while tensors are on NVMe; "
                "load with `device: cpu`"
            )
        saved = saved.get("param")
    if not torch.is_tensor(saved):
        raise ArgumentError(f"{path} has no tensor: it was not written by ds_to_universal.py")
    return saved

"""engine.load_checkpoint() while something is swapped.

All files are read, and their contents written beside those that are in use, before anything changes. Then DeepSpeed
loads as with `device: cpu`, from what was read; contents are exchanged where it would copy them.
"""

from __future__ import annotations

import contextlib
import functools
import glob
import inspect
import itertools
import os
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from penstock import messages
from penstock.deepspeed.agreement import gathered, together
from penstock.deepspeed.checkpoint.adam_powers import changes_betas
from penstock.deepspeed.checkpoint.archive import Archive
from penstock.deepspeed.checkpoint.directory import PartialCheckpoint, tag_of
from penstock.deepspeed.checkpoint.given_states import load_given
from penstock.deepspeed.checkpoint.init_context import outside_init_context
from penstock.deepspeed.checkpoint.loaded_states import LoadedStates
from penstock.deepspeed.checkpoint.reading import CheckpointReading
from penstock.deepspeed.checkpoint.signature import RANK_BITS, SignedFile, group_of, rank_of, refuse_mixed
from penstock.deepspeed.checkpoint.torch_internals import require_torch
from penstock.deepspeed.checkpoint.universal import UniversalCheckpoint
from penstock.deepspeed.checkpoint.universal_states import UniversalStates
from penstock.errors import ArgumentError, StorageError

_BF16 = "bf16_"  # before the name of a file of optimizer states
_MASTERS = "*_optim_states.pt"
_RANKS = re.compile(r"zero_pp_rank_(\d+)_mp_rank_(\d+)_optim_states\.pt$")
_Shape = tuple[str, tuple[int, ...]]  # of a parameter that is called so
_loading: dict[int, CheckpointReading] = {}  # by the id of a stage-3 optimizer


def loading(original: Callable[..., Any]) -> Callable[..., Any]:
    """Of DeepSpeedEngine.load_checkpoint."""
    signature = inspect.signature(original)

    @functools.wraps(original)
    def load_checkpoint(self: Any, *args: Any, **kwargs: Any) -> Any:
        from penstock.deepspeed.checkpoint.saving import refuse_destroyed, refuse_other_writers, refuse_within_step
        from penstock.deepspeed.checkpoint.swapped import is_swapped

        arguments = signature.bind(self, *args, **kwargs)
        arguments.apply_defaults()
        given = arguments.arguments
        tag = tag_of(self, given["load_dir"], given["tag"])
        if tag is None or not is_swapped(self):
            return original(self, *args, **kwargs)
        require_torch()
        refuse_other_writers(self)
        refuse_destroyed(self)
        refuse_within_step(self.optimizer)
        given["tag"] = tag
        with outside_init_context():
            return _load(self, original, arguments)

    return load_checkpoint


def _load(engine: Any, original: Callable[..., Any], arguments: inspect.BoundArguments) -> Any:
    given = arguments.arguments
    if hasattr(engine.optimizer, "checkpoint_event_prologue"):
        engine.optimizer.checkpoint_event_prologue()  # nothing is gathered, or read ahead for that
    is_universal = engine.load_universal_checkpoint()
    kind = UniversalCheckpoint if is_universal else LoadedCheckpoint
    checkpoint: CheckpointReading = kind(engine, os.fspath(given["load_dir"]), given["tag"])
    asked = given["load_optimizer_states"]
    with_states = asked and not given["load_module_only"]
    if is_universal:
        # Without it DeepSpeed would read the checkpoint that `latest` names into memory, and use nothing of it.
        given["load_optimizer_states"] = True
    files = together(lambda: checkpoint.read(with_states))
    if isinstance(checkpoint, LoadedCheckpoint) and not given["load_optimizer_states"]:
        together(checkpoint.check_masters)
    together(functools.partial(refuse_mixed, itertools.chain.from_iterable(gathered(checkpoint.signed))))
    try:
        together(checkpoint.take)
        with _from_memory(engine, checkpoint, files):
            if is_universal:
                checkpoint.begin_module()
            result = original(*arguments.args, **arguments.kwargs)
        if is_universal and not asked and isinstance(result[1], dict):
            (module,) = files.values()
            if "optimizer" in module:  # which DeepSpeed leaves out where it loads states
                result[1]["optimizer"] = module["optimizer"]
        together(checkpoint.publish)  # where DeepSpeed has asked for neither states nor masters
    except BaseException:
        checkpoint.give_up()
        raise
    checkpoint.mark.end(with_states)
    return result


class LoadedCheckpoint(CheckpointReading):
    """One rank's files of a checkpoint."""

    def __init__(self, engine: Any, directory: str, tag: str) -> None:
        super().__init__(engine, directory, tag)
        self._frozen: dict[str, torch.Tensor] | None = None

    def read(self, with_states: bool) -> dict[str, Any]:
        """What DeepSpeed's checkpoint engine will give for each file, large tensors not read yet."""
        PartialCheckpoint(self._directory, self._tag).bring_back()
        takes_states = (
            with_states and self._engine.zero_optimization() and hasattr(self._engine.optimizer, "_rigid_state_dict")
        )
        path = self._engine._get_ckpt_name(self._directory, self._tag)
        archive = self._open(path)
        module = archive.load()
        self.note_format(module)
        if takes_states:
            self._refuse_other_ranks(module, path)
        self._frozen = module.get("frozen_param_fragments")
        if self._frozen:
            module["frozen_param_fragments"] = None  # ours to load: DeepSpeed would copy into what is not there
        archive.read_all(module)
        loaded = {os.path.abspath(path): module}
        self._collect_frozen(archive)
        if takes_states:
            path, states = self._read_states(module)
            loaded[os.path.abspath(path)] = states
        return loaded

    def check_masters(self) -> None:
        """Without states DeepSpeed takes the weights from all ranks' masters, of the checkpoint that `latest` names, as
        zero_to_fp32.py does: without looking at CRCs, and in each rank.
        """
        latest = tag_of(self._engine, self._directory, None)
        if latest is None or not self._engine.zero_optimization_partition_weights() or self._engine.has_moe_layers:
            return
        if latest != self._tag and self._engine.global_rank == 0:
            messages.warn(
                "weights-of-latest",
                f"DeepSpeed loads the weights of {latest}, which `latest` names, and not of {self._tag}: without "
                "optimizer states it asks for no tag",
            )
        group = group_of(self._engine)
        for path in sorted(glob.glob(os.path.join(glob.escape(self._directory), glob.escape(latest), _MASTERS))):
            archive = Archive(path)
            archive.load()  # for the CRCs of what is small
            self._intake.add(archive)
            ranks = _RANKS.search(path)
            if archive.signature is not None and ranks is not None:
                rank = int(ranks[1]) | int(ranks[2]) << RANK_BITS
                self.signed.append(SignedFile(path, archive.signature, rank, group if latest == self._tag else ()))

    def _refuse_other_ranks(self, module: dict[str, Any], path: str) -> None:
        ours, theirs = self._engine.seq_dp_world_size, _entry(module, "dp_world_size", path, "of a model's states")
        if ours != theirs:
            ranks = "1 rank" if theirs == 1 else f"{theirs} ranks"
            raise ArgumentError(
                f"{self.path} was saved by {ranks}, and this run has {ours}: convert it with DeepSpeed's "
                '`ds_to_universal.py`, and load that with `"checkpoint": {"load_universal": true}`'
            )

    def _read_states(self, module: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        path = self._engine._get_zero_ckpt_name(self._directory, self._tag)
        archive = self._open(path)
        states = archive.load()
        saved = _entry(states, "optimizer_state_dict", path, "of optimizer states")
        self.states = LoadedStates(self._engine.optimizer, archive, saved, self._intake)
        self.states.restores_powers = not changes_betas(self._engine.lr_scheduler)
        self.states.check()
        self._refuse_other_parameters(module)
        return path, states

    def _refuse_other_parameters(self, module: dict[str, Any]) -> None:
        """Masters lie one after the other without names: those of a model with another order have the same length."""
        saved, ours = (
            _in_a_row(groups) for groups in (module.get("param_shapes"), self._engine._get_zero_param_shapes())
        )
        if saved and (pair := other_parameter(saved, ours)):
            (theirs, saved_shape), (own, shape) = pair
            what = f"order of parameters: it has {theirs} {list(saved_shape)} where this run has {own} {list(shape)}"
            raise ArgumentError(f"{self.path} was saved with another model, or with another {what}")

    def _open(self, path: str) -> Archive:
        if not os.path.exists(path):
            self._refuse_missing()
            self._refuse_more_ranks(path)
            self._refuse_other_precision(path)
            raise StorageError(2, f"the checkpoint {self.path} is not whole: there is no {path}", path)
        archive = Archive(path)
        self._intake.add(archive)
        signature = archive.signature
        if signature is not None:
            self.signed.append(SignedFile(path, signature, rank_of(self._engine), group_of(self._engine)))
        return archive

    def _refuse_missing(self) -> None:
        if not os.path.isdir(self.path):
            raise StorageError(2, f"there is no checkpoint at {self.path}", self.path)

    def _refuse_more_ranks(self, path: str) -> None:
        """The file of this rank's states is missing, and the first rank's is there."""
        first = re.sub(r"zero_pp_rank_\d+_", "zero_pp_rank_0_", path)
        if first != path and path == self._engine._get_ckpt_name(self._directory, self._tag) and os.path.exists(first):
            self._refuse_other_ranks(Archive(first).load(), first)

    def _refuse_other_precision(self, path: str) -> None:
        """DeepSpeed puts bf16 into the names of optimizer states, and looks for the names of this run only."""
        directory, name = os.path.split(path)
        is_bf16 = name.startswith(_BF16)
        other = name.removeprefix(_BF16) if is_bf16 else _BF16 + name
        if not os.path.exists(os.path.join(directory, other)):
            return
        saved, ours = ("fp16 or fp32", "bf16") if is_bf16 else ("bf16", "fp16 or fp32")
        raise ArgumentError(
            f"{self.path} was saved by a run in {saved} (it has {other}), and this run is in {ours}: convert it with "
            'DeepSpeed\'s `ds_to_universal.py` and load that with `"checkpoint": {"load_universal": true}`, or load '
            "the weights alone with `load_optimizer_states=False`"
        )

    def _collect_frozen(self, archive: Archive) -> None:
        """As DeepSpeed: those that are frozen in this run, whatever else the file has."""
        from penstock.deepspeed.parameter_swapper import parameter_swapper

        if self._frozen is None:
            return
        for param in self._engine.module.parameters():
            if _is_trained(param):
                continue
            name = self._engine.param_names.get(param, "a parameter that came after deepspeed.initialize")
            saved = self._frozen.get(name)
            if saved is None:
                raise ArgumentError(
                    f"{archive.path} has no weights of {name}, which is frozen in this run: it was saved with another "
                    "model, or by a run that trained it. Freeze what was frozen there, or take the weights from "
                    "`zero_to_fp32.py`"
                )
            target = param.ds_tensor if hasattr(param, "ds_id") else param
            numel = target.ds_numel if hasattr(param, "ds_id") else target.numel()
            if saved.numel() != numel:
                raise ArgumentError(
                    f"{name} has {saved.numel()} elements a rank in {archive.path}, in this run {numel}: it was saved "
                    "with another model or number of ranks"
                )
            swapper = parameter_swapper(param)
            if swapper is None:
                self._intake.at_publish(functools.partial(archive.copy, saved, target.data))
            else:
                self._intake.at_begin(functools.partial(swapper.drop_read_ahead, param))
                self._intake.to_engine(archive, saved, swapper.tensor(param))


def _entry(loaded: Any, key: str, path: str, kind: str) -> Any:
    if not isinstance(loaded, dict) or key not in loaded:
        raise ArgumentError(f"{path} is not the file {kind}: it has no {key}")
    return loaded[key]


def other_parameter(saved: list[_Shape], ours: list[_Shape]) -> tuple[_Shape, _Shape] | None:
    """The first two that are not the same parameter. A name that only one side has may be the other's new name."""
    both = {name for name, _ in saved} & {name for name, _ in ours}
    for theirs, own in zip(saved, ours, strict=False):
        if theirs[1] != own[1] or (theirs[0] != own[0] and not both.isdisjoint((theirs[0], own[0]))):
            return theirs, own
    return None if len(saved) == len(ours) else (saved[-1], ours[-1])


def _in_a_row(groups: Iterable[dict[str, torch.Size]] | None) -> list[_Shape]:
    return [(name, tuple(shape)) for group in groups or () for name, shape in group.items()]


def _is_trained(param: Any) -> bool:
    """Whether DeepSpeed has it among what the optimizer steps; if not, it saves and loads it with what is frozen."""
    from deepspeed.runtime import utils

    is_optimized = getattr(utils, "is_optimized_parameter", None)  # of 0.19: nor is a parameter without elements
    return bool(param.requires_grad if is_optimized is None else is_optimized(param))


class _ReadFiles:
    """DeepSpeed's checkpoint engine, which finds that the files are read already."""

    def __init__(self, engine: Any, files: dict[str, Any]) -> None:
        self._engine = engine
        self._files = files

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def load(self, path: str, map_location: Any = None) -> Any:
        read = self._files.get(os.path.abspath(path))
        return self._engine.load(path, map_location=map_location) if read is None else read


@contextlib.contextmanager
def _from_memory(engine: Any, checkpoint: CheckpointReading, files: dict[str, Any]) -> Iterator[None]:
    original, load_module = engine.checkpoint_engine, engine.load_module_state_dict

    def change_module(*args: Any, **kwargs: Any) -> Any:
        """The first that DeepSpeed changes, but of a universal checkpoint."""
        if isinstance(checkpoint, UniversalCheckpoint):
            return load_module(*args, **kwargs)
        checkpoint.begin_module()
        try:
            with checkpoint.supersedes():
                return load_module(*args, **kwargs)
        except Exception:  # torch's: other names or shapes; weights and states are as they were
            checkpoint.mark.take_back()
            raise

    try:  # an interrupt may come between any two of these
        engine.checkpoint_engine = _ReadFiles(original, files)
        engine.load_module_state_dict = change_module
        engine.zero_nvme_offload_optimizer = lambda: False
        _loading[id(engine.optimizer)] = checkpoint
        yield
    finally:
        _loading.pop(id(engine.optimizer), None)
        vars(engine).pop("zero_nvme_offload_optimizer", None)
        vars(engine).pop("load_module_state_dict", None)
        engine.checkpoint_engine = original


def _states(stage3: Any) -> Any:
    checkpoint = _loading.get(id(stage3))
    return None if checkpoint is None else checkpoint.states


# What DeepSpeed asks the stage-3 optimizer for.


def load_state_dict(original: Callable[..., Any]) -> Callable[..., Any]:
    """Of _rigid_load_state_dict."""

    @functools.wraps(original)
    def rigid_load_state_dict(self: Any, state_dict: Any, load_optimizer_states: bool = True) -> None:
        states = _states(self)
        if isinstance(states, LoadedStates):
            together(functools.partial(states.install, load_optimizer_states))
        elif self.swap_optimizer or self.params_in_nvme_and_cpu:
            load_given(self, state_dict, load_optimizer_states)
        else:
            original(self, state_dict, load_optimizer_states)

    return rigid_load_state_dict


def load_universal(original: Callable[..., Any]) -> Callable[..., Any]:
    """Of _load_universal_checkpoint."""

    @functools.wraps(original)
    def load_universal_checkpoint(self: Any, *args: Any, **kwargs: Any) -> None:
        states = _states(self)
        if isinstance(states, UniversalStates):
            together(states.install)
        else:
            original(self, *args, **kwargs)

    return load_universal_checkpoint


def masters_from_weights(original: Callable[..., Any]) -> Callable[..., Any]:
    """Of _restore_from_bit16_weights: weights were loaded, and masters follow them."""

    @functools.wraps(original)
    def restore(self: Any) -> None:
        from penstock.deepspeed.optimizer_swapper import OptimizerSwapper

        checkpoint = _loading.get(id(self))
        if checkpoint is not None and isinstance(checkpoint.states, UniversalStates) and checkpoint.states.is_pending:
            return  # the files have them; what was written now would be newer
        if checkpoint is not None and checkpoint.states is None:
            together(checkpoint.publish)  # before DeepSpeed gathers what persists: frozen parameters may be among it
        swapper = self.optimizer_swapper if isinstance(self.optimizer_swapper, OptimizerSwapper) else None
        if swapper is None and None not in self.fp16_partitioned_groups_flat:
            original(self)
            return
        together(functools.partial(_take_masters, self, swapper))

    return restore


def _take_masters(stage3: Any, swapper: Any) -> None:
    for number, master in enumerate(stage3.fp32_partitioned_groups_flat):
        weights = stage3.fp16_partitioned_groups_flat[number]
        is_swapped = swapper is not None and swapper.group(master) is not None
        with swapper.new_master(master) if is_swapped else contextlib.nullcontext(master.data) as target:
            if weights is None:
                stage3._swap_in_sub_group_to_flat_buffer(target, number)
            else:
                target.copy_(weights.data)

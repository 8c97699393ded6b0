"""engine.save_checkpoint() while something is swapped."""

from __future__ import annotations

import contextlib
import errno
import functools
import inspect
import os
import socket
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils import _pytree

from penstock._core import SwapEngine
from penstock.deepspeed.agreement import gathered, together
from penstock.deepspeed.checkpoint.archive import ArchivePlan
from penstock.deepspeed.checkpoint.content import Content
from penstock.deepspeed.checkpoint.directory import PartialCheckpoint, free_bytes, write_latest
from penstock.deepspeed.checkpoint.half_load import refuse_to_save_mixture
from penstock.deepspeed.checkpoint.progress import ProgressLine, amount
from penstock.deepspeed.checkpoint.signature import Signature, group_of, new_save, rank_of
from penstock.deepspeed.checkpoint.torch_internals import require_torch
from penstock.deepspeed.session import open_session_of_run
from penstock.deepspeed.states_setting import setting_of
from penstock.errors import ArgumentError, Error, StorageError, UnsupportedError

_Claim = tuple[tuple[str, int], dict[str, int]]  # a rank's file system, and its files' bytes by path

_saving: list[Any] = []  # stage-3 optimizers and engines whose checkpoint is being collected


def saving(original: Callable[..., Any]) -> Callable[..., Any]:
    """Of DeepSpeedEngine.save_checkpoint: DeepSpeed says what is to be saved, and penstock writes it."""
    signature = inspect.signature(original)

    @functools.wraps(original)
    def save_checkpoint(self: Any, *args: Any, **kwargs: Any) -> Any:
        from penstock.deepspeed.checkpoint.swapped import is_swapped

        arguments = signature.bind(self, *args, **kwargs)
        arguments.apply_defaults()
        given = arguments.arguments
        if not given["save_dir"] or not is_swapped(self):
            return original(self, *args, **kwargs)
        require_torch()
        refuse_other_writers(self)
        save_dir, latest = os.fspath(given["save_dir"]), given["save_latest"]
        tag = str(f"global_step{self.global_steps}" if given["tag"] is None else given["tag"])
        given.update(save_dir=save_dir, tag=tag, save_latest=False)
        checkpoint = PartialCheckpoint(save_dir, tag)
        files = CollectingEngine(self.checkpoint_engine)
        with _sentences(checkpoint):
            is_mixture = any(gathered(together(lambda: _begin(self, save_dir, checkpoint.final))))
            _refuse_other_steps(checkpoint.final, gathered((tag, group_of(self), int(self.global_steps))))
            with _collected(self, files):
                result = original(*arguments.args, **arguments.kwargs)
            _write(self, files, checkpoint)
        if latest and not is_mixture:
            _write_latest(self, checkpoint, save_dir, tag)
        return result

    return save_checkpoint


def _begin(engine: Any, save_dir: str, path: str) -> bool:
    """Whether it is of a step that has stopped half-way."""
    refuse_destroyed(engine)
    refuse_within_step(engine.optimizer)
    is_mixture = refuse_to_save_mixture(engine.optimizer, path)
    os.makedirs(save_dir, exist_ok=True)
    return is_mixture


def _refuse_other_steps(path: str, claims: list[tuple[str, Any, int]]) -> None:
    """Where a script has caught an error in one rank, its checkpoint would have weights of one step and of another."""
    steps: dict[Any, tuple[int, int]] = {}
    for rank, (tag, group, step) in enumerate(claims):
        other, expected = steps.setdefault(group, (rank, step))
        what = ""
        if step != expected:
            what = f"rank {other} is at step {expected} and rank {rank} at step {step}; a checkpoint is of one step"
        if tag != claims[0][0]:
            what = f"rank 0 saves under the tag {claims[0][0]} and rank {rank} under {tag}; a checkpoint has one tag"
        if what:
            raise ArgumentError(f"{path} was not saved: {what}")


def refuse_other_writers(engine: Any) -> None:
    if engine.checkpoint_engine is None:
        raise UnsupportedError(
            "DeepSpeed neither saves nor loads checkpoints of an engine without an optimizer: save the weights inside "
            "deepspeed.zero.GatheredParameters(engine.module.parameters())"
        )
    kind = type(engine.checkpoint_engine).__name__
    if kind != "TorchCheckpointEngine":
        raise UnsupportedError(
            f"checkpoints of swapped tensors are written by penstock, not by {kind}: remove `checkpoint` writers, "
            "`nebula` and `datastates_ckpt` from the DeepSpeed configuration"
        )


def refuse_destroyed(engine: Any) -> None:
    from penstock.deepspeed.checkpoint.swapped import optimizer_swapper

    swapper = optimizer_swapper(engine)
    if swapper is not None and not swapper.close.alive:
        raise Error(
            "this engine was destroyed (accelerate's free_memory() and a second train() of a Trainer do that), and has "
            "given back masters and states: save before engine.destroy(), and load into a new engine"
        )


class CollectingEngine:
    """DeepSpeed's checkpoint engine while it is asked for a checkpoint: notes what it is to write, and writes nothing.
    An error of one rank among DeepSpeed's own barriers would leave the others in them.
    """

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self.states: list[tuple[str, Any]] = []
        self.has_scripts = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def save(self, state_dict: Any, path: str) -> None:
        self.states.append((path, state_dict))

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        """The directory to save in is there; that of the tag appears when it is whole."""

    def note_scripts(self, path: str) -> None:
        """In place of _copy_recovery_script."""
        self.has_scripts = True

    def commit(self, info: Any) -> bool:
        return True


@contextlib.contextmanager
def _collected(engine: Any, files: CollectingEngine) -> Iterator[None]:
    """DeepSpeed takes the way of `device: cpu`, and `state_dict` gives Contents for what is swapped. It writes nothing:
    where that fails in one rank, the others would wait for it.
    """
    original, outer = engine.checkpoint_engine, len(_saving)
    try:  # an interrupt may come between any two of these
        engine.checkpoint_engine = files
        engine.zero_nvme_offload_optimizer = lambda: False
        engine._copy_recovery_script = files.note_scripts
        _saving.extend([engine, engine.optimizer])
        yield
    finally:
        del _saving[outer:]
        vars(engine).pop("_copy_recovery_script", None)
        vars(engine).pop("zero_nvme_offload_optimizer", None)
        engine.checkpoint_engine = original


def _write(engine: Any, files: CollectingEngine, checkpoint: PartialCheckpoint) -> None:
    from penstock.deepspeed.checkpoint.swapped import configuration_of

    session = open_session_of_run()
    together(session.check_writes)
    config = configuration_of(engine)
    if setting_of(config) != "fp32":
        _say_state_format(config, files)
    plans = together(lambda: [(path, ArchivePlan(state)) for path, state in files.states])
    total = sum(plan.contents_nbytes for _, plan in plans)
    progress = ProgressLine("saving", checkpoint.final, total, engine.global_rank == 0)
    save = gathered(new_save())[0]
    for _, plan in plans:
        plan.sign(Signature(save, rank_of(engine)))
    together(checkpoint.clear)  # by all ranks: a node may have a disk of its own there
    try:
        together(checkpoint.create)
        claims = gathered((_place(checkpoint), {path: plan.nbytes for path, plan in plans}))
        _refuse_shared_names(claims)
        together(lambda: _expect_room(checkpoint, claims))
        together(lambda: _write_files(session.engine, plans, checkpoint, progress))
        together(lambda: engine._copy_recovery_script(checkpoint.path) if files.has_scripts else None)
        together(lambda: checkpoint.publish() if engine.global_rank == 0 else None)
        together(checkpoint.publish)  # of ranks with a file system of their own
    except BaseException:
        checkpoint.discard()
        raise
    progress.end("saved")


def _say_state_format(config: dict[str, Any], files: CollectingEngine) -> None:
    """A run that resumes sees it in `ds_config`, where DeepSpeed has a path if it was given one."""
    for _, state in files.states:
        if not isinstance(state.get("ds_config", {}), dict):
            state["ds_config"] = {"penstock": config["penstock"]}


def _write_files(
    source: SwapEngine, plans: list[tuple[str, ArchivePlan]], checkpoint: PartialCheckpoint, progress: ProgressLine
) -> None:
    for path, plan in plans:
        plan.write(checkpoint.file(path), source, progress)
        progress.file_done(plan.contents_nbytes)


def _place(checkpoint: PartialCheckpoint) -> tuple[str, int]:
    """The file system."""
    return socket.gethostname(), os.stat(checkpoint.path).st_dev


def _refuse_shared_names(claims: list[_Claim]) -> None:
    """DeepSpeed names files by the rank in a group that partitions may reach beyond (`mesh_param`)."""
    owners: dict[tuple[Any, str], int] = {}
    for rank, (where, paths) in enumerate(claims):
        for path in paths:
            other = owners.setdefault((where, path), rank)
            if other != rank:
                raise UnsupportedError(
                    f"ranks {other} and {rank} have different partitions, and DeepSpeed gives their files one name, "
                    f"{os.path.basename(path)}, so that a checkpoint would lose one of them. Where `mesh_param` is "
                    "used, pass deepspeed.runtime.sequence_parallel.parallel_state_sp as `mpu` instead, or save the "
                    "weights with save_16bit_model()"
                )


def _expect_room(checkpoint: PartialCheckpoint, claims: list[_Claim]) -> None:
    """Before the first byte is written, of all ranks that write there."""
    place = _place(checkpoint)
    needed = sum(sum(paths.values()) for where, paths in claims if where == place)
    free = free_bytes(checkpoint.path)
    if free < needed:
        text = (
            f"it needs {amount(needed)}, and {amount(free)} are free: free {amount(needed - free)}, or save elsewhere"
        )
        raise StorageError(errno.ENOSPC, text, checkpoint.final)


def _write_latest(engine: Any, checkpoint: PartialCheckpoint, save_dir: str, tag: str) -> None:
    """After the checkpoint has its name."""
    leads = (engine.local_rank if engine.use_node_local_storage() else engine.global_rank) == 0
    try:
        together(lambda: write_latest(save_dir, tag) if leads else None)
    except OSError as failure:
        text = f"was saved, but `latest` does not name it: {failure.strerror or failure}"
        raise _sentence(failure, checkpoint.final, text) from failure


@contextlib.contextmanager
def _sentences(checkpoint: PartialCheckpoint) -> Iterator[None]:
    """What a file system refuses, in one sentence with the checkpoint's path."""
    try:
        yield
    except OSError as failure:
        reason = failure.strerror or failure
        if isinstance(failure, (FileExistsError, NotADirectoryError)):
            reason = f"{failure.filename} cannot be made, since a file is in the way; remove that, or save elsewhere"
        if failure.errno == errno.EFBIG:
            reason = f"{reason}; raise the limit on a file's size (ulimit -f)"
        what = f"was not saved: {reason}; checkpoints before it are unchanged"
        raise _sentence(failure, checkpoint.final, what) from failure


def _sentence(failure: OSError, path: str, what: str) -> StorageError:
    return StorageError(failure.errno or 0, f"the checkpoint {path} {what}", path)


# What is swapped, as DeepSpeed asks for it.


def state_dict(original: Callable[..., Any]) -> Callable[..., Any]:
    """Of the stage-3 optimizer's _rigid_state_dict: masters and states that are swapped are in it."""

    @functools.wraps(original)
    def rigid_state_dict(self: Any) -> Any:
        from penstock.deepspeed.optimizer_swapper import OptimizerSwapper

        swapper = self.optimizer_swapper
        if not isinstance(swapper, OptimizerSwapper):
            return original(self)
        refuse_within_step(self)
        masters = self.fp32_partitioned_groups_flat
        for master in masters:
            swapper.contents(master)  # what scripts have put there is taken over: hooks of the optimizer see that
        result = original(self)
        is_saving = self in _saving
        as_asked = (lambda content: content) if is_saving else functools.cache(Content.read)
        kept = (lambda value: value) if is_saving else functools.cache(_cloned)  # by the tensor's identity
        contents = {id(master): swapper.contents(master) for master in masters}
        result["fp32_flat_groups"] = [
            as_asked(contents[id(master)]["master"]) if contents[id(master)] else kept(master) for master in masters
        ]
        swapped = {  # by what stands for them in the optimizer, whose state_dict() may have any form
            id(self.optimizer.state[master][name]): content
            for master in masters
            for name, content in contents[id(master)].items()
            if name != "master"
        }

        def replaced(value: Any) -> Any:
            if id(value) in swapped:
                return as_asked(swapped[id(value)])
            return kept(value) if torch.is_tensor(value) else value  # in memory, or given by a hook

        result["optimizer_state_dict"] = _pytree.tree_map(replaced, result["optimizer_state_dict"])
        return result

    return rigid_state_dict


@torch.no_grad()
def _cloned(value: torch.Tensor) -> torch.Tensor:
    return value.clone()


def refuse_within_step(stage3: Any) -> None:
    """There the optimizer has one sub-group alone, or a chunk, which is not its content yet."""
    from penstock.deepspeed.gradient_cycle import cycle_of

    cycle = cycle_of(stage3)
    if cycle is not None and cycle.is_stepping:
        raise UnsupportedError(
            "a hook or a signal handler asks for the optimizer's states within its step: ask for it behind "
            "engine.step(); a handler may set a flag"
        )


def fragment(original: Callable[..., Any]) -> Callable[..., Any]:
    """Of DeepSpeedEngine._get_param_fragment_func: the partition of a frozen parameter."""

    @functools.wraps(original)
    def get_fragment(self: Any, param: Any) -> Any:
        from penstock.deepspeed.parameter_swapper import parameter_swapper

        swapper = parameter_swapper(param)
        if swapper is None:
            return original(self, param)
        content: Content = swapper.content(param)
        return content if self in _saving else content.read()

    return get_fragment

"""Habits of saving: checkpoints and parts of them, weights for others to use, adapters, saves that fail."""

from __future__ import annotations

import hashlib
import io
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import deepspeed
import torch
from deepspeed.utils import safe_get_full_optimizer_state
from habit import habit
from habit_models import MUON, Stack, mark_for_muon
from habits_transformers import language_step, loaded_model
from penstock.errors import ArgumentError
from trial import Trial, partitioned_at_birth


def _place(trial: Trial, name: str) -> Path:
    return Path(trial.swap).parent / "saved" / name


def record_files(trial: Trial, directory: Path) -> None:
    """Every file that another program would read: its name, and a digest of what holds weights."""
    torch.distributed.barrier()
    for file in sorted(path for path in directory.rglob("*") if path.is_file()):
        content = file.read_bytes() if file.suffix == ".safetensors" else b""
        trial.record("file", file.relative_to(directory), hashlib.sha256(content).hexdigest()[:16])
        if file.suffix == ".bin" and file.name != "training_args.bin":
            for name, tensor in torch.load(file).items():
                trial.record("in it", name, tuple(tensor.shape), tensor.dtype, tensor.double().sum().item())
    torch.distributed.barrier()  # another rank may go on to write there


def _with_a_frozen_layer(trial: Trial, **changes: Any) -> Any:
    config = trial.config(**changes)
    torch.manual_seed(5)
    with partitioned_at_birth(trial, config):
        model = Stack(4)
    model.layers[1].requires_grad_(False)
    return trial.initialize(model, config)


@habit("Muon saved and read right behind a load")
def muon_behind_a_load(trial: Trial) -> None:
    """Its momentum is of 16 bits, which torch's load_state_dict() makes fp32."""
    config = trial.config(optimizer=MUON, zero_optimization__reduce_scatter=False)
    engine = trial.initialize(mark_for_muon(Stack()), config)
    trial.steps(engine, 2)
    place = str(_place(trial, "muon"))
    engine.save_checkpoint(place, tag="first")
    engine.load_checkpoint(place, tag="first")
    engine.save_checkpoint(place, tag="second")
    for states in engine.optimizer.optimizer.state.values():
        trial.record(*(value.double().norm().item() for value in states.values() if torch.is_tensor(value)))
    engine.load_checkpoint(place, tag="second")
    trial.steps(engine, 2)
    trial.record_weights(engine)


@habit("Muon with `save_muon_momentum_buffer_in_memory`, saved, loaded and trained on")
def muon_in_memory(trial: Trial) -> None:
    changes = {
        "zero_optimization__reduce_scatter": False,
        "zero_optimization__save_muon_momentum_buffer_in_memory": True,
    }
    engine = trial.initialize(mark_for_muon(Stack()), trial.config(optimizer=MUON, **changes))
    trial.steps(engine, 2)
    engine.save_checkpoint(str(_place(trial, "muon")))
    engine.load_checkpoint(str(_place(trial, "muon")))
    _train(trial, engine, 3)


@habit("OneCycle, saved where the betas are those of the beginning, loaded in a new engine")
def one_cycle(trial: Trial) -> None:
    cycle = {"cycle_min_lr": 1e-4, "cycle_max_lr": 1e-3, "cycle_first_step_size": 3}
    config = trial.config(scheduler={"type": "OneCycle", "params": cycle})
    for load in (False, True):
        torch.manual_seed(5)
        engine = trial.initialize(Stack(), config)
        if load:
            engine.load_checkpoint(str(_place(trial, "cycle")))
        _train(trial, engine, 6 if load else cycle["cycle_first_step_size"])
        if not load:
            engine.save_checkpoint(str(_place(trial, "cycle")))
            engine.destroy()
            trial.engines.remove(engine)


def _train_twice(trial: Trial, train: Callable[[], None], load: Callable[[], object]) -> None:
    """After `load`, the training is what it was before. Not on the reference, whose CPU Adam computes the powers of its
    betas anew when it loads; so the second training is not compared with it.
    """
    seen = []
    for prepare in (lambda: None, load):
        prepare()
        begin = len(trial.seen)
        torch.manual_seed(23 + trial.rank)
        train()
        seen.append(trial.seen[begin:])
    assert trial.reference or seen[0] == seen[1]
    del trial.seen[begin:]


def _train(trial: Trial, engine: Any, steps: int) -> None:
    trial.steps(engine, steps)
    trial.record_weights(engine)


def _save_and_load(trial: Trial, engine: Any) -> None:
    """What is trained behind a checkpoint is trained again when it has been loaded."""
    where = str(_place(trial, "checkpoint"))
    engine.save_checkpoint(where)
    _train_twice(trial, lambda: _train(trial, engine, 2), lambda: engine.load_checkpoint(where))


@habit("save_16bit_model, with and without `stage3_gather_16bit_weights_on_model_save`")
def sixteen_bit(trial: Trial) -> None:
    for gathers in (True, False):
        config = {"zero_optimization__stage3_gather_16bit_weights_on_model_save": gathers}
        engine = _with_a_frozen_layer(trial, **config)
        trial.steps(engine, 2)
        where = _place(trial, f"gathers-{gathers}")
        trial.record("saved", engine.save_16bit_model(str(where), "weights.bin"))
        trial.record("saved", engine.save_16bit_model(str(where), "trained.bin", exclude_frozen_parameters=True))
        record_files(trial, where)
        trial.steps(engine, 1)
        trial.record_weights(engine)


@habit("zero_to_fp32.py of a checkpoint")
def whole_weights(trial: Trial) -> None:
    engine = _with_a_frozen_layer(trial)
    trial.steps(engine, 2)
    where = _place(trial, "checkpoint")
    engine.save_checkpoint(str(where))
    torch.distributed.barrier()
    if trial.rank == 0:
        command = [sys.executable, str(where / "zero_to_fp32.py"), str(where), str(where / "whole")]
        subprocess.run(command, check=True)
        command[3:] = [str(where / "trained"), "--exclude_frozen_parameters"]
        subprocess.run(command, check=True)
    record_files(trial, where)


@habit("save_checkpoint(exclude_frozen_parameters=True), load_checkpoint(load_module_strict=False)")
def without_frozen_parameters(trial: Trial) -> None:
    where = str(_place(trial, "checkpoint"))
    engine = _with_a_frozen_layer(trial)
    trial.steps(engine, 2)
    engine.save_checkpoint(where, exclude_frozen_parameters=True)
    record_files(trial, Path(where))
    other = _with_a_frozen_layer(trial)
    trial.steps(other, 1)
    other.load_checkpoint(where, load_module_strict=False)
    trial.record_weights(other)
    _train_twice(
        trial, lambda: _train(trial, engine, 2), lambda: engine.load_checkpoint(where, load_module_strict=False)
    )


@habit("load_checkpoint with a custom_load_fn that changes parameters in GatheredParameters")
def custom_load(trial: Trial) -> None:
    def change(src: Any, dst: torch.nn.Module) -> None:
        with deepspeed.zero.GatheredParameters(list(dst.parameters()), modifier_rank=0):
            for param in dst.parameters():
                param.data.fill_(0.5)

    where = str(_place(trial, "checkpoint"))
    engine = _with_a_frozen_layer(trial)
    trial.steps(engine, 2)
    engine.save_checkpoint(where)
    trial.steps(engine, 1)
    engine.load_checkpoint(where, custom_load_fn=change)
    trial.record_weights(engine)


@habit("two engines, each saved and loaded")
def two_engines(trial: Trial) -> None:
    engines = [_with_a_frozen_layer(trial), _with_a_frozen_layer(trial, optimizer__params__lr=1e-2)]
    for number, engine in enumerate(engines):
        trial.steps(engine, 2 + number)
        engine.save_checkpoint(str(_place(trial, str(number))))

    def train() -> None:
        for engine in engines:
            _train(trial, engine, 2)

    def load() -> None:
        for number, engine in enumerate(engines):
            engine.load_checkpoint(str(_place(trial, str(number))))

    _train_twice(trial, train, load)


@habit("parameters only on NVMe, all too small to be swapped: saved and loaded")
def small_parameters(trial: Trial) -> None:
    engine = trial.initialize(Stack(width=64), trial.config(zero_optimization__offload_optimizer=None))
    trial.steps(engine, 2)
    _save_and_load(trial, engine)


def _own_state(trial: Trial, **changes: Any) -> None:
    """Through a file of the script's own: without it, the reference would go on changing what it has given."""
    engine, file = trial.initialize(Stack(), trial.config(**changes)), io.BytesIO()

    def load(**parts: bool) -> None:
        file.seek(0)
        given = [torch.load(file, weights_only=False)] * trial.ranks
        engine.optimizer.load_state_dict(given, **parts)
        trial.record_weights(engine)

    _train(trial, engine, 1)
    torch.save(engine.optimizer.state_dict(), file)
    _train_twice(trial, lambda: _train(trial, engine, 2), load)
    load(load_optimizer_states=False)  # masters, under the moments of three steps
    _train(trial, engine, 1)
    load()


@habit("optimizer.state_dict(), and load_state_dict() of it")
def own_state(trial: Trial) -> None:
    _own_state(trial)


@habit("optimizer.state_dict(), and load_state_dict() of it, parameters only on NVMe")
def own_state_of_parameters(trial: Trial) -> None:
    _own_state(trial, zero_optimization__offload_optimizer=None)


@habit("frozen parameters that persist; load_module_only=True")
def frozen_and_persistent(trial: Trial) -> None:
    where = str(_place(trial, "checkpoint"))
    engine = _with_a_frozen_layer(trial, zero_optimization__stage3_param_persistence_threshold=10_000_000)
    trial.steps(engine, 2)
    engine.save_checkpoint(where)
    with deepspeed.zero.GatheredParameters(list(engine.module.layers[1].parameters()), modifier_rank=0):
        for param in engine.module.layers[1].parameters():
            param.data.mul_(0.5)
    trial.steps(engine, 1)
    engine.load_checkpoint(where, load_module_only=True)
    trial.steps(engine, 2)
    trial.record_weights(engine)


@habit("other layers frozen in the resumed run; load_module_only=True, load_optimizer_states=False")
def other_layers_frozen(trial: Trial) -> None:
    """DeepSpeed loads what is frozen in both, and fails where the checkpoint has trained what is frozen now."""
    where = str(_place(trial, "checkpoint"))
    engine = _with_a_frozen_layer(trial)
    trial.steps(engine, 2)
    engine.save_checkpoint(where)
    for parts in ({"load_module_only": True}, {"load_optimizer_states": False}):
        for frozen in ([], [2]):
            model = Stack(4)
            for layer in frozen:
                model.layers[layer].requires_grad_(False)
            other = trial.initialize(model)
            try:
                other.load_checkpoint(where, **parts)
            except (KeyError, ArgumentError):
                trial.record("refused")
                continue
            trial.steps(other, 2)
            trial.record_weights(other)


@habit("client_state: large tensors that share memory, sparse and conjugate ones")
def client_state(trial: Trial) -> None:
    table, kinds = torch.randn(600, 900), torch.randn(400, 400, dtype=torch.complex64)
    state = {"table": table, "views": [table.t(), table[3:]], "kinds": (torch.eye(600).to_sparse(), kinds.conj())}
    state["held"] = deque([SimpleNamespace(rows=table[5:])])
    where = str(_place(trial, "checkpoint"))
    engine = _with_a_frozen_layer(trial)
    trial.steps(engine, 2)
    engine.save_checkpoint(where, client_state=state)
    _, loaded = engine.load_checkpoint(where)
    loaded["table"].mul_(2)
    for tensor in (loaded["table"], *loaded["views"], *loaded["kinds"], loaded["held"][0].rows):
        trial.record(tuple(tensor.shape), tensor.is_contiguous(), tensor.is_conj(), tensor.to_dense().sum().item())


@habit("a state that does not exist is asked for, then a save")
def missing_state(trial: Trial) -> None:
    # States in one chunk, which are changed where they lie.
    engine = _with_a_frozen_layer(trial, zero_optimization__sub_group_size=1, penstock__ram_bytes="1GiB")
    trial.steps(engine, 2)
    for name, param in engine.module.named_parameters():
        if param.requires_grad:
            try:
                safe_get_full_optimizer_state(param, "momentum_buffer")
            except KeyError:
                trial.record("there is none", name)
    _save_and_load(trial, engine)


@habit("an exception of a save is caught", ranks=(1,))  # with two, one of DeepSpeed's own waits for ever
def failed_save(trial: Trial) -> None:
    engine = _with_a_frozen_layer(trial)
    trial.steps(engine, 2)
    occupied = _place(trial, "occupied")
    if trial.rank == 0:
        occupied.parent.mkdir(parents=True, exist_ok=True)
        occupied.write_text("not a directory")
    torch.distributed.barrier()
    try:
        engine.save_checkpoint(str(occupied))
    except Exception as error:
        trial.record("caught", isinstance(error, OSError))
    torch.distributed.barrier()
    trial.steps(engine, 2)
    _save_and_load(trial, engine)


@habit("save_pretrained with all parameters gathered")
def pretrained(trial: Trial) -> None:
    config = trial.config()
    model, keep = loaded_model(trial, config)
    engine = trial.initialize(model, config)
    for _ in range(2):
        language_step(trial, engine)
    with deepspeed.zero.GatheredParameters(list(model.parameters())):
        if trial.rank == 0:
            model.save_pretrained(_place(trial, "gathered"))
    record_files(trial, _place(trial, "gathered"))
    language_step(trial, engine)
    trial.record_weights(engine)
    del keep


@habit("PEFT: the adapter is saved, then merged, and the whole is saved")
def adapter_and_merged(trial: Trial) -> None:
    from peft import LoraConfig, get_peft_model

    config = trial.config()
    model, keep = loaded_model(trial, config)
    model = get_peft_model(model, LoraConfig(r=8, target_modules="all-linear", init_lora_weights="gaussian"))
    engine = trial.initialize(model, config)
    for _ in range(2):
        language_step(trial, engine)
    with deepspeed.zero.GatheredParameters(list(model.parameters())):
        if trial.rank == 0:
            model.save_pretrained(_place(trial, "adapter"))
    language_step(trial, engine)
    with deepspeed.zero.GatheredParameters(list(model.parameters()), modifier_rank=0):
        merged = model.merge_and_unload()
        if trial.rank == 0:
            merged.save_pretrained(_place(trial, "merged"))
    record_files(trial, _place(trial, ""))
    del keep


@habit("accelerate: save_state, load_state")
def accelerate_states(trial: Trial) -> None:
    from accelerate import Accelerator, DeepSpeedPlugin
    from accelerate.utils import DummyOptim

    where = _place(trial, "state")
    accelerator = Accelerator(deepspeed_plugin=DeepSpeedPlugin(hf_ds_config=trial.config()))
    torch.manual_seed(5)
    model = Stack()
    rows = torch.utils.data.DataLoader(torch.randn(64, trial.batch().shape[-1]), batch_size=1)
    engine, optimizer, rows = accelerator.prepare(model, DummyOptim(model.parameters(), lr=1e-3), rows)
    trial.engines.append(engine)

    def train(steps: int) -> None:
        for row, _ in zip(rows, range(steps), strict=False):
            loss = engine(row + torch.randn(row.shape).to(row.device))
            trial.record("loss", repr(loss.item()))
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()

    train(2)
    accelerator.save_state(str(where))
    record_files(trial, where)

    def train_on() -> None:
        train(3)
        trial.record_weights(engine)

    _train_twice(trial, train_on, lambda: accelerator.load_state(str(where)))


@habit("what load_checkpoint() returns beside the path")
def returned_state(trial: Trial) -> None:
    engine = trial.initialize(Stack())
    trial.steps(engine, 1)
    where = _place(trial, "checkpoint")
    engine.save_checkpoint(where, client_state={"mine": [1]})
    _, client = engine.load_checkpoint(where)
    trial.record(sorted(client), client["mine"], client["frozen_param_fragments"])

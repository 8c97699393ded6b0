"""Habits of engines' lives: destroyed, deleted, made again in one process."""

from __future__ import annotations

import contextlib
import gc
import itertools
import operator
import os
import threading
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from deepspeed.runtime.zero import stage3
from habit import habit
from habit_models import Checkpointed, Layer, Stack
from trial import WIDTH, Trial


def held(trial: Trial) -> dict[str, int]:
    """What this process holds for penstock: bytes of files that it swaps to, rings, pinned bytes."""
    files, rings, on_drive = 0, 0, 0
    for entry in Path("/proc/self/fd").iterdir():
        try:
            target = os.readlink(entry)
            if target.startswith(trial.swap):
                files += 1
                on_drive += os.stat(entry).st_blocks * 512
            rings += "io_uring" in target
        except FileNotFoundError:
            continue  # the listing's own
    status = Path("/proc/self/status").read_text().split("\n")
    pinned = sum(int(line.split()[1]) * 1024 for line in status if line.startswith(("VmPin:", "VmLck:")))
    return {"files": files, "rings": rings, "on_drive": on_drive, "pinned": pinned}


def comes_back_to(before: dict[str, int], trial: Trial) -> bool:
    """Whether all is given back, once what is on its way to a drive has ended there."""
    ends = time.monotonic() + 30
    while held(trial) != before and time.monotonic() < ends:
        time.sleep(0.05)
    return held(trial) == before


class _Fragile(Checkpointed):
    """Has what may keep a model: hooks that refer to it, forwards that exceptions end."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        weight = self.layers[0].linear.weight
        weight.register_post_accumulate_grad_hook(self.count)
        weight.register_post_accumulate_grad_hook(operator.methodcaller("retain_grad"))  # nothing refers to it weakly

    def count(self, _: Any) -> None:
        self.calls += 1

    def recomputed(self, layer: Layer, x: torch.Tensor) -> torch.Tensor:
        if layer is self.layers[-1] and not self.training:
            layer(x[..., 1:])  # of another width
        return super().recomputed(layer, x)


def _life(trial: Trial) -> Any:
    torch.manual_seed(5)
    engine = trial.initialize(_Fragile())
    _register_later(engine.module)
    engine.eval()
    with contextlib.suppress(RuntimeError):
        trial.loss(engine)
    engine.train()
    trial.steps(engine, 2)
    trial.record("hooks", engine.module.calls)
    trial.engines.clear()
    return engine


def _register_later(model: _Fragile) -> None:
    """Behind the engine's making: a hook that stays, and one that is removed and, then, gone."""
    for layer in model.layers[:2]:
        layer.linear.weight.register_post_accumulate_grad_hook(model.count)
    other = Stack()
    removed = weakref.ref(other)
    handle = model.layers[0].linear.weight.register_post_accumulate_grad_hook(other.forward)
    del other
    handle.remove()
    assert removed() is None


@habit("engines made, destroyed and deleted in turn")
def destroyed_in_turn(trial: Trial) -> None:
    before = held(trial)
    for _ in range(3):
        engine = _life(trial)
        assert trial.reference or held(trial)["on_drive"] > 0
        engine.destroy()
        del engine
        gc.collect()
        assert trial.reference or comes_back_to(before, trial), (held(trial), before)


@habit("engines made and deleted in turn, never destroyed", short=1)
def deleted_in_turn(trial: Trial) -> None:
    before = held(trial)
    for _ in range(3):
        engine = _life(trial)
        del engine
        gc.collect()
        assert trial.reference or comes_back_to(before, trial), (held(trial), before)


@habit("deepspeed.initialize that an exception ends among its hooks, and again")
def interrupted(trial: Trial) -> None:
    before = held(trial)
    with _ended_in_hooks(), contextlib.suppress(KeyboardInterrupt):
        trial.initialize(Stack())
    gc.collect()
    assert trial.reference or comes_back_to(before, trial), (held(trial), before)
    engine = trial.initialize(Stack())
    trial.steps(engine)
    trial.record_weights(engine)


@contextlib.contextmanager
def _ended_in_hooks() -> Iterator[None]:
    """As Ctrl-C does that comes there, where DeepSpeed gathers each parameter."""
    original = stage3.register_grad_hook
    registered = itertools.count(1)

    def register(*arguments: Any) -> Any:
        if next(registered) == 3:
            raise KeyboardInterrupt
        return original(*arguments)

    stage3.register_grad_hook = register
    try:
        yield
    finally:
        stage3.register_grad_hook = original


@habit("an engine deleted, and one with another `penstock` block made at once")
def of_another_budget(trial: Trial) -> None:
    for budget in ("32MiB", "24MiB"):
        engine = trial.initialize(Stack(), trial.config(penstock__max_pinned_bytes=budget))
        if not trial.reference:
            from penstock.deepspeed.session import open_session_of_run

            assert open_session_of_run().config["penstock"]["max_pinned_bytes"] == budget
        trial.steps(engine, 2)
        trial.record_weights(engine)
        trial.engines.clear()
        del engine


@habit("engines on NVMe and with `device: cpu` in turn, destroyed or not")
def of_two_devices(trial: Trial) -> None:
    in_ram = {f"zero_optimization__{offload}": {"device": "cpu"} for offload in ("offload_param", "offload_optimizer")}
    for changes, is_destroyed in ({}, True), (in_ram, True), ({}, False), (in_ram, False), (in_ram, False), ({}, True):
        engine = trial.initialize(Stack(), trial.config(**changes))
        trial.steps(engine, 2)
        trial.record_weights(engine)
        if is_destroyed:
            engine.destroy()
        trial.engines.clear()
        del engine


@habit("engine.destroy(), the model lives on")
def destroyed(trial: Trial) -> None:
    engine = _life(trial)
    model, files = engine.module, held(trial)["files"]
    engine.destroy()
    engine.destroy()  # as a script does that ends in two places
    del engine
    gc.collect()
    ends = time.monotonic() + 30
    while not trial.reference and held(trial)["files"] >= files:  # masters and moments have one of their own
        assert time.monotonic() < ends, held(trial)
        time.sleep(0.05)
    trial.record(sum(param.ds_numel for param in model.parameters()))


@habit("engine.destroy(), a second engine while the script has the first")
def destroyed_and_kept(trial: Trial) -> None:
    first = _life(trial)
    first.destroy()
    second = _life(trial)
    trial.engines.append(second)
    trial.steps(second, 2)
    trial.record_weights(second)


@habit(
    "deepspeed.initialize again for the model of an engine that lives",
    cpu_only="two runs of stock differ there, and skip steps for gradients that are not finite",
)
def initialized_again(trial: Trial) -> None:
    model = Stack(2)
    first = trial.initialize(model)
    for _ in range(2):
        trial.step(first)
    second = trial.initialize(model)
    for _ in range(12):  # more gradients than a bucket of one rank holds; none of these steps is saved
        second.backward(trial.loss(second))
        second.step()
    trial.record_weights(second)


@habit("deepspeed.initialize again for the model of an engine that lives, persistent parameters on NVMe")
def initialized_again_with_persistent(trial: Trial) -> None:
    model = Stack(2)
    config = trial.config(
        zero_optimization__offload_optimizer=None, zero_optimization__stage3_param_persistence_threshold=3_000_000
    )
    first = trial.initialize(model, config)
    trial.steps(first, 2)
    second = trial.initialize(model, config)
    for _ in range(3):  # none of these steps is saved
        second.backward(trial.loss(second))
        second.step()
    trial.record_weights(second)


@habit("two engines that two threads train at the same time", ranks=(1,))
def trained_at_the_same_time(trial: Trial) -> None:
    seen: list[list[str]] = [[], []]

    def train(number: int) -> None:
        numbers = torch.Generator().manual_seed(number)
        for _ in range(8):  # none of these steps is saved
            loss = engines[number](torch.randn(4, WIDTH, generator=numbers).to(trial.device))
            engines[number].backward(loss)
            engines[number].step()
            seen[number].append(f"{loss.item()!r} {float(engines[number].get_global_grad_norm())!r}")

    engines = [trial.initialize(Stack(6)) for _ in seen]
    threads = [threading.Thread(target=train, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for engine, losses in zip(engines, seen, strict=True):
        trial.record(len(losses), *losses)
        trial.record_weights(engine)


@habit("a step while another engine's thread ends a read ahead of it", ranks=(1,))
def stepped_beside_a_read(trial: Trial) -> None:
    engines = [trial.initialize(Stack()) for _ in range(2)]
    others = torch.randn(4, WIDTH).to(trial.device)
    trial.steps(engines[0], 2)
    engines[0].backward(trial.loss(engines[0]))
    reader = threading.Thread(target=lambda: engines[1](others))
    if trial.reference:
        reader.start()
        engines[0].step()
    else:
        has_read, has_stepped = _slow_read_ahead(engines[0].module.layers[1].linear.weight)
        reader.start()
        assert has_read.wait(60)
        engines[0].step()
        has_stepped.set()
    reader.join()
    trial.record_norm(engines[0])
    trial.steps(engines[0], 2)
    trial.record_weights(engines[0])


def _slow_read_ahead(param: Any) -> tuple[threading.Event, threading.Event]:
    """Begun as a prefetch begins it. The thread that waits for it sets the first event, and goes on at the second."""
    swapper, has_read, may_end = param.nvme_swapper, threading.Event(), threading.Event()
    swapper.swap_in([param])
    delivery = swapper._in_flight[param.ds_id][1]
    end = delivery.result

    def result() -> torch.Tensor:
        content: torch.Tensor = end()
        has_read.set()
        may_end.wait(60)
        return content

    delivery.result = result
    return has_read, may_end


@habit("a notebook's cell, run again and again", short=1)
def notebook(trial: Trial) -> None:
    engine, on_drive = None, []
    for _ in range(4):
        engine = _life(trial)
        gc.collect()
        on_drive.append(held(trial)["on_drive"])
    assert engine is not None
    # A file grows by 64 MiB where old contents and new ones on their way do not fit. What three cells left behind would
    # be more.
    assert trial.reference or max(on_drive) <= on_drive[0] + (64 << 20), on_drive
    trial.record_weights(engine)

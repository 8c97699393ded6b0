"""A step of all ranks, or an error of all. Where a drive fails in one rank, the others would wait for it in their next
collective, or train on without it.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import torch

from penstock.deepspeed.agreement import gathered, of_others, said, together
from penstock.deepspeed.gradient_cycle import cycle_of
from penstock.deepspeed.session import current_session

# Wrappers of DeepSpeedZeroOptimizer_Stage3's methods.


def stepping(original: Callable[..., Any]) -> Callable[..., Any]:
    """Of step."""

    @functools.wraps(original)
    def step(self: Any, *args: Any, **kwargs: Any) -> Any:
        cycle, session = cycle_of(self), current_session()
        if cycle is None:
            return original(self, *args, **kwargs)

        def begin() -> None:
            cycle.progress.begin()
            if session is not None:
                session.check_writes()

        cycle.is_stepping = True
        try:
            together(begin, self.dp_process_group)
            cycle.begin_step()
            cycle.restore_averaged_gradients()
            result = original(self, *args, **kwargs)
            cycle.end()
            return result
        except BaseException as error:
            with contextlib.suppress(Exception):  # the other ranks have gone
                _agree(self, error)
            cycle.fail(error)
            raise
        finally:
            cycle.is_stepping = False
            if self.optimizer_swapper is not None:
                self.optimizer_swapper.end_step()
                if cycle.progress.stopped:
                    _drop_half_step(self)
            if session is not None:
                session.step_ended()

    return step


def _drop_half_step(stage3: Any) -> None:
    """What a sub-group that is stepped whole has in memory goes, so that all reads agree: its master and states are
    those of before. States that the step has made are none.
    """
    for master in stage3.fp32_partitioned_groups_flat:
        group = stage3.optimizer_swapper.group(master)
        if group is None or master.numel() == 0:
            continue
        stage3.optimizer_swapper.release_swap_buffers(master)
        states = stage3.optimizer_swapper.optimizer.state.get(master, {})
        for name in [name for name, value in states.items() if torch.is_tensor(value) and value.numel() == 0]:
            del states[name]


def ending(original: Callable[..., Any]) -> Callable[..., Any]:
    """Of _post_step, behind the last sub-group."""

    @functools.wraps(original)
    def post_step(self: Any, *args: Any, **kwargs: Any) -> Any:
        _agree(self, None)
        return original(self, *args, **kwargs)

    return post_step


def _agree(stage3: Any, error: BaseException | None) -> None:
    """Once for each step whose first sub-group has begun, with this rank's error. Raises where there is none here, and
    other ranks have one.
    """
    cycle = cycle_of(stage3)
    if cycle is None or not cycle.progress.is_under_way:
        return
    progress = cycle.progress
    progress.is_under_way = False
    reports = gathered((said(error), progress.has_changed_nothing), stage3.dp_process_group)
    failures = [failure for failure, _ in reports]
    if not any(failures):
        return
    if error is None:
        progress.stopped = "was carried out by this rank, and failed in others"
        raise of_others(failures, f"; the step {progress.stopped}")
    if progress.has_changed_nothing and not all(has_changed_nothing for _, has_changed_nothing in reports):
        progress.stopped = "was carried out by other ranks, and failed in this one"

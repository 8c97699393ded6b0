"""The powers of beta of DeepSpeed's CPU Adam, as an uninterrupted run has them.

The compiled object keeps beta^t as a running product of floats. After a resume it computes the power anew, which
differs in the last bit at some steps. Calls on no elements bring the product back. Source: IncrementStep in
csrc/includes/cpu_adam.h, of which older versions compute the power at each call but the first of a step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from deepspeed.accelerator import get_accelerator

from penstock.deepspeed import plain_tensors

Betas = tuple[float, float]


def initial_betas(stage3: Any) -> dict[int, Betas] | None:
    """By parameter group that a CPU Adam steps, to be kept before a checkpoint changes them; None: there is none."""
    adam = _adam_of(stage3)
    if _call_of(adam) is None:
        return None
    own = {id(group) for group in adam.param_groups}
    groups = enumerate(stage3.optimizer.param_groups)
    # A checkpoint of another optimizer brings groups, and states, without what Adam has.
    return {number: tuple(group["betas"]) for number, group in groups if id(group) in own and "betas" in group}


def changes_betas(scheduler: Any) -> bool:
    """Of a learning rate: DeepSpeed's OneCycle, torch's OneCycleLR and CyclicLR. The op computes the power then."""
    return bool(getattr(scheduler, "cycle_momentum", False))


def restore_powers(stage3: Any, before: dict[int, Betas] | None) -> None:
    """As after the checkpoint's steps, where the betas of the groups are what they were `before`. Else a schedule
    changes them, and each step computes the power anyway; or the script has, and the product is not known.
    """
    if before is None or before != initial_betas(stage3):
        return
    adam = _adam_of(stage3)
    stepped = [
        (master, before[stage3.sub_group_to_group_id[number]])
        for number, master in enumerate(stage3.fp32_partitioned_groups_flat)
        if stage3.sub_group_to_group_id[number] in before
    ]
    states = (adam.state.get(master) or {} for master, _ in stepped)
    steps = [int(state["step"]) for state in states if "step" in state]
    if not steps or len(set(steps)) > 1:
        return
    betas = [beta for _, beta in stepped]
    # Of sub-groups that follow each other with the same betas, the third says what the second does.
    calls = [beta for number, beta in enumerate(betas) if number < 2 or betas[number - 2 : number] != [beta, beta]]
    call = _call_of(adam)
    assert call is not None
    call(0, betas[0])
    # A product over all steps needs all of them; with several betas in turn each call computes the power.
    first = 1 if len(set(betas)) == 1 else max(1, steps[0] - 1)
    for step in range(first, steps[0] + 1):
        for beta in calls:
            call(step, beta)


def _adam_of(stage3: Any) -> Any:
    """The optimizer, or the one that DeepSpeed's Muon has for what it does not step itself."""
    return getattr(stage3.optimizer, "aux_optimizer", None) or stage3.optimizer


def _call_of(optimizer: Any) -> Callable[[int, Betas], None] | None:
    """A step of the compiled object on no elements; None: the optimizer has none."""
    nothing = plain_tensors.empty(0, torch.float32)
    cpu_adam: Any = getattr(optimizer, "ds_opt_adam", None)
    if hasattr(cpu_adam, "adam_update"):
        rest = (1e-8, 0.0, True, nothing, nothing, nothing, nothing)
        return lambda step, betas: cpu_adam.adam_update(optimizer.opt_id, step, 0.0, *betas, *rest)
    fused = getattr(optimizer, "multi_tensor_adam", None)  # on the CPU it is the same object
    if fused is None or get_accelerator().device_name() != "cpu":
        return None
    lists = [[nothing]] * 4
    return lambda step, betas: fused(
        0, optimizer._dummy_overflow_buf, lists, 0.0, *betas, 1e-8, step, optimizer.adam_w_mode, True, 0.0
    )

"""A state of the optimizer that is swapped out: what a script sees of it, and what that costs."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

NUMEL = 1000


@pytest.fixture
def group(tmp_path: Path) -> Iterator[Any]:
    from penstock._core import SwapEngine
    from penstock.deepspeed.sub_group import SubGroup

    engine = SwapEngine("{}", "test")
    yield SubGroup(engine, engine.open_namespace("states", [str(tmp_path)]), "group", NUMEL, 300)
    engine.close()


def swapped(group: Any) -> Any:
    import torch
    from penstock.deepspeed.swapped_state import swap_out

    state = torch.linspace(-1, 1, NUMEL)
    group.put("exp_avg", state)
    swap_out(state, group, "exp_avg")
    return state


def test_its_form_needs_no_content(group: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    state = swapped(group)
    monkeypatch.setattr(group, "read", None)
    assert state.shape == (NUMEL,) and len(state) == state.numel() == state.size(0) == NUMEL and state.dim() == 1
    assert state.dtype == torch.float32 and state.device.type == "cpu" and not torch.is_complex(state)
    assert state.nbytes == 4 * NUMEL and state.element_size() == 4 and state.grad is None and not state.is_pinned()


def test_what_leaves_no_view_takes_no_memory(group: Any) -> None:
    import torch
    from penstock.deepspeed.swapped_state import SwappedState

    state, expected = swapped(group), torch.linspace(-1, 1, NUMEL)
    for change in (lambda t: t.mul_(0.5), lambda t: torch.add(t, 1, out=t), lambda t: t.__setitem__(3, 7.0)):
        change(state)
        change(expected)
        assert isinstance(state, SwappedState)
        assert torch.equal(group.read("exp_avg", torch.float32), expected)
    assert state.mul_(2) is state and torch.equal(state, expected.mul_(2))
    assert state.norm().item() == expected.norm().item() and repr(state) == repr(expected)
    assert isinstance(state, SwappedState)


def test_what_torch_does_not_count_is_kept(group: Any) -> None:
    import torch

    state, expected = swapped(group), torch.linspace(-1, 1, NUMEL)
    state.apply_(lambda value: value * 2)
    state.map_(torch.ones(NUMEL), lambda ours, theirs: ours + theirs)
    assert torch.equal(group.read("exp_avg", torch.float32), expected * 2 + 1)
    state.set_(expected * 3)
    assert type(state) is torch.Tensor and torch.equal(state, expected * 3)


def test_what_looks_past_it_sees_no_numbers(group: Any) -> None:
    """Zeros could be moments."""
    import torch

    assert torch.tensor(swapped(group)).isnan().all() and torch.vmap(lambda t: t + 1)(swapped(group)).isnan().all()


def test_a_view_keeps_it_in_memory(group: Any) -> None:
    import torch

    for view in (lambda t: t.data, lambda t: t[10:20], lambda t: t.view(10, 100).t(), lambda t: t.numpy()):
        state = swapped(group)
        part = view(state)
        part[:] = 5
        assert type(state) is torch.Tensor and (state == 5).any()


def test_in_memory_again_it_is_a_tensor_like_others(group: Any) -> None:
    import torch

    state = swapped(group)
    own = state.view(-1)
    state.mine = "kept"  # type: ignore[attr-defined]
    assert vars(state) == {"mine": "kept"}
    assert torch.equal(pickle.loads(pickle.dumps(state)), own)


def test_blocks_of_eight_bits(group: Any) -> None:
    import torch

    group.segments = [(NUMEL, "8bit", 0)]
    state = swapped(group)
    before = state.clone()
    state.mul_(0.5)  # the blocks' scales halve
    assert torch.equal(state, before * 0.5)


def test_its_content_is_gone(group: Any) -> None:
    from penstock.errors import ArgumentError

    state = swapped(group)
    group.forget("exp_avg")
    with pytest.raises(ArgumentError, match="none any more"):
        state.zero_()


def test_the_tensor_of_another_state_is_refused(group: Any) -> None:
    from penstock.deepspeed.swapped_state import expect_own
    from penstock.errors import ArgumentError

    state = swapped(group)
    expect_own(state, group, "exp_avg")
    with pytest.raises(ArgumentError, match="put a clone"):
        expect_own(state, group, "exp_avg_sq")


def test_another_length_is_refused(group: Any) -> None:
    import torch
    from penstock.errors import ArgumentError

    state = swapped(group)
    with pytest.raises(ArgumentError, match="changes its size"):
        state.data = torch.zeros(3)
    assert torch.equal(state, torch.linspace(-1, 1, NUMEL))

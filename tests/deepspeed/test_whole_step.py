"""The step of an optimizer that penstock does not know, which has a whole sub-group in memory: stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import free_port
from habit_process import run
from trial import Trial, digest


class OwnAdam(torch.optim.Adam):
    """Known by its parent only, so it may do anything to a sub-group."""


def stopped(trial: Trial) -> None:
    from deepspeed.utils import safe_get_full_fp32_param, safe_get_full_optimizer_state
    from habit_models import Stack
    from penstock.deepspeed.parameter_swapper import ParameterSwapper
    from penstock.errors import Error

    def masters(engine: Any) -> list[str]:
        return [digest(safe_get_full_fp32_param(param)) for param in engine.module.parameters()]

    model = Stack()
    untested = {"zero_allow_untested_optimizer": True, "zero_force_ds_cpu_optimizer": False}
    engine = trial.initialize(model, trial.config(optimizer=None, **untested), optimizer=OwnAdam(model.parameters()))
    before = masters(engine)
    engine.backward(trial.loss(engine))
    new_content, asked = ParameterSwapper.new_content, []

    def fail_at_second(self: ParameterSwapper, param: Any) -> Any:
        asked.append(param)
        if len(asked) == 2:
            raise OSError(28, "no room")
        return new_content(self, param)

    ParameterSwapper.new_content = fail_at_second  # type: ignore[method-assign]
    with pytest.raises(OSError, match="no room"):
        engine.step()
    ParameterSwapper.new_content = new_content  # type: ignore[method-assign]
    assert len(asked) == 2
    for _ in range(2):
        assert masters(engine) == before
        with pytest.raises(KeyError):
            safe_get_full_optimizer_state(model.layers[0].linear.weight, "exp_avg")
    with pytest.raises(Error, match="twice"):
        engine.step()


@pytest.mark.deep
def test_reads_agree_when_it_has_stopped(compiled: None, tmp_path: Path) -> None:
    outcome = run(stopped, tmp_path / "run", 1, False, free_port())
    assert not outcome.errors, outcome.log
    assert "a whole sub-group at a time" in outcome.log

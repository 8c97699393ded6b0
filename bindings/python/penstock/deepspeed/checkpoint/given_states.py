"""optimizer.load_state_dict() by a script, of what optimizer.state_dict() gave: masters and states in memory."""

from __future__ import annotations

from typing import Any

import torch

from penstock.deepspeed.agreement import together
from penstock.deepspeed.checkpoint.half_load import HalfLoad
from penstock.deepspeed.checkpoint.intake import Intake
from penstock.deepspeed.checkpoint.loaded_states import LoadedStates
from penstock.deepspeed.session import open_session_of_run


class Given:
    """In the place of a file, of which nothing has to be read."""

    path = "the optimizer's state_dict()"

    def record_of(self, tensor: torch.Tensor) -> tuple[str, int] | None:
        return None

    def read(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor

    def read_all(self, value: Any) -> None: ...

    def copy(self, tensor: torch.Tensor, target: torch.Tensor) -> None:
        target.copy_(tensor)


def load_given(stage3: Any, state_dict: dict[str, Any], load_optimizer_states: bool) -> None:
    """Errors: it is of another model, sub-groups or ranks, or one rank has no room; nothing has changed then."""
    session = open_session_of_run()
    intake = Intake(session.engine)
    states = LoadedStates(stage3, Given(), state_dict, intake)

    def take() -> None:
        states.check()
        states.collect(load_optimizer_states)
        intake.run(Given.path, speaks=False)

    try:
        together(take)
    except BaseException:
        intake.drop()
        states.give_up()
        raise
    mark = HalfLoad(stage3, Given.path)
    intake.at_begin(mark.begin)
    stage3.checkpoint_event_prologue()
    together(lambda: states.install(load_optimizer_states))
    stage3.checkpoint_event_epilogue()
    mark.end(load_optimizer_states)

"""The configuration of the engine that is being built, as DeepSpeed has read it: a mapping, a file or base64."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

_being_built: ContextVar[dict[str, Any] | None] = ContextVar("penstock_engine_configuration", default=None)


def knowing_configuration(original: Callable[..., Any]) -> Callable[..., Any]:
    """For the engine's function that makes the stage-3 optimizer, which does not get what DeepSpeed has read."""

    @functools.wraps(original)
    def configure(self: Any, optimizer: Any) -> Any:
        from penstock.deepspeed.session import current_session

        token = _being_built.set(self._config._param_dict)
        try:
            made = original(self, optimizer)
        finally:
            _being_built.reset(token)
            session = current_session()
            if session is not None:
                session.plan_is_stale = True  # which parameters are frozen is settled by now
                session.collect_dead_parameters()
        session = current_session()  # what was collected may have been all that an engine before this one had swapped
        if session is not None:
            session.plan_if_stale()  # `max_in_cpu` may leave nothing to swap, so that no use of the engine comes
            session.plan_is_stale = True  # the script may still freeze some before its first step
        return made

    return configure


def configuration_being_built() -> dict[str, Any]:
    """Empty outside of an engine's making. A thread sees what it builds itself."""
    return _being_built.get() or {}

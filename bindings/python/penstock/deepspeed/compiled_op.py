"""DeepSpeed's compiled CPU Adam, compiled when something first needs it: a minute, and a compiler, that a run whose
optimizer penstock steps does without.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


class CompiledOp:
    """Stands for the op's module. Optimizers that are made before the op is loaded are made in it then."""

    def __init__(self, load: Callable[[], Any]) -> None:
        self._load = load
        self._op: Any = None
        self._created: dict[int, tuple[Any, ...]] = {}  # by the optimizer's id

    @property
    def is_loaded(self) -> bool:
        return self._op is not None

    def loaded(self) -> Any:
        """Compiles the op where it has to be. Raises RuntimeError where it cannot be, as DeepSpeedCPUAdam does."""
        if self._op is None:
            try:
                self._op = self._load()
            except Exception as error:
                raise RuntimeError("DeepSpeedCPUAdam requires the cpu_adam op, which failed to build/load.") from error
            for arguments in self._created.values():
                self._op.create_adam(*arguments)
        return self._op

    def create_adam(self, optimizer_id: int, *arguments: Any) -> Any:
        if self._op is not None:
            return self._op.create_adam(optimizer_id, *arguments)
        self._created[optimizer_id] = (optimizer_id, *arguments)
        return 0

    def destroy_adam(self, optimizer_id: int) -> Any:
        if self._op is not None:
            return self._op.destroy_adam(optimizer_id)
        self._created.pop(optimizer_id, None)
        return 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loaded(), name)


def loading_later(builder: Any) -> Any:
    """In the place of CPUAdamBuilder where DeepSpeedCPUAdam asks for it. What this process has loaded, or the package
    has brought compiled, is loaded at once.
    """

    class LaterBuilder(builder):  # type: ignore[misc]
        def load(self, *args: Any, **kwargs: Any) -> Any:
            op = CompiledOp(functools.partial(super().load, *args, **kwargs))
            if self.name in builder._loaded_ops or _is_installed(self.name):
                op.loaded()
            return op

    return LaterBuilder


def loading_where_needed(original: Callable[..., None]) -> Callable[..., None]:
    """For the engine's constructor: an optimizer that penstock does not step has its op from the start, as without
    penstock.
    """

    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        op = getattr(getattr(self, "basic_optimizer", None), "ds_opt_adam", None)
        if isinstance(op, CompiledOp):
            op.loaded()

    return init


def _is_installed(name: str) -> bool:
    from deepspeed.git_version_info import installed_ops

    return bool(installed_ops.get(name, False))

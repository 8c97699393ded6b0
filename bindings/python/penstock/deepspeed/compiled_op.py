"""A compiled op of DeepSpeed's CPU optimizers, compiled when something first needs it: a minute, and a compiler, that a
run whose optimizer penstock steps does without.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


class CompiledOp:
    """Stands for the op's module. Optimizers that are made before the op is loaded are made in it then."""

    def __init__(self, load: Callable[[], Any], kind: str) -> None:
        """kind: as the op's functions have it, "adam" of create_adam()."""
        self._load = load
        self._kind = kind
        self._op: Any = None
        self._created: dict[int, tuple[Any, ...]] = {}  # by the optimizer's id

    @property
    def is_loaded(self) -> bool:
        return self._op is not None

    def loaded(self) -> Any:
        """Compiles the op where it has to be. Raises RuntimeError where it cannot be, as DeepSpeed's optimizers do."""
        if self._op is None:
            try:
                self._op = self._load()
            except Exception as error:
                who, name = f"DeepSpeedCPU{self._kind.capitalize()}", f"cpu_{self._kind}"
                raise RuntimeError(f"{who} requires the {name} op, which failed to build/load.") from error
            for arguments in self._created.values():
                getattr(self._op, f"create_{self._kind}")(*arguments)
        return self._op

    def _create(self, optimizer_id: int, *arguments: Any) -> int:
        self._created[optimizer_id] = (optimizer_id, *arguments)
        return 0

    def _destroy(self, optimizer_id: int) -> int:
        self._created.pop(optimizer_id, None)
        return 0

    def __getattr__(self, name: str) -> Any:
        early = {f"create_{self._kind}": self._create, f"destroy_{self._kind}": self._destroy}
        if self._op is None and name in early:
            return early[name]
        return getattr(self.loaded(), name)


def loading_later(builder: Any) -> Any:
    """In the place of a builder where an optimizer asks for it. What this process has loaded, or the package has
    brought compiled, is loaded at once.
    """

    class LaterBuilder(builder):  # type: ignore[misc]
        def load(self, *args: Any, **kwargs: Any) -> Any:
            op = CompiledOp(functools.partial(super().load, *args, **kwargs), self.name.removeprefix("cpu_"))
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
        optimizer = getattr(self, "basic_optimizer", None)
        for name in ("ds_opt_adam", "ds_opt_lion", "ds_opt_adagrad"):
            op = getattr(optimizer, name, None)
            if isinstance(op, CompiledOp):
                op.loaded()

    return init


def _is_installed(name: str) -> bool:
    from deepspeed.git_version_info import installed_ops

    return bool(installed_ops.get(name, False))

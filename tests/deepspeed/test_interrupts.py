"""Ctrl-C while a save or a load gets DeepSpeed's engine ready leaves that as it was."""

from __future__ import annotations

from typing import Any

import pytest


class Engine:
    """Interrupts when an attribute of this name has been set, once."""

    def __init__(self, interrupted: str) -> None:
        self.optimizer = object()
        self.checkpoint_engine = "DeepSpeed's"
        self.interrupted: str | None = interrupted

    def load_module_state_dict(self) -> None:
        """Of DeepSpeed's class."""

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if getattr(self, "interrupted", None) == name:
            self.interrupted = None
            raise KeyboardInterrupt


def is_left_as_it_was(engine: Engine) -> bool:
    return engine.checkpoint_engine == "DeepSpeed's" and set(vars(engine)) == {
        "optimizer",
        "checkpoint_engine",
        "interrupted",
    }


@pytest.mark.parametrize(
    "attribute", ["checkpoint_engine", "zero_nvme_offload_optimizer", "_copy_recovery_script", "nothing"]
)
def test_a_save(attribute: str) -> None:
    from penstock.deepspeed.checkpoint import saving

    engine = Engine(attribute)
    with pytest.raises(KeyboardInterrupt), saving._collected(engine, saving.CollectingEngine(None)):
        raise KeyboardInterrupt
    assert is_left_as_it_was(engine) and not saving._saving


@pytest.mark.parametrize(
    "attribute", ["checkpoint_engine", "load_module_state_dict", "zero_nvme_offload_optimizer", "nothing"]
)
def test_a_load(attribute: str) -> None:
    from penstock.deepspeed.checkpoint import loading

    engine: Any = Engine(attribute)
    checkpoint: Any = object()
    with pytest.raises(KeyboardInterrupt), loading._from_memory(engine, checkpoint, {}):
        raise KeyboardInterrupt
    assert is_left_as_it_was(engine) and not loading._loading

"""The keys that `penstock plan` takes for DeepSpeed's are those that the installed release reads."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from conftest import ROOT

TABLES = (ROOT / "bindings" / "deepspeed" / "deepspeed_keys.cpp").read_text()


def _table(name: str) -> set[str]:
    found = re.search(rf"{name} = std::to_array<ConfigKey>\(\{{(.*?)\}}\);", TABLES, re.DOTALL)
    assert found is not None
    return set(re.findall(r'\.name = "([^"]+)"', found.group(1)))


class _Asked(dict[str, Any]):
    """Remembers which keys it was asked for."""

    def __init__(self, values: dict[str, Any]) -> None:
        super().__init__(values)
        self.asked: set[str] = set()

    def __getitem__(self, key: str) -> Any:
        self.asked.add(key)
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        self.asked.add(str(key))
        return super().__contains__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self.asked.add(key)
        return super().get(key, default)

    def keys(self) -> Any:
        return _Keys(self)

    def __copy__(self) -> _Asked:
        return self


class _Keys:
    def __init__(self, asked: _Asked) -> None:
        self._asked = asked

    def __contains__(self, key: object) -> bool:
        return key in self._asked

    def __iter__(self) -> Iterator[str]:
        return iter(list(dict.keys(self._asked)))


def test_at_the_top(monkeypatch: pytest.MonkeyPatch) -> None:
    from deepspeed.runtime.config import DeepSpeedConfig

    for name, value in (("RANK", "0"), ("WORLD_SIZE", "1"), ("LOCAL_RANK", "0")):
        monkeypatch.setenv(name, value)
    asked = _Asked({"train_batch_size": 1, "zero_optimization": {"stage": 3}})
    DeepSpeedConfig(asked)
    assert asked.asked == _table("kTop") - {"penstock", "$schema"}


@pytest.mark.parametrize(
    ("table", "model"),
    [
        ("kZero", "DeepSpeedZeroConfig"),
        ("kOffloadParam", "DeepSpeedZeroOffloadParamConfig"),
        ("kOffloadOptimizer", "DeepSpeedZeroOffloadOptimizerConfig"),
    ],
)
def test_of_zero(table: str, model: str) -> None:
    from deepspeed.runtime.zero import config

    fields = getattr(config, model).model_fields
    names = set(fields) | {str(field.alias) for field in fields.values() if field.alias}
    assert names == _table(table)
    assert getattr(config, model).model_config["extra"] == "forbid", "the plan says that DeepSpeed refuses others"


def test_two_names_of_a_value() -> None:
    from deepspeed.runtime.zero.config import DeepSpeedZeroConfig

    fields = DeepSpeedZeroConfig.model_fields.items()
    pairs = re.findall(r'\.name = "(\w+)"(?:[^{}]*?)\.same_as = "(\w+)"', TABLES)
    assert dict(pairs) == {name: field.alias for name, field in fields if field.alias}

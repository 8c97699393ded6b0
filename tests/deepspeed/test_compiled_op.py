"""DeepSpeed's compiled CPU Adam is compiled where something needs it, and only there."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from conftest import Runner, full_finetune_config
from penstock.deepspeed.compiled_op import CompiledOp


class Op:
    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []

    def create_adam(self, *arguments: object) -> int:
        self.calls.append(("create", *arguments))
        return 0

    def destroy_adam(self, number: int) -> int:
        self.calls.append(("destroy", number))
        return 0

    def adam_update(self, number: int) -> None:
        self.calls.append(("update", number))


@pytest.mark.parametrize(
    ("said", "is_gcc"),
    [("g++ 12.2.0, Copyright Free Software Foundation, Inc.", True), ("clang version 19.1.7", False), (None, True)],
)
def test_only_gcc_makes_it_as_the_kernels_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str | None, is_gcc: bool
) -> None:
    """Another compiler's op is made and compared before the first step. Without a compiler none can be."""
    from penstock.deepspeed import step_choice

    compiler = tmp_path / "compiler"
    if said is not None:
        compiler.write_text(f"#!/bin/sh\necho '{said}'\n")
        compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    assert step_choice._is_compiled_by_gcc() == is_gcc


def test_it_is_loaded_by_the_first_update() -> None:
    op, loads = Op(), []
    later = CompiledOp(lambda: loads.append(1) or op, "adam")  # type: ignore[func-returns-value]
    later.create_adam(0, 0.1)
    later.create_adam(1, 0.2)
    later.destroy_adam(0)
    assert not loads and not later.is_loaded
    later.adam_update(1)
    later.create_adam(2, 0.3)
    later.destroy_adam(1)
    assert loads == [1]
    assert op.calls == [("create", 1, 0.2), ("update", 1), ("create", 2, 0.3), ("destroy", 1)]


def test_what_cannot_be_compiled_says_so() -> None:
    def load() -> None:
        raise OSError("no compiler")

    later = CompiledOp(load, "adam")
    with pytest.raises(RuntimeError, match="requires the cpu_adam op") as raised:
        later.adam_update(1)
    assert isinstance(raised.value.__cause__, OSError)


@pytest.mark.deep
def test_training_without_it(runner: Runner, small_model: Path, swap: Path, tmp_path: Path) -> None:
    """Where it cannot be compiled: a file is in the way. What DeepSpeed compiles besides is there."""
    config = full_finetune_config(swap, penstock__ram_bytes=0)
    whole = runner.full_finetune(small_model, config, 2)
    assert whole.returncode == 0, whole.output
    compiled = Path(os.environ.get("TORCH_EXTENSIONS_DIR", Path.home() / ".cache" / "torch_extensions"))
    bare = tmp_path / "extensions"
    shutil.copytree(compiled, bare, ignore=shutil.ignore_patterns("cpu_adam", "lock"))
    folder = next(bare.glob("**/build.ninja")).parent.parent
    (folder / "cpu_adam").touch()
    runner.environment.update(TORCH_EXTENSIONS_DIR=str(folder))
    without = runner.full_finetune(small_model, config, 2)
    assert without.returncode == 0, without.output
    assert without.values == whole.values
    on_cpu = runner.full_finetune(small_model, full_finetune_config(None), 2, True)
    assert on_cpu.returncode != 0, "what penstock does not step needs it, from the start on"
    assert "requires the cpu_adam op" in on_cpu.output
    assert not on_cpu.values

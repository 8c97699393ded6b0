"""The tree tests itself: arrows between modules, names, lengths, what must not be in a commit."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# Modules, lowest first: a file may include its own module and those with a smaller rank, not those of equal rank.
RANKS = {
    "alloc": 0,
    "io": 1,
    "swap/plan": 2,
    "swap/schedule": 2,
    "swap/device": 2,
    "swap/transfer": 3,
    "swap/store": 4,
    "swap": 5,
    "swap/update": 6,
    "bindings/inventory": 7,
    "bindings/archive": 8,
    "bindings/deepspeed": 9,
    "bindings": 10,
    "bench/job": 11,
    "bench/process": 11,
    "bench/measure": 12,
    "bench/workload": 13,
    "bench": 14,
    "bench/report": 15,
    "bench/pair": 16,
    "bench/tune": 17,
    "cli": 18,
    "tests": 19,
}
# The pure modules: no clock, no I/O. Of io/ they may name the engines' kinds.
PURE = {"swap/plan": {"io/engine_probe.h"}, "swap/schedule": set()}

SOURCE = re.compile(r"\.(h|hpp|cpp|py|sh)$")
LINES_MAX = 400


def tracked() -> list[str]:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    return [name for name in listed.stdout.split("\n") if name and (ROOT / name).exists()]


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8", errors="replace")


def module_of(path: str) -> str | None:
    return max((module for module in RANKS if path.startswith(module + "/")), key=len, default=None)


def upward_arrows(files: dict[str, str]) -> list[str]:
    """Includes that point up or sideways; `files` maps names to texts."""
    found = []
    for name, text in files.items():
        module = module_of(name)
        if module is None or not re.search(r"\.(h|cpp)$", name):
            continue
        for include in re.findall(r'#include\s+[<"]([^">]+)[">]', text):
            target = module_of(include)
            if target is None or target == module:
                continue
            sideways = RANKS[target] == RANKS[module]
            impure = module in PURE and target == "io" and include not in PURE[module]
            if RANKS[target] > RANKS[module] or sideways or impure:
                found.append(f"{name} includes {include}")
    return found


def test_dependencies_only_point_down() -> None:
    assert upward_arrows({name: text_of(name) for name in tracked()}) == []


def test_an_upward_arrow_would_be_seen() -> None:
    bad = {
        "alloc/a.h": '#include "io/file.h"',
        "swap/plan/b.cpp": '#include "swap/swap_engine.h"',
        "swap/schedule/c.cpp": '#include "swap/plan/budgets.h"',
        "swap/plan/d.h": '#include "io/file.h"',
        "swap/e.h": '#include "bindings/deepspeed/config.h"',
        "io/good.h": '#include "alloc/bytes.h"',
    }
    assert len(upward_arrows(bad)) == 5


def lines_that_name_it(files: dict[str, str]) -> list[str]:
    """Lines of engine, I/O and memory that name DeepSpeed, but for the sources of the formulas in swap/update."""
    sources = {f"swap/update/{optimizer}.h" for optimizer in ("adagrad", "adam", "lion")}
    return [
        f"{name}:{number}"
        for name, text in files.items()
        if re.match(r"(alloc|io|swap)/", name) and name not in sources
        for number, line in enumerate([name, *text.split("\n")])
        if re.search("deepspeed", line, re.IGNORECASE)
    ]


def test_the_engine_does_not_know_deepspeed() -> None:
    assert lines_that_name_it({name: text_of(name) for name in tracked()}) == []


def test_a_deepspeed_in_the_engine_would_be_seen() -> None:
    bad = {
        "alloc/a.h": "// as DeepSpeed does",
        "io/b.cpp": "#include <fcntl.h>\nint deepspeed_handle;",
        "swap/plan/c.h": '#include "bindings/deepspeed/config.h"',
        "swap/CMakeLists.txt": "LINKS penstock::deepspeed",
        "swap/store/deepspeed_store.h": "",
        "bench/workload/swap/a.h": "/// DeepSpeed's order",
        "bench/good.h": '#include "bindings/deepspeed/config.h"',
    }
    assert lines_that_name_it(bad) == [
        "alloc/a.h:1",
        "io/b.cpp:2",
        "swap/plan/c.h:1",
        "swap/CMakeLists.txt:1",
        "swap/store/deepspeed_store.h:0",
    ]


def test_build_targets_link_only_downwards() -> None:
    for name in tracked():
        if not name.endswith("CMakeLists.txt") or name.startswith("tests/"):
            continue
        module = name.rpartition("/")[0]
        if module not in RANKS:
            continue
        for linked in re.findall(r"penstock::(\w+)", text_of(name)):
            called = linked.replace("bench_", "bench/")
            target = next(target for target in (called, f"swap/{called}", f"bindings/{called}") if target in RANKS)
            assert RANKS[target] < RANKS[module], f"{name} links penstock::{linked}"


def test_one_noun_a_file() -> None:
    for name in tracked():
        stem = Path(name).stem
        assert not re.fullmatch(r"(.*_)?(utils?|helpers?|common|misc)(_.*)?", stem), name


def test_files_fit_in_a_head() -> None:
    long = [
        f"{name}: {text_of(name).count(chr(10))} lines"
        for name in tracked()
        if SOURCE.search(name) and text_of(name).count("\n") > LINES_MAX
    ]
    assert long == []


def test_headers_are_guarded() -> None:
    for name in tracked():
        if name.endswith(".h"):
            assert text_of(name).startswith("#pragma once"), name


def test_nothing_says_that_it_is_not_done() -> None:
    for name in tracked():
        if SOURCE.search(name) and not name.startswith("tests/"):
            assert not re.search(r"\b(TODO|FIXME|XXX|HACK)\b", text_of(name)), name


def test_banned_calls() -> None:
    """Each with what to use instead."""
    banned = {
        r"\bassert\s*\(": "PENSTOCK_CHECK, which release builds keep",
        r"using namespace std": "the names themselves",
        r"\bprintf\s*\(": "fmt, or the log",
    }
    for name in tracked():
        if not re.search(r"\.(h|cpp)$", name) or name.startswith("tests/"):
            continue
        code = re.sub(r"//.*", "", text_of(name))
        for pattern, instead in banned.items():
            assert not re.search(rf"(?<!static_)(?<!\w){pattern}", code) or (
                "static_assert" in code and not re.search(rf"(?<!static_){pattern}", code)
            ), f"{name}: {pattern}; use {instead}"


# What zero.Init replaces, and what to use instead: plain_tensors. A method of a tensor (new_empty) stays what it is.
ROUNDED = re.compile(r"\btorch\.(tensor|empty|zeros|ones|full|arange|eye|randn|Tensor|FloatTensor)\(")
# It asks which dtype zero.Init gives a partition in RAM.
WANTS_ROUNDED = "torch.empty(0, dtype=param.dtype).dtype"


def lines_that_zero_init_rounds(files: dict[str, str]) -> list[str]:
    return [
        f"{name}:{number}"
        for name, text in files.items()
        if name.startswith("bindings/python/penstock/deepspeed/") and not name.endswith("/plain_tensors.py")
        for number, line in enumerate(text.split("\n"), 1)
        if ROUNDED.search(line.replace(WANTS_ROUNDED, ""))
    ]


def test_no_tensor_is_made_that_zero_init_rounds() -> None:
    assert lines_that_zero_init_rounds({name: text_of(name) for name in tracked()}) == []


def test_a_tensor_that_zero_init_rounds_would_be_seen() -> None:
    bad = {
        "bindings/python/penstock/deepspeed/a.py": "import torch\none = torch.ones(1, dtype=torch.float32)",
        "bindings/python/penstock/deepspeed/checkpoint/b.py": f"kind = {WANTS_ROUNDED}, torch.full((), 1.0)",
        "bindings/python/penstock/deepspeed/good.py": f"kind = {WANTS_ROUNDED}, torch.empty_like(part)",
        "bindings/python/penstock/deepspeed/plain_tensors.py": "torch.empty(0)",
        "bench/good.py": "torch.empty(0)",
    }
    assert [line.rpartition("/")[2] for line in lines_that_zero_init_rounds(bad)] == ["a.py:2", "b.py:1"]


def test_lines_are_readable() -> None:
    for name in tracked():
        if re.search(r"\.(h|cpp)$", name):
            for number, line in enumerate(text_of(name).split("\n"), 1):
                # Widths are counted in characters; a URL or a message may stand over by a word.
                assert len(line) <= 120, f"{name}:{number} has {len(line)} columns"


def test_documents_have_one_title() -> None:
    for name in tracked():
        if name.endswith(".md"):
            outside_code = re.sub(r"```.*?```", "", text_of(name), flags=re.S)
            titles = re.findall(r"^# ", outside_code, flags=re.M)
            assert len(titles) == 1, f"{name} has {len(titles)} titles"


def test_links_lead_somewhere() -> None:
    for name in tracked():
        if not name.endswith(".md"):
            continue
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text_of(name)):
            if "://" not in target:
                assert (ROOT / name).parent.joinpath(target).exists(), f"{name} links to {target}"


def test_the_tests_that_documents_name_are_there() -> None:
    """In tables whose last column is `test`: suites, a suite and its test, functions or files of Python's."""
    sources = "\n".join(text_of(name) for name in tracked() if name.startswith("tests/") and SOURCE.search(name))
    cpp = set(re.findall(r"\bTEST(?:_[FP])?\(\s*(\w+),\s*(\w+)\s*\)", sources))
    cpp |= {(suite, "") for suite, _ in cpp}
    python = set(re.findall(r"\bdef (test_\w+)\(", sources))
    rows = [
        (name, row)
        for name in tracked()
        if name.endswith(".md")
        for table in re.findall(r"^\|.*\| test \|\n\|[-| ]+\|\n((?:\|.*\n)+)", text_of(name), flags=re.M)
        for row in table.splitlines()
    ]
    assert rows, "docs/FAULTS.md has a table of tests"
    for name, row in rows:
        tests = re.findall(r"`([^`]+)`", row.rstrip("| ").rpartition("| ")[2])
        assert tests, f"{name} names no test: {row}"
        for test in tests:
            suite, _, case = test.partition(".")
            there = (suite, case) in cpp or test in python or test in tracked()
            assert there, f"{name} names a test that is not there: {row}"


def test_no_large_files() -> None:
    for name in tracked():
        assert (ROOT / name).stat().st_size <= 2_000_000, name


@pytest.mark.parametrize("command", ["ruff check --no-cache", "ruff format --no-cache --check", "mypy"])
def test_python_is_checked(command: str) -> None:
    program, *arguments = command.split()
    path = Path(sys.executable).parent / program
    if not path.exists():
        pytest.skip(f"no {program} beside this python")
    cache = {"MYPY_CACHE_DIR": os.devnull}
    done = subprocess.run(
        [path, *arguments], cwd=ROOT, capture_output=True, text=True, check=False, env={**os.environ, **cache}
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_cpp_is_formatted() -> None:
    program = Path(sys.executable).parent / "clang-format"
    if not program.exists():
        pytest.skip("no clang-format beside this python")
    files = [name for name in tracked() if re.search(r"\.(h|cpp)$", name)]
    done = subprocess.run(
        [program, "--dry-run", "-Werror", *files], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[:4000]


def test_functions_fit_a_screen() -> None:
    """Python's by the syntax tree; those of C++ are clang-tidy's (readability-function-size)."""
    import ast

    for name in tracked():
        if not name.endswith(".py"):
            continue
        for node in ast.walk(ast.parse(text_of(name))):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                assert length <= 70, f"{name}:{node.lineno} {node.name} has {length} lines"

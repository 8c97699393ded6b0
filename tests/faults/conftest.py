"""What the tests of faults share: a row of the table for each, and processes with mounts of their own."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from memory_group import MemoryGroup, memory_group

ROOT = Path(__file__).resolve().parents[2]

# The C++ tests that write rows, and which of a program's tests do.
PROGRAMS = (("tests/faults/test_faults", "*"),)

rows_of_this_run: list[dict[str, Any]] = []


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--write-fault-table", action="store_true", help="write docs/FAULTS.md's table of faults anew")


class Row:
    """What one test shows. Kept when the test has passed, or as skipped."""

    def __init__(self, through: str, test: str) -> None:
        self.values: dict[str, Any] = {
            "fault": "",
            "made_by": "",
            "through": through,
            "happened": "",
            "good_copy": "",
            "skipped": "",
            "test": test,
        }

    def fault(self, fault: str, made_by: str) -> None:
        self.values.update(fault=fault, made_by=made_by)

    def happened(self, what: str, good_copy: str = "") -> None:
        before = self.values["happened"]
        self.values["happened"] = f"{before}; {what}" if before else what
        self.values["good_copy"] = good_copy or self.values["good_copy"]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    report = yield
    row = getattr(item, "fault_row", None)
    if row is not None and report.when == "call" and not report.failed:
        if report.skipped:
            row.values["skipped"] = report.longrepr[2]
        rows_of_this_run.append(row.values)
    return report


@pytest.fixture
def row(request: pytest.FixtureRequest) -> Row:
    interface = "command" if "command" in request.node.path.name else "Python"
    made = Row(interface, request.node.function.__name__)
    request.node.fault_row = made
    return made


@pytest.fixture
def in_own_mounts(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a command where `mount` is mounted at the directory that it returns; no other process sees that mount."""

    def run(mount: str, command: list[str | Path], **options: Any) -> subprocess.CompletedProcess[str]:
        drive = tmp_path / "drive"
        drive.mkdir(exist_ok=True)
        if os.geteuid() != 0:
            pytest.skip("mounting needs root")
        if shutil.which("unshare") is None:
            pytest.skip("no unshare(1)")
        made = mount.format(drive=drive)
        script = f'trap "exit 77" EXIT; set -e; exec 3>&1 >&2; {made}; exec >&3 3>&-; trap - EXIT; exec "$@"'
        whole = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", *map(str, command)]
        done = subprocess.run(whole, capture_output=True, text=True, check=False, timeout=300, **options)
        if done.returncode == 77:
            pytest.skip(f"cannot mount here: {done.stderr.strip()}")
        return done

    return run


@pytest.fixture
def python(tmp_path: Path) -> Callable[[str], list[str | Path]]:
    """The command that runs a script which begins with an engine's imports and `drive`, where it may swap."""

    def command(body: str) -> list[str | Path]:
        script = tmp_path / "script.py"
        head = f"import json, os, sys\nimport numpy, penstock\ndrive = {str(tmp_path / 'drive')!r}\n"
        script.write_text(head + body)
        return [sys.executable, script]

    return command


@pytest.fixture
def memory_limit() -> Iterator[Callable[[int], MemoryGroup]]:
    """Makes control groups with so many bytes of memory, which go with the test."""
    with contextlib.ExitStack() as groups:

        def limit(bytes_max: int) -> MemoryGroup:
            try:
                return groups.enter_context(memory_group(bytes_max))
            except OSError as error:
                pytest.skip(f"no control group with a limit on memory can be made here: {error}")

        yield limit


@pytest.fixture(scope="session")
def jumping_clock(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment in which the calendar jumps by years at every look."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler, to make a clock that jumps")
    library = tmp_path_factory.mktemp("clock") / "jumping_clock.so"
    source = Path(__file__).parent / "jumping_clock.c"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source], check=True, capture_output=True)
    environment = {"LD_PRELOAD": str(library)}
    look = "import time; print(len({time.time() // 86400 for _ in range(6)}))"
    seen = subprocess.run(
        [sys.executable, "-c", look], env=os.environ | environment, check=True, capture_output=True, text=True
    )
    assert int(seen.stdout) > 3, "it jumps"
    return environment


@pytest.fixture(scope="session")
def cpp_rows(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """What the C++ tests of faults saw: of the run before this one, or of one that is made now."""
    given = os.environ.get("PENSTOCK_FAULT_ROWS", "")
    if given and any(Path(given).glob("*.json")):
        yield Path(given)
        return
    build = Path(os.environ.get("PENSTOCK_BUILD", ROOT / "build/release"))
    rows = tmp_path_factory.mktemp("rows")
    for name, tests in PROGRAMS:
        program = build / name
        if not program.exists():
            pytest.skip(f"{program} is not built")
        done = subprocess.run(
            [program, f"--gtest_filter={tests}"],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PENSTOCK_FAULT_ROWS": str(rows)},
        )
        assert done.returncode == 0, done.stdout[-4000:]
    yield rows


def said(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """The JSON that a script printed as its last line."""
    assert done.returncode == 0, done.stdout + done.stderr
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Any]:
    import penstock
    from engine_contents import filled  # needs numpy

    config = {"penstock": {"ram_bytes": 0, "max_pinned_bytes": "8MiB"}}
    with penstock.Engine(config, path=tmp_path / "swap") as opened:
        opened.put("t", filled(2, 1))
        yield opened

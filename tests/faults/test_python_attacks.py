"""Attacks on the engine as a program in Python has it: little memory, a calendar that jumps, quotas, other users."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import Row, said
from memory_group import MemoryGroup
from seccomp_filter import refusing, unavailable
from test_python import ORDINARY_USER, PREAMBLE

pytest.importorskip("numpy")

Python = Callable[[str], list[str | Path]]


def outcome_of(python: Python, body: str, **options: Any) -> dict[str, Any]:
    command = [str(part) for part in python(PREAMBLE + body)]
    return said(subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, **options))


# Puts 400 MiB and reads them back, in a store that outlives the process and in one that does not.
BOTH_STORES = """
good = []
for mode in ("scratch", "durable"):
    settings = {"penstock": {"mode": mode}}
    with penstock.Engine(settings, path=f"{drive}/{mode}") as engine:
        for value in range(50):
            engine.put(f"t{value}", filled(8, value))
        engine.prefetch([f"t{value}" for value in range(50)])
        good += [bool((engine.get(f"t{value}").array == value).all()) for value in range(50)]
        engine.flush()
with penstock.Engine(settings, path=f"{drive}/durable") as engine:
    target = numpy.zeros(8 << 20, dtype="uint8")
    for value in range(50):
        engine.get_async(f"t{value}", out=target).result(timeout=100)
        good.append(bool((target == value).all()))
print(json.dumps({"good": all(good) and len(good) == 150}))
"""


def test_a_limit_on_memory(row: Row, python: Python, memory_limit: Callable[[int], MemoryGroup]) -> None:
    row.fault("memory limit of a container", "control group of 192 MiB, puts of 400 MiB with the default budgets")
    group = memory_limit(192 << 20)
    assert outcome_of(python, BOTH_STORES, preexec_fn=group.join)["good"]
    assert group.killed() == 0
    row.happened("all succeeds", "yes")


def test_the_default_budget_within_a_limit(python: Python, memory_limit: Callable[[int], MemoryGroup]) -> None:
    """DeepSpeed may pin 4 GB by this file, and a quarter of what the group has is 128 MiB."""
    group = memory_limit(512 << 20)
    body = """
on_drive = {"device": "nvme", "nvme_path": drive, "buffer_count": 20, "buffer_size": 100_000_000}
settings = {"zero_optimization": {"stage": 3, "offload_param": on_drive}, "bf16": {"enabled": True}}
engine = penstock.Engine(settings)
for value in range(80):
    engine.put(f"t{value}", filled(8, value))
print(json.dumps({"ram": engine.stats()["resident_bytes_max"]}))
"""
    assert outcome_of(python, body, preexec_fn=group.join)["ram"] <= 512 << 20
    assert group.killed() == 0


def test_a_calendar_that_jumps(row: Row, python: Python, jumping_clock: dict[str, str]) -> None:
    row.fault("calendar set forward and back", "CLOCK_REALTIME jumps by years at every look, by LD_PRELOAD")
    assert outcome_of(python, BOTH_STORES, env=os.environ | jumping_clock)["good"]
    row.happened("all succeeds", "yes")


def test_a_quota(row: Row, python: Python) -> None:
    row.fault("quota exceeded", "fallocate fails with EDQUOT, by seccomp")
    if unavailable():
        pytest.skip(unavailable())
    body = """
config["penstock"]["mode"] = "durable"
try:
    engine = penstock.Engine(config, path=drive)
    result = outcome_of("put", lambda: engine.put("t", filled(4, 2)))
    print(json.dumps({**result, "good": bool((engine.get("t").array == 1).all())}))
    engine.close()
except penstock.Error as error:
    print(json.dumps({"kind": "opening", "good": False, "text": str(error)}))
"""
    before = 'config["penstock"]["mode"] = "durable"\nwith penstock.Engine(config, path=drive) as engine:\n'
    after = (
        before + '    print(json.dumps({"good": bool((engine.get("t").array == 1).all()), "names": engine.names()}))\n'
    )
    assert outcome_of(python, before + '    engine.put("t", filled(4, 1))\nprint("{}")\n') == {}
    result = outcome_of(python, body, preexec_fn=refusing("fallocate", errno.EDQUOT))
    assert result["kind"] == "StorageError EDQUOT" and result["tensor"] == "t" and result["good"], result
    assert outcome_of(python, after) == {"good": True, "names": ["t"]}
    row.happened("put: StorageError, errno EDQUOT", "yes")


AS_ORDINARY_USER = f"""
import penstock.array_view  # what an ordinary user might not reach
os.chdir(drive)  # nor this
os.setgroups([])
os.setgid({ORDINARY_USER})
os.setuid({ORDINARY_USER})
"""


def for_ordinary_user(tmp_path: Path) -> Path:
    if os.geteuid() != 0:
        pytest.skip("needs root, to have two users")
    drive = tmp_path / "drive"
    (drive / "mine").mkdir(parents=True)
    os.chown(drive / "mine", ORDINARY_USER, ORDINARY_USER)
    return drive


def test_an_ordinary_user(row: Row, python: Python, tmp_path: Path) -> None:
    row.fault("ordinary user", "root becomes user 65534, with a directory of its own")
    drive = for_ordinary_user(tmp_path)
    assert outcome_of(python, AS_ORDINARY_USER + 'drive = "mine"\n' + BOTH_STORES)["good"]
    for path in (drive / "mine/durable").iterdir():
        assert path.stat().st_uid == ORDINARY_USER and path.stat().st_mode & 0o777 == 0o600, path
    row.happened("all succeeds; its files are its own", "yes")


def test_roots_directory_as_an_ordinary_user(row: Row, python: Python, tmp_path: Path) -> None:
    row.fault("another user's directory", "of root's, mode 0700 and 0755, and a store of root's in it")
    drive = for_ordinary_user(tmp_path)
    (drive / "closed").mkdir(0o700)
    (drive / "open").mkdir(0o755)
    durable = 'config["penstock"]["mode"] = "durable"\n'
    put = (
        durable + 'with penstock.Engine(config, path=f"{drive}/open/store") as engine: engine.put("t", filled(2, 1))\n'
    )
    assert outcome_of(python, put + 'print("{}")\n') == {}
    (drive / "open/store").chmod(0o755)
    body = """
places = ("closed", "closed/below", "open", "open/below")
results = [outcome_of(place, lambda: penstock.Engine(config, path=place)) for place in places]
config["penstock"]["mode"] = "durable"
results += [outcome_of(place, lambda: penstock.Engine(config, path=place)) for place in (*places[1::2], "open/store")]
print(json.dumps(results))
"""
    results = outcome_of(python, AS_ORDINARY_USER + body)
    for result in results:
        assert isinstance(result, dict)
        assert result["kind"] == "StorageError EACCES", result
        assert result["what"] in result["file"] and "Permission denied" in result["text"], result
    get = durable + 'with penstock.Engine(config, path=f"{drive}/open/store") as engine:\n'
    get += '    print(json.dumps({"good": bool((engine.get("t").array == 1).all())}))\n'
    assert outcome_of(python, get)["good"]
    row.happened("opening: StorageError, errno EACCES", "yes")

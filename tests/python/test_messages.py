"""Warnings go to `logging` where it is set up, else to stderr; each once, wherever it came from."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from penstock import _core, messages

ROOT = Path(__file__).resolve().parents[2]

# An engine whose close() has one warning: buffers that its pinned budget cannot hold.
OVERFLOW = """
import logging, os, sys, numpy, penstock
def overflowing():
    engine = penstock.Engine({"penstock": {"max_pinned_bytes": "4MiB", "ram_bytes": 0}}, path=sys.argv[1])
    content = numpy.ones(1 << 20, dtype="uint8")
    for number in range(8):
        engine.put(str(number), content)
    held = [engine.get(str(number)) for number in range(8)]
    for lease in held:
        lease.release()
    return engine
"""
KEPT = """
import resource
def kept(engine, name):
    "A warning of the I/O thread's, or of the call's: no file may grow."
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    engine.put(name, numpy.ones(1 << 20, dtype="uint8"))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
def spilling():
    rules = [{"match": "*", "place": "class"}]
    return penstock.Engine({"penstock": {"ram_bytes": "64MiB", "tensors": rules}}, path=sys.argv[1])
"""


def run(directory: Path, script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    import os

    done = subprocess.run(
        [sys.executable, "-c", OVERFLOW + KEPT + script, str(directory)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    return done


def test_without_a_handler_a_warning_is_a_line_on_stderr(tmp_path: Path) -> None:
    done = run(tmp_path, "overflowing().close()")
    lines = done.stderr.splitlines()
    assert len(lines) == 1 and lines[0].startswith("penstock: warning: [overflow] buffers of "), done.stderr


def test_with_a_handler_it_is_a_record(tmp_path: Path) -> None:
    script = """
logging.basicConfig(format="%(name)s|%(levelname)s|%(penstock_code)s|%(message)s", stream=sys.stdout)
overflowing().close()
"""
    done = run(tmp_path, script)
    assert done.stderr == ""
    assert re.fullmatch(r"penstock\|WARNING\|overflow\|\[overflow\] buffers of .*\n", done.stdout), done.stdout


def test_a_logger_that_passes_nothing_on_has_no_handler(tmp_path: Path) -> None:
    script = """
logging.basicConfig(stream=sys.stdout)
logging.getLogger("penstock").propagate = False
overflowing().close()
"""
    done = run(tmp_path, script)
    assert "[overflow]" in done.stderr and done.stdout == ""


def test_a_warning_is_delivered_by_the_next_call(tmp_path: Path) -> None:
    script = """
engine = spilling()
kept(engine, "a")
engine.state("a"), engine.flush()
print("flushed", file=sys.stderr, flush=True)
kept(engine, "b")
engine.get("a").release()
print("got", file=sys.stderr, flush=True)
"""
    lines = run(tmp_path, script).stderr.splitlines()
    found = [re.sub(r".*\[kept-in-ram\] .*'(.)'.*", r"\1", line) for line in lines]
    assert found == ["a", "flushed", "b", "got"], lines


def test_two_engines_and_their_threads_lose_nothing(tmp_path: Path) -> None:
    script = """
import threading
resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
engines = [spilling(), spilling()]
content = numpy.ones(1 << 16, dtype="uint8")
def put(engine, at):
    for number in range(25):
        engine.put(f"{at}.{number}", content)
threads = [threading.Thread(target=put, args=(engines[at % 2], at)) for at in range(4)]
[thread.start() for thread in threads], [thread.join() for thread in threads]
[engine.close() for engine in engines]
"""
    names = re.findall(r"\[kept-in-ram\] .*?'([0-9.]+)'", run(tmp_path, script).stderr)
    assert len(names) == 100 and len(set(names)) == 100


def test_an_engine_that_is_left_open_warns_at_exit(tmp_path: Path) -> None:
    done = run(tmp_path, "engine = spilling()\nkept(engine, 'a')\n")
    assert done.stderr.count("[kept-in-ram]") == 1, done.stderr
    done = run(tmp_path, "engine = overflowing()\n")
    assert done.stderr.count("[overflow]") == 1, done.stderr
    done = run(tmp_path, "import builtins\nbuiltins.engine = overflowing()\nlogging.basicConfig()\n")
    assert done.stderr.count("[overflow]") <= 1, "an engine that outlives the interpreter is not closed"


def test_a_handler_that_raises_stops_nothing(tmp_path: Path) -> None:
    script = """
class Raising(logging.Handler):
    def emit(self, record): raise RuntimeError("no room")
logging.getLogger().addHandler(Raising())
engine = spilling()
kept(engine, "a")
engine.flush()
engine.get("a").release()
engine.close()
print("closed")
"""
    done = run(tmp_path, script)
    assert done.stdout == "closed\n"
    assert done.stderr.count("[kept-in-ram]") == 1 and "RuntimeError('no room')" in done.stderr


def test_ctrl_c_in_a_handler_is_the_callers(tmp_path: Path) -> None:
    script = """
class Interrupted(logging.Handler):
    def emit(self, record): raise KeyboardInterrupt
logging.getLogger().addHandler(Interrupted())
engine = spilling()
kept(engine, "a")
try:
    engine.get("a")
    print("got")
except KeyboardInterrupt:
    print("interrupted")
engine.get("a").release()
"""
    done = run(tmp_path, script)
    assert done.stdout == "interrupted\n" and done.stderr.count("[kept-in-ram]") == 1, done.stderr


def test_a_handler_may_use_the_engine(tmp_path: Path) -> None:
    script = """
class Using(logging.Handler):
    def emit(self, record):
        engine.put("seen", numpy.ones(3, dtype="uint8"))
        print(engine.stats()["gets"], record.getMessage()[:13])
logging.getLogger().addHandler(Using())
engine = spilling()
kept(engine, "a")
engine.flush()
print(engine.names())
"""
    assert run(tmp_path, script).stdout == "0 [kept-in-ram]\n['a', 'seen']\n"


def test_a_forked_child_says_nothing_of_its_parents(tmp_path: Path) -> None:
    script = """
engine = spilling()
kept(engine, "ours")
child = os.fork()
if child == 0:
    mine = spilling()
    kept(mine, "mine")
    mine.close()
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
engine.close()
"""
    names = re.findall(r"\[kept-in-ram\] .*?'([a-z]+)'", run(tmp_path, script).stderr)
    assert names == ["mine", "ours"]


def test_a_log_has_the_warnings_too(tmp_path: Path) -> None:
    log = tmp_path / "log.%r"
    done = run(tmp_path, "overflowing().close()", PENSTOCK_LOG_FILE=str(log), PENSTOCK_LOG_LEVEL="debug", RANK="2")
    assert done.stderr.count("penstock: warning: [overflow] ") == 1
    lines = (tmp_path / "log.2").read_text().splitlines()
    assert sum(" warning rank=2 pid=" in line and "[overflow]" in line for line in lines) == 1
    assert sum(" place tensor='" in line for line in lines) == 8
    assert any(" fallback tensor='" in line for line in lines)


def test_a_key_of_ours_that_nothing_reads_is_warned_of(tmp_path: Path) -> None:
    script = """
document = {"zero_optimization": {"stage": 3}, "max_pinned_bytes": "4MiB", "penstock": {"ram_bytes": 0}}
penstock.Engine(document, path=sys.argv[1]).close()
"""
    [line] = run(tmp_path, script).stderr.splitlines()
    assert line.startswith("penstock: warning: [unread-key] max_pinned_bytes is a key of the penstock block"), line


def test_the_table_has_every_code() -> None:
    text = (ROOT / "docs" / "TUNING.md").read_text(encoding="utf-8")
    table = text.partition("\n| code |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| `([a-z-]+)` \|", table, flags=re.M)
    assert sorted(rows) == sorted({*_core.warning_codes(), *messages.CODES})
    used = set()
    for source in (ROOT / "bindings" / "python" / "penstock").rglob("*.py"):
        used.update(re.findall(r'messages\.warn\(\s*"([a-z-]+)"', source.read_text(encoding="utf-8")))
    assert used == set(messages.CODES)

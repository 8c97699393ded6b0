"""Under plain install() a last write that fails shows in the exit status, as under the runner."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import pytest
from conftest import Runner

# The write behind the last commit finds a file that may not grow; nothing is called after it that could raise.
FAILING_LAST_WRITE = """
import atexit, json, resource, sys
atexit.register(lambda: print("REGISTERED BEFORE", flush=True))
import penstock.deepspeed
penstock.deepspeed.install()
from penstock.deepspeed.session import open_session
engine = open_session({"penstock": {"ram_bytes": 0, "max_pinned_bytes": "16MiB"}}).engine
tensor = engine.declare(engine.open_namespace("weights", [sys.argv[1]]), "last", "f32", [1 << 20], "param")
engine.plan()
lease = engine.allocate(tensor)
engine.commit(lease)
del lease
engine.get(tensor).result().release()
lease = engine.allocate(tensor)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
engine.commit(lease)
del lease
atexit.register(lambda: print("REGISTERED AFTER", flush=True))
print("WITHOUT NEWLINE", end="")
exec(json.loads(sys.argv[2]))
"""


@pytest.mark.parametrize(
    ("ending", "status"),
    [
        pytest.param("pass", 1, id="end"),
        pytest.param("sys.exit(0)", 1, id="exit-0", marks=pytest.mark.deep),
        pytest.param("sys.exit(3)", 3, id="exit-3", marks=pytest.mark.deep),
        pytest.param("raise ValueError('of the script')", 1, id="exception", marks=pytest.mark.deep),
    ],
)
def test_a_last_write_that_fails(runner: Runner, swap: Path, tmp_path: Path, ending: str, status: int) -> None:
    script = tmp_path / "script.py"
    script.write_text(FAILING_LAST_WRITE)
    run = runner.script(script, [str(swap), json.dumps(ending)], penstock=False)
    assert run.returncode == status, run.output
    sentences = [line for line in run.output.split("\n") if "penstock: cannot write tensor 'last'" in line]
    assert len(sentences) == 1 and "File too large" in sentences[0], run.output
    for printed in ("WITHOUT NEWLINE", "REGISTERED BEFORE", "REGISTERED AFTER"):
        assert run.output.count(printed) == 1, run.output
    assert "Exception ignored" not in run.output
    assert ("ValueError: of the script" in run.output) == ("ValueError" in ending)


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.deep), "forkserver"])
def test_a_last_write_that_fails_in_a_child(runner: Runner, swap: Path, tmp_path: Path, method: str) -> None:
    """multiprocessing ends some of its processes without what atexit has registered."""
    script = tmp_path / "script.py"
    start = f"""
if __name__ == "__main__":
    import multiprocessing, sys
    process = multiprocessing.get_context({method!r}).Process(target=child)
    process.start()
    process.join()
    print("STATUS", process.exitcode)
"""
    script.write_text("def child():\n" + textwrap.indent(FAILING_LAST_WRITE, "    ") + start)
    run = runner.script(script, [str(swap), json.dumps("pass")], penstock=False)
    assert run.returncode == 0 and "STATUS 1" in run.output, run.output
    assert run.output.count("penstock: cannot write tensor 'last'") == 1, run.output


LEFT_TO_THREADS = """
import atexit, os, pickle, sys, threading, time
import torch
from torch import distributed

class State: pass

def train():
    assert isinstance(pickle.loads(pickle.dumps(State())), State)
    for step in range(4):
        time.sleep(0.2)
        distributed.barrier()
        print("STEP", step, flush=True)

def end():
    distributed.barrier()
    print("END", flush=True)

atexit.register(end)
distributed.init_process_group("gloo")
threading.Thread(target=train).start()
print("FILE", os.path.isabs(__file__), os.path.samefile(__file__, sys.argv[0]), flush=True)
"""


@pytest.mark.parametrize("script", [["script.py"], ["-m", "script"]], ids=["script", "module"])
@pytest.mark.parametrize("penstock", [True, False])
def test_threads_that_still_train(runner: Runner, tmp_path: Path, penstock: bool, script: list[str]) -> None:
    """The runner ends as plain Python does: the last line of the script need not be the end of its work."""
    (tmp_path / "script.py").write_text(LEFT_TO_THREADS)
    run = runner.script(Path(script[0]), script[1:], penstock)
    assert run.returncode == 0, run.output
    assert run.output.split("\n")[:6] == ["FILE True True", "STEP 0", "STEP 1", "STEP 2", "STEP 3", "END"], run.output

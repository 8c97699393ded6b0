"""Processes that a script starts through multiprocessing swap through penstock as the script itself does."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import Runner, free_port

SEEN = """
import multiprocessing, os, sys

def start(target, *arguments):
    process = multiprocessing.get_context("spawn").Process(target=globals()[target], args=arguments)
    process.start()
    process.join()
    assert process.exitcode == 0

def more():
    seen(0)
    start("seen", 1)

def seen(rank=None):
    rank = os.environ["RANK"] if rank is None else rank
    from deepspeed.runtime.swap_tensor import partitioned_param_swapper
    from deepspeed.runtime.zero import partition_parameters, stage3
    from penstock.deepspeed import is_installed

    swappers = {
        partition_parameters.AsyncPartitionedParameterSwapper.__module__,
        partitioned_param_swapper.AsyncPartitionedParameterSwapper.__module__,
        stage3.PartitionedOptimizerSwapper.__module__,
        stage3.PipelinedOptimizerSwapper.__module__,
    }
    # One write a line: ranks share the pipe.
    os.write(1, f"SEEN {rank} {is_installed()} {sorted(name.rpartition('.')[2] for name in swappers)}\\n".encode())
"""
OURS = "True ['optimizer_swapper', 'parameter_swapper']"
STOCK = "False ['partitioned_optimizer_swapper', 'partitioned_param_swapper', 'pipelined_optimizer_swapper']"


def run_script(runner: Runner, body: str, through: bool) -> list[str]:
    script = runner.directory / "script.py"
    script.write_text(f"{SEEN}\nif __name__ == '__main__':\n    {body}\n")
    run = runner.script(script, [], through)
    assert run.returncode == 0, run.output
    return sorted(line for line in run.output.split("\n") if line.startswith("SEEN"))


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_started_by_torch(runner: Runner, method: str) -> None:
    """The parent may never have imported DeepSpeed itself."""
    start = f"import torch.multiprocessing as mp; mp.start_processes(seen, nprocs=1, start_method={method!r})"
    assert run_script(runner, start, True) == [f"SEEN 0 {OURS}"]


def test_started_by_a_notebook(runner: Runner) -> None:
    """accelerate forks its processes."""
    pytest.importorskip("accelerate")
    install = "import accelerate, penstock.deepspeed; penstock.deepspeed.install()"
    launch = f"accelerate.notebook_launcher(seen, num_processes=2, use_port={free_port()!r})"
    assert run_script(runner, f"{install}; {launch}", False) == [f"SEEN 0 {OURS}", f"SEEN 1 {OURS}"]


@pytest.mark.deep
def test_started_after_install(runner: Runner) -> None:
    """And what such a process starts in turn."""
    start = "import penstock.deepspeed; penstock.deepspeed.install(); start('more')"
    assert run_script(runner, start, False) == [f"SEEN 0 {OURS}", f"SEEN 1 {OURS}"]


@pytest.mark.deep
def test_started_after_uninstall(runner: Runner) -> None:
    start = "import penstock.deepspeed as p; p.install(); p.uninstall(); start('seen')"
    assert run_script(runner, start, False) == [f"SEEN 0 {STOCK}"]


INSTALLED_FIRST = """
import penstock.deepspeed
penstock.deepspeed.install()
import multiprocessing, os

def child():
    os.write(1, f"CHILD {penstock.deepspeed.is_installed()}\\n".encode())

if __name__ == "__main__":
    for method in "spawn", "forkserver":
        process = multiprocessing.get_context(method).Process(target=child)
        process.start()
        process.join(120)
        process.kill()
"""


@pytest.mark.parametrize("through", [False, pytest.param(True, marks=pytest.mark.deep)])
def test_a_script_that_installs_before_all_else(runner: Runner, through: bool) -> None:
    """Its children run the same two lines while the import hook waits for DeepSpeed, as the runner's script does."""
    script = runner.directory / "script.py"
    script.write_text(INSTALLED_FIRST)
    run = runner.script(script, [], through)
    assert run.returncode == 0 and run.output.count("CHILD True") == 2, run.output


def test_a_child_without_the_parents_paths(runner: Runner, tmp_path: Path) -> None:
    """What the child begins with is unpickled before it knows where the parent found its packages."""
    import pickle
    import subprocess
    import sys

    from penstock.deepspeed import child_processes

    pickled = tmp_path / "beginning"
    pickled.write_bytes(pickle.dumps(child_processes._Beginning()))
    begin = (
        "import pickle, sys; pickle.load(open(sys.argv[1], 'rb')); "
        "assert type(sys.meta_path[0]).__module__ == 'penstock.deepspeed.import_hook'; "
        "assert 'deepspeed' not in sys.modules"
    )
    subprocess.run([sys.executable, "-I", "-c", begin, str(pickled)], check=True)

"""bench/large.py: what a large model needs, before anything is made."""

import os
import subprocess
import sys

import pytest
from cli_support import DATA

SCRIPT = DATA.parent / "large.py"


@pytest.fixture
def large(penstock):
    def run(*arguments):
        environment = {**os.environ, "PENSTOCK_BINARY": str(penstock.binary)}
        command = [sys.executable, SCRIPT, *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment, check=False)

    return run


def test_it_says_what_is_needed(large):
    done = large("qwen3-1.7b", "--plan", "--states", "8bit")
    first = done.stdout.splitlines()[0]
    assert done.returncode == (0 if first == "fits" else 3), done.stdout + done.stderr
    for line in ("On NVMe", "A step", "reads 16.7 GiB, writes 12.9 GiB", "of a process at its peak"):
        assert line in done.stdout, done.stdout + done.stderr


@pytest.mark.deep
def test_an_unknown_form_of_states_is_one_sentence(large):
    done = large("qwen3-1.7b", "--plan", "--states", "9bit")
    assert done.returncode != 0
    assert "did you mean" in done.stderr and "Traceback" not in done.stderr

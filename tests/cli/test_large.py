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
    for line in (
        "parameters    3.4 GB on the drive",
        "master        6.9 GB on the drive",
        "moments       3.5 GB on the drive",
        "gradients     3.4 GB in RAM",
        "a step reads 17.9 GB and writes 13.8 GB",
        "GB are free",
    ):
        assert line in done.stdout, done.stdout + done.stderr
    assert done.returncode == (1 if "does not fit: " in done.stderr else 0)


def test_an_unknown_form_of_states_is_one_sentence(large):
    done = large("qwen3-1.7b", "--plan", "--states", "9bit")
    assert done.returncode != 0
    assert "did you mean" in done.stderr and "Traceback" not in done.stderr

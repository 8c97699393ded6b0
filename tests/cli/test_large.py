"""Large models: what bench/large.py says that one needs, before anything is made; and many shards."""

import json
import os
import resource
import subprocess
import sys

import pytest
from cli_support import DATA, safetensors_bytes

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
    for line in ("On NVMe", "A step", "reads 16.1 GiB, writes 12.9 GiB", "of a process at its peak"):
        assert line in done.stdout, done.stdout + done.stderr


@pytest.mark.deep
def test_an_unknown_form_of_states_is_one_sentence(large):
    done = large("qwen3-1.7b", "--plan", "--states", "9bit")
    assert done.returncode != 0
    assert "did you mean" in done.stderr and "Traceback" not in done.stderr


def test_more_shards_than_a_shell_lets_one_open(penstock, tmp_path):
    """Two descriptors a shard; `ulimit -n` is most often far below what the system allows."""
    names = [f"model-{number:05}-of-00100.safetensors" for number in range(1, 101)]
    source, store, out = (tmp_path / name for name in ("source", "store", "out"))
    source.mkdir()
    for number, name in enumerate(names):
        (source / name).write_bytes(safetensors_bytes({f"t{number}": ("U8", [16], 16)}))
    index = {"weight_map": {f"t{number}": name for number, name in enumerate(names)}}
    (source / "model.safetensors.index.json").write_text(json.dumps(index))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
    try:
        done = [penstock("import", source, store), penstock("export", store, out, "--max-shard", "16")]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert [step.returncode for step in done] == [0, 0], done
    assert len(list(out.iterdir())) == 101

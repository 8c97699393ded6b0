"""The command under test: $PENSTOCK_BINARY, else build/release/penstock of this checkout."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from cli_support import ROOT


class Command:
    """Runs the command without the caller's PENSTOCK_* settings and DS_ACCELERATOR."""

    def __init__(self, binary):
        self.binary = binary

    def __call__(self, *arguments, env=None, cwd=None):
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("PENSTOCK_", "DS_ACCELERATOR"))}
        environment.update(env or {})
        return subprocess.run(
            [self.binary, *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=120,
            env=environment,
            cwd=cwd,
            check=False,
        )

    def json(self, *arguments, code=0, **options):
        """The one JSON document that `--json` prints."""
        done = self(*arguments, "--json", **options)
        assert done.returncode == code, done.stderr
        return json.loads(done.stdout)


@pytest.fixture(scope="session")
def penstock():
    binary = os.environ.get("PENSTOCK_BINARY", str(ROOT / "build" / "release" / "penstock"))
    if not Path(binary).is_file():
        pytest.fail(f"{binary} is not there: build it (cmake --build --preset release) or set PENSTOCK_BINARY")
    return Command(binary)


@pytest.fixture
def write(tmp_path):
    """Writes a file below tmp_path: text, bytes, or what json.dumps makes of anything else."""

    def write_file(name, content):
        path = tmp_path / name
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    return write_file


@pytest.fixture
def run(tmp_path):
    """A save directory of stage 3 on two ranks."""
    from checkpoint_files import write_checkpoint  # needs torch

    write_checkpoint(tmp_path / "run")
    return tmp_path / "run"


@pytest.fixture
def checkpoint(tmp_path):
    safetensors_torch = pytest.importorskip("safetensors.torch")

    def save(tensors, name="model.safetensors", metadata=None):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True, parents=True)
        safetensors_torch.save_file(tensors, path, metadata=metadata)
        return path

    return save


@pytest.fixture
def store(penstock, checkpoint, tmp_path):
    """A store that holds model()."""
    from store_files import model  # needs torch

    path = tmp_path / "store"
    done = penstock("import", checkpoint(model()), path)
    assert done.returncode == 0, done.stderr
    return path

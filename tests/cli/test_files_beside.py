"""What lies beside the files of a checkpoint: a trainer's, and others'."""

import pytest
from cli_support import safetensors_bytes

torch = pytest.importorskip("torch")
from checkpoint_files import WHOLE, flip, records_of


@pytest.mark.parametrize("name", ["scheduler.pt", "rng_state_0.pth", "training_args.bin", "pytorch_model.bin"])
def test_torchs_files_full_of_zeros(penstock, run, name):
    """As a power cut leaves a file whose data had not been written."""
    torch.save({"step": torch.arange(100)}, run / name)
    assert penstock.json("verify", run)["good"]
    (run / name).write_bytes(bytes((run / name).stat().st_size))
    (bad,) = penstock.json("verify", run, code=1)["bad"]
    assert bad["file"] == name


def test_what_a_trainer_puts_beside(penstock, run):
    """Archives are checked as the others; what is none carries no checksums, and is no damage."""
    torch.save({"cuda": torch.arange(100)}, run / "rng_state_0.pth")
    (run / "vocabulary.bin").write_bytes(b"words")
    (run / "model.safetensors").write_bytes(safetensors_bytes(WHOLE))
    report = penstock.json("verify", run)
    assert report["files"] == 7 and report["without_checksums"] == ["model.safetensors", "vocabulary.bin"]
    flip(run / "rng_state_0.pth", max(records_of(run / "rng_state_0.pth"), key=lambda r: r[2])[1])
    (run / "model.safetensors").write_bytes(safetensors_bytes(WHOLE)[:-1])
    bad = {part["file"]: part["record"] for part in penstock.json("verify", run, code=1)["bad"]}
    assert bad == {"model.safetensors": None, "rng_state_0.pth": "data/0"}
    assert penstock("inspect", run).returncode == 0, "training can be resumed without them"

"""What lies beside the files of a checkpoint: a trainer's, and others'."""

import json

import pytest
from cli_support import assert_one_sentence, safetensors_bytes

torch = pytest.importorskip("torch")
from checkpoint_files import WHOLE, flip, records_of, write_checkpoint

TORCHS = ("scheduler.pt", "rng_state_0.pth", "training_args.bin", "pytorch_model.bin", "adapter_model.bin")
ACCELERATES = ("optimizer.bin", "scheduler.bin", "sampler_1.bin", "model-00001-of-00001.bin")


@pytest.mark.parametrize("name", [*TORCHS, *ACCELERATES])
def test_torchs_files_that_begin_with_zeros(penstock, run, name):
    """As a power cut leaves a file whose data had not been written."""
    torch.save({"step": torch.arange(100)}, run / name)
    assert penstock.json("verify", run)["bad"] == []
    whole = (run / name).read_bytes()
    for zeros in (2, len(whole)):
        (run / name).write_bytes(bytes(zeros) + whole[zeros:])
        (bad,) = penstock.json("verify", run, code=1)["bad"]
        assert bad["file"] == name


def test_any_file_full_of_zeros(penstock, run):
    for content, code in ((b"\0\0words", 0), (bytes(10_000), 1)):
        (run / "vocabulary.bin").write_bytes(content)
        assert len(penstock.json("verify", run, code=code)["bad"]) == code


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


@pytest.mark.parametrize("stem, ending", [("model", "safetensors"), ("pytorch_model", "bin")])
def test_a_shard_that_is_not_there(penstock, run, stem, ending):
    """Only the index knows of it. Training can be resumed without weights beside."""
    shards = [f"{stem}-{number:05}-of-00002.{ending}" for number in (1, 2)]
    for number, shard in enumerate(shards):
        name = f"layers.{number}.weight"
        if ending == "bin":
            torch.save({name: torch.ones(4)}, run / shard)
        else:
            (run / shard).write_bytes(safetensors_bytes({name: ("F32", [3, 4], 48)}))
    index = {"weight_map": {f"layers.{number}.weight": shard for number, shard in enumerate(shards)}}
    (run / f"{stem}.{ending}.index.json").write_text(json.dumps(index))
    assert penstock.json("verify", run)["good"]
    (run / shards[1]).unlink()
    report = penstock.json("verify", run, code=1)
    assert report["missing"] == [shards[1]] and not report["good"] and report["bad"] == []
    assert_one_sentence(penstock("verify", run), "1 are missing")
    assert penstock("inspect", run).returncode == 0


def test_an_index_that_does_not_hold(penstock, run):
    (run / "model-00001-of-00001.safetensors").write_bytes(safetensors_bytes({"a": ("F32", [3, 4], 48)}))
    index = run / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"b": "model-00001-of-00001.safetensors"}}))
    (bad,) = penstock.json("verify", run, code=1)["bad"]
    assert bad["file"] == index.name and "says that b is in" in bad["problem"]
    index.write_text("{")
    (bad,) = penstock.json("verify", run, code=1)["bad"]
    assert bad["file"] == index.name and "JSON" in bad["problem"]


def test_each_index_that_does_not_hold_is_named(penstock, run):
    """Whatever else is damaged, but a shard of its own: nothing can be said of the index then."""
    for stem in ("model", "other"):
        (run / f"{stem}-00001-of-00001.safetensors").write_bytes(safetensors_bytes({"a": ("F32", [3, 4], 48)}))
        weight_map = {"weight_map": {"b": f"{stem}-00001-of-00001.safetensors"}}
        (run / f"{stem}.safetensors.index.json").write_text(json.dumps(weight_map))
    damaged = next((run / "global_step500").glob("*optim_states.pt"))
    flip(damaged, max(records_of(damaged), key=lambda record: record[2])[1])
    indexes = {"model.safetensors.index.json", "other.safetensors.index.json"}
    bad = {part["file"] for part in penstock.json("verify", run, code=1)["bad"]}
    assert bad == {f"global_step500/{damaged.name}", *indexes}
    (run / "model-00001-of-00001.safetensors").write_bytes(b"cut")
    bad = [part["file"] for part in penstock.json("verify", run, code=1)["bad"]]
    shards = ["model-00001-of-00001.safetensors", "other.safetensors.index.json"]
    assert sorted(bad) == [f"global_step500/{damaged.name}", *shards]


def test_an_index_of_archives_that_does_not_hold(penstock, run):
    """Two names of one tensor are both there."""
    name = "pytorch_model-00001-of-00001.bin"
    torch.save({"a": (tensor := torch.ones(4)), "lm_head.a": tensor}, run / name)
    index = run / "pytorch_model.bin.index.json"
    index.write_text(json.dumps({"weight_map": {"a": name, "lm_head.a": name}}))
    assert penstock.json("verify", run)["good"]
    index.write_text(json.dumps({"weight_map": {"a": name, "b": name}}))
    (bad,) = penstock.json("verify", run, code=1)["bad"]
    assert bad["file"] == index.name and f"says that b is in {name}" in bad["problem"]


@pytest.mark.parametrize("folder", ["", "global_step500/"])
def test_a_shard_says_how_many_there_are(penstock, run, folder):
    names = [f"{folder}model-{number:05}-of-00003.safetensors" for number in (1, 2, 3)]
    (run / names[1]).write_bytes(safetensors_bytes({"a": ("F32", [3, 4], 48)}))
    assert penstock.json("verify", run, code=1)["missing"] == [names[0], names[2]]
    weight_map = {"weight_map": {"a": names[1].removeprefix(folder)}}
    (run / folder / "model.safetensors.index.json").write_text(json.dumps(weight_map))
    assert penstock.json("verify", run)["good"], "the index knows better"


def test_an_index_of_another_program_is_not_looked_at(penstock, run):
    (run / "docs.index.json").write_text('{"documents": ["a"]}')
    assert penstock.json("verify", run)["good"]


def test_names_that_are_no_step(penstock, tmp_path):
    """A user's copies beside a Trainer's; a save that has not begun to write."""
    for name, step in (("checkpoint-500", 500), ("checkpoint-best", 300), ("checkpoint-900-old", 900)):
        write_checkpoint(tmp_path / name, step=step)
    report = penstock.json("inspect", tmp_path)
    assert report["step"] == 500 and report["others"] == ["checkpoint-best", "checkpoint-900-old"]
    assert report["notes"] == []
    (tmp_path / "checkpoint-1000").mkdir()
    report = penstock.json("inspect", tmp_path)
    assert report["step"] == 500 and report["others"][0] == "checkpoint-1000"
    (note,) = report["notes"]
    assert note == f"{tmp_path}/checkpoint-1000 has no files of DeepSpeed and was passed over"

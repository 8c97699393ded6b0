"""`inspect` and `verify` of DeepSpeed's checkpoints: what they report, and what an attacker can do with one."""

import random
import re
import shutil

import pytest
from cli_support import ROOT, assert_one_sentence, safetensors_bytes

torch = pytest.importorskip("torch")
from checkpoint_files import (
    GROUPS,
    STEP,
    STUBS,
    WHOLE,
    flip,
    model_state,
    optimizer_state,
    records_of,
    shard,
    write_checkpoint,
    write_universal,
)

DOCS = (ROOT / "docs" / "STORES.md").read_text(encoding="utf-8")
MASTERS = sum(torch.Size(shape).numel() for group in GROUPS for shape in group.values())


@pytest.mark.parametrize("stage", [1, 2, 3])
@pytest.mark.parametrize("ranks", [1, 2, 5])
def test_a_whole_checkpoint(penstock, tmp_path, stage, ranks):
    folder = write_checkpoint(tmp_path / "run", stage=stage, ranks=ranks)
    report = penstock.json("inspect", tmp_path / "run")
    assert report["schema"] == "penstock.inspect-checkpoint/1"
    assert report["tag_directory"] == str(folder) and report["tag"] == "global_step500"
    assert (report["zero_stage"], report["step"], report["optimizer_steps"]) == (stage, STEP, [STEP])
    assert (report["data_parallel"], report["model_parallel"]) == (ranks, 1)
    assert report["deepspeed_version"] == "0.19.8"
    assert report["resume"] == {"possible": True, "world_size": ranks, "obstacles": []}
    assert report["missing"] == [] and report["leftovers"] == []
    files = {file["name"] for file in report["files"]}
    models = {shard(rank, stage=stage) for rank in range(ranks)}
    assert files == {f"global_step500/{n}" for n in models | {shard(rank, "optim") for rank in range(ranks)}}
    assert report["file_bytes"] == sum(file.stat().st_size for file in folder.iterdir())
    tensors = {tensor["name"]: tensor for tensor in report["tensors"]}
    assert tensors["layers.1.weight"] == {
        "name": "layers.1.weight",
        "dtype": "bf16",
        "shape": [7, 3],
        "role": "param",
        "bytes": 42,
    }
    roles = {name: tensor["role"] for name, tensor in tensors.items()}
    assert (roles["scale"], roles["embed.weight"], roles["lm_head.weight"]) == ("buffer", "frozen", "shared")
    assert tensors["lm_head.weight"]["same_as"] == "layers.0.weight" and len(tensors) == 8
    states = {state["name"]: state for state in report["states"]}
    assert set(states) == {"master", "exp_avg", "exp_avg_sq"}
    for state in states.values():
        assert state["dtype"] == "f32" and state["bytes"] == 4 * state["elements"]
        assert MASTERS <= state["elements"] <= MASTERS + ranks * 5, "each parameter is rounded up to whole parts"
    verified = penstock.json("verify", tmp_path / "run")
    assert verified["good"] and verified["files"] == len(files) and verified["bad"] == []
    assert verified["without_checksums"] == []


def test_the_page_names_every_key(penstock, run):
    for verb in ("inspect", "verify"):
        report = penstock.json(verb, run)
        assert f'"{report["schema"]}"' in DOCS
        inner = [key for value in report.values() if isinstance(value, list) and value for key in value[:1]]
        for keys in [report, *(value for value in inner if isinstance(value, dict)), report.get("resume", {})]:
            for key in keys:
                assert f'"{key}"' in DOCS, (verb, key)


def test_text_says_the_most_important_first(penstock, run):
    done = penstock("inspect", run)
    assert done.returncode == 0, done.stderr
    head = done.stdout.split("\n\n")[0].splitlines()
    assert len(head) <= 24
    assert [line.split()[0] for line in head] == [
        "checkpoint", "step", "ranks", "tensors", "states", "states", "states", "files", "resume",
    ]  # fmt: skip
    assert "ZeRO stage 3" in head[0] and "yes, with world size 2" in head[-1]
    assert "layers.2.weight  bf16  [40, 10]" in done.stdout


def test_every_way_to_name_it(penstock, run, tmp_path):
    """The save directory, the folder of the tag, a Trainer's folder, and the folder of those."""
    trainer = tmp_path / "output" / "checkpoint-500"
    write_checkpoint(trainer)
    write_checkpoint(tmp_path / "output" / "checkpoint-1000", step=1000)
    torch.save({"python": 1}, tmp_path / "output" / "checkpoint-1000" / "rng_state_0.pth")
    write_checkpoint(tmp_path / "accelerate", tag="pytorch_model")
    assert penstock.json("inspect", run / "global_step500")["resume"]["world_size"] == 2
    assert penstock.json("inspect", f"{run}/global_step500//")["tag"] == "global_step500"
    assert penstock.json("inspect", trainer)["step"] == 500
    assert penstock.json("inspect", tmp_path / "accelerate")["tag"] == "pytorch_model"
    newest = penstock.json("inspect", tmp_path / "output")
    assert newest["step"] == 1000 and newest["others"] == ["checkpoint-500"]
    assert "rng_state_0.pth" in {file["name"] for file in newest["files"]}
    assert penstock.json("verify", tmp_path / "output")["files"] == 5


def test_latest_and_what_it_names(penstock, run):
    write_checkpoint(run, step=600)
    for written in ("global_step500\n", "\n \tglobal_step500\t" + 400 * "\n"):
        (run / "latest").write_text(written)
        assert penstock.json("inspect", run)["step"] == 500
    (run / "latest").unlink()
    report = penstock.json("inspect", run)
    assert report["step"] == 600 and report["others"] == ["global_step500"]
    assert any('tag="global_step600"' in note for note in report["notes"])
    (run / "latest").write_text("global_step700")
    assert_one_sentence(penstock("inspect", run), "latest names global_step700", "there is global_step600")
    for tag in ("../run/global_step500", "..", "", "/etc", "a\0b"):
        (run / "latest").write_text(tag)
        done = penstock("inspect", run)
        assert done.returncode == 1
        assert_one_sentence(done, "which is no folder beside it")


@pytest.mark.parametrize("stage", [2, 3])
def test_missing_ranks(penstock, tmp_path, stage):
    folder = write_checkpoint(tmp_path / "run", stage=stage, ranks=3)
    lost = [shard(2, "optim")] + ([shard(1)] if stage == 3 else [])
    for name in lost:
        (folder / name).unlink()
    report = penstock.json("inspect", tmp_path / "run", code=1)
    assert sorted(report["missing"]) == sorted(f"global_step500/{name}" for name in lost)
    assert not report["resume"]["possible"] and report["data_parallel"] == 3
    verified = penstock.json("verify", tmp_path / "run", code=1)
    assert sorted(verified["missing"]) == sorted(report["missing"]) and not verified["good"]
    done = penstock("verify", tmp_path / "run")
    assert_one_sentence(done, str(tmp_path / "run"), "missing")
    assert f"missing  {folder / lost[0]}" in done.stdout


def test_an_older_one_is_proposed(penstock, tmp_path):
    """The job died while it saved the newest; that before is older than what is damaged, too."""
    for step in (300, 400, 500):
        folder = write_checkpoint(tmp_path / f"checkpoint-{step}", step=step)
        write_checkpoint(tmp_path / "run", step=step)
        for place in (folder, tmp_path / "run" / f"global_step{step}"):
            if step > 300:
                (place / shard(1, "optim")).unlink()
    for place, older in ((tmp_path, "checkpoint-300/global_step300"), (tmp_path / "run", "global_step300")):
        done = penstock("inspect", place)
        assert done.returncode == 1
        assert f"the newest that can be resumed is {place}/{older}\n" in done.stdout


def test_all_model_states_missing(penstock, tmp_path):
    folder = write_checkpoint(tmp_path / "run", stage=2, ranks=2)
    (folder / shard(0, stage=2)).unlink()
    report = penstock.json("inspect", tmp_path / "run", code=1)
    assert report["missing"] == ["global_step500/mp_rank_00_model_states.pt"]
    assert (report["zero_stage"], report["data_parallel"]) == (2, 2)


def test_files_of_different_steps(penstock, run):
    torch.save(model_state(3, 2, 1, step=400), run / "global_step500" / shard(1))
    done = penstock("inspect", run)
    assert done.returncode == 1
    assert_one_sentence(done, "different steps", "is of 400", "of 500")


def test_stock_deepspeed_on_nvme(penstock, tmp_path):
    """Empty flat groups, and copies of swap files beside: DeepSpeed takes it and goes on wrongly."""
    folder = write_checkpoint(tmp_path / "run", ranks=1, empty=(0,))
    copies = folder / "offloaded_tensors" / "rank0"
    copies.mkdir(parents=True)
    (copies / "140.tensor.swp").write_bytes(bytes(4096))
    report = penstock.json("inspect", tmp_path / "run", code=1)
    assert report["offloaded_files"] == 1 and report["offloaded_bytes"] == 4096
    obstacles = " ".join(report["resume"]["obstacles"])
    assert "masters of 1 of 2 sub-groups are not in its optimizer files" in obstacles
    assert "stock DeepSpeed saved it with optimizer states on NVMe" in obstacles
    assert penstock.json("verify", tmp_path / "run")["good"], "nothing of it is damaged"


def test_swap_files_of_an_older_checkpoint(penstock, tmp_path):
    copies = write_checkpoint(tmp_path / "run", ranks=1) / "offloaded_tensors" / "rank0"
    copies.mkdir(parents=True)
    (copies / "140.tensor.swp").write_bytes(bytes(4096))
    report = penstock.json("inspect", tmp_path / "run")
    assert report["offloaded_files"] == 1
    assert report["resume"]["possible"]


def test_universal_checkpoints(penstock, tmp_path):
    """States are in a folder a parameter: what is missing there, or damaged, is reported as of any other file."""
    folder = write_universal(tmp_path / "run")
    report = penstock.json("inspect", folder)
    assert report["universal"] and report["missing"] == []
    assert report["resume"] == {"possible": True, "world_size": None, "obstacles": []}
    kinds = [file["kind"] for file in report["files"]]
    assert (kinds.count("model"), kinds.count("state"), len(kinds)) == (2, 3 * 5 + 1, 18)
    verified = penstock.json("verify", folder)
    assert verified["good"] and verified["records"] == sum(file["records"] for file in report["files"])
    for path in (folder / "zero").rglob("*.pt"):
        name, offset, _ = next(record for record in records_of(path) if record[0] == "data/0")
        flip(path, offset + 3)
        [bad] = penstock.json("verify", folder, code=1)["bad"]
        assert (bad["path"], bad["record"]) == (str(path), name)
        flip(path, offset + 3)
    cut = folder / "zero" / "head.bias" / "fp32.pt"
    cut.write_bytes(cut.read_bytes()[:100])
    (folder / "zero" / "optimizer_state.pt").unlink()
    shutil.rmtree(folder / "zero" / "layers.1.weight")
    report = penstock.json("inspect", folder, code=1)
    gone = [f"zero/layers.1.weight/{state}.pt" for state in ("fp32", "exp_avg", "exp_avg_sq")]
    assert report["missing"] == ["zero/optimizer_state.pt", *gone]
    assert report["resume"]["obstacles"] == ["4 of its files are missing", "1 of its files cannot be read"]


def test_links_in_a_universal_checkpoint_are_not_followed(penstock, tmp_path):
    """Two links to the folder that they are in would be a tree of 2^40 folders."""
    folder = write_universal(tmp_path / "run")
    files = penstock.json("inspect", folder)["files"]
    for name in ("a", "b"):
        (folder / "zero" / name).symlink_to(".")
    assert penstock.json("inspect", folder)["files"] == files


def test_without_zero(penstock, tmp_path):
    state = model_state(0, 4, 0, param_shapes=None, frozen_param_shapes=None, frozen_param_fragments=None)
    state["optimizer"] = {"state": {0: {"step": 7, "exp_avg": torch.zeros(9)}}, "param_groups": []}
    for shared in ("shared_params",):
        state[shared] = None
    (tmp_path / "run" / "global_step7").mkdir(parents=True)
    torch.save(state, tmp_path / "run" / "global_step7" / "mp_rank_00_model_states.pt")
    report = penstock.json("inspect", tmp_path / "run")
    assert report["zero_stage"] == 0 and report["resume"]["world_size"] is None
    assert report["optimizer_steps"] == [7] and report["tensor_count"] == 7
    state["optimizer"] = None
    torch.save(state, tmp_path / "run" / "global_step7" / "mp_rank_00_model_states.pt")
    assert_one_sentence(penstock("inspect", tmp_path / "run"), "holds no optimizer states")


@pytest.mark.filterwarnings("ignore:torch.quantize|Sparse CSR")
def test_tensors_of_rare_kinds(penstock, tmp_path):
    """Complex ones have their bytes; what has no strides and one storage is left out with a note."""
    ones = torch.ones(3, 4)
    complex_ones = {name: ones.to(dtype) for name, dtype in (("c64", torch.complex64), ("c128", torch.complex128))}
    quantized = torch.quantize_per_tensor(ones, 1.0, 0, torch.qint8)
    left_out = {"w.q": quantized, "w.coo": ones.to_sparse(), "w.csr": ones.to_sparse_csr(), "w.meta": ones.to("meta")}
    module = {"module": {**complex_ones, **left_out, "state": None}, "param_shapes": None, "frozen_param_shapes": None}
    (tmp_path / "global_step7").mkdir()
    (tmp_path / "latest").write_text("global_step7")
    state = model_state(0, 1, 0, **module, shared_params=None, optimizer={"state": {}, "param_groups": []})
    torch.save(state, tmp_path / "global_step7" / "mp_rank_00_model_states.pt")
    report = penstock.json("inspect", tmp_path)
    tensors = {t["name"]: (t["dtype"], t["bytes"]) for t in report["tensors"]}
    assert tensors == {"c64": ("c64", 96), "c128": ("complex128", 192)}
    (note,) = report["notes"]
    assert "not counted" in note and "4 of them, the first is w.coo" in note
    assert note in penstock("inspect", tmp_path).stdout


def test_leftovers_are_reported(penstock, run):
    (run / "global_step500" / ".x_optim_states.pt.123.partial").write_bytes(b"half")
    assert penstock.json("inspect", run)["leftovers"] == ["global_step500/.x_optim_states.pt.123.partial"]


def test_stubs_beside_a_checkpoint(penstock, tmp_path):
    """Axolotl's output of ZeRO-2 with experts: names without weights, and all of it in checkpoint-1188."""
    (tmp_path / "model.safetensors").write_bytes(safetensors_bytes(STUBS))
    folder = write_checkpoint(tmp_path / "checkpoint-1188", stage=2, step=1188)
    done = penstock("inspect", tmp_path)
    assert done.returncode == 0, done.stderr
    (note,) = [line for line in done.stdout.splitlines() if line.startswith("note")]
    assert f"in {tmp_path} model.safetensors is a stub: 2 of 2 tensors have no elements" in note
    assert f"the weights are in {folder}" in note
    weights = penstock.json("inspect", tmp_path)["weights"]
    assert weights[0]["stub"] and weights[0]["directory"] == str(tmp_path)


@pytest.mark.parametrize("name", ["model.safetensors", "model-00001-of-00002.safetensors", "pytorch_model.bin"])
def test_stubs_without_a_checkpoint_of_deepspeed(penstock, tmp_path, name):
    if name.endswith(".bin"):
        torch.save({"a": torch.zeros(0), "b": torch.zeros(0)}, tmp_path / name)
    else:
        (tmp_path / name).write_bytes(safetensors_bytes(STUBS))
    for verb in ("inspect", "verify"):
        done = penstock(verb, tmp_path)
        assert done.returncode == 1
        assert_one_sentence(done, f"{name} is a stub", "no folder in it holds the weights")
    (tmp_path / "checkpoint-9").mkdir()
    (tmp_path / "checkpoint-1188").mkdir()
    (tmp_path / "checkpoint-9" / "model.safetensors").write_bytes(safetensors_bytes(WHOLE))
    (tmp_path / "checkpoint-1188" / "model.safetensors").write_bytes(safetensors_bytes(WHOLE))
    assert_one_sentence(penstock("inspect", tmp_path), f"the weights are in {tmp_path}/checkpoint-1188 (144 B)")


def test_what_is_no_checkpoint(penstock, tmp_path):
    (tmp_path / "notes.txt").write_text("all of it")
    (tmp_path / "model.safetensors").write_bytes(safetensors_bytes(WHOLE))
    for verb in ("inspect", "verify"):
        assert_one_sentence(penstock(verb, tmp_path), "no durable store", "no checkpoint of DeepSpeed")
        assert_one_sentence(penstock(verb, tmp_path / "nowhere"), "nowhere", "No such file")


def test_twenty_flipped_bytes_are_found(penstock, run):
    """Each in a record of its own, of several files; and the tensors that have it are named."""
    folder = run / "global_step500"
    places = [(path, *record) for path in sorted(folder.glob("*.pt")) for record in records_of(path)]
    rng = random.Random(5)
    chosen = rng.sample(places, 20)
    for path, _, offset, size in chosen:
        flip(path, offset + rng.randrange(size))
    report = penstock.json("verify", run, code=1)
    assert {(bad["path"], bad["record"]) for bad in report["bad"]} == {(str(p), name) for p, name, *_ in chosen}
    assert all("its CRC-32 is" in bad["problem"] for bad in report["bad"])
    done = penstock("verify", run)
    assert done.returncode == 1 and len(re.findall(r"^bad  ", done.stdout, re.M)) == 20
    assert_one_sentence(done, "20 records or files of")


def test_a_damaged_record_is_reported_with_its_tensors(penstock, run):
    path = run / "global_step500" / shard(1, "optim")
    flat = max((record for record in records_of(path) if record[0].startswith("data/")), key=lambda r: r[2])
    flip(path, flat[1] + flat[2] // 2)
    (bad,) = penstock.json("verify", run, code=1)["bad"]
    assert bad["file"] == f"global_step500/{path.name}" and bad["record"] == flat[0]
    index = int(re.fullmatch(r"optimizer_state_dict\..*\[(\d)\].*", bad["place"]).group(1))
    assert bad["tensors"] == list(GROUPS[index])
    (line,) = [line for line in penstock("verify", run).stdout.splitlines() if line.startswith("bad")]
    assert f"{path}, record {flat[0]} ({bad['place']}: {bad['tensors'][0]}, {bad['tensors'][1]}" in line


def test_a_damaged_parameter_is_named(penstock, tmp_path):
    folder = write_checkpoint(tmp_path / "run", stage=2)
    path = folder / shard(0, stage=2)
    (weight,) = [record for record in records_of(path) if record[2] == 2 * 16 * 16]
    flip(path, weight[1])
    (bad,) = penstock.json("verify", tmp_path / "run", code=1)["bad"]
    assert bad["tensors"] == ["layers.0.weight"] and bad["place"] == "module.layers.0.weight"


def test_cut_files(penstock, run):
    path = run / "global_step500" / shard(0, "optim")
    whole = path.read_bytes()
    for length in (0, 1, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        for verb in ("inspect", "verify"):
            done = penstock(verb, run)
            assert done.returncode == 1, length
            assert str(path) in done.stdout and "cut short" in done.stdout, length
        assert_one_sentence(penstock("inspect", run), "1 of its files cannot be read")


def test_checksums_that_were_never_computed(penstock, run):
    from torch.utils.serialization import config

    path = run / "global_step500" / shard(1, "optim")
    config.save.compute_crc32 = False
    try:
        torch.save(optimizer_state(3, 2), path)
    finally:
        config.save.compute_crc32 = True
    report = penstock.json("verify", run)
    assert report["good"] and report["without_checksums"] == [f"global_step500/{path.name}"]
    assert [f["checksums"] for f in penstock.json("inspect", run)["files"]].count(False) == 1
    assert "1 of the files carry no checksums" in penstock("verify", run).stdout
    # One record's checksum set to 0 is damage: the others have theirs.
    whole = run / "global_step500" / shard(0, "optim")
    data = bytearray(whole.read_bytes())
    entry = data.rindex(b"PK\x01\x02", 0, data.rindex(b"data/0"))
    data[entry + 16 : entry + 20] = bytes(4)
    whole.write_bytes(data)
    (bad,) = penstock.json("verify", run, code=1)["bad"]
    assert bad["record"] == "data/0"


def test_torch_saves_older_format_is_reported(penstock, run):
    path = run / "global_step500" / shard(0, "optim")
    torch.save(optimizer_state(3, 2), path, _use_new_zipfile_serialization=False)
    for verb in ("inspect", "verify"):
        done = penstock(verb, run)
        assert done.returncode == 1
        assert "format of before torch 1.6" in done.stdout

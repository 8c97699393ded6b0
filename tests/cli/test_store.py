"""Durable stores as users see them: import, inspect, verify, export."""

import fcntl
import json
import os
import pty
import resource
import signal
import subprocess
import sys

import pytest
from cli_support import ROOT, assert_one_sentence
from store_files import assert_equal, damage, load, model, same

torch = pytest.importorskip("torch")
safetensors_torch = pytest.importorskip("safetensors.torch")

DOCS = (ROOT / "docs" / "STORES.md").read_text(encoding="utf-8")


def test_what_export_writes_the_library_loads_equal(penstock, checkpoint, tmp_path):
    source = checkpoint(model(), metadata={"format": "pt", "by": "a test"})
    done = penstock("import", source, tmp_path / "store")
    assert done.returncode == 0 and done.stderr == ""
    assert done.stdout.startswith("imported 11 tensors, ")
    done = penstock("export", tmp_path / "store", tmp_path / "out.safetensors")
    assert done.returncode == 0 and done.stderr == ""
    assert_equal(load(tmp_path / "out.safetensors"), model())
    with safetensors_torch.safe_open(tmp_path / "out.safetensors", "pt") as file:
        assert file.metadata() == {"format": "pt", "by": "a test"}
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model.safetensors", "out.safetensors", "store"]


def test_shards_in_and_out(penstock, checkpoint, tmp_path):
    tensors = model()
    names = list(tensors)
    weight_map = {}
    for i in range(3):
        shard = f"model-{i + 1:05}-of-00003.safetensors"
        part = {name: tensors[name] for name in names[i::3]}
        checkpoint(part, f"sharded/{shard}")
        weight_map.update(dict.fromkeys(part, shard))
    (tmp_path / "sharded" / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    assert penstock("import", tmp_path / "sharded", tmp_path / "store").returncode == 0
    done = penstock("export", tmp_path / "store", tmp_path / "out", "--max-shard", "1MiB")
    assert done.returncode == 0, done.stderr
    found = sorted(p.name for p in (tmp_path / "out").iterdir())
    assert found[0] == "model-00001-of-00004.safetensors" and found[-1] == "model.safetensors.index.json"
    assert len(found) == 5
    assert_equal(load(tmp_path / "out"), tensors)
    assert penstock("import", tmp_path / "out", tmp_path / "again").returncode == 0, "ours can be read by ourselves"


def test_tensors_that_the_index_does_not_name(penstock, checkpoint, tmp_path):
    tensors = model()
    checkpoint(tensors, "sharded/all.safetensors")
    named = dict.fromkeys(list(tensors)[:-2], "all.safetensors")
    (tmp_path / "sharded" / "model.safetensors.index.json").write_text(json.dumps({"weight_map": named}))
    done = penstock("import", tmp_path / "sharded", tmp_path / "store")
    assert done.returncode == 0 and done.stderr.count("\n") == 1
    assert "2 tensors of its shards are not in the index" in done.stderr
    assert any(f"the first is {name}\n" in done.stderr for name in list(tensors)[-2:])


def test_a_new_store_has_no_further_paths(penstock, checkpoint, tmp_path):
    source = checkpoint(model())
    done = penstock("import", source, tmp_path / "store", "--path", tmp_path / "away")
    assert done.returncode == 1
    assert_one_sentence(done, str(tmp_path / "store"), "leave --path out")
    assert not (tmp_path / "store").exists()
    assert penstock("import", source, tmp_path / "store").returncode == 0
    assert penstock("import", source, tmp_path / "store", "--path", tmp_path / "away").returncode == 0


@pytest.mark.parametrize("dtype", ["bf16", "f16", "f32"])
def test_types_are_converted_as_torch_does(penstock, checkpoint, tmp_path, dtype):
    target = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}[dtype]
    special = torch.tensor([0.0, -0.0, 1e-8, -6e-8, 6.1e-5, 65504.0, 65519.9, 65520.0, 1e30, -1e30, float("inf"),
                            float("-inf"), 1.0009765, 1.00048828125, 1.001464843])  # fmt: skip
    every = torch.arange(1 << 16, dtype=torch.int32).to(torch.int16)
    tensors = {
        "special": torch.cat([special, torch.randn(3000) * torch.logspace(-9, 6, 3000)]),
        "every.bf16": every.view(torch.bfloat16),
        "every.f16": every.clone().view(torch.float16),
        "ids": torch.arange(77),
        "double": torch.randn(9, dtype=torch.float64),
        "scalar": torch.tensor(2.0, dtype=torch.bfloat16),
    }
    assert penstock("import", checkpoint(tensors), tmp_path / "store").returncode == 0
    done = penstock("export", tmp_path / "store", tmp_path / "out.safetensors", "--dtype", dtype)
    assert done.returncode == 0, done.stderr
    found = load(tmp_path / "out.safetensors")
    for name, tensor in tensors.items():
        floats = tensor.dtype in (torch.bfloat16, torch.float16, torch.float32)
        expected = tensor.to(target) if floats else tensor
        assert found[name].dtype == expected.dtype
        nan = torch.isnan(expected)
        assert torch.equal(torch.isnan(found[name]), nan), name
        assert same(found[name][~nan], expected[~nan]), name


def test_importing_again_renews_what_it_brings_and_leaves_the_rest(penstock, store, checkpoint, tmp_path):
    newer = {name: tensor for name, tensor in model(seed=1).items() if name != "master"}
    newer["double"] = torch.randn(30, dtype=torch.float64)  # another shape
    newer["new"] = torch.ones(3)
    assert penstock("import", checkpoint(newer, "newer.safetensors"), store).returncode == 0
    generations = {t["name"]: t["generation"] for t in penstock.json("inspect", store)["tensors"]}
    assert generations == {**dict.fromkeys(newer, 2), "master": 1, "new": 1}
    assert penstock("export", store, tmp_path / "out.safetensors").returncode == 0
    assert_equal(load(tmp_path / "out.safetensors"), {**model(), **newer})


def test_inspect_says_what_is_inside(penstock, store):
    report = penstock.json("inspect", store)
    assert report["schema"] == "penstock.inspect/1"
    assert report["closed"] is True and report["in_use_by"] is None
    assert report["tensor_count"] == len(report["tensors"]) == 11
    names = [tensor["name"] for tensor in report["tensors"]]
    assert names.index("layers.2.weight") < names.index("layers.10.weight")
    weight = report["tensors"][names.index("layers.2.weight")]
    assert (weight["dtype"], weight["shape"], weight["bytes"]) == ("bf16", [700, 1024], 700 * 1024 * 2)
    assert (weight["integrity"], weight["generation"], weight["role"]) == ("full", 1, "param")
    assert report["bytes"] == sum(tensor["bytes"] for tensor in report["tensors"])
    assert report["paths"][0]["file_bytes"] == report["paths"][0]["used_bytes"]
    text = penstock("inspect", store)
    assert text.returncode == 0 and text.stderr == ""
    for name in names:
        assert name in text.stdout


def keys_of(value):
    if isinstance(value, dict):
        return set(value) | set().union(*(keys_of(v) for k, v in value.items() if k != "metadata"))
    if isinstance(value, list):
        return set().union(*map(keys_of, value)) if value else set()
    return set()


@pytest.mark.parametrize("verb", ["import", "export", "inspect", "verify"])
def test_keys_are_documented(penstock, store, checkpoint, tmp_path, verb):
    damage(store, "master", penstock)
    arguments = {
        "import": [checkpoint({"a": torch.ones(1)}, "a.safetensors"), store],
        "export": [store, tmp_path / "out.safetensors"],
        "inspect": [store],
        "verify": [store],
    }[verb]
    if verb == "export":
        assert penstock("import", checkpoint(model()), store).returncode == 0
    report = penstock.json(verb, *arguments, code=1 if verb == "verify" else 0)
    assert report["schema"] == f"penstock.{verb}/1"
    for key in keys_of(report):
        assert f'"{key}"' in DOCS, key


def test_export_leaves_nothing_behind_when_it_fails(penstock, store, tmp_path):
    damage(store, "layers.10.weight", penstock, 77)
    before = sorted(tmp_path.iterdir())
    for target in ("out.safetensors", "out"):
        done = penstock("export", store, tmp_path / target)
        assert done.returncode == 1
        assert_one_sentence(done, "layers.10.weight", "penstock verify")
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_export_that_is_interrupted_leaves_nothing(penstock, checkpoint, tmp_path, how):
    store, target = tmp_path / "store", tmp_path / "out"
    assert penstock("import", checkpoint({"large": torch.zeros(60_000_000)}), store).returncode == 0
    target.mkdir()
    process = subprocess.Popen(
        [penstock.binary, "export", store, target / "out.safetensors"], stderr=subprocess.PIPE, text=True
    )
    while process.poll() is None and not list(target.iterdir()):
        pass
    process.send_signal(how)
    _, stderr = process.communicate(timeout=60)
    assert (process.returncode, stderr) == (1, "penstock: interrupted: nothing was exported\n")
    assert list(target.iterdir()) == []


def test_an_export_is_a_file_like_any_other(penstock, store, tmp_path):
    """Read by the others whom the umask lets, with the mode of the file that it replaces, where a link names it."""
    mask = os.umask(0)
    os.umask(mask)
    target, link = tmp_path / "new.safetensors", tmp_path / "link.safetensors"
    assert penstock("export", store, target).returncode == 0
    assert target.stat().st_mode & 0o777 == 0o666 & ~mask
    first = target.stat().st_ino
    target.chmod(0o640)
    link.symlink_to(target)
    assert penstock("export", store, link).returncode == 0
    assert link.is_symlink() and target.stat().st_mode & 0o777 == 0o640 and target.stat().st_ino != first
    shards = tmp_path / "shards"
    assert penstock("export", store, shards).returncode == 0
    assert shards.stat().st_mode & 0o777 == 0o777 & ~mask
    assert {path.stat().st_mode & 0o777 for path in shards.iterdir()} == {0o666 & ~mask}
    (tmp_path / "folder.safetensors").mkdir()
    os.mkfifo(tmp_path / "pipe.safetensors")
    for no_file in ("folder", "pipe"):
        refused = penstock("export", store, tmp_path / f"{no_file}.safetensors")
        assert refused.returncode == 1 and "it is no file" in refused.stderr
    assert (tmp_path / "pipe.safetensors").is_fifo()


@pytest.mark.parametrize("stands", [True, False], ids=["an old file", "nothing"])
def test_an_export_goes_where_a_link_names_a_file(penstock, store, tmp_path, stands):
    """Whose name need not say what it is, as in the hub's cache."""
    blob, link = tmp_path / "blobs" / "abc", tmp_path / "link.safetensors"
    blob.parent.mkdir()
    if stands:
        blob.write_text("old")
    link.symlink_to("blobs/abc")
    done = penstock("export", store, link)
    assert done.returncode == 0, done.stderr
    assert link.is_symlink() and not blob.is_symlink()
    assert_equal(load(blob), model())


def test_export_replaces_a_file_at_once_and_never_a_directory(penstock, store, tmp_path):
    target = tmp_path / "out.safetensors"
    target.write_text("old")
    abandoned = tmp_path / f".out.safetensors.{'0' * 16}.partial"  # of a process that was killed
    abandoned.write_text("half")
    assert penstock("export", store, target).returncode == 0
    assert_equal(load(target), model())
    assert not abandoned.exists()
    assert penstock("export", store, tmp_path / "out").returncode == 0
    done = penstock("export", store, tmp_path / "out")
    assert done.returncode == 1
    assert_one_sentence(done, str(tmp_path / "out"), "holds model")


def test_no_checkpoint_is_exported_into_a_store(penstock, store):
    before = sorted(store.iterdir())
    done = penstock("export", store, store)
    assert done.returncode == 1 and sorted(store.iterdir()) == before
    assert_one_sentence(done, f"{store} is a durable store; choose another directory")


def test_there_is_no_stub(penstock, store, checkpoint, tmp_path):
    done = penstock("import", checkpoint({}, "nothing.safetensors"), tmp_path / "other")
    assert done.returncode == 1
    assert_one_sentence(done, "no tensors")
    (tmp_path / "cut.safetensors").write_bytes(checkpoint(model()).read_bytes()[:-10])
    done = penstock("import", tmp_path / "cut.safetensors", tmp_path / "other")
    assert done.returncode == 1
    assert_one_sentence(done, "cut short")
    assert not (tmp_path / "other").exists() or not list((tmp_path / "other").glob("tensors-*"))


def test_who_has_the_store_is_named(penstock, store, checkpoint, tmp_path):
    with open(store / "lock", "r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.write("process 4711 (python) on nowhere, rank 3")
        lock.flush()
        for arguments in (
            ["import", checkpoint(model()), store],
            ["export", store, tmp_path / "out.safetensors"],
            ["verify", store],
        ):
            done = penstock(*arguments)
            assert done.returncode == 1
            assert_one_sentence(done, "process 4711 (python) on nowhere, rank 3", str(store))
        assert penstock.json("inspect", store)["in_use_by"] == "process 4711 (python) on nowhere, rank 3"
    assert penstock("verify", store).returncode == 0


def test_what_is_no_store_is_left_alone(penstock, checkpoint, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    for verb, *more in (["inspect"], ["verify"], ["export", tmp_path / "x.safetensors"]):
        for place in (other, tmp_path / "missing"):
            done = penstock(verb, place, *more)
            assert done.returncode == 1
            assert_one_sentence(done, str(place), "no durable store")
    assert list(other.iterdir()) == [] and not (tmp_path / "missing").exists()
    (other / "thesis.txt").write_text("all of it")
    done = penstock("import", checkpoint(model()), other)
    assert done.returncode == 1
    assert_one_sentence(done, "thesis.txt", "choose an empty directory")
    (other / "manifest").write_text("of a ship")
    done = penstock("inspect", other)
    assert done.returncode == 1
    assert_one_sentence(done, "is no manifest of penstock")


def peak_kib(command):
    """Most memory that the command had at once. A small process starts it: what starts another counts as its peak."""
    script = (
        "import resource, subprocess, sys\n"
        "subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)\n"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)\n"
    )
    return int(subprocess.run([sys.executable, "-c", script, *command], check=True, capture_output=True).stdout)


def test_memory_has_a_bound_whatever_the_model(penstock, tmp_path):
    header = json.dumps({"large": {"dtype": "U8", "shape": [300 << 20], "data_offsets": [0, 300 << 20]}}).encode()
    with open(tmp_path / "large.safetensors", "wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + (300 << 20))
    for arguments in (
        ["import", tmp_path / "large.safetensors", tmp_path / "store"],
        ["verify", tmp_path / "store"],
        ["export", tmp_path / "store", tmp_path / "out.safetensors", "--dtype", "f32"],
    ):
        peak = peak_kib([penstock.binary, *map(str, arguments)])
        assert 1024 < peak < 256 * 1024, arguments[0]


def run_on_terminal(command):
    """Its stderr, which is a terminal."""
    leader, follower = pty.openpty()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=follower) as child:
        os.close(follower)
        text = b""
        while True:
            try:
                read = os.read(leader, 4096)
            except OSError:
                break
            if not read:
                break
            text += read
    os.close(leader)
    assert child.returncode == 0
    return text.decode()


def test_progress_is_for_terminals(penstock, tmp_path):
    size = 600 << 20
    header = json.dumps({"large": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    with open(tmp_path / "large.safetensors", "wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + size)
    command = [penstock.binary, "import", str(tmp_path / "large.safetensors"), str(tmp_path / "store")]
    text = run_on_terminal(command)
    # A very fast drive is done before there is anything to say.
    assert text == "" or (" of 600.0 MiB imported, " in text and " s left" in text and text.endswith("\r\x1b[K"))
    assert penstock(*command[1:]).stderr == ""


def test_a_full_drive_is_one_sentence_and_the_old_contents_stand(penstock, store, checkpoint, tmp_path):
    newer = checkpoint({**model(1), "large": torch.zeros(4 << 20)}, "newer.safetensors")

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (8 << 20, 8 << 20))

    done = subprocess.run(
        [penstock.binary, "import", newer, store], capture_output=True, text=True, preexec_fn=limit, check=False
    )
    assert done.returncode == 1
    assert_one_sentence(done, "File too large")
    assert penstock("verify", store).returncode == 0
    assert penstock("export", store, tmp_path / "out.safetensors").returncode == 0
    found = load(tmp_path / "out.safetensors")
    for name, tensor in found.items():
        assert same(tensor, model()[name]) or same(tensor, model(1)[name]), name


def test_tensors_lie_whole_in_order_and_apart(penstock, store):
    tensors = penstock.json("inspect", store)["tensors"]
    ends = 0
    for tensor in sorted(tensors, key=lambda entry: entry["offset"]):
        assert tensor["offset"] >= ends
        ends = tensor["offset"] + tensor["extent_bytes"]
        assert tensor["extent_bytes"] == -(-tensor["bytes"] // 4096) * 4096 + 4096
    names = [tensor["name"] for tensor in tensors]
    assert names == [t["name"] for t in sorted(tensors, key=lambda entry: entry["offset"])], "in the order of use"


def test_a_store_without_a_name(penstock, checkpoint, tmp_path):
    for arguments in (["verify", ""], ["export", "", tmp_path / "out"], ["import", checkpoint(model()), ""]):
        done = penstock(*arguments)
        assert done.returncode == 1
        assert_one_sentence(done, "has no name")

"""Durable stores that were damaged, cut or killed: what `verify`, `export` and `import` say of them."""

import os
import random
import subprocess

import pytest
from cli_support import assert_one_sentence
from store_files import assert_equal, damage, data_file, load, model, same

torch = pytest.importorskip("torch")


def test_verify_finds_every_changed_byte(penstock, store):
    done = penstock("verify", store)
    assert done.returncode == 0 and done.stderr == ""
    assert "11 tensors" in done.stdout and "0 bad" in done.stdout and "not closed" not in done.stdout
    expected = []
    for name, at in (("layers.10.weight", 1_500_000), ("norm.weight", 1999), ("scalar", 0), ("empty", 10)):
        damage(store, name, penstock, at)
        expected.append(name)
        report = penstock.json("verify", store, code=1)
        assert report["good"] is False
        assert sorted(bad["name"] for bad in report["bad"]) == sorted(expected)
    assert report["checksums"] == {"full": 11, "sampled": 0, "off": 0}
    done = penstock("verify", store)
    assert done.returncode == 1
    assert_one_sentence(done, "4 of 11 tensors", str(store))
    for name in expected:
        assert f"tensor '{name}' is damaged" in done.stdout


def test_a_file_cut_short_is_said_by_tensor(penstock, store):
    with open(data_file(store), "r+b") as file:
        file.truncate(5_000)
    report = penstock.json("verify", store, code=1)
    assert 1 <= len(report["bad"]) <= 11
    for bad in report["bad"]:
        assert bad["name"] and str(store) in bad["path"]


def test_a_replaced_file_is_said_by_tensor(penstock, store, checkpoint, tmp_path):
    other = tmp_path / "other"
    assert penstock("import", checkpoint(model()), other).returncode == 0
    data_file(store).write_bytes(data_file(other).read_bytes())  # the same tensors, of another store
    report = penstock.json("verify", store, code=1)
    assert len(report["bad"]) == 11
    assert "another store" in report["bad"][0]["problem"], report["bad"][0]


def test_a_missing_file_is_said_by_tensor(penstock, store, tmp_path):
    data_file(store).unlink()
    report = penstock.json("verify", store, code=1)
    assert len(report["bad"]) == 11
    assert "No such file" in report["bad"][0]["problem"]
    done = penstock("inspect", store)
    assert done.returncode == 1
    assert_one_sentence(done, "11 tensors", "No such file")
    done = penstock("export", store, tmp_path / "out.safetensors")
    assert done.returncode == 1
    assert_one_sentence(done, "cannot be read", str(store))


@pytest.mark.parametrize("target", ["out.safetensors", "out"])
def test_an_export_without_what_is_damaged(penstock, store, tmp_path, target):
    damaged = {"layers.10.weight", "norm.weight"}
    for name in damaged:
        damage(store, name, penstock)
    out = tmp_path / target
    done = penstock("export", store, out)
    assert done.returncode == 1 and not out.exists()
    assert_one_sentence(done, "is damaged", "--skip-damaged leaves it out")
    done = penstock("export", store, out, "--skip-damaged")
    assert done.returncode == 1 and done.stdout.startswith("exported 9 tensors, ")
    assert sorted(line[: len("penstock: left out: tensor '")] for line in done.stderr.splitlines()) == [
        "penstock: left out: tensor '"
    ] * len(damaged)
    assert_equal(load(out), {name: tensor for name, tensor in model().items() if name not in damaged})
    document = penstock.json("export", store, tmp_path / "other.safetensors", "--skip-damaged", code=1)
    assert {entry["name"] for entry in document["left_out"]} == damaged


@pytest.mark.parametrize("target", ["out.safetensors", "out"])
def test_an_export_of_nothing_whole_names_all_that_is_damaged(penstock, store, tmp_path, target):
    data_file(store).unlink()
    out = tmp_path / target
    done = penstock("export", store, out, "--skip-damaged")
    assert done.returncode == 1 and done.stdout == "" and not out.exists()
    first, *others = done.stderr.splitlines()
    assert first == f"penstock: none of the 11 tensors of the store {store} is whole"
    assert len(others) == 11 and all(line.startswith("penstock: left out: tensor '") for line in others)
    document = penstock.json("export", store, out, "--skip-damaged", code=1)
    assert {entry["name"] for entry in document["left_out"]} == set(model())
    assert (document["tensors"], document["files"]) == (0, 0) and not out.exists()


def test_an_export_of_a_store_without_tensors(penstock, store, tmp_path):
    os.truncate(store / "manifest", 8192)
    done = penstock("export", store, tmp_path / "out.safetensors", "--skip-damaged")
    assert done.returncode == 1
    assert_one_sentence(done, "has no tensors to export", str(store))


def test_an_export_of_a_file_cut_short(penstock, store, tmp_path):
    entries = sorted(penstock.json("inspect", store)["tensors"], key=lambda entry: entry["offset"])
    with open(data_file(store), "r+b") as file:
        file.truncate(entries[-1]["offset"])
    out = tmp_path / "out.safetensors"
    assert penstock("export", store, out, "--skip-damaged").returncode == 1
    last = entries[-1]["name"]
    assert_equal(load(out), {name: tensor for name, tensor in model().items() if name != last})
    assert penstock("export", store, out).returncode == 1
    whole = penstock.json("export", store, out, "--skip-damaged", code=1)
    assert [entry["name"] for entry in whole["left_out"]] == [last]


def test_a_manifest_that_was_cut_is_not_closed(penstock, store):
    """It may also be what a crash has left, so nothing is bad in it."""
    os.truncate(store / "manifest", 8192)
    done = penstock("verify", store)
    assert done.returncode == 0 and done.stdout.startswith("0 tensors") and "not closed: its last user" in done.stdout
    assert penstock.json("verify", store)["closed"] is False


def test_a_damaged_manifest_names_the_place(penstock, store):
    manifest = store / "manifest"
    good = manifest.read_bytes()
    manifest.write_bytes(good[:8192] + bytes(4096) + good[12288:])
    done = penstock("inspect", store)
    assert done.returncode == 1
    assert_one_sentence(done, "damaged at offset 8192", str(manifest))
    manifest.write_bytes(good[:-1])
    assert penstock.json("inspect", store)["closed"] is False, "the last words of the last user do not count"


def test_killed_at_any_instant_each_tensor_is_old_or_new(penstock, checkpoint, tmp_path):
    """100 imports over one another, each killed at a random instant (or done by then)."""
    chance = random.Random(4)
    versions = [
        {f"t{i}": torch.full((1 + 60_000 * i,), seed * 10 + i, dtype=torch.float32) for i in range(6)}
        for seed in range(2)
    ]
    files = [checkpoint(tensors, f"v{i}.safetensors") for i, tensors in enumerate(versions)]
    store = tmp_path / "store"
    killed = 0
    assert penstock("import", files[0], store).returncode == 0
    for round_number in range(100):
        child = subprocess.Popen([penstock.binary, "import", files[round_number % 2], store], stdout=subprocess.DEVNULL)
        try:
            assert child.wait(timeout=chance.uniform(0.001, 0.06)) == 0
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
            killed += 1
        done = penstock("verify", store)
        assert done.returncode == 0, (round_number, done.stdout, done.stderr)
        if round_number % 10 == 9:
            assert penstock("export", store, tmp_path / "out.safetensors").returncode == 0
            for name, tensor in load(tmp_path / "out.safetensors").items():
                assert any(same(tensor, version[name]) for version in versions), (round_number, name)
    assert killed > 10
    assert penstock("import", files[1], store).returncode == 0
    assert penstock("export", store, tmp_path / "out.safetensors").returncode == 0
    assert_equal(load(tmp_path / "out.safetensors"), versions[1])

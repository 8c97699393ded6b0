"""Stores that an attacker has prepared: each file in turn is not what it seems."""

import os
import shutil
import stat
import subprocess

import pytest
from cli_support import assert_one_sentence, safetensors_bytes

PRECIOUS = b"precious\n" * 1000
STRANGER = 12345
READING = (["inspect"], ["verify"], ["export", "OUT"])
FILES = ("lock", "manifest", "manifest.new", "spare", "DATA")


@pytest.fixture
def store(penstock, write, tmp_path):
    path = tmp_path / "store"
    source = write("model.safetensors", safetensors_bytes({"a": ("U8", [5000], 5000), "b": ("U8", [9], 9)}))
    assert penstock("import", source, path).returncode == 0
    return path


def symlink(file, victim):
    file.symlink_to(victim)


def dangling(file, victim):
    file.symlink_to(victim.parent / "nothing")


def hard_link(file, victim):
    os.link(victim, file)


def fifo(file, victim):
    os.mkfifo(file)


def directory(file, victim):
    file.mkdir()


def device(file, victim):
    os.mknod(file, stat.S_IFCHR | 0o600, os.makedev(1, 5))  # /dev/zero, which never ends


def strangers(file, victim):
    file.write_bytes(PRECIOUS)
    os.chown(file, STRANGER, STRANGER)


KINDS = (symlink, dangling, hard_link, fifo, directory, device, strangers)


def listing(path):
    """Names, kinds, sizes and times of all that lies there."""
    return {
        name: (info.st_mode, info.st_size, info.st_mtime_ns, info.st_uid)
        for name in sorted(os.listdir(path))
        for info in [os.lstat(path / name)]
    }


@pytest.fixture
def hostile(store, tmp_path):
    def make(name, kind):
        """A copy of the store in which `name` is of that kind; the file elsewhere that must stay as it is."""
        if kind in (device, strangers) and os.geteuid() != 0:
            pytest.skip("only root makes devices and gives files away")
        place, victim = tmp_path / "hostile", tmp_path / "elsewhere" / "victim"
        for old in (place, victim.parent):
            shutil.rmtree(old, ignore_errors=True)
        shutil.copytree(store, place)
        victim.parent.mkdir()
        victim.write_bytes(PRECIOUS)
        (data,) = place.glob("tensors-*.data")
        file = data if name == "DATA" else place / name
        file.unlink(missing_ok=True)
        kind(file, victim)
        return place, victim

    return make


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("kind", KINDS)
def test_verbs_that_read_change_nothing(penstock, hostile, tmp_path, name, kind):
    place, victim = hostile(name, kind)
    before = listing(place)
    for verb, *more in READING:
        out = tmp_path / "out.safetensors"
        done = penstock(verb, place, *(out if word == "OUT" else word for word in more))
        assert done.returncode in (0, 1), (verb, done.stderr)
        # What is not read does no harm: a spare, half a manifest.
        assert done.returncode == 1 or name in ("spare", "manifest.new") or verb == "inspect", verb
        assert listing(place) == before, verb
        assert victim.read_bytes() == PRECIOUS and os.listdir(victim.parent) == ["victim"], verb
        out.unlink(missing_ok=True)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("kind", KINDS)
def test_import_writes_nothing_outside(penstock, hostile, write, name, kind):
    place, victim = hostile(name, kind)
    newer = write("newer.safetensors", safetensors_bytes({"a": ("U8", [7000], 7000)}))
    done = penstock("import", newer, place)
    # What was begun before a crash has the name manifest.new; it is removed, whatever it is.
    assert done.returncode == (0 if name == "manifest.new" and kind is not directory else 1), done.stderr
    if done.returncode:
        assert_one_sentence(done, str(place))
    assert victim.read_bytes() == PRECIOUS and os.listdir(victim.parent) == ["victim"]


def test_a_refused_import_leaves_no_file(penstock, write, tmp_path):
    source = write("model.safetensors", safetensors_bytes({"a": ("U8", [4], 4)}))
    place = tmp_path / "thesis"
    place.mkdir()
    (place / "chapter1.txt").write_text("all of it")
    assert penstock("import", source, place).returncode == 1
    assert os.listdir(place) == ["chapter1.txt"]


def test_several_verify_at_once(penstock, store):
    runs = [subprocess.Popen([penstock.binary, "verify", store], stdout=subprocess.PIPE) for _ in range(4)]
    assert [run.wait(60) for run in runs] == [0] * 4


def test_contents_elsewhere_are_read_where_they_are_named(penstock, tmp_path):
    """A manifest that comes from elsewhere does not say what is opened; the user does."""
    configuration = {"mode": "durable", "paths": [str(tmp_path / "home"), str(tmp_path / "away")]}
    script = (
        "import json, sys, numpy, penstock\n"
        "with penstock.Engine(json.loads(sys.argv[1])) as engine:\n"
        "    for i in range(8):\n"
        "        engine.put(f't{i}', numpy.full(4096, i, numpy.uint8))\n"
    )
    penstock_module = pytest.importorskip("penstock")
    import json
    import sys

    subprocess.run(
        [sys.executable, "-c", script, json.dumps({"penstock": configuration})],
        check=True,
        env={**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(penstock_module.__file__))},
    )
    report = penstock.json("verify", tmp_path / "home", code=1)
    assert 0 < len(report["bad"]) < 8
    assert all("only where you name it" in bad["problem"] for bad in report["bad"])
    assert penstock.json("verify", tmp_path / "home", "--path", tmp_path / "away")["tensors"] == 8
    assert penstock("inspect", tmp_path / "home").returncode == 0
    out = tmp_path / "out.safetensors"
    assert penstock("export", tmp_path / "home", out).returncode == 1 and not out.exists()
    assert penstock("export", tmp_path / "home", out, "--path", tmp_path / "away").returncode == 0

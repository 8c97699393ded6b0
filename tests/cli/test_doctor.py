"""`penstock doctor`."""

import os

import pytest
from cli_support import assert_one_sentence


def test_without_a_path(penstock):
    report = penstock.json("doctor")
    assert report["schema"] == "penstock.doctor/1"
    assert report["healthy"] is True
    assert [engine["name"] for engine in report["engines"]] == ["uring", "aio", "threads"]
    for engine in report["engines"]:
        assert engine["usable"] or engine["reason"]
    assert report["memory"]["total_bytes"] > 0
    assert report["numa"] and report["numa"][0]["cpus"]
    assert report["paths"] == []


def test_a_path_that_serves(penstock, tmp_path):
    report = penstock.json("doctor", "--path", tmp_path)
    (path,) = report["paths"]
    assert path["usable"] is True and path["problem"] is None
    assert path["file_system"]
    assert path["free_bytes"] > 0
    assert path["direct_io"]["supported"] or path["direct_io"]["reason"]
    assert any(str(tmp_path) in line for line in report["uses"])
    assert list(tmp_path.iterdir()) == [], "nothing is left behind"


def test_several_paths_and_text(penstock, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    done = penstock("doctor", "--path", tmp_path, "--path", other)
    assert done.returncode == 0
    assert f"{tmp_path}: yes" in done.stdout and f"{other}: yes" in done.stdout
    for label in ("kernel", "engines", "memlock", "huge pages", "NUMA", "GPUs", "runtimes", "will use", "to change"):
        assert label in done.stdout


def test_a_missing_path_is_said_not_made(penstock, tmp_path):
    missing = tmp_path / "missing"
    done = penstock("doctor", "--path", missing)
    assert done.returncode == 1
    assert_one_sentence(done, str(missing), "does not exist")
    assert not missing.exists()
    report = penstock.json("doctor", "--path", missing, code=1)
    assert report["healthy"] is False
    assert report["paths"][0]["usable"] is False


def test_a_file_in_the_way(penstock, tmp_path):
    file = tmp_path / "file"
    file.write_text("x")
    done = penstock("doctor", "--path", file)
    assert done.returncode == 1
    assert_one_sentence(done, str(file), "is not a directory")
    assert file.read_text() == "x"


def test_a_file_system_that_is_only_read(penstock):
    done = penstock("doctor", "--path", "/proc")
    assert done.returncode == 1
    assert_one_sentence(done, "/proc")


def test_memory_dressed_as_a_disk_is_pointed_out(penstock):
    if not os.access("/dev/shm", os.W_OK) or not os.path.ismount("/dev/shm"):
        pytest.skip("no tmpfs at /dev/shm that can be written")
    report = penstock.json("doctor", "--path", "/dev/shm")
    if report["paths"][0]["file_system"] != "tmpfs":
        pytest.skip("/dev/shm is no tmpfs here")
    assert any("nothing is saved" in line for line in report["advice"])


def test_a_user_without_rights(penstock, tmp_path):
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o555)
    done = penstock("doctor", "--path", closed)
    assert done.returncode == 1
    assert_one_sentence(done, str(closed), "Permission denied")


def test_runtimes_of_accelerators_or_why_not(penstock):
    report = penstock.json("doctor")
    assert [runtime["name"] for runtime in report["device_runtimes"]] == ["cuda", "hip"]
    text = penstock("doctor").stdout
    for runtime in report["device_runtimes"]:
        assert runtime["usable"] == bool(runtime["devices"])
        assert runtime["usable"] or f"{runtime['name']}: no, {runtime['reason']}" in text
        for device in runtime["devices"]:
            assert f"{runtime['name']}:{device['number']}: {device['name']}" in text


def test_direct_storage_or_why_not(penstock, tmp_path):
    report = penstock.json("doctor", cwd=tmp_path)
    found = [(storage["runtime"], storage["library"]) for storage in report["direct_storage"]]
    assert found == [("cuda", "cuFile"), ("hip", "hipFile")]
    text = penstock("doctor", cwd=tmp_path).stdout
    devices = {runtime["name"]: runtime["devices"] for runtime in report["device_runtimes"]}
    for storage in report["direct_storage"]:
        assert storage["direct"] == (storage["reason"] is None)
        assert not storage["direct"] or (storage["present"] and devices[storage["runtime"]])
        name = " ".join(filter(None, [storage["library"], storage["version"]]))
        if storage["direct"]:
            assert f"{name}: direct\n" in text
        elif storage["present"]:
            assert f"{name}: not direct ({storage['reason']})" in text
        else:
            assert f"{storage['library']}: not here ({storage['reason']})" in text
    assert list(tmp_path.iterdir()) == [], "a library of theirs left something behind"

"""What an attacker can do to `inspect` and `verify` with a checkpoint of DeepSpeed."""

import json
import os
import pickle
import shutil
import struct

import pytest
from cli_support import assert_one_sentence, safetensors_bytes

torch = pytest.importorskip("torch")
from checkpoint_files import (
    STUBS,
    model_state,
    optimizer_state,
    replace_pickle,
    shard,
)


class Command:
    """What pickle.load would run."""

    def __init__(self, command):
        self.command = command

    def __reduce__(self):
        return os.system, (self.command,)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_a_pickle_is_not_run(penstock, run, tmp_path, protocol):
    mark = tmp_path / "it ran"
    state = {"global_steps": 3, "dp_world_size": 1, "param_shapes": [{"w": (4, 4)}], "x": Command(f"touch '{mark}'")}
    code = pickle.dumps(state, protocol)
    pickle.loads(code)
    assert mark.exists(), "Python's reader runs it"
    mark.unlink()
    for path in sorted((run / "global_step500").glob("*.pt")):
        replace_pickle(path, code)
    (run / "model.safetensors").write_bytes(safetensors_bytes(STUBS))
    replace_pickle(run / "pytorch_model.bin", code)
    report = penstock.json("inspect", run, code=1)
    assert report["step"] == 3 and [tensor["name"] for tensor in report["tensors"]] == ["w"]
    assert penstock("verify", run).returncode == 0
    assert not mark.exists()


def text(value):
    return b"X" + struct.pack("<I", len(value)) + value.encode()


def long(value):
    return b"\x8a\x08" + struct.pack("<q", value)


def claiming(elements, ranks=2):
    """A model state whose tensor claims so many elements."""
    storage = b"(" + text("storage") + b"ctorch\nFloatStorage\n" + text("0") + text("cpu") + long(elements) + b"tQ"
    size = b"(" + long(elements) + b"t"
    tensor = b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + long(0) + size + size + b"\x89}tR"
    return (
        b"\x80\x02}(" + text("module") + b"}" + text("w") + tensor + b"s"
        + text("dp_world_size") + long(ranks) + text("global_steps") + long(5)
        + text("param_shapes") + b"](}(" + text("w") + b"(" + long(elements) + long(elements) + b"tue" + b"u."
    )  # fmt: skip


def test_numbers_are_not_believed(penstock, tmp_path):
    folder = tmp_path / "run" / "global_step5"
    folder.mkdir(parents=True)
    huge = 1 << 60
    replace_pickle(folder / shard(0), claiming(huge, huge), {"0": bytes(64)})
    report = penstock.json("inspect", tmp_path / "run", code=1)
    assert report["tensors"][0]["shape"] == [huge, huge]
    assert report["data_parallel"] == 1 and any("not believed" in note for note in report["notes"])
    (file,) = report["files"]
    assert "of record data/0, which has 64" in file["problem"]
    (bad,) = penstock.json("verify", tmp_path / "run", code=1)["bad"]
    assert "tensor module.w" in bad["problem"]


def strided(size, stride, offset):
    """A model state with a tensor in a storage of 16 floats."""
    storage = b"(" + text("storage") + b"ctorch\nFloatStorage\n" + text("0") + text("cpu") + long(16) + b"tQ"
    numbers = [b"(" + b"".join(map(long, part)) + b"t" for part in (size, stride)]
    tensor = b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + long(offset) + b"".join(numbers) + b"\x89}tR"
    return b"\x80\x02}" + text("module") + b"}" + text("w") + tensor + b"ss."


@pytest.mark.parametrize(
    "size, stride, offset, claimed",
    [
        ((16,), (1,), 0, None),
        ((4, 4), (1, 4), 0, None),
        ((), (), 15, None),
        ((1 << 40, 2), (0, 1), 14, None),  # expanded
        ((1, 1), (1 << 62, 1 << 62), 15, None),
        ((0, 3), (3, 1), 1 << 60, None),
        ((17,), (1,), 0, 68),
        ((160,), (1,), 0, 640),
        ((16,), (1,), 1, 68),
        ((4, 4), (5, 1), 0, 76),
        ((), (), 16, 68),
        ((1 << 40, 2), (0, 1), 15, 68),
        ((3, 3), (1 << 62, 1 << 62), 0, (1 << 64) - 1),
        ((4, 4), (1,), 0, (1 << 64) - 1),
        ((2,), (-1,), 3, (1 << 64) - 1),
    ],
)
def test_a_tensor_ends_within_its_record(penstock, tmp_path, size, stride, offset, claimed):
    """As torch sees it, which refuses to resize a storage of a file."""
    folder = tmp_path / "global_step5"
    folder.mkdir()
    path = folder / shard(0)
    replace_pickle(path, strided(size, stride, offset), {"0": bytes(64)})
    if claimed is None:
        assert torch.load(path)["module"]["w"].shape == size
    else:
        with pytest.raises(RuntimeError):
            torch.load(path)
    problems = [file["problem"] for file in penstock.json("inspect", folder, code=1)["files"]]
    bad = [part["problem"] for part in penstock.json("verify", folder, code=1)["bad"]]
    sentence = f"{path}: tensor module.w: it claims {claimed} bytes of record data/0, which has 64"
    assert problems == [sentence if claimed else None] and bad == ([sentence] if claimed else [])


def test_a_bomb_of_references(penstock, tmp_path):
    """2^60 lists, written as sixty: what they hold is visited once."""
    folder = tmp_path / "run" / "global_step5"
    folder.mkdir(parents=True)
    levels = b"".join(b"](h" + bytes([i]) + b"h" + bytes([i]) + b"eq" + bytes([i + 1]) for i in range(60))
    code = b"\x80\x02}(" + text("param_shapes") + b"]q\x00" + levels + text("dp_world_size") + long(1) + b"u."
    replace_pickle(folder / shard(0), code)
    assert penstock.json("inspect", tmp_path / "run", code=1)["data_parallel"] == 1


def test_deep_pickles(penstock, tmp_path):
    folder = tmp_path / "run" / "global_step5"
    folder.mkdir(parents=True)
    replace_pickle(folder / shard(0), b"\x80\x02)" + b"\x85" * 1_000_000 + b".")
    assert penstock("inspect", tmp_path / "run").returncode == 1


def test_links_are_followed(penstock, run, tmp_path):
    """The hub's cache is made of them."""
    blobs = tmp_path / "blobs"
    shutil.move(run / "global_step500", blobs)
    (run / "global_step500").mkdir()
    for path in blobs.iterdir():
        (run / "global_step500" / path.name).symlink_to(path)
    (tmp_path / "snapshot").symlink_to(run)
    assert penstock.json("inspect", tmp_path / "snapshot")["resume"]["possible"]
    assert penstock.json("verify", tmp_path / "snapshot")["good"]


def fifo(file):
    os.mkfifo(file)


def device(file):
    os.mknod(file, 0o020600, os.makedev(1, 5))  # /dev/zero, which never ends


def link_to_device(file):
    file.symlink_to("/dev/zero")


def dangling(file):
    file.symlink_to(file.parent / "nothing")


@pytest.mark.parametrize("kind", [fifo, device, link_to_device, dangling, os.mkdir])
def test_what_is_no_regular_file(penstock, run, kind):
    if kind is device and os.geteuid() != 0:
        pytest.skip("only root makes devices")
    path = run / "global_step500" / shard(1)
    for name in (path, run / "model.safetensors", run / "pytorch_model.bin"):
        name.unlink(missing_ok=True)
        kind(name)
    for verb in ("inspect", "verify"):
        done = penstock(verb, run)
        assert done.returncode == 1, done.stdout
        assert str(path) in done.stdout
    latest = run / "latest"
    latest.unlink()
    kind(latest)
    assert_one_sentence(penstock("inspect", run), "latest")


def test_names_for_a_terminal(penstock, run):
    """Control characters in a tensor's name do nothing to the terminal that it is shown on."""
    groups = ({"evil\x1b[2J\nname": (4,)},)
    for rank in range(2):
        torch.save(model_state(3, 2, rank, groups=groups), run / "global_step500" / shard(rank))
        torch.save(optimizer_state(3, 2, groups=groups), run / "global_step500" / shard(rank, "optim"))
    done = penstock("inspect", run)
    assert done.returncode == 0 and "\x1b" not in done.stdout and "evil" in done.stdout
    names = [tensor["name"] for tensor in json.loads(penstock("inspect", run, "--json").stdout)["tensors"]]
    assert not any("\x1b" in name for name in names)

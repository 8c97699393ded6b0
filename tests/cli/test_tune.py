"""`penstock tune` end to end on a small model, and what it leaves behind."""

import contextlib
import json
import os
import pty
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from cli_support import DATA, assert_one_sentence

FULL = DATA / "full-finetune.json"
BUDGET = ("--time-budget", "5s")
MEMORY = ("--memory", "24GiB")


@pytest.fixture
def drive():
    """A directory with direct I/O: pytest's own may lie in RAM."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("PENSTOCK_TMP")) as directory:
        yield Path(directory)


@pytest.fixture
def inventory(write):
    """Twelve matrices of 2 MiB and an embedding of 24 MiB."""
    tensors = [{"name": "model.embed_tokens.weight", "dtype": "bf16", "shape": [12288, 1024], "role": "param"}]
    for layer in range(12):
        name = f"model.layers.{layer}.mlp.up_proj.weight"
        tensors.append({"name": name, "dtype": "bf16", "shape": [1024, 1024], "role": "param"})
    return write("model.json", {"tensors": tensors})


def config_on(write, drive):
    config = json.loads(FULL.read_text())
    for section in ("offload_param", "offload_optimizer"):
        config["zero_optimization"][section]["nvme_path"] = str(drive)
    return write("ds.json", config)


def without(document, *dotted):
    """A copy of a document without some keys."""
    copy = json.loads(json.dumps(document))
    for key in dotted:
        *parents, last = key.split(".")
        target = copy
        for parent in parents:
            target = target.get(parent, {})
        target.pop(last, None)
    return copy


TUNED = (
    "penstock",
    "zero_optimization.offload_param.buffer_count",
    "zero_optimization.offload_param.buffer_size",
    "zero_optimization.offload_param.nvme_path",
    "zero_optimization.offload_optimizer.nvme_path",
)


def test_everything_at_once(penstock, write, drive, inventory, tmp_path):
    given = config_on(write, drive)
    out = tmp_path / "out.json"
    done = penstock("tune", "--path", drive, inventory, "--config", given, "-o", out, *BUDGET, *MEMORY)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    old, new = json.loads(given.read_text()), json.loads(out.read_text())
    assert list(new)[: len(old)] == list(old), "keys stay in their order"
    assert without(new, *TUNED) == without(old, *TUNED)
    assert new["zero_optimization"]["offload_param"]["nvme_path"] == str(drive)
    assert new["zero_optimization"]["offload_param"]["buffer_size"] == 12288 * 1024
    [path] = new["penstock"]["paths"]
    assert path["path"] == str(drive) and path["read_bytes_per_second"] > 0 and path["write_bytes_per_second"] > 0
    for key in (
        "offload_param.buffer_size",
        "penstock.paths",
        "old",
        "new",
        "why",
    ):
        assert key in done.stdout
    assert "lower bound" in done.stdout
    plan = penstock.json("plan", inventory, "--config", out, *MEMORY)
    assert plan["feasible"] is True and plan["deepspeed_error"] is None
    # What this file lets penstock keep in RAM is kept: the optimizer's step is all that is left, if anything.
    assert plan["per_step"]["lower_bound_seconds"] >= 0
    assert list(drive.iterdir()) == []


def check_aio(aio):
    """Of the types that the handle takes, which ds_nvme_tune's are not."""
    assert {type(aio[key]) for key in ("block_size", "queue_depth", "intra_op_parallelism")} == {int}
    assert {type(aio[key]) for key in ("single_submit", "overlap_events")} == {bool}
    assert "num_threads" not in aio


@pytest.mark.deep
def test_without_a_file_the_configuration_goes_to_standard_output(penstock, drive, inventory):
    done = penstock("tune", "--path", ".", inventory, *BUDGET, *MEMORY, "--ram", "0", cwd=drive)
    assert done.returncode == 0, done.stderr
    config = json.loads(done.stdout)
    assert config["zero_optimization"]["stage"] == 3
    # Training may start in another directory.
    assert config["zero_optimization"]["offload_param"]["nvme_path"] == str(drive)
    assert config["bf16"] == {"enabled": True}
    check_aio(config["aio"])
    assert "aio.queue_depth" in done.stderr and "MB/s" in done.stderr


def test_the_document(penstock, write, drive, inventory):
    given = config_on(write, drive)
    document = penstock.json("tune", "--path", drive, inventory, "--config", given, *BUDGET, *MEMORY, "--ram", "0")
    assert list(document) == [
        "schema", "interrupted", "trials", "trial_seconds", "mix", "paths", "together", "per_step", "changes",
        "warnings", "config",
    ]  # fmt: skip
    assert document["schema"] == "penstock.tune/1" and document["interrupted"] is False
    [path] = document["paths"]
    assert path["used"] is True and path["mixed_bytes_per_second"] > 0
    # Parameters are few enough for prefetching to keep them from forward to backward; the tied embedding is read at
    # both ends of forward. All are written once; master and moments are read and written.
    per_step = document["per_step"]
    elements = 12288 * 1024 + 12 * 1024 * 1024
    assert per_step["new"]["read_bytes"] == (2 + 12) * elements + 2 * 12288 * 1024
    assert per_step["new"]["write_bytes"] == (2 + 12) * elements
    assert 0 < per_step["new"]["lower_bound_seconds"] <= per_step["new"]["expected_seconds"] * 1.5
    changes = {row["key"]: row for row in document["changes"]}
    assert all(row["why"] for row in document["changes"])
    assert changes["zero_optimization.offload_param.buffer_size"]["old"] == "160000000.0"
    assert changes["zero_optimization.offload_param.buffer_size"]["new"] == str(12288 * 1024)
    # The document's configuration plans as the file would.
    plan = penstock.json("plan", inventory, "--config", write("new.json", document["config"]), *MEMORY, "--ram", "0")
    assert plan["per_step"]["lower_bound_seconds"] == pytest.approx(per_step["new"]["lower_bound_seconds"])


@pytest.mark.deep
def test_several_paths_and_one_that_is_given_twice(penstock, drive, inventory):
    first, second = drive / "a", drive / "b"
    first.mkdir()
    second.mkdir()
    document = penstock.json("tune", "--path", first, second, f"{second}/", inventory, *BUDGET, *MEMORY)
    assert [path["path"] for path in document["paths"]] == [str(first), str(second)]
    used = [path["path"] for path in document["paths"] if path["used"]]
    entries = document["config"]["penstock"]["paths"]
    assert sorted(entry["path"] for entry in entries) == sorted(used)
    assert all(("weight" in entry) == (len(entries) > 1) for entry in entries)
    assert document["config"]["zero_optimization"]["offload_param"]["nvme_path"] == entries[0]["path"]
    assert list(first.iterdir()) == list(second.iterdir()) == []


@pytest.mark.deep
def test_the_paths_of_the_configuration_are_measured_by_default(penstock, write, drive, inventory):
    swap = drive / "swap"
    swap.mkdir()
    config = json.loads(config_on(write, swap).read_text())
    config["penstock"] = {"paths": [{"path": str(swap), "max_bytes": "1GiB"}], "engine": "threads"}
    document = penstock.json("tune", inventory, "--config", write("ours.json", config), *BUDGET, *MEMORY)
    assert document["config"]["penstock"]["engine"] == "threads"
    [entry] = document["config"]["penstock"]["paths"]
    assert entry["path"] == str(swap) and entry["max_bytes"] == "1GiB" and entry["read_bytes_per_second"] > 0


@pytest.mark.deep
def test_a_path_below_the_one_that_is_measured_stays(penstock, write, drive, inventory):
    config = config_on(write, drive / "swap" / "run1")
    document = penstock.json("tune", "--path", drive, inventory, "--config", config, *BUDGET, *MEMORY)
    assert document["config"]["zero_optimization"]["offload_param"]["nvme_path"] == str(drive / "swap" / "run1")
    assert document["config"]["penstock"]["paths"][0]["path"] == str(drive / "swap" / "run1")
    assert list(drive.iterdir()) == []


@pytest.mark.parametrize(
    "arguments, parts",
    [
        (["{inventory}"], ["--path", "required"]),
        (["--path", "{drive}"], ["INVENTORY"]),
        (["--path", "{drive}", "{inventory}", "--time-budget", "1s"], ["--time-budget", "5 s at least"]),
        (["--path", "{drive}", "{inventory}", "--time-budget", "soon"], ["--time-budget", "soon"]),
        (["--path", "{drive}", "{inventory}", "--max-pinned", "x"], ["--max-pinned"]),
    ],
)
def test_wrong_usage(penstock, drive, inventory, arguments, parts):
    done = penstock("tune", *[text.format(drive=drive, inventory=inventory) for text in arguments])
    assert done.returncode == 2 and done.stdout == ""
    assert_one_sentence(done, *parts)


def test_what_cannot_be_measured(penstock, write, drive, inventory, tmp_path):
    def refused(*arguments):
        done = penstock("tune", inventory, *BUDGET, *arguments)
        assert done.returncode == 1 and done.stdout == ""
        assert list(drive.iterdir()) == []
        return done

    missing = drive / "missing"
    assert_one_sentence(refused("--path", missing), str(missing), "No such file or directory")
    assert_one_sentence(refused("--path", drive, "--path", missing), str(missing))
    a_file = write("file", "x")
    assert_one_sentence(refused("--path", a_file), str(a_file), "Not a directory")
    on_cpu = json.loads(FULL.read_text())
    for section in ("offload_param", "offload_optimizer"):
        on_cpu["zero_optimization"][section]["device"] = "cpu"
    in_ram = write("cpu.json", on_cpu)
    assert_one_sentence(refused("--path", drive, "--config", in_ram), "nothing of this model goes to a drive")
    assert_one_sentence(refused("--path", drive, "-o", tmp_path / "no" / "out.json"), "out.json", "No such file")
    assert_one_sentence(refused("--path", drive, "-o", tmp_path), str(tmp_path), "no file")
    assert_one_sentence(refused("--path", drive, "--max-pinned", "1MiB"), "not feasible")
    assert_one_sentence(refused("--path", drive, "--config", write("bad.json", "{")), "bad.json")


def test_a_directory_whose_name_is_not_utf8(penstock, inventory, tmp_path):
    directory = os.path.join(os.fsencode(tmp_path), b"drive\xff")
    os.mkdir(directory)
    command = [penstock.binary, "tune", "--path", directory, inventory, *BUDGET]
    done = subprocess.run(command, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (1, b""), "JSON would name another directory"
    assert directory in done.stderr and b"not UTF-8" in done.stderr


@pytest.fixture
def failing_writes(tmp_path):
    """An environment in which nothing can be written to files of a directory named `broken`."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler, to make writes that fail")
    library = tmp_path / "failing_writes.so"
    source = Path(__file__).parent / "failing_writes.c"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source], check=True, capture_output=True)
    return {"LD_PRELOAD": str(library)}


def test_the_drive_that_fails_is_named(penstock, drive, inventory, failing_writes):
    good, broken = drive / "good", drive / "broken"
    good.mkdir()
    broken.mkdir()
    done = penstock("tune", "--path", good, "--path", broken, inventory, *BUDGET, env=failing_writes)
    assert done.returncode == 1
    assert_one_sentence(done, f"cannot measure {broken}: ", "cannot write the file to measure with: Input/output error")


def test_a_full_disk(penstock, inventory, tmp_path):
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("mounting a tmpfs needs root and unshare")
    full = tmp_path / "full"
    full.mkdir()
    script = f'mount -t tmpfs -o size=8m none {full} && "$@"; status=$?; ls -A {full}; exit $status'
    command = [penstock.binary, "tune", "--path", full, inventory, *BUDGET]
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, "sh", *map(str, command)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if "unshare" in done.stderr or "mount:" in done.stderr:
        pytest.skip(f"this machine allows no mounts: {done.stderr.strip()}")
    if "direct I/O" in done.stderr:
        pytest.skip("this kernel's tmpfs has no direct I/O")
    assert done.returncode == 1
    assert_one_sentence(done, str(full), "No space left on device")
    assert done.stdout == "", "nothing is left"


def begin(penstock, *arguments):
    command = [penstock.binary, "tune", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for_bytes(process, count):
    """Until the process has read so many bytes from drives: its trials have begun."""
    end = time.monotonic() + 60
    while time.monotonic() < end and process.poll() is None:
        fields = dict(line.split(": ") for line in Path(f"/proc/{process.pid}/io").read_text().splitlines())
        if int(fields["read_bytes"]) >= count:
            return
        time.sleep(0.01)
    pytest.fail("the trials have not begun")


def test_interrupted(penstock, write, drive, inventory, tmp_path):
    given = config_on(write, drive)
    out = tmp_path / "out.json"
    process = begin(penstock, "--path", drive, inventory, "--config", given, "-o", out, "--time-budget", "10m", *MEMORY)
    wait_for_bytes(process, 64 << 20)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 1
    assert stderr.startswith("penstock: interrupted") and stderr.count("\n") == 1
    assert list(drive.iterdir()) == []
    if out.exists():  # all paths had been measured
        assert json.loads(out.read_text())["penstock"]["paths"]
        assert "MB/s" in stdout
    else:
        assert stdout == ""


def test_the_input_may_be_the_output(penstock, write, drive, inventory):
    given = config_on(write, drive)
    given.chmod(0o640)
    done = penstock("tune", "--path", drive, inventory, "--config", given, "-o", given, *BUDGET, *MEMORY)
    assert done.returncode == 0, done.stderr
    assert json.loads(given.read_text())["penstock"]["paths"]
    assert given.stat().st_mode & 0o777 == 0o640
    assert [path.name for path in given.parent.iterdir() if path.name.startswith(".")] == []


def test_help_teaches(penstock):
    done = penstock("tune", "--help")
    assert done.returncode == 0 and done.stderr == ""
    for word in ("--time-budget", "beyond the noise", "Ctrl-C", "penstock tune --path /nvme0"):
        assert word in done.stdout


def test_a_terminal_shows_how_long_it_takes(penstock, drive, inventory):
    terminal, stderr = pty.openpty()
    command = [penstock.binary, "tune", "--path", drive, inventory, *BUDGET, *MEMORY, "--json"]
    with subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE, stderr=stderr, text=True) as process:
        os.close(stderr)
        shown = b""
        with contextlib.suppress(OSError):  # a terminal without a writer ends with EIO
            while piece := os.read(terminal, 4096):
                shown += piece
        json.load(process.stdout)
    os.close(terminal)
    assert process.returncode == 0
    assert b"MB/s, at most" in shown and b"s left" in shown
    assert shown.endswith(b"\r\x1b[K"), "the line goes away"

"""penstock bench: job files and keys, forms of report, errors, exit statuses, Ctrl-C."""

import errno
import json
import os
import signal
import subprocess

import pytest

FORMATS = ("normal", "json")


@pytest.fixture
def bench(penstock, tmp_path):
    """Runs the verb with files below tmp_path; the arguments are keys."""

    def run(*arguments, **options):
        return penstock("bench", *arguments, cwd=tmp_path, **options)

    return run


@pytest.fixture
def report(bench):
    """The one JSON document of a run."""

    def run(*arguments, code=0):
        done = bench(*arguments, "--output-format=json")
        assert done.returncode == code, done.stderr
        return json.loads(done.stdout)

    return run


def keys(**values):
    return [f"--{key}={value}" for key, value in {"name": "x", "size": "1m", "bs": "64k", **values}.items()]


def test_a_fio_script_finds_its_keys(report):
    document = report(*keys(rw="rw", rwmixread=75, size="8m"))
    assert document["schema"] == "penstock.bench/1"
    assert document["penstock version"]
    assert "--rwmixread=75" in document["command"]
    (job,) = document["jobs"]
    assert (job["jobname"], job["error"], job["groupid"]) == ("x", 0, 0)
    assert job["job options"]["rw"] == "rw"
    assert job["read"]["io_bytes"] + job["write"]["io_bytes"] == 8 << 20
    assert abs(job["read"]["total_ios"] - 96) <= 1
    for direction in ("read", "write"):
        assert set(job[direction]) == {
            "io_bytes", "io_kbytes", "bw_bytes", "bw", "iops", "runtime", "total_ios", "short_ios", "clat_ns",
        }  # fmt: skip
        assert {"min", "max", "mean", "stddev", "N", "percentile"} <= set(job[direction]["clat_ns"])
        assert "99.000000" in job[direction]["clat_ns"]["percentile"]


def test_job_files_and_keys_over_them(bench, tmp_path, write):
    path = write("x.job", "[global]\nsize=1m\nbs=64k\n[one]\nrw=write\n[two]\nstonewall\nrw=read\nfilename=one.0.0\n")
    done = bench(path, "--output-format=json")
    assert done.returncode == 0, done.stderr
    one, two = json.loads(done.stdout)["jobs"]
    assert (one["write"]["total_ios"], two["read"]["total_ios"]) == (16, 16)
    assert two["groupid"] == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == ["one.0.0", "x.job"]


@pytest.mark.parametrize("form", FORMATS)
def test_every_form_goes_to_a_file_as_to_the_output(bench, tmp_path, form):
    shown = bench(*keys(), f"--output-format={form}")
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout
    filed = bench(*keys(), f"--output-format={form}", "--output=out")
    assert (filed.returncode, filed.stdout) == (0, "")
    text = (tmp_path / "out").read_text()
    if form == "json":
        assert json.loads(text)["jobs"][0]["read"]["io_bytes"] == 1 << 20
    else:
        assert "1.0 MiB in" in text
    piped = bench(*keys(), f"--output-format={form}", "--output=/dev/stdout")
    assert piped.returncode == 0 and piped.stdout.startswith(text[:5]), piped.stderr


def test_a_missing_directory(report, bench, tmp_path):
    document = report(*keys(directory="none"), code=1)
    assert document["jobs"][0]["error"] == errno.ENOENT
    done = bench(*keys(directory="none"))
    assert done.returncode == 1
    assert "none/x.0.0: No such file or directory" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_one_job_fails_and_the_others_are_told_of(report):
    good = ["--name=good", "--name=later", "--stonewall"]
    document = report("--bs=64k", "--size=1m", "--name=bad", "--directory=none", *good, code=1)
    bad, *others = document["jobs"]
    assert bad["error"] == errno.ENOENT
    assert [(job["error"], job["read"]["io_bytes"]) for job in others] == [(0, 1 << 20)] * 2


def test_threads_that_share_a_file_lay_it_out_once(report):
    jobs = report(*keys(filename="shared", numjobs=4))["jobs"]
    assert [(job["error"], job["read"]["io_bytes"]) for job in jobs] == [(0, 1 << 20)] * 4


@pytest.fixture
def small_disk(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "none", disk], capture_output=True, text=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip(mounted.stderr.strip())
    yield disk
    subprocess.run(["umount", disk], check=True)


@pytest.mark.parametrize("rw", ["read", "write"])
def test_a_full_disk(report, small_disk, rw):
    document = report(*keys(directory=small_disk, rw=rw, size="16m"), code=1)
    assert document["jobs"][0]["error"] == errno.ENOSPC
    assert "No space left on device" in document["jobs"][0]["error_message"]


def test_a_read_only_disk(report, small_disk):
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    document = report(*keys(directory=small_disk, rw="write"), code=1)
    assert document["jobs"][0]["error"] == errno.EROFS


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["--name=x", "--iodpth=3"], "iodepth"),
        (["--name=x", "--rw=randread"], "fio"),
        (["--name=x", "--bs=zero"], "bs"),
        (["--output-format=jsn", "--name=x"], "jsn"),
        (["--eta=soon", "--name=x", "--size=1m"], "eta"),
    ],
)
def test_wrong_usage(bench, arguments, hint):
    done = bench(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert hint in done.stderr


def test_no_job_at_all(bench):
    done = bench()
    assert done.returncode == 2
    assert "there is no job" in done.stderr


def test_a_job_file_that_is_not_there(bench):
    done = bench("none.job")
    assert done.returncode in (1, 2)
    assert "none.job" in done.stderr


def test_parse_only_runs_nothing(bench, tmp_path, write):
    path = write("x.job", "[a]\nrw=write\nsize=1m\n[b]\nrw=read\nsize=2m\n")
    done = bench(path, "--parse-only")
    assert (done.returncode, done.stdout) == (0, "")
    assert [p.name for p in tmp_path.iterdir()] == ["x.job"]


def test_a_share_of_a_file_at_a_rate(report, tmp_path):
    (tmp_path / "f").write_bytes(b"x" * (2 << 20))
    (job,) = report("--name=x", "--filename=f", "--size=50%", "--bs=64k", "--rate=4m")["jobs"]
    assert job["read"]["io_bytes"] == 1 << 20
    assert 200 <= job["read"]["runtime"]
    assert job["read"]["bw_bytes"] <= 5 << 20


def test_cpus_allowed(bench, report):
    cpu = min(os.sched_getaffinity(0))
    assert report(*keys(cpus_allowed=cpu))["jobs"][0]["job options"]["cpus_allowed"] == str(cpu)
    done = bench(*keys(cpus_allowed=1023))
    assert done.returncode == 1
    assert "cpus_allowed=1023" in done.stderr


def test_no_status_line_in_a_pipe_but_with_always(bench):
    timed = keys(rw="read", time_based=1, runtime=2)
    assert bench(*timed, "--eta=auto").stderr == ""
    assert bench(*timed, "--eta=never").stderr == ""
    assert "1 job, " in bench(*timed, "--eta=always").stderr


def test_a_line_of_progress_in_each_interval(bench):
    done = bench(*keys(rw="read", time_based=1, runtime=3), "--status-interval=1s", "--eta=never")
    assert done.returncode == 0
    assert 2 <= done.stderr.count("1 job, ") <= 3
    assert bench(*keys(), "--status-interval=0").returncode == 2


@pytest.fixture
def started(penstock, tmp_path):
    """A run that would last for an hour, once it moves bytes; it does not outlive its test."""
    processes = []

    def start(*more):
        processes.append(begin_an_hour(penstock, tmp_path, *more))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def begin_an_hour(penstock, tmp_path, *more):
    arguments = [penstock.binary, "bench", *keys(rw="read", time_based=1, runtime=3600), "--eta=always", *more]
    process = subprocess.Popen(arguments, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for line in process.stderr:
        if "reading" in line:
            return process
    pytest.fail("it ended before it read anything")


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interruption_ends_with_a_report(started, how):
    process = started("--output-format=json")
    process.send_signal(how)
    output, error = process.communicate(timeout=60)
    assert process.returncode == 1
    (job,) = json.loads(output)["jobs"]
    assert job["interrupted"] is True
    assert job["error"] == 0
    assert job["read"]["io_bytes"] > 0
    assert "interrupted" in error


def test_a_second_interruption_ends_at_once(started):
    process = started()
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGTERM)  # another one, so that the kernel cannot take two for one
    process.wait(timeout=60)
    assert process.returncode in (128 + signal.SIGINT, 128 + signal.SIGTERM)
    assert process.stdout.read() == ""


def test_help_teaches(penstock):
    done = penstock("bench", "--help")
    assert done.returncode == 0
    assert "penstock bench --name=" in done.stdout
    for key in ("rwmixread", "cpus_allowed", "inventory", "pair", "--output-format"):
        assert key in done.stdout
    assert "bench" in penstock("--help").stdout


@pytest.mark.parametrize("option", ["output", "plot"])
def test_output_that_goes_nowhere_is_found_before_anything_runs(bench, tmp_path, option):
    done = bench(*keys(), f"--{option}=none/out")
    assert done.returncode == 1
    assert "none/out: No such file or directory" in done.stderr
    assert list(tmp_path.iterdir()) == []

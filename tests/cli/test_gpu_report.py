"""bench/gpu: from rows to docs/GPU.md, and what figures are read from. Needs no GPU."""

import json
import subprocess
import sys

import pytest
from cli_support import DATA, ROOT

GPU = DATA.parent / "gpu"
sys.path[:0] = [str(GPU), str(DATA.parent)]

from contract import outcomes
from gpu_job import LIMITS, TITLE, last_error, page
from stage import Stage, verdict
from turns import abba, interval, quartiles


@pytest.fixture
def stage(monkeypatch, tmp_path):
    rows = tmp_path / "x.rows"
    arguments = ["--device", "host:0", "--swap", tmp_path, "--work", tmp_path, "--rows", rows, "--seconds", "9"]
    monkeypatch.setattr(sys, "argv", ["stage", *map(str, arguments)])
    made = Stage()
    made.rows = lambda: json.loads(rows.read_text())
    return made


def test_a_row_with_all_that_is_known_of_it(stage):
    stage.median("a ratio", [0.97, 0.96, 0.98], "s", at_least=0.95, note="said")
    measured = "0.970 s (95 %: 0.960 to 0.980; quartiles 0.965 to 0.975; 3 pairs)"
    assert stage.rows() == [["a ratio", measured, "at least 0.95: met", "said"]]


def test_a_figure_that_is_measured_again_replaces_its_row(stage):
    stage.row("one", "1")
    stage.row("two", "2")
    stage.row("one", "3")
    assert stage.rows() == [["one", "3", "", ""], ["two", "2", "", ""]]
    assert 0 < stage.seconds_left() <= 9


@pytest.mark.parametrize(
    "ends, said",
    [((0.96, 0.99), "met"), ((0.94, 0.99), "unclear"), ((0.89, 0.91), "**missed**"), ((0.95, 0.95), "met")],
)
def test_goals(ends, said):
    assert verdict(ends, 0.95) == f"at least 0.95: {said}"


def test_the_page_has_every_row_and_the_machine():
    rows = [["a ratio", "0.970", "at least 0.95: met", ""], ["the rest", "not run: no drive\n| at all", "", ""]]
    document = {"when": "2026-01-02", "device": "cuda:0", "machine": "Card; commit abc", "stages": {"throughput": rows}}
    text = page(document)
    assert text.startswith(f"{TITLE}\n\n`bench/gpu/run`, 2026-01-02: Card; commit abc.\n")
    table = [line for line in text.splitlines() if line.startswith("| ")]
    assert len(table) == 2 + len(LIMITS) + 1
    assert all(line.replace("\\|", "").count("|") == 6 for line in table)
    assert "| throughput | a ratio | 0.970 | at least 0.95: met |  |" in table
    assert "| throughput | the rest | not run: no drive \\| at all |  |  |" in table
    assert "| pinning | all of it | not run: its stage was not asked for |  |  |" in table
    assert "rehearsal" not in text
    assert "**A rehearsal on a simulated device.**" in page({**document, "device": "host:0"})


def test_the_document_has_the_page():
    assert TITLE in (ROOT / "docs" / "BENCHMARKS.md").read_text()


def test_the_reason_of_a_stage_that_fails():
    assert last_error(f"Traceback\nOSError: no {ROOT}/drive\nbye\n") == "OSError: no drive"
    assert last_error("bye\n\n") == "bye"
    assert last_error("") == "it said nothing"


def test_pairs_take_turns_until_time_is_up():
    order = []
    sides = [lambda name=name: order.append(name) or name for name in "ab"]
    assert abba(*sides, 4, lambda: len(order) >= 6) == [("a", "b")] * 3
    assert "".join(order) == "abbaab"


def test_intervals_hold_the_median_and_repeat():
    ratios = [0.9, 0.95, 1.0, 1.02, 0.97, 0.99, 1.01, 0.96, 0.98, 1.03]
    low, high = interval(ratios, 500)
    assert min(ratios) <= low <= 0.985 <= high <= max(ratios)
    assert interval(ratios, 500) == (low, high)
    assert quartiles([1.0]) == (1.0, 1.0)


def test_tests_of_devices_are_told_apart_by_runtime():
    report = """<testsuites><testsuite>
      <testcase name="A/cuda" classname="DeviceContract" status="run" result="completed"/>
      <testcase name="B/cuda" classname="DeviceContract" status="run" result="skipped">
        <skipped message="x.cpp:72&#x0A;no such device&#x0A;"/></testcase>
      <testcase name="A/host" classname="DeviceContract" status="run" result="completed"/>
      <testcase name="C/cuda" classname="DeviceContract" status="run" result="completed">
        <failure message="x.cpp:9&#x0A;Expected equality"/></testcase>
    </testsuite></testsuites>"""
    assert outcomes(report, "cuda") == [
        ("passed", "DeviceContract.A/cuda", ""),
        ("skipped", "DeviceContract.B/cuda", "no such device"),
        ("failed", "DeviceContract.C/cuda", "Expected equality"),
    ]
    assert outcomes(report, "host") == [("passed", "DeviceContract.A/host", "")]


def test_a_run_of_fio():
    pytest.importorskip("torch")
    from throughput import read_fio

    job = {"read": {"io_bytes": 2 * 10**9, "runtime": 1000}, "usr_cpu": 2.0, "sys_cpu": 8.0, "job_runtime": 4000}
    run = read_fio("fio: a note\n" + json.dumps({"jobs": [job]}), "read")
    assert (run.bandwidth, run.cost) == (2.0, pytest.approx(0.2))


@pytest.mark.parametrize("script", ["gpu_job", *LIMITS])
def test_each_script_has_help_of_its_own(script):
    pytest.importorskip("torch")
    command = [sys.executable, GPU / f"{script}.py", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "--device" in done.stdout


@pytest.mark.parametrize("command", ["run", "pack"])
def test_help_teaches(command):
    done = subprocess.run([GPU / command, "--help"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"usage: bench/gpu/{command} ")
    assert "Example: bench/gpu/" in done.stdout
    assert command == "pack" or all(f"\n  {stage} " in done.stdout for stage in LIMITS)

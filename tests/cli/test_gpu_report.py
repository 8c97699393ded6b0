"""bench/gpu: from figures to the section of docs/BENCHMARKS.md, and what figures are read from. Needs no GPU."""

import json
import subprocess
import sys

import pytest
from cli_support import DATA, ROOT

GPU = DATA.parent / "gpu"
sys.path.insert(0, str(GPU))

from contract import judge
from contract import read as read_tests
from figure import STAGES, Figure, Outcome
from fio_flow import read as read_fio
from library_closure import header_rooms
from paired_ratio import abba, interval, quartiles
from report_text import TITLE, goal, measured, section

RATIO = Figure("ratio", "a ratio", at_least=0.95)
MACHINE = {"gpu": "Card", "driver": "driver 1", "cores": "16 cores", "kernel": "Linux 6"}


def document(**stages):
    told = {stage: {"figures": figures} for stage, figures in stages.items()}
    return {"when": "2026-01-02", "device": "cuda:0", "commit": "abc", "machine": MACHINE, "stages": told}


def test_a_figure_with_all_that_is_known_of_it():
    outcome = Outcome(0.9712, None, (0.951, 0.99), (0.96, 0.98), 12)
    assert measured(RATIO, outcome) == "0.971 (95 %: 0.951 to 0.990; quartiles 0.960 to 0.980; 12 pairs)"
    assert measured(Figure("s", "seconds", "s"), Outcome(12.34)) == "12.3 s"
    assert measured(Figure("n", "tests", "tests"), Outcome("3 passed")) == "3 passed tests"
    assert measured(RATIO, Outcome(0.0)) == "0.0"


def test_what_was_not_run_says_why():
    assert measured(RATIO, None) == "not run (no GPU yet): `bench/gpu/run`"
    assert measured(RATIO, Outcome(reason="no drive\n| at all")) == "not run: no drive \\| at all"


@pytest.mark.parametrize(
    "figure, value, ends, verdict",
    [
        (RATIO, 0.97, (0.96, 0.99), "at least 0.950: met"),
        (RATIO, 0.97, (0.94, 0.99), "at least 0.950: unclear"),
        (RATIO, 0.90, (0.89, 0.91), "at least 0.950: **missed**"),
        (RATIO, 0.95, None, "at least 0.950: met"),
        (Figure("pinned", "pinned", at_most=1.005), 1.01, None, "at most 1.005: **missed**"),
        (Figure("pinned", "pinned", at_most=1.005), 1.0, None, "at most 1.005: met"),
        (Figure("free", "of no goal"), 1.0, None, ""),
    ],
)
def test_goals(figure, value, ends, verdict):
    assert goal(figure, Outcome(value, interval=ends)) == verdict


def test_a_goal_of_what_was_not_run_is_only_told():
    assert goal(RATIO, None) == goal(RATIO, Outcome(reason="no drive")) == "at least 0.950"


def test_the_section_has_every_figure_and_the_machine():
    told = {"read_ratio": {"value": 0.97, "pairs": 10}, "read_caller_cpu": {"not_run": "time was over"}}
    text = section(document(throughput=told))
    assert text.startswith(f"{TITLE}\n\n`bench/gpu/run`, 2026-01-02: Card, driver 1, 16 cores, Linux 6; commit abc.\n")
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert len(rows) == 2 + sum(map(len, STAGES.values()))
    assert all(row.count("|") == 6 for row in rows)
    assert "| 0.970 (10 pairs) | at least 0.950: met |" in text
    assert "| not run: time was over |" in text
    assert "| not run: its stage was not asked for |" in text
    assert "rehearsal" not in text
    assert "**A rehearsal on a simulated device (host:0).**" in section({**document(), "device": "host:0"})


def test_outcomes_are_kept_in_json():
    for outcome in (Outcome(0.5, None, (0.4, 0.6), (0.45, 0.55), 10, "said"), Outcome(reason="none"), Outcome(0.0)):
        assert Outcome.read(json.loads(json.dumps(outcome.document()))) == outcome


def test_the_document_has_the_section():
    assert TITLE in (ROOT / "docs" / "BENCHMARKS.md").read_text()


def test_pairs_take_turns_until_time_is_up():
    order = []
    legs = [lambda name=name: order.append(name) or name for name in "ab"]
    assert abba(*legs, 4, lambda: len(order) >= 6) == [("a", "b")] * 3
    assert "".join(order) == "abbaab"


def test_intervals_hold_the_median_and_repeat():
    ratios = [0.9, 0.95, 1.0, 1.02, 0.97, 0.99, 1.01, 0.96, 0.98, 1.03]
    low, high = interval(ratios, 500)
    assert min(ratios) <= low <= 0.985 <= high <= max(ratios)
    assert interval(ratios, 500) == (low, high)
    assert quartiles([1.0]) == (1.0, 1.0)


def test_tests_of_devices_are_judged_by_runtime():
    report = """<testsuites><testsuite>
      <testcase name="A/cuda" classname="DeviceContract" status="run" result="completed"/>
      <testcase name="B/cuda" classname="DeviceContract" status="run" result="skipped">
        <skipped message="x.cpp:72&#x0A;no such device&#x0A;"/></testcase>
      <testcase name="A/host" classname="DeviceContract" status="run" result="completed"/>
      <testcase name="C/cuda" classname="DeviceContract" status="run" result="completed">
        <failure message="x.cpp:9&#x0A;Expected equality"/></testcase>
    </testsuite></testsuites>"""
    cases = read_tests(report)
    outcome = judge(cases, "cuda")
    assert outcome.value == "1 passed, 1 skipped, 1 failed"
    assert "skipped: no such device (1)" in outcome.note
    assert "DeviceContract.C/cuda" in outcome.note
    assert judge(cases[1:2], "cuda").reason == "1 tests skipped: no such device"
    assert judge(cases[2:3], "cuda").reason == "these tests know no cuda (1 passed over the simulated device)"
    assert judge(cases, "host").value == "1 passed, 0 skipped, 0 failed"


def test_a_leg_of_fio():
    job = {"read": {"io_bytes": 2 << 30, "runtime": 1000}, "usr_cpu": 2.0, "sys_cpu": 8.0, "job_runtime": 4000}
    leg = read_fio("fio: a note\n" + json.dumps({"jobs": [job]}), "read")
    assert (leg.bandwidth, leg.cpu_seconds) == (2 << 30, pytest.approx(0.4))


def test_folders_of_boost_that_includes_reach(tmp_path):
    for name, text in (("a/x.hpp", "#  include <boost/b.hpp>\n"), ("b.hpp", "#include <boost/c/y.hpp>"), ("d.hpp", "")):
        header = tmp_path / "boost" / name
        header.parent.mkdir(parents=True, exist_ok=True)
        header.write_text(text)
    source = tmp_path / "source.cpp"
    source.write_text('#include "boost/a/x.hpp"\n#include <vector>\n')
    assert header_rooms([source], tmp_path) == {"a", "b.hpp", "c"}


@pytest.mark.parametrize("command", ["run", "pack"])
def test_help_teaches(command):
    done = subprocess.run([GPU / command, "--help"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"usage: bench/gpu/{command} ")
    assert "Example: bench/gpu/" in done.stdout
    assert command == "pack" or all(f"\n  {stage} " in done.stdout for stage in STAGES)

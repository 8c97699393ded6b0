"""`penstock bench compare`: tables, documents, and when it fails."""

import json

import pytest
from cli_support import assert_one_sentence


def report(megabytes, **job):
    """One run of one job that reads 1 GB."""
    read = {
        "io_bytes": 1_000_000_000,
        "bw_bytes": int(megabytes * 1e6),
        "runtime": int(1e6 / megabytes),
        "clat_ns": {"percentile": {"99.000000": 900_000}},
    }
    return {"jobs": [{"jobname": "read-1m", "error": 0, "usr_cpu": 2, "sys_cpu": 3, "read": read, "write": {}, **job}]}


def expect_error(done, code, *parts):
    assert done.returncode == code, done.stderr
    assert_one_sentence(done, *parts)


def rows(document):
    return {row["figure"]: row for row in document["rows"]}


def test_a_regression_of_one_run(penstock, write):
    before, after = write("a.json", report(1000)), write("b.json", report(900))
    done = penstock("bench", "compare", before, after, "--max-regression", "5%")
    assert done.returncode == 1
    assert "read bandwidth" in done.stdout and "1000.0 MB/s" in done.stdout and "worse" in done.stdout
    assert "worse by more than 5%" in done.stderr
    assert penstock("bench", "compare", before, after, "--max-regression", "12%").returncode == 0
    assert penstock("bench", "compare", after, before, "--max-regression", "12%").returncode == 0


def test_the_document(penstock, write):
    before, after = write("a.json", report(1000)), write("b.json", report(900))
    document = penstock.json("bench", "compare", before, after, code=1)
    assert document["schema"] == "penstock.bench.compare/1"
    assert document["max_regression"] == 0.05 and document["regressed"] is True
    bandwidth = rows(document)["read bandwidth"]
    assert bandwidth["before"] == {"median": 1e9, "runs": 1}
    assert bandwidth["change"] == pytest.approx(-0.1)
    assert bandwidth["low"] is None and bandwidth["verdict"] == "worse"
    assert rows(document)["read p99"]["verdict"] == "same"


def test_runs_that_differ_among_themselves_prove_nothing(penstock, write):
    before = write("a.json", "\n".join(json.dumps(report(speed)) for speed in (1000, 700, 1400)))
    after = write("b.json", [report(speed) for speed in (900, 1300, 600)])
    document = penstock.json("bench", "compare", before, after)
    bandwidth = rows(document)["read bandwidth"]
    assert bandwidth["before"]["runs"] == 3 and bandwidth["verdict"] == "unclear"
    assert bandwidth["low"] < bandwidth["change"] < bandwidth["high"]
    assert document["regressed"] is False


def test_pairs_count_instead_of_a_drive_that_drifts(penstock, write):
    def paired(megabytes, ratio):
        pair = {"peer": "fio", "ratio_median": ratio, "cpu_ratio_median": 0.7, "pairs": 3}
        pair["ratios"] = [ratio - 0.01, ratio, ratio + 0.01]
        return report(megabytes, pair=pair)

    before = write("a.json", paired(2000, 1.0))
    slower_drive, slower_engine = write("b.json", paired(700, 1.0)), write("c.json", paired(2000, 0.9))
    assert penstock("bench", "compare", before, slower_drive).returncode == 0
    document = penstock.json("bench", "compare", before, slower_engine, code=1)
    assert rows(document)["bandwidth over fio's"]["verdict"] == "worse"
    assert "read bandwidth" not in rows(document)
    without = penstock.json("bench", "compare", before, write("d.json", report(2000)))
    assert rows(without)["read bandwidth"]["verdict"] == "same"


def test_a_job_that_is_gone_or_failed(penstock, write):
    two = report(1000)
    two["jobs"].append({**two["jobs"][0], "jobname": "read-4m"})
    before, after = write("a.json", two), write("b.json", report(1000))
    failed = report(1000)
    failed["jobs"].append({"jobname": "read-4m", "error": 5})
    for other in (after, write("c.json", failed)):
        done = penstock("bench", "compare", before, other)
        assert done.returncode == 1 and "read-4m" in done.stdout, done.stdout
    assert penstock.json("bench", "compare", after, before)["added"] == ["read-4m"]


def test_the_only_job_has_failed(penstock, write):
    good, failed = write("a.json", report(1000)), write("b.json", report(1000, error=5))
    done = penstock("bench", "compare", good, failed)
    assert done.returncode == 1 and "read-1m failed in" in done.stdout and "Input/output error" in done.stdout
    expect_error(penstock("bench", "compare", failed, good), 1, "read-1m failed in", "Input/output error")


NO_JOBS = ["7", "{}", "[]", "[7]", *(f'{{"jobs": {jobs}}}' for jobs in ("7", "[]", "[7]", "[{}]", '[{"jobname": 7}]'))]


@pytest.mark.parametrize("content", ["", "  \n", "no JSON", "{", *NO_JOBS])
def test_what_is_no_report(penstock, write, content):
    good = write("good.json", report(1000))
    bad = write("bad.json", content)
    done = penstock("bench", "compare", good, bad)
    expect_error(done, 1, "bad.json")


def test_a_file_that_is_not_there(penstock, write, tmp_path):
    done = penstock("bench", "compare", write("a.json", report(1000)), tmp_path / "nothing.json")
    expect_error(done, 1, "nothing.json", "No such file")


def test_nothing_in_common(penstock, write):
    other = report(1000)
    other["jobs"][0]["jobname"] = "another"
    done = penstock("bench", "compare", write("a.json", report(1000)), write("b.json", other))
    expect_error(done, 1, "no figure of a job of the same name")


@pytest.mark.parametrize("bound", ["5", "x%", "-5%", "101%", "5 %", "nan%"])
def test_a_bound_that_is_no_percentage(penstock, write, bound):
    path = write("a.json", report(1000))
    expect_error(penstock("bench", "compare", path, path, f"--max-regression={bound}"), 2, "percentage")


def test_what_is_left_over_is_refused(penstock, write):
    before = write("before.json", "{}")
    for arguments in (["compare", before, before, "third.json"], ["a.job", "compare", before, before]):
        done = penstock("bench", *arguments)
        assert done.returncode == 2
        assert_one_sentence(done, "third.json" if "third.json" in arguments else "a.job")

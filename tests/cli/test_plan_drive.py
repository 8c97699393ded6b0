"""`penstock plan --drive`: the least time of a step on drives that were not measured."""

import pytest
from cli_support import assert_one_sentence
from plan_files import FULL, MEMORY, QWEN, with_penstock

DRIVE = "read=3.5g,write=3g,latency=80us"


def test_stated_rates_give_a_lower_bound(penstock):
    arguments = ["plan", QWEN, "--config", FULL, "--ram", "0", *MEMORY]
    step = penstock.json(*arguments, "--drive", DRIVE)["per_step"]
    bound = max(step["read_bytes"] / (3.5 * 2**30), step["write_bytes"] / (3 * 2**30))
    assert step["lower_bound_seconds"] == pytest.approx(bound, rel=1e-6)
    assert penstock.json(*arguments)["per_step"]["lower_bound_seconds"] is None
    text = penstock(*arguments, "--drive", DRIVE).stdout
    assert f"time: {bound:.3g} s at least, at the speeds that --drive says" in text
    assert "or --drive" in penstock(*arguments).stdout


def test_the_ranks_of_a_machine_share_it(penstock):
    arguments = ["plan", QWEN, "--config", FULL, "--ram", "0", "--drive", DRIVE, "--world-size", "4", *MEMORY]
    together = penstock.json(*arguments)["per_step"]["lower_bound_seconds"]
    apart = penstock.json(*arguments, "--ranks-per-node", "1")["per_step"]["lower_bound_seconds"]
    assert together == pytest.approx(4 * apart, rel=1e-6)


@pytest.mark.parametrize("verb", ["plan", "tune"])
def test_a_machine_has_no_more_ranks_than_there_are(penstock, tmp_path, verb):
    arguments = [verb, QWEN, "--config", FULL, "--ranks-per-node", "4", *MEMORY]
    arguments += ["--path", tmp_path] if verb == "tune" else []
    for options, world in (
        (["--world-size", "2"], "--world-size is 2"),
        ([], "--world-size is not given, which means 1"),
    ):
        done = penstock(*arguments, *options)
        assert done.returncode == 1 and done.stdout == ""
        assert_one_sentence(done, "--ranks-per-node is 4", world)


def test_it_stands_above_what_was_measured(penstock, write, tmp_path):
    measured = {"path": str(tmp_path), "read_bytes_per_second": "1GB", "write_bytes_per_second": "1GB"}
    config = with_penstock(write, FULL, ram_bytes=0, paths=[measured])
    arguments = ["plan", QWEN, "--config", config, *MEMORY]
    slow = penstock.json(*arguments)["per_step"]["lower_bound_seconds"]
    fast = penstock.json(*arguments, "--drive", "read=10GB,write=10GB")["per_step"]["lower_bound_seconds"]
    assert fast == pytest.approx(slow / 10, rel=1e-6)


@pytest.mark.parametrize(
    ("drive", "part"),
    [
        ("read=3g", "both read= and write= are needed"),
        ("read=0,write=1g", "from 1 on"),
        ("read=3g,write=fast", '"fast"'),
        ("speed=3g", '"speed=3g"'),
        ("read=3g,write=3g,latency=soon", "soon"),
        ("read=3g,write=3g,clock=real", "clock=real is for runs"),
    ],
)
def test_wrong_rates_are_wrong_usage(penstock, drive, part):
    done = penstock("plan", QWEN, "--drive", drive)
    assert done.returncode == 2 and done.stdout == ""
    assert_one_sentence(done, "--drive", part)

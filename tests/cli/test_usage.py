"""Exit status, help and the places of output, for every verb."""

import itertools
import json
import subprocess

import pytest
from cli_support import DATA, assert_one_sentence

VERBS = ["bench", "doctor", "export", "import", "inspect", "plan", "replay", "schema", "tune", "verify", "version"]
INVENTORY = DATA / "inventories" / "qwen3-0.6b.json"


@pytest.mark.parametrize("verb", VERBS)
def test_help_has_an_example(penstock, verb):
    done = penstock(verb, "--help")
    assert done.returncode == 0
    assert done.stderr == ""
    assert f"penstock {verb}" in done.stdout
    assert "xample" in done.stdout


@pytest.mark.parametrize("command", [[], *([verb] for verb in VERBS), ["bench", "compare"]])
def test_help_is_of_the_command_that_was_asked_and_breaks_no_example(penstock, command):
    """At 80 columns examples can be copied, and prose is broken only where a line is full."""
    wide = penstock(*command, "--help", env={"COLUMNS": "2000"}).stdout.splitlines()
    assert any(line.startswith(" ".join(["Usage: penstock", *command, "[OPTIONS]"])) for line in wide)
    assert [line for line in wide if line.startswith("  penstock ") and len(line) > 80] == []
    narrow = penstock(*command, "--help", env={"COLUMNS": "80"}).stdout
    assert max(map(len, narrow.splitlines())) <= 80
    footer = narrow.split("\n\n")[-1].splitlines()
    prose = [line for line in footer if not line.startswith("  ")]
    for line, following in itertools.pairwise(prose):
        ends = line.endswith((".", ":"))
        assert ends or len(line) + 1 + len(following.split(" ")[0]) > 80, f"{line!r} ends early"


def test_help_of_all_names_every_verb(penstock):
    done = penstock("--help")
    assert done.returncode == 0
    for verb in VERBS:
        assert verb in done.stdout


@pytest.mark.parametrize(
    "arguments, parts",
    [
        ([], ["subcommand is required"]),
        (["pln"], ['"pln" is no verb of penstock', 'did you mean "plan"?']),
        (["plan"], ["INVENTORY"]),
        (["plan", INVENTORY, "--world-size", "0"], ["--world-size"]),
        (["plan", INVENTORY, "--world-size", "many"], ["--world-size"]),
        (["plan", INVENTORY, "--stage", "1"], ["--stage"]),
        (["plan", INVENTORY, "--optimizer", "adam"], ['did you mean "adamw"?']),
        (["plan", INVENTORY, "--max-pinned", "64 miles"], ["--max-pinned"]),
        (["plan", INVENTORY, "--ram", "-1"], ["--ram"]),
        (["plan", INVENTORY, "--activations", "x"], ["--activations"]),
        (["plan", INVENTORY, "--no-such-option"], ["--no-such-option"]),
        (["plan", INVENTORY, "--emit-config", "--show-config"], ["excludes"]),
        (["plan", INVENTORY, "-o", "out.json"], ["--emit-config"]),
        (["doctor", "--path"], ["--path"]),
        (["replay", "trace.jsonl", "--device", "ssd"], ['--device is "ssd"']),
        (["replay", "trace.jsonl", "--compute", "much"], ['--compute is "much"']),
        (["version", "extra"], ["extra"]),
    ],
)
def test_wrong_usage_is_status_2_and_one_sentence(penstock, arguments, parts):
    done = penstock(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert_one_sentence(done, *parts)


def test_version(penstock):
    done = penstock("version")
    assert done.returncode == 0
    assert done.stdout.startswith("penstock 0.")
    version = penstock.json("version")
    assert version["schema"] == "penstock.version/1"
    assert version["version"] in done.stdout
    assert {engine["name"] for engine in version["engines"]} >= {"uring", "aio", "threads"}
    assert version["libraries"]["boost"].count(".") == 2
    assert version["build"]["compiler"]


def test_output_that_does_not_arrive_is_no_success(penstock):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [penstock.binary, "version"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False
        )
    assert done.returncode == 1
    assert "cannot write the output" in done.stderr


def test_where_nothing_can_be_written_it_is_exit_1(penstock):
    """`penstock … > log 2>&1` on a full disk."""
    for arguments in (["version"], ["doctor"], ["plan", INVENTORY], ["verify", "/nowhere"], ["version", "--wrong"]):
        with open("/dev/full", "w") as full:
            done = subprocess.run(
                [penstock.binary, *map(str, arguments)], stdout=full, stderr=full, timeout=60, check=False
            )
        assert done.returncode == (2 if "--wrong" in arguments else 1), arguments


def test_json_is_one_document_and_nothing_else(penstock):
    for arguments in (["version"], ["doctor"], ["plan", INVENTORY], ["plan", "--show-config"]):
        done = penstock(*arguments, "--json")
        assert done.returncode == 0
        assert done.stderr == ""
        assert json.loads(done.stdout)["schema"].startswith("penstock.")

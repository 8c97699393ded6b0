"""`penstock schema`: what it says of a configuration is what the command makes of it."""

import copy
import json
import re

import pytest
from cli_support import DATA, ROOT

jsonschema = pytest.importorskip("jsonschema")

# Of every kind of value; sizes that are no whole number of bytes are left out, which no pattern can tell.
VALUES = [
    *(None, True, 0, 1, 4, -1, 0.5, 1.5, 2**51),
    *("auto", "", "x", "0", "8", "0MB", "64MiB", "1.5g", " 4 k ", "nvme", "sampled", "durable", "uring", "null", "ram"),
    *("Yes", "oFF", " 1_0 ", "1__0"),
    *([], ["/a"], [""], [0], ["64MiB", 4096], [2**51], [{}]),
    *({}, {"colour": 1}),
]

PARTS = 4  # of the values, each with its own runs of the command


@pytest.fixture(scope="module")
def validator(penstock):
    done = penstock("schema")
    assert done.returncode == 0 and done.stderr == ""
    schema = json.loads(done.stdout)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.fixture
def takes(penstock, write):
    """Whether the command reads a configuration."""

    def reads(document):
        done = penstock("plan", "--show-config", "--config", write("ds.json", document))
        assert done.returncode in (0, 1), done.stderr
        return done.returncode == 0

    return reads


def inside(schema):
    """The schema of the object that may stand there; None where none may."""
    return next((form for form in [schema, *schema.get("anyOf", [])] if form.get("type") == "object"), None)


def keys(schema, prefix=()):
    """Every key that is described, with the objects above it; of lists the keys of their entries."""
    for name, described in schema["properties"].items():
        if described is True or ("anyOf" not in described and not {"enum", "type"} & set(described)):
            continue
        yield (*prefix, name), described
        entries = next((form["items"] for form in described.get("anyOf", []) if form.get("type") == "array"), {})
        for below, step in ((inside(described), (name,)), (inside(entries), (name, 0))):
            if below is not None:
                yield from keys(below, (*prefix, *step))


# What stands beside a key in an entry of a list, so that nothing else is wrong with it.
BESIDE = {"paths": {"path": "/nvme0"}, "tensors": {"place": "ram"}}


def configuration(path, value):
    """A document in which only that key has this value."""
    below = value
    for at in range(len(path) - 1, -1, -1):
        below = [below] if path[at] == 0 else {path[at]: below}
        if at > 0 and path[at - 1] == 0:
            below = BESIDE[path[at - 2]] | below
    return below


@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.deep) for part in range(1, PARTS))])
def test_every_key_and_value_is_judged_as_the_command_judges_it(validator, takes, part):
    """Each key with every fourth value, begun at another one for each key; all of them in the deep run."""
    described = dict(keys(validator.schema))
    assert len(described) > 40
    for number, path in enumerate(described):
        for value in VALUES[(number + part) % PARTS :: PARTS]:
            document = configuration(path, value)
            if path[0] in ("zero_optimization", "bf16", "bfloat16", "fp16") and value == {"colour": 1}:
                continue  # DeepSpeed refuses it; the plan warns
            assert validator.is_valid(document) == takes(document), document


def test_every_value_that_is_read_is_in_the_schema_with_its_default(validator, penstock, write):
    document = {"zero_optimization": {"offload_param": {}, "offload_optimizer": {}}}
    listed = penstock.json("plan", "--show-config", "--config", write("ds.json", document))["values"]
    described = {".".join(map(str, path)): schema for path, schema in keys(validator.schema)}
    assert len(listed) > 30
    for entry in listed:
        schema = described[entry["key"]]
        if "default" in schema:
            assert entry["value"] == schema["default"], entry["key"]


EXAMPLES = [
    *sorted(path for path in DATA.glob("*.json") if "zero_optimization" in path.read_text()),
    *sorted((ROOT / "examples").glob("*.json")),
]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_examples_are_valid(validator, penstock, path):
    document = json.loads(path.read_text())
    validator.validate(document)
    done = penstock("plan", DATA / "inventories" / "qwen3-0.6b.json", "--config", path, "--emit-config")
    assert done.returncode in (0, 3)  # this machine may lack the drive
    validator.validate(json.loads(done.stdout))


def test_the_blocks_of_the_documents_are_valid(validator, takes):
    blocks = [
        json.loads(block)
        for document in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
        for block in re.findall(r'["`]penstock": (\{(?:[^{}`]|\{[^{}]*\})*\})[`\s]', document.read_text())
    ]
    assert len(blocks) >= 2
    for block in blocks:
        validator.validate({"penstock": block})
        assert takes({"penstock": block})


def test_unknown_keys_are_refused_where_they_are_refused_in_training(validator, takes):
    def judged(document):
        return validator.is_valid(document)

    whole = {
        "penstock": {"paths": [{"path": "/nvme0"}], "tensors": [{"place": "ram"}]},
        "zero_optimization": {"stage": 3, "offload_param": {}, "offload_optimizer": {}},
        "aio": {},
        "bf16": {},
    }
    assert judged(whole) and takes(whole)
    for path, reader_refuses, schema_refuses in (
        (["penstock"], True, True),
        (["penstock", "paths", 0], True, True),
        (["penstock", "tensors", 0], True, True),
        (["zero_optimization"], False, True),  # DeepSpeed refuses it; the plan warns
        (["zero_optimization", "offload_param"], False, True),
        (["zero_optimization", "offload_optimizer"], False, True),
        (["bf16"], False, True),
        (["aio"], False, False),
        ([], False, False),
    ):
        document = copy.deepcopy(whole)
        place = document
        for step in path:
            place = place[step]
        place["colour"] = 1
        assert judged(document) is not schema_refuses, path
        assert takes(document) is not reader_refuses, path


def test_a_configuration_may_name_its_schema(validator, penstock, write):
    document = json.loads((DATA / "seed-003.json").read_text()) | {"$schema": "penstock.schema.json"}
    validator.validate(document)
    inventory = DATA / "inventories" / "qwen3-0.6b.json"
    plan = penstock.json("plan", inventory, "--config", write("ds.json", document), "--memory", "64GiB")
    assert "unknown-key" not in {warning["code"] for warning in plan["warnings"]}
    # It is no key of DeepSpeed's: the file alone says nothing of how training is to be.
    alone = write("alone.json", {"$schema": "penstock.schema.json"})
    assert penstock.json("plan", inventory, "--config", alone, "--memory", "64GiB")["deepspeed_bytes"] is None


def test_keys_of_the_block_outside_of_it_are_refused_where_nothing_else_is_read(validator, takes):
    for document, is_taken in (
        ({"mode": "durable"}, False),
        ({"aio": {}, "ram_bytes": 0}, False),
        ({"zero_optimization": {"stage": 3}, "mode": "the script's own"}, True),
        ({"penstock": {}, "mode": "the script's own"}, True),
        ({"the script's own": 1}, True),
    ):
        assert validator.is_valid(document) == takes(document) == is_taken, document


def test_both_names_of_a_value_are_refused(validator, takes):
    for field in ("max_reuse_distance", "allgather_sequential"):
        for values, is_taken in (((0, 0), False), ((0, "auto"), True), (("auto", 0), True), ((0, None), True)):
            document = {"zero_optimization": dict(zip((field, f"stage3_{field}"), values, strict=True))}
            assert validator.is_valid(document) == takes(document) == is_taken, document


def test_counts_have_64_bits(validator, takes):
    for count, is_taken in ((2**64 - 1, True), (2**64, False), (10**20, False)):
        document = {"zero_optimization": {"sub_group_size": count}}
        assert validator.is_valid(document) == takes(document) == is_taken, count

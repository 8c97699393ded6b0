"""Inputs of the tests of `penstock plan`, and what every plan satisfies."""

import json

from cli_support import DATA

INVENTORIES = DATA / "inventories"
QWEN = INVENTORIES / "qwen3-0.6b.json"
SEED = DATA / "seed-003.json"
FULL = DATA / "full-finetune.json"
# Whatever machine runs the tests, the plans are those of one with 24 GiB.
MEMORY = ("--memory", "24GiB")
KEYS = [
    "schema",
    "fits",
    "feasible",
    "reason",
    "classes",
    "tensors",
    "pinned_bytes",
    "device_pinned_bytes",
    "ram_bytes",
    "nvme_bytes",
    "peak_live_bytes",
    "memory",
    "deepspeed_bytes",
    "deepspeed_error",
    "per_step",
    "moment_bytes",
    "warnings",
]
EMBEDDING = "model.embed_tokens.weight"


def placed(plan, name):
    return next(tensor for tensor in plan["tensors"] if tensor["name"] == name)


def component(plan, name, place=None):
    return sum(
        row["bytes_per_rank"] for row in plan["memory"] if row["component"] == name and place in (None, row["place"])
    )


def with_penstock(write, config, **block):
    return write("ds.json", {**json.loads(config.read_text()), "penstock": block})


def check_sound(plan):
    assert list(plan) == KEYS
    assert plan["schema"] == "penstock.plan/1"
    assert plan["pinned_bytes"] <= 1.02 * plan["peak_live_bytes"]
    for group in plan["classes"]:
        assert set(group) == {"slot_bytes", "slots", "tensors", "waste_bytes"}
        assert 1 <= group["slots"] <= group["tensors"]
    for tensor in plan["tensors"]:
        assert set(tensor) == {"name", "bytes", "place", "class", "why"}
        assert tensor["place"] in {"dedicated", "class", "ram", "stream", "device"}
        assert (tensor["class"] is not None) == (tensor["place"] == "class")
        assert tensor["why"]
        if tensor["class"] is not None:
            assert plan["classes"][tensor["class"]]["slot_bytes"] >= tensor["bytes"]
    assert {row["component"] for row in plan["memory"]} == {
        "parameters",
        "gradients",
        "master",
        "moments",
        "activations",
        "buffers",
    }
    assert plan["per_step"]["lower_bound_seconds"] is None

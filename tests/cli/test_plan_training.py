"""What `penstock plan` makes of what is trained and how: frozen models, LoRA, accumulated passes."""

import json

import pytest
from cli_support import assert_one_sentence
from plan_files import EMBEDDING, FULL, MEMORY, QWEN, SEED, component

LORA = "model.layers.*.self_attn.q_proj.lora"


def test_lora_is_described_by_what_it_adds(penstock):
    plan = penstock.json(
        "plan", QWEN, "--config", SEED, "--trainable", "none", "--adapter", f"{LORA}_A=8x1024",
        "--adapter", f"{LORA}_B=2048x8", *MEMORY,
    )  # fmt: skip
    added = 28 * 8 * (1024 + 2048)
    assert component(plan, "gradients") == added * (4 + 4)  # the optimizer's, which is in RAM, and the backward's
    assert component(plan, "moments") == added * 8
    assert sum(tensor["name"].endswith("lora_A") for tensor in plan["tensors"]) == 28


@pytest.mark.parametrize("pattern", ["*.lora_*", "*.lora_A", "none"])
def test_a_pattern_may_match_adapters_alone(penstock, pattern):
    options = ["plan", QWEN, "--config", SEED, "--adapter", f"{LORA}_A=8x1024", *MEMORY]
    plan = penstock.json(*options, "--trainable", pattern)
    assert component(plan, "moments") == 28 * 8 * 1024 * 8
    done = penstock(*options, "--trainable", "*.lora_B")
    assert done.returncode == 1
    assert_one_sentence(done, "--trainable *.lora_B matches no parameter")


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (
            "layers.*.mlp.experts.*.up.lora_A",
            [f"layers.{i}.mlp.experts.{e}.up.lora_A" for i in range(3) for e in range(2)],
        ),
        (
            "layers.*.self_attn.q.lora_A.default.weight",
            [f"layers.{i}.self_attn.q.lora_A.default.weight" for i in (0, 2)],
        ),
        ("layers.*.adapter.down", [f"layers.{i}.adapter.down" for i in range(3)]),
        ("layers.*.*_attn.q.lora_A", [f"layers.{i}.{'linear' if i == 1 else 'self'}_attn.q.lora_A" for i in range(3)]),
    ],
)
def test_each_star_stands_for_what_the_inventory_has_there(penstock, write, pattern, expected):
    """A model of three layers, the second of which has another kind of attention."""
    modules = [
        f"layers.{i}.{module}"
        for i in range(3)
        for module in ("linear_attn.q" if i == 1 else "self_attn.q", "mlp.experts.0.up", "mlp.experts.1.up")
    ]
    tensors = [{"name": f"{module}.weight", "dtype": "bf16", "shape": [64, 64]} for module in modules]
    inventory = write("inventory.json", {"tensors": tensors})
    plan = penstock.json("plan", inventory, "--trainable", "none", "--adapter", f"{pattern}=8x64", *MEMORY)
    assert [
        tensor["name"]
        for tensor in plan["tensors"]
        if not tensor["name"].endswith("q.weight") and not tensor["name"].endswith("up.weight")
    ] == expected


def test_an_adapter_has_the_type_that_is_given(penstock):
    name = "model.layers.0.self_attn.q_proj.lora_A"
    bytes_of = {}
    for dtype in ("", ":f32", ":bf16"):
        plan = penstock.json(
            "plan", QWEN, "--config", FULL, "--trainable", "none", "--adapter", f"{name}=2048x1024{dtype}", *MEMORY
        )
        [bytes_of[dtype]] = [tensor["bytes"] for tensor in plan["tensors"] if tensor["name"] == name]
    whole = 2048 * 1024
    assert bytes_of == {"": 2 * whole, ":f32": 4 * whole, ":bf16": 2 * whole}


def test_a_frozen_model_but_for_its_norms(penstock):
    plan = penstock.json("plan", QWEN, "--config", FULL, "--ram", "0", "--trainable", "*norm.weight", *MEMORY)
    norms = 28 * (2 * 1024 + 2 * 128) + 1024
    assert component(plan, "moments") == norms * 8
    assert plan["per_step"]["write_bytes"] == 0


@pytest.mark.parametrize(
    ("options", "status", "parts"),
    [
        (["--trainable", "*.nothing"], 1, ["--trainable *.nothing matches no parameter"]),
        (["--adapter", "a=8"], 2, ["NAME=ROWSxCOLS[:DTYPE]"]),
        (["--adapter", "a=8x0"], 2, ["two whole numbers above 0"]),
        (["--adapter", "a=8x8:f99"], 2, ["names no type"]),
        (["--adapter", f"{EMBEDDING}=8x8"], 1, ["is a name that the inventory has"]),
        (["--adapter", "no.*.where=8x8"], 1, ["has a * for which no name of the inventory has a word"]),
        (["--adapter", "model.layers.0.*.*.*.lora_A=8x8"], 1, ["has a * for which no name"]),
        (["--adapter", "*.q_proj.lora_A=8x8"], 1, ["--adapter *.q_proj.lora_A", "model has no q_proj"]),
        (["--adapter", "model.layers.*.q_proj.lora_A=8x8"], 1, ["model.layers.0 has no q_proj"]),
    ],
)
def test_what_is_trained_is_checked(penstock, options, status, parts):
    done = penstock("plan", QWEN, "--config", SEED, *options, *MEMORY)
    assert done.returncode == status
    assert_one_sentence(done, *parts)


def test_what_the_model_freezes_is_trained_by_its_name_only(penstock, write):
    """As Whisper's table of positions: a script that trains all parameters leaves it as it is."""
    config = json.loads(FULL.read_text())
    tensor = {"dtype": "bf16", "shape": [1024, 1024]}
    tensors = [{"name": "fixed.weight", "trainable": False, **tensor}, {"name": "layers.0.weight", **tensor}]
    inventory = write("inventory.json", {"tensors": tensors})

    def stepped(*patterns):
        options = ["--config", write("ds.json", config), "--ram", "0", *MEMORY]
        chosen = [word for pattern in patterns for word in ("--trainable", pattern)]
        plan = penstock.json("plan", inventory, *options, *chosen, "--verbose")
        return component(plan, "moments") // 8

    assert [stepped(), stepped("all"), stepped("*layers*")] == [1 << 20] * 3
    assert stepped("*") == stepped("all", "fixed.*") == 2 << 20


def test_trained_parameters_that_max_in_cpu_moves_are_in_ram(penstock, write):
    config = json.loads(FULL.read_text())
    del config["zero_optimization"]["offload_param"]["max_in_cpu"]
    plan = penstock.json(
        "plan", QWEN, "--config", write("ds.json", config), "--trainable", "all", "--ram", "0", *MEMORY
    )
    assert all(tensor["place"] in ("ram", "device") for tensor in plan["tensors"])
    assert "max_in_cpu of 1000000000 elements" in plan["tensors"][0]["why"]


@pytest.mark.parametrize(
    "batch", [{"gradient_accumulation_steps": 4}, {"train_batch_size": 8, "train_micro_batch_size_per_gpu": 2}]
)
def test_accumulated_passes_fetch_parameters_again(penstock, write, batch):
    config = json.loads(FULL.read_text())
    for key in ("gradient_accumulation_steps", "train_batch_size", "train_micro_batch_size_per_gpu"):
        config.pop(key)
    options = ["--ram", "0", "--trainable", "all", *MEMORY]

    def per_step(changes):
        return penstock.json("plan", QWEN, "--config", write("ds.json", {**config, **changes}), *options)["per_step"]

    once, often = per_step({}), per_step(batch)
    parameters = once["read_bytes"] - 12 * 596049920
    assert often["read_bytes"] == pytest.approx(4 * parameters + 12 * 596049920, rel=0.001)
    assert often["write_bytes"] == once["write_bytes"]


def test_what_persists_is_fetched_once_for_all_passes(penstock, write):
    """Once it is gathered, DeepSpeed keeps a parameter that is no larger than the threshold."""
    config = json.loads(FULL.read_text())
    config["zero_optimization"].update(offload_optimizer={"device": "cpu"})
    inventory = {"tensors": [{"name": f"layers.{i}.weight", "dtype": "bf16", "shape": [1024, 1024]} for i in range(8)]}

    def read_bytes(threshold, passes):
        config["zero_optimization"]["stage3_param_persistence_threshold"] = threshold
        config["gradient_accumulation_steps"] = passes
        options = ["--config", write("ds.json", config), "--ram", "0", "--trainable", "all", *MEMORY]
        return penstock.json("plan", write("inventory.json", inventory), *options)["per_step"]["read_bytes"]

    assert [read_bytes(1024 * 1024, passes) for passes in (1, 4)] == [8 << 21, 8 << 21]
    assert read_bytes(1024 * 1024 - 1, 4) == 4 * read_bytes(1024 * 1024 - 1, 1)


def test_a_trace_does_not_change_what_is_in_a_sub_group(penstock, write):
    """The optimizer has parameters in the order of building, whatever their order of use."""
    config = json.loads(FULL.read_text())
    config["zero_optimization"]["sub_group_size"] = 2_000_000
    shapes = {"used_last": [3, 1024, 1024], "a": [1024, 1024], "b": [1024, 1024]}
    tensors = [{"name": name, "dtype": "bf16", "shape": shape} for name, shape in shapes.items()]
    inventory = write("inventory.json", {"tensors": tensors})
    events = [{"schema": "penstock.trace/1"}]
    for number, name in enumerate(["a", "b", "used_last"]):
        declared = {"space": 1, "name": name, "dtype": "bf16", "shape": shapes[name], "role": "param"}
        events.append({"t": number, "w": 0, "op": "declare", "tensor": number, **declared})
    events += [{"t": 3 + number, "w": 0, "op": "get", "tensor": number} for number in range(3)]
    trace = write("trace.jsonl", "".join(json.dumps(event) + "\n" for event in events))
    options = [inventory, "--config", write("ds.json", config), "--trainable", "all", "--ram", "0", *MEMORY]
    plan, traced = (penstock.json("plan", *options, "--verbose", *more) for more in ([], ["--trace", trace]))
    assert [state for state in plan["states"] if "master" in state["name"]]
    for key in ("tensors", "states", "nvme_bytes"):
        assert traced[key] == plan[key], key

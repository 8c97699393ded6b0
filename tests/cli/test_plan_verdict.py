"""What `penstock plan` says first, its exit status, and what it makes of keys that are wrong or left to the script."""

import json
import os
import re

import pytest
from cli_support import assert_one_sentence
from plan_files import EMBEDDING, FULL, KEYS, MEMORY, QWEN, SEED, component, with_penstock


def test_what_does_not_fit_is_said_first_and_is_status_3(penstock):
    arguments = ["plan", QWEN, "--config", SEED, "--memory", "2GiB"]
    plan = penstock.json(*arguments, code=3)
    assert plan["feasible"] is True and plan["fits"] is False
    [memory] = [warning for warning in plan["warnings"] if warning["code"] == "memory"]
    done = penstock(*arguments)
    assert done.stdout.startswith(f"does not fit: {memory['text']}\n")
    assert_one_sentence(done, "does not fit: memory is ", "short")
    assert penstock.json("plan", QWEN, "--config", SEED, *MEMORY)["fits"] is True


def test_keys_that_deepspeed_does_not_know(penstock, write):
    document = json.loads(SEED.read_text())
    document["gradient_cliping"] = 1.0
    document["zero_optimization"]["sub_group_sice"] = 1
    document["zero_optimization"]["offload_param"]["bufer_count"] = 9
    document |= {"bf16": {"enabled": True, "enabeld": True}, "fp16": {"los_scale": 0}, "aio": {"blocksize": 4096}}
    plan = penstock.json("plan", QWEN, "--config", write("misspelt.json", document), *MEMORY)
    unknown = {w["key"]: (w["nearest"], w["text"]) for w in plan["warnings"] if w["code"] == "unknown-key"}
    zero = "zero_optimization"
    assert {key: nearest for key, (nearest, _) in unknown.items()} == {
        "gradient_cliping": "gradient_clipping",
        "bf16.enabeld": "bf16.enabled",
        "fp16.los_scale": "fp16.loss_scale",
        "aio.blocksize": "aio.block_size",
        f"{zero}.sub_group_sice": f"{zero}.sub_group_size",
        f"{zero}.offload_param.bufer_count": f"{zero}.offload_param.buffer_count",
    }
    for ignored in ("gradient_cliping", "aio.blocksize"):
        assert unknown[ignored][1].endswith("DeepSpeed ignores it")
    assert unknown["bf16.enabeld"][1].endswith("DeepSpeed refuses the file")
    assert unknown[f"{zero}.offload_param.bufer_count"][1].endswith("DeepSpeed refuses the file")
    plain = penstock.json("plan", QWEN, "--config", SEED, *MEMORY)
    assert not [warning for warning in plain["warnings"] if warning["code"] == "unknown-key"]


def automatic(write, **changes):
    document = json.loads(SEED.read_text())
    document |= {"bf16": {"enabled": "auto"}, "gradient_accumulation_steps": 1}
    document["zero_optimization"] |= changes
    return write("automatic.json", document)


def test_auto_is_the_models_type_unless_said_otherwise(penstock, write):
    config = automatic(write)
    parameters = 596049920
    for options, bytes_each, assumed in (
        ([], 2, True),
        (["--dtype", "bf16"], 2, False),
        (["--dtype", "fp32"], 4, False),
    ):
        plan = penstock.json("plan", QWEN, "--config", config, *options, *MEMORY)
        assert component(plan, "parameters") == parameters * bytes_each
        found = [warning for warning in plan["warnings"] if warning["code"] == "assumed"]
        assert [warning["key"] for warning in found] == ["bf16.enabled"] * assumed
        assert not assumed or "bf16, the type of the inventory" in found[0]["text"]
    done = penstock("plan", QWEN, "--config", SEED, "--dtype", "bf16", *MEMORY)
    assert done.returncode == 1
    assert_one_sentence(done, "--dtype is bf16", "holds parameters as f32")


@pytest.mark.parametrize(
    ("types", "assumed"),
    [
        (["f16", "f16"], "f16, the type of the inventory;"),
        (["bf16", "f32"], "bf16, the commonest of f32, bf16 and f16 in the inventory;"),
        (["f8_e4m3", "f16"], "f16, the commonest of f32, bf16 and f16 in the inventory;"),
        (["f8_e4m3", "f8_e4m3"], "f32, for no parameter of the inventory is of f32, bf16 or f16;"),
        (["f64", "f64"], "f32, for no parameter of the inventory is of f32, bf16 or f16;"),
    ],
)
def test_the_assumed_type_is_called_what_it_is(penstock, write, types, assumed):
    shapes = zip("ab", types, [[1024, 1024], [512, 512]], strict=True)
    tensors = [{"name": name, "dtype": dtype, "shape": shape} for name, dtype, shape in shapes]
    plan = penstock.json("plan", write("model.json", {"tensors": tensors}), "--config", automatic(write), *MEMORY)
    [found] = [warning for warning in plan["warnings"] if warning.get("key") == "bf16.enabled"]
    assert f"planned with {assumed} --dtype says otherwise" in found["text"]


def test_an_automatic_threshold_is_that_of_transformers(penstock, write):
    key = "stage3_param_persistence_threshold"
    plan = penstock.json("plan", QWEN, "--config", automatic(write, **{key: "auto"}), "--dtype", "bf16", *MEMORY)
    [assumed] = [warning for warning in plan["warnings"] if warning["code"] == "assumed"]
    assert assumed["key"] == f"zero_optimization.{key}" and "10240, 10 x the hidden size" in assumed["text"]


@pytest.mark.parametrize(
    ("automatic_name", "other"),
    [
        ("stage3_param_persistence_threshold", "param_persistence_threshold"),
        ("param_persistence_threshold", "stage3_param_persistence_threshold"),
    ],
)
def test_an_automatic_threshold_gives_way_to_a_number_under_its_other_name(penstock, write, automatic_name, other):
    """DeepSpeed passes over "auto"."""

    def plan(**zero):
        return penstock.json("plan", QWEN, "--config", automatic(write, **zero), "--dtype", "bf16", *MEMORY)

    found, alone = plan(**{automatic_name: "auto", other: 5}), plan(**{other: 5})
    [assumed] = [warning for warning in found["warnings"] if warning["code"] == "assumed"]
    assert assumed["key"] == f"zero_optimization.{automatic_name}"
    assert f"planned with what zero_optimization.{other} says" in assumed["text"]
    assert found["tensors"] == alone["tensors"] != plan()["tensors"]


@pytest.mark.parametrize("embedding", ["transformer.wte.weight", "shared.weight", "model.embed_tokens.weight"])
def test_the_hidden_size_is_that_of_the_embedding(penstock, write, embedding):
    shapes = {"head.weight": [80, 512], embedding: [512, 640]}
    tensors = [{"name": name, "dtype": "bf16", "shape": shape, "role": "param"} for name, shape in shapes.items()]
    model = write("model.json", {"tensors": tensors})
    config = automatic(write, stage3_param_persistence_threshold="auto")
    plan = penstock.json("plan", model, "--config", config, "--dtype", "bf16", *MEMORY)
    said = f"6400, 10 x the hidden size as {embedding} has it; Trainer takes that of the model's config"
    assert any(said in warning["text"] for warning in plan["warnings"])


@pytest.mark.parametrize(
    "shapes",
    [
        {"a.word_embeddings.weight": [512, 64], "encoder.embedding_hidden_mapping_in.weight": [640, 64]},
        {"electra.embeddings.word_embeddings.weight": [512, 64], "electra.embeddings_project.weight": [640, 64]},
        {"deberta.embeddings.word_embeddings.weight": [512, 64], "deberta.embeddings.embed_proj.weight": [640, 64]},
        {"model.decoder.embed_tokens.weight": [512, 64], "model.decoder.project_in.weight": [640, 64]},
    ],
)
def test_the_hidden_size_is_not_that_of_a_narrow_embedding(penstock, write, shapes):
    """As transformers has it for ALBERT, ELECTRA, DeBERTa and OPT."""
    tensors = [{"name": name, "dtype": "bf16", "shape": shape, "role": "param"} for name, shape in shapes.items()]
    model = write("model.json", {"tensors": tensors})
    config = automatic(write, stage3_param_persistence_threshold="auto")
    plan = penstock.json("plan", model, "--config", config, "--dtype", "bf16", *MEMORY)
    assert any("6400, 10 x the hidden size" in warning["text"] for warning in plan["warnings"])


@pytest.mark.parametrize(
    ("batches", "is_assumed"),
    [
        ({"gradient_accumulation_steps": "auto"}, True),
        ({"gradient_accumulation_steps": "auto", "train_batch_size": "auto"}, True),
        ({"gradient_accumulation_steps": "auto", "train_batch_size": 8, "train_micro_batch_size_per_gpu": 2}, False),
        ({"gradient_accumulation_steps": 4}, False),
        ({}, False),
    ],
)
def test_automatic_passes_are_one_with_a_warning(penstock, write, batches, is_assumed):
    document = {"train_batch_size": 1, "zero_optimization": {"stage": 3}} | batches
    plan = penstock.json("plan", QWEN, "--config", write("passes.json", document), *MEMORY)
    found = [warning["key"] for warning in plan["warnings"] if warning["code"] == "assumed"]
    assert ("gradient_accumulation_steps" in found) == is_assumed


def test_what_does_not_fit_is_emitted_with_its_status(penstock):
    arguments = ["plan", QWEN, "--config", SEED, "--emit-config"]
    done = penstock(*arguments, "--ram", "0", "--max-pinned", "1MiB", *MEMORY)
    assert done.returncode == 1 and json.loads(done.stdout)["zero_optimization"]
    assert_one_sentence(done, "impossible: ")
    said = penstock(*arguments, "--ram", "0", "--max-pinned", "1MiB", "-o", os.devnull, *MEMORY).stdout
    assert "the plan is impossible with 1048576, given by --max-pinned" in said
    done = penstock(*arguments, "--memory", "2GiB")
    assert done.returncode == 3 and json.loads(done.stdout)["zero_optimization"]
    assert_one_sentence(done, "does not fit: ")


def test_not_feasible_is_status_1_with_a_value_that_works(penstock):
    arguments = ["plan", QWEN, "--config", SEED, "--ram", "0", *MEMORY]
    on_cpu = {"env": {"DS_ACCELERATOR": "cpu"}}
    plan = penstock.json(*arguments, "--max-pinned", "1MiB", code=1, **on_cpu)
    assert plan["feasible"] is False
    assert list(plan) == KEYS
    assert EMBEDDING in plan["reason"] and "max_pinned_bytes of 1048576" in plan["reason"]
    smallest = int(plan["reason"].rsplit(" ", 1)[1])
    assert penstock.json(*arguments, "--max-pinned", smallest, **on_cpu)["feasible"] is True
    assert penstock.json(*arguments, "--max-pinned", smallest - 4096, code=1, **on_cpu)["feasible"] is False
    assert_one_sentence(
        penstock(*arguments, "--max-pinned", "1MiB", **on_cpu), "impossible: ", EMBEDDING, str(smallest)
    )


@pytest.mark.parametrize("joins", [False, True], ids=["a list", "with a semicolon"])
def test_several_paths_are_emitted_as_training_takes_them(penstock, write, tmp_path, joins):
    """penstock's commands take both forms; DeepSpeed takes one path."""
    drives = [str(tmp_path / "a"), str(tmp_path / "b")]
    document = json.loads(FULL.read_text())
    for section in ("offload_param", "offload_optimizer"):
        document["zero_optimization"][section]["nvme_path"] = ";".join(drives) if joins else drives
    arguments = ["plan", QWEN, "--config", write("several.json", document), "--ram", "0", *MEMORY]

    def on_paths(plan):
        return [warning["key"] for warning in plan["warnings"] if warning["code"] == "nvme-path"]

    sections = ("offload_param", "offload_optimizer")
    assert on_paths(penstock.json(*arguments)) == [f"zero_optimization.{section}.nvme_path" for section in sections]
    emitted = json.loads(penstock(*arguments, "--emit-config").stdout)
    assert emitted["penstock"]["paths"] == drives
    assert {emitted["zero_optimization"][section]["nvme_path"] for section in sections} == {drives[0]}
    assert not on_paths(penstock.json("plan", QWEN, "--config", write("emitted.json", emitted), *MEMORY))


@pytest.mark.parametrize("device", ["nvme", "cpu"])
@pytest.mark.parametrize("form", ["list", "/a;"])
def test_one_path_in_a_form_of_several(penstock, write, device, form):
    """DeepSpeed refuses the list whatever the device, and would make a directory `/a;`."""
    document = json.loads(FULL.read_text())
    section = document["zero_optimization"]["offload_optimizer"]
    section.update(device=device, nvme_path=["/a"] if form == "list" else form)
    arguments = ["plan", QWEN, "--config", write("one.json", document), "--ram", "0", *MEMORY]
    warned = [warning["key"] for warning in penstock.json(*arguments)["warnings"] if warning["code"] == "nvme-path"]
    is_harmless = device == "cpu" and form == "/a;"
    assert warned == ([] if is_harmless else ["zero_optimization.offload_optimizer.nvme_path"])
    emitted = json.loads(penstock(*arguments, "--emit-config").stdout)
    assert emitted["zero_optimization"]["offload_optimizer"]["nvme_path"] == "/a"
    assert "paths" not in emitted["penstock"]


def test_one_path_named_twice_is_emitted_once(penstock, write):
    document = json.loads(FULL.read_text())
    for section in ("offload_param", "offload_optimizer"):
        document["zero_optimization"][section]["nvme_path"] = "/a;/a"
    emitted = json.loads(penstock("plan", QWEN, "--config", write("twice.json", document), "--emit-config").stdout)
    assert "paths" not in emitted["penstock"]


@pytest.mark.parametrize("rules", [[], [{"match": "*", "place": "dedicated"}]])
def test_a_default_that_memory_has_cut_is_memory_that_is_short(penstock, write, rules):
    """No budget was given. What the sentence names is enough."""
    arguments = ["plan", QWEN, "--optimizer", "none", "--config", with_penstock(write, SEED, tensors=rules)]
    plan = penstock.json(*arguments, "--memory", "10m", code=3)
    assert plan["feasible"] is True and plan["reason"] is None
    first = next(warning["text"] for warning in plan["warnings"] if warning["code"] == "memory")
    assert ("max_pinned_bytes is by default a quarter" in first) == bool(rules)
    enough = max(int(number) for number in re.findall(r"(\d+) bytes", first))
    assert penstock.json(*arguments, "--memory", enough)["fits"] is True


REFUSED = {
    "zenflow": {},
    "offload_optimizer": {"device": "nvme", "nvme_path": "/n", "super_offload": True, "ratio": 0.5},
    "zero_hpz_partition_size": 2,
    "mics_shard_size": 2,
    "zero_quantized_weights": True,
    "zero_quantized_nontrainable_weights": True,
    "zero_quantized_gradients": True,
}


def test_all_that_training_refuses_is_refused(penstock, write):
    refusals = pytest.importorskip("penstock.deepspeed.refusals")
    document = json.loads(SEED.read_text()) | {"compile": {"deepcompile": True}}
    document["zero_optimization"] |= REFUSED
    plan = penstock.json("plan", QWEN, "--config", write("refused.json", document), *MEMORY, code=3)
    found = [warning["text"] for warning in plan["warnings"] if warning["code"] == "refused"]
    assert found == refusals.sentences()


def test_a_durable_store_is_not_for_training(penstock, write):
    document = json.loads(SEED.read_text()) | {"penstock": {"mode": "durable"}}
    done = penstock("plan", QWEN, "--config", write("durable.json", document), *MEMORY)
    assert done.returncode == 3
    assert_one_sentence(done, "does not fit: penstock.mode is 'durable': training swaps to scratch stores")


def test_a_missing_path_is_refused(penstock, write):
    document = json.loads(FULL.read_text())
    del document["zero_optimization"]["offload_optimizer"]["nvme_path"]
    done = penstock("plan", QWEN, "--config", write("no-path.json", document), "--ram", "0", *MEMORY)
    assert done.returncode == 3
    assert_one_sentence(done, "does not fit: offload_optimizer.nvme_path is missing; training refuses the file")


def test_the_assumed_optimizer_is_said(penstock, write):
    document = json.loads(FULL.read_text())
    for optimizer, key in ({"type": "Muon"}, "optimizer.type"), (None, "optimizer"):
        document["optimizer"] = optimizer
        plan = penstock.json("plan", QWEN, "--config", write("optimizer.json", document), "--ram", "0", *MEMORY)
        assert [w["key"] for w in plan["warnings"] if w["code"] == "assumed"] == [key]


def test_another_machine_has_an_accelerator_unless_it_is_named(penstock):
    options = ["plan", QWEN, "--config", FULL, "--verbose", *MEMORY]
    assert penstock.json(*options)["process"]["device_bytes"] == 0
    assert penstock.json(*options, env={"DS_ACCELERATOR": "cuda"})["process"]["device_bytes"] == 0
    assert penstock.json(*options, env={"DS_ACCELERATOR": "cpu"})["process"]["device_bytes"] > 0


def test_what_goes_to_a_device_has_its_share_of_pinned_memory(penstock, write):
    options = ["plan", QWEN, "--config", with_penstock(write, FULL, ram_bytes=0, max_pinned_bytes="64MiB"), *MEMORY]
    through_host, device = (penstock.json(*options, env={"PENSTOCK_DEVICE": name}) for name in ("", "host:0"))
    assert (through_host["device_pinned_bytes"], device["device_pinned_bytes"]) == (0, 16 << 20)
    assert device["pinned_bytes"] <= 48 << 20 < through_host["pinned_bytes"]
    assert penstock.json(*options)["pinned_bytes"] == device["pinned_bytes"], "another machine has an accelerator"
    assert " of 64.0 MiB allowed" in penstock(*options).stdout
    emitted = json.loads(penstock(*options, "--emit-config").stdout)
    assert emitted["penstock"]["max_pinned_bytes"] == "64MiB", "one value, as it was written"
    small = [*options, "--max-pinned", "4MiB"]
    assert penstock.json(*small, env={"PENSTOCK_DEVICE": ""})["fits"]
    refused = penstock.json(*small, code=1)
    smallest = re.search(r"smallest value that works is (\d+), devices included", refused["reason"])
    assert penstock.json(*options, "--max-pinned", smallest[1])["fits"]

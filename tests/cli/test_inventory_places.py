"""Where an INVENTORY may be: in Hugging Face's cache by its name, in a checkpoint of DeepSpeed, in an adapter."""

import json
import math
import shutil
from pathlib import Path

import pytest
from cli_support import assert_one_sentence, safetensors_bytes
from plan_files import MEMORY

NAME = "Acme/Tiny-0.1B"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
WEIGHTS = safetensors_bytes({"a": ("BF16", [1024, 1024], 2 << 20), "b": ("BF16", [512, 1024], 1 << 20)})
CHECKPOINTS = Path(__file__).with_name("checkpoints")


@pytest.fixture
def hub(tmp_path):
    """A cache as huggingface_hub fills it: files are links to blobs. Answers the model's directory."""

    def fill(files, cache=tmp_path / "hub", name=NAME, reference=COMMIT):
        model = cache / f"models--{name.replace('/', '--')}"
        snapshot = model / "snapshots" / COMMIT
        snapshot.mkdir(parents=True)
        (model / "blobs").mkdir()
        (model / "refs").mkdir()
        (model / "refs" / "main").write_text(reference)
        for number, (file, content) in enumerate(files.items()):
            (model / "blobs" / f"{number}").write_bytes(content)
            (snapshot / file).symlink_to(f"../../blobs/{number}")
        return model

    return fill


def names(plan):
    return [tensor["name"] for tensor in plan["tensors"]]


@pytest.mark.parametrize(
    ("place", "variables"),
    [
        ("hub", {"HF_HUB_CACHE": "{}/hub", "HF_HOME": "/nowhere"}),
        ("home/hub", {"HF_HOME": "{}/home", "XDG_CACHE_HOME": "/nowhere"}),
        ("xdg/huggingface/hub", {"XDG_CACHE_HOME": "{}/xdg", "HOME": "/nowhere"}),
        (".cache/huggingface/hub", {"HOME": "{}"}),
        ("tilde/hub", {"HOME": "{}", "HF_HOME": "~/tilde"}),
    ],
)
def test_a_models_name_is_looked_up_in_the_cache(penstock, hub, tmp_path, monkeypatch, place, variables):
    for variable in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    hub({"model.safetensors": WEIGHTS, "config.json": b"{}"}, cache=tmp_path / place)
    environment = {variable: value.format(tmp_path) for variable, value in variables.items()}
    plan = penstock.json("plan", NAME, *MEMORY, env=environment, cwd=tmp_path)
    assert names(plan) == ["a", "b"]


def test_a_path_of_that_name_comes_first(penstock, hub, tmp_path):
    hub({"model.safetensors": WEIGHTS})
    there = tmp_path / NAME
    there.mkdir(parents=True)
    (there / "model.safetensors").write_bytes(safetensors_bytes({"mine": ("U8", [4], 4)}))
    plan = penstock.json("plan", NAME, *MEMORY, env={"HF_HUB_CACHE": str(tmp_path / "hub")}, cwd=tmp_path)
    assert names(plan) == ["mine"]


def test_a_benchmark_takes_the_name_too(penstock, hub, write, tmp_path):
    hub({"model.safetensors": WEIGHTS})
    jobs = f"[job]\nworkload=swap\ninventory={NAME}\nioengine=sim\nphase=forward\n"
    environment = {"HF_HUB_CACHE": str(tmp_path / "hub")}
    done = penstock("bench", write("jobs.ini", jobs), env=environment, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_what_is_not_in_the_cache_says_how_to_bring_it(penstock, hub, tmp_path):
    environment = {"HF_HUB_CACHE": str(tmp_path / "hub")}

    def refused(*parts):
        done = penstock("plan", NAME, env=environment, cwd=tmp_path)
        assert done.returncode == 1 and done.stdout == ""
        assert_one_sentence(done, f'`hf download {NAME} --include "*.safetensors*" config.json`', *parts)

    place = tmp_path / "hub" / "models--Acme--Tiny-0.1B"
    refused(str(place), "no file or directory")
    model = hub({"config.json": b"{}"})
    snapshot = model / "snapshots" / COMMIT
    refused("without weights", f"`python -m penstock.inventory {snapshot} -o inventory.json`")
    (snapshot / "config.json").unlink()
    refused("without weights")
    for reference in ("../../..", "", "f" * 5000, "not a commit"):
        (model / "refs" / "main").write_text(reference)
        refused(str(place))
    shutil.rmtree(model / "refs")
    refused(str(place))


@pytest.mark.parametrize(
    "name", ["model.json", "a/b/c", "a--b", "../a", ".hidden", "a/", "x" * 97, "model.safetensors"]
)
def test_other_texts_are_paths(penstock, tmp_path, name):
    done = penstock("plan", name, env={"HF_HUB_CACHE": str(tmp_path)}, cwd=tmp_path)
    assert done.returncode == 1
    assert_one_sentence(done, name, "No such file or directory")


@pytest.mark.parametrize("stage", ["stage2", "stage3"])
def test_a_checkpoint_of_deepspeed_has_names_and_shapes(penstock, write, stage):
    shapes = json.loads((CHECKPOINTS / f"{stage}.json").read_text())
    by_checkpoint = penstock.json("plan", CHECKPOINTS / stage, *MEMORY)
    types = {"scale": "f32"} if stage == "stage2" else {}  # a buffer
    tensors = [{"name": name, "dtype": types.get(name, "bf16"), "shape": shape} for name, shape in shapes.items()]
    listed = penstock.json("plan", write("listed.json", {"tensors": tensors}), *MEMORY)
    assert {t["name"]: t["bytes"] for t in by_checkpoint["tensors"]} == {
        t["name"]: t["bytes"] for t in listed["tensors"]
    }
    tag = penstock.json("plan", CHECKPOINTS / stage / "global_step3", *MEMORY)
    assert tag["tensors"] == by_checkpoint["tensors"]


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        ([["b.norm", "b.proj"], ["a.norm"], ["a.proj"]], ["b.norm", "b.proj", "a.norm", "a.proj"]),
        # Trainer's optimizer has biases and norms in a second group: names say how both mix.
        ([["b.proj"], ["a.proj"], ["b.norm", "a.norm"]], ["b.proj", "b.norm", "a.proj", "a.norm"]),
    ],
)
def test_a_checkpoint_of_deepspeed_has_the_order_of_building(penstock, tmp_path, groups, expected):
    """Names alone would say: a.proj, a.norm, b.proj, b.norm."""
    from checkpoint_files import model_state, shard, torch  # needs torch

    shapes = [{f"{name}.weight": (16, 16) if "proj" in name else (16,) for name in group} for group in groups]
    folder = tmp_path / "run" / "global_step3"
    folder.mkdir(parents=True)
    torch.save(model_state(3, 1, 0, groups=shapes, frozen_param_shapes={}), folder / shard(0))
    (tmp_path / "run" / "latest").write_text("global_step3")
    trained = {name for group in shapes for name in group}
    plan = penstock.json("plan", tmp_path / "run", *MEMORY)
    assert [name for name in names(plan) if name in trained] == [f"{name}.weight" for name in expected]


def test_a_damaged_checkpoint_says_so(penstock, tmp_path):
    there = tmp_path / "stage3"
    shutil.copytree(CHECKPOINTS / "stage3", there)
    (there / "global_step3" / "zero_pp_rank_1_mp_rank_00_model_states.pt").write_bytes(b"no archive")
    plan = penstock.json("plan", there, *MEMORY)
    assert "checkpoint-incomplete" in {warning["code"] for warning in plan["warnings"]}
    (there / "latest").write_text("global_step9")
    done = penstock("plan", there)
    assert done.returncode == 1
    assert_one_sentence(done, "global_step9")


def test_a_trainers_checkpoint(penstock, tmp_path):
    there = tmp_path / "checkpoint-500"
    shutil.copytree(CHECKPOINTS / "stage3", there)
    whole = safetensors_bytes({"a": ("BF16", [1024, 1024], 2 << 20)})
    (there / "model.safetensors").write_bytes(whole)
    assert names(penstock.json("plan", there, *MEMORY)) == ["a"]
    stub = safetensors_bytes({"head.weight": ("BF16", [0], 0), "layers.0.weight": ("BF16", [0], 0)})
    (there / "model.safetensors").write_bytes(stub)
    assert "layers.3.weight" in names(penstock.json("plan", there, *MEMORY))


def test_an_adapter_is_called_one(penstock, write, tmp_path):
    write("adapter_model.safetensors", safetensors_bytes({"lora_A.weight": ("F32", [8, 1024], 32768)}))
    write("adapter_config.json", {"base_model_name_or_path": NAME})
    for path in (tmp_path, tmp_path / "adapter_model.safetensors"):
        plan = penstock.json("plan", path, *MEMORY)
        [warning] = [warning for warning in plan["warnings"] if warning["code"] == "adapter-only"]
        assert str(path) in warning["text"]


def test_experts_that_are_joined_by_loading(penstock, write, tmp_path):
    names = [f"model.layers.0.mlp.experts.{expert}.up_proj.weight" for expert in range(2)]
    path = write("model.safetensors", safetensors_bytes({name: ("BF16", [64, 64], 8192) for name in names}))
    plan = penstock.json("plan", path, *MEMORY)
    [warning] = [warning for warning in plan["warnings"] if warning["code"] == "separate-experts"]
    assert "python -m penstock.inventory" in warning["text"]
    entries = [{"name": name, "dtype": "bf16", "shape": [64, 64], "role": "param"} for name in names]
    plan = penstock.json("plan", write("inventory.json", {"tensors": entries}), *MEMORY)
    assert not [warning for warning in plan["warnings"] if warning["code"] == "separate-experts"]


@pytest.mark.parametrize(
    ("config", "is_left_out"),
    [
        ({"tie_word_embeddings": True}, True),
        ({"tie_word_embeddings": False}, False),
        ({}, False),  # each model has its own default
        ([], False),
        (b"no JSON", False),
        (None, False),
    ],
)
def test_a_tied_head_that_is_stored_is_left_out(penstock, write, tmp_path, config, is_left_out):
    """As transformers does when it loads Qwen/Qwen3-0.6B."""
    shapes = {"model.embed_tokens.weight": [32, 64], "model.norm.weight": [64], "lm_head.weight": [32, 64]}
    entries = {name: ("BF16", shape, 2 * math.prod(shape)) for name, shape in shapes.items()}
    file = write("model.safetensors", safetensors_bytes(entries))
    if config is not None:
        write("config.json", config)
    for path in (tmp_path, file):
        plan = penstock.json("plan", path, *MEMORY)
        assert names(plan) == [name for name in shapes if name != "lm_head.weight" or not is_left_out]
        warnings = [warning["text"] for warning in plan["warnings"] if warning["code"] == "not-loaded"]
        assert len(warnings) == is_left_out
        assert not is_left_out or "lm_head.weight" in warnings[0]


def test_a_head_of_another_shape_is_no_embedding(penstock, write, tmp_path):
    entries = {"wte.weight": ("BF16", [32, 64], 4096), "lm_head.weight": ("BF16", [33, 64], 4224)}
    write("model.safetensors", safetensors_bytes(entries))
    write("config.json", {"tie_word_embeddings": True})
    assert names(penstock.json("plan", tmp_path, *MEMORY)) == ["wte.weight", "lm_head.weight"]


def test_masks_of_attention_are_left_out(penstock, write, tmp_path):
    """As openai-community/gpt2 has them. A list in JSON says what there is."""
    shapes = {"h.0.attn.c_attn.bias": [48], "h.0.attn.bias": [1, 1, 8, 8], "h.0.attn.masked_bias": []}
    entries = {name: ("F32", shape, 4 * math.prod(shape)) for name, shape in shapes.items()}
    write("model.safetensors", safetensors_bytes(entries))
    plan = penstock.json("plan", tmp_path, *MEMORY)
    assert names(plan) == ["h.0.attn.c_attn.bias"]
    [warning] = [warning for warning in plan["warnings"] if warning["code"] == "not-loaded"]
    assert "2 attention masks such as h.0.attn.bias" in warning["text"]
    tensors = [{"name": name, "dtype": "f32", "shape": shape} for name, shape in shapes.items()]
    assert names(penstock.json("plan", write("inventory.json", {"tensors": tensors}), *MEMORY)) == list(shapes)

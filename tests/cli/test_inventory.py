"""`python -m penstock.inventory`: what it lists is what transformers builds."""

import json
import os
import subprocess
import sys

import pytest
from cli_support import DATA, ROOT

# config.json of the models in bench/data/inventories.
QWEN3 = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "dtype": "bfloat16",
    "vocab_size": 151936,
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "tie_word_embeddings": True,
}
LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "dtype": "bfloat16",
    "vocab_size": 128256,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "tie_word_embeddings": False,
}
MOE = {
    "architectures": ["Qwen3MoeForCausalLM"],
    "model_type": "qwen3_moe",
    "dtype": "bfloat16",
    "vocab_size": 151936,
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "moe_intermediate_size": 768,
    "num_hidden_layers": 48,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "tie_word_embeddings": False,
}


def run(*arguments):
    # As a file, so that the compiled module is not needed: it is not what is tested here.
    script = ROOT / "bindings" / "python" / "penstock" / "inventory.py"
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    return subprocess.run(
        [sys.executable, str(script), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=300,
        env=environment,
        check=False,
    )


def test_help_has_an_example():
    done = run("--help")
    assert done.returncode == 0
    assert "python -m penstock.inventory" in done.stdout and "example" in done.stdout


def test_a_directory_without_a_config(tmp_path):
    done = run(tmp_path)
    assert done.returncode == 1
    assert f"{tmp_path} has no config.json" in done.stderr


@pytest.mark.parametrize("config, name", [(QWEN3, "qwen3-0.6b"), (LLAMA, "llama-3.1-8b"), (MOE, "qwen3-30b-a3b")])
def test_lists_what_transformers_builds(tmp_path, penstock, config, name):
    pytest.importorskip("transformers")
    (tmp_path / "config.json").write_text(json.dumps(config))
    out = tmp_path / "inventory.json"
    done = run(tmp_path, "-o", out)
    assert done.returncode == 0, done.stderr
    made = json.loads(out.read_text())["tensors"]
    assert made == json.loads((DATA / "inventories" / f"{name}.json").read_text())["tensors"]
    assert len(penstock.json("plan", out)["tensors"]) == len(made)


def test_a_model_that_nobody_knows(tmp_path):
    pytest.importorskip("transformers")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "nobody_knows"}))
    done = run(tmp_path)
    assert done.returncode == 1
    assert "cannot read" in done.stderr and "Traceback" not in done.stderr

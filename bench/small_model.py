"""A model with the proportions of Qwen3-0.6B that trains in seconds on one core: in bfloat16 an embedding of 16 MiB
beside matrices of 0.25 to 2 MiB."""

from __future__ import annotations

from pathlib import Path

MAKER = Path(__file__).parent / "data" / "make_model.py"
# What it has instead of Qwen3-0.6B's numbers.
SMALLER = {
    "vocab_size=151936": "vocab_size=16384",
    "hidden_size=1024": "hidden_size=512",
    "intermediate_size=3072": "intermediate_size=2048",
    "num_attention_heads=16": "num_attention_heads=8",
    "num_key_value_heads=8": "num_key_value_heads=4",
    "head_dim=128": "head_dim=64",
}


def small_model_script() -> str:
    """The text of a script that makes it: DIRECTORY LAYERS, as make_model.py."""
    script = MAKER.read_text()
    for real, small in SMALLER.items():
        if real not in script:
            raise ValueError(f"{MAKER} no longer says {real}")
        script = script.replace(real, small)
    return script

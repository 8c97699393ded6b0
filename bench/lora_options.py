"""The options by which `penstock plan` plans GRPO with LoRA on Qwen3-0.6B's shape."""

from __future__ import annotations

# Inputs and outputs of what LoRA's `all-linear` adapts in Qwen3-0.6B's shape.
LINEAR = {
    "self_attn.q_proj": (1024, 2048),
    "self_attn.k_proj": (1024, 1024),
    "self_attn.v_proj": (1024, 1024),
    "self_attn.o_proj": (2048, 1024),
    "mlp.gate_proj": (1024, 3072),
    "mlp.up_proj": (1024, 3072),
    "mlp.down_proj": (3072, 1024),
}


def lora_options(linear: dict[str, tuple[int, int]] = LINEAR, rank: int = 8) -> list[str]:
    """What GRPO with LoRA of this rank is for `penstock plan`; `linear`: inputs and outputs by module of a layer."""
    options = ["--trainable", "none", "--generation"]
    for name, (inputs, outputs) in linear.items():
        path = f"model.layers.*.{name}.lora"
        options += ["--adapter", f"{path}_A={rank}x{inputs}", "--adapter", f"{path}_B={outputs}x{rank}"]
    return options

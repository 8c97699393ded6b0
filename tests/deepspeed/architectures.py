"""Small models of transformers' architectures, which a trial trains one after the other in its process."""

from __future__ import annotations

import gc
import inspect
from typing import Any

import torch
from deepspeed.runtime.zero.partition_parameters import PartitionedParamStatus as Status
from trial import Trial

WORDS = 512
# Each configuration takes the names that it knows.
SIZES = {
    "vocab_size": WORDS,
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "max_position_embeddings": 128,
    "sliding_window": 8,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "attention_dropout": 0.0,
    # mixtures of experts
    "num_local_experts": 4,
    "num_experts": 4,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 64,
    "shared_expert_intermediate_size": 64,
    "n_shared_experts": 1,
    "n_group": 1,
    "topk_group": 1,
    # latent attention
    "q_lora_rank": 32,
    "kv_lora_rank": 32,
    "qk_rope_head_dim": 16,
    "qk_nope_head_dim": 16,
    "v_head_dim": 32,
    # recurrences
    "state_size": 16,
    "mamba_d_state": 16,
    "lru_width": 128,
    # a language model within others
    "hidden_size_per_layer_input": 32,
    "vocab_size_per_layer_input": WORDS,
    "num_kv_shared_layers": 0,
    # other words for the same
    "n_embd": 128,
    "n_layer": 2,
    "n_head": 4,
    "n_positions": 128,
    "n_heads": 4,
    "n_layers": 2,
    "dim": 128,
    "hidden_dim": 256,
    "emb_dim": 128,
    "embedding_size": 64,
    "rotary_dim": 16,
    "ffn_dim": 256,
    "ffn_hidden_size": 256,
    "word_embed_proj_dim": 128,
    "d_model": 128,
    "d_ff": 256,
    "d_kv": 32,
    "num_layers": 2,
    "num_decoder_layers": 2,
    "num_heads": 4,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 256,
    "decoder_ffn_dim": 256,
}


def configuration(architecture: str) -> Any:
    """transformers' configuration of a model of less than 4 million parameters."""
    from transformers import CONFIG_MAPPING

    made = CONFIG_MAPPING[architecture]
    known = set(inspect.signature(made.__init__).parameters)
    known.update(*(getattr(parent, "__annotations__", {}) for parent in made.__mro__))
    return made(**{name: value for name, value in SIZES.items() if name in known})


def train(architectures: tuple[str, ...], kind: str, trial: Trial) -> None:
    """Three steps of each. kind: `CausalLM`, `Seq2SeqLM`, `MaskedLM`. Every second one has two micro-steps a step."""
    trial.swap_from(4096)
    for number, architecture in enumerate(architectures):
        _train_one(architecture, kind, 1 + number % 2, trial)
        trial.engines.pop().destroy()
        gc.collect()


def _train_one(architecture: str, kind: str, micro_steps: int, trial: Trial) -> None:
    import transformers

    torch.manual_seed(5)
    model = getattr(transformers, f"AutoModelFor{kind}").from_config(configuration(architecture)).to(torch.bfloat16)
    config = trial.config(
        gradient_accumulation_steps=micro_steps,
        gradient_clipping=1.0,
        zero_optimization__sub_group_size=100_000,
        zero_optimization__stage3_param_persistence_threshold=0,
        aio__block_size=4096,
    )
    engine = trial.initialize(model, config)
    for _ in range(3 * micro_steps):
        loss = _loss(engine)
        trial.record(architecture, repr(loss.item()))
        engine.backward(loss)
        at_boundary = engine.is_gradient_accumulation_boundary()
        engine.step()
        if at_boundary:
            trial.record_norm(engine)
    assert trial.reference or any(param.ds_tensor.status is Status.NOT_AVAILABLE for param in model.parameters())
    engine.eval()
    with torch.no_grad():
        trial.record(architecture, repr(_loss(engine).item()))
        if kind != "MaskedLM":
            trial.record(architecture, generated(engine, trial))
    trial.record_weights(engine)


def generated(engine: Any, trial: Trial) -> Any:
    """What follows six random tokens: their list with three more."""
    words = engine.module.generate(input_ids=tokens(6), max_new_tokens=3, do_sample=False, synced_gpus=trial.ranks > 1)
    return words.tolist()


def tokens(count: int) -> torch.Tensor:
    return torch.randint(3, WORDS, (1, count))


def _loss(engine: Any) -> torch.Tensor:
    batch = tokens(16)
    loss: torch.Tensor = engine(input_ids=batch, labels=batch).loss
    return loss

"""PEFT's ways to train a part beside a frozen model, which a trial trains one after the other in its process."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import torch
from architectures import configuration, generated, tokens
from deepspeed.runtime.zero.partition_parameters import PartitionedParamStatus as Status
from trial import Trial

_Q = {"target_modules": ["q_proj"]}
_THREE = {"target_modules": ["q_proj", "v_proj", "down_proj"]}
_RANK = {"r": 4}

# By a name: PEFT's configuration, without the `Config`, and what it is made with.
ADAPTERS: dict[str, tuple[str, dict[str, Any]]] = {
    "lora": ("Lora", {**_RANK, **_THREE}),
    "lora, dropout": ("Lora", {**_RANK, "target_modules": "all-linear", "lora_dropout": 0.1, "use_rslora": True}),
    "lora, weights decomposed": ("Lora", {**_RANK, **_THREE, "use_dora": True}),
    "lora, whole modules": ("Lora", {**_RANK, **_THREE, "modules_to_save": ["lm_head", "embed_tokens"]}),
    "lora, embeddings": ("Lora", {**_RANK, "target_modules": ["embed_tokens", "q_proj", "lm_head"]}),
    "lora, tokens": ("Lora", {**_RANK, **_THREE, "trainable_token_indices": [3, 7, 9]}),
    "lora, biases": ("Lora", {**_RANK, **_THREE, "bias": "all", "lora_bias": True}),
    "lora, parameters": ("Lora", {**_RANK, "target_modules": [], "target_parameters": ["mlp.up_proj.weight"]}),
    "lora, layers replicated": ("Lora", {**_RANK, **_THREE, "layer_replication": [[0, 2], [1, 2]]}),
    "lora, principal values": ("Lora", {**_RANK, **_THREE, "init_lora_weights": "pissa"}),
    "boft": ("BOFT", {"boft_block_size": 4, **_THREE}),
    "c3a": ("C3A", {"block_size": 32, **_Q}),
    "delora": ("Delora", {**_RANK, **_THREE}),
    "fourier": ("FourierFT", {"n_frequency": 50, **_THREE}),
    "hra": ("HRA", {**_RANK, **_THREE}),
    "ia3": ("IA3", {"target_modules": ["k_proj", "down_proj"], "feedforward_modules": ["down_proj"]}),
    "layer norms": ("LNTuning", {"target_modules": ["input_layernorm", "norm"]}),
    "loha": ("LoHa", {**_RANK, **_THREE}),
    "lokr": ("LoKr", {**_RANK, **_THREE}),
    "miss": ("Miss", {**_RANK, **_THREE}),
    "oft": ("OFT", {**_RANK, "oft_block_size": 0, **_THREE}),
    "randlora": ("RandLora", {**_RANK, **_Q}),
    "road": ("Road", _THREE),
    "shira": ("Shira", {**_RANK, **_THREE}),
    "tokens": ("TrainableTokens", {"token_indices": [3, 4], "target_modules": ["embed_tokens"]}),
    "vblora": ("VBLoRA", {**_RANK, "num_vectors": 16, "vector_length": 16, "topk": 2, **_Q}),
    "vera": ("Vera", {"r": 8, **_Q}),
    "adaption prompt": ("AdaptionPrompt", {"adapter_len": 4, "adapter_layers": 2}),
    "prefix": ("PrefixTuning", {"num_virtual_tokens": 4, "prefix_projection": True, "encoder_hidden_size": 64}),
    "prompt": ("PromptTuning", {"num_virtual_tokens": 4}),
    "prompt encoder": ("PromptEncoder", {"num_virtual_tokens": 4, "encoder_hidden_size": 64}),
}


def train(adapters: tuple[str, ...], trial: Trial) -> None:
    """Each is trained, evaluated with and without, generates, is saved, and is trained on in another engine."""
    trial.swap_from(1)  # the adapters, too
    for adapter in adapters:
        trial.record("-", adapter)
        _train_one(adapter, trial)
        gc.collect()


def _train_one(adapter: str, trial: Trial) -> None:
    config = trial.config(
        bf16=None,  # some adapters compute in fp32 only
        gradient_clipping=1.0,
        zero_optimization__sub_group_size=100_000,
        zero_optimization__stage3_param_persistence_threshold=0,
        aio__block_size=1,
    )
    engine = trial.initialize(_model(adapter, 7), config)
    _steps(engine, trial)
    assert trial.reference or any(p.ds_tensor.status is Status.NOT_AVAILABLE for p in engine.module.parameters())
    engine.eval()
    with torch.no_grad():
        trial.record("with", repr(_loss(engine).item()))
        with engine.module.disable_adapter():
            trial.record("without", repr(_loss(engine).item()))
        trial.record("generated", generated(engine, trial))
    engine.train()
    _steps(engine, trial)
    saved = str(Path(trial.swap).parent / "adapters" / adapter.replace(" ", "-"))
    engine.save_checkpoint(saved)
    trial.engines.pop().destroy()
    resumed = trial.initialize(_model(adapter, 17), config)
    resumed.load_checkpoint(saved)
    _steps(resumed, trial)
    trial.record_weights(resumed)
    trial.engines.pop().destroy()


def _model(adapter: str, seed: int) -> Any:
    """seed: of what the adapter begins with; the model below is always the same."""
    import peft
    from transformers import AutoModelForCausalLM

    torch.manual_seed(5)
    model = AutoModelForCausalLM.from_config(configuration("llama"))
    torch.manual_seed(seed)
    kind, arguments = ADAPTERS[adapter]
    return peft.get_peft_model(model, getattr(peft, f"{kind}Config")(task_type="CAUSAL_LM", **arguments))


def _steps(engine: Any, trial: Trial) -> None:
    for _ in range(2):
        loss = _loss(engine)
        trial.record("loss", repr(loss.item()))
        engine.backward(loss)
        engine.step()
        trial.record_norm(engine)


def _loss(engine: Any) -> torch.Tensor:
    batch = tokens(16)
    loss: torch.Tensor = engine(input_ids=batch, labels=batch, use_cache=False).loss
    return loss

"""Habits of Hugging Face's libraries: from_pretrained, PEFT, generate()."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import deepspeed
import torch
from habit import habit
from trial import Config, Trial, digest

WORDS = 2048


def saved_model(trial: Trial) -> Path:
    """A small Qwen3 with random weights, made by the first rank."""
    from transformers import AutoModelForCausalLM, Qwen3Config

    directory = Path(trial.swap).parent / "model"
    if trial.rank == 0:
        config = Qwen3Config(
            vocab_size=WORDS,
            hidden_size=512,
            intermediate_size=2048,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=128,
            tie_word_embeddings=True,
            bos_token_id=None,
            eos_token_id=1,
            pad_token_id=1,
        )
        AutoModelForCausalLM.from_config(config).to(torch.bfloat16).save_pretrained(directory)
    torch.distributed.barrier()
    return directory


def loaded_model(trial: Trial, config: Config) -> tuple[Any, Any]:
    """As Trainer loads it: partitioned while it is read. The second value has to live as long as the model is made."""
    from transformers import AutoModelForCausalLM
    from transformers.integrations import HfDeepSpeedConfig

    directory = saved_model(trial)
    keep = HfDeepSpeedConfig(config)
    return AutoModelForCausalLM.from_pretrained(directory, dtype=torch.bfloat16), keep


def _tokens(trial: Trial) -> torch.Tensor:
    return torch.randint(2, WORDS, (1, 16)).to(trial.device)


def language_step(trial: Trial, engine: Any) -> None:
    tokens = _tokens(trial)
    loss = engine(input_ids=tokens, labels=tokens, use_cache=False).loss
    trial.record("loss", repr(loss.item()))
    engine.backward(loss)
    engine.step()
    trial.record_norm(engine)


@habit("from_pretrained")
def from_pretrained(trial: Trial) -> None:
    config = trial.config()
    model, keep = loaded_model(trial, config)
    engine = trial.initialize(model, config)
    for _ in range(4):
        language_step(trial, engine)
    trial.record_weights(engine)
    del keep


@habit("generate() between steps, gathered layer by layer")
def generated(trial: Trial) -> None:
    config = trial.config()
    model, keep = loaded_model(trial, config)
    engine = trial.initialize(model, config)
    for _ in range(2):
        language_step(trial, engine)
        engine.eval()
        with torch.no_grad():
            made = engine.module.generate(_tokens(trial), max_new_tokens=4, do_sample=False, synced_gpus=True)
        trial.record("generated", made.tolist())
        engine.train()
    language_step(trial, engine)
    trial.record_weights(engine)
    del keep


@habit("generate() with all parameters gathered")
def generated_whole(trial: Trial) -> None:
    config = trial.config()
    model, keep = loaded_model(trial, config)
    engine = trial.initialize(model, config)
    for _ in range(2):
        language_step(trial, engine)
        engine.eval()
        with torch.no_grad(), deepspeed.zero.GatheredParameters(list(engine.module.parameters())):
            made = engine.module.generate(_tokens(trial), max_new_tokens=4, do_sample=False)
        trial.record("generated", made.tolist())
        engine.train()
    language_step(trial, engine)
    trial.record_weights(engine)
    del keep


@habit("PEFT's LoRA: train, evaluate, merge, evaluate")
def peft_merged(trial: Trial) -> None:
    from peft import LoraConfig, get_peft_model

    config = trial.config(gradient_clipping=1.0)
    model, keep = loaded_model(trial, config)
    model = get_peft_model(model, LoraConfig(r=8, target_modules="all-linear", init_lora_weights="gaussian"))
    engine = trial.initialize(model, config)
    for _ in range(3):
        language_step(trial, engine)
    _language_evaluation(trial, engine)
    with deepspeed.zero.GatheredParameters(list(engine.module.parameters()), modifier_rank=0):
        engine.module.merge_adapter()
    _language_evaluation(trial, engine)
    with deepspeed.zero.GatheredParameters(list(engine.module.parameters()), modifier_rank=0):
        engine.module.unmerge_adapter()
    language_step(trial, engine)
    trial.record_weights(engine)
    del keep


def _merged_between_steps(trial: Trial, lr: float, **lora: Any) -> None:
    """As TRL does it before vLLM generates. With one rank, the base keeps what rounding has changed."""
    from peft import LoraConfig, get_peft_model

    config = trial.config(optimizer__params__lr=lr)
    model, keep = loaded_model(trial, config)
    model = get_peft_model(model, LoraConfig(r=8, target_modules="all-linear", **lora))
    engine = trial.initialize(model, config)
    for _ in range(3):
        language_step(trial, engine)
        with deepspeed.zero.GatheredParameters(list(engine.module.parameters())):
            engine.module.merge_adapter()
            trial.record("merged", [digest(param.data) for param in engine.module.parameters()])
            engine.module.unmerge_adapter()
        _language_evaluation(trial, engine)
    trial.record_weights(engine)
    del keep


@habit("PEFT's LoRA: merged and unmerged in GatheredParameters without modifier_rank")
def peft_merged_between_steps(trial: Trial) -> None:
    _merged_between_steps(trial, 1e-3, init_lora_weights=False)


@habit("PEFT's LoRA: merged and unmerged between first small steps, which change a few elements of the base", short=1)
def peft_merged_between_small_steps(trial: Trial) -> None:
    _merged_between_steps(trial, 1e-5)


def _language_evaluation(trial: Trial, engine: Any) -> None:
    tokens = _tokens(trial)
    engine.eval()
    with torch.no_grad():
        trial.record("evaluation", repr(engine(input_ids=tokens, labels=tokens, use_cache=False).loss.item()))
    engine.train()

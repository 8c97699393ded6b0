"""Habits of transformers' Trainer: what it saves while it trains and when it is done, and the best of it loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from habit import habit
from habits_saving import record_files
from habits_transformers import WORDS, saved_model
from trial import Trial

ROWS = 6


def _rows(ranks: int) -> list[dict[str, torch.Tensor]]:
    generator = torch.Generator().manual_seed(3)
    tokens = torch.randint(2, WORDS, (ROWS * ranks, 16), generator=generator)
    return [{"input_ids": row, "labels": row} for row in tokens]


def _trained(trial: Trial, gathers: bool, **arguments: Any) -> tuple[Any, Path]:
    """A Trainer that has trained, and where it has saved; what it has logged and the weights at the end are seen."""
    from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

    output, model = Path(trial.swap).parent / "saved", saved_model(trial)
    settings = TrainingArguments(
        output_dir=str(output),
        deepspeed=trial.config(zero_optimization__stage3_gather_16bit_weights_on_model_save=gathers),
        bf16=True,
        learning_rate=1e-3,
        weight_decay=0.01,
        per_device_train_batch_size=1,
        per_device_eval_batch_size=1,
        logging_steps=1,
        report_to=[],
        use_cpu=trial.device == "cpu",
        **arguments,
    )
    rows = _rows(trial.ranks)
    trainer = Trainer(
        model=AutoModelForCausalLM.from_pretrained(model, dtype=torch.bfloat16),
        args=settings,
        train_dataset=rows,
        eval_dataset=rows[: 2 * trial.ranks],
    )
    trainer.train()
    trial.engines.append(trainer.model_wrapped)
    for log in trainer.state.log_history:
        trial.record({key: log[key] for key in ("step", "loss", "grad_norm", "eval_loss") if key in log})
    trial.record_weights(trainer.model_wrapped)
    record_files(trial, output)
    return trainer, output


@habit('Trainer: `load_best_model_at_end`, `save_total_limit=1`, `save_strategy="steps"`')
def best_model(trial: Trial) -> None:
    """The worst one counts as the best, so that it is not the last."""
    steps: dict[str, Any] = {"save_strategy": "steps", "save_steps": 2, "eval_strategy": "steps", "eval_steps": 2}
    best = {"load_best_model_at_end": True, "metric_for_best_model": "eval_loss", "greater_is_better": True}
    trainer, output = _trained(trial, True, max_steps=ROWS, save_total_limit=1, **steps, **best)
    trial.record("best", Path(trainer.state.best_model_checkpoint).relative_to(output))
    assert trainer.state.best_global_step < ROWS


@habit('Trainer: `save_strategy="epoch"`, `save_total_limit=1`; save_model')
def saved_by_epoch(trial: Trial) -> None:
    trainer, output = _trained(trial, True, num_train_epochs=2, save_strategy="epoch", save_total_limit=1)
    trainer.save_model(str(output / "final"))
    record_files(trial, output / "final")


@habit("Trainer: `save_only_model`; save_model")
def saved_without_states(trial: Trial) -> None:
    trainer, output = _trained(trial, True, max_steps=4, save_steps=2, save_only_model=True)
    trainer.save_model(str(output / "final"))
    record_files(trial, output / "final")


@habit("Trainer: save_model without `stage3_gather_16bit_weights_on_model_save`")
def saved_without_gathering(trial: Trial) -> None:
    from deepspeed.utils.zero_to_fp32 import get_fp32_state_dict_from_zero_checkpoint

    trainer, output = _trained(trial, False, max_steps=4, save_steps=2)
    trainer.save_model(str(output / "final"))
    record_files(trial, output / "final")
    for name, weight in get_fp32_state_dict_from_zero_checkpoint(str(output / "final")).items():
        trial.record("whole", name, tuple(weight.shape), weight.dtype, weight.double().sum().item())

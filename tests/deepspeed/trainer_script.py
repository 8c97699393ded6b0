"""trainer_script.py CONFIG DIRECTORY STEPS [DIE_AT]: a small Llama under transformers' Trainer with its default way of
saving, every second step; it resumes where DIRECTORY has a checkpoint, and dies by SIGKILL when DIE_AT steps are done.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint

config, directory, steps, *rest = [argument for argument in sys.argv[1:] if "local_rank" not in argument]


class Watch(TrainerCallback):  # type: ignore[misc]
    """Prints what must be equal, and ends the process where that is wanted."""

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        if logs and "loss" in logs:
            print("LOSS", state.global_step, repr(logs["loss"]), repr(logs.get("grad_norm")), flush=True)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if rest and state.global_step == int(rest[0]):
            os.kill(os.getpid(), signal.SIGKILL)


class Words(torch.utils.data.Dataset):  # type: ignore[type-arg]
    def __len__(self) -> int:
        return 64

    def __getitem__(self, number: int) -> dict[str, torch.Tensor]:
        words = torch.randint(0, 2048, (16,), generator=torch.Generator().manual_seed(number))
        return {"input_ids": words, "labels": words}


arguments = TrainingArguments(
    output_dir=directory,
    max_steps=int(steps),
    save_steps=2,
    save_total_limit=2,
    logging_steps=1,
    per_device_train_batch_size=1,
    learning_rate=1e-3,
    bf16=True,
    deepspeed=config,
    report_to=[],
    seed=3,
    use_cpu=True,
)
torch.manual_seed(0)
shape = LlamaConfig(
    vocab_size=2048, hidden_size=1024, intermediate_size=2048, num_hidden_layers=2, num_attention_heads=8
)
trainer = Trainer(model=LlamaForCausalLM(shape), args=arguments, train_dataset=Words(), callbacks=[Watch()])
last = get_last_checkpoint(directory) if os.path.isdir(directory) else None
print("RESUMES", last, flush=True)
trainer.train(resume_from_checkpoint=last is not None)
print("ENDED", trainer.state.global_step, flush=True)

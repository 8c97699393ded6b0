"""GRPO with LoRA under TRL, which saves as it goes and takes up where it stopped.

    torchrun --nproc_per_node 1 -m penstock.deepspeed examples/grpo_lora.py MODEL OUTPUT

MODEL is a directory or a name that from_pretrained takes. After a crash or a kill, run the same command again: it
goes on from the newest whole checkpoint in OUTPUT. The adapter is in OUTPUT/adapter, the model with the adapter
merged into it in OUTPUT/merged. See docs/EXAMPLES.md.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from peft import AutoPeftModelForCausalLM, LoraConfig
from transformers import AutoTokenizer
from transformers.integrations.deepspeed import unset_hf_deepspeed_config
from trl import GRPOConfig, GRPOTrainer


def newest_whole_checkpoint(output: Path) -> str | None:
    """Trainer writes trainer_state.json last. A checkpoint without it, or with half of it, was being saved when the run
    was killed.
    """
    checkpoints = output.glob("checkpoint-*")
    for checkpoint in sorted(checkpoints, key=lambda path: int(path.name.rpartition("-")[2]), reverse=True):
        with contextlib.suppress(OSError, ValueError):
            json.loads((checkpoint / "trainer_state.json").read_text())
            return str(checkpoint)
    return None


def sums() -> Dataset:
    draw = random.Random(7)
    pairs = [(draw.randrange(100), draw.randrange(100)) for _ in range(1000)]
    return Dataset.from_dict(
        {"prompt": [f"{one} plus {other} is" for one, other in pairs], "total": [str(sum(pair)) for pair in pairs]}
    )


def is_right(completions: list[str], total: list[str], **_: Any) -> list[float]:
    return [float(right in completion) for completion, right in zip(completions, total, strict=True)]


def is_short(completions: list[str], **_: Any) -> list[float]:
    return [-len(completion) / 100 for completion in completions]


def save_merged(adapter: Path, directory: Path) -> None:
    """The model with the adapter in it. It is whole in this machine's memory once, in 16 bits, and not on a GPU."""
    unset_hf_deepspeed_config()  # from_pretrained gives a whole model again, and not this rank's part of it
    model = AutoPeftModelForCausalLM.from_pretrained(adapter, dtype=torch.bfloat16)
    model.merge_and_unload().save_pretrained(directory)
    AutoTokenizer.from_pretrained(adapter).save_pretrained(directory)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("output", metavar="OUTPUT", type=Path)
    parser.add_argument("--deepspeed", default=str(Path(__file__).with_suffix(".json")), help="the configuration")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--save-steps", type=int, default=100)
    options = parser.parse_args()

    settings = GRPOConfig(
        output_dir=str(options.output),
        deepspeed=options.deepspeed,
        max_steps=options.steps,
        save_steps=options.save_steps,
        save_total_limit=2,
        logging_steps=1,
        per_device_train_batch_size=4,
        num_generations=4,
        max_completion_length=16,
        beta=0.04,
        learning_rate=1e-4,
        bf16=True,
        use_cpu=not torch.cuda.is_available(),
        model_init_kwargs={"dtype": "bfloat16"},
        report_to=[],
        seed=7,
    )
    trainer = GRPOTrainer(
        model=options.model,
        args=settings,
        reward_funcs=[is_right, is_short],
        train_dataset=sums(),
        processing_class=AutoTokenizer.from_pretrained(options.model, padding_side="left"),
        peft_config=LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM"),
    )
    trainer.train(resume_from_checkpoint=newest_whole_checkpoint(options.output))
    trainer.save_model(str(options.output / "adapter"))
    trainer.save_state()  # trainer_state.json: rewards, losses and gradient norms of all steps
    if trainer.is_world_process_zero():
        save_merged(options.output / "adapter", options.output / "merged")
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()

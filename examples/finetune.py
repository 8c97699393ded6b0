"""Full fine-tuning with transformers' Trainer, which saves as it goes and takes up where it stopped.

    torchrun --nproc_per_node 1 -m penstock.deepspeed examples/finetune.py MODEL OUTPUT

MODEL is a directory or a name that from_pretrained takes. After a crash or a kill, run the same command again: it
goes on from the newest whole checkpoint in OUTPUT. The weights are in OUTPUT/final. See docs/EXAMPLES.md.
"""

from __future__ import annotations

import argparse
import contextlib
import json
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments, set_seed


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


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("output", metavar="OUTPUT", type=Path)
    parser.add_argument("--deepspeed", default=str(Path(__file__).with_suffix(".json")), help="the configuration")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--save-steps", type=int, default=100)
    options = parser.parse_args()

    set_seed(7)
    # Before the model: with this, from_pretrained gives each tensor to penstock as it reads it.
    arguments = TrainingArguments(
        output_dir=str(options.output),
        deepspeed=options.deepspeed,
        max_steps=options.steps,
        save_steps=options.save_steps,
        save_total_limit=2,
        logging_steps=1,
        per_device_train_batch_size=4,
        learning_rate=1e-5,
        bf16=True,
        use_cpu=not torch.cuda.is_available(),
        report_to=[],
    )
    tokenizer = AutoTokenizer.from_pretrained(options.model)
    model = AutoModelForCausalLM.from_pretrained(options.model, dtype=torch.bfloat16)

    # Yours goes here: a list (or a datasets.Dataset) of input_ids and labels.
    texts = [f"{one} plus {other} is {one + other}." for one in range(100) for other in range(100)]
    rows = [tokenizer(text, padding="max_length", truncation=True, max_length=24) for text in texts]
    for row in rows:
        pairs = zip(row["input_ids"], row["attention_mask"], strict=True)
        row["labels"] = [token if attended else -100 for token, attended in pairs]

    trainer = Trainer(model=model, args=arguments, train_dataset=rows, processing_class=tokenizer)
    trainer.train(resume_from_checkpoint=newest_whole_checkpoint(options.output))
    trainer.save_model(str(options.output / "final"))
    trainer.save_state()  # trainer_state.json: losses and gradient norms of all steps
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()

"""train_loop.py MODEL DS.json STEPS RESULT.json: plain DeepSpeed training on whatever accelerator DeepSpeed finds.

A line a step as bench/data/full_finetune.py prints it; RESULT has losses, seconds and pinned memory. Kernels are the
deterministic ones, so that runs can be compared digit by digit.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
import time
from pathlib import Path

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import deepspeed
import torch
from deepspeed.accelerator import get_accelerator
from pinning import pinned_by_kernel
from transformers import AutoModelForCausalLM
from transformers.integrations.deepspeed import HfDeepSpeedConfig

TOKENS = 256 if torch.cuda.is_available() else 16


def pinned_by_torch() -> int:
    """Most that torch's allocator of pinned memory ever held (DeepSpeed takes its pinned memory there)."""
    told = getattr(torch.cuda, "host_memory_stats", None)
    if told is None or not torch.cuda.is_available():
        return 0
    return int(told().get("allocated_bytes.peak", 0))


def main() -> None:
    model_path, config, steps, result = sys.argv[1], json.loads(Path(sys.argv[2]).read_text()), *sys.argv[3:5]
    torch.use_deterministic_algorithms(True, warn_only=True)
    keep: object = HfDeepSpeedConfig(config)  # type: ignore[no-untyped-call]  # must live before from_pretrained, so that zero.Init partitions while loading
    deepspeed.init_distributed(dist_backend="nccl" if torch.cuda.is_available() else "gloo")
    atexit.register(lambda: torch.distributed.is_initialized() and torch.distributed.destroy_process_group())
    model = AutoModelForCausalLM.from_pretrained(model_path, dtype=torch.bfloat16)
    engine, *_ = deepspeed.initialize(model=model, config=config, model_parameters=list(model.parameters()))
    accelerator = get_accelerator()
    seeded = torch.Generator().manual_seed(1)
    losses, seconds, pinned = [], [], 0
    for step in range(int(steps)):
        tokens = torch.randint(0, 1000, (1, TOKENS), generator=seeded).to(accelerator.current_device_name())
        cpu, begun = time.process_time(), time.monotonic()
        loss = engine(input_ids=tokens, labels=tokens, use_cache=False).loss
        engine.backward(loss)
        engine.step()
        accelerator.synchronize()
        seconds.append(time.monotonic() - begun)
        losses.append(repr(loss.item()))
        pinned = max(pinned, pinned_by_kernel())
        spent = time.process_time() - cpu
        print(f"STEP {step} loss {losses[-1]} total {seconds[-1]:.3f} cpu {spent:.2f} read 0 write 0 GB", flush=True)
    told = {"losses": losses, "seconds": seconds, "pinned_by_kernel": pinned, "pinned_by_torch": pinned_by_torch()}
    Path(result).write_text(json.dumps(told), encoding="utf-8")
    del keep


if __name__ == "__main__":
    main()

"""deepspeed.utils.safe_get_* and safe_set_* see and change what is swapped as they do with device cpu."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import DATA, Runner, full_finetune_config

pytestmark = pytest.mark.deep  # minutes of training

FROM_DRIVE = {"penstock__ram_bytes": 0, "penstock__max_pinned_bytes": "16MiB"}

REACH_IN = """
from deepspeed.utils import (safe_get_full_fp32_param, safe_get_full_grad, safe_get_full_optimizer_state,
                             safe_get_local_fp32_param, safe_set_full_fp32_param, safe_set_full_optimizer_state)


def reach_in(when):
    for name, param in list(model.named_parameters())[:4]:
        full = safe_get_full_fp32_param(param)
        moment = safe_get_full_optimizer_state(param, "exp_avg")
        print("SEEN", when, name, full.double().sum().item(), moment.double().abs().sum().item(),
              safe_get_local_fp32_param(param).numel())
        if when == "between":
            safe_set_full_fp32_param(param, full * 0.5)
            safe_set_full_optimizer_state(param, moment * 2, "exp_avg")


def one_step(number):
    tokens = torch.randint(0, 1000, (1, 16))
    loss = engine(input_ids=tokens, labels=tokens, use_cache=False).loss
    engine.backward(loss)
    for name, param in list(model.named_parameters())[:2]:
        print("GRADIENT", number, name, safe_get_full_grad(param).double().abs().sum().item())
    engine.step()
    print("AFTER", number, repr(loss.item()))


reach_in("between")
one_step(0)
reach_in("later")
one_step(1)
"""


def test_values_seen_and_set_are_those_of_device_cpu(
    runner: Runner, small_model: Path, swap: Path, tmp_path: Path
) -> None:
    script = tmp_path / "reach_in.py"
    script.write_text((DATA / "full_finetune.py").read_text() + REACH_IN)
    seen = []
    for config, through in ((full_finetune_config(None), False), (full_finetune_config(swap, **FROM_DRIVE), True)):
        run = runner.script(script, [str(small_model), runner.config(config), "2"], through)
        assert run.returncode == 0, run.output
        seen.append([line for line in run.output.split("\n") if line.startswith(("SEEN", "GRADIENT", "AFTER"))])
    assert len(seen[0]) == 14
    assert seen[0] == seen[1]

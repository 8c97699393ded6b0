"""`penstock plan` and moments in fewer bits: what each value saves, what is refused, what is emitted."""

import json

import pytest
from cli_support import DATA

QWEN = DATA / "inventories" / "qwen3-0.6b.json"
FULL = json.loads((DATA / "full-finetune.json").read_text())
PARAMETERS = 596_049_920
MEMORY = ("--memory", "24GiB")


def narrow(write, states, name="ds.json", **changes):
    return write(name, {**FULL, **changes, "penstock": {"ram_bytes": 0, **states}})


def test_each_value_has_the_bytes_of_a_step(penstock, write):
    """Goals of bytes a parameter and step, parameters included: 16.5 + 14.5, 8 bit 10.4 + 8.4, 4 bit 9.4 + 7.4."""
    for states, reads, writes, moments in (
        ("fp32", 16.5, 14.5, 8.0),
        ("bf16", 12.2, 10.1, 4.01),
        ("8bit", 10.4, 8.4, 2.04),
        ("4bit", 9.4, 7.4, 1.07),
    ):
        config = narrow(write, {"optimizer_states": states})
        plan = penstock.json("plan", QWEN, "--config", config, *MEMORY)
        assert plan["moment_bytes"][states] <= moments * PARAMETERS
        on_drives = sum(row["bytes_per_rank"] for row in plan["memory"] if row["component"] == "moments")
        assert on_drives == pytest.approx(plan["moment_bytes"][states], rel=1e-3)
        assert plan["per_step"]["read_bytes"] <= reads * PARAMETERS
        assert plan["per_step"]["write_bytes"] <= writes * PARAMETERS
        assert plan["per_step"]["write_bytes"] > (writes - 0.6) * PARAMETERS


def test_the_text_shows_what_each_value_saves(penstock, write):
    text = penstock("plan", QWEN, "--config", narrow(write, {"optimizer_states": "8bit"}), "--verbose", *MEMORY).stdout
    assert "moments by optimizer_states: fp32 4.4 GiB, bf16 2.2 GiB, 8bit 1.1 GiB (chosen), 4bit 604" in text


def test_the_table_has_the_width_of_masters_and_states(penstock, write):
    zero = FULL["zero_optimization"] | {"offload_optimizer": {"device": "cpu"}}
    flags = {"enabled": True, "bf16_master_weights_and_grads": True}
    for bf16, master, moments in (
        ({"enabled": True}, "4 bytes (fp32)", "8 bytes (two of fp32)"),
        (flags, "2 bytes (16 bits)", "8 bytes (two of fp32)"),
        (flags | {"bf16_optimizer_states": True}, "2 bytes (16 bits)", "4 bytes (two of 16 bits)"),
    ):
        config = narrow(write, {}, zero_optimization=zero, bf16=bf16)
        text = penstock("plan", QWEN, "--config", config, "--verbose", *MEMORY).stdout
        assert f"{master} a parameter" in text and f"{moments} a parameter" in text, text


def test_the_optimizers_name_chooses_and_is_emitted(penstock, write):
    named = penstock.json("plan", QWEN, "--config", narrow(write, {}), "--optimizer", "adamw4bit", *MEMORY)
    chosen = penstock.json("plan", QWEN, "--config", narrow(write, {"optimizer_states": "4bit"}, "4.json"), *MEMORY)
    assert named == chosen
    emitted = penstock.json(
        "plan", QWEN, "--config", narrow(write, {}), "--optimizer", "adamw4bit", "--emit-config", *MEMORY
    )
    assert emitted["penstock"]["optimizer_states"] == "4bit"


def test_a_pattern_keeps_fp32(penstock, write):
    states = {"optimizer_states": "8bit", "fp32_states": ["*embed*", "*no such*"]}
    plan = penstock.json("plan", QWEN, "--config", narrow(write, states), *MEMORY)
    embedding = 151_936 * 1024
    assert plan["moment_bytes"]["8bit"] == pytest.approx(embedding * 8 + (PARAMETERS - embedding) * 2.03125, rel=1e-3)
    assert [warning["code"] for warning in plan["warnings"]].count("idle-pattern") == 1


def test_what_training_refuses_does_not_fit(penstock, write):
    config = narrow(write, {"optimizer_states": "8bit"}, optimizer={"type": "Lion", "params": {"lr": 1e-4}})
    done = penstock("plan", QWEN, "--config", config, *MEMORY)
    assert done.returncode == 3
    assert done.stdout.startswith('does not fit: optimizer_states is "8bit", and training refuses it')


@pytest.mark.parametrize(
    ("states", "parts"),
    [
        ({"optimizer_states": "8bits"}, ("optimizer_states", "8bit", "fp32, bf16, 8bit, 4bit")),
        ({"optimizer_states": 8}, ("optimizer_states",)),
        ({"fp32_states": "embed"}, ("fp32_states", "a list of patterns")),
        ({"fp32_states": [7]}, ("fp32_states", "*embed*")),
        ({"optimizer_state": "8bit"}, ("optimizer_states",)),
    ],
)
def test_bad_input(penstock, write, states, parts):
    done = penstock("plan", QWEN, "--config", narrow(write, states), *MEMORY)
    assert done.returncode == 1
    assert done.stdout == ""
    for part in parts:
        assert part in done.stderr

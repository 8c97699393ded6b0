"""`--config` with the YAML of `accelerate launch`: what is planned is what accelerate makes of it."""

import json
import os
import re
import subprocess
import sys

import pytest
from cli_support import ROOT, assert_one_sentence
from plan_files import MEMORY, QWEN, SEED, component

PARAMETERS = 596049920
# What `accelerate launch --config_file` hands to a script, and what the script's DeepSpeedPlugin makes of it.
LAUNCH = """
import json, os, sys
from accelerate.commands import launch
from accelerate.utils import DeepSpeedPlugin
args = launch.launch_command_parser().parse_args(["--config_file", sys.argv[1], "train.py"])
args, defaults, said = launch._validate_launch_command(args)
fields = list(defaults.deepspeed_config) + ["mixed_precision"] * said
args.deepspeed_fields_from_accelerate_config = ",".join(fields)
os.environ.update(launch.prepare_deepspeed_cmd_env(args)[1])
plugin = DeepSpeedPlugin()
plugin.set_mixed_precision(os.environ["ACCELERATE_MIXED_PRECISION"])
print(json.dumps({**plugin.deepspeed_config, "steps_per_print": None}))
"""


def yaml_of(values, indent=""):
    """YAML as `accelerate config` writes it, for the few shapes that it has."""
    lines = []
    for key, value in values.items():
        if isinstance(value, dict):
            lines.append(f"{indent}{key}:\n{yaml_of(value, indent + '  ')}")
        else:
            lines.append(f"{indent}{key}: {json.dumps(value)}\n")
    return "".join(lines)


@pytest.fixture
def accelerate_yaml(write):
    def write_yaml(deepspeed, name="accelerate.yaml", **top):
        return write(name, yaml_of({"distributed_type": "DEEPSPEED", "deepspeed_config": deepspeed, **top}))

    return write_yaml


def automatic(write):
    automatic_type = {"bf16": {"enabled": "auto"}, "gradient_accumulation_steps": 1}
    return write("ds.json", {**json.loads(SEED.read_text()), **automatic_type})


def warnings(plan, code):
    return {warning.get("key"): warning["text"] for warning in plan["warnings"] if warning["code"] == code}


def test_the_file_that_it_names_is_planned(penstock, write, accelerate_yaml, tmp_path):
    write("ds.json", SEED.read_text())
    config = accelerate_yaml({"deepspeed_config_file": "ds.json", "zero3_init_flag": False}, num_processes=1)
    plan = penstock.json("plan", QWEN, "--config", config, *MEMORY)
    assert plan == penstock.json("plan", QWEN, "--config", tmp_path / "ds.json", *MEMORY)
    assert plan == penstock.json("plan", QWEN, *MEMORY, env={"PENSTOCK_CONFIG": str(config)})
    again = penstock("plan", QWEN, "--config", config, "--emit-config", *MEMORY)
    assert json.loads(again.stdout)["train_batch_size"] == json.loads(SEED.read_text())["train_batch_size"]


def test_a_machine_has_no_more_ranks_than_it_launches(penstock, accelerate_yaml):
    config = accelerate_yaml({"zero_stage": 3}, num_processes=2)
    done = penstock("plan", QWEN, "--config", config, "--ranks-per-node", "4", *MEMORY)
    assert done.returncode == 1 and done.stdout == ""
    assert_one_sentence(done, "--ranks-per-node is 4", "--world-size is not given, and accelerate's num_processes is 2")
    assert penstock("plan", QWEN, "--config", config, "--ranks-per-node", "2", *MEMORY).returncode == 0


def test_the_working_directory_is_looked_in_first(penstock, write, accelerate_yaml, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    write("ds.json", {**json.loads(SEED.read_text()), "bf16": {"enabled": True}})
    config = accelerate_yaml({"deepspeed_config_file": "ds.json"})
    plan = penstock.json("plan", QWEN, "--config", config, *MEMORY, cwd=elsewhere)
    assert component(plan, "parameters") == 2 * PARAMETERS
    (elsewhere / "ds.json").write_text(SEED.read_text())
    plan = penstock.json("plan", QWEN, "--config", config, *MEMORY, cwd=elsewhere)
    assert component(plan, "parameters") == 4 * PARAMETERS


def test_a_file_that_is_in_neither_place(penstock, accelerate_yaml, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    config = accelerate_yaml({"deepspeed_config_file": "gone.json"})
    done = penstock("plan", QWEN, "--config", config, cwd=elsewhere)
    assert done.returncode == 1 and done.stdout == ""
    assert_one_sentence(done, "deepspeed_config_file", str(elsewhere / "gone.json"), str(tmp_path / "gone.json"))


def test_its_precision_is_what_auto_means(penstock, write, accelerate_yaml):
    automatic(write)
    named = {"deepspeed_config_file": "ds.json"}
    for top, options, bytes_each, said in (
        ({"mixed_precision": "no"}, [], 4, "f32, mixed_precision of "),
        ({"mixed_precision": "fp16"}, [], 2, "f16, mixed_precision of "),
        ({"mixed_precision": False}, [], 4, "f32, mixed_precision of "),  # `no` without quotes
        ({"mixed_precision": "no"}, ["--dtype", "bf16"], 2, None),
        ({}, [], 2, "bf16, the type of the inventory"),
    ):
        plan = penstock.json("plan", QWEN, "--config", accelerate_yaml(named, **top), *options, *MEMORY)
        assert component(plan, "parameters") == bytes_each * PARAMETERS
        assumed = warnings(plan, "assumed")
        assert list(assumed) == ["bf16.enabled"] * (said is not None)
        assert said is None or said in assumed["bf16.enabled"]
        refused = warnings(plan, "accelerate")
        assert list(refused) == ["mixed_precision"] * bool(top)


def test_its_processes_are_the_ranks(penstock, accelerate_yaml):
    keys = {"zero_stage": 3, "offload_param_device": "cpu"}
    config = accelerate_yaml(keys, num_processes=8, num_machines=2, mixed_precision="bf16")
    plan = penstock.json("plan", QWEN, "--config", config, *MEMORY)
    shares = component(plan, "parameters")
    assert shares == pytest.approx(2 * PARAMETERS / 8, rel=1e-3)
    assert "8 ranks, 4 on a machine" in warnings(plan, "assumed")["num_processes"]
    uneven = accelerate_yaml(keys, "uneven.yaml", num_processes=9, num_machines=2, mixed_precision="bf16")
    plan = penstock.json("plan", QWEN, "--config", uneven, *MEMORY)
    assert "8 ranks, 4 on a machine" in warnings(plan, "assumed")["num_processes"], "as many on each"
    given = penstock.json("plan", QWEN, "--config", config, "--world-size", "1", *MEMORY)
    assert component(given, "parameters") == 2 * PARAMETERS
    assert "num_processes" not in warnings(given, "assumed")


def test_given_ranks_are_on_its_machines_too(penstock, accelerate_yaml):
    config = accelerate_yaml({"zero_stage": 3, "offload_param_device": "cpu"}, num_machines=2, mixed_precision="bf16")

    def said(*options):
        plan = penstock.json("plan", QWEN, "--config", config, *options, *MEMORY)
        return warnings(plan, "assumed").get("num_machines", "")

    assert "planned with 8 on a machine" in said("--world-size", "16")
    assert said("--world-size", "15") == "", "two machines do not have as many each"
    assert said("--world-size", "16", "--ranks-per-node", "4") == ""
    assert penstock("plan", QWEN, "--config", config, "--world-size", "16", "--memory", "8GiB").returncode == 0
    done = penstock(
        "plan", QWEN, "--config", config, "--world-size", "16", "--ranks-per-node", "16", "--memory", "8GiB"
    )
    assert done.returncode == 3


def test_without_a_file_its_keys_are_the_configuration(penstock, accelerate_yaml):
    keys = {
        "zero_stage": 3,
        "offload_param_device": "nvme",
        "offload_param_nvme_path": "/nvme",
        "stage3_max_live_parameters": 5,
    }
    config = accelerate_yaml(keys)
    plan = penstock.json("plan", QWEN, "--config", config, *MEMORY)
    assert component(plan, "parameters") == 4 * PARAMETERS, "accelerate launches without mixed precision"
    assert set(warnings(plan, "assumed")) == {"gradient_accumulation_steps", "bf16.enabled"}
    assumed = warnings(plan, "assumed")["bf16.enabled"]
    assert assumed.startswith(f"mixed_precision is not in {config}, ") and "planned with f32" in assumed
    [ignored] = warnings(plan, "unknown-key").items()
    assert ignored[0] == "deepspeed_config.stage3_max_live_parameters"
    assert ignored[1].endswith("accelerate ignores it")
    [lost] = warnings(plan, "accelerate").items()
    assert lost[0] == "deepspeed_config.offload_param_nvme_path"
    assert "ACCELERATE_DEEPSPEED_OFFLOAD_PARAM_NVME_PATH" in lost[1]
    plan = penstock.json("plan", QWEN, "--config", config, "--dtype", "bf16", *MEMORY)
    assert component(plan, "parameters") == 2 * PARAMETERS
    emitted = json.loads(penstock("plan", QWEN, "--config", config, "--emit-config", *MEMORY).stdout)
    assert emitted["zero_optimization"]["offload_param"]["nvme_path"] == "/nvme"
    assert emitted["zero_optimization"]["stage"] == 3


@pytest.mark.parametrize(
    ("keys", "top"),
    [
        ({}, {}),
        ({"zero_stage": 3, "offload_optimizer_device": "cpu", "offload_param_device": "none"}, {}),
        ({"zero_stage": 3, "zero3_save_16bit_model": True, "gradient_clipping": 1.0}, {"mixed_precision": "bf16"}),
        ({"gradient_accumulation_steps": 4, "reduce_scatter": True}, {"mixed_precision": "fp16"}),
        ({"zero_stage": 2, "gradient_clipping": 0.0}, {"mixed_precision": "no"}),
    ],
)
def test_it_is_what_accelerate_makes_of_it(penstock, accelerate_yaml, keys, top):
    pytest.importorskip("accelerate")
    config = accelerate_yaml(keys, num_processes=1, **top)
    launched = subprocess.run(
        [sys.executable, "-c", LAUNCH, str(config)], capture_output=True, text=True, check=False, env={**os.environ}
    )
    assert launched.returncode == 0, launched.stderr
    theirs = json.loads(launched.stdout.splitlines()[-1])
    emitted = penstock("plan", QWEN, "--config", config, "--emit-config", *MEMORY)
    assert emitted.returncode == 0, emitted.stderr
    ours = json.loads(emitted.stdout)
    del theirs["steps_per_print"], ours["penstock"]
    for offload in ("offload_param", "offload_optimizer"):
        assert theirs["zero_optimization"][offload].pop("nvme_path") is None
    if "mixed_precision" not in top:  # what "auto" stands for is among the warnings
        assert ours.pop("bf16") == ours.pop("fp16") == {"enabled": "auto"}
        assert theirs.pop("bf16") == theirs.pop("fp16") == {"enabled": False}
    assert ours == theirs


def test_the_keys_are_those_of_the_installed_release():
    pytest.importorskip("accelerate")
    from accelerate.commands.config.config_args import ClusterConfig
    from accelerate.commands.launch import launch_command_parser
    from accelerate.utils import DeepSpeedPlugin

    source = (ROOT / "cli" / "accelerate_keys.cpp").read_text()
    tables = {
        name: set(re.findall(r'"([^"]+)"', keys))
        for name, keys in re.findall(r"(k\w+)(?: = std::to_array<ConfigKey>\(\{|\{)(.*?)\}\)?;", source, re.DOTALL)
    }
    assert tables["kTop"] == set(ClusterConfig.__dataclass_fields__) | {"fp16", "dynamo_backend"}
    [group] = [g for g in launch_command_parser()._action_groups if g.title == "DeepSpeed Arguments"]
    assert tables["kDeepSpeed"] == {action.dest for action in group._group_actions}
    names = DeepSpeedPlugin._deepspeed_config_checks.__code__.co_consts
    flat = [name for constant in names for name in (constant if isinstance(constant, tuple) else [constant])]
    variables = [name for name in flat if isinstance(name, str) and re.fullmatch("ACCELERATE_[A-Z0-9_]+", name)]
    refused = {name.replace("ACCELERATE_", "").replace("DEEPSPEED_", "").lower() for name in variables}
    assert tables["kBesideFile"] == refused - {"config_ds_fields"}


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", ["no configuration of accelerate"]),
        ("just a text", ["no configuration of accelerate"]),
        ("deepspeed_config: [1, 2]", ["deepspeed_config", "a list"]),
        ("distributed_type: FSDP", ["distributed_type", "FSDP"]),
        ("deepspeed_config: {zero_stage: 7}", ["zero_stage", "is 7"]),
        ("deepspeed_config: {zero_stage: [3]}", ["zero_stage", "a list"]),
        ("deepspeed_config: {offload_param_device: disk}", ["offload_param_device", "none, cpu, nvme"]),
        ("deepspeed_config: {}\nmixed_precision: bf17", ["mixed_precision", "bf17"]),
        ("deepspeed_config: {}\nnum_processes: -1", ["num_processes", "-1"]),
        ("deepspeed_config: {}\nnum_processes: 0", ["num_processes", "is 0"]),
        ("deepspeed_config: {zero_stage: 3", ["is not valid YAML", "line 1"]),
        ("a: 1\na: 2", ['the key "a" twice', "line 2"]),
        ("a: &a [*a]", ["an alias of the value that it is part of"]),
        ("a: *nothing", ["is not valid YAML"]),
        ("a: &a {b: 1}\nc:\n  <<: *a", ["merge key"]),
        ("a: !!python/object:os.system x", ["has the tag"]),
        ("[a]: 1", ["as a key"]),
        ("a: 1\n---\na: 2", ["more than one YAML document"]),
        ("[" * 100 + "]" * 100, ["nested more than 64"]),
        ("[" * 60000, ["nested more than 64"]),
        ("a: &a [1,1,1,1,1,1,1,1,1]\n" + "".join(
            f"{chr(98 + i)}: &{chr(98 + i)} [{','.join(['*' + chr(97 + i)] * 9)}]\n" for i in range(9)),
         ["more than 10000 values"]),
        (b"a: \xff\xfe", ["is not UTF-8"]),
        ("a: \0", ["accelerate.yaml"]),
        ("#" * 70000, ["70000 bytes"]),
    ],
)  # fmt: skip
def test_a_yaml_that_is_wrong_is_one_sentence(penstock, write, text, parts):
    done = penstock("plan", QWEN, "--config", write("accelerate.yaml", text))
    assert done.returncode == 1 and done.stdout == ""
    assert_one_sentence(done, *parts)


SCALARS = """0 00 -0 +1 010 -010 08 0_ 0_1 1_0 1__0 _1 0x2 +0x_F -0x1f 0xg 0b10 0b2 0o7 1:30 190:20:30 1:60 0:30 1:123
    1. 1.5 .5 -.5 +.5 +1.5 . -. 1e3 1.5e3 1.5e+3 .5e-1 -1_0._5 ._5 1.5e+ 1.5.2 9223372036854775807 0b 0x no""".split()


def test_scalars_are_what_pyyaml_reads(penstock, write):
    """A refused value stands in the message."""
    yaml = pytest.importorskip("yaml")
    for scalar in SCALARS:
        value = yaml.safe_load(scalar)
        said = f"is {value}: accelerate" if isinstance(value, str) else f"is {json.dumps(value)}; a text"
        done = penstock("plan", QWEN, "--config", write("accelerate.yaml", f"distributed_type: {scalar}"))
        assert done.returncode == 1 and said in done.stderr, (scalar, said, done.stderr)


def test_no_file_at_all(penstock, tmp_path):
    (tmp_path / "d.yml").mkdir()
    for name, part in (("gone.yaml", "No such file"), ("d.yml", "not a regular file")):
        done = penstock("plan", QWEN, "--config", tmp_path / name)
        assert done.returncode == 1
        assert_one_sentence(done, name, part)


def test_a_file_without_zero_is_refused_by_accelerate(penstock, write, accelerate_yaml):
    write("ds.json", {"bf16": {"enabled": True}})
    plan = penstock.json("plan", QWEN, "--config", accelerate_yaml({"deepspeed_config_file": "ds.json"}), *MEMORY)
    assert "has no zero_optimization" in warnings(plan, "accelerate")["zero_optimization"]


@pytest.mark.deep
def test_tuning_takes_it_too(penstock, write, accelerate_yaml, tmp_path):
    write("ds.json", SEED.read_text())
    config = accelerate_yaml({"deepspeed_config_file": "ds.json"})
    tuned = [
        "tune",
        QWEN,
        "--config",
        config,
        "--path",
        tmp_path,
        "--time-budget",
        "5s",
        "-o",
        tmp_path / "better.json",
    ]
    done = penstock(*tuned)
    assert done.returncode == 0, done.stderr
    better = json.loads((tmp_path / "better.json").read_text())
    assert better["zero_optimization"]["stage"] == 3 and better["penstock"]["paths"]

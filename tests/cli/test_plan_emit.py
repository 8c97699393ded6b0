"""What `penstock plan --emit-config` writes."""

import json
import subprocess

import pytest
from plan_files import FULL, MEMORY, QWEN, SEED, check_sound


@pytest.mark.parametrize("config", [SEED, FULL, None])
def test_an_emitted_configuration_is_complete_and_better(penstock, write, config):
    options = [] if config is None else ["--config", config]
    done = penstock("plan", QWEN, *options, "--emit-config", *MEMORY)
    assert done.returncode == 0 and done.stderr == ""
    emitted = json.loads(done.stdout)
    if config is not None:
        original = json.loads(config.read_text())
        for key in set(original) - {"zero_optimization"}:
            assert emitted[key] == original[key]
        assert (
            emitted["zero_optimization"]["offload_param"]["nvme_path"]
            == original["zero_optimization"]["offload_param"]["nvme_path"]
        )
    assert emitted["zero_optimization"]["offload_param"]["buffer_size"] == 155582464
    assert emitted["zero_optimization"]["offload_param"]["buffer_count"] >= 5
    assert isinstance(emitted["penstock"]["ram_bytes"], int)
    again = penstock.json("plan", QWEN, "--config", write("emitted.json", emitted), *MEMORY)
    check_sound(again)
    assert again["feasible"] is True
    assert again["deepspeed_error"] is None


@pytest.mark.parametrize("config", [None, {"penstock": {"ram_bytes": 0}}])
@pytest.mark.parametrize(("dtype", "keys", "bytes_each"), [("fp32", set(), 4), ("fp16", {"fp16"}, 2)])
def test_without_a_configuration_of_deepspeed_the_type_is_the_given_one(
    penstock, write, config, dtype, keys, bytes_each
):
    options = ["--dtype", dtype] + ([] if config is None else ["--config", write("ds.json", config)])
    tensor = {"name": "w", "dtype": "bf16", "shape": [2048, 1024]}
    inventory = write("inventory.json", {"tensors": [tensor]})
    assert penstock.json("plan", inventory, *options)["tensors"][0]["bytes"] == bytes_each << 21
    emitted = json.loads(penstock("plan", inventory, *options, "--emit-config").stdout)
    assert emitted.keys() & {"bf16", "fp16"} == keys


def emit(penstock, config, tmp_path):
    """The configuration that a file holds, and what is said of it."""
    out = tmp_path / "emitted.json"
    done = penstock("plan", QWEN, "--config", config, "--emit-config", "-o", out, *MEMORY)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return json.loads(out.read_text()), done.stdout


def test_emitting_into_a_file_tells_old_and_new(penstock, tmp_path):
    emitted, table = emit(penstock, SEED, tmp_path)
    rows = {line.split()[0]: line.split() for line in table.splitlines()}
    assert rows["key"][1:] == ["old", "new", "why"]
    assert rows["zero_optimization.offload_param.buffer_size"][1:3] == ["4194304", "155582464"]
    assert rows["zero_optimization.offload_param.buffer_count"][1:3] == ["200", "5"]
    assert rows["aio.queue_depth"][1:4] == ["8", "(default)", "32"]
    assert emitted["aio"] == {
        "block_size": 1048576,
        "queue_depth": 32,
        "intra_op_parallelism": 1,
        "single_submit": False,
        "overlap_events": True,
    }


def test_a_buffer_holds_what_max_in_cpu_moves_to_memory_later(penstock, write, tmp_path):
    """Stock builds the model in its buffers first, and dies there with a smaller one."""
    config = json.loads(FULL.read_text())
    config["zero_optimization"]["offload_param"].update(buffer_size=160_000_000, max_in_cpu=1_000_000_000)
    emitted, _ = emit(penstock, write("ds.json", config), tmp_path)
    assert emitted["zero_optimization"]["offload_param"]["buffer_size"] == 155582464
    again = penstock.json("plan", QWEN, "--config", write("emitted.json", emitted), *MEMORY)
    assert again["deepspeed_error"] is None


def test_standard_output_keeps_what_it_has(penstock, tmp_path):
    """Where it goes to a file, /dev/stdout is no file to be replaced."""
    log = tmp_path / "log.txt"
    log.write_text("before\n")
    with log.open("a") as output:
        command = [penstock.binary, "plan", QWEN, "--emit-config", "-o", "/dev/stdout", *MEMORY]
        subprocess.run(command, stdout=output, check=True)
    before, _, after = log.read_text().partition("{")
    assert before == "before\n"
    _, end = json.JSONDecoder().raw_decode("{" + after)
    assert "penstock.ram_bytes" in after[end:], "old and new"


def test_emitting_gives_the_optimizer_the_buffers_that_it_needs(penstock, write, tmp_path):
    config = json.loads(FULL.read_text())
    config["zero_optimization"]["offload_optimizer"].update(pipeline_read=True, pipeline_write=True)
    emitted, table = emit(penstock, write("ds.json", config), tmp_path)
    assert emitted["zero_optimization"]["offload_optimizer"]["buffer_count"] == 12
    assert "offload_optimizer.buffer_count" in table and "dies" in table


@pytest.mark.parametrize("name", ["num_threads", "thread_count"])
def test_threads_under_a_name_that_is_never_read_are_rescued(penstock, write, tmp_path, name):
    config = json.loads(FULL.read_text())
    config["aio"] = {"block_size": 8388608, name: 4}
    emitted, table = emit(penstock, write("ds.json", config), tmp_path)
    assert emitted["aio"] == {"block_size": 8388608, name: 4, "intra_op_parallelism": 4}
    assert f"aio.{name} is not read" in table


def test_what_is_emitted_for_generation_has_a_buffer_for_each_parameter(penstock, write):
    done = penstock("plan", QWEN, "--config", SEED, "--generation", "--emit-config", *MEMORY)
    assert done.returncode == 0, done.stderr
    emitted = json.loads(done.stdout)
    assert emitted["zero_optimization"]["offload_param"]["buffer_count"] == 197
    again = penstock.json("plan", QWEN, "--config", write("new.json", emitted), "--generation", *MEMORY)
    assert not [warning for warning in again["warnings"] if warning["code"].startswith("stock-")]


def test_what_is_emitted_does_not_keep_parameters_in_too_few_buffers(penstock, write):
    config = json.loads(SEED.read_text())
    del config["zero_optimization"]["stage3_max_reuse_distance"]
    emitted = json.loads(penstock("plan", QWEN, "--config", write("ds.json", config), "--emit-config", *MEMORY).stdout)
    assert emitted["zero_optimization"]["stage3_max_reuse_distance"] == 0


def test_a_reuse_distance_is_emitted_under_the_name_that_the_file_has(penstock, write, tmp_path):
    """DeepSpeed refuses a file with both names of a value."""
    config = json.loads(SEED.read_text())
    zero = config["zero_optimization"]
    zero |= {"max_reuse_distance": 10**9, "offload_param": zero["offload_param"] | {"buffer_count": 5}}
    del zero["stage3_max_reuse_distance"]
    emitted, table = emit(penstock, write("ds.json", config), tmp_path)
    assert emitted["zero_optimization"]["max_reuse_distance"] == 0
    assert "stage3_max_reuse_distance" not in emitted["zero_optimization"]
    assert "zero_optimization.max_reuse_distance" in table
    [warning] = [
        warning
        for warning in penstock.json("plan", QWEN, "--config", write("ds.json", config), *MEMORY)["warnings"]
        if warning["code"] == "stock-reuse"
    ]
    assert warning["key"] == "zero_optimization.max_reuse_distance" and "with max_reuse_distance of" in warning["text"]


def test_a_configuration_with_comments_is_read(penstock, write):
    """As DeepSpeed does. The emitted file has none."""
    plain = json.loads(SEED.read_text())
    commented = write("commented.json", "// of the whole\n" + SEED.read_text().replace("{", "{ /* here */", 1))
    done = penstock("plan", QWEN, "--config", commented, "--emit-config", *MEMORY)
    assert done.returncode == 0, done.stderr
    same = penstock("plan", QWEN, "--config", write("plain.json", plain), "--emit-config", *MEMORY)
    assert json.loads(done.stdout) == json.loads(same.stdout)


def test_the_stage_that_is_planned_is_the_one_that_is_emitted(penstock, write, tmp_path):
    config = json.loads(SEED.read_text())
    config["zero_optimization"]["stage"] = 2
    file = write("ds.json", config)
    done = penstock("plan", QWEN, "--config", file, "--stage", "3", "--emit-config", "-o", tmp_path / "new", *MEMORY)
    assert done.returncode == 0 and "given by --stage" in done.stdout
    emitted = json.loads((tmp_path / "new").read_text())["zero_optimization"]
    assert emitted["stage"] == 3 and emitted["offload_param"]["buffer_size"] == 155582464
    kept = json.loads(penstock("plan", QWEN, "--config", file, "--emit-config", *MEMORY).stdout)
    assert kept["zero_optimization"]["stage"] == 2


def test_without_a_configuration_stage_2_offloads_no_parameters(penstock):
    done = penstock("plan", QWEN, "--stage", "2", "--emit-config", *MEMORY)
    assert done.returncode == 0 and done.stderr == ""
    emitted = json.loads(done.stdout)
    assert emitted["zero_optimization"] == {"stage": 2} and "aio" not in emitted


@pytest.mark.parametrize("flag", [True, False])
def test_the_stage_takes_the_place_of_the_flag_that_zero_optimization_was(penstock, write, tmp_path, flag):
    file = write("ds.json", {"train_batch_size": 1, "zero_optimization": flag})
    done = penstock("plan", QWEN, "--config", file, "--stage", "2", "--emit-config", "-o", tmp_path / "new", *MEMORY)
    assert done.returncode == 0 and done.stderr == "" and "given by --stage" in done.stdout
    assert json.loads((tmp_path / "new").read_text())["zero_optimization"] == {"stage": 2}
    kept = json.loads(penstock("plan", QWEN, "--config", file, "--emit-config", *MEMORY).stdout)
    assert kept["zero_optimization"] is flag

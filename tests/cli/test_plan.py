"""`penstock plan` on the project's own inputs, through the command."""

import json

import pytest
from cli_support import assert_one_sentence, safetensors_bytes
from plan_files import EMBEDDING, FULL, INVENTORIES, MEMORY, QWEN, SEED, check_sound, component, placed, with_penstock


def test_the_users_file(penstock):
    plan = penstock.json("plan", QWEN, "--config", SEED, *MEMORY)
    check_sound(plan)
    assert plan["feasible"] is True and plan["reason"] is None
    assert plan["deepspeed_error"] == "More elements 155582464 than buffer size 4194304"
    assert plan["deepspeed_bytes"] == 3355443200
    assert placed(plan, EMBEDDING)["place"] == "ram"
    assert placed(plan, EMBEDDING)["bytes"] == 622329856
    assert len(plan["tensors"]) == 310
    assert any("/home/local/mem" in warning["text"] for warning in plan["warnings"])


def test_the_users_file_with_nothing_to_keep(penstock):
    plan = penstock.json("plan", QWEN, "--config", SEED, "--ram", "0", "--max-pinned", "64MiB", *MEMORY)
    check_sound(plan)
    assert placed(plan, EMBEDDING)["place"] == "stream"
    assert plan["pinned_bytes"] <= 64 << 20
    assert plan["ram_bytes"] == 0
    assert plan["nvme_bytes"] == 2383937536
    assert plan["per_step"]["read_bytes"] == 2 * 2383937536


def test_the_block_of_the_file_does_the_same(penstock, write):
    config = with_penstock(write, SEED, ram_bytes=0, max_pinned_bytes="64MiB")
    from_file = penstock.json("plan", QWEN, "--config", config, *MEMORY)
    from_options = penstock.json("plan", QWEN, "--config", SEED, "--ram", "0", "--max-pinned", "64MiB", *MEMORY)
    assert from_file["classes"] == from_options["classes"]
    assert from_file["tensors"] == from_options["tensors"]


def test_the_text_for_a_person(penstock):
    done = penstock("plan", QWEN, "--config", SEED, "--ram", "0", *MEMORY)
    assert done.returncode == 0 and done.stderr == ""
    for part in (
        "AssertionError: More elements 155582464 than buffer size 4194304",
        "3355443200 bytes",
        "larger than buffer_size (16777216 bytes)",
        EMBEDDING,
        "Size classes",
        "12582912",
        "Memory of a rank",
        "Each step of a rank",
        "ZeRO divides them at stage 3 only",
    ):
        assert part in done.stdout
    assert done.stdout.startswith("fits\n")
    assert "\x1b" not in done.stdout


def test_the_text_says_how_the_ssd_wears(penstock):
    done = penstock("plan", QWEN, "--config", FULL, "--ram", "0", *MEMORY)
    assert "wear of the SSD" in done.stdout
    assert "sub-group" in done.stdout


def test_full_fine_tuning(penstock):
    plan = penstock.json("plan", QWEN, "--config", FULL, "--ram", "0", *MEMORY)
    check_sound(plan)
    parameters = 596049920
    assert plan["deepspeed_error"] is None
    assert plan["deepspeed_bytes"] == 8 * 160000000 * 2
    # As a run was measured: states 12; parameters of 2 bytes are fetched twice, the tied embedding at both ends of each
    # pass, less what prefetching keeps in between.
    assert plan["per_step"]["read_bytes"] / parameters == pytest.approx(15.5, abs=0.15)
    assert plan["per_step"]["write_bytes"] / parameters == pytest.approx(14, abs=0.01)
    assert component(plan, "moments") == parameters * 8
    assert any("Not enough buffers 8 for swapping 197" in warning["text"] for warning in plan["warnings"])


@pytest.mark.parametrize("name", ["qwen3-0.6b", "llama-3.1-8b", "qwen2.5-7b", "qwen3-30b-a3b"])
@pytest.mark.parametrize("stage", [2, 3])
@pytest.mark.parametrize("world_size", [1, 8])
def test_every_model(penstock, name, stage, world_size):
    for optimizer, bytes_each in (("adamw", 8), ("adamw8bit", 2), ("adamw4bit", 1), ("none", 0)):
        plan = penstock.json(
            "plan",
            INVENTORIES / f"{name}.json",
            "--stage",
            stage,
            "--world-size",
            world_size,
            "--optimizer",
            optimizer,
            "--activations",
            "18GB",
            *MEMORY,
        )
        check_sound(plan)
        inventory = json.loads((INVENTORIES / f"{name}.json").read_text())
        counts = []
        for tensor in inventory["tensors"]:
            count = 1
            for side in tensor["shape"]:
                count *= side
            counts.append(count)
        shares = sum(-(-count // world_size) for count in counts)
        assert component(plan, "parameters") == 2 * (shares if stage == 3 else sum(counts))
        assert component(plan, "moments") == pytest.approx(bytes_each * shares, rel=1e-6)
        assert component(plan, "gradients") == (2 * shares if optimizer != "none" else 0)
        assert component(plan, "master") == (4 * shares if optimizer != "none" else 0)
        assert component(plan, "activations", "device") == 18 * 10**9
        if stage == 2:
            assert {tensor["place"] for tensor in plan["tensors"]} == {"device"}


def test_a_rule_that_does_not_fit_says_so(penstock, write):
    rule = {"match": "*.embed_tokens.weight", "place": "ram"}
    config = with_penstock(write, SEED, ram_bytes="500MiB", tensors=[rule])
    plan = penstock.json("plan", QWEN, "--config", config, *MEMORY, code=1)
    for part in ('{"match":"*.embed_tokens.weight","place":"ram"}', EMBEDDING, "ram_bytes of 524288000", "622329856"):
        assert part in plan["reason"]
    config = with_penstock(write, SEED, ram_bytes="600MiB", max_pinned_bytes="64MiB", tensors=[rule])
    plan = penstock.json("plan", QWEN, "--config", config, *MEMORY)
    assert placed(plan, EMBEDDING)["place"] == "ram"
    config = with_penstock(write, SEED, tensors=[rule])
    assert penstock.json("plan", QWEN, "--config", config, *MEMORY)["feasible"] is True


def test_a_stated_limit_of_the_disk_counts(penstock, write, tmp_path):
    def plan(limit, code):
        config = with_penstock(write, SEED, ram_bytes=0, paths=[{"path": str(tmp_path), "max_bytes": limit}])
        return penstock.json("plan", QWEN, "--config", config, *MEMORY, code=code)

    refused = plan("1GiB", 1)
    assert "max_bytes of 1073741824" in refused["reason"]
    smallest = int(refused["reason"].rsplit(" ", 1)[1])
    assert "drive-limit" not in codes(plan(smallest, 0))
    assert "drive-limit" in codes(plan(smallest - 4096, 0))
    least = int(refused["reason"].partition("drives that keep up need ")[2].split()[0])
    assert plan(least, 0)["fits"] is True
    assert plan(least - 4096, 1)["feasible"] is False


def codes(plan):
    return [warning["code"] for warning in plan["warnings"]]


@pytest.mark.parametrize(
    "block, parts",
    [
        ({"max_pined_bytes": 1}, ["penstock.max_pined_bytes", 'did you mean "max_pinned_bytes"?']),
        ({"tensors": [{"mach": "*", "place": "ram"}]}, ["penstock.tensors[0].mach", 'did you mean "match"?']),
        ({"paths": [{"path": "/n", "wieght": 2}]}, ["penstock.paths[0].wieght", 'did you mean "weight"?']),
        ({"ram_bytes": "much"}, ["penstock.ram_bytes", '"much"']),
        ({"paths": [{"path": "/n", "read_bytes_per_second": 0}]}, ["paths[0].read_bytes_per_second", "above 0"]),
    ],
)
def test_a_misspelt_block_is_refused(penstock, write, block, parts):
    done = penstock("plan", QWEN, "--config", with_penstock(write, SEED, **block))
    assert done.returncode == 1
    assert done.stdout == ""
    assert_one_sentence(done, *parts)


def test_show_config_tells_values_and_origins(penstock, write):
    listed = penstock.json(
        "plan", "--show-config", "--config", FULL, "--ram", "1GiB", env={"PENSTOCK_ENGINE": "threads"}
    )
    assert listed["schema"] == "penstock.config/1"
    values = {entry["key"]: (entry["value"], entry["origin"]) for entry in listed["values"]}
    assert values["zero_optimization.offload_param.buffer_size"] == (160000000, str(FULL))
    assert values["aio.queue_depth"] == (32, str(FULL))
    assert values["aio.intra_op_parallelism"] == (1, "default"), "DeepSpeed does not read the file's thread_count"
    assert values["aio.use_gds"] == (False, "default")
    assert values["penstock.ram_bytes"] == (1 << 30, "--ram")
    assert values["penstock.engine"] == ("threads", "PENSTOCK_ENGINE")
    assert values["penstock.max_pinned_bytes"] == ("auto", "default")
    text = penstock("plan", "--show-config", "--config", FULL).stdout
    assert "stage3_prefetch_bucket_size" in text and "default" in text


def test_a_configuration_is_shown_under_the_names_that_it_has(penstock, write):
    config = write("ds.json", {"zero_optimization": {"stage": 3, "max_reuse_distance": 7}})
    shown = penstock.json("plan", "--show-config", "--config", config)["values"]
    [entry] = [entry for entry in shown if "max_reuse_distance" in entry["key"]]
    assert entry == {"key": "zero_optimization.max_reuse_distance", "value": 7, "origin": str(config)}


def test_the_environment_names_a_configuration(penstock):
    plan = penstock.json("plan", QWEN, *MEMORY, env={"PENSTOCK_CONFIG": str(SEED)})
    assert plan["deepspeed_bytes"] == 3355443200


def test_measured_paths_give_a_lower_bound(penstock, write, tmp_path):
    speeds = {"read_bytes_per_second": 2_000_000_000, "write_bytes_per_second": "1GB"}
    paths = [{"path": str(tmp_path / "a"), **speeds}, {"path": str(tmp_path / "b"), **speeds}]

    def per_step(*paths, ranks=1):
        config = with_penstock(write, FULL, ram_bytes=0, paths=list(paths))
        return penstock.json("plan", QWEN, "--config", config, "--world-size", ranks, *MEMORY)["per_step"]

    one = per_step(paths[0])
    bound = max(one["read_bytes"] / 2e9, one["write_bytes"] / 1e9)
    assert one["lower_bound_seconds"] == pytest.approx(bound)
    assert per_step(*paths)["lower_bound_seconds"] == pytest.approx(bound / 2)
    two = per_step(paths[0], ranks=2)
    assert two["lower_bound_seconds"] == pytest.approx(2 * max(two["read_bytes"] / 2e9, two["write_bytes"] / 1e9))
    assert per_step(paths[0], {"path": str(tmp_path / "c")})["lower_bound_seconds"] is None
    for limit in (0, 4095):  # takes nothing, however fast it is, and whether it was measured or not
        idle = {"path": str(tmp_path / "c"), "max_bytes": limit}
        assert per_step(paths[0], {**speeds, **idle})["lower_bound_seconds"] == pytest.approx(bound)
        assert per_step(paths[0], idle)["lower_bound_seconds"] == pytest.approx(bound)
    text = penstock("plan", QWEN, "--config", with_penstock(write, FULL, ram_bytes=0, paths=[paths[0]]), *MEMORY).stdout
    assert "s at least, at the speeds" in text


def test_both_shapes_of_a_mixture_of_experts(penstock, write):
    fused = json.loads((INVENTORIES / "qwen3-30b-a3b.json").read_text())
    split = []
    for tensor in fused["tensors"]:
        stem, _, last = tensor["name"].rpartition(".")
        if last in ("gate_up_proj", "down_proj") and stem.endswith("experts"):
            for expert in range(128):
                for projection in ["gate_proj", "up_proj"] if last == "gate_up_proj" else ["down_proj"]:
                    split.append({**tensor, "name": f"{stem}.{expert}.{projection}.weight", "shape": [768, 2048]})
        else:
            split.append(tensor)
    assert len(split) == 18867
    plan = penstock.json("plan", write("split.json", {"tensors": split}), "--config", FULL, "--memory", "96GiB")
    check_sound(plan)
    assert plan["feasible"] is True
    assert plan["deepspeed_error"] == "More elements 311164928 than buffer size 160000000"
    whole = penstock.json("plan", INVENTORIES / "qwen3-30b-a3b.json", "--config", FULL, "--memory", "96GiB")
    assert component(plan, "parameters") == component(whole, "parameters")


def test_a_checkpoint_and_its_shards(penstock, write, tmp_path):
    write("model-1.safetensors", safetensors_bytes({"a": ("BF16", [1024, 1024], 2 << 20)}))
    write("model-2.safetensors", safetensors_bytes({"b": ("BF16", [1024, 1024], 2 << 20)}))
    write(
        "model.safetensors.index.json",
        {"metadata": {}, "weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}},
    )
    by_directory = penstock.json("plan", tmp_path, *MEMORY)
    by_files = penstock.json("plan", tmp_path / "model-1.safetensors", tmp_path / "model-2.safetensors", *MEMORY)
    assert [tensor["name"] for tensor in by_directory["tensors"]] == ["a", "b"]
    assert by_directory["tensors"] == by_files["tensors"]
    done = penstock("plan", tmp_path / "model-1.safetensors", tmp_path / "model-1.safetensors")
    assert done.returncode == 1
    assert_one_sentence(done, "the tensor a is in")


def test_elements_of_a_few_bits_lie_side_by_side(penstock, write):
    model = write("m.safetensors", safetensors_bytes({"a": ("F4", [2048, 2048], 2 << 20), "b": ("F6_E2M3", [4], 3)}))
    plan = penstock.json("plan", model, *MEMORY)
    assert [tensor["bytes"] for tensor in plan["tensors"]] == [2 << 20, 3]
    assert component(plan, "parameters") == (2 << 20) + 3
    assert component(plan, "buffers", "device") == (2 << 20) + 3, "gathered"


def test_bad_inventories_are_one_sentence_each(penstock, write, tmp_path):
    good = safetensors_bytes({"a": ("U8", [4], 4), "b": ("U8", [4], 4)})
    overlapping = good.replace(b"[4, 8]", b"[3, 7]")
    cases = {
        "cut.safetensors": (good[:-1], "cut short"),
        "short.safetensors": (b"123", "has 3 bytes"),
        "huge.safetensors": (b"\xff" * 8 + good, "it is no safetensors file"),
        "overlap.safetensors": (overlapping, "overlap"),
        "dtype.safetensors": (good.replace(b'"U8"', b'"U7"', 1), '"U7"'),
        "twice.safetensors": (good.replace(b'"b"', b'"a"'), "twice"),
        "empty.safetensors": (safetensors_bytes({}), "has no tensors"),
        "garbage.json": ("not json", "is not valid JSON"),
        "empty.json": ({"tensors": []}, "has no tensors"),
        "other.json": ({"layers": []}, "is not an inventory"),
        "lost.safetensors.index.json": ({"weight_map": {"a": "gone.safetensors"}}, "gone.safetensors"),
    }
    for name, (content, part) in cases.items():
        path = write(name, content)
        done = penstock("plan", path)
        assert done.returncode == 1, name
        assert done.stdout == ""
        assert_one_sentence(done, name, part)
    done = penstock("plan", tmp_path / "nowhere")
    assert done.returncode == 1
    assert_one_sentence(done, "nowhere", "No such file or directory")


def test_names_that_are_no_text_do_no_harm(penstock, write):
    path = write("names.json", {"tensors": [{"name": "\u001b[31mred\n", "dtype": "bf16", "shape": [1024, 1024]}]})
    done = penstock("plan", path, *MEMORY)
    assert done.returncode == 0
    assert done.stdout.startswith("fits\n")
    assert "\x1b" not in done.stdout


def test_the_first_screen_answers(penstock):
    text = penstock("plan", QWEN, "--config", FULL, "--ram", "0", "--trainable", "all", *MEMORY).stdout
    screen, _, rest = text.partition("\n\n")
    lines = screen.splitlines()
    assert lines[0] == "fits" and len(lines) <= 24 and max(map(len, lines)) <= 80
    labels = ["Model", "Run", "Pinned", "Buffers", "In RAM", "On NVMe", "A step", "Memory", "Stock"]
    assert [line.split("  ")[0] for line in lines if line[:1] != " "][1:10] == labels
    assert "Memory of a rank" in rest


def test_help_is_as_wide_as_it_is_asked(penstock):
    for verb in ("plan", "tune", "bench", "doctor", "import", "replay", "verify"):
        text = penstock(verb, "--help", env={"COLUMNS": "72"}).stdout
        long = [line for line in text.splitlines() if len(line) > 72 and " " in line.strip()]
        assert not long, long


def test_a_model_too_large_to_list(penstock, write):
    """Of 1.8e16 elements: the chunks of its states alone were all memory."""
    model = write("m.json", {"tensors": [{"name": "w", "dtype": "bf16", "shape": [2**54], "role": "param"}]})
    zero = {"stage": 3, "offload_optimizer": {"device": "nvme", "nvme_path": "/tmp"}}
    config = write("ds.json", {"zero_optimization": zero, "optimizer": {"type": "AdamW"}, "bf16": {"enabled": True}})
    done = penstock("plan", model, "--config", config, *MEMORY)
    assert done.returncode == 1 and done.stdout == ""
    assert_one_sentence(done, "18014398509481984 elements")

"""`python -m penstock.inventory`: what it lists is what transformers builds."""

import hashlib
import json
import math
import os
import subprocess
import sys

import pytest
from cli_support import DATA, ROOT, assert_one_sentence

# Of each inventory in bench/data/inventories: tensors, bytes in bf16, and the digest of all names, types and shapes.
INVENTORIES = {
    "llama-3.1-8b": (291, 16_060_522_496, "b9b29296830682f8"),
    "qwen2.5-7b": (339, 15_231_233_024, "9b0091c28b9ede6e"),
    "qwen3-0.6b": (310, 1_192_099_840, "96c5ceda9a77433f"),
    "qwen3-30b-a3b": (531, 61_064_245_248, "69db382fee895235"),
    "qwen3-30b-a3b-per-expert": (18_867, 61_064_245_248, "4f234046cdafe674"),
}


def run(*arguments):
    # As a file, so that the compiled module is not needed: it is not what is tested here.
    script = ROOT / "bindings" / "python" / "penstock" / "inventory.py"
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    return subprocess.run(
        [sys.executable, str(script), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=300,
        env=environment,
        check=False,
    )


def test_help_has_an_example():
    done = run("--help")
    assert done.returncode == 0
    assert "python -m penstock.inventory" in done.stdout and "example" in done.stdout


def test_a_directory_without_a_config(tmp_path):
    done = run(tmp_path)
    assert done.returncode == 1
    assert f"{tmp_path} has no config.json" in done.stderr


@pytest.mark.parametrize("verb", ["plan", "import"])
def test_files_of_pytorch_are_named_with_what_to_do(penstock, tmp_path, verb):
    weights = tmp_path / "pytorch_model.bin"
    weights.write_bytes(b"PK\3\4" + bytes(60))
    for model in (weights, tmp_path):
        done = penstock(verb, model, *(["store"] if verb == "import" else []))
        assert done.returncode == 1
        assert_one_sentence(done, f"{weights} is of PyTorch's format", "save_pretrained()", "penstock.inventory")


def summary(tensors):
    total = sum(2 * math.prod(tensor["shape"]) for tensor in tensors)
    assert {tensor["dtype"] for tensor in tensors} == {"bf16"}
    lines = "".join(f"{tensor['name']} {tensor['shape']} {tensor['role']}\n" for tensor in tensors)
    return len(tensors), total, hashlib.sha256(lines.encode()).hexdigest()[:16]


def make(directory, *models):
    """What bench/make_inventories.py makes of bench/data/models."""
    pytest.importorskip("transformers")
    command = [sys.executable, ROOT / "bench" / "make_inventories.py", "-o", directory, *models]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return {path.stem: json.loads(path.read_text())["tensors"] for path in directory.iterdir()}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return make(tmp_path_factory.mktemp("inventories"))


@pytest.fixture(scope="module")
def experts(tmp_path_factory):
    return make(tmp_path_factory.mktemp("experts"), "Qwen3-30B-A3B")


@pytest.mark.deep
def test_the_inventories_are_made_by_the_script(made):
    assert {name: summary(tensors) for name, tensors in made.items()} == INVENTORIES
    kept = {path.stem: json.loads(path.read_text())["tensors"] for path in (DATA / "inventories").glob("*.json")}
    assert kept == {name: made[name] for name in kept}
    assert set(kept) == set(INVENTORIES) - {"qwen3-30b-a3b-per-expert"}


def test_experts_of_their_own(experts):
    names = [tensor["name"] for tensor in experts["qwen3-30b-a3b-per-expert"]]
    assert len(set(names)) == len(names)
    shapes = {tensor["name"]: tensor["shape"] for tensor in experts["qwen3-30b-a3b-per-expert"]}
    assert shapes["model.layers.47.mlp.experts.127.gate_proj.weight"] == [768, 2048]
    assert shapes["model.layers.0.mlp.experts.0.down_proj.weight"] == [2048, 768]


@pytest.mark.deep
def test_what_is_listed_is_planned(penstock, made, write):
    is_planned(penstock, made, write)


def test_listed_experts_are_planned(penstock, experts, write):
    is_planned(penstock, experts, write)


def is_planned(penstock, listed, write):
    for name, tensors in listed.items():
        plan = penstock.json("plan", write(f"{name}.json", {"tensors": tensors}))
        assert len(plan["tensors"]) == len(tensors)


# What _write() makes of an inventory, without building a model: arguments are the script and where to write.
WRITE = "import runpy, sys; runpy.run_path(sys.argv[1])['_write']({'tensors': []}, sys.argv[2])"
WRITTEN = '{"tensors":[]}\n'


def write_to(out, **streams):
    script = ROOT / "bindings" / "python" / "penstock" / "inventory.py"
    command = [sys.executable, "-c", WRITE, str(script), str(out)]
    return subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=60, check=False, **streams)


@pytest.mark.parametrize("is_there", [True, False])
def test_a_link_stays_and_its_file_is_replaced(tmp_path, is_there):
    (tmp_path / "kept").mkdir()
    file = tmp_path / "kept" / "file.json"
    if is_there:
        file.write_text("old")
        file.chmod(0o640)
    link = tmp_path / "link.json"
    link.symlink_to("kept/file.json")
    assert write_to(link).returncode == 0
    assert link.is_symlink() and file.read_text() == WRITTEN
    assert list(file.parent.iterdir()) == [file]
    assert not is_there or file.stat().st_mode & 0o777 == 0o640


def test_a_pipe_is_written_to(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        done = write_to(pipe)
        assert (done.returncode, done.stderr) == (0, "")
        assert pipe.is_fifo() and os.read(reader, 100).decode() == WRITTEN
    finally:
        os.close(reader)


def test_a_device_is_written_to(tmp_path):
    # By a link, so that a fault replaces the link and not the machine's /dev/null.
    device = tmp_path / "device"
    device.symlink_to("/dev/null")
    done = write_to(device)
    assert (done.returncode, done.stderr) == (0, "")
    assert device.is_symlink() and device.is_char_device()


def test_standard_output_by_its_name(tmp_path):
    output = tmp_path / "stdout"
    output.symlink_to("/dev/stdout")
    assert write_to(output, stdout=subprocess.PIPE).stdout == WRITTEN
    with (tmp_path / "log").open("w") as log:
        log.write("before\n")
        log.flush()
        assert write_to(output, stdout=log).returncode == 0
        log.seek(0, os.SEEK_END)
        log.write("behind\n")
    assert (tmp_path / "log").read_text() == f"before\n{WRITTEN}behind\n"


def test_what_is_no_file_is_not_replaced(tmp_path):
    done = write_to(tmp_path)
    assert done.returncode == 1
    assert f"cannot write {tmp_path}: it is no file" in done.stderr
    assert not list(tmp_path.parent.glob("*.tmp"))


LAYER = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "num_hidden_layers": 1}
# What config.json says, and what the sentence about it says.
REFUSED = [
    ({"model_type": "unknown_model"}, "cannot read"),
    ({"model_type": "clip"}, "cannot build the model of"),
    ({**LAYER, "hidden_size": 100, "num_attention_heads": 32}, "not a multiple"),
    ({**LAYER, "torch_dtype": "float8_e4m3fn"}, "cannot build the model of"),
    ({**LAYER, "torch_dtype": "unknown_type"}, "unknown_type"),
    ({**LAYER, "architectures": 7}, "cannot build the model of"),
]
# In one process, since torch takes seconds to import.
BUILD = """
import runpy, sys
main = runpy.run_path(sys.argv[1])["main"]
print([main([directory, "-o", directory + "/out.json"]) for directory in sys.argv[2:]])
"""


def build(directory, configs):
    """A directory for each configuration, and the run that has made their inventories."""
    pytest.importorskip("transformers")
    directories = [directory / str(number) for number in range(len(configs))]
    for made, config in zip(directories, configs, strict=True):
        made.mkdir()
        (made / "config.json").write_text(json.dumps(config))
    script = ROOT / "bindings" / "python" / "penstock" / "inventory.py"
    command = [sys.executable, "-c", BUILD, *map(str, [script, *directories])]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment, check=False)
    return directories, done


def test_models_that_cannot_be_built(tmp_path):
    directories, done = build(tmp_path, [config for config, _ in REFUSED])
    assert (done.returncode, done.stdout) == (0, f"{[1] * len(REFUSED)}\n"), done.stderr
    sentences = [line for line in done.stderr.splitlines() if line.startswith("penstock.inventory: transformers ")]
    assert len(sentences) == len(REFUSED) and "Traceback" not in done.stderr, done.stderr
    for sentence, directory, (_, part) in zip(sentences, directories, REFUSED, strict=True):
        assert f"{directory}/config.json" in sentence and part in sentence
        assert len(sentence) < 1000 and not (directory / "out.json").exists()


SIZES = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2}
T5 = {"d_model": 32, "d_kv": 16, "d_ff": 64, "num_layers": 1, "num_heads": 2, "vocab_size": 64}
LAYERS = {"encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2}
WHISPER = {"d_model": 32, **LAYERS}
WORDS = "roberta.embeddings.word_embeddings.weight"
# What config.json says, the ties of the model, and what it freezes itself.
USES = [
    ({"model_type": "llama", "architectures": ["LlamaForSequenceClassification"], **SIZES}, {}, []),
    (
        {"model_type": "roberta", "architectures": ["RobertaForMaskedLM"], **SIZES},
        {"lm_head.decoder.weight": WORDS, "lm_head.decoder.bias": "lm_head.bias"},
        [],
    ),
    (
        {"model_type": "t5", "architectures": ["T5ForConditionalGeneration"], **T5},
        {f"{user}.weight": "shared.weight" for user in ("encoder.embed_tokens", "decoder.embed_tokens", "lm_head")},
        [],
    ),
    (
        {"model_type": "whisper", "architectures": ["WhisperForConditionalGeneration"], **WHISPER},
        {"proj_out.weight": "model.decoder.embed_tokens.weight"},
        ["model.encoder.embed_positions.weight"],
    ),
]


def test_ties_and_what_the_model_freezes_are_listed(tmp_path):
    directories, done = build(tmp_path, [config for config, _, _ in USES])
    assert done.stdout == f"{[0] * len(USES)}\n", done.stderr
    for directory, (_, ties, frozen) in zip(directories, USES, strict=True):
        inventory = json.loads((directory / "out.json").read_text())
        assert inventory["ties"] == ties
        assert [tensor["name"] for tensor in inventory["tensors"] if "trainable" in tensor] == frozen

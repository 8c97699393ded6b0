"""Files of a checkpoint beside those of ranks: of experts and of a pipeline's layers; and those of a save before."""

import pytest

torch = pytest.importorskip("torch")
from checkpoint_files import STEP, model_state, optimizer_state, shard, write_checkpoint

EXPERT = "moe.deepspeed_moe.experts.deepspeed_experts"


@pytest.fixture
def mixture(tmp_path):
    """Two layers of native experts, as stage 2 saves them. The folder of the tag."""
    folder = tmp_path / "run" / "global_step500"
    folder.mkdir(parents=True)
    experts = {(layer, n): f"{layer}.{EXPERT}.{n}.weight" for layer, count in enumerate((2, 3)) for n in range(count)}
    groups = ({"fc.weight": (4, 4)}, dict.fromkeys(experts.values(), (8,)))
    state = model_state(2, 1, 0, groups=groups, num_experts=[2, 3], ds_autoep_layers=None)
    for (layer, number), name in experts.items():
        del state["module"][name]
        weight = {name: torch.ones(8, dtype=torch.bfloat16)}
        torch.save(weight, folder / f"layer_{layer}_expert_{number}_mp_rank_00_model_states.pt")
    torch.save(state, folder / shard(0, stage=2))
    torch.save(optimizer_state(2, 1, groups=groups), folder / shard(0, "optim"))
    (tmp_path / "run" / "latest").write_text("global_step500")
    return folder


@pytest.fixture
def pipeline(tmp_path):
    """Layers 0, 1 and 3, since 2 is a function. The folder of the tag, and what makes a pipeline of ZeRO of it."""
    folder = tmp_path / "run" / "global_step500"
    folder.mkdir(parents=True)
    empty = dict.fromkeys(("param_shapes", "frozen_param_shapes", "frozen_param_fragments", "shared_params", "module"))
    for layer in (0, 1, 3):
        torch.save({"weight": torch.ones(3, 3), "bias": torch.ones(3)}, folder / f"layer_{layer:02}-model_states.pt")
    optimizer = {"state": {0: {"step": 7}}, "param_groups": [{"params": list(range(6))}]}
    torch.save(model_state(0, 1, 0, **{**empty, "optimizer": optimizer}), folder / shard(0, stage=2))
    (tmp_path / "run" / "latest").write_text("global_step500")
    return folder


def each_is_missed(penstock, folder, missing=None):
    run = folder.parent
    for verb in ("inspect", "verify"):
        assert penstock.json(verb, run)["missing"] == []
    for path in sorted(folder.glob("*.pt")):
        name = path.name.removeprefix("bf16_")
        path.rename(run / "away")
        for verb in ("inspect", "verify"):
            report = penstock.json(verb, run, code=1)
            assert report["missing"] == [f"{folder.name}/{n}" for n in (missing or {}).get(name, [name])]
        (run / "away").rename(path)


def test_files_of_experts(penstock, mixture):
    each_is_missed(penstock, mixture)


def test_experts_are_listed_once(penstock, mixture):
    report = penstock.json("inspect", mixture)
    names = [tensor["name"] for tensor in report["tensors"]]
    assert len(names) == len(set(names)) and report["notes"] == []
    experts = [tensor for tensor in report["tensors"] if EXPERT in tensor["name"]]
    assert {(t["dtype"], tuple(t["shape"]), t["bytes"]) for t in experts} == {("bf16", (8,), 16)} and len(experts) == 5


def test_optimizers_of_experts_without_zero(penstock, mixture):
    optimizer = {"state": {0: {"step": 7}}, "param_groups": []}
    state = model_state(0, 1, 0, param_shapes=None, frozen_param_shapes=None, shared_params=None, num_experts=[2, 3])
    torch.save({**state, "optimizer": optimizer}, mixture / shard(0, stage=2))
    (mixture / shard(0, "optim")).unlink()
    for rank in range(2):
        torch.save({"optimizer": optimizer}, mixture / f"expp_rank_{rank}_mp_rank_00_optim_states.pt")
    assert penstock.json("inspect", mixture)["missing"] == []
    (mixture / "expp_rank_0_mp_rank_00_optim_states.pt").unlink()
    assert penstock.json("inspect", mixture, code=1)["missing"] == ["expp_rank_0_mp_rank_00_optim_states.pt"]


@pytest.mark.parametrize("stage", [2, 3])
def test_experts_of_autoep_have_their_whole_shape(penstock, tmp_path, stage):
    """A rank's model file has the shapes of its own experts; at stage 3 no file has their type."""
    groups = ({"mlp.gate.weight": (4, 4)}, {"mlp.experts.w1": (2, 5, 3)})
    layer = {"expert_key_prefix": "mlp.experts", "num_experts": 4, "num_local_experts": 2}
    folder = write_checkpoint(tmp_path / "run", stage=stage)
    for rank in range(2):
        state = model_state(stage, 2, rank, groups=groups, num_experts=[4], ds_autoep_layers=[layer])
        del state["module"]["mlp.experts.w1"]
        torch.save(state, folder / shard(rank, stage=stage))
        torch.save(optimizer_state(stage, 2, groups=groups), folder / shard(rank, "optim"))
    if stage == 2:
        for number in range(4):
            expert = {f"mlp.experts.w1.{number}": torch.ones(5, 3, dtype=torch.bfloat16)}
            torch.save(expert, folder / f"layer_0_expert_{number}_mp_rank_00_model_states.pt")
    report = penstock.json("inspect", tmp_path / "run")
    (experts,) = [tensor for tensor in report["tensors"] if "experts" in tensor["name"]]
    kind, size = ("bf16", 120) if stage == 2 else (None, 0)
    assert (experts["shape"], experts["dtype"], experts["bytes"]) == ([4, 5, 3], kind, size)
    notes = ["no file says the type of 1 tensors, whose bytes are not counted; the first is mlp.experts.w1"]
    assert report["notes"] == (notes if stage == 3 else []) and report["missing"] == []


def test_files_of_layers(penstock, pipeline):
    """Without ZeRO no file has their names: the optimizer has more parameters than are there."""
    names = [f"layer_{layer:02}-model_states.pt" for layer in range(5)]
    report = penstock.json("inspect", pipeline)
    assert [t["name"] for t in report["tensors"]] == [f"{n}.{kind}" for n in (0, 1, 3) for kind in ("bias", "weight")]
    assert {file["kind"] for file in report["files"]} == {"layer", "model"} and report["tensors"][0]["bytes"] == 12
    missing = {names[0]: [names[0], names[2]], names[1]: names[1:3], names[3]: names[2:3]}
    each_is_missed(penstock, pipeline, missing)


def test_a_layer_that_cannot_be_read_is_there(penstock, pipeline):
    (pipeline / "layer_01-model_states.pt").write_bytes(b"cut")
    report = penstock.json("inspect", pipeline, code=1)
    assert report["missing"] == [] and report["resume"]["obstacles"] == ["1 of its files cannot be read"]


@pytest.mark.parametrize("axis", ["", "-model_00"])
def test_files_of_layers_by_the_names_of_their_parameters(penstock, pipeline, axis):
    groups = (
        {f"{layer}.{name}": shape for layer in (0, 1, 3) for name, shape in (("weight", (3, 3)), ("bias", (3,)))},
    )
    torch.save(model_state(1, 1, 0, groups=groups, module=None), pipeline / shard(0, stage=2))
    torch.save(optimizer_state(1, 1, groups=groups), pipeline / shard(0, "optim"))
    for path in list(pipeline.glob("layer_*")):
        path.rename(path.with_name(path.name.replace("-model_states", f"{axis}-model_states")))
    each_is_missed(penstock, pipeline)


def test_a_module_that_layers_share_is_listed_by_its_layers(penstock, pipeline):
    """As 0 and 3 do; with ZeRO the pipeline names it once more, and no file says what type that is."""
    layer = {"weight": (3, 3), "bias": (3,)}
    names = ("1", "tied_modules.embedding")
    groups = ({f"{module}.{name}": shape for module in names for name, shape in layer.items()},)
    empty = dict.fromkeys(("frozen_param_shapes", "frozen_param_fragments", "shared_params", "module"))
    torch.save(model_state(1, 1, 0, groups=groups, **empty), pipeline / shard(0, stage=2))
    torch.save(optimizer_state(1, 1, groups=groups), pipeline / shard(0, "optim"))
    report = penstock.json("inspect", pipeline)
    assert [t["name"] for t in report["tensors"]] == [f"{n}.{kind}" for n in (0, 1, 3) for kind in ("bias", "weight")]
    assert {t["dtype"] for t in report["tensors"]} == {"f32"} and report["notes"] == []
    for number in (0, 3):
        (pipeline / f"layer_{number:02}-model_states.pt").unlink()
    report = penstock.json("inspect", pipeline)
    assert [t["name"] for t in report["tensors"] if t["dtype"] is None] == [f"{names[1]}.{n}" for n in sorted(layer)]
    assert report["notes"][0].startswith("no file says the type of 2 tensors")


@pytest.mark.parametrize("stage", [2, 3])
def test_files_of_an_earlier_save_by_more_ranks(penstock, tmp_path, stage):
    """DeepSpeed leaves them, as `best` saved once more with one rank."""
    run = tmp_path / "run"
    folder = write_checkpoint(run, stage=stage, ranks=2, tag="best")
    torch.save(model_state(stage, 1, 0, step=600), folder / shard(0, stage=stage))
    torch.save(optimizer_state(stage, 1, step=600), folder / shard(0, "optim"))
    left = folder / shard(1, "optim")
    report = penstock.json("inspect", run)
    assert report["resume"] == {"possible": True, "world_size": 1, "obstacles": []}
    assert report["step"] == 600 != STEP and report["optimizer_steps"] == [600]
    (note,) = report["notes"]
    assert f"{stage - 1} of its files are of an earlier save by more ranks, of ranks from 1 on" in note
    assert "ds_to_universal.py and zero_to_fp32.py read them, or refuse the directory: remove them first" in note
    assert "with world size 1; DeepSpeed refuses any other\n" in penstock("inspect", run).stdout
    alone = write_checkpoint(tmp_path / "alone", stage=stage, ranks=1)
    assert report["states"] == penstock.json("inspect", alone)["states"]
    assert penstock.json("verify", run)["good"]
    left.write_bytes(left.read_bytes()[:100])
    assert penstock("inspect", run).returncode == 0, "load_checkpoint() does not read it"
    assert penstock("verify", run).returncode == 1

"""Masters and moments of a checkpoint of DeepSpeed: whether `inspect` says that a load takes them."""

import pytest
from cli_support import assert_one_sentence

torch = pytest.importorskip("torch")
from checkpoint_files import GROUPS, model_state, optimizer_state, shard, write_checkpoint

RESUMES = {"possible": True, "world_size": 2, "obstacles": []}
OF_MASTERS = {3: "fp32_flat_groups", 2: "single_partition_of_fp32_groups", 1: "single_partition_of_fp32_groups"}
OF_MOMENTS = {3: "optimizer_state_dict", 2: "base_optimizer_state", 1: "base_optimizer_state"}


@pytest.fixture(params=[1, 2, 3])
def stage(request):
    return request.param


def resumption(penstock, run, stage, change, code=0):
    """Of a checkpoint in which `change` was made to the masters and the optimizer's dict of rank 1."""
    folder = write_checkpoint(run, stage=stage)
    saved = optimizer_state(stage, 2)
    state = saved["optimizer_state_dict"]
    change(state[OF_MASTERS[stage]], state[OF_MOMENTS[stage]])
    torch.save(saved, folder / shard(1, "optim"))
    return penstock.json("inspect", run, code=code)["resume"]


def of_group_1(name, change):
    def changed(masters, base):
        base["state"][1][name] = change(base["state"][1][name])

    return changed


def test_masters_that_are_too_short(penstock, run):
    state = optimizer_state(3, 2)
    flat = state["optimizer_state_dict"]["fp32_flat_groups"]
    flat[1] = flat[1][:-1].clone()
    torch.save(state, run / "global_step500" / shard(1, "optim"))
    assert_one_sentence(penstock("inspect", run), "masters of 1 of 2 sub-groups are shorter")


def test_masters_that_are_too_long(penstock, tmp_path):
    """Moments, too: a load refuses the masters."""

    def one_more(masters, base):
        masters[1] = torch.cat([masters[1], torch.zeros(1)])
        for name in ("exp_avg", "exp_avg_sq"):
            base["state"][1][name] = masters[1].clone()

    resume = resumption(penstock, tmp_path / "run", 3, one_more, code=1)
    assert resume["obstacles"] == ["the masters of 1 of 2 sub-groups are longer than their parameters"]


@pytest.mark.parametrize("why", ["num_experts", "mics_shard_size", "ds_zero_partition_groups", "stage 2"])
def test_masters_that_are_longer_for_a_reason(penstock, tmp_path, why):
    """Stage 3 divides experts over fewer ranks, and MiCS all of it; stages 1 and 2 align parameters."""
    stage = 2 if why == "stage 2" else 3
    whole = model_state(stage, 1, 0), optimizer_state(stage, 1)["optimizer_state_dict"]
    folder = write_checkpoint(tmp_path / "run", stage=stage)
    config = {"stage": stage, **({why: 1} if why == "mics_shard_size" else {})}
    changes = {"num_experts": [4]} if why == "num_experts" else {}
    for rank in range(2):
        saved = optimizer_state(stage, 2)
        saved["optimizer_state_dict"][OF_MASTERS[stage]] = whole[1][OF_MASTERS[stage]]
        saved["optimizer_state_dict"][OF_MOMENTS[stage]] = whole[1][OF_MOMENTS[stage]]
        if why == "ds_zero_partition_groups":
            saved["optimizer_state_dict"][why] = [{"partition_count": 1}]
        torch.save(saved, folder / shard(rank, "optim"))
        model = model_state(stage, 2, rank, ds_config={"zero_optimization": config}, **changes)
        torch.save(model, folder / shard(rank, stage=stage))
    assert penstock.json("inspect", tmp_path / "run")["resume"] == RESUMES


@pytest.mark.parametrize("name", ["exp_avg", "exp_avg_sq"])
def test_moments_that_are_too_short(penstock, tmp_path, stage, name):
    change = of_group_1(name, lambda moment: moment[:100].clone())
    resume = resumption(penstock, tmp_path / "run", stage, change, code=1)
    master = sum(-(-torch.Size(shape).numel() // 2) for shape in GROUPS[1].values())
    group = "sub-group" if stage == 3 else "group"
    assert resume["obstacles"] == [
        f"1 of its moments are not as long as their masters: {name} of {group} 1 has 100 elements, its master {master}"
    ]


def with_fewer_moments(run, stage, ranks, **of_groups):
    """The second moments of these ranks have one number for 16 weights, in every group."""
    folder = write_checkpoint(run, stage=stage)
    for rank in ranks:
        saved = optimizer_state(stage, 2)
        base = saved["optimizer_state_dict"][OF_MOMENTS[stage]]
        base["param_groups"][0] |= of_groups
        for moments in base["state"].values():
            moments["exp_avg_sq"] = moments["exp_avg_sq"][::16].clone()
        torch.save(saved, folder / shard(rank, "optim"))
    return run


def test_moments_in_a_form_of_their_own(penstock, tmp_path, stage):
    """An optimizer of the script's own may keep them so. The file does not say whether it does."""
    report = penstock.json("inspect", with_fewer_moments(tmp_path / "run", stage, (0, 1)))
    assert report["resume"] == RESUMES
    assert [note for note in report["notes"] if note.startswith("no exp_avg_sq is as long as its master")]


@pytest.mark.parametrize(
    ("ranks", "of_groups"), [((0, 1), {"bias_correction": True}), ((0, 1), {"amsgrad": False}), ((1,), {})]
)
def test_moments_of_adam_and_of_some_ranks_are_cut(penstock, tmp_path, stage, ranks, of_groups):
    run = with_fewer_moments(tmp_path / "run", stage, ranks, **of_groups)
    [obstacle] = penstock.json("inspect", run, code=1)["resume"]["obstacles"]
    assert f"{2 * len(ranks)} of its moments are not as long as their masters: exp_avg_sq of" in obstacle


def test_moments_that_are_too_long(penstock, tmp_path, stage):
    """Stages 1 and 2 take the padding of a rank off masters alone."""
    change = of_group_1("exp_avg", lambda moment: torch.cat([moment, torch.zeros(3)]))
    resumption(penstock, tmp_path / "run", stage, change, code=1 if stage == 3 else 0)


def without_moments(masters, base):  # torch's SGD: its momentum_buffer is None, or not there
    base["state"] = {0: {"momentum_buffer": None}, 1: {}}


def before_the_first_step(masters, base):
    base["state"] = {}


def amsgrad(masters, base):
    for state in base["state"].values():
        state["max_exp_avg_sq"] = state["exp_avg_sq"].clone()


def novograd(masters, base):
    for state in base["state"].values():
        state["exp_avg_sq"] = torch.zeros(())


def muon(masters, base):
    """It may keep what it likes of its own; the other group has Adam's moments."""
    base["state"][0] = {"momentum_buffer": torch.zeros(7)}


def factored(masters, base):
    for state in base["state"].values():
        del state["exp_avg"]
        state["exp_avg_sq_row"] = torch.zeros(5)


def adagrad(masters, base):
    """Before its first step it has each master twice, by the number of the second."""
    base["param_groups"][0]["params"] = [0, 0, 2, 2]
    base["state"] = {0: {"sum": masters[0].clone()}, 2: {"exp_avg": masters[1].clone()}}


def two_groups(masters, base):
    group = base["param_groups"][0]
    base["param_groups"] = [{**group, "params": [0]}, {**group, "params": [1]}]


@pytest.mark.parametrize(
    "change", [without_moments, before_the_first_step, amsgrad, novograd, muon, factored, adagrad, two_groups]
)
def test_states_of_other_optimizers(penstock, tmp_path, stage, change):
    assert resumption(penstock, tmp_path / "run", stage, change) == RESUMES


def test_states_of_a_list(penstock, tmp_path):
    """As elastic checkpoints of stages 1 and 2 have them."""
    folder = write_checkpoint(tmp_path, stage=2)
    saved = optimizer_state(2, 2)
    state = saved["optimizer_state_dict"]
    state["base_optimizer_state"] = list(state["base_optimizer_state"]["state"].values())
    torch.save(saved, folder / shard(1, "optim"))
    assert penstock.json("inspect", folder)["resume"] == RESUMES

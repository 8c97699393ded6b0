"""docs/MEMORY_TABLES.md: every figure of the tables that users plan with, as `penstock plan` has it.

A row is what is asked, our figure in GB of a rank, the figure that users quote (from, to), and whether the two agree
within rounding. Where they do not, the page says why: what is checked here is that they still do not.
"""

import pytest
from cli_support import DATA, ROOT

PAGE = (ROOT / "docs" / "MEMORY_TABLES.md").read_text()
GB = 1e9
# What people write as one figure, they have rounded to two digits.
ROUNDING = 0.035

QWEN_8_RANKS = [
    # stage, optimizer, component, ours, quoted, agree
    (2, "adamw", "parameters", 61.06, (60, 60), True),
    (3, "adamw", "parameters", 7.63, (7.5, 7.5), True),
    (2, "adamw", "gradients", 7.63, (60, 60), False),
    (3, "adamw", "gradients", 7.63, (7.5, 7.5), True),
    (2, "adamw", "moments", 30.53, (30, 30), True),
    (3, "adamw", "moments", 30.53, (3.8, 3.8), False),
    (2, "adamw8bit", "moments", 7.63, (10, 12), False),
    (3, "adamw8bit", "moments", 7.63, (1.5, 1.5), False),
    (2, "adamw4bit", "moments", 3.82, (7, 10), False),
    (3, "adamw4bit", "moments", 3.82, (1, 1), False),
    (2, "adamw", "master", 15.27, None, False),
    (3, "adamw", "master", 15.27, None, False),
]
# Ranks, then as above; of 31.3e9 parameters, as that table counts them.
QWEN_2_RANKS = [
    (1, 3, "adamw", "gradients", 62.6, (62.6, 62.6), True),
    (2, 3, "adamw", "gradients", 31.3, (31.3, 31.3), True),
    (2, 3, "adamw", "gradients", 31.3, (15, 15), False),
    (2, 3, "adamw", "parameters", 31.3, (29 * 2**30 / GB, 29 * 2**30 / GB), True),
    (2, 2, "adamw", "parameters", 62.6, (58.36 * 2**30 / GB, 58.36 * 2**30 / GB), True),
    (1, 3, "adamw8bit", "moments", 62.6, (62.6, 62.6), True),
    (2, 3, "adamw8bit", "moments", 31.3, (31.3, 31.3), True),
    (1, 3, "adamw4bit", "moments", 31.3, (31.3, 31.3), True),
    (2, 3, "adamw4bit", "moments", 15.65, (15.6, 15.6), True),
    (2, 3, "adamw4bit", "moments", 15.65, (30, 30), False),
    (2, 3, "adamw", "master", 62.6, None, False),
]
# Type, ranks, stage, then as above; of 7e9 parameters.
SEVEN_BILLION = [
    ("f32", 1, 3, "parameters", 28.0, (28, 28), True),
    ("bf16", 1, 3, "parameters", 14.0, (14, 14), True),
    ("f32", 1, 3, "gradients", 28.0, (28, 28), True),
    ("f32", 1, 3, "moments", 56.0, (56, 56), True),
    ("f32", 1, 3, "master", 0.0, None, True),
    ("bf16", 4, 2, "parameters", 14.0, (14, 14), True),
    ("bf16", 4, 2, "gradients", 3.5, (7, 7), False),
    ("bf16", 4, 2, "master", 7.0, None, False),
    ("bf16", 4, 2, "moments", 14.0, (14, 14), True),
    ("bf16", 4, 3, "parameters", 3.5, (3.5, 3.5), True),
    ("bf16", 4, 3, "gradients", 3.5, (7, 7), False),
    ("bf16", 4, 3, "moments", 14.0, (14, 14), True),
]
# Activations are given, not derived: GB as quoted, for sequence x micro-batch.
ACTIVATIONS = {"2048 x 4": (18, 20), "2048 x 8": (36, 40), "3072 x 4": (28, 30), "4096 x 2": (24, 26)}


@pytest.fixture
def table(penstock):
    """GB of a rank by component, over all places."""

    def rows(inventory, ranks, stage, optimizer="adamw", **options):
        more = [f"--{key}={value}" for key, value in options.items()]
        plan = penstock.json(
            "plan",
            inventory,
            "--world-size",
            ranks,
            "--stage",
            stage,
            "--optimizer",
            optimizer,
            "--memory=64GiB",
            *more,
        )
        gigabytes = {}
        for row in plan["memory"]:
            gigabytes[row["component"]] = gigabytes.get(row["component"], 0) + row["bytes_per_rank"] / GB
        return gigabytes

    return rows


@pytest.fixture
def model(write):
    """An inventory of so many parameters, in rows that every number of ranks here divides."""

    def inventory(parameters, dtype):
        shape = [int(parameters) // 1000, 1000]
        return write(f"{dtype}.json", {"tensors": [{"name": "w", "dtype": dtype, "shape": shape, "role": "param"}]})

    return inventory


def compare(ours, figure, quoted, agree):
    assert ours == pytest.approx(figure, abs=0.006)
    if quoted:
        low, high = quoted
        assert (low * (1 - ROUNDING) <= ours <= high * (1 + ROUNDING)) == agree


@pytest.mark.parametrize(("stage", "optimizer", "component", "figure", "quoted", "agree"), QWEN_8_RANKS)
def test_thirty_billion_parameters_on_eight_ranks(table, stage, optimizer, component, figure, quoted, agree):
    rows = table(DATA / "inventories" / "qwen3-30b-a3b.json", 8, stage, optimizer)
    compare(rows[component], figure, quoted, agree)
    assert f"| {figure:.2f} |" in PAGE


@pytest.mark.parametrize(("ranks", "stage", "optimizer", "component", "figure", "quoted", "agree"), QWEN_2_RANKS)
def test_the_same_model_on_two_ranks(table, model, ranks, stage, optimizer, component, figure, quoted, agree):
    compare(table(model(31.3e9, "bf16"), ranks, stage, optimizer)[component], figure, quoted, agree)


def test_what_two_ranks_ran_out_of_memory_on(table):
    """The sum that was planned for 96 GB leaves out the masters."""
    rows = table(DATA / "inventories" / "qwen3-30b-a3b.json", 2, 3, "adamw4bit")
    parts = [rows[component] for component in ("parameters", "gradients", "master", "moments")]
    assert sum(parts) == pytest.approx(137.4, abs=0.05)
    assert "= 137.4" in PAGE


@pytest.mark.parametrize(("dtype", "ranks", "stage", "component", "figure", "quoted", "agree"), SEVEN_BILLION)
def test_seven_billion_parameters(table, model, dtype, ranks, stage, component, figure, quoted, agree):
    compare(table(model(7e9, dtype), ranks, stage).get(component, 0.0), figure, quoted, agree)


@pytest.mark.parametrize(("stage", "quoted", "figure"), [(2, 45, 48.5), (3, 34.5, 38.0)])
def test_sums_of_seven_billion_parameters(table, model, stage, quoted, figure):
    rows = table(model(7e9, "bf16"), 4, stage, activations="10GB")
    parts = ("parameters", "gradients", "master", "moments", "activations")
    assert sum(rows[component] for component in parts) == pytest.approx(figure)
    assert f"= {figure:g} | " in PAGE and f" {quoted:g}" in PAGE


@pytest.mark.parametrize("shape", ACTIVATIONS)
def test_activations_are_those_that_are_given(table, shape):
    low, high = ACTIVATIONS[shape]
    assert f"activations, {shape} | given | {low}-{high} |" in PAGE
    for given in (low, high):
        rows = table(DATA / "inventories" / "qwen3-30b-a3b.json", 8, 3, activations=f"{given}GB")
        assert rows["activations"] == given

"""Files of a checkpoint that do not belong together, by what penstock writes into each."""

import shutil

import pytest

pytest.importorskip("torch")
from checkpoint_files import exchange, shard, sign, write_checkpoint


@pytest.mark.parametrize("stage", [2, 3])
def test_files_of_two_saves_and_of_exchanged_ranks(penstock, tmp_path, stage):
    folder, other = (write_checkpoint(tmp_path / name, stage=stage) for name in ("run", "other"))
    sign(folder, "a1")
    sign(other, "b2")
    assert penstock.json("inspect", tmp_path / "run")["resume"]["possible"]
    assert penstock.json("verify", tmp_path / "run")["bad"] == []

    def refused(*parts):
        for verb in ("inspect", "verify"):
            done = penstock(verb, tmp_path / "run")
            assert done.returncode == 1
            assert all(part in done.stdout + done.stderr for part in parts), done.stdout + done.stderr

    first, second = (folder / shard(rank, "optim") for rank in range(2))
    exchange(first, second)
    refused("rank_0", "it was saved by rank 1")
    exchange(first, second)
    exchange(second, other / second.name)
    refused(second.name, "it is of another save than")
    assert penstock("verify", tmp_path / "run", "--json").returncode == 1


def test_a_file_that_no_rank_loads_may_be_of_another_save(penstock, tmp_path):
    folder, other = (write_checkpoint(tmp_path / name) for name in ("run", "other"))
    sign(folder, "a1")
    sign(other, "b2")
    shutil.copy(other / shard(1, "optim"), folder / shard(2, "optim"))
    assert penstock("inspect", tmp_path / "run").returncode == 0

"""A checkpoint's directory takes the place of an older one at once, and nothing of a script's is lost with that."""

from __future__ import annotations

import errno
import logging
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from penstock.deepspeed.checkpoint import directory as module
from penstock.deepspeed.checkpoint.directory import PartialCheckpoint

MODEL = "zero_pp_rank_0_mp_rank_00_model_states.pt"


def save(directory: Path, tag: str, content: str) -> None:
    """As rank 0 of two does it, which publishes twice."""
    ranks = [PartialCheckpoint(str(directory), tag) for _ in range(2)]
    for rank in ranks:
        rank.clear()
    for rank in ranks:
        rank.create()
    Path(ranks[0].file(str(directory / tag / MODEL))).write_text(content)
    ranks[0].publish()
    for rank in ranks:
        rank.publish()


def test_a_link_keeps_naming_what_it_names(tmp_path: Path) -> None:
    save(tmp_path, "first", "old")
    (tmp_path / "best").symlink_to("first")
    save(tmp_path, "best", "new")
    assert (tmp_path / "best").is_symlink()
    assert (tmp_path / "first" / MODEL).read_text() == (tmp_path / "best" / MODEL).read_text() == "new"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["best", "first"]


def test_a_link_to_another_file_system_is_saved_to(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as elsewhere:
        assert os.stat(elsewhere).st_dev != tmp_path.stat().st_dev
        (tmp_path / "tag").symlink_to(elsewhere)
        rank = PartialCheckpoint(str(tmp_path), "tag")
        rank.clear()
        rank.create()
        Path(rank.file(str(tmp_path / "tag" / MODEL))).write_text("new")
        Path(rank.path, "zero_to_fp32.py").write_text("a script")
        rank.publish()
        assert Path(elsewhere, MODEL).read_text() == "new"
        assert (tmp_path / "zero_to_fp32.py").read_text() == "a script"


def test_directories_of_a_script_outlive_a_save_that_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed between the exchange of the names and the directories' way back."""
    save(tmp_path, "tag", "old")
    (tmp_path / "tag" / "plots").mkdir()
    (tmp_path / "tag" / "plots" / "loss.png").write_text("mine")
    killed = PartialCheckpoint(str(tmp_path), "tag")
    killed.create()
    Path(killed.file(str(tmp_path / "tag" / MODEL))).write_text("new")
    with monkeypatch.context() as patched:
        patched.setattr(killed, "_move_directories", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            killed.publish()
    save(tmp_path, "tag", "newest")
    assert (tmp_path / "tag" / MODEL).read_text() == "newest"
    assert (tmp_path / "tag" / "plots" / "loss.png").read_text() == "mine"


def test_an_older_one_that_cannot_be_removed_does_not_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    save(tmp_path, "tag", "old")
    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", lambda *_, **__: None)
        save(tmp_path, "tag", "new")
    assert (tmp_path / "tag" / MODEL).read_text() == "new"
    assert "cannot be removed" in caplog.text
    save(tmp_path, "tag", "newest")
    assert (tmp_path / "tag" / MODEL).read_text() == "newest"
    assert [path.name for path in tmp_path.iterdir()] == ["tag"]


def test_what_a_failed_save_gives_up_is_its_own(tmp_path: Path) -> None:
    save(tmp_path, "tag", "old")
    failed = PartialCheckpoint(str(tmp_path), "tag")
    failed.create()
    failed.publish()
    Path(failed.path).mkdir()
    (Path(failed.path) / "another's").write_text("")
    failed.discard()
    assert (Path(failed.path) / "another's").exists()


@pytest.mark.parametrize("tag", ["tag", "tag/"])
def test_files_of_scripts_stay(tmp_path: Path, tag: str) -> None:
    (tmp_path / "tag").mkdir()
    names = ("ema_model_states.pt", "my_optim_states.pt", "notes.txt")
    for name in names:
        (tmp_path / "tag" / name).write_text(name)
    for content in ("old", "new"):
        save(tmp_path, tag, content)
        assert sorted(path.name for path in (tmp_path / "tag").iterdir()) == sorted([MODEL, *names])
        assert (tmp_path / "tag" / MODEL).read_text() == content


def test_files_of_another_engine_stay(tmp_path: Path) -> None:
    """A critic's, whose states are not partitioned. Of this engine's those of ranks that there are no more go."""
    save(tmp_path, "tag", "old")
    (tmp_path / "tag" / "mp_rank_00_model_states.pt").write_text("the critic's")
    (tmp_path / "tag" / MODEL.replace("rank_0_", "rank_7_")).write_text("of rank 7")
    save(tmp_path, "tag", "new")
    assert sorted(path.name for path in (tmp_path / "tag").iterdir()) == ["mp_rank_00_model_states.pt", MODEL]


def test_swap_files_of_an_older_checkpoint_go(tmp_path: Path) -> None:
    save(tmp_path, "tag", "old")
    (tmp_path / "tag" / "offloaded_tensors" / "rank0000").mkdir(parents=True)
    save(tmp_path, "tag", "new")
    assert [path.name for path in (tmp_path / "tag").iterdir()] == [MODEL]


@pytest.fixture(params=["a file of another user", "a directory of another user", "a sticky directory", "a mount"])
def others(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tag that has what cannot go to another directory."""
    save(tmp_path, "tag", "old")
    tag = tmp_path / "tag"
    (tag / MODEL.replace("rank_0_", "rank_7_")).write_text("of rank 7")
    if "file" in request.param:
        (tag / "notes").write_text("theirs")
        refusal = PermissionError(errno.EPERM, "Operation not permitted")
        monkeypatch.setattr(os, "link", lambda *_, **__: (_ for _ in ()).throw(refusal))
        return tag
    (tag / "notes").mkdir()
    if "sticky" in request.param:
        tag.chmod(0o1777)
    elif "mount" in request.param:
        monkeypatch.setattr(module, "_is_mount", lambda path: path.endswith("notes"))
    else:
        access = os.access  # root may write anywhere
        monkeypatch.setattr(os, "access", lambda path, *_, **__: not path.endswith("notes") and access(path, os.W_OK))
    return tag


def test_where_others_have_written_files_are_replaced_one_by_one(others: Path) -> None:
    before = others.stat().st_ino
    save(others.parent, "tag", "new")
    assert others.stat().st_ino == before
    assert sorted(path.name for path in others.iterdir()) == ["notes", MODEL]
    assert (others / MODEL).read_text() == "new"
    assert [path.name for path in others.parent.iterdir()] == ["tag"]


@pytest.mark.parametrize("tag", ["tag", "."])
def test_a_kill_between_two_files_is_made_good(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tag: str) -> None:
    directory = tmp_path / "saved"
    (directory / tag / "notes").mkdir(parents=True)
    (directory / tag).chmod(0o1777)
    models = [MODEL, MODEL.replace("rank_0_", "rank_1_")]
    for name in models:
        (directory / tag / name).write_text("old")
    killed = PartialCheckpoint(str(directory), tag)
    killed.create()
    for name in models:
        Path(killed.file(str(directory / tag / name))).write_text("new")
    replaced = os.replace
    with monkeypatch.context() as patched:
        moved: list[str] = []

        def replace(old: str, new: str) -> None:
            if moved:
                raise KeyboardInterrupt
            moved.append(new)
            replaced(old, new)

        patched.setattr(os, "replace", replace)
        with pytest.raises(KeyboardInterrupt):
            killed.publish()
        killed.discard()
    assert {(directory / tag / name).read_text() for name in models} == {"old", "new"}
    PartialCheckpoint(str(directory), tag).bring_back()
    assert {(directory / tag / name).read_text() for name in models} == {"new"}
    assert sorted(path.name for path in (directory / tag).iterdir()) == sorted([*models, "notes"])


def test_what_cannot_be_replaced_is_unchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path, ".", "old")
    failed = PartialCheckpoint(str(tmp_path), ".")
    failed.create()
    Path(failed.file(str(tmp_path / MODEL))).write_text("new")
    refusal = PermissionError(errno.EPERM, "Operation not permitted")
    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(refusal))
        with pytest.raises(PermissionError):
            failed.publish()
        failed.discard()
    PartialCheckpoint(str(tmp_path), ".").bring_back()
    assert (tmp_path / MODEL).read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == [MODEL]


@pytest.mark.parametrize("number", [errno.EXDEV, errno.EBUSY])
def test_where_names_cannot_be_exchanged_files_are_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """As of a tag in the lower layer of an overlay, or one that is a bind mount."""
    save(tmp_path, "tag", "old")
    before = (tmp_path / "tag").stat().st_ino
    refusal = OSError(number, os.strerror(number))
    monkeypatch.setattr(module, "_exchange", lambda *_: (_ for _ in ()).throw(refusal))
    save(tmp_path, "tag", "new")
    assert (tmp_path / "tag").stat().st_ino == before
    assert (tmp_path / "tag" / MODEL).read_text() == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["tag"]


def test_files_that_come_during_a_save_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path, "tag", "old")
    exchange = module._exchange

    def late(one: str, other: str) -> bool:
        Path(other, "evaluation.json").write_text("mine")
        return exchange(one, other)

    monkeypatch.setattr(module, "_exchange", late)
    save(tmp_path, "tag", "new")
    assert sorted(path.name for path in (tmp_path / "tag").iterdir()) == ["evaluation.json", MODEL]
    assert (tmp_path / "tag" / MODEL).read_text() == "new"


def test_two_dots_behind_a_link_are_the_kernels(tmp_path: Path) -> None:
    (tmp_path / "real" / "scripts").mkdir(parents=True)
    (tmp_path / "scripts").symlink_to("real/scripts")
    asked = tmp_path / "scripts" / ".." / "saved"
    asked.mkdir()
    for content in ("old", "new"):
        save(asked, "tag", content)
        assert (tmp_path / "real" / "saved" / "tag" / MODEL).read_text() == content


def test_a_group_keeps_its_access(tmp_path: Path) -> None:
    save(tmp_path, "tag", "old")
    (tmp_path / "tag").chmod(0o2775)
    save(tmp_path, "tag", "new")
    assert (tmp_path / "tag").stat().st_mode & 0o7777 == 0o2775
    assert (tmp_path / "tag" / MODEL).read_text() == "new"


@pytest.mark.parametrize("tag", ["", "."])
def test_a_tag_may_be_the_directory_itself(tmp_path: Path, tag: str) -> None:
    directory = tmp_path / "saved"
    (directory / "global_step1").mkdir(parents=True)
    for content in ("old", "new"):
        save(directory, tag, content)
        assert (directory / MODEL).read_text() == content
        assert sorted(path.name for path in directory.iterdir()) == ["global_step1", MODEL]
    assert [path.name for path in tmp_path.iterdir()] == ["saved"]

"""Which save a file belongs to, and which rank: a record of penstock's own in each, which torch.load does not read.
Files that a user has renamed or mixed are of the right length, so that nothing else would show it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from torch import distributed

from penstock.errors import ArgumentError

RECORD = "penstock"
RANK_BITS = 16


@dataclass(frozen=True)
class Signature:
    save: str  # of all files of one save the same
    rank: int  # as the file's name has it: see rank_of()

    def encode(self) -> bytes:
        return f"{self.save} {self.rank}".encode()

    @classmethod
    def decode(cls, record: bytes) -> Signature:
        save, _, rank = record.decode().partition(" ")
        return cls(save, int(rank))


@dataclass(frozen=True)
class SignedFile:
    path: str
    signature: Signature
    reader: int  # rank_of()
    group: tuple[int, ...]  # ranks that share the reader's masters; of none: the directory alone counts


def group_of(engine: Any) -> tuple[int, ...]:
    """The data-parallel group, as ranks of all."""
    group = getattr(engine.optimizer, "dp_process_group", None)
    return tuple(distributed.get_process_group_ranks(group))


def rank_of(engine: Any) -> int:
    """The data-parallel rank; the model-parallel one in the bits above."""
    group = getattr(engine.optimizer, "dp_process_group", None)
    rank = engine.global_rank if group is None else int(distributed.get_rank(group))
    model_parallel = getattr(engine, "checkpoint_mp_rank", 0)  # not in DeepSpeed before 0.19
    return rank | int(model_parallel) << RANK_BITS


def _said(rank: int) -> str:
    model_parallel, data_parallel = rank >> RANK_BITS, rank & ((1 << RANK_BITS) - 1)
    return f"rank {data_parallel}" + (f" (model-parallel {model_parallel})" if model_parallel else "")


def new_save() -> str:
    return os.urandom(8).hex()


def refuse_mixed(files: Iterable[SignedFile]) -> None:
    """Of all ranks. Errors: ArgumentError: one is another rank's, or two of one directory, or one group, are of
    different saves. Groups that train apart may load one each.
    """
    first: dict[str | tuple[int, ...], SignedFile] = {}
    for file in files:
        if file.signature.rank != file.reader:
            raise ArgumentError(
                f"{file.path} was saved by {_said(file.signature.rank)}, and {_said(file.reader)} would load it: give "
                "the files of the checkpoint their names back"
            )
        for shared in (os.path.dirname(file.path), file.group):
            other = first.setdefault(shared, file) if shared else file
            if file.signature.save != other.signature.save:
                raise ArgumentError(f"{file.path} and {other.path} are of two saves: they do not belong together")

"""Which save a file belongs to, and which rank: a record of penstock's own in each, which torch.load does not read.
Files that a user has renamed or mixed are of the right length, so that nothing else would show it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

from penstock.errors import ArgumentError

RECORD = "penstock"


@dataclass(frozen=True)
class Signature:
    save: str  # of all files of one save the same
    rank: int

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
    reader: int  # rank


def new_save() -> str:
    return os.urandom(8).hex()


def refuse_mixed(files: Iterable[SignedFile]) -> None:
    """Of all ranks. Errors: ArgumentError: one is another rank's, or two are of different saves."""
    first: SignedFile | None = None
    for file in files:
        if file.signature.rank != file.reader:
            raise ArgumentError(
                f"{file.path} was saved by rank {file.signature.rank}, and rank {file.reader} would load it: give the "
                "files of the checkpoint their names back"
            )
        first = first or file
        if file.signature.save != first.signature.save:
            raise ArgumentError(f"{file.path} and {first.path} are of two saves: they do not belong together")

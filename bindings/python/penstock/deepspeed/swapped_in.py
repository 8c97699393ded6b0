"""How much of a model is in memory, or on its way there."""

from __future__ import annotations


class SwappedIn:
    """Bytes of the partitions that are swapped in, or on their way."""

    def __init__(self) -> None:
        self.bytes = 0
        self._by_id: dict[int, int] = {}

    def add(self, ds_id: int, nbytes: int) -> None:
        self._by_id[ds_id] = nbytes
        self.bytes += nbytes

    def remove(self, ds_id: int) -> None:
        self.bytes -= self._by_id.pop(ds_id, 0)

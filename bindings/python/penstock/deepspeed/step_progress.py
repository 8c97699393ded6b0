"""How far the optimizer's step has come: one that stopped half-way must not be carried out again.

DeepSpeed steps one sub-group after the other. Where a drive fails in between, some parameters are updated and others
are not; a second step would update the first ones twice, without a word. Nor may a step follow a load that stopped
half-way: it would train on weights of one run with states of another.
"""

from __future__ import annotations

import itertools
from typing import Any

from torch import distributed

from penstock.deepspeed.naming import full_name
from penstock.deepspeed.session import current_session
from penstock.errors import Error, StorageError


class StepProgress:
    """Of one stage-3 optimizer. begin(), then for each sub-group enter() and updated(), then end() or fail()."""

    def __init__(self) -> None:
        self._number = 0  # of the sub-group that is stepped
        self.is_under_way = False  # sub-groups are stepped, and ranks have not said how that went
        self.elements: int | None = 0  # of it that are updated; None: it is not known which
        self.stopped = ""  # where an earlier step has; empty: none has
        self.half_loaded = ""  # the checkpoint that a part of it may be; empty: there is none
        self._lost_writes = _lost_writes()  # when all was right

    def begin(self) -> None:
        """Raises Error where the step before or a load stopped half-way, or what it wrote is not on the drive."""
        self._number, self.elements, self.is_under_way = 0, 0, False
        self.refuse_mixture("Another step would train on the mixture")
        if self.stopped:
            raise Error(
                f"the optimizer's last step {self.stopped}. Another step would update parameters twice: load a "
                "checkpoint first"
            )
        if self._lost_writes != _lost_writes():
            raise Error(
                "a drive has not taken what training wrote, as an earlier error says, so some weights and states may "
                "be older than others: load a checkpoint before the next step"
            )

    def enter(self, number: int) -> None:
        """Sub-groups before this one are updated."""
        self._number, self.elements, self.is_under_way = number, 0, True

    def updated(self, elements: int | None) -> None:
        """So many elements of the sub-group, from its first one on. None: any of them may be."""
        self.elements = elements

    @property
    def has_changed_nothing(self) -> bool:
        """Whether the step has updated no parameter so far, or was refused."""
        return self._number == 0 and self.elements == 0

    def fail(self, stage3: Any, error: BaseException) -> None:
        """A step has raised `error`. One of penstock's says in its message what is updated."""
        if self.stopped or self.has_changed_nothing:
            return
        self.stopped = self._place(stage3)
        if isinstance(error, StorageError):
            error.strerror = f"{error.strerror}; the step {self.stopped}"
        elif isinstance(error, Error) and error.args:
            error.args = (f"{error.args[0]}; the step {self.stopped}", *error.args[1:])

    def refuse_mixture(self, consequence: str) -> None:
        """Raises Error where a load stopped half-way."""
        if self.half_loaded:
            raise Error(
                f"loading {self.half_loaded} stopped half-way: some weights and states are those that it has, others "
                f"are not. {consequence}: load a checkpoint first"
            )

    def forget(self) -> None:
        """A checkpoint has put all of it right."""
        self.stopped = self.half_loaded = ""
        self._lost_writes = _lost_writes()

    def _place(self, stage3: Any) -> str:
        sub_group = f"sub-group {self._number} of {len(stage3.fp16_groups)}"
        if self.elements is None:
            return f"stopped within {sub_group}: the parameters of those before it are updated, its own may be"
        params, partitions = stage3.fp16_groups[self._number], stage3.fp16_partitioned_groups[self._number]
        ends = itertools.accumulate(int(partition.ds_numel) for partition in partitions)
        param = next((param for param, end in zip(params, ends, strict=True) if self.elements < end), params[-1])
        name = full_name(param) or f"parameter #{param.ds_id}"
        has_others = distributed.get_world_size(stage3.dp_process_group) > 1
        return (
            f"stopped at parameter '{name}' ({sub_group}, {self.elements} elements of it are updated): the parameters "
            f"before it are updated, those behind it are not{_OTHERS if has_others else ''}"
        )


_OTHERS = " in this rank; other ranks may have updated their parts of both"


def _lost_writes() -> int:
    session = current_session()
    return 0 if session is None else session.lost_writes

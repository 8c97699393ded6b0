"""A load that stops half-way: what it has changed cannot be taken back, so the next step or save is refused."""

from __future__ import annotations

import os
from typing import Any

from penstock import messages
from penstock.deepspeed.session import current_session
from penstock.deepspeed.step_progress import StepProgress
from penstock.errors import Error


class HalfLoad:
    """Of one load into a stage-3 optimizer: begin() before anything changes, end() when all of it is in place.

    path: what a refusal in between names.
    """

    def __init__(self, stage3: Any, path: str) -> None:
        self._progress = _progress_of(stage3)
        self._path = path
        self._before = "" if self._progress is None else self._progress.half_loaded

    def begin(self) -> None:
        session = current_session()
        if session is not None:
            session.settle_writes()  # of contents that the load replaces
        if self._progress is not None:
            self._progress.half_loaded = self._path

    def take_back(self) -> None:
        """Nothing has changed yet."""
        if self._progress is not None:
            self._progress.half_loaded = self._before

    def end(self, is_whole: bool) -> None:
        """is_whole: weights, masters and states are those of one step now, whatever was wrong before."""
        if not is_whole:
            self.take_back()
        elif self._progress is not None:
            self._progress.forget()


def refuse_to_save_mixture(stage3: Any, path: str) -> bool:
    """A script that saves when it is interrupted would write over a good checkpoint. Raises Error.

    True: it is of a step that has stopped half-way. That is saved as with `device: cpu`, and a line says what it is;
    `latest` is left as it is, so that a run that is begun again does not go on from it. It takes no checkpoint's place:
    the step before has the same number, and so the same tag, where a script names none.
    """
    progress = _progress_of(stage3)
    if progress is None:
        return False
    progress.refuse_mixture("A checkpoint of it would hold the mixture")
    if progress.stopped:
        if os.path.lexists(path):
            raise Error(
                f"{path} is left as it is: the optimizer's last step {progress.stopped}. Load a checkpoint, or save "
                "this one under another tag"
            )
        what = f"{path} gets the weights of a step that {progress.stopped}"
        messages.warn("half-step", f"{what}; `latest` is left as it is: go on from another one")
    return bool(progress.stopped)


def _progress_of(stage3: Any) -> StepProgress | None:
    """None: nothing of it is swapped, or it does not step."""
    from penstock.deepspeed.gradient_cycle import cycle_of

    cycle = cycle_of(stage3)
    return None if cycle is None else cycle.progress

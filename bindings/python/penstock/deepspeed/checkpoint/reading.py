"""What reading a checkpoint is, whichever files it has."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

from penstock import messages
from penstock.deepspeed.checkpoint.half_load import HalfLoad
from penstock.deepspeed.checkpoint.intake import Intake
from penstock.deepspeed.checkpoint.signature import SignedFile
from penstock.deepspeed.session import open_session_of_run
from penstock.deepspeed.states_setting import form_of


class CheckpointReading:
    """A rank reads a checkpoint: read() of the class that knows its files, take(), then publish() or give_up().

    states: masters and moments on their way into the optimizer; None: they stay as they are.
    """

    def __init__(self, engine: Any, directory: str, tag: str) -> None:
        from penstock.deepspeed.checkpoint.swapped import configuration_of

        session = open_session_of_run()
        self._engine = engine
        self._directory = directory
        self._tag = tag
        self._intake = Intake(session.engine)
        self.mark = HalfLoad(engine.optimizer, self.path)
        self._intake.at_begin(self.mark.begin)
        self._format = form_of(configuration_of(engine))  # of this run's moments
        self.saved_format = "fp32"  # of the moments of the run that has saved it
        self.states: Any = None
        self.signed: list[SignedFile] = []  # what read() has opened

    @property
    def path(self) -> str:
        return os.path.join(self._directory, self._tag)

    def read(self, with_states: bool) -> dict[str, Any]:
        """What DeepSpeed's checkpoint engine will give for each file, large tensors not read yet."""
        raise NotImplementedError

    def take(self) -> None:
        """Reads all of it. Nothing has changed when this returns, or raises."""
        if self.states is not None:
            self.states.collect()
        self._intake.run(self.path, self._engine.global_rank == 0)

    def begin_module(self) -> None:
        """DeepSpeed is about to load what is not partitioned: buffers."""
        if any(True for _ in self._engine.module.buffers()):
            self.mark.begin()

    @contextlib.contextmanager
    def supersedes(self) -> Iterator[None]:
        """DeepSpeed loads the module. It, or a script's custom_load_fn, may gather parameters and change them; as with
        `device: cpu`, the weights are those of the files in the end.
        """
        session = open_session_of_run()
        session.superseded = self._intake.tensors
        try:
            yield
        finally:
            session.superseded = ()

    def give_up(self) -> None:
        self._intake.drop()
        if self.states is not None:
            self.states.give_up()

    def publish(self) -> None:
        self._intake.publish()
        if self.states is not None and self.saved_format != self._format and self._engine.global_rank == 0:
            messages.warn(
                "converted-states",
                f"{self.path} was saved with {self.saved_format} states, which are {self._format} from here on: this "
                "run does not go on in the same digits",
            )

    def note_format(self, module: dict[str, Any]) -> None:
        """module: what the file of the model's states has. A run on the CPU has no `penstock` block."""
        config = module.get("ds_config")
        self.saved_format = form_of(config) if isinstance(config, dict) else "fp32"

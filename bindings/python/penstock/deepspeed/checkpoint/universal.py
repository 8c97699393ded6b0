"""A universal checkpoint: the files that ds_to_universal.py writes."""

from __future__ import annotations

import os
from typing import Any

from penstock.deepspeed.checkpoint.reading import CheckpointReading
from penstock.deepspeed.checkpoint.universal_states import UniversalStates, opened
from penstock.errors import StorageError, UnsupportedError


class UniversalCheckpoint(CheckpointReading):
    """A universal checkpoint, of which each rank reads all files."""

    def read(self, with_states: bool) -> dict[str, Any]:
        """What DeepSpeed's checkpoint engine will give for the one file that it asks for."""
        stage3, folder = self._engine.optimizer, os.path.join(self.path, "zero")
        self._refuse(stage3, folder)
        model = self._model_file()
        archive = opened(model)
        self._intake.add(archive)
        module: dict[str, Any] = archive.load()
        self.note_format(module)
        archive.read_all({name: part for name, part in module.items() if name != "frozen_param_fragments"})
        shapes = {name: shape for group in module.get("param_shapes") or [] for name, shape in group.items()}
        # Versions that cannot do without the moments load them whatever they are asked for.
        can_choose = hasattr(stage3, "load_module_checkpoint_state_from_checkpoint_dir_stage3")
        with_moments = with_states or not can_choose
        with_masters = with_moments or self._engine.zero_load_from_fp32_weights()
        self.states = UniversalStates(stage3, folder, self._intake, with_moments, with_masters)
        self.states.check(shapes)
        return {os.path.abspath(model): module}

    def _refuse(self, stage3: Any, folder: str) -> None:
        if not hasattr(stage3, "_load_universal_checkpoint"):
            raise UnsupportedError(
                "a universal checkpoint can only be loaded where an optimizer trains: DeepSpeed has no way to load one "
                "for inference; load the checkpoint that it was made of"
            )
        if not hasattr(stage3._load_universal_checkpoint, "__wrapped__"):  # install() has skipped it
            raise UnsupportedError(
                "universal checkpoints cannot be loaded while tensors are on NVMe: this DeepSpeed loads them in "
                "another way (before 0.18, those of one sub-group only); take a tested one, or load with `device: cpu`"
            )
        if self._engine._config.zero_config.pipeline_loading_checkpoint:
            raise UnsupportedError(
                "DeepSpeed waits for ever when it loads a universal checkpoint with `pipeline_loading_checkpoint`: set "
                "it to false"
            )
        if not os.path.isdir(folder):
            raise StorageError(
                2,
                f"{self.path} is no universal checkpoint: there is no {folder}; convert with `ds_to_universal.py`, or "
                "set `checkpoint.load_universal` to false",
                folder,
            )

    def _model_file(self) -> str:
        files = self._engine._get_all_ckpt_names(self._directory, self._tag)
        if not files:
            name = os.path.join(self.path, "zero_pp_rank_0_mp_rank_00_model_states.pt")
            raise StorageError(2, f"the checkpoint {self.path} is not whole: there is no {name}", name)
        if len(files) > 1:
            raise UnsupportedError(
                f"{self.path} was saved with tensor parallelism, and cannot be loaded while tensors are on NVMe: load "
                "with `device: cpu`"
            )
        return str(files[0])

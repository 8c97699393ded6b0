"""What Muon does beside the optimizer's step."""

from __future__ import annotations

from typing import Any


def changes_in_memory(stage3: Any, state: str) -> bool:
    """Whether DeepSpeed updates the state by itself, where it found it (`save_muon_momentum_buffer_in_memory`): it is
    never swapped then, and what a checkpoint or a script puts there neither.
    """
    stays = getattr(stage3, "use_muon", False) and getattr(stage3, "save_muon_momentum_buffer_in_memory", False)
    return bool(stays) and state == "momentum_buffer"

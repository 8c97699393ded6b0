"""Which moments of an optimizer are stored in fewer bits, as `optimizer_states` and `fp32_states` say."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from torch import distributed

from penstock import messages
from penstock._core import state_format
from penstock.deepspeed.naming import full_name, own_name
from penstock.deepspeed.partition_ranks import own_range
from penstock.deepspeed.states_setting import fp32_patterns, setting_of
from penstock.errors import CompatibilityError, ConfigError

if TYPE_CHECKING:
    import torch

    from penstock.deepspeed.sub_group import SubGroup


class NarrowStates:
    """The setting of one optimizer."""

    def __init__(self, narrow: str, fp32_patterns: list[str]) -> None:
        self._narrow = narrow
        self._fp32_patterns = fp32_patterns
        self._is_settled = False

    @staticmethod
    def of(config: dict[str, Any], step_takes_them: bool) -> NarrowStates | None:
        """None: all states are fp32. Errors: there is no such setting, or none of this optimizer."""
        narrow = setting_of(config)
        if narrow == "fp32":
            return None
        if not step_takes_them:
            raise ConfigError(
                f"penstock.optimizer_states is '{narrow}', and this optimizer has no such form: only DeepSpeedCPUAdam "
                "with fp32 masters has. Use it, or leave optimizer_states out"
            )
        patterns = fp32_patterns(config)
        state_format(narrow, patterns, "", 0)  # the engine has checked the first configuration of the process only
        return NarrowStates(narrow, patterns)

    def settle(self, stage3: Any, group_of: Callable[[torch.Tensor], SubGroup | None]) -> None:
        """Before the first moment is made: when masters are, the names of parameters are not known. Once."""
        if self._is_settled:
            return
        self._is_settled = True
        for number, master in enumerate(stage3.fp32_partitioned_groups_flat):
            group = group_of(master)
            if group is not None:
                group.segments = self._segments(stage3, number, group.numel)
        if distributed.get_rank() == 0:
            self._check_patterns(stage3)

    def _segments(self, stage3: Any, number: int, numel: int) -> list[tuple[int, str, int]]:
        """Of sub-group `number`, this rank's `numel` elements: those in a row, their format, and how many of the last
        ones are padding. DeepSpeed leaves that unset, and an optimizer with weight decay makes moments of it.
        """
        segments = []
        for param, partition in zip(stage3.fp16_groups[number], stage3.fp16_partitioned_groups[number], strict=True):
            count = int(partition.ds_numel)
            _, own = own_range(stage3, param, count)
            segments.append((count, self._format(_name(stage3, param), int(param.ds_numel)), count - own))
        if sum(count for count, _, _ in segments) != numel:
            raise CompatibilityError(
                f"the partitions of sub-group {number} have not its {numel} elements, so penstock.optimizer_states "
                "cannot be applied to them: leave it out"
            )
        return segments

    def _check_patterns(self, stage3: Any) -> None:
        """Warns of patterns that are no trained parameter's: a name may be misspelt."""
        names = [_name(stage3, param) for group in stage3.fp16_groups for param in group]
        for pattern in self._fp32_patterns:
            if not any(state_format("8bit", [pattern], name, 1 << 40) == "fp32" for name in names):
                text = f"penstock.fp32_states has '{pattern}', which matches no parameter that is trained"
                messages.warn("idle-pattern", text)

    def _format(self, name: str, numel: int) -> str:
        return state_format(self._narrow, self._fp32_patterns, name, numel)


def _name(stage3: Any, param: Any) -> str:
    """As rules have it."""
    return full_name(param) or own_name(stage3.param_names[param])

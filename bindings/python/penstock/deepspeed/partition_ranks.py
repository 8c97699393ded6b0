"""Over which ranks a parameter is divided: all partitions are as long, and the last ones end in padding."""

from __future__ import annotations

from typing import Any


def ranks_of(stage3: Any, param: Any) -> tuple[int, int]:
    """How many they are, and which of them this rank is."""
    from deepspeed import comm

    group_of = getattr(stage3, "_get_param_partition_group", None)
    group = stage3.dp_process_group if group_of is None else group_of(param)
    return comm.get_world_size(group=group), comm.get_rank(group=group)


def own_range(stage3: Any, param: Any, partition: int) -> tuple[int, int]:
    """Of the parameter's elements, the first of this rank's partition of so many, and how many: the rest is padding."""
    numel = int(param.ds_numel)
    begin = min(ranks_of(stage3, param)[1] * partition, numel)
    return begin, min(partition, numel - begin)

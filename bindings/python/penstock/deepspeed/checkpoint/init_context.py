"""A zero.Init that a script loads a checkpoint in."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator


@contextlib.contextmanager
def outside_init_context() -> Iterator[None]:
    """As deepspeed.initialize() does within zero.Init: that replaces torch.empty, by which torch unpickles, and float32
    would be read as the model's dtype.
    """
    from deepspeed.runtime.zero import partition_parameters

    context = getattr(partition_parameters, "top_level_context", None)
    if context is None or not context.patched:
        yield
        return
    partition_parameters.shutdown_init_context()
    try:
        yield
    finally:
        partition_parameters.restore_init_context()

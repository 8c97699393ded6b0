"""penstock: a swap engine for training models that do not fit.

    import penstock
    with penstock.Engine(config="ds.json", path="/nvme0") as engine:
        engine.put("layer.0.weight", tensor)
        with engine.get("layer.0.weight") as lease:
            use(torch.from_dlpack(lease))  # NumPy: lease.array

`penstock.deepspeed` plugs it into DeepSpeed; the command `penstock` plans and diagnoses.
"""

from penstock._core import Future, Lease, __version__
from penstock.engine import Engine
from penstock.errors import (
    ArgumentError,
    ClosedError,
    CompatibilityError,
    ConfigError,
    CorruptError,
    Error,
    ExhaustedError,
    StorageError,
    UnknownTensorError,
    UnsupportedError,
)

__all__ = [
    "ArgumentError",
    "ClosedError",
    "CompatibilityError",
    "ConfigError",
    "CorruptError",
    "Engine",
    "Error",
    "ExhaustedError",
    "Future",
    "Lease",
    "StorageError",
    "UnknownTensorError",
    "UnsupportedError",
    "__version__",
]

"""penstock.Engine with one device: `cuda:0`, `hip:0`, or `host:0`, a simulated one whose memory is the host's."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def simulated(device: str) -> bool:
    return device.startswith("host")


def torch_device(device: str) -> str:
    """Where torch makes tensors of this device."""
    return "cpu" if simulated(device) else device.replace("hip", "cuda")


def training_environment(device: str) -> dict[str, str]:
    """Variables of trainings: no network; sums on a GPU have an order. With a simulated device the CPU computes."""
    alone = {"NCCL_SOCKET_IFNAME": "lo", "GLOO_SOCKET_IFNAME": "lo", "HF_HUB_OFFLINE": "1"}
    on_gpu = {"DS_ACCELERATOR": "cuda", "CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
    return alone if simulated(device) else {**alone, **on_gpu}


def synchronize(device: str) -> None:
    """Blocks until the device has done all that was asked of it."""
    if not simulated(device):
        import torch

        torch.cuda.synchronize(torch_device(device))


class DeviceEngine:
    """Everything from the drive: nothing stays in RAM. Of a simulated device each call says that it goes over it."""

    def __init__(self, device: str, path: Path, max_pinned: int) -> None:
        import penstock

        block = {"max_pinned_bytes": max_pinned, "ram_bytes": 0}
        path.mkdir(parents=True, exist_ok=True)
        self._engine: Any = penstock.Engine(config={"penstock": block}, path=str(path), devices=[device])
        self._over: dict[str, Any] = {"device": device} if simulated(device) else {}

    def put(self, name: str, tensor: Any, **how: Any) -> None:
        self._engine.put(name, tensor, **self._over, **how)

    def put_async(self, name: str, tensor: Any) -> Any:
        return self._engine.put_async(name, tensor, **self._over)

    def get_async(self, name: str, out: Any, **how: Any) -> Any:
        return self._engine.get_async(name, out=out, **self._over, **how)

    def __getattr__(self, name: str) -> Any:
        """What concerns no device: prefetch, flush, stats."""
        return getattr(self._engine, name)

    def __enter__(self) -> DeviceEngine:
        return self

    def __exit__(self, *exc: object) -> None:
        self._engine.close()


def through_device(counted: dict[str, int]) -> float:
    """GB of both ways, of PENSTOCK_STATS or stats()."""
    return (counted["to_device_bytes"] + counted["from_device_bytes"]) / 1e9

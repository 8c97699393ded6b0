"""The engine by numbers. Not meant to be used directly: see penstock.Engine."""

from collections.abc import Sequence
from typing import Any

__version__: str
ONE_RANK_BUCKET_ELEMENTS: int
"""Gradients that DeepSpeed collects before it reduces them, at most, where there is one rank."""

def refused_settings() -> dict[str, str]:
    """Dotted keys of a DeepSpeed configuration that do not work with swapped tensors; why, and what to do instead."""

def deliver_warnings() -> None:
    """Says what engines have warned of since the last call into one. Calls into an engine do the same."""

def warning_codes() -> list[str]: ...

class Lease:
    """A hold on a tensor's memory; views made of it keep the memory alive by themselves."""

    @property
    def name(self) -> str: ...
    @property
    def dtype(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def readonly(self) -> bool: ...
    @property
    def data_ptr(self) -> int: ...
    @property
    def array(self) -> Any: ...
    def release(self) -> None: ...
    def __enter__(self) -> Lease: ...
    def __exit__(self, *exc: object) -> None: ...
    def __dlpack__(self, **kwargs: Any) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

class Future:
    """An operation under way."""

    def done(self) -> bool: ...
    def result(self, timeout: float | None = None) -> Any:
        """Waits (at most `timeout` seconds, else TimeoutError) without holding the GIL; returns the lease of a get,
        None otherwise; raises what went wrong. Asked again it gives the lease again, as long as one of those that it
        gave lives.
        """

class ArchiveFilling:
    """Contents on their way into records that were reserved for them."""

    def step(self) -> int | None:
        """Moves about 32 MiB on: the bytes moved so far, None at the end."""

class ArchiveIntake:
    """Records on their way into the engine."""

    def begin(self, path: bytes, records: Sequence[tuple[str, list[list[tuple[int, int, int, str]]]]]) -> None:
        """For each record its lanes, each a list of (tensor, offset in bytes, elements, dtype of the record). Targets
        that follow each other in a lane, also those of several archives, fill a tensor together.
        """
    def step(self) -> int | None: ...
    def encode(self, tensor: int, layout: MomentLayout) -> None:
        """What the tensor takes is float32; it is stored as the layout says."""
    def pad(self, lane: int, tensor: int, elements: int) -> None:
        """The tensor's next elements in this lane are 0."""
    def publish(self) -> None: ...

def archive_records(path: bytes) -> list[tuple[str, int, int, int]]:
    """Name, offset, bytes and CRC-32 of each record, as they lie in the file."""

class SwapEngine:
    def __init__(self, config_json: str, origin: str, ranks_on_node: int = 1, devices: Sequence[str] = ...) -> None: ...
    def open_namespace(self, name: str, paths: Sequence[str] = ...) -> int: ...
    def close_namespace(self, space: int) -> None: ...
    def declare(self, space: int, name: str, dtype: str, shape: Sequence[int], role: str = "param") -> int: ...
    def find(self, space: int, name: str) -> tuple[int, str, list[int]] | None:
        """Number, dtype and shape."""
    def forget(self, tensor: int) -> None: ...
    def rename(self, tensor: int, name: str) -> None: ...
    def set_trained(self, tensor: int, is_trained: bool) -> None: ...
    def tensors(self, space: int) -> dict[str, tuple[int, str, list[int]]]: ...
    def allocate(self, tensor: int) -> Lease: ...
    def commit(self, lease: Lease) -> Future: ...
    def put(self, tensor: int, source: Any) -> Future: ...
    def put_named(self, space: int, name: str, dtype: str, shape: Sequence[int], source: Any) -> Future:
        """Declares a new name and puts in one step; should this first put fail, the name is free again."""
    def get(self, tensor: int, update: bool = False) -> Future: ...
    def get_into(self, tensor: int, target: Any) -> Future: ...
    def get_to_device(self, tensor: int, target: Any, device: str, dtype: str, stream: int | None = None) -> Future: ...
    def put_from_device(
        self, tensor: int, source: Any, device: str, dtype: str, stream: int | None = None
    ) -> Future: ...
    def put_named_from_device(
        self, space: int, name: str, dtype: str, shape: Sequence[int], source: Any, device: str, source_dtype: str
    ) -> Future: ...
    def device_stream(self, device: str, to_device: bool) -> int: ...
    def prefetch(self, tensors: Sequence[int]) -> None: ...
    def fill_archive(
        self, path: bytes, records: Sequence[tuple[str, Sequence[tuple[int, MomentLayout | None]], int]]
    ) -> ArchiveFilling:
        """For each record, in the archive's order, the tensors, one behind the other, or the address of the memory that
        it is filled with. A tensor with a layout gives the floats that it stands for.
        """
    def take_archives(self) -> ArchiveIntake: ...
    def flush(self) -> None: ...
    def check(self) -> None: ...
    def plan(self) -> None: ...
    def placement(self) -> dict[str, Any]: ...
    def stats(self) -> dict[str, int]: ...
    def overflow_advice(self) -> str | None: ...
    def state(self, tensor: int) -> dict[str, Any]: ...
    def close(self) -> None: ...

STATE_CHUNK_ELEMENTS: int
"""Of an optimizer's state in one tensor, where it is stepped in chunks."""
STATE_CHUNKS_AHEAD: int
"""Chunks behind the one that is stepped that are announced to the engine."""

class MomentLayout:
    """How a chunk of a moment lies in bytes that are not all float32."""

    @staticmethod
    def cut(moment: str, segments: Sequence[tuple[int, str, int]], chunk_elements: int) -> list[MomentLayout | None]:
        """Of each chunk of `moment`: "exp_avg_sq" has no signs. segments: elements in a row, their format, and how
        many of the last ones are padding, which is stored as 0. None: the chunk is float32.
        """
    @property
    def elements(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    def decode(self, bytes: Any, values: Any) -> None: ...
    def encode(self, values: Any, bytes: Any) -> None: ...

def state_format(narrow: str, fp32_patterns: Sequence[str], parameter: str, elements: int) -> str:
    """Of the moments of one parameter, under `optimizer_states` and `fp32_states` of the configuration."""

def step_instructions() -> str:
    """What the kernels of this machine use: avx512, avx2, or any for what every one has."""

class Adam:
    """Steps of Adam and AdamW, equal to DeepSpeed's CPU Adam to the last bit. Not thread-safe."""

    def update(
        self,
        step: int,
        learning_rate: float,
        beta1: float,
        beta2: float,
        epsilon: float,
        weight_decay: float,
        bias_correction: bool,
        decoupled_decay: bool,
        master: Any,
        exp_avg: Any,
        exp_avg_sq: Any,
        gradient: Any,
        gradient_dtype: str,
        gradient_factor: float = 1.0,
        threads: int = 1,
        exp_avg_layout: MomentLayout | None = None,
        exp_avg_sq_layout: MomentLayout | None = None,
    ) -> None:
        """`step` counts from 1; 0, with no elements, begins anew. Masters, float32, and moments, float32 or the bytes
        of their layouts, are changed; the gradient is not.
        """

def lion_update(
    learning_rate: float,
    beta1: float,
    beta2: float,
    weight_decay: float,
    master: Any,
    exp_avg: Any,
    gradient: Any,
    gradient_dtype: str,
    gradient_factor: float = 1.0,
    threads: int = 1,
) -> None:
    """A step of Lion, equal to DeepSpeed's CPU Lion (0.19.8) to the last bit. Masters and moments, float32, are
    changed; the gradient is not.
    """

def adagrad_update(
    learning_rate: float,
    epsilon: float,
    weight_decay: float,
    master: Any,
    exp_avg_sq: Any,
    gradient: Any,
    gradient_dtype: str,
    gradient_factor: float = 1.0,
    threads: int = 1,
) -> None:
    """A step of Adagrad, equal to DeepSpeed's CPU Adagrad (0.19.8) to the last bit. Masters and sums of squares,
    float32, are changed; the gradient is not.
    """

def checksum(elements: Any) -> int:
    """XXH3 (64 bits) of all bytes of a tensor in host memory, which is contiguous."""

def squared_sum(elements: Any, dtype: str, lanes: int) -> float:
    """The sum of squares in double precision, in the order of vectors of `lanes` doubles: 2, 4 or 8. dtype: "f32",
    "bf16" or "f16", else NaN.
    """

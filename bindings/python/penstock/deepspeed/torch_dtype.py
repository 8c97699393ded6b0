"""torch's dtypes under the engine's names."""

from __future__ import annotations

import torch

from penstock.errors import UnsupportedError

_NAMES = {
    torch.float32: "f32",
    torch.bfloat16: "bf16",
    torch.float16: "f16",
    torch.float64: "f64",
    torch.int8: "i8",
    torch.uint8: "u8",
    torch.int16: "i16",
    torch.int32: "i32",
    torch.int64: "i64",
    torch.bool: "bool",
    torch.float8_e4m3fn: "f8_e4m3",
    torch.float8_e5m2: "f8_e5m2",
}


def engine_dtype(dtype: torch.dtype) -> str:
    name = _NAMES.get(dtype)
    if name is None:
        raise UnsupportedError(
            f"penstock cannot swap a tensor of {dtype}: keep it as a buffer or as real numbers (torch.view_as_real), "
            "or offload to device cpu"
        )
    return name

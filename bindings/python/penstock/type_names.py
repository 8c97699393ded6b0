"""Element types under the engine's names, and under those that NumPy, ml_dtypes and torch give them."""

from __future__ import annotations

THEIRS = {
    "bool": "bool",
    "u8": "uint8",
    "i8": "int8",
    "i16": "int16",
    "u16": "uint16",
    "f16": "float16",
    "bf16": "bfloat16",
    "i32": "int32",
    "u32": "uint32",
    "f32": "float32",
    "f64": "float64",
    "i64": "int64",
    "u64": "uint64",
    "c64": "complex64",
    "f8_e4m3": "float8_e4m3fn",
    "f8_e4m3fnuz": "float8_e4m3fnuz",
    "f8_e5m2": "float8_e5m2",
    "f8_e5m2fnuz": "float8_e5m2fnuz",
    "f8_e8m0": "float8_e8m0fnu",
}
OURS = {theirs: ours for ours, theirs in THEIRS.items()}

"""What the tests of the command share beside fixtures."""

import json
import struct
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "bench" / "data"


def safetensors_bytes(tensors, data_bytes=None):
    """A safetensors file with zeros in it; `tensors` is name -> (dtype, shape, bytes)."""
    header, offset = {}, 0
    for name, (dtype, shape, size) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(offset if data_bytes is None else data_bytes)


def assert_one_sentence(done, *parts):
    """Errors go to stderr as one sentence that names what it concerns."""
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("penstock: ")
    for part in parts:
        assert part in lines[0], lines[0]

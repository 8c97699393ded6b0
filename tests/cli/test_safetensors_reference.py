"""What the safetensors library refuses, import refuses; what it takes, import brings back unchanged."""

import json
import struct

import pytest
from cli_support import assert_one_sentence

safetensors = pytest.importorskip("safetensors")

U8 = {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}


def file_of(header, data_bytes):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(i % 251 for i in range(data_bytes))


def one(dtype, shape, size):
    return file_of({"a": {"dtype": dtype, "shape": shape, "data_offsets": [0, size]}}, size)


CASES = {
    "plain": file_of({"a": U8}, 4),
    "metadata": file_of({"__metadata__": {"format": "pt"}, "a": U8}, 4),
    "metadata null": file_of({"__metadata__": None, "a": U8}, 4),
    "metadata a list": file_of({"__metadata__": [], "a": U8}, 4),
    "metadata with a number": file_of({"__metadata__": {"a": 1}, "a": U8}, 4),
    "metadata with an object": file_of({"__metadata__": {"a": {}}, "a": U8}, 4),
    "a hole in front": file_of({"a": {**U8, "data_offsets": [4, 8]}}, 8),
    "a hole between": file_of({"a": U8, "b": {**U8, "data_offsets": [8, 12]}}, 12),
    "bytes behind": file_of({"a": U8}, 5),
    "no bytes": file_of({"a": U8}, 0),
    "cut short": file_of({"a": U8}, 3),
    "overlap": file_of({"a": U8, "b": {**U8, "data_offsets": [2, 6]}}, 6),
    "twice the same bytes": file_of({"a": U8, "b": U8}, 4),
    "reversed order": file_of({"b": {**U8, "data_offsets": [4, 8]}, "a": U8}, 8),
    "empty tensor at the end": file_of({"a": U8, "e": {**U8, "shape": [0], "data_offsets": [4, 4]}}, 4),
    "empty tensor within": file_of({"a": U8, "e": {**U8, "shape": [0], "data_offsets": [2, 2]}}, 4),
    "lower case": file_of({"a": {**U8, "dtype": "u8"}}, 4),
    "unknown type": file_of({"a": {**U8, "dtype": "U7"}}, 4),
    "wrong size": file_of({"a": {**U8, "shape": [3]}}, 4),
    "negative shape": file_of({"a": {**U8, "shape": [-4]}}, 4),
    "a fraction": file_of({"a": {**U8, "shape": [4.0]}}, 4),
    "no shape": file_of({"a": {"dtype": "U8", "data_offsets": [0, 4]}}, 4),
    "space in front": file_of(b" " + json.dumps({"a": U8}).encode(), 4),
    "space behind": file_of(json.dumps({"a": U8}).encode() + b"   ", 4),
    "byte order mark": file_of(b"\xef\xbb\xbf" + json.dumps({"a": U8}).encode(), 4),
    "NUL behind": file_of(json.dumps({"a": U8}).encode() + b"\x00\x00", 4),
    "newline behind": file_of(json.dumps({"a": U8}).encode() + b"\n", 4),
    "overflow in front of a zero": one("U8", [2**32, 2**32, 0], 0),
    "overflow behind a zero": one("U8", [0, 2**32, 2**32], 0),
    "not UTF-8": file_of(b'{"\xff": ' + json.dumps(U8).encode() + b"}", 4),
    "F4": one("F4", [2, 4], 4),
    "F4 within a byte": one("F4", [3], 2),
    "F6_E2M3": one("F6_E2M3", [4], 3),
    "F6_E3M2": one("F6_E3M2", [8], 6),
    "F8_E8M0": one("F8_E8M0", [5], 5),
    "F8_E4M3FNUZ": one("F8_E4M3FNUZ", [5], 5),
    "F8_E5M2FNUZ": one("F8_E5M2FNUZ", [5], 5),
    "C64": one("C64", [2], 16),
    "BOOL": one("BOOL", [3], 3),
    "keys that penstock has in files of its own": file_of({"a": {**U8, "role": 5, "trainable": "no"}}, 4),
}


def header_of(data):
    (length,) = struct.unpack("<Q", data[:8])
    return json.loads(data[8 : 8 + length]), data[8 + length :]


@pytest.mark.parametrize("case", CASES)
def test_import_and_the_library_agree(penstock, write, tmp_path, case):
    source = write("case.safetensors", CASES[case])
    try:
        tensors = dict(safetensors.deserialize(CASES[case]))
    except safetensors.SafetensorError:
        tensors = None
    done = penstock("import", source, tmp_path / "store")
    assert (done.returncode == 0) == (tensors is not None), done.stderr
    if tensors is None:
        assert_one_sentence(done, str(source))
        assert not (tmp_path / "store").exists()
        return
    out = tmp_path / "out.safetensors"
    assert penstock("verify", tmp_path / "store").returncode == 0
    assert penstock("export", tmp_path / "store", out).returncode == 0
    again = dict(safetensors.deserialize(out.read_bytes()))
    assert again == tensors


@pytest.mark.parametrize("name", ["__metadata__", "", "a\nb", "a\x00b", "x" * 4097])
def test_names_that_no_file_can_carry(penstock, write, tmp_path, name):
    source = write("case.safetensors", file_of({name: U8}, 4))
    done = penstock("import", source, tmp_path / "store")
    assert done.returncode == 1
    assert_one_sentence(done, str(source))


def test_a_longest_name_comes_back(penstock, write, tmp_path):
    name = "x" * 4094 + "é"
    source = write("case.safetensors", file_of({name: U8}, 4))
    assert penstock("import", source, tmp_path / "store").returncode == 0
    assert penstock("export", tmp_path / "store", tmp_path / "out.safetensors").returncode == 0
    header, _ = header_of((tmp_path / "out.safetensors").read_bytes())
    assert set(header) == {"__metadata__", name}

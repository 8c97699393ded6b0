"""Contents of durable stores for the tests of the command, and damage to their files."""

import json

import pytest

torch = pytest.importorskip("torch")
safetensors_torch = pytest.importorskip("safetensors.torch")


def model(seed=0):
    """Every type, and sizes around blocks: nothing, one element, less and more than a block, several chunks."""
    torch.manual_seed(seed)
    return {
        "layers.2.weight": torch.randn(700, 1024).to(torch.bfloat16),
        "layers.10.weight": torch.randn(4096, 256).to(torch.bfloat16),
        "norm.weight": torch.randn(1000).to(torch.float16),
        "master": torch.randn(333, 111),
        "double": torch.randn(7, dtype=torch.float64),
        "scalar": torch.tensor(3.5 + seed),
        "empty": torch.zeros(0, 4),
        "ids": torch.arange(5000),
        "mask": torch.arange(999) % 2 == seed % 2,
        "bytes": torch.randint(0, 255, (4097,), dtype=torch.uint8),
        "eighths": torch.randn(50, 10).to(torch.float8_e4m3fn),
    }


def load(path):
    if path.is_dir():
        index = json.loads((path / "model.safetensors.index.json").read_text())
        merged = {}
        for shard in sorted(set(index["weight_map"].values())):
            tensors = safetensors_torch.load_file(path / shard)
            assert set(tensors) == {name for name, file in index["weight_map"].items() if file == shard}
            merged.update(tensors)
        assert index["metadata"]["total_size"] == sum(t.nbytes for t in merged.values())
        return merged
    return safetensors_torch.load_file(path)


def same(a, b):
    """Bit by bit: a NaN equals itself."""
    return (
        a.dtype == b.dtype
        and a.shape == b.shape
        and torch.equal(a.reshape(-1).view(torch.uint8), b.reshape(-1).view(torch.uint8))
    )


def assert_equal(found, expected):
    assert set(found) == set(expected)
    for name, tensor in expected.items():
        assert same(found[name], tensor), name


def data_file(store):
    (file,) = store.glob("tensors-*.data")
    return file


def damage(store, name, penstock, at=0):
    """Changes one byte of a tensor in the store's file."""
    entry = next(e for e in penstock.json("inspect", store)["tensors"] if e["name"] == name)
    with open(data_file(store), "r+b") as file:
        file.seek(entry["offset"] + at)
        byte = file.read(1)[0]
        file.seek(entry["offset"] + at)
        file.write(bytes([byte ^ 0x10]))

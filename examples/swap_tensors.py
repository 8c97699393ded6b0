"""Tensors of 128 MiB with 16 MiB of pinned memory: put, read ahead, update, and one error.

python examples/swap_tensors.py DIRECTORY     a directory on the drive to swap to; nothing is left there
"""

import sys

import numpy as np
import penstock

LAYERS = [f"layer.{index}" for index in range(32)]
SIZE = 4 << 20

# The `penstock` block of a DeepSpeed file; a path of such a file does as well.
CONFIG = {"penstock": {"max_pinned_bytes": "16MiB", "ram_bytes": 0}}


def total(engine: penstock.Engine) -> int:
    """The engine reads the next layers while this one is in use."""
    engine.prefetch(LAYERS)
    result = 0
    for name in LAYERS:
        with engine.get(name) as lease:  # torch: torch.from_dlpack(lease)
            result += int(lease.array.sum(dtype=np.uint64))
    return result


def update(engine: penstock.Engine, name: str) -> None:
    """A change counts when it is committed."""
    with engine.get(name, update=True) as lease:
        lease.array[:] = 100
        engine.commit(lease).result()


def main(directory: str) -> None:
    with penstock.Engine(config=CONFIG, path=directory) as engine:
        for index, name in enumerate(LAYERS):
            engine.put(name, np.full(SIZE, index, np.uint8))
        before = total(engine)
        update(engine, LAYERS[0])
        print(f"sum {before}, after the update {total(engine)}")
        try:
            engine.put(LAYERS[0], np.zeros(3, np.uint8))
        except penstock.Error as error:  # every error of penstock's; the engine goes on
            print(f"refused: {error}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else ".")

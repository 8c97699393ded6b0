"""text_training.py CONFIG STEPS SEED: trains a small byte-level transformer on this repository's documents.

A line a step, and at the end the mean loss over texts that were not trained on.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import deepspeed
import torch

WIDTH, HEADS, LAYERS, LENGTH, BATCH, TESTS = 192, 6, 3, 128, 8, 24
DOCUMENTS = Path(__file__).resolve().parents[2] / "docs"


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.before, self.between = torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)
        self.qkv, self.out = torch.nn.Linear(WIDTH, 3 * WIDTH), torch.nn.Linear(WIDTH, WIDTH)
        self.up, self.down = torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        qkv = self.qkv(self.before(x)).view(batch, length, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        attended = torch.nn.functional.scaled_dot_product_attention(*qkv, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.down(torch.nn.functional.gelu(self.up(self.between(x))))


class Transformer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.bytes, self.places = torch.nn.Embedding(256, WIDTH), torch.nn.Embedding(LENGTH, WIDTH)
        self.blocks = torch.nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.head = torch.nn.Linear(WIDTH, 256)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        """text: rows of LENGTH + 1 bytes. The mean loss of each next byte."""
        logits = self.head(self.blocks(self.bytes(text[:, :-1]) + self.places.weight))
        return torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), text[:, 1:].flatten())


def rows(text: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    starts = torch.randint(len(text) - LENGTH - 1, (BATCH,), generator=generator)
    return torch.stack([text[start : start + LENGTH + 1] for start in starts])


def main(config_path: str, steps: int, seed: int) -> None:
    content = b"".join(path.read_bytes() for path in sorted(DOCUMENTS.glob("*.md")))
    text = torch.frombuffer(bytearray(content), dtype=torch.uint8).long()
    trained, tested = text[: len(text) * 9 // 10], text[len(text) * 9 // 10 :]
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    deepspeed.init_distributed(dist_backend="gloo", verbose=False)
    torch.manual_seed(seed)
    with deepspeed.zero.Init(config_dict_or_path=config_path):
        model = Transformer()
    with open(config_path, encoding="utf-8") as file:
        config = json.load(file)
    engine, *_ = deepspeed.initialize(model=model, config=config, model_parameters=model.parameters())
    generator = torch.Generator().manual_seed(seed)
    for step in range(steps):
        loss = engine(rows(trained, generator))
        engine.backward(loss)
        engine.step()
        if step % 50 == 49:
            print(f"STEP {step} loss {loss.item():.4f}", flush=True)
    generator.manual_seed(1000)
    with torch.no_grad():
        losses = [engine(rows(tested, generator)).item() for _ in range(TESTS)]
    print(f"TESTED {sum(losses) / TESTS!r}", flush=True)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    path, count, seed = (argument for argument in sys.argv[1:] if "local_rank" not in argument)
    main(path, int(count), int(seed))

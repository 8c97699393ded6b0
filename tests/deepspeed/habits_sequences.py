"""Habits of long sequences: DeepSpeed computes them tile by tile, or divides them among ranks (Ulysses)."""

from __future__ import annotations

from typing import Any

import torch
from habit import habit
from habit_models import Layer, Stack, train_and_evaluate
from torch import nn
from torch.nn import functional
from trial import WIDTH, Trial

_TILES = 3


class TiledLayer(Layer):
    """Runs forward tile by tile, and again within backward. Its gradients are ready with the last tile."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        from deepspeed.runtime.sequence_parallel.ulysses_sp import TiledMLP

        return TiledMLP.apply(Layer.forward, self, x, _TILES, list(self.parameters()))


class Tiled(Stack):
    def __init__(self) -> None:
        super().__init__(depth=0)
        self.layers.extend(TiledLayer() for _ in range(2))
        self.head = nn.Linear(WIDTH, WIDTH, bias=False)

    def tile_loss(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return functional.mse_loss(self.head(x).float(), y.float())


class TiledLoss(Tiled):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        from deepspeed.runtime.sequence_parallel.ulysses_sp import sequence_tiled_compute

        tiles = {"x": self.features(x)[None], "y": x[None]}
        loss: torch.Tensor = sequence_tiled_compute(
            self.tile_loss, x.shape[0], 2, tiles, {}, "x", [self.head.weight], output_unshard_dimension=0
        )
        return loss


class FusedLoss(Tiled):
    """Its head's backward runs within forward."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        from deepspeed.runtime.sequence_parallel.ulysses_sp import TiledFusedLogitsLoss

        features = self.features(x)
        if not torch.is_grad_enabled():
            return self.tile_loss(features, x)
        head = [self.head.weight]
        return TiledFusedLogitsLoss.apply(Tiled.tile_loss, self, features[None], x[None], None, 2, head, "mean")


@habit("DeepSpeed's TiledMLP, and sequence_tiled_compute of the loss")
def tiled(trial: Trial) -> None:
    train_and_evaluate(trial, TiledLoss())


@habit("DeepSpeed's TiledMLP, and TiledFusedLogitsLoss, which computes gradients within forward")
def fused(trial: Trial) -> None:
    train_and_evaluate(trial, FusedLoss())


@habit("a sequence divided among ranks (Ulysses)", ranks=(2,))
def ulysses(trial: Trial) -> None:
    from deepspeed.runtime.sequence_parallel.ulysses_sp import UlyssesSPAttentionHF
    from transformers import AutoModelForCausalLM, Qwen3Config

    sizes = {"hidden_size": 1024, "intermediate_size": 2048, "num_attention_heads": 4, "num_key_value_heads": 2}
    model = AutoModelForCausalLM.from_config(
        Qwen3Config(vocab_size=2048, num_hidden_layers=2, head_dim=64, attn_implementation="sdpa", **sizes)
    )
    grid = UlyssesSPAttentionHF.register_with_transformers(
        model, core_attn_implementation="sdpa", sequence_parallel_size=trial.ranks, micro_batch_size=1
    )
    config = trial.config(sequence_parallel_size=trial.ranks)
    engine = trial.initialize(model.to(torch.bfloat16), config, mpu=grid)
    torch.manual_seed(17)  # both have the same sequences, of which each takes its half
    for _ in range(4):
        _half_step(trial, engine, torch.randint(2, 2048, (1, 33)))
    trial.record_weights(engine)


def _half_step(trial: Trial, engine: Any, tokens: torch.Tensor) -> None:
    """Inputs are all tokens but the last, targets all but the first."""
    length = (tokens.shape[1] - 1) // trial.ranks
    own = slice(trial.rank * length, (trial.rank + 1) * length)
    places = torch.arange(tokens.shape[1] - 1)[None, own]
    logits = engine(input_ids=tokens[:, :-1][:, own], position_ids=places, use_cache=False).logits
    loss = functional.cross_entropy(logits.float().view(length, -1), tokens[0, 1:][own])
    trial.record("loss", repr(loss.item()))
    engine.backward(loss)
    engine.step()
    trial.record_norm(engine)

"""A model of blocks as a random training draws them: odd shapes, parts that are shared, frozen, left out."""

from __future__ import annotations

from typing import Any

import torch
from habit_models import loss_of
from torch import nn
from torch.utils.checkpoint import checkpoint
from trial import Trial


class Dense(nn.Module):
    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.up = nn.Linear(width, inner)
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.tanh(self.down(torch.tanh(self.up(x))))


class Vector(nn.Module):
    """A parameter of any shape, of which every element counts."""

    def __init__(self, shape: list[int]) -> None:
        super().__init__()
        self.values = nn.Parameter(torch.randn(shape))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        flat = self.values.flatten()
        return x + (flat * torch.linspace(-1, 1, flat.numel(), dtype=flat.dtype, device=flat.device)).sum() * 0.125


class Table(nn.Module):
    """An embedding of what the numbers are; tied to a head where that is asked for."""

    def __init__(self, width: int, words: int, tied: bool) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.head = nn.Linear(width, words, bias=False) if tied else None
        if self.head is not None:
            self.head.weight = self.embedding.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        words = self.embedding.num_embeddings
        tokens = (torch.nan_to_num(x.detach().float()[..., 0]).abs() * 100).clamp(max=1e6).long() % words
        x = x + self.embedding(tokens)
        return x if self.head is None else x + self.head(x).float().tanh().mean(-1, keepdim=True).to(x.dtype)


class Shared(nn.Module):
    """Two modules with one weight."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.one, self.other = nn.Linear(width, width), nn.Linear(width, width)
        self.other.weight = self.one.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.tanh(self.other(torch.tanh(self.one(x))))


class Twice(nn.Module):
    """A module that is called twice."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.tanh(self.linear(torch.tanh(self.linear(x))))


class Attention(nn.Module):
    """torch's, which uses the weight of its last layer without calling that."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(width, 1, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        attended: torch.Tensor = self.attention(x[None], x[None], x[None], need_weights=False)[0]
        return x + attended[0]


class Encoder(nn.Module):
    """torch's layer, which in evaluation uses the weights of all of its parts by itself."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(width, 1, inner, dropout=0.0, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        encoded: torch.Tensor = self.layer(x[None])
        return encoded[0]


class Outside(nn.Module):
    """A module that computes with the weight of another one."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.inner = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.tanh(nn.functional.linear(x, self.inner.weight, self.inner.bias))


class Several(nn.Module):
    """A list of parameters, and single ones."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor([0.5]))
        self.matrix = nn.Parameter(torch.randn(width, 3))
        self.values = nn.ParameterList([torch.randn(width), torch.randn(1, width), torch.randn(width, 1)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        row, other, column = self.values
        x = x * self.scale + row * 0.1 + other * 0.1
        return x + (x @ column) * 0.1 + torch.tanh(x @ self.matrix).sum(-1, keepdim=True) * 0.1


class Normalized(nn.Module):
    """A weight that is computed from two parameters."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.utils.parametrizations.weight_norm(nn.Linear(width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.tanh(self.linear(x))


class Experts(nn.Module):
    """All experts in one parameter; a row goes to one of them."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.experts = nn.Parameter(torch.randn(4, width, width) * 0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        # A product of a vector and a matrix has other digits where the matrix begins at another multiple of 4 bytes.
        rows = [(x[row, :, None] * self.experts[row % 4]).sum(0) for row in range(len(x))]
        return x + torch.tanh(torch.stack(rows))


class Mapping(nn.Module):
    """Takes and returns a dictionary."""

    class Inner(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.linear = nn.Linear(width, width)

        def forward(self, inputs: dict[str, Any]) -> dict[str, Any]:
            return {"x": torch.tanh(self.linear(inputs["x"])), "other": [None, inputs["x"] * 0.5]}

    def __init__(self, width: int) -> None:
        super().__init__()
        self.inner = self.Inner(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result = self.inner({"x": x, "unused": 3})
        changed: torch.Tensor = result["x"] + result["other"][1]
        return changed


class Hooked(nn.Module):
    """Its gradient passes hooks of the script."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.linear.weight.register_hook(lambda gradient: gradient * 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.tanh(self.linear(x))


class Convolution(nn.Module):
    """With a buffer."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(1, 2, 3, padding=1)
        self.register_buffer("scale", torch.tensor([0.25]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.tanh(self.convolution(x[:, None])).mean(1) * self.scale.to(x.dtype)


class Adapted(nn.Module):
    """A frozen layer with a trained adapter."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.base = nn.Linear(width, width).requires_grad_(False)
        self.into, self.out = nn.Linear(width, 2, bias=False), nn.Linear(2, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.tanh(self.base(x) + self.out(self.into(x)))


class Recurrent(nn.Module):
    """A cell that torch computes as a whole."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.cell = nn.GRUCell(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.tanh(self.cell(x))


class Routed(nn.Module):
    """Experts that are modules, each weighed by a router."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.router = nn.Linear(width, 3, bias=False)
        self.experts = nn.ModuleList(nn.Linear(width, width) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights = self.router(x).softmax(-1)
        for number, expert in enumerate(self.experts):
            x = x + weights[:, number : number + 1] * torch.tanh(expert(x))
        return x


class Nested(nn.Module):
    """Parameters at several levels."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))
        self.inner = nn.Sequential(
            nn.Linear(width, width), nn.GELU(), nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width))
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        changed: torch.Tensor = x + self.gain * self.inner(x)
        return changed


def block(width: int, kind: str, argument: Any) -> nn.Module:
    kinds = {
        "adapted": lambda: Adapted(width),
        "recurrent": lambda: Recurrent(width),
        "routed": lambda: Routed(width),
        "nested": lambda: Nested(width),
        "attention": lambda: Attention(width),
        "encoder": lambda: Encoder(width, argument),
        "outside": lambda: Outside(width),
        "several": lambda: Several(width),
        "normalized": lambda: Normalized(width),
        "experts": lambda: Experts(width),
        "mapping": lambda: Mapping(width),
        "hooked": lambda: Hooked(width),
        "convolution": lambda: Convolution(width),
        "dense": lambda: Dense(width, argument),
        "vector": lambda: Vector(argument),
        "table": lambda: Table(width, *argument),
        "norm": lambda: nn.LayerNorm(width),
        "shared": lambda: Shared(width),
        "twice": lambda: Twice(width),
    }
    made: nn.Module = kinds[kind]()
    return made


class RandomModel(nn.Module):
    """blocks: of each its kind, an argument, and how it is used: "", "frozen", "no_grad", "checkpointed", "reentrant",
    or "branch:N:M", in each Nth micro-step from the Mth on. The caller sets `call` before each forward.
    """

    def __init__(self, trial: Trial, width: int, blocks: list[tuple[str, Any, str]], dtype: torch.dtype) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(block(width, kind, argument) for kind, argument, _ in blocks)
        self.uses = [use for _, _, use in blocks]
        for made, use in zip(self.blocks, self.uses, strict=True):
            if use == "frozen":
                made.requires_grad_(False)
        self.dtype = dtype
        self.call = 0
        self.fails_at = -1  # the block behind which the forward fails
        self._trial = trial

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.to(self.dtype)
        for number, (part, use) in enumerate(zip(self.blocks, self.uses, strict=True)):
            x = self._used(part, use, x)
            if number == self.fails_at:
                raise ValueError("in the middle of a forward")
        return loss_of(x)

    def _used(self, part: nn.Module, use: str, x: torch.Tensor) -> torch.Tensor:
        if use == "no_grad":
            with torch.no_grad():
                missing = part(x) - x
            return x + missing + self._trial.left_out(lambda: part(x))
        if use in ("checkpointed", "reentrant") and torch.is_grad_enabled():
            return checkpoint(part, x, use_reentrant=use == "reentrant")
        if use.startswith("branch"):
            _, period, phase = use.split(":")
            runs = self.call % int(period) == int(phase)
            return part(x) if runs else x + self._trial.left_out(lambda: part(x))
        return part(x)

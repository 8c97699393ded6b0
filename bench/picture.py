"""Memory and reads of several runs over time, as one SVG."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "report"))

from plot import COLOURS, panels, svg
from training_run import Result


def draw(results: Sequence[Result], path: Path, title: str) -> None:
    labels = ["memory of the\nprocess, GB", "read from drives, GB"]
    figure, axes = panels(labels, title, "seconds since the start of the process (imports and model building included)")
    for result, colour in zip(results, COLOURS, strict=False):
        x = [sample.seconds for sample in result.samples]
        axes[0].plot(x, [sample.rss / 1e9 for sample in result.samples], color=colour, label=result.name)
        pinned, name = [sample.pinned / 1e9 for sample in result.samples], f"{result.name}: pinned"
        axes[0].plot(x, pinned, color=colour, label=name, linestyle="dotted")
        axes[1].plot(x, [sample.read / 1e9 for sample in result.samples], color=colour, label=result.name)
    path.write_text(svg(figure, axes), encoding="utf-8")

"""Memory and reads of several runs over time, as one SVG."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent / "report"))

from leg import Result, Sample
from line_picture import svg


def draw(results: Sequence[Result], path: Path, title: str) -> None:
    memory = _curves(results, lambda sample: sample.rss)
    memory += _curves(results, lambda sample: sample.pinned, dash="dotted", of="pinned")
    group = {
        "x": {"label": "seconds since the start of the process (imports and model building included)"},
        "panels": [
            {"label": "memory of the\nprocess, GB", "curves": memory},
            {"label": "read from drives, GB", "curves": _curves(results, lambda sample: sample.read)},
        ],
    }
    path.write_text(svg({"title": title, "groups": [group]}), encoding="utf-8")


def _curves(
    results: Sequence[Result], value: Callable[[Sample], float], dash: str = "solid", of: str = ""
) -> list[dict[str, Any]]:
    return [
        {
            "label": f"{result.name}: {of}" if of else result.name,
            "colour": number,
            "dash": dash,
            "x": [sample.seconds for sample in result.samples],
            "y": [value(sample) / 1e9 for sample in result.samples],
        }
        for number, result in enumerate(results)
    ]

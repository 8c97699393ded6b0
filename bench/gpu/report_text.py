"""The figures of bench/gpu/run as a section of docs/BENCHMARKS.md. Pure: from the document to text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from figure import STAGES, Figure, Outcome

TITLE = "## On a GPU"
NO_GPU_YET = "no GPU yet"
COMMAND = "bench/gpu/run"


def section(document: Mapping[str, Any] | None) -> str:
    """The whole section; None: before anything was ever run."""
    lines = [TITLE, ""]
    lines += [heading(document), ""] if document else []
    lines += ["| stage | figure | measured | goal | beside it |", "| --- | --- | --- | --- | --- |"]
    stages = document["stages"] if document else {}
    for stage, figures in STAGES.items():
        outcomes = stages.get(stage, {}).get("figures", {})
        unasked = Outcome(reason="its stage was not asked for") if document else None
        for figure in figures:
            told = outcomes.get(figure.key)
            lines.append(row(stage, figure, Outcome.read(told) if told else unasked))
    return "\n".join([*lines, ""])


def heading(document: Mapping[str, Any]) -> str:
    """Which machine, when, and of which commit."""
    machine = document["machine"]
    named = [machine.get(key) for key in ("gpu", "driver", "cores", "memory", "kernel", "file_system", "torch", "cuda")]
    commit = document.get("commit") or "unknown"
    device = document["device"]
    rehearsal = f" **A rehearsal on a simulated device ({device}).**" if device.startswith("host") else ""
    return f"`{COMMAND}`, {document['when']}: {', '.join(part for part in named if part)}; commit {commit}.{rehearsal}"


def row(stage: str, figure: Figure, outcome: Outcome | None) -> str:
    note = outcome.note if outcome else ""
    return f"| {stage} | {figure.title} | {measured(figure, outcome)} | {goal(figure, outcome)} | {_cell(note)} |"


def measured(figure: Figure, outcome: Outcome | None) -> str:
    """The value with how sure it is, or "not run" and why."""
    if outcome is None:
        return f"not run ({NO_GPU_YET}): `{COMMAND}`"
    if outcome.value is None:
        return f"not run: {_cell(outcome.reason or 'no reason was told')}"
    said = _number(outcome.value) if isinstance(outcome.value, (int, float)) else _cell(outcome.value)
    if figure.unit:
        said += f" {figure.unit}"
    beside = []
    if outcome.interval:
        beside.append(f"95 %: {_span(outcome.interval)}")
    if outcome.quartiles:
        beside.append(f"quartiles {_span(outcome.quartiles)}")
    if outcome.pairs:
        beside.append(f"{outcome.pairs} pairs")
    return f"{said} ({'; '.join(beside)})" if beside else said


def goal(figure: Figure, outcome: Outcome | None) -> str:
    """`at least 0.95: met`; `unclear` where the interval lies on both sides of it."""
    bound = figure.at_least if figure.at_least is not None else figure.at_most
    if bound is None:
        return ""
    least = figure.at_least is not None
    said = f"at {'least' if least else 'most'} {_number(bound)}"
    if outcome is None or not isinstance(outcome.value, (int, float)):
        return said
    ends = outcome.interval or (outcome.value, outcome.value)
    reached = [end >= bound if least else end <= bound for end in ends]
    return f"{said}: {'met' if all(reached) else 'unclear' if any(reached) else '**missed**'}"


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) or value == 0 else f"{value:.3f}" if abs(value) < 10 else f"{value:.1f}"


def _span(ends: tuple[float, float]) -> str:
    return f"{_number(ends[0])} to {_number(ends[1])}"


def _cell(text: str) -> str:
    """One line that breaks no table."""
    return " ".join(text.split()).replace("|", "\\|")

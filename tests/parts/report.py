"""What came of the parts, as a table."""

from __future__ import annotations

import re
import xml.etree.ElementTree as tree
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Outcome:
    compiling: float = 0
    running: float = 0
    cpu_seconds: float = 0
    passed: int = 0
    failed: int = 0
    skipped: Counter[str] = field(default_factory=Counter)  # reasons
    failures: list[str] = field(default_factory=list)


def read_junit(file: Path, outcome: Outcome) -> None:
    """Counts what pytest or ctest wrote; nothing at all is one failure."""
    try:
        cases = list(tree.parse(file).getroot().iter("testcase"))
    except (OSError, tree.ParseError):
        cases = []
    for case in cases:
        if case.find("failure") is not None or case.find("error") is not None:
            outcome.failed += 1
            where = case.get("classname") or ""
            name = case.get("name") or ""
            outcome.failures.append(name if where == name else f"{where}::{name}")
        elif case.find("skipped") is not None or case.get("status") in ("disabled", "notrun"):
            outcome.skipped[reason_of(case)] += 1
        else:
            outcome.passed += 1
    if not cases:
        outcome.failed += 1
        outcome.failures.append("no test was run")


def reason_of(case: tree.Element) -> str:
    """pytest's message; GoogleTest's is in what the program printed."""
    printed = case.findtext("system-out") or ""
    skip = re.search(r"Skipped\n(.+)", printed)
    if skip:
        return skip.group(1).strip()
    skipped = case.find("skipped")
    return ((skipped.get("message") if skipped is not None else None) or "no reason given").strip()


def read_last_line(log: Path, status: int, outcome: Outcome) -> None:
    lines = log.read_text(errors="replace").strip().split("\n")
    outcome.skipped.update(line.removeprefix("skipped: ") for line in lines if line.startswith("skipped: "))
    words = lines[-1].replace(",", "").split()
    if len(words) == 4 and words[1::2] == ["passed", "failed"]:
        outcome.passed, outcome.failed = int(words[0]), int(words[2])
    elif status == 0:
        outcome.passed = 1


def table(rows: list[tuple[str, ...]]) -> str:
    """The first column to the left, the others to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [cell.rjust(width) for cell, width in zip(row, widths)]  # noqa: B905
        lines.append("  " + "   ".join([row[0].ljust(widths[0]), *cells[1:]]))
    return "\n".join(lines)


def outcome_row(name: str, outcome: Outcome) -> tuple[str, ...]:
    seconds = [f"{value:.0f}" for value in (outcome.compiling, outcome.running, outcome.cpu_seconds)]
    return (name, *seconds, *(str(number) for number in (outcome.passed, outcome.failed, outcome.skipped.total())))


HEAD = ("part", "compiling s", "running s", "CPU s", "passed", "failed", "skipped")

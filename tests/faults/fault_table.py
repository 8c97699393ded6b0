"""The table of faults in docs/FAULTS.md: made of what the tests of faults have seen, never by hand."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

BEGIN = "<!-- made by tests/faults: pytest tests/faults --write-fault-table -->"
END = "<!-- end of the table of faults -->"
_HEAD = "| fault | how it is made | through | what happens | last good copy readable | test |"

Row = dict[str, Any]
_INTERFACES = ("C++", "Python", "command")


def read_rows(directory: Path) -> list[Row]:
    """The rows that C++ tests wrote."""
    return [json.loads(path.read_text()) for path in sorted(directory.glob("*.json"))]


def key_of(row: Row) -> tuple[str, str]:
    return row["fault"], row["through"]


def line_of(row: Row) -> str:
    good_copy = row["good_copy"] or "none is concerned"
    cells = (row["fault"], row["made_by"], row["through"], row["happened"], good_copy, f"`{row['test']}`")
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def lines_by_key(rows: Iterable[Row]) -> tuple[dict[tuple[str, str], str], list[str]]:
    """One line a fault and interface, in order; and what speaks against making a table of these rows."""
    lines: dict[tuple[str, str], str] = {}
    problems = []
    for row in sorted(rows, key=lambda row: (_INTERFACES.index(row["through"]), row["fault"])):
        if row["skipped"]:
            continue
        line = line_of(row)
        if lines.setdefault(key_of(row), line) != line:
            problems.append(f"two tests saw different things:\n  {lines[key_of(row)]}\n  {line}")
    return lines, problems


def section_of(document: str) -> tuple[int, int]:
    """Where the table stands in the document, marks included."""
    return document.index(BEGIN), document.index(END) + len(END)


def documented(document: str) -> list[str]:
    begin, end = section_of(document)
    return [line for line in document[begin:end].splitlines() if line.startswith("| ") and line != _HEAD][1:]


def differences(document: str, rows: list[Row]) -> list[str]:
    """Where the document says something else than the tests saw. What was skipped here may stand there."""
    seen, problems = lines_by_key(rows)
    stands = documented(document)
    problems += [f"is not in docs/FAULTS.md: {line}" for line in seen.values() if line not in stands]
    skipped = [(f"| {row['fault']} |", f"| {row['through']} |") for row in rows if row["skipped"]]
    for line in stands:
        shown = line in seen.values() or any(
            line.startswith(fault) and interface in line for fault, interface in skipped
        )
        if not shown:
            problems.append(f"stands in docs/FAULTS.md, and no test saw it: {line}")
    return problems


def rewritten(document: str, rows: list[Row]) -> str:
    """The document with the table that these rows make. Nothing may have been skipped."""
    skipped = [f"{row['fault']}: {row['skipped']}" for row in rows if row["skipped"]]
    lines, problems = lines_by_key(rows)
    if skipped or problems:
        raise ValueError("no whole table can be made here:\n" + "\n".join(skipped + problems))
    begin, end = section_of(document)
    table = [BEGIN, "", _HEAD, "| --- | --- | --- | --- | --- | --- |", *lines.values(), "", END]
    return document[:begin] + "\n".join(table) + document[end:]

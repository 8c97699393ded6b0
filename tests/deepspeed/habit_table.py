#!/usr/bin/env python3
"""The table of habits in docs/HABITS.md: what test_habits.py and test_refusals.py check, a line each.

.venv/bin/python tests/deepspeed/habit_table.py        # writes it anew
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs" / "HABITS.md"
BEGIN = "<!-- made by tests/deepspeed/habit_table.py -->"
END = "<!-- end of the table of habits -->"
_HEAD = ("| habit | ranks | through penstock |", "| --- | --- | --- |")


def table() -> list[str]:
    """All lines, head first."""
    import habits  # noqa: F401
    from habit import HABITS
    from penstock.deepspeed.refusals import sentences

    served = [(habit.name, ", ".join(map(str, habit.ranks)), habit.result) for habit in HABITS.values()]
    refused = [(sentence.split()[0], "any", f"refused: {sentence}") for sentence in sentences()]
    rows = [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in (*served, *refused)]
    return [*_HEAD, *rows]


def rewritten(document: str) -> str:
    begin, end = document.index(BEGIN), document.index(END)
    return "\n".join([document[:begin] + BEGIN, "", *table(), "", document[end:]])


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    DOCUMENT.write_text(rewritten(DOCUMENT.read_text()))

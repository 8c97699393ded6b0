"""Tables of docs/."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]], rule: str = "---") -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, [rule] * len(head), *rows))

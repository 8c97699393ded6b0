#!/usr/bin/env python3
"""Line coverage by directory, from gcovr's JSON: a line is reached where any of its instances was."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path


def directory_of(name: str) -> str:
    """`swap/plan` of `swap/plan/budgets.cpp`, `io` of `io/file.h`."""
    return str(Path(name).parent)


def main(report: str) -> None:
    reached: dict[str, dict[tuple[str, int], bool]] = defaultdict(dict)
    for file in json.loads(Path(report).read_text())["files"]:
        lines = reached[directory_of(file["file"])]
        for line in file["lines"]:
            if not line.get("gcovr/excluded", False):
                key = (file["file"], line["line_number"])
                lines[key] = lines.get(key, False) or line["count"] > 0
    for directory, lines in sorted(reached.items()):
        run = sum(lines.values())
        print(f"{directory:16} {run:6} of {len(lines):6} lines {100 * run / len(lines):6.1f} %")


if __name__ == "__main__":
    main(sys.argv[1])

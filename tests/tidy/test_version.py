"""The version stands in bindings/c/penstock.h only; CHANGELOG.md says what it has."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HEADER = "bindings/c/penstock.h"


def header_version() -> str:
    numbers = re.findall(
        r"^#define PENSTOCK_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)$",
        (ROOT / HEADER).read_text(encoding="utf-8"),
        flags=re.M,
    )
    assert len(numbers) == 3
    return ".".join(numbers)


def places_of(version: str, files: dict[str, str]) -> list[str]:
    """Where the version is written as a number, by file and line."""
    pattern = re.compile(rf"(?<![\d.]){re.escape(version)}(?![\d.]*\d)")
    return [
        f"{name}:{number}"
        for name, text in files.items()
        for number, line in enumerate(text.split("\n"), 1)
        if pattern.search(line)
    ]


def test_no_other_file_has_the_version() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    files = {
        name: (ROOT / name).read_text(encoding="utf-8", errors="replace")
        for name in listed.stdout.splitlines()
        if name != "CHANGELOG.md" and (ROOT / name).is_file()
    }
    assert places_of(header_version(), files) == []


def test_a_second_place_would_be_seen() -> None:
    bad = {"a.toml": 'x = 1\nversion = "7.8.9"', "b.py": "# 7.8.9.", "good.py": "17.8.9 7.8.91 7.8.9.1"}
    assert places_of("7.8.9", bad) == ["a.toml:2", "b.py:1"]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="no tomllib before Python 3.11")
def test_python_reads_the_header() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    settings = project["tool"]["scikit-build"]["metadata"]["version"]
    found = re.search(settings["regex"], (ROOT / settings["input"]).read_text(encoding="utf-8"), re.MULTILINE)
    assert found is not None
    assert settings["result"].format(*found.groups()) == header_version()
    assert "version" in project["project"]["dynamic"]


def test_the_change_log_has_this_version() -> None:
    sections = re.findall(r"^## \[([^\]]+)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), flags=re.M)
    assert sections[0] == "Unreleased"
    assert sections[1] == header_version()

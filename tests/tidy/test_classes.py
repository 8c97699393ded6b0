"""No class of the engine knows everything: 12 data members and 25 functions at most, and files of 400 lines."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MEMBERS_MAX = 12
FUNCTIONS_MAX = 25
LINES_MAX = 400


def headers_of_swap() -> list[str]:
    listed = subprocess.run(["git", "ls-files", "swap"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    return [name for name in listed.stdout.split() if name.endswith(".h") and (ROOT / name).exists()]


def without_comments(text: str) -> str:
    text = re.sub(r"//[^\n]*", "", text)
    text = re.sub(r'"(\\.|[^"\\])*"', '""', text)
    text = re.sub(r"^\s*#[^\n]*", "", text, flags=re.MULTILINE)
    return re.sub(r"\bPENSTOCK_[A-Z_]+(\([^()]*\))?", "", text)


def classes(text: str) -> Iterator[tuple[str, str]]:
    """Name and body of each class and struct that is defined, what is in inner braces left out."""
    code = without_comments(text)
    for found in re.finditer(r"\b(?:class|struct)\s+(\w+)[^;{()]*\{", code):
        depth, at, body = 1, found.end(), ""
        while depth > 0 and at < len(code):
            letter = code[at]
            if letter == "{":
                depth += 1
                body += "{}" if depth == 2 else ""
            elif letter == "}":
                depth -= 1
            elif depth == 1:
                body += letter
            at += 1
        yield found.group(1), body


def size_of(body: str) -> tuple[int, int]:
    """Data members and functions; what is deleted or defaulted is neither."""
    body = re.sub(r"\b(public|private|protected):", "", body)
    body = re.sub(r"\{\}(?=\s*[^;,\s=)])", "{};", body)  # a function's, which no semicolon follows
    body = re.sub(r"<[^<>()]*(<[^<>]*>[^<>]*)*>", "<>", body)
    members = functions = 0
    for statement in map(str.strip, body.split(";")):
        if not statement or re.match(r"(using|friend|enum|class|struct|typedef|static_assert)\b", statement):
            continue
        if "(" in statement.split("=")[0]:
            functions += not re.search(r"= (delete|default)", statement)
        else:
            members += not statement.startswith("static")
    return members, functions


def too_large(files: dict[str, str]) -> list[str]:
    found = []
    for file, text in files.items():
        for name, body in classes(text):
            members, functions = size_of(body)
            is_plain = functions == 0  # a record of facts is as long as there are facts
            if (members > MEMBERS_MAX and not is_plain) or functions > FUNCTIONS_MAX:
                found.append(f"{file}: {name} has {members} data members and {functions} functions")
    return found


def test_no_class_of_the_engine_knows_everything() -> None:
    assert too_large({name: (ROOT / name).read_text(encoding="utf-8") for name in headers_of_swap()}) == []


def test_a_class_that_is_too_large_would_be_seen() -> None:
    members = "class Wide {\n public:\n  int count() const { return 1; }\n private:\n" + "".join(
        f"  std::map<int, std::vector<int>> member_{i}_;\n" for i in range(13)
    )
    functions = "struct Busy {\n" + "".join(f"  void do_{i}(int a, int b = 2) const noexcept;\n" for i in range(26))
    assert len(too_large({"a.h": members + "};", "b.h": functions + "};"})) == 2
    assert size_of(next(classes(functions + "};"))[1]) == (0, 26)
    assert size_of(next(classes(members + "};"))[1]) == (13, 1)


def test_files_of_the_engine_fit_in_a_head() -> None:
    listed = subprocess.run(["git", "ls-files", "swap"], cwd=ROOT, capture_output=True, text=True, check=True)
    long = [
        name
        for name in listed.stdout.split()
        if (ROOT / name).exists() and (ROOT / name).read_text(encoding="utf-8").count("\n") > LINES_MAX
    ]
    assert long == []

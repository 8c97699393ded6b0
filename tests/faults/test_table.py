"""docs/FAULTS.md says about faults what the tests saw, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import ROOT, rows_of_this_run
from fault_table import BEGIN, END, differences, read_rows, rewritten

DOCUMENT = ROOT / "docs" / "FAULTS.md"


def test_the_document_says_what_the_tests_saw(request: pytest.FixtureRequest, cpp_rows: Path) -> None:
    rows = read_rows(cpp_rows) + rows_of_this_run
    if {row["through"] for row in rows} != {"C++", "Python", "command"}:
        pytest.skip("only a part of the tests of faults ran")
    if request.config.getoption("--write-fault-table"):
        DOCUMENT.write_text(rewritten(DOCUMENT.read_text(), rows))
    assert differences(DOCUMENT.read_text(), rows) == []


def row(fault: str, happened: str, skipped: str = "") -> dict[str, str]:
    return {
        "fault": fault,
        "made_by": "m",
        "through": "C++",
        "happened": happened,
        "good_copy": "yes",
        "skipped": skipped,
        "test": "T.t",
    }


def test_every_difference_would_be_seen() -> None:
    rows = [row("a", "x"), row("b", "y")]
    document = rewritten(f"# T\n{BEGIN}\n{END}\nmore\n", rows)
    assert document.endswith("more\n") and differences(document, rows) == []
    assert rewritten(document, rows) == document
    assert len(differences(document, [row("a", "x"), row("b", "z")])) == 2
    assert len(differences(document, [row("a", "x")])) == 1
    assert len(differences(document, [*rows, row("c", "x")])) == 1
    assert len(differences(document, [*rows, row("b", "z")])) == 1, "two tests disagree"
    assert differences(document, [row("a", "x"), row("b", "", "no root")]) == []
    with pytest.raises(ValueError, match="no root"):
        rewritten(document, [row("b", "", "no root")])

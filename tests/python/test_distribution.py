"""What `pip install` puts where."""

from __future__ import annotations

from importlib import metadata

import pytest


def test_it_brings_the_package_and_the_command_only() -> None:
    try:
        files = metadata.files("penstock")
    except metadata.PackageNotFoundError:
        files = None
    if not files:
        pytest.skip("penstock is not installed here, only on the path")
    inside = [file for file in files if file.parts[0] != ".."]
    version = metadata.version("penstock")
    assert {file.parts[0] for file in inside} == {"penstock", f"penstock-{version}.dist-info"}
    assert [file.name for file in files if file.parts[0] == ".."] == ["penstock"]
    assert not [file for file in files if file.suffix in (".h", ".a", ".cmake", ".pc")], "those are for CMake's install"

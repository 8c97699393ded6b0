"""What `pip install` puts where."""

from __future__ import annotations

import subprocess
import sys
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


def test_the_entry_points_of_training_import_no_torch_and_no_deepspeed() -> None:
    """A script may set what DeepSpeed reads while it is imported, such as DS_ACCELERATOR: nothing imports it before."""
    entries = "penstock.deepspeed", "penstock.deepspeed.__main__", "penstock.deepspeed.import_hook"
    look = f"import sys, {', '.join(entries)}; print(*{{'torch', 'deepspeed'}} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True).stdout.strip() == ""

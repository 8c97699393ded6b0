"""Sphinx's configuration for docs/reference."""

import __future__

import re
import sys
import types
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / "bindings" / "python"

numbers = re.findall(r"^#define PENSTOCK_VERSION_\w+ (\d+)$", (ROOT / "bindings/c/penstock.h").read_text(), flags=re.M)
project, release = "penstock", ".".join(numbers)
extensions = ["breathe", "myst_parser", "sphinx.ext.autodoc"]
exclude_patterns: list[str] = []
html_theme = "alabaster"
breathe_projects = {"penstock": str(ROOT / ".cache" / "reference" / "xml")}
breathe_default_project = "penstock"
breathe_domain_by_file_pattern = {"*/penstock.h": "c"}
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "show-inheritance": True}

# The compiled module is not needed: its stub has the same names and docstrings.
core = types.ModuleType("penstock._core")
stub = PYTHON / "penstock" / "_core.pyi"
core.__dict__["__version__"] = release
sys.modules[core.__name__] = core
exec(compile(stub.read_text(), stub, "exec", __future__.annotations.compiler_flag), core.__dict__)
sys.path.insert(0, str(PYTHON))

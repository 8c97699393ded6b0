"""What ./tests/run is made of: parts, and what is compiled for them."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Build:
    """Targets of a preset of CMakePresets.json."""

    preset: str
    targets: tuple[str, ...]


@dataclass(frozen=True)
class Ctest:
    """The tests that the C++ programs of a preset have."""

    preset: str
    arguments: tuple[str, ...]


@dataclass(frozen=True)
class Pytest:
    """Paths and options of pytest; `marks` chooses among their tests."""

    arguments: tuple[str, ...]
    marks: str


@dataclass(frozen=True)
class Script:
    """A command whose last line is "N passed, N failed"."""

    arguments: tuple[str, ...]


@dataclass(frozen=True)
class Part:
    name: str
    what: str
    run: Ctest | Pytest | Script
    build: Build | None = None
    after: tuple[str, ...] = ()  # parts whose files it reads, where they run too
    cores: int = 1
    environment: dict[str, str] = field(default_factory=dict)

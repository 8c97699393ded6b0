"""What bench/gpu/pack collected, unpacked beside the build, and the environment in which it is found.

Without .gpu nothing is unpacked, and the machine's own packages are what there is.
"""

from __future__ import annotations

import json
import os
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ARCHIVE = "prefix.tar.xz"
MANIFEST = "parcel.json"
WHEELS = "wheels"
# Where Debian's packages have libraries of this processor; also those that only fio needs, apart.
TRIPLET = "x86_64-linux-gnu"
LIBRARIES = f"usr/lib/{TRIPLET}"
FIO_LIBRARIES = "fio/lib"


class Prefix:
    """`parcel`: the folder .gpu of the checkout. `root`: where its packages are to lie."""

    def __init__(self, parcel: Path, root: Path) -> None:
        self._parcel = parcel
        self.root = root
        self.manifest: dict[str, Any] = {}
        if (parcel / MANIFEST).exists():
            self.manifest = json.loads((parcel / MANIFEST).read_text(encoding="utf-8"))

    @property
    def carried(self) -> bool:
        return bool(self.manifest)

    @property
    def wheels(self) -> Path:
        return self._parcel / WHEELS

    def unpack(self) -> None:
        """Once for each parcel."""
        stamp = self.root / MANIFEST
        said = json.dumps(self.manifest)
        if not self.carried or (stamp.exists() and stamp.read_text(encoding="utf-8") == said):
            return
        self.root.mkdir(parents=True, exist_ok=True)
        with tarfile.open(self._parcel / ARCHIVE) as archive:
            archive.extractall(self.root)
        for description in self.root.glob(f"{LIBRARIES}/pkgconfig/*.pc"):
            rooted(description, self.root)
        for description in self.root.glob("usr/share/pkgconfig/*.pc"):
            rooted(description, self.root)
        wrap(self.root / "usr/bin/pkg-config", self.root / "usr/bin/pkgconf", self.root / LIBRARIES)
        wrap(self.root / "bin/fio", self.root / "usr/bin/fio", self.root / FIO_LIBRARIES, self.root / LIBRARIES)
        stamp.write_text(said, encoding="utf-8")

    def environment(self, before: Mapping[str, str]) -> dict[str, str]:
        """Variables by which compilers, CMake, pkg-config, loaders and shells find what is here."""
        if not self.carried:
            return dict(before)
        usr, libraries = self.root / "usr", self.root / LIBRARIES
        found = {
            "CMAKE_PREFIX_PATH": [usr],
            "PKG_CONFIG_PATH": [libraries / "pkgconfig", usr / "share/pkgconfig"],
            "CPATH": [usr / "include", usr / "include" / TRIPLET],
            "LIBRARY_PATH": [libraries],
            "LD_LIBRARY_PATH": [libraries],
        }
        joined = {name: os.pathsep.join([*map(str, paths), *_old(before, name)]) for name, paths in found.items()}
        # fio that is installed fits its machine better.
        path = os.pathsep.join([*_old(before, "PATH"), str(self.root / "bin")])
        return {**before, **joined, "PATH": path}


def rooted(description: Path, root: Path) -> None:
    """A .pc file whose /usr is below `root`."""
    text = description.read_text(encoding="utf-8")
    description.write_text(text.replace("=/usr", f"={root}/usr"), encoding="utf-8")


def wrap(script: Path, program: Path, *libraries: Path) -> None:
    """A command that starts `program` with its libraries."""
    if not program.exists():
        return
    script.parent.mkdir(parents=True, exist_ok=True)
    path = ":".join(map(str, libraries))
    script.unlink(missing_ok=True)  # Debian's pkg-config is a link to pkgconf
    script.write_text(f'#!/bin/sh\nLD_LIBRARY_PATH="{path}" exec "{program}" "$@"\n', encoding="utf-8")
    script.chmod(0o755)


def _old(environment: Mapping[str, str], name: str) -> list[str]:
    return [environment[name]] if environment.get(name) else []

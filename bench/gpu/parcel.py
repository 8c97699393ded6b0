"""Collects in .gpu what a machine without a network lacks for bench/gpu/run. Started by bench/gpu/pack."""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from library_closure import SHARED, header_rooms, needed_libraries
from machine import commit
from prefix import ARCHIVE, FIO_LIBRARIES, LIBRARIES, MANIFEST, WHEELS

ROOT = Path(__file__).resolve().parents[2]
MIB = 1 << 20
# Headers, libraries to link and files for CMake and pkg-config; fuse3 and rapidcheck since configuring asks for them.
DEVELOPMENT = (
    "liburing-dev", "libaio-dev", "libhwloc-dev", "libspdlog-dev", "libfmt-dev", "nlohmann-json3-dev", "libcli11-dev",
    "libyaml-cpp-dev", "libxxhash-dev", "libdeflate-dev", "libgtest-dev", "libgmock-dev", "librapidcheck-dev",
    "libfuse3-dev", "pkgconf-bin",
)  # fmt: skip
BOOST = ("libboost1.81-dev", "libboost1.83-dev", "libboost-dev")  # the first that there is
KEPT = ("usr/include", f"{LIBRARIES}/cmake", f"{LIBRARIES}/pkgconfig", "usr/share/cmake", "usr/share/pkgconfig")
# Of another machine's Python: what DeepSpeed asks for beside torch and what comes with it, and what the build asks for.
WHEELS_WANTED = ("hjson", "pydantic", "einops", "msgpack", "py-cpuinfo", "nanobind>=2.4")
DEEPSPEED = "deepspeed==0.19.8"
PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64", "manylinux1_x86_64")


class Parcel:
    def __init__(self, asked: argparse.Namespace) -> None:
        self._asked = asked
        self._to = ROOT / ".gpu"
        self._packages: dict[str, str] = {}

    def collect(self, work: Path) -> int:
        """Everything anew; returns its bytes, the tree's included."""
        shutil.rmtree(self._to, ignore_errors=True)
        (self._to / WHEELS).mkdir(parents=True)
        unpacked, kept = work / "unpacked", work / "kept"
        boost = next((name for name in BOOST if known(name)), BOOST[0])
        wanted = [*DEVELOPMENT, boost, *(() if self._asked.without_fio else ("fio",))]
        say(f"packages: {' '.join(wanted)}, and the libraries that they need")
        self._packages = unpack(wanted, work / "archives", unpacked / "wanted")
        others = set(closure(wanted)) - set(wanted)
        self._packages |= unpack(sorted(others), work / "other-archives", unpacked / "others")
        self._keep(unpacked, kept, wanted)
        say(f"compressing {size(kept) / MIB:.0f} MiB")
        with tarfile.open(self._to / ARCHIVE, "w:xz") as archive:
            archive.add(kept, arcname=".")
        say(f"wheels for Python {self._asked.python_version}")
        self._bring_wheels()
        manifest = {"commit": commit(ROOT), "packages": self._packages, "wheels": sorted(names(self._to / WHEELS))}
        (self._to / MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")
        return size(self._to) + tree_bytes()

    def _keep(self, unpacked: Path, kept: Path, wanted: list[str]) -> None:
        """What is built with, and the shared libraries that its results and programs need."""
        tree, libraries = unpacked / "wanted", kept / LIBRARIES
        for folder in KEPT:
            if (tree / folder).is_dir():
                shutil.copytree(tree / folder, kept / folder, symlinks=True)
        sources = [ROOT / name for name in tracked() if name.endswith((".h", ".cpp", "CMakeLists.txt"))]
        rooms = header_rooms(sources, tree / "usr/include") | {"version.hpp", "config.hpp", "config"}
        for entry in (kept / "usr/include/boost").iterdir():
            if entry.name not in rooms:
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        for archive in (tree / LIBRARIES).glob("*.a"):
            shutil.copy(archive, libraries)
        shared = [bring_linked(link, unpacked, libraries) for link in (tree / LIBRARIES).glob("*.so")]
        bring(needed_libraries(shared, unpacked), libraries)
        keep_program(unpacked, kept, "pkgconf", libraries)
        if "fio" in wanted:
            keep_program(unpacked, kept, "fio", kept / FIO_LIBRARIES)

    def _bring_wheels(self) -> None:
        folder = self._to / WHEELS
        pip = [sys.executable, "-m", "pip"]
        quiet = ["-q", "--disable-pip-version-check"]
        # Published as source alone; built here, where there is a torch for it to ask.
        build = {**os.environ, "DS_BUILD_OPS": "0", "DS_ACCELERATOR": "cpu"}
        wheel = [*pip, "wheel", *quiet, "--no-deps", "--no-build-isolation", "-w", str(folder), DEEPSPEED]
        subprocess.run(wheel, check=True, env=build)
        target = ["--only-binary=:all:", "--implementation=cp", f"--python-version={self._asked.python_version}"]
        target += [f"--platform={platform}" for platform in PLATFORMS]
        subprocess.run([*pip, "download", *quiet, *target, "-d", str(folder), *WHEELS_WANTED], check=True)


def say(text: str) -> None:
    print(f"== {text}", flush=True)


def known(package: str) -> bool:
    shown = subprocess.run(["apt-cache", "show", package], capture_output=True, check=False)
    return shown.returncode == 0


def closure(packages: Iterable[str]) -> list[str]:
    """The packages, and the run-time libraries that they depend on, without those of C and C++."""
    no = [f"--no-{kind}" for kind in ("recommends", "suggests", "conflicts", "breaks", "replaces", "enhances")]
    command = ["apt-cache", "depends", "--recurse", *no, *packages]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    names = set(re.findall(r"^(\S+)$", told, flags=re.M))
    base = re.compile(r"lib(c6|c-|c\+\+|gcc|stdc|crypt-|asan|tsan|ubsan|lsan|itm|gomp|quadmath|atomic|perl|python)")
    libraries = {
        name for name in names if re.match(r"lib\w|zlib1g$", name) and not base.match(name) and "-dev" not in name
    }
    return sorted(
        {*packages, *(name for name in libraries if not name.endswith(("-bin", "-perl", "-common", "-data")))}
    )


def unpack(packages: list[str], archives: Path, tree: Path) -> dict[str, str]:
    """Downloads and unpacks; returns versions by names."""
    archives.mkdir(parents=True)
    tree.mkdir(parents=True)
    download = ["apt-get", "-qq", "-o", "APT::Sandbox::User=root", "download", *packages]
    subprocess.run(download, cwd=archives, check=True)
    versions = {}
    for archive in sorted(archives.glob("*.deb")):
        subprocess.run(["dpkg", "-x", archive, tree], check=True)
        name, version, _ = archive.name.split("_", 2)
        versions[name] = version
    merge_usr(tree)
    return versions


def merge_usr(tree: Path) -> None:
    """Some packages still have /lib: below /usr, where it is on every machine of today."""
    for folder in ("lib", "bin", "sbin"):
        if (tree / folder).is_dir() and not (tree / folder).is_symlink():
            shutil.copytree(tree / folder, tree / "usr" / folder, symlinks=True, dirs_exist_ok=True)
            shutil.rmtree(tree / folder)


def bring(libraries: dict[str, Path], to: Path) -> None:
    for name, path in libraries.items():
        if SHARED.search(name) and not (to / name).exists():
            shutil.copy(path, to / name)


def bring_linked(link: Path, unpacked: Path, to: Path) -> Path:
    """The library behind a development package's link, under the name by which programs ask for it; links beside it."""
    names, library = [link.name], link
    while library.is_symlink():  # first to the run-time package's, which may be one too
        names.append(Path(os.readlink(library)).name)
        there = sorted(unpacked.rglob(names[-1]), key=lambda path: path.is_symlink())
        if not there:
            raise LookupError(f"no package brought {names[-1]}, which {link.name} is")
        library = there[0]
    told = subprocess.run(["readelf", "-d", library], capture_output=True, text=True, check=True).stdout
    named = re.search(r"\(SONAME\).*\[(.+)\]", told)
    asked_for = named.group(1) if named else library.name
    shutil.copy(library, to / asked_for)
    for name in {*names, library.name} - {asked_for}:
        (to / name).symlink_to(asked_for)
    return to / asked_for


def keep_program(unpacked: Path, kept: Path, name: str, libraries: Path) -> None:
    """A command, and what it needs of the packages in a folder of its own or in that of all."""
    libraries.mkdir(parents=True, exist_ok=True)
    (kept / "usr/bin").mkdir(parents=True, exist_ok=True)
    shutil.copy(unpacked / "wanted/usr/bin" / name, kept / "usr/bin")
    bring(needed_libraries([kept / "usr/bin" / name], unpacked), libraries)


def tracked() -> list[str]:
    listed = subprocess.run(["git", "-C", ROOT, "ls-files"], capture_output=True, text=True, check=True).stdout
    return [name for name in listed.splitlines() if (ROOT / name).is_file()]


def tree_bytes() -> int:
    return sum((ROOT / name).stat().st_size for name in tracked())


def names(folder: Path) -> Iterable[str]:
    return (entry.name for entry in folder.iterdir())


def size(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_dir())


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench/gpu/pack", add_help=False)
    parser.add_argument("--python-version", default="3.12")
    parser.add_argument("--without-fio", action="store_true")
    parser.add_argument("--limit-mib", type=float, default=60)
    asked = parser.parse_args()
    parcel = Parcel(asked)
    with tempfile.TemporaryDirectory(dir=os.environ.get("PENSTOCK_TMP")) as work:
        try:
            total = parcel.collect(Path(work))
        except subprocess.CalledProcessError as failed:
            print(
                f"bench/gpu/pack: {' '.join(map(str, failed.cmd[:4]))} … failed: {failed.stderr or ''}", file=sys.stderr
            )
            return 1
        except LookupError as missing:
            print(f"bench/gpu/pack: {missing}", file=sys.stderr)
            return 1
    parts = {path.name: size(path) if path.is_dir() else path.stat().st_size for path in (ROOT / ".gpu").iterdir()}
    parts["the checkout's files"] = tree_bytes()
    for name, held in parts.items():
        print(f"   {held / MIB:7.1f} MiB  {name}")
    print(f"   {total / MIB:7.1f} MiB  in all, of {asked.limit_mib:.0f}")
    if total > asked.limit_mib * MIB:
        shutil.rmtree(ROOT / ".gpu")
        print("bench/gpu/pack: that is too much: try --without-fio, or a higher --limit-mib", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""`cmake --install` into a prefix of its own, and other people's programs built against it."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]


def run(*command: str | Path, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={**os.environ, **(env or {})},
    )
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="session")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    build = Path(os.environ.get("PENSTOCK_BUILD_DIR", ROOT / "build" / "release"))
    if not (build / "bindings" / "c" / "libpenstock.so").exists():
        pytest.fail(f"{build} has no libpenstock.so: cmake --preset release && cmake --build --preset release")
    there = tmp_path_factory.mktemp("prefix")
    run("cmake", "--install", build, "--prefix", there)
    return there


def version() -> str:
    """The header's."""
    header = (ROOT / "bindings" / "c" / "penstock.h").read_text(encoding="utf-8")
    return ".".join(re.findall(r"^#define PENSTOCK_VERSION_\w+ (\d+)$", header, flags=re.M))


def declared() -> set[str]:
    """The functions of the header."""
    header = (ROOT / "bindings" / "c" / "penstock.h").read_text(encoding="utf-8")
    return set(re.findall(r"^PENSTOCK_API [\w* ]*?(penstock_\w+)\(", header, flags=re.M))


def test_what_is_installed(prefix: Path) -> None:
    names = {str(file.relative_to(prefix)) for file in prefix.rglob("*") if not file.is_dir()}
    package = "lib/cmake/penstock"
    assert {
        "bin/penstock",
        "include/penstock.h",
        "include/penstock/swap/swap_engine.h",
        "include/penstock/io/io_queue.h",
        "include/penstock/alloc/buffer_pool.h",
        "lib/libpenstock.so",
        "lib/libpenstock_swap.a",
        "lib/pkgconfig/penstock.pc",
        f"{package}/penstockConfig.cmake",
        f"{package}/penstockConfigVersion.cmake",
        f"{package}/penstockTargets.cmake",
    } <= names
    private = (".cpp", "buffer_pool_state.h", "cuda_driver.h", "hip_runtime.h")
    elsewhere = ("swap/engine/", "site-packages")
    assert not [name for name in names if name.endswith(private) or any(part in name for part in elsewhere)]


def test_it_may_be_moved(prefix: Path) -> None:
    """No file says where it was built or installed, apart from the header's own place."""
    for file in (prefix / "lib").rglob("*"):
        if file.suffix in (".cmake", ".pc"):
            text = file.read_text(encoding="utf-8")
            assert str(ROOT) not in text and str(prefix) not in text, file


def test_only_the_interface_is_exported(prefix: Path) -> None:
    listed = run("nm", "-D", "--defined-only", "--format=posix", prefix / "lib" / "libpenstock.so")
    exported = {line.split()[0] for line in listed.splitlines()}
    assert exported == declared()
    assert len(exported) >= 28


def test_no_library_of_an_accelerator_is_needed(prefix: Path) -> None:
    for file in (prefix / "lib" / "libpenstock.so", prefix / "bin" / "penstock"):
        needed = re.findall(r"Shared library: \[(.*)\]", run("readelf", "-d", file))
        assert "libc.so.6" in needed
        assert not [name for name in needed if re.search(r"cuda|nv|hip|amd|hsa|roc", name)]


def test_it_has_a_soname(prefix: Path) -> None:
    library = prefix / "lib" / "libpenstock.so"
    dynamic = run("readelf", "-d", library)
    (soname,) = re.findall(r"Library soname: \[(.*)\]", dynamic)
    assert soname == "libpenstock.so.0"
    assert "NODELETE" in dynamic
    assert (prefix / "lib" / soname).is_symlink() and library.is_symlink()


@pytest.mark.parametrize(
    "compiler", ["cc -x c -std=c11 -Wstrict-prototypes", "c++ -x c++ -std=c++11", "c++ -x c++ -std=c++20"]
)
def test_the_header_is_clean(prefix: Path, compiler: str, tmp_path: Path) -> None:
    source = tmp_path / "header.txt"
    source.write_text("#include <penstock.h>\nint main(void) { return 0; }\n", encoding="utf-8")
    strict = "-Wall -Wextra -pedantic -Werror -fsyntax-only".split()
    run(*compiler.split(), *strict, "-I", prefix / "include", source)


def test_a_c_program_by_cmake(prefix: Path, tmp_path: Path) -> None:
    run("cmake", "-S", HERE / "consumer_c", "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", tmp_path / "build")
    assert run(tmp_path / "build" / "consumer_c", tmp_path / "swap") == f"penstock {version()}: 8 tensors, 9 gets\n"
    assert list((tmp_path / "swap").iterdir()) == []


def test_a_c_program_by_pkg_config(prefix: Path, tmp_path: Path) -> None:
    environment = {"PKG_CONFIG_PATH": str(prefix / "lib" / "pkgconfig")}
    flags = run("pkg-config", "--cflags", "--libs", "penstock", env=environment).split()
    assert run("pkg-config", "--modversion", "penstock", env=environment) == f"{version()}\n"
    program = tmp_path / "consumer_c"
    run(
        *"cc -std=c11 -Wall -Wextra -pedantic -Werror -o".split(),
        program,
        HERE / "consumer_c" / "main.c",
        *flags,
        f"-Wl,-rpath,{prefix / 'lib'}",
    )
    assert run(program, tmp_path / "swap").startswith(f"penstock {version()}:")


def test_the_c_interface_in_a_cpp_program(prefix: Path, tmp_path: Path) -> None:
    run("cmake", "-S", HERE / "consumer_cpp", "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", tmp_path / "build")
    assert run(tmp_path / "build" / "with_c_interface", tmp_path / "swap") == "the same\n"


SUMS = f"sum {sum(range(32)) << 22}, after the update {sum(range(32), 100) << 22}"


def test_the_examples(prefix: Path, tmp_path: Path) -> None:
    """Those in C and C++; tests/python has the one in Python."""
    run("cmake", "-S", ROOT / "examples", "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", tmp_path / "build")
    for program in ("swap_tensors_c", "swap_tensors_cpp"):
        sums, refused = run(tmp_path / "build" / program, tmp_path / "swap").splitlines()
        assert sums == SUMS
        assert refused == "refused: tensor 'layer.0' has 4194304 bytes, the source 3"
        assert list((tmp_path / "swap").iterdir()) == []

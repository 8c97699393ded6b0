"""What of unpacked packages is needed: shared libraries by what names them, Boost's headers by what includes them."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

# The C and C++ runtimes are the other machine's own: newer ones run what was linked with these.
RUNTIME = re.compile(r"ld-linux|lib(c|m|dl|rt|pthread|resolv|util|stdc\+\+|gcc_s)\.so")
SHARED = re.compile(r"\.so(\.|$)")


def needed_libraries(programs: Iterable[Path], tree: Path) -> dict[str, Path]:
    """All that `programs` need, directly or not, in `tree`: files by the name under which they are asked for."""
    there: dict[str, Path] = {}
    for path in tree.rglob("*.so*"):
        there.setdefault(path.name, path)
    found: dict[str, Path] = {}
    waiting = list(programs)
    while waiting:
        for name in needed(waiting.pop()):
            if name in found or RUNTIME.match(name):
                continue
            if name not in there:
                raise LookupError(f"no package brought {name}")
            found[name] = there[name]
            waiting.append(there[name])
    return found


def needed(program: Path) -> list[str]:
    """DT_NEEDED."""
    told = subprocess.run(["readelf", "-d", program], capture_output=True, text=True, check=True).stdout
    return re.findall(r"\(NEEDED\).*\[(.+)\]", told)


def header_rooms(sources: Iterable[Path], include: Path) -> set[str]:
    """Of Boost's folders and top headers: those that `sources` reach by includes written as such.

    Whole folders, since some includes are macros; those stay within their folder.
    """
    reached: set[str] = set()
    waiting = [header for source in sources for header in included(source)]
    while waiting:
        header = waiting.pop()
        if header in reached:
            continue
        reached.add(header)
        if (include / header).is_file():
            waiting += included(include / header)
    return {header.split("/")[1] for header in reached}


def included(source: Path) -> Iterator[str]:
    text = source.read_text(encoding="utf-8", errors="replace")
    yield from re.findall(r'^\s*#\s*include\s*[<"](boost/[^">]+)[">]', text, flags=re.M)

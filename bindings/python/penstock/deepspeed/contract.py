"""What penstock relies on in DeepSpeed, and whether the installed one still has it.

Three things are compared with the installed sources, read as text, never run:
  - every call that DeepSpeed makes on a swapper must fit a method of ours (name and arguments);
  - the places of the table (patch_table.py) must exist with the parameters that are expected;
  - the texts of the functions whose behaviour penstock builds on should be ones that it was tested with.
On a difference in the first two install() refuses, unless the place is one that penstock can do without: that is
skipped. An unknown text of a place that is needed is worth a warning.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import inspect
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from penstock import messages
from penstock.deepspeed.known_texts import KNOWN_TEXTS, TESTED_VERSIONS
from penstock.deepspeed.patch_table import TABLE, Place
from penstock.errors import CompatibilityError

OVERRIDE = "PENSTOCK_DEEPSPEED_UNCHECKED"

# Files that hold swappers or call them, below the package.
_FILES = (
    "runtime/engine.py",
    "runtime/zero/partition_parameters.py",
    "runtime/zero/partitioned_param_coordinator.py",
    "runtime/zero/parameter_offload.py",
    "runtime/zero/stage3.py",
)
_PARAMETER_OWNERS = ("nvme_swapper", "param_swapper")
_OPTIMIZER_OWNERS = ("optimizer_swapper",)

_STAGE3 = "runtime/zero/stage3.py"
_STAGE3_ATTRIBUTES = (
    "grad_partitions_flat_buffer",
    "fp32_partitioned_groups_flat",
    "fp16_partitioned_groups_flat_numel",
)


@dataclass
class Report:
    """What a comparison found. `version` is the installed one's."""

    version: str
    differences: list[str] = field(default_factory=list)  # that install() refuses
    unknown_texts: list[str] = field(default_factory=list)  # of functions that are needed and there
    skipped: list[str] = field(default_factory=list)  # places that penstock does without, and why
    patched: list[Place] = field(default_factory=list)  # what install() patches

    @property
    def warning(self) -> str | None:
        """One line about a version, or texts, that penstock was not tested with."""
        tested = self.version in TESTED_VERSIONS
        if tested and not self.unknown_texts:
            return None
        version = f"DeepSpeed {self.version} is {'' if tested else 'not '}one of the tested versions"
        known = f"({', '.join(TESTED_VERSIONS)})"
        if not self.unknown_texts and not self.skipped:
            return f"{version} {known}; the functions that penstock builds on are the same as in one of them"
        found = []
        if count := len(self.unknown_texts):
            found.append(
                f"{count} function{'s' if count > 1 else ''} that penstock builds on "
                f"differ{'' if count > 1 else 's'} from theirs: {', '.join(self.unknown_texts)}"
            )
        if self.skipped:
            found.append(f"what penstock patches in them is not all here: {'; '.join(self.skipped)}")
        return f"{version} {known}; {'; '.join(found)}. Compare the results with a run on device cpu"


@dataclass(frozen=True)
class Call:
    """One call on a swapper in DeepSpeed's source."""

    file: str
    line: int
    owner: str
    method: str
    positional: int
    keywords: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.owner}.{self.method}({', '.join(self.keywords) or '…'})"


def require_known_surface() -> Report:
    """Says one line about an untested version, where the process is rank 0.

    Raises CompatibilityError with every difference, unless PENSTOCK_DEEPSPEED_UNCHECKED=1 is set.
    """
    report = compare()
    if report.differences and os.environ.get(OVERRIDE) != "1":
        raise CompatibilityError(
            f"DeepSpeed {report.version} is not one that penstock knows ({', '.join(TESTED_VERSIONS)}); "
            f"{len(report.differences)} differences: {'; '.join(report.differences)}. "
            f"Install a tested version, or set {OVERRIDE}=1 to try anyway"
        )
    if report.warning and os.environ.get("RANK", "0") == "0":
        messages.warn("untested-deepspeed", report.warning)
    return report


def compare(root: Path | None = None, table: Iterable[Place] = TABLE) -> Report:
    """Compares the DeepSpeed at `root` (the package's folder; None: the installed one) with what is expected."""
    root = root or installed_root()
    report = Report(_version())
    sources = _Sources(root)
    for name in _FILES:
        if sources.tree(name) is None:
            report.differences.append(f"{name} is gone")
    for name in _FILES:
        for call in calls_on_swappers(name, sources.tree(name) or ast.Module([], [])):
            problem = _does_not_fit(call)
            if problem:
                report.differences.append(problem)
    for place in table:
        _judge(place, sources, report)
    stage3 = sources.tree(_STAGE3)
    if stage3 is not None:
        assigned = {node.attr for node in ast.walk(stage3) if isinstance(node, ast.Attribute)}
        report.differences.extend(
            f"{_STAGE3} no longer has {name}" for name in _STAGE3_ATTRIBUTES if name not in assigned
        )
    return report


class _Sources:
    """The files of one DeepSpeed, each read and parsed once."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._trees: dict[str, ast.Module | None] = {}
        self._hashes: dict[str, dict[str, str]] = {}

    def tree(self, name: str) -> ast.Module | None:
        if name not in self._trees:
            file = self._root / name
            self._trees[name] = ast.parse(file.read_text(encoding="utf-8")) if file.exists() else None
        return self._trees[name]

    def hashes(self, name: str) -> dict[str, str]:
        if name not in self._hashes:
            self._hashes[name] = text_hashes((self._root / name).read_text(encoding="utf-8"))
        return self._hashes[name]


def _judge(place: Place, sources: _Sources, report: Report) -> None:
    """Where a place belongs in the report: patched, skipped, a difference or an unknown text."""
    tree = sources.tree(place.file)
    absent = _absent(place, tree)
    problem = absent or _other_parameters(place, tree)
    if problem is not None:
        (report.differences if place.required else report.skipped).append(problem)
        if absent or not place.required:
            return
    elif place.text and not _is_known(place, sources):
        if place.wrap is not None and not place.required:
            report.skipped.append(f"{place} has a text that penstock was not tested with")
            return
        report.unknown_texts.append(str(place))
    if place.wrap is not None:
        report.patched.append(place)


def _is_known(place: Place, sources: _Sources) -> bool:
    known = KNOWN_TEXTS.get(f"{place.file}:{place.key}", {})
    return sources.hashes(place.file).get(place.key) in known


def calls_on_swappers(file: str, tree: ast.AST) -> Iterator[Call]:
    owners = _PARAMETER_OWNERS + _OPTIMIZER_OWNERS
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        owner = node.func.value
        name = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
        if name in owners:
            yield Call(
                file,
                node.lineno,
                name,
                node.func.attr,
                len(node.args),
                tuple(keyword.arg or "**" for keyword in node.keywords),
            )


def text_hashes(source: str) -> dict[str, str]:
    """`Class.function`, or a function of the module -> hash of its text with white space folded."""
    hashes = {}
    lines = source.encode().split(b"\n")  # once: ast.get_source_segment would do so for every function, for seconds
    for node in ast.parse(source).body:
        for function in node.body if isinstance(node, ast.ClassDef) else [node]:
            if isinstance(function, ast.FunctionDef):
                text = b" ".join(_text(lines, function).split())
                key = function.name if function is node else f"{node.name}.{function.name}"  # type: ignore[attr-defined]
                hashes[key] = hashlib.sha256(text).hexdigest()[:16]
    return hashes


def _text(lines: list[bytes], function: ast.FunctionDef) -> bytes:
    """From `def`, without decorators, to the last character; the comment after that is not part of it."""
    first, last = function.lineno - 1, (function.end_lineno or function.lineno) - 1
    return b"\n".join([*lines[first:last], lines[last][: function.end_col_offset]])


def _does_not_fit(call: Call) -> str | None:
    from penstock.deepspeed.optimizer_swapper import OptimizerSwapper
    from penstock.deepspeed.parameter_swapper import ParameterSwapper

    ours: Any = ParameterSwapper if call.owner in _PARAMETER_OWNERS else OptimizerSwapper
    method = getattr(ours, call.method, None)
    if method is None:
        return f"{call} is new to penstock"
    if "**" in call.keywords:
        return None
    try:
        inspect.signature(method).bind(None, *[None] * call.positional, **dict.fromkeys(call.keywords))
    except TypeError as error:
        return f"{call} does not fit penstock's method: {error}"
    return None


def _absent(place: Place, tree: ast.Module | None) -> str | None:
    """What is not there; None: the place is."""
    if tree is None:
        return f"{place.file} is gone"
    scope = _scope(place, tree)
    if scope is None:
        return f"{place.file} has no class {place.owner}"
    if _function(place, tree) is not None or place.name in _other_names(scope):
        return None
    return f"{place.file}: {place.owner} has no {place.name}" if place.owner else f"{place.file} has no {place.name}"


def _other_parameters(place: Place, tree: ast.Module | None) -> str | None:
    function = _function(place, tree) if tree is not None else None
    if function is None or place.parameters is None:
        return None
    found = tuple(argument.arg for argument in function.args.args)
    return None if found == place.parameters else f"{place} takes {found} instead of {place.parameters}"


def _scope(place: Place, tree: ast.Module) -> ast.Module | ast.ClassDef | None:
    if not place.owner:
        return tree
    return next((node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == place.owner), None)


def _function(place: Place, tree: ast.Module) -> ast.FunctionDef | None:
    scope = _scope(place, tree)
    body = scope.body if scope is not None else []
    return next((node for node in body if isinstance(node, ast.FunctionDef) and node.name == place.name), None)


def _other_names(scope: ast.Module | ast.ClassDef) -> set[str]:
    """What a module imports or assigns and which classes it has; for a class, what it assigns. Of `import *`, what the
    module reads.
    """
    names = {node.name for node in scope.body if isinstance(node, ast.ClassDef)}
    for node in scope.body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    if "*" in names:
        names |= {node.id for node in ast.walk(scope) if isinstance(node, ast.Name)}
    return names


def installed_root() -> Path:
    """The folder of the package `deepspeed`, which is not imported for that."""
    spec = importlib.util.find_spec("deepspeed")
    if spec is None or not spec.submodule_search_locations:
        raise CompatibilityError("DeepSpeed is not installed: pip install deepspeed==" + TESTED_VERSIONS[-1])
    return Path(spec.submodule_search_locations[0])


def _version() -> str:
    try:
        return metadata.version("deepspeed")
    except metadata.PackageNotFoundError:
        return "of unknown version"


if __name__ == "__main__":
    result = compare()
    print(f"DeepSpeed {result.version}: {len(result.differences)} differences in the surface")
    for line in result.differences:
        print("  " + line)
    for line in result.unknown_texts:
        print("  changed since it was tested: " + line)
    for line in result.skipped:
        print("  done without: " + line)
    raise SystemExit(1 if result.differences else 0)

"""What penstock relies on in DeepSpeed, and whether the installed one still has it.

Three things are compared with the installed sources, read as text, never run:
  - every call that DeepSpeed makes on a swapper must fit a method of ours (name and arguments);
  - the places that are patched must exist with the parameters that are expected;
  - the bodies of the functions whose behaviour penstock builds on should be those that it was tested with.
The first two are differences, on which install() refuses; the third is a remark, unless it comes with them.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import inspect
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from penstock.errors import CompatibilityError

TESTED_VERSIONS = ("0.19.8",)
OVERRIDE = "PENSTOCK_DEEPSPEED_UNCHECKED"

# Files that hold swappers or call them, below deepspeed/runtime/.
_FILES = (
    "engine.py",
    "zero/partition_parameters.py",
    "zero/partitioned_param_coordinator.py",
    "zero/parameter_offload.py",
    "zero/stage3.py",
    "zenflow/engine_stage3.py",
)
_PARAMETER_OWNERS = ("nvme_swapper", "param_swapper")
_OPTIMIZER_OWNERS = ("optimizer_swapper",)

# What is patched or read: file, class (or "" for the module), name, parameters (None: any; (): an attribute).
_PLACES: tuple[tuple[str, str, str, tuple[str, ...] | None], ...] = (
    ("zero/partition_parameters.py", "", "AsyncPartitionedParameterSwapper", None),
    ("zero/partition_parameters.py", "", "PartitionedParamStatus", None),
    ("zero/stage3.py", "", "PartitionedOptimizerSwapper", None),
    ("zero/stage3.py", "", "PipelinedOptimizerSwapper", None),
    ("zero/partition_parameters.py", "Init", "_post_init_method", ("self", "module")),
    (
        "zero/stage3.py",
        "DeepSpeedZeroOptimizer_Stage3",
        "_configure_tensor_swapping",
        ("self", "offload_optimizer_config", "aio_config"),
    ),
    (
        "zero/stage3.py",
        "DeepSpeedZeroOptimizer_Stage3",
        "_offload_grad_partition_at_boundary",
        ("self", "param", "grad_buffer", "offload_fp32_gradients", "offload_fp32_offsets"),
    ),
    ("engine.py", "DeepSpeedEngine", "save_checkpoint", None),
    ("engine.py", "DeepSpeedEngine", "load_checkpoint", None),
)
_STAGE3_ATTRIBUTES = (
    "grad_partitions_flat_buffer",
    "fp32_partitioned_groups_flat",
    "fp16_partitioned_groups_flat_numel",
    "master_weights_and_grads_dtype",
    "grad_position",
    "norm_for_param_grads",
    "_constant_buffered_norm2",
    "_swappable_optimizer_subgroup",
)
# Functions whose behaviour matters, with the hash of their text (white space folded) in the tested version.
_BODIES = {
    "zero/partition_parameters.py": {
        "Init._ensure_availability_of_partitioned_params": "350379730ff8296b",
        "Init._partition_param": "78ea6564efa89fd0",
    },
    "zero/partitioned_param_coordinator.py": {
        "PartitionedParameterCoordinator.__prefetch_nvme_param_partitions": "c5163e8b0558f316",
        "PartitionedParameterCoordinator.__all_gather_params_": "4e61e85a0e88f9cf",
    },
    "zero/stage3.py": {
        "DeepSpeedZeroOptimizer_Stage3._configure_tensor_swapping": "da38777dea352b3c",
        "DeepSpeedZeroOptimizer_Stage3._move_to_flat_buffer": "84816e1f0432a40e",
        "DeepSpeedZeroOptimizer_Stage3._swap_in_sub_group_to_flat_buffer": "d31aec15ed60ad59",
        "DeepSpeedZeroOptimizer_Stage3._create_fp32_partitions": "4d0df9eb899b7c6f",
        "DeepSpeedZeroOptimizer_Stage3._partitioned_params_swap_out": "ce165d512539e234",
        "DeepSpeedZeroOptimizer_Stage3.initialize_optimizer_states": "6fe5437a26aa2e60",
        "DeepSpeedZeroOptimizer_Stage3._offload_grad_partition_at_boundary": "f8d27125e66814a2",
        "DeepSpeedZeroOptimizer_Stage3.partition_grads": "2a6e85121b2f5b8c",
        "DeepSpeedZeroOptimizer_Stage3._optimizer_states_and_gradient_swap_in": "af7beb352ee5ae53",
        "DeepSpeedZeroOptimizer_Stage3._optimizer_states_and_gradient_swap_out": "408a216f38aa82a5",
        "DeepSpeedZeroOptimizer_Stage3.step": "ae4e4c1bc90380ee",
    },
}


@dataclass
class Report:
    version: str
    differences: list[str] = field(default_factory=list)
    changed_bodies: list[str] = field(default_factory=list)


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


def require_known_surface() -> None:
    """Raises CompatibilityError with every difference, unless PENSTOCK_DEEPSPEED_UNCHECKED=1 is set."""
    report = compare()
    if not report.differences or os.environ.get(OVERRIDE) == "1":
        return
    raise CompatibilityError(
        f"DeepSpeed {report.version} is not the one that penstock knows ({', '.join(TESTED_VERSIONS)}); "
        f"{len(report.differences)} differences: {'; '.join(report.differences)}. "
        f"Install a tested version, or set {OVERRIDE}=1 to try anyway"
    )


def compare(root: Path | None = None) -> Report:
    """Compares the DeepSpeed below `root` (its `runtime` folder; None: the installed one) with what is expected."""
    root = root or _installed_root()
    report = Report(_version())
    sources = {name: (root / name).read_text(encoding="utf-8") for name in _FILES if (root / name).exists()}
    trees = {name: ast.parse(source) for name, source in sources.items()}
    for name in _FILES:
        if name not in trees:
            report.differences.append(f"{name} is gone")
    for name, tree in trees.items():
        for call in calls_on_swappers(name, tree):
            problem = _does_not_fit(call)
            if problem:
                report.differences.append(problem)
    for name, class_name, member, parameters in _PLACES:
        if name in trees:
            report.differences.extend(_missing(trees[name], name, class_name, member, parameters))
    if "zero/stage3.py" in trees:
        assigned = {node.attr for node in ast.walk(trees["zero/stage3.py"]) if isinstance(node, ast.Attribute)}
        report.differences.extend(
            f"zero/stage3.py no longer has {name}" for name in _STAGE3_ATTRIBUTES if name not in assigned
        )
    for name, bodies in _BODIES.items():
        if name in sources:
            found = body_hashes(sources[name])
            report.changed_bodies.extend(
                f"{name}: {body}" for body, expected in bodies.items() if found.get(body) != expected
            )
    return report


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


def body_hashes(source: str) -> dict[str, str]:
    """`Class.function` -> hash of its text with white space folded."""
    hashes = {}
    lines = source.encode().split(b"\n")  # once: ast.get_source_segment would do so for every function, for seconds
    for node in ast.parse(source).body:
        if not isinstance(node, ast.ClassDef):
            continue
        for function in node.body:
            if isinstance(function, ast.FunctionDef):
                text = b" ".join(_text(lines, function).split())
                hashes[f"{node.name}.{function.name}"] = hashlib.sha256(text).hexdigest()[:16]
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


def _missing(
    tree: ast.Module, file: str, class_name: str, member: str, parameters: tuple[str, ...] | None
) -> list[str]:
    if not class_name:
        names = {
            alias.asname or alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        return [] if member in names else [f"{file} no longer imports {member}"]
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == class_name:
            for function in node.body:
                if isinstance(function, ast.FunctionDef) and function.name == member:
                    found = tuple(argument.arg for argument in function.args.args)
                    if parameters is not None and found != parameters:
                        return [f"{file}: {class_name}.{member}{found} instead of {parameters}"]
                    return []
            return [f"{file}: {class_name} has no {member}"]
    return [f"{file} has no class {class_name}"]


def _installed_root() -> Path:
    spec = importlib.util.find_spec("deepspeed")
    if spec is None or not spec.submodule_search_locations:
        raise CompatibilityError("DeepSpeed is not installed: pip install deepspeed==" + TESTED_VERSIONS[0])
    return Path(spec.submodule_search_locations[0]) / "runtime"


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
    for line in result.changed_bodies:
        print("  changed since it was tested: " + line)
    raise SystemExit(1 if result.differences else 0)

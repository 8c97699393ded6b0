"""What a configuration says of optimizer states: `optimizer_states`, `fp32_states`, and whether they are on NVMe."""

from __future__ import annotations

from typing import Any


def setting_of(config: dict[str, Any]) -> str:
    value = (config.get("penstock") or {}).get("optimizer_states")
    return "fp32" if value in (None, "auto") else str(value)


def has_states_on_nvme(config: dict[str, Any]) -> bool:
    offload = (config.get("zero_optimization") or {}).get("offload_optimizer") or {}
    return bool(offload.get("device") == "nvme")


def form_of(config: dict[str, Any]) -> str:
    """The setting as a sentence has it, with the patterns of what is exempt: two runs of one form have equal digits.
    States that are not on NVMe are fp32. config: of a checkpoint it may be the `penstock` block alone.
    """
    narrow, patterns = setting_of(config), sorted(fp32_patterns(config))
    if "zero_optimization" in config and not has_states_on_nvme(config):
        return "fp32"
    return f"{narrow} (fp32: {', '.join(patterns)})" if patterns and narrow != "fp32" else narrow


def without_states(block: dict[str, Any] | None) -> dict[str, Any]:
    """Of a `penstock` block, what is not of one optimizer."""
    return {key: value for key, value in (block or {}).items() if key not in ("optimizer_states", "fp32_states")}


def fp32_patterns(config: dict[str, Any]) -> list[str]:
    patterns = (config.get("penstock") or {}).get("fp32_states")
    return [] if patterns in (None, "auto") else list(patterns)

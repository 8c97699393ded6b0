"""python -m penstock.inventory CONFIG_DIR [-o OUT]: what tensors a model has, from its config.json alone.

The model is built on the meta device, which takes no memory and no weights. `penstock plan` reads the
result. Needs torch and transformers, which are imported only when this runs.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import sys
import textwrap
from pathlib import Path
from typing import Any, TextIO

_EXAMPLE = """example:
  python -m penstock.inventory Qwen3-0.6B/ -o qwen3-0.6b.json
  penstock plan qwen3-0.6b.json --config ds_config.json --world-size 8
"""

# torch's names of element types where ours (those of safetensors, in lower case) differ.
_DTYPE_NAMES = {
    "bfloat16": "bf16",
    "float16": "f16",
    "float32": "f32",
    "float64": "f64",
    "float8_e4m3fn": "f8_e4m3",
    "float8_e5m2": "f8_e5m2",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "uint8": "u8",
    "uint16": "u16",
    "uint32": "u32",
    "uint64": "u64",
}


# Letters of what transformers says: a list of all models that it knows is no help.
_REASON_MAX = 300


class InventoryError(Exception):
    """One sentence for a user."""


def dtype_name(dtype: Any) -> str:
    """`bf16` for torch.bfloat16."""
    name = str(dtype).removeprefix("torch.")
    return _DTYPE_NAMES.get(name, name)


def model_tensors(model: Any) -> list[dict[str, Any]]:
    """Every parameter in the order of the model, then the buffers that a checkpoint has.

    Tied weights are one tensor and are listed once, under their first name. What the model itself freezes, as fixed
    tables of positions, says so.
    """
    entries = []
    for name, parameter in model.named_parameters():
        entry = _entry(name, parameter, "param")
        entries.append(entry if parameter.requires_grad else {**entry, "trainable": False})
    saved = set(model.state_dict().keys())
    for name, buffer in model.named_buffers():
        if name in saved:
            entries.append(_entry(name, buffer, "buffer"))
    return entries


def model_ties(model: Any) -> dict[str, str]:
    """Further names of what model_tensors() lists, each with the name there: a tied head's, with its embedding's."""
    listed = {id(parameter): name for name, parameter in model.named_parameters()}
    every = [(name, listed[id(tensor)]) for name, tensor in model.named_parameters(remove_duplicate=False)]
    return {name: first for name, first in every if name != first}


def _entry(name: str, tensor: Any, role: str) -> dict[str, Any]:
    return {"name": name, "dtype": dtype_name(tensor.dtype), "shape": list(tensor.shape), "role": role}


def build_on_meta(config_dir: str) -> Any:
    """The model that `config_dir`/config.json describes, on the meta device and with its ties."""
    if not (Path(config_dir) / "config.json").is_file():
        raise InventoryError(f"{config_dir} has no config.json; name the directory of a Hugging Face model")
    try:
        import torch
        import transformers
    except ImportError as error:
        raise InventoryError(f"torch and transformers are needed to build the model: {error}") from error
    try:
        config = transformers.AutoConfig.from_pretrained(config_dir, local_files_only=True)
    except Exception as error:
        raise _refusal("read", config_dir, error) from error
    try:
        dtype = getattr(config, "dtype", None) or torch.float32
        architecture = (getattr(config, "architectures", None) or [""])[0]
        with torch.device("meta"):
            if hasattr(transformers, architecture):
                model = getattr(transformers, architecture)._from_config(config, dtype=dtype)
            else:
                automatic: Any = transformers.AutoModelForCausalLM
                model = automatic.from_config(config, dtype=dtype)
        model.tie_weights()
    except Exception as error:
        raise _refusal("build the model of", config_dir, error) from error
    return model


def _refusal(verb: str, config_dir: str, error: Exception) -> InventoryError:
    """Of an error of any type: what a strange config.json raises is up to each model's code."""
    import transformers

    why = textwrap.shorten(f"{type(error).__name__}: {error}", _REASON_MAX, placeholder=" ...")
    return InventoryError(f"transformers {transformers.__version__} cannot {verb} {config_dir}/config.json: {why}")


def make_inventory(config_dir: str) -> dict[str, Any]:
    """The inventory as `penstock plan` reads it."""
    model = build_on_meta(config_dir)
    name = Path(config_dir).resolve().name
    return {"model": name, "tensors": model_tensors(model), "ties": model_ties(model)}


def _own_stream(out: str) -> TextIO | None:
    """Standard output or error, if `out` names what that goes to: a file there may have other contents, too."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, AttributeError):  # no file there yet; a stream that is closed
            if os.path.samestat(os.stat(out), os.fstat(stream.fileno())):
                return stream
    return None


def _replace(place: str, text: str) -> None:
    """Whole or not at all: a half inventory is valid nowhere."""
    unfinished = f"{place}.{os.getpid()}.tmp"
    try:
        with open(unfinished, "w", encoding="utf-8") as file:
            file.write(text)
        if os.path.isfile(place):
            shutil.copymode(place, unfinished)
        os.replace(unfinished, place)
    except OSError:
        Path(unfinished).unlink(missing_ok=True)
        raise


def _write(inventory: dict[str, Any], out: str | None) -> None:
    """As `penstock plan -o`: a link stays and the file that it names is replaced; a pipe or device is written to."""
    text = json.dumps(inventory, separators=(",", ":")) + "\n"
    stream = sys.stdout if out is None else _own_stream(out)
    if stream is not None:
        stream.write(text)
        stream.flush()
    elif out is not None:
        path = Path(out)
        if path.is_fifo() or path.is_char_device():
            path.write_text(text, encoding="utf-8")
        elif path.exists() and not path.is_file():
            raise InventoryError(f"cannot write {out}: it is no file")
        else:
            _replace(os.path.realpath(out), text)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m penstock.inventory",
        description="Writes the inventory of a model (every tensor's name, type and shape) from its config.json.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("config_dir", metavar="CONFIG_DIR", help="directory with a Hugging Face config.json")
    parser.add_argument("-o", "--output", metavar="OUT", help="file to write (default: standard output)")
    options = parser.parse_args(arguments)
    try:
        _write(make_inventory(options.config_dir), options.output)
    except InventoryError as error:
        print(f"penstock.inventory: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        where = options.output or "standard output"
        print(f"penstock.inventory: cannot write {where}: {error.strerror}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""python -m penstock.deepspeed SCRIPT [ARGS…]: runs a training script with penstock behind DeepSpeed.

    python -m penstock.deepspeed train.py --epochs 3
    accelerate launch --config_file acc.yaml -m penstock.deepspeed train.py
    deepspeed --num_gpus 2 --module penstock.deepspeed train.py
    torchrun --nproc_per_node 2 -m penstock.deepspeed train.py

The script sees sys.argv, sys.path[0] and __main__ as under plain python; `-m MODULE` runs a module instead.
`--local_rank=N`, which DeepSpeed's launcher puts before the script, is passed on to it. Nothing of DeepSpeed is
imported before the script does so itself.
"""

from __future__ import annotations

import atexit
import builtins
import os
import runpy
import sys
import types

from penstock.deepspeed.import_hook import install_when_imported
from penstock.errors import Error

USAGE = "usage: python -m penstock.deepspeed [--local_rank=N] (SCRIPT | -m MODULE) [ARGS…]"


def main(arguments: list[str]) -> int:
    passed_on: list[str] = []
    while arguments and arguments[0].startswith("--local_rank"):
        passed_on.append(arguments.pop(0))
        if passed_on[-1] == "--local_rank" and arguments:
            passed_on.append(arguments.pop(0))
    if arguments and arguments[0] in ("-h", "--help"):
        print(f"{USAGE}\n\n{__doc__}")
        return 0
    if not arguments or (arguments[0] == "-m" and len(arguments) < 2):
        print(f"{USAGE}\npenstock: no script given; try --help", file=sys.stderr)
        return 2
    # Threads that the script has left training end first, and what it has registered itself is called before.
    atexit.register(_leave_gloo)
    try:
        install_when_imported()
        if arguments[0] == "-m":
            _run_module(arguments[1], passed_on + arguments[2:])
        else:
            _run_script(arguments[0], passed_on + arguments[1:])
    except Error as error:
        _report(error)
        session = sys.modules.get("penstock.deepspeed.session")
        if session is not None:
            session.close_session_after_failure()
        return 1
    return 0


def _leave_gloo() -> None:
    """Gloo's threads let go of the last collectives' tensors, which takes the GIL: one that does so while the
    interpreter ends takes the process down with SIGABRT (torch 2.13), after a training that went well."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_initialized() and distributed.get_backend() == "gloo":
        distributed.destroy_process_group()


def _run_module(name: str, arguments: list[str]) -> None:
    sys.argv = ["-m", *arguments]
    sys.path[0] = os.getcwd()
    _make_main()
    runpy._run_module_as_main(name)  # type: ignore[attr-defined]  # what `python -m` calls


def _run_script(path: str, arguments: list[str]) -> None:
    try:
        with open(path, "rb") as file:
            code = compile(file.read(), path, "exec", dont_inherit=True)
    except OSError as error:
        raise SystemExit(f"penstock: cannot open script {path}: {error.strerror}") from None
    sys.argv = [path, *arguments]
    sys.path[0] = os.path.dirname(os.path.realpath(path))
    module = _make_main()
    module.__file__ = os.path.abspath(path)
    exec(code, module.__dict__)


def _make_main() -> types.ModuleType:
    """As the interpreter does it: a fresh __main__ that stays there, so that pickling and spawning find it."""
    module = types.ModuleType("__main__")
    module.__dict__["__builtins__"] = builtins
    sys.modules["__main__"] = module
    return module


def _report(error: Error) -> None:
    """The traceback first, the sentence last: that is where people look."""
    import traceback

    traceback.print_exception(error)
    print(f"penstock: {error}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

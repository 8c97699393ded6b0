"""What penstock raises. Everything is a `penstock.Error`; an I/O failure is also an `OSError`."""

from __future__ import annotations


class Error(Exception):
    """Base of all. `tensor` names the tensor concerned, empty where none is."""

    tensor: str = ""


class StorageError(Error, OSError):
    """A drive or a file system refused. `errno` and `filename` say what and where."""

    def __str__(self) -> str:
        return str(self.strerror)


class CorruptError(Error):
    """Bytes came back that are not the ones written. `filename` says from where."""

    filename: str = ""


class ConfigError(Error, ValueError):
    """A key, value or rule of the configuration."""


class ArgumentError(Error, ValueError):
    """A call that makes no sense: wrong size, no content yet, a name used twice."""


class UnknownTensorError(Error, KeyError):
    """A tensor that was never declared, or has been forgotten."""

    def __str__(self) -> str:
        return str(self.args[0])


class ClosedError(Error):
    """The engine is closed, or a lease was released."""


class ExhaustedError(Error, MemoryError):
    """A budget or the machine's memory is spent; the message names the number to raise."""


class UnsupportedError(Error, NotImplementedError):
    """Something that this build or this machine cannot do."""


class CompatibilityError(Error, RuntimeError):
    """The runtime that penstock plugs into is not the one that it knows."""


_KINDS = {
    "corrupt": CorruptError,
    "configuration": ConfigError,
    "argument": ArgumentError,
    "unknown_tensor": UnknownTensorError,
    "closed": ClosedError,
    "exhausted": ExhaustedError,
    "unsupported": UnsupportedError,
}


def make(kind: str, errno: int, message: str, path: str, tensor: str) -> Error:
    """Called by the engine: the exception for one of its errors."""
    if kind == "storage":
        error: Error = StorageError(errno, message, path or None)
    else:
        error = _KINDS[kind](message)
        if isinstance(error, CorruptError):
            error.filename = path
    error.tensor = tensor
    return error

"""A checkpoint's directory: `.TAG.partial` until all of it is whole, and `latest`, which names the newest whole one."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import re
import shutil
import stat
from typing import Any

from penstock import messages

_RENAME_EXCHANGE = 2
_AT_FDCWD = -100
# In a partial that is whole and goes into the directory file by file: the names of its files.
_WHOLE = ".whole"
# Where stock DeepSpeed copies its swap files to.
_STOCK_SWAP = "offloaded_tensors"


def tag_of(engine: Any, directory: Any, tag: Any) -> str | None:
    """None: there is none, as DeepSpeed will say."""
    if tag is not None:
        return str(tag)
    name = "latest_universal" if engine.load_universal_checkpoint() else "latest"
    latest = os.path.join(os.fspath(directory), name)
    if not os.path.isfile(latest):
        return None
    with open(latest, encoding="utf-8") as file:
        return file.read().strip()


class PartialCheckpoint:
    """The directory of `tag` below `save_dir`, which is being filled. Every rank has one of these."""

    def __init__(self, save_dir: str, tag: str) -> None:
        self._save_dir = save_dir
        self._asked = os.path.abspath(os.path.join(save_dir, tag))  # a tag may be empty, or "."
        # Two dots behind a link are the kernel's.
        self._named = os.path.normpath(os.path.join(os.path.realpath(save_dir), tag))
        # What a link names is replaced, and the link stays.
        self.final = os.path.realpath(self._named) if os.path.islink(self._named) else self._named
        self._created: tuple[int, int] | None = None  # the directory that this save has made
        parent, name = os.path.split(self.final)
        # Neither the directory of all tags nor a mounted one can be renamed.
        self._stays = os.path.realpath(self.final) == os.path.realpath(save_dir) or _is_mount(self.final)
        self.path = os.path.join(self.final, ".partial") if self._stays else os.path.join(parent, f".{name}.partial")
        self._previous = os.path.join(parent, f".{name}.previous")

    def clear(self) -> None:
        """What a save that was killed has left is taken away, or brought back. Several ranks may do it at once."""
        self.bring_back()
        for left in (self.path, self._previous):
            self._rescue(left)
            shutil.rmtree(left, ignore_errors=True)

    def _rescue(self, left: str) -> None:
        """Directories of a script's own, which come after names are exchanged: a save writes none."""
        if not os.path.isdir(self.final) or not os.path.isdir(left):
            return
        with contextlib.suppress(FileNotFoundError):  # another rank has done it
            self._move_directories(left)

    def _move_directories(self, old: str) -> None:
        for name in os.listdir(old):
            path, new = os.path.join(old, name), os.path.join(self.final, name)
            if name != _STOCK_SWAP and os.path.isdir(path) and not os.path.lexists(new):
                with contextlib.suppress(FileNotFoundError):  # another rank has done it
                    os.rename(path, new)

    def _move_late(self, old: str, names: list[str]) -> None:
        """What others have put there since it was listed."""
        forms = {_form(name) for name in names}
        for name in os.listdir(old):
            new = os.path.join(self.final, name)
            if _form(name) not in forms and name != _STOCK_SWAP and not os.path.lexists(new):
                os.rename(os.path.join(old, name), new)

    def bring_back(self) -> None:
        """Ends a save that was killed when all of it was written. What was there before, should it have been killed
        between taking that away and naming its own.
        """
        if os.path.exists(os.path.join(self.path, _WHOLE)):
            self._fill()
        if os.path.isdir(self._previous) and not os.path.isdir(self.final):
            with contextlib.suppress(FileNotFoundError):  # another rank has done it
                os.rename(self._previous, self.final)
        for left in (self.path, self._previous):
            with contextlib.suppress(OSError):  # the next save says what is in the way
                self._rescue(left)

    def create(self) -> None:
        os.makedirs(self.path, exist_ok=True)
        self._created = self._identity()

    def _identity(self) -> tuple[int, int] | None:
        """Of what has the partial's name: once names are exchanged, of the older checkpoint."""
        try:
            found = os.lstat(self.path)
        except FileNotFoundError:
            return None
        return found.st_dev, found.st_ino

    def file(self, path: str) -> str:
        """Where what belongs at `path`, below the final directory, is written."""
        return os.path.join(self.path, os.path.relpath(path, self._asked))

    def publish(self) -> None:
        """Gives it its name, in one step where that is possible. All files are safe already. An older directory of this
        name goes, but for what a script or another engine has put there.
        """
        if self._created is None or self._identity() != self._created:
            return  # another rank on this file system has done it
        self._publish_scripts()
        names = os.listdir(self.path)
        if not os.path.lexists(self.final):
            sync(self.path)
            os.rename(self.path, self.final)
        elif self._stays or not self._take_along(names) or not self._replace(names):
            self._mark_whole(names)
            self._fill()
        sync(os.path.dirname(self.final))

    def _publish_scripts(self) -> None:
        """DeepSpeed's zero_to_fp32.py and its like belong beside the tags."""
        for name in os.listdir(self.path):
            if name.endswith(".py"):
                # A tag may be a link to another file system.
                shutil.move(os.path.join(self.path, name), os.path.join(self._save_dir, name))

    def discard(self) -> None:
        is_going_in = os.path.exists(os.path.join(self.path, _WHOLE))
        if self._created is not None and self._identity() == self._created and not is_going_in:
            shutil.rmtree(self.path, ignore_errors=True)

    def _outdated(self, names: list[str]) -> list[str]:
        """Which entries the files `names` replace besides those of their names: of ranks that there are no more."""
        forms = {_form(name) for name in names}
        there = [entry for entry in os.listdir(self.final) if entry not in names]
        return [entry for entry in there if _form(entry) in forms or entry == _STOCK_SWAP]

    def _take_along(self, names: list[str]) -> bool:
        """Gives what stays a second name in the partial; directories follow when names are exchanged. False: another
        user's cannot go there.
        """
        outdated = self._outdated(names)
        found = os.stat(self.final)
        if not os.access(self.final, os.W_OK, effective_ids=True):
            return False
        for entry in os.listdir(self.final):
            path = os.path.join(self.final, entry)
            if entry in names or entry in outdated:
                continue
            if os.path.isdir(path) and not os.path.islink(path):
                is_fixed = _is_mount(path) or found.st_mode & stat.S_ISVTX
                if is_fixed or not os.access(path, os.W_OK, effective_ids=True):
                    return False
                continue
            try:
                os.link(path, os.path.join(self.path, entry), follow_symlinks=False)
            except OSError:
                return False
        return True

    def _replace(self, names: list[str]) -> bool:
        """False: the directory cannot be renamed, as where something is mounted."""
        sync(self.path)
        try:
            is_exchanged = _exchange(self.path, self.final)
            if not is_exchanged:
                os.rename(self.final, self._previous)
        except OSError as failure:
            if failure.errno in (errno.EXDEV, errno.EBUSY, errno.EPERM, errno.EACCES):
                return False
            raise
        if not is_exchanged:
            os.rename(self.path, self.final)
        old = self.path if is_exchanged else self._previous
        self._move_directories(old)
        self._move_late(old, names)
        _give_access(old, self.final)
        shutil.rmtree(old, ignore_errors=True)
        if os.path.isdir(old):
            messages.note(f"{old} is the checkpoint that was at {self.final} before; it cannot be removed")
        return True

    def _mark_whole(self, names: list[str]) -> None:
        mark = os.path.join(self.path, _WHOLE)
        _write_safe(f"{mark}.new", "\n".join(names))
        os.rename(f"{mark}.new", mark)  # a full disk leaves none that is cut short
        sync(self.path)

    def _fill(self) -> None:
        """File by file. Several ranks may do it at once, or again where a kill came between."""
        mark = os.path.join(self.path, _WHOLE)
        with contextlib.suppress(FileNotFoundError):  # another rank has done it
            with open(mark, encoding="utf-8") as file:
                names = file.read().split("\n")
            for number, name in enumerate(names):
                try:
                    os.replace(os.path.join(self.path, name), os.path.join(self.final, name))
                except FileNotFoundError:
                    continue
                except OSError:
                    if number == 0:  # nothing has changed
                        os.unlink(mark)
                    raise
            for entry in self._outdated(names):
                _remove(os.path.join(self.final, entry))
            sync(self.final)
            os.unlink(mark)
        shutil.rmtree(self.path, ignore_errors=True)


def _remove(path: str) -> None:
    """As far as that is allowed."""
    if os.path.isdir(path):
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            os.unlink(path)


def _is_mount(path: str) -> bool:
    """Also of a bind mount, whose device is that of its parent."""
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
            points = {re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), line.split(" ")[4]) for line in file}
    except OSError:
        points = set()
    return os.path.ismount(path) or os.path.realpath(path) in points


def _form(name: str) -> str:
    """The same for what DeepSpeed names alike for other ranks or experts."""
    return re.sub(r"\d+", "0", name)


def _give_access(old: str, new: str) -> None:
    """Those who could read and write the older directory can do so with its successor."""
    found, made = os.stat(old), os.stat(new)
    for owner, group in ((-1, found.st_gid), (found.st_uid, -1)):
        with contextlib.suppress(OSError):  # a file system or a user that cannot give files away
            if (made.st_uid, made.st_gid) != (found.st_uid, found.st_gid):
                os.chown(new, owner, group)
    with contextlib.suppress(OSError):
        shutil.copymode(old, new)


def write_latest(save_dir: str, tag: str) -> None:
    partial = os.path.join(save_dir, ".latest.partial")
    _write_safe(partial, tag)
    os.rename(partial, os.path.join(save_dir, "latest"))
    sync(save_dir)


def _write_safe(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def sync(directory: str) -> None:
    """Names in it survive a crash from here on."""
    descriptor = os.open(directory or ".", os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def free_bytes(path: str) -> int:
    space = os.statvfs(path)
    return space.f_bavail * space.f_frsize


def _exchange(one: str, other: str) -> bool:
    """Two names in one step; False where the file system cannot."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:
        return False
    if rename(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
        return False
    raise OSError(number, f"cannot rename {one} to {other}: {os.strerror(number)}", one)

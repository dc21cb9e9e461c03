"""Files and folders that appear whole or not at all.

They are written under a temporary name in the same place, `.NAME.PID-N-HOST.unfinished`, and then
renamed. No link is followed on the way: neither one with the temporary name nor one with the final
name. A kill leaves the temporary name behind; the next program that writes there removes it.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import platform
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

_NAME = re.compile(r"\..+\.(?P<process>\d{1,10})-\d+(?:-(?P<host>[0-9a-f]{8}))?\.unfinished", re.S)
"""Earlier versions did not write the host."""

_PARTS = re.compile(r"run\.json|\w+\.parquet")
_CAPTURES = "captures"

T = TypeVar("T")


def write_whole(path: Path, data: bytes, *, sync: bool = False) -> None:
    """Writes a file whole or not at all, in place of what has its name.

    Args:
        path: The file; its folder is made if needed.
        data: What it holds.
        sync: Whether it must be on the disk when this returns.

    Raises:
        OSError: It cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_unfinished(path.parent)
    temporary, descriptor = _new(path, lambda name: os.open(name, _WRITE, 0o666))
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            if sync:
                os.fsync(descriptor)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def make_unfinished(folder: Path) -> Path:
    """Makes the folder that is renamed to `folder` when all is in it.

    Raises:
        OSError: It cannot be made.
    """
    parent = folder.absolute().parent
    parent.mkdir(parents=True, exist_ok=True)
    remove_unfinished(parent)
    return _new(parent / folder.name, os.mkdir)[0]


def write_new(name: str, data: bytes, folder: int) -> None:
    """Writes a new file into an open folder, whatever happens to the folder's name meanwhile.

    Raises:
        OSError: It exists, or cannot be written.
    """
    with os.fdopen(os.open(name, _WRITE, 0o666, dir_fd=folder), "wb") as file:
        file.write(data)
        file.flush()
        # A file system with delayed allocation reports a full disk only now.
        os.fsync(file.fileno())


def is_unfinished(name: str) -> bool:
    """Whether a name is a temporary one.

    Examples:
        >>> is_unfinished(".a.123-0-0f0f0f0f.unfinished"), is_unfinished("a.unfinished")
        (True, False)
    """
    return _NAME.fullmatch(name) is not None


def remove_unfinished(parent: Path) -> None:
    """Removes what killed programs of this user and this machine left unfinished in a folder.

    What holds anything that narrows does not write stays.
    """
    with contextlib.suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            if _is_left(entry):
                with contextlib.suppress(OSError):
                    if entry.is_dir(follow_symlinks=False):
                        shutil.rmtree(entry.path)
                    else:
                        Path(entry).unlink()


_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def _new(path: Path, make: Callable[[Path], T]) -> tuple[Path, T]:
    """Makes something under the first free temporary name; existing ones, also links, are taken."""
    number = 0
    while True:
        name = f".{path.name}.{os.getpid()}-{number}-{_host()}.unfinished"
        try:
            return path.with_name(name), make(path.with_name(name))
        except FileExistsError:
            number += 1


@functools.cache
def _host() -> str:
    """Tells machines apart that share a file system: their processes have the same numbers."""
    return hashlib.sha256(platform.node().encode()).hexdigest()[:8]


def _is_left(entry: os.DirEntry[str]) -> bool:
    found = _NAME.fullmatch(entry.name)
    if found is None or found["host"] not in (None, _host()) or _lives(int(found["process"])):
        return False
    try:
        if entry.stat(follow_symlinks=False).st_uid != os.geteuid():
            return False
        if entry.is_dir(follow_symlinks=False):
            return all(_is_part(inside) for inside in _inside(entry.path))
        return found["host"] is not None and entry.is_file(follow_symlinks=False)
    except OSError:
        return False


def _is_part(entry: os.DirEntry[str]) -> bool:
    """Whether narrows writes something with this name into a run folder."""
    if entry.name == _CAPTURES and entry.is_dir(follow_symlinks=False):
        return all(
            each.name.endswith(".pcapng") and each.is_file(follow_symlinks=False)
            for each in _inside(entry.path)
        )
    return bool(_PARTS.fullmatch(entry.name)) and entry.is_file(follow_symlinks=False)


def _inside(path: str) -> Iterator[os.DirEntry[str]]:
    with os.scandir(path) as entries:
        yield from entries


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    except OverflowError:
        return False
    return True

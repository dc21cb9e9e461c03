"""Folders in which no other user can read, change or replace anything.

The temporary directory belongs to everybody. Whoever knows a name there before it is used can put a
link to somebody else's file in its place. So everything whose name can be foreseen lies here, and
everything else has a random name (`tempfile`).
"""

from __future__ import annotations

import contextlib
import errno
import os
import pwd
import stat
import tempfile
from pathlib import Path

_OTHERS = 0o077


def private_folder(name: str) -> Path:
    """The user's folder for notes and locks that later programs find again; makes it if needed.

    It lies below XDG_RUNTIME_DIR; without one, root's lies below /run, and other users' lie in the
    temporary directory.

    Args:
        name: A part of narrows.

    Raises:
        OSError: It cannot be made, belongs to another user, or others can look into it.
    """
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if Path(runtime).is_absolute() and Path(runtime).is_dir() and _only_ours(Path(runtime)):
        ours = Path(runtime) / "narrows"
    elif os.geteuid() == 0 and os.access("/run", os.W_OK):
        ours = Path("/run/narrows")
    else:
        ours = Path(tempfile.gettempdir()) / f"narrows-{os.geteuid()}"
    _make(ours)
    _make(ours / name)
    return ours / name


def open_lock(path: Path) -> int:
    """Opens a file for `flock`; makes it if needed, follows no link, and keeps its content.

    Raises:
        OSError: It cannot be opened, or it is a link.
    """
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def cache_folder() -> Path:
    """The user's folder for caches, which need not exist: XDG_CACHE_HOME, or .cache at home.

    Under sudo, both may be those of the user who called it, and programs lie in the cache. If
    another user than root could change what is there, it is .cache in the home that the system
    knows.
    """
    chosen = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    if _only_ours(chosen):
        return chosen
    try:
        return Path(pwd.getpwuid(os.geteuid()).pw_dir) / ".cache"
    except KeyError:
        return chosen


def _make(folder: Path) -> None:
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        found = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    if found.st_uid != os.geteuid():
        raise PermissionError(errno.EACCES, "belongs to another user", str(folder))
    if found.st_mode & _OTHERS:
        raise PermissionError(errno.EACCES, "is open to other users", str(folder))


def _only_ours(folder: Path) -> bool:
    """Whether nobody but this user and root can change what a path leads to."""
    ours = (0, os.geteuid())
    whole = Path(os.path.realpath(folder))
    for each in (whole, *whole.parents):
        try:
            found = each.lstat()
        except FileNotFoundError:
            continue
        except OSError:
            return False
        by_others = found.st_mode & stat.S_IWOTH
        # Many systems give each user a group of the same number.
        by_group = found.st_mode & stat.S_IWGRP and found.st_gid not in (0, os.getegid())
        is_sticky = found.st_mode & stat.S_ISVTX
        if found.st_uid not in ours or ((by_others or by_group) and not is_sticky):
            return False
    return True

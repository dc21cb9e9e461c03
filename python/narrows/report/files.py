"""Files beside a page: their names, and how they are written."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from narrows.results.errors import RunFolderError
from narrows.unfinished import write_whole


def file_name(text: str) -> str:
    """Any text as a name of files and of elements on a page: letters, digits, `-`, `_` and `.`.

    Nothing else makes names of files from names of links, groups and servers.

    Examples:
        >>> file_name("throughput-a/../b.forward"), file_name("..")
        ('throughput-a-..-b.forward', '-')
    """
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", text)
    if len(name) > _LONGEST_NAME:
        digest = hashlib.sha256(text.encode(errors="replace")).hexdigest()[:8]
        name = f"{name[:_LONGEST_NAME]}-{digest}"
    return name.lstrip(".") or "-"


_LONGEST_NAME = 100


def new_file(path: str | Path) -> Path:
    """The path of a file that is to be written and must not exist.

    Raises:
        RunFolderError: It exists.
    """
    target = Path(path)
    # A link to nothing would be replaced.
    if target.exists() or target.is_symlink():
        raise RunFolderError(target, "exists already", "choose another name")
    return target


def write_page(path: Path, text: str) -> Path:
    """Writes a page, or the data that stand beside it, whole or not at all.

    Raises:
        RunFolderError: It cannot be written.
    """
    return write_bytes(path, text.encode())


def write_bytes(path: Path, data: bytes) -> Path:
    """Writes a file whole or not at all.

    Raises:
        RunFolderError: It cannot be written.
    """
    try:
        write_whole(path, data)
    except OSError as error:
        raise RunFolderError.of_system(path, error) from None
    return path

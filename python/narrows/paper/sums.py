"""SHA256SUMS: the checksums of a folder's files, in the format of `sha256sum`."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from narrows.foreign_text import printable, regular_bytes
from narrows.results import RunFolderError

SUMS_FILE = "SHA256SUMS"
AGAIN = "again"
"""Where a reader's own runs go, which have no checksums."""

_LINE = re.compile(r"(?P<digest>[0-9a-f]{64}) [ *](?P<name>.+)")
_MOST_BYTES = 64 * 2**20
_CHUNK = 1 << 20


def sums_of(folder: Path) -> str:
    """The content of SHA256SUMS for the files in a folder."""
    names = sorted(name for name, is_file in _files(folder) if is_file and name != SUMS_FILE)
    return "".join(f"{_digest(folder / name)}  {name}\n" for name in names)


def check(folder: str | Path) -> list[str]:
    """Compares a folder with its SHA256SUMS.

    Args:
        folder: A folder that `narrows paper` wrote.

    Returns:
        A line for each file that is missing, has changed, was added, or is a link; none if the
        folder is as it was written.

    Raises:
        RunFolderError: The folder has no SHA256SUMS, or one with lines that are no checksums.
    """
    path = Path(folder)
    expected = read_sums(path)
    found = dict(_files(path))
    faults = [
        f"{printable(name)}: is no regular file" for name, is_file in found.items() if not is_file
    ]
    for name, digest in expected.items():
        if name not in found:
            faults.append(f"{name}: is missing")
        elif found[name] and _digest(path / name) != digest:
            faults.append(f"{name}: has changed")
    known = {*expected, SUMS_FILE}
    faults += [
        f"{printable(name)}: was added"
        for name, is_file in found.items()
        if is_file and name not in known
    ]
    return faults


def read_sums(folder: Path) -> Mapping[str, str]:
    """The digests in a folder's SHA256SUMS, by the names of files.

    Raises:
        RunFolderError: There is no such file, or it has other lines.
    """
    path = folder / SUMS_FILE
    try:
        if not folder.is_dir():
            what = "is not a folder" if folder.exists() else "does not exist"
            raise RunFolderError(folder, what, "name a folder that narrows paper wrote")
        if path.is_symlink() or not path.is_file():
            what = f"holds nothing to check ({SUMS_FILE} is missing)"
            raise RunFolderError(folder, what, "name a folder that narrows paper wrote")
        data = regular_bytes(path, _MOST_BYTES + 1)
    except OSError as error:
        raise RunFolderError.of_system(path, error) from None
    if len(data) > _MOST_BYTES:
        raise RunFolderError(path, f"is larger than {_MOST_BYTES} bytes")
    found: dict[str, str] = {}
    for number, line in enumerate(data.decode(errors="replace").splitlines(), 1):
        match = _LINE.fullmatch(line)
        if match is None or not _is_inside(match["name"]):
            raise RunFolderError(path, f"line {number} is no checksum of a file in the folder")
        found[match["name"]] = match["digest"]
    return found


def _is_inside(name: str) -> bool:
    parts = name.split("/")
    return name.isprintable() and not {"", ".", ".."} & set(parts)


def _files(folder: Path, below: str = "") -> Iterator[tuple[str, bool]]:
    """The names of everything but folders, and whether it is a regular file; follows no link."""
    try:
        with os.scandir(folder / below) as entries:
            for entry in sorted(entries, key=lambda each: each.name):
                name = f"{below}{entry.name}"
                if name == AGAIN:
                    continue
                if entry.is_dir(follow_symlinks=False):
                    yield from _files(folder, f"{name}/")
                else:
                    yield name, entry.is_file(follow_symlinks=False)
    except OSError as error:
        raise RunFolderError.of_system(folder / below, error) from None


def _digest(path: Path) -> str:
    found = hashlib.sha256()
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with os.fdopen(os.open(path, flags), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise OSError(errno.EINVAL, "is not a regular file", str(path))
            while chunk := file.read(_CHUNK):
                found.update(chunk)
    except OSError as error:
        raise RunFolderError.of_system(path, error) from None
    return found.hexdigest()

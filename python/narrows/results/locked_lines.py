"""A file of JSON lines that one process at a time fills.

A lock on the file ensures this, and disappears with the process, however that ends. A process that
is killed, or finds the disk full, loses only the line that it writes.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from pathlib import Path
from typing import Any, Self

from narrows.results.errors import RunFolderError


class LockedLines:
    """What the folders of an unfinished sweep and of an unfinished bench have in common."""

    _file: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Releases the folder."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _lock(self, folder: Path, by: str, hint: str) -> None:
        """Locks the file.

        Raises:
            RunFolderError: Another process has locked it.
        """
        assert self._file is not None, "it was opened"
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunFolderError(folder, f"is being filled by another {by}", hint) from None

    def _append(self, path: Path, value: Any, *, sync: bool = False) -> None:
        """Appends a line to the file, which has this path.

        Raises:
            RunFolderError: It cannot be written, as on a full disk; earlier lines stay.
        """
        assert self._file is not None, "it was opened"
        line = (json.dumps(value, separators=(",", ":")) + "\n").encode()
        end = os.lseek(self._file, 0, os.SEEK_END)
        try:
            written = 0
            while written < len(line):
                written += os.write(self._file, line[written:])
            if sync:
                os.fsync(self._file)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, end)
            raise RunFolderError.of_system(path, error) from None

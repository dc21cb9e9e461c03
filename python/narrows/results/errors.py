"""The error for run folders."""

from __future__ import annotations

import errno
from pathlib import Path

from narrows.errors import HintedError


class RunFolderError(HintedError):
    """A run folder that cannot be read or written; its text is one line.

    Examples:
        >>> str(RunFolderError("runs/a", "already holds a run", "choose another folder"))
        'runs/a: already holds a run; hint: choose another folder'
    """

    @classmethod
    def of_system(cls, path: str | Path, error: OSError) -> RunFolderError:
        """Makes the error for something that the operating system refused at ``path``."""
        what = (error.strerror or str(error)).lower()
        return cls(path, what, _HINTS.get(error.errno or 0, ""))


_HINTS = {
    errno.ENOSPC: "free some space or choose another folder",
    errno.EDQUOT: "free some space or choose another folder",
    errno.EFBIG: "choose a folder on another file system",
    errno.EACCES: "choose a place where you may read and write",
    errno.EPERM: "choose a place where you may read and write",
    errno.EROFS: "choose a place where you may read and write",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.ENOTDIR: "choose another folder",
    errno.ENOTEMPTY: "choose a new or empty folder",
}

"""What can be wrong with a run folder."""

from __future__ import annotations

import errno
from pathlib import Path

from narrows.errors import NarrowsError, one_line

__all__ = ["RunFolderError"]


class RunFolderError(NarrowsError):
    """A run folder that cannot be read or written; its text is one line.

    Attributes:
        path: The folder or file.
        message: What is wrong.
        hint: The mend; empty where there is none to offer.

    Examples:
        >>> str(RunFolderError("runs/a", "holds a run already", "choose another folder"))
        'runs/a: holds a run already; hint: choose another folder'
    """

    def __init__(self, path: str | Path, message: str, hint: str = "") -> None:
        super().__init__(path, message, hint)
        self.path = Path(path)
        self.message = one_line(message)
        self.hint = one_line(hint)

    @classmethod
    def of_system(cls, path: str | Path, error: OSError) -> RunFolderError:
        """What the operating system refused at ``path``, with the mend where there is one."""
        what = (error.strerror or str(error)).lower()
        return cls(path, what, _HINTS.get(error.errno or 0, ""))

    def __str__(self) -> str:
        text = f"{one_line(str(self.path))}: {self.message}"
        return f"{text}; hint: {self.hint}" if self.hint else text


_HINTS = {
    errno.ENOSPC: "free some space or choose another folder",
    errno.EDQUOT: "free some space or choose another folder",
    errno.EFBIG: "choose a folder on another file system",
    errno.EACCES: "choose a place that you may read and write",
    errno.EPERM: "choose a place that you may read and write",
    errno.EROFS: "choose a place that you may read and write",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.ENOTDIR: "choose another folder",
    errno.ENOTEMPTY: "choose a new or empty folder",
}

"""What can be wrong with a run folder."""

from __future__ import annotations

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

    def __str__(self) -> str:
        text = f"{one_line(str(self.path))}: {self.message}"
        return f"{text}; hint: {self.hint}" if self.hint else text

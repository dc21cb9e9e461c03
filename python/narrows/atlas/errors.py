"""What can be wrong with a file of Atlas results or probes."""

from __future__ import annotations

from pathlib import Path

from narrows.errors import NarrowsError, one_line

__all__ = ["AtlasError"]


class AtlasError(NarrowsError):
    """A file that cannot be used; its text is one line.

    Examples:
        >>> str(AtlasError("a.json", "holds no DNS result", "download one"))
        'a.json: holds no DNS result; hint: download one'
    """

    def __init__(self, path: str | Path, message: str, hint: str = "") -> None:
        super().__init__(path, message, hint)
        self.path = Path(path)
        self.message = one_line(message)
        self.hint = one_line(hint)

    def __str__(self) -> str:
        text = f"{one_line(str(self.path))}: {self.message}"
        return f"{text}; hint: {self.hint}" if self.hint else text

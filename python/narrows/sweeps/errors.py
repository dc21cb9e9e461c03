"""What can be wrong with a sweep as a whole."""

from __future__ import annotations

from narrows.errors import NarrowsError, one_line

__all__ = ["SweepError"]


class SweepError(NarrowsError):
    """A sweep that is invalid or cannot go on; its text is one line.

    Examples:
        >>> str(SweepError("--vary queue.limit", "has no values", "such as queue.limit=100,500"))
        '--vary queue.limit: has no values; hint: such as queue.limit=100,500'
    """

    def __init__(self, what: str, message: str, hint: str = "") -> None:
        super().__init__(what, message, hint)
        self.what = one_line(what)
        self.message = one_line(message)
        self.hint = one_line(hint)

    def __str__(self) -> str:
        text = ": ".join(part for part in (self.what, self.message) if part)
        return f"{text}; hint: {self.hint}" if self.hint else text

"""What keeps a probe from asking."""

from __future__ import annotations

from narrows.errors import NarrowsError, one_line

__all__ = ["ProbeError"]


class ProbeError(NarrowsError):
    """A server, address or setting with which nothing can be asked; its text is one line.

    Examples:
        >>> str(ProbeError("ns.example", "does not resolve", "check the name"))
        'ns.example: does not resolve; hint: check the name'
    """

    def __init__(self, what: str, message: str, hint: str = "") -> None:
        super().__init__(what, message, hint)
        self.what = one_line(what)
        self.message = one_line(message)
        self.hint = one_line(hint)

    def __str__(self) -> str:
        text = f"{self.what}: {self.message}"
        return f"{text}; hint: {self.hint}" if self.hint else text

"""What can be wrong with a sweep as a whole."""

from __future__ import annotations

from narrows.errors import HintedError

__all__ = ["SweepError"]


class SweepError(HintedError):
    """A sweep that is invalid or cannot go on; its text is one line.

    Examples:
        >>> str(SweepError("--vary queue.limit", "has no values", "such as queue.limit=100,500"))
        '--vary queue.limit: has no values; hint: such as queue.limit=100,500'
    """

"""The error for a file of Atlas results or probes."""

from __future__ import annotations

from narrows.errors import HintedError


class AtlasError(HintedError):
    """A file that cannot be used; its text is one line.

    Examples:
        >>> str(AtlasError("a.json", "holds no DNS result", "download one"))
        'a.json: holds no DNS result; hint: download one'
    """

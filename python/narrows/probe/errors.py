"""Errors that keep a probe from asking."""

from __future__ import annotations

from narrows.errors import HintedError


class ProbeError(HintedError):
    """A server, address or setting with which nothing can be asked; its text is one line.

    Examples:
        >>> str(ProbeError("ns.example", "does not resolve", "check the name"))
        'ns.example: does not resolve; hint: check the name'
    """

"""Studies of our own questions, each with many runs: `narrows study`.

A study is a folder beside this file, built like a paper's reproduction. Its `README.md` says what
we expected before it ran, and what it found.

>>> from narrows.study import names
>>> names()
['dns-transport']
"""

from __future__ import annotations

from narrows.study.dns_transport import Study, dns_transport

__all__ = ["Study", "dns_transport", "names"]


def names() -> list[str]:
    """The studies' names."""
    return ["dns-transport"]

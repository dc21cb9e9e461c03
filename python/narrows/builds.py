"""Which narrows this is: its version, and the build of its simulator."""

from __future__ import annotations

from narrows import _core
from narrows.foreign_text import shortened


def named(version: object, build: object) -> str:
    """A version and a build in words.

    Examples:
        >>> named("0.1.0", "3f2a9c0d11aa")
        '0.1.0 (3f2a9c0d11aa)'
        >>> named("0.1.0", None)
        '0.1.0'
        >>> len(named("0.1.0", 10_000_000 * "f"))
        51
    """
    short = shortened(str(version), _LONGEST)
    return f"{short} ({shortened(str(build), _LONGEST)})" if build else short


_LONGEST = 40
"""The most characters of a version or a build: a run's may come from other people."""


THIS = named(_core.version, _core.build)
"""This narrows, as `narrows --version` prints it."""

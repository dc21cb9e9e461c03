"""Which narrows this is: its version, and the build of its simulator."""

from __future__ import annotations

from narrows import _core


def named(version: object, build: object) -> str:
    """A version and a build in words.

    Examples:
        >>> named("0.1.0", "3f2a9c0d11aa")
        '0.1.0 (3f2a9c0d11aa)'
        >>> named("0.1.0", None)
        '0.1.0'
    """
    return f"{version} ({build})" if build else str(version)


THIS = named(_core.version, _core.build)
"""This narrows, as `narrows --version` prints it."""

"""Names for the folders that commands write."""

from __future__ import annotations

from pathlib import Path


def free_folder(parent: Path, name: str) -> Path:
    """`NAME-1` in ``parent``, or with the next number that is free."""
    number = 1
    while (parent / f"{name}-{number}").exists():
        number += 1
    return parent / f"{name}-{number}"

"""Data that narrows may read in its tests but not distribute.

The data are next to the checkout, in `../shared/data`, or where NARROWS_SHARED says. If they are
missing, their tests skip; if CI is set, when nothing may skip, the tests are not collected.
"""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).parents[1]
SHARED = Path(os.environ.get("NARROWS_SHARED", ROOT.parent / "shared"))
DATA = SHARED / "data"
REASON = f"{DATA} is absent: these sets may not be distributed (NARROWS_SHARED says where)"


def absent(folder: str) -> bool:
    """Whether a folder of the data is not there."""
    return not (DATA / folder).is_dir()


def not_collected(folder: str, file: str) -> list[str]:
    """Files for a conftest's `collect_ignore`."""
    return [file] if absent(folder) and os.environ.get("CI") else []

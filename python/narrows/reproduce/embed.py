"""Pictures inside an HTML page, so that the page is one file."""

from __future__ import annotations

import base64
from pathlib import Path


def embedded(picture: Path) -> str:
    """A PNG file as a `data:` address (RFC 2397)."""
    return "data:image/png;base64," + base64.b64encode(picture.read_bytes()).decode("ascii")

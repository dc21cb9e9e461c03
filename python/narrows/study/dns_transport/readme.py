"""The generated parts of documents about the study, from the `result.json` beside this file.

A part stands between two comments, of which the first says what it is: the sentences for somebody,
those that stand for the whole, or how large the study was.

    <!-- from the study: dns operator -->
    <!-- from the study: headlines -->
    <!-- from the study: size -->
    <!-- end -->

`tools/study_results.py FOLDER` writes them; a test holds them against each other.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from typing import Any

__all__ = ["filled"]

_PART = re.compile(r"(<!-- from the study: (.+?) -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def filled(text: str, result: Mapping[str, Any]) -> str:
    """A document with its parts as `result`, the study's document, has them."""
    return _PART.sub(lambda found: found[1] + _part(found[2], result) + found[4], text)


def _part(what: str, result: Mapping[str, Any]) -> str:
    if what == "size":
        seeds = len(result["seeds"])
        quick = "`--quick`: " if result["settings"].get("quick") else ""
        text = (
            f"{quick}{result['cell_count']:,} cells, {seeds} seeds, {result['runs']:,} runs; "
            f"narrows {result['narrows']}."
        )
        return textwrap.fill(text, 120) + "\n"
    texts = [
        each["text"]
        for each in result["sentences"]
        if each["for"] == what or (what == "headlines" and each["headline"])
    ]
    return "".join(
        textwrap.fill(text, 120, initial_indent="- ", subsequent_indent="  ") + "\n"
        for text in texts
    )

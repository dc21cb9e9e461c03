"""The generated parts of documents about the study, from the `result.json` beside this file.

Each part is between two comments. The first says which part it is: the sentences for a reader,
their tables, the headlines of the whole study, or the size of the study.

    <!-- from the study: dns operator -->
    <!-- from the study: tables: dns operator -->
    <!-- from the study: headlines -->
    <!-- from the study: size -->
    <!-- end -->

`tools/study_results.py FOLDER` writes them. A test checks that they agree.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from typing import Any

__all__ = ["filled"]

TABLES = "tables: "

WIDTH = 100
"""The width of prose, in columns."""

_PART = re.compile(r"(<!-- from the study: (.+?) -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def filled(text: str, result: Mapping[str, Any]) -> str:
    """A document whose generated parts come from `result`, the study's document."""
    return _PART.sub(lambda found: found[1] + _part(found[2], result) + found[4], text)


def _part(what: str, result: Mapping[str, Any]) -> str:
    if what == "size":
        seeds = len(result["seeds"])
        quick = "`--quick`: " if result["settings"].get("quick") else ""
        text = (
            f"{quick}{result['cell_count']:,} cells, {seeds} seeds, {result['runs']:,} runs; "
            f"narrows {result['narrows']}."
        )
        return _lines(text) + "\n"
    if what.startswith(TABLES):
        return "\n".join(
            _table(each) for each in result["tables"] if each["for"] == what.removeprefix(TABLES)
        )
    return "".join(
        _lines(_text(each), "- ") + "\n"
        for each in result["sentences"]
        if each["for"] == what or (what == "headlines" and each["headline"])
    )


def _lines(text: str, mark: str = "") -> str:
    """Wraps text. It does not break names at hyphens, because a break would look like a space."""
    return textwrap.fill(
        text,
        WIDTH,
        initial_indent=mark,
        subsequent_indent=" " * len(mark),
        break_on_hyphens=False,
    )


def _text(sentence: Mapping[str, Any]) -> str:
    advice = sentence["advice"]
    return f"**{advice}** {sentence['text']}" if advice else str(sentence["text"])


def _table(table: Mapping[str, Any]) -> str:
    """A table in Markdown, with right-aligned numbers."""
    columns = table["columns"]
    rows = [columns, ["---", *(["---:"] * (len(columns) - 1))], *table["rows"]]
    lines = "".join(f"| {' | '.join(row)} |\n" for row in rows)
    return _lines(f"{table['title']}:") + f"\n\n{lines}"

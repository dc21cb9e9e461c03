"""The generated parts of the study's README, from the `result.json` beside it.

Each part is between two comments. The first says which part it is: the tables of a heading, their
notes, or the size of the study. The sentences around them are written by hand.

    <!-- from the study: For DNS operators -->
    <!-- from the study: notes -->
    <!-- from the study: size -->
    <!-- end -->

`tools/study_results.py FOLDER` writes them. A test checks that they agree.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from typing import Any

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
    if what == "notes":
        return "".join(f"{_lines(note, '- ')}\n" for note in result["notes"])
    return "\n".join(_table(each) for each in result["tables"] if each["heading"] == what)


def _lines(text: str, mark: str = "") -> str:
    """Wraps text. It does not break names at hyphens, because a break would look like a space."""
    return textwrap.fill(
        text,
        WIDTH,
        initial_indent=mark,
        subsequent_indent=" " * len(mark),
        break_on_hyphens=False,
    )


def _table(table: Mapping[str, Any]) -> str:
    """A table in Markdown, with right-aligned numbers."""
    columns = table["columns"]
    rows = [columns, ["---", *(["---:"] * (len(columns) - 1))], *table["rows"]]
    lines = "".join(f"| {' | '.join(row)} |\n" for row in rows)
    return _lines(f"{table['title']}:") + f"\n\n{lines}"

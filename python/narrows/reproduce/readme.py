"""The generated parts of a reproduction's README, from the `result.json` beside it.

Another file beside the README, such as the `kernel.json` of runs on a kernel, may take its place.

Each part is between two comments. The first says which part it is:

    <!-- from result.json: summary -->
    <!-- from result.json: verdicts -->
    <!-- from result.json: table TITLE -->
    <!-- end -->

`make results` runs the reproductions and writes both. A test checks that they agree.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from narrows.reproduce.claims import MOST_SEEDS, Verdict
from narrows.reproduce.output import number

Entry = Mapping[str, Any]

WIDTH = 100
"""Columns at which prose wraps."""


def filled(text: str, result: Entry, file: str = "result.json") -> str:
    """Fills in the parts of a README that come from a file.

    Args:
        text: The README.
        result: The file's content, of one paper.
        file: Its name.

    Raises:
        KeyError: A part is of a table that the result does not have.
    """
    part = rf"(<!-- from {re.escape(file)}: (.+?) -->\n)(.*?)(<!-- end -->)"
    return re.sub(
        part, lambda found: found[1] + _part(found[2], result) + found[4], text, flags=re.DOTALL
    )


def _part(what: str, result: Entry) -> str:
    if what == "summary":
        paper = result["papers"][0]
        return _wrapped(" ".join([*paper.get("headline", []), *paper["summary"]]))
    if what == "verdicts":
        return _counts(result) + "\n" + _verdicts(result["claims"])
    title = what.removeprefix("table ")
    for table in result["tables"]:
        if table["title"] == title:
            note = "\n" + _wrapped(table["note"]) if table["note"] else ""
            return f"**{title}**\n\n{_table(table['columns'], table['rows'])}{note}"
    raise KeyError(f"result.json has no table {title!r}")


def _wrapped(text: str) -> str:
    return textwrap.fill(text, WIDTH) + "\n"


def _counts(result: Entry) -> str:
    verdicts = [claim["verdict"] for claim in result["claims"]]
    counts = ", ".join(
        f"{verdict} {verdicts.count(verdict)}" for verdict in Verdict if verdict in verdicts
    )
    paper = result["papers"][0]
    rows = len(paper["sensitivity_rows"])
    many = "choice" if rows == 1 else "choices"
    without = "without other choices, so no claim gets the verdict depends"
    tried = f"{rows} other {many}" if rows else without
    return _wrapped(f"{len(verdicts)} metrics, {paper['seeds']} seeds, {tried}: {counts}.")


def _verdicts(claims: Sequence[Entry]) -> str:
    rows = []
    for claim in claims:
        unit = f", {claim['unit']}" if claim["unit"] else ""
        note = f" ({claim['note'].rstrip('.')})" if claim["note"] else ""
        reason = f". {claim['reason']}" if claim["reason"] else ""
        rows.append(
            [
                claim["id"],
                f"{claim['metric']}{unit}{note}",
                claim["worded"] or f"{number(claim['published'])} ± {claim['tolerance']:g}",
                _ours(claim),
                _verdict(claim) + reason,
            ]
        )
    return _table(["id", "claim", "published", "ours ± 95 %", "verdict, and why"], rows)


def _verdict(claim: Entry) -> str:
    if claim.get("within_reading"):
        return "undecided (within the reading error)"
    if claim["verdict"] == Verdict.UNDECIDED:
        needed = claim["seeds_needed"]
        seeds = f"about {needed}" if needed else f"more than {MOST_SEEDS}"
        return f"undecided ({seeds} seeds would decide)"
    if claim["flipped_by"]:
        return f"{claim['verdict']} (on {', '.join(claim['flipped_by'])})"
    return str(claim["verdict"])


def _ours(claim: Entry) -> str:
    mean, low, high = (claim[key] for key in ("measured", "ci_low", "ci_high"))
    if mean is None:
        return "-"
    if low is None or high is None:
        return number(mean)
    if abs((high - mean) - (mean - low)) > 1e-9 * max(1.0, abs(mean)):
        return f"{number(mean)} ({number(low)} to {number(high)})"
    return f"{number(mean)} ± {number((high - low) / 2.0)}"


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    def line(cells: Sequence[str]) -> str:
        return (
            "| " + " | ".join(cell.replace("\n", " ").replace("|", "\\|") for cell in cells) + " |"
        )

    rule = "| " + " | ".join("---" for _ in columns) + " |"
    return "\n".join([line(columns), rule, *map(line, rows)]) + "\n"

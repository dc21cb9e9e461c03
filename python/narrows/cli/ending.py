"""Ends commands that do many runs: prints failures and where the results are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from narrows.cli.failure import Exit, say

EXIT_CODES = """
Exit codes: 0 every run is complete; 1 some runs failed, and the others are kept; 2 bad input; 130
interrupted. After 1 or 130 the report covers the runs that are complete, and the same command runs
what is missing.
"""
"""For the help of commands that write a report about many runs."""

SHOWN_FAILURES = 3
"""The number of failed runs that the terminal shows; the rest are counted."""


def ended(
    status: str,
    failures: Sequence[str],
    *,
    others: str,
    wrote: Path | None,
    interrupted: str,
    failed: str = "",
    quiet: bool,
) -> Exit:
    """Prints what failed and where the results are, and returns the exit code.

    Args:
        status: `complete`; `partial` after an interrupt; `failed` if runs failed.
        failures: The runs that failed, a line for each.
        others: Where to find the failures that are not shown, in words.
        wrote: What the command wrote.
        interrupted: What follows the word "interrupted" after an interrupt.
        failed: A line for failed runs; empty for none.
        quiet: Whether to leave out the line on what was written.
    """
    for line in failures[:SHOWN_FAILURES]:
        say(f"failed: {line}")
    if len(failures) > SHOWN_FAILURES:
        say(f"failed: {len(failures) - SHOWN_FAILURES} more; {others}")
    if not quiet:
        say(f"wrote {wrote}")
    if status == "complete":
        return Exit.DONE
    if status == "partial":
        say(f"interrupted{interrupted}")
        return Exit.INTERRUPTED
    if failed:
        say(failed)
    return Exit.FAILED

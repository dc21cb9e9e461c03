"""What the commands of suites share: options, and how they end."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from narrows.cli.ending import ended
from narrows.cli.failure import Exit
from narrows.cli.options import option

if TYPE_CHECKING:
    from narrows.suites import SuiteRun

QueueOption = Annotated[
    str,
    option(
        "QUEUE",
        "The queue under test, with which the others are compared: a kind as in scenarios, with "
        'settings if you like, such as codel, "codel:target=1 ms,ecn=true" or '
        "'NAME={ kind = \"codel\", limit = 50 }'.",
        "--queue",
    ),
]

Against = Annotated[
    list[str] | None, option("QUEUE", "A queue to compare it with; may be repeated.", "--against")
]


def out_option(suite: str) -> Any:
    """The option of a suite's folder."""
    return option(
        "DIR",
        "The suite's folder. If it holds part of the suite, only the rest is run. "
        f"[default: runs/suite-{suite}]",
    )


def seeds_option(of: str) -> Any:
    """The option of the number of seeds."""
    return option("N", f"Runs of each {of}. [default: 5, with --quick 3]", min=1, max=1000)


def end_suite(run: SuiteRun, folder: Path, *, quiet: bool) -> Exit:
    """Prints what failed and where the report is, and returns the exit code."""
    return ended(
        run.status,
        run.failures,
        others="all are in suite.json",
        wrote=folder / "report.html",
        interrupted=f" after {run.runs.height} runs; the same command continues",
        quiet=quiet,
    )

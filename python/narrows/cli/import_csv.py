"""`narrows import csv`: other people's measurements into a run folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from narrows.cli.failure import Exit
from narrows.cli.folders import free_folder
from narrows.cli.options import Json, Quiet, argument, option

EXAMPLES = """\
# The first line names the columns: vantage, target, transport, started_s,
# total_ms, and if known query_ms, connect_ms, outcome and others.
narrows import csv samples/csv/example.csv --out runs/theirs
narrows ratio runs/theirs
"""


def command(
    files: Annotated[
        list[Path],
        argument(
            "FILE", "Tables with a header line; also as gz, bz2, xz or zst. - reads standard input."
        ),
    ],
    out: Annotated[
        Path | None, option("DIR", "The run folder. [default: runs/csv-1, -2, ..]")
    ] = None,
    json_output: Json = False,
    quiet: Quiet = False,
) -> Exit:
    """Read a table of DNS exchanges that any other tool measured into a run folder."""
    from narrows.cli.measured import saved
    from narrows.delimited import read_csv
    from narrows.results.folder import check_target

    folder = out or free_folder(Path("runs"), "csv")
    check_target(folder)
    return saved(read_csv(files), folder, json_output=json_output, quiet=quiet)

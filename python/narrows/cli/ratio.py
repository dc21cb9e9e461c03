"""`narrows ratio`: TCP against UDP, from measurements."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from narrows.cli.failure import say
from narrows.cli.folders import free_folder
from narrows.cli.options import (
    Json,
    Plots,
    Quiet,
    address_family,
    argument,
    lasting,
    option,
    plot_files,
)
from narrows.progress import shown

EXAMPLES = """\
# Prints where the ratios cluster and what that means for the server, and
# writes a report with plots and a map.
narrows ratio runs/k

# Several servers and days: a page for each server, and all of them in one
# plot.
narrows ratio runs/k runs/f runs/l --out roots

# IPv6 only. narrows compare k4 k6 then compares it with IPv4 in k4.
narrows ratio runs/k --family 6 --out k6
"""


def command(
    runs: Annotated[
        list[Path],
        argument(
            "RUN", "Run folders of narrows probe, narrows import or narrows run, one or more."
        ),
    ],
    window: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="The longest time between the two queries of a pair; any: no limit.",
        ),
    ] = "150s",
    family: Annotated[
        int | None, option("4|6", "Use only IPv4 or only IPv6.", callback=address_family)
    ] = None,
    noerror: Annotated[
        bool, typer.Option("--noerror", help="Use only replies with the code NOERROR.")
    ] = False,
    server: Annotated[
        list[str] | None,
        option(
            "NAME",
            "Use only this server: an address (with all its ports), an address with a port, "
            "or a name such as K-root; may be repeated.",
        ),
    ] = None,
    out: Annotated[
        Path | None, option("DIR", "Where the report goes. [default: runs/ratio-1, -2, ..]")
    ] = None,
    report: Annotated[
        bool, typer.Option("--report/--no-report", help="Write a report with plots.")
    ] = True,
    plots: Plots = None,
    json_output: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compare DNS response times over TCP and UDP: pairs, ratios, peaks, failures, a map."""
    from narrows.cli.measured import load
    from narrows.ratio import Rules, analyse
    from narrows.ratio.folder import RATIO_FILE, document
    from narrows.ratio.words import summary_text
    from narrows.results.folder import refuse_others

    kinds = plot_files(plots, written=report, needs="leave out --no-report")
    families = (4, 6) if family is None else (family,)
    rules = Rules(window_s=_window(window), families=families, noerror_only=noerror)
    folder = out or free_folder(Path("runs"), "ratio")
    refuse_others(folder, marks=[RATIO_FILE])
    analysis = analyse([load(run) for run in runs], rules, servers=server or ())
    if json_output:
        print(json.dumps(document(analysis), indent=2, allow_nan=False))
    else:
        summary_text(analysis).print(sys.stdout)
    if report:
        from narrows.ratio.report import write_ratio_report

        with shown("drawing", quiet=quiet) as update:
            path = write_ratio_report(analysis, folder, update, kinds)
        if not quiet:
            say(f"wrote {path}")


def _window(text: str) -> float:
    if text == "any":
        return float("inf")
    return lasting("--window", text)

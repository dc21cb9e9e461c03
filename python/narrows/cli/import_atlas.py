"""`narrows import atlas`: results of RIPE Atlas into a run folder."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Annotated

import typer

from narrows.cli.failure import Exit, UserError
from narrows.cli.folders import free_folder
from narrows.cli.options import Json, Quiet
from narrows.progress import shown

EXAMPLES = """\
# Prints the commands that fetch a day of K-root's results, and where the
# probes were.
narrows import atlas --download k --day 2026-11-01

# Reads them; narrows ratio runs/k compares TCP with UDP.
narrows import atlas atlas-k-*.jsonl --probes probes-2026-11-01.json \\
    --out runs/k
"""


def command(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FILE",
            help="Results as the API, the dumps or the probes give them; gz, bz2 or zst too.",
            show_default=False,
        ),
    ] = None,
    probes: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="The probe archive: where the probes are.", show_default=False
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="The run folder (default: runs/atlas-N).", show_default=False
        ),
    ] = None,
    download: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LETTER",
            help="Print how to download a day of this root server's results instead; "
            "all for every one; may be repeated.",
            show_default=False,
        ),
    ] = None,
    day: Annotated[
        str | None,
        typer.Option(
            metavar="YYYY-MM-DD",
            help="The day of --download, in UTC (default: yesterday).",
            show_default=False,
        ),
    ] = None,
    ipv6: Annotated[
        bool, typer.Option("--ipv6", help="With --download: IPv6 as well as IPv4.")
    ] = False,
    sites: Annotated[
        bool, typer.Option("--sites", help="With --download: which machine answered, too.")
    ] = False,
    json_output: Json = False,
    quiet: Quiet = False,
) -> Exit:
    """Read RIPE Atlas DNS results of any firmware since 2012 into a run folder.

    What cannot be used is counted by kind. A probe's refusal to ask (TU_BAD_ADDR) counts as not
    asked, never as the server's failure.
    """
    if download is not None:
        return _print_commands(download, day, ipv6, sites)
    if not files:
        raise UserError("no FILE is given; hint: --download k prints how to get some")
    from narrows.atlas import read_atlas
    from narrows.cli.measured import saved
    from narrows.results.folder import check_target

    folder = out or free_folder(Path("runs"), "atlas")
    check_target(folder)
    with shown("reading", quiet=quiet) as update:
        measurement = read_atlas(files, probes=probes, progress=update)
    return saved(measurement, folder, json_output=json_output, quiet=quiet)


def _print_commands(servers: list[str], day: str | None, ipv6: bool, sites: bool) -> Exit:
    from narrows.atlas import download_commands

    try:
        wanted = (
            dt.datetime.now(dt.UTC).date() - dt.timedelta(days=1)
            if day is None
            else dt.date.fromisoformat(day)
        )
    except ValueError:
        raise UserError(f"--day {day}: is no date; hint: such as 2026-11-01") from None
    families = (4, 6) if ipv6 else (4,)
    for line in download_commands(servers, wanted, families=families, sites=sites):
        print(line)
    return Exit.DONE

"""`narrows import atlas`: results of RIPE Atlas into a run folder."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Annotated

import typer

from narrows.cli.failure import Exit, UserError
from narrows.cli.folders import free_folder
from narrows.cli.options import Json, Quiet, argument, option
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
        argument("FILE", "Results from the API, the dumps or the probes; also as gz, bz2 or zst."),
    ] = None,
    probes: Annotated[
        Path | None, option("FILE", "The probe archive, which has the places of the probes.")
    ] = None,
    out: Annotated[
        Path | None, option("DIR", "The run folder. [default: runs/atlas-1, -2, ..]")
    ] = None,
    download: Annotated[
        list[str] | None,
        option(
            "LETTER",
            "Read nothing, but print the commands that download a day of this root server's "
            "results; all: of every root server; may be repeated.",
        ),
    ] = None,
    day: Annotated[
        str | None, option("YYYY-MM-DD", "The day of --download, in UTC. [default: yesterday]")
    ] = None,
    ipv6: Annotated[
        bool, typer.Option("--ipv6", help="With --download: also results over IPv6.")
    ] = False,
    sites: Annotated[
        bool, typer.Option("--sites", help="With --download: also which machine answered.")
    ] = False,
    json_output: Json = False,
    quiet: Quiet = False,
) -> Exit:
    """Read RIPE Atlas DNS results of any firmware since 2012 into a run folder.

    Results that cannot be used are counted by kind. If a probe refused to ask (TU_BAD_ADDR), the
    query counts as not asked, never as a failure of the server.
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
        raise UserError(f"--day {day}: is not a date; hint: such as 2026-11-01") from None
    families = (4, 6) if ipv6 else (4,)
    for line in download_commands(servers, wanted, families=families, sites=sites):
        print(line)
    return Exit.DONE

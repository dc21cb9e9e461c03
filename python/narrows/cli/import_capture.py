"""`narrows import capture`: captures and dnstap into a run folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from narrows.cli.failure import Exit, UserError, say
from narrows.cli.folders import free_folder
from narrows.cli.options import Json, Quiet
from narrows.progress import shown

if TYPE_CHECKING:
    from narrows.results import Measurement

EXAMPLES = """\
# A row for each DNS exchange and each connection: handshake, segments,
# how the length was cut, retransmissions, who closed.
narrows import capture dns.pcapng --out runs/dns

# Servers on other ports too.
narrows import capture *.pcap.gz --port 53 --port 8053
"""


def command(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE",
            help="pcap, pcapng or dnstap files; gz, bz2 or zst too.",
            show_default=False,
        ),
    ],
    port: Annotated[
        list[int] | None,
        typer.Option(
            metavar="PORT",
            help="Where DNS servers listen (default: 53); may be repeated.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="The run folder (default: runs/capture-N).", show_default=False
        ),
    ] = None,
    json_output: Json = False,
    quiet: Quiet = False,
) -> Exit:
    """Read DNS exchanges over UDP and TCP from captures, or from dnstap, into a run folder."""
    from narrows import _core
    from narrows.captures import read_captures, say_overview
    from narrows.cli.measured import saved
    from narrows.results.folder import check_target

    ports = port or [53]
    for number in ports:
        if not 0 < number < 65536:
            raise UserError(f"--port {number}: is no port; hint: 1 to 65535")
    folder = out or free_folder(Path("runs"), "capture")
    check_target(folder)
    with shown("reading", quiet=quiet) as update:
        measurement = read_captures(files, ports=ports, progress=update)
    code = saved(
        measurement,
        folder,
        json_output=json_output,
        quiet=quiet,
        notes=say_overview(measurement),
    )
    if measurement.exchanges.height and not quiet:
        say(_where_to_read_on(measurement, folder))
    if measurement.findings["watched_near"] == "server" and not quiet:
        say(
            "note: watched near the server, where an exchange takes no round trip; "
            "connections.ack_ms holds the clients' round trips"
        )
    unknown = measurement.findings["watched_near"] == "unknown"
    if unknown and measurement.connections.height and not quiet:
        say(
            "note: it is not known whether the capture was made near the client or the server: "
            f"{measurement.findings['watched_near_because']}; near a server, times hold no round "
            "trip"
        )
    cut = sum(
        remark["records"]
        for remark in measurement.findings["remarks"]
        if remark["kind"] in _core.cut_off_remarks
    )
    if cut and not quiet:
        say(
            f"note: the capture cut {cut} messages before the end of their question; their names "
            "and types are null; hint: tcpdump -s 0 keeps whole packets"
        )
    return code


def _where_to_read_on(measurement: Measurement, folder: Path) -> str:
    """A line that says what to look at next."""
    answered = measurement.exchanges.filter(outcome="answered")["transport"].unique()
    ratio = f"narrows ratio {folder} sets tcp against udp; "
    tables = f"{folder}/exchanges.parquet has a row for each query"
    if measurement.connections.height:
        tables += ", connections.parquet one for each connection"
    return f"read on: {ratio if {'udp', 'tcp'} <= set(answered) else ''}{tables}"

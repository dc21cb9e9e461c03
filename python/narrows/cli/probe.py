"""`narrows probe`: measures real DNS servers, and explains what it finds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from narrows.cli.failure import Exit, UserError
from narrows.cli.folders import free_folder
from narrows.cli.options import Json, Quiet, address_family, argument, option

EXAMPLES = """\
# Asks ten times for the root's SOA, over UDP and TCP, 5 s apart.
narrows probe 192.0.2.53

narrows probe ns1.example ns2.example --name example. --count 100 \\
    --interval 10s

narrows probe 192.0.2.53 --transport tcp --reuse --json | jq .findings

Exit codes: 0 a server answered, whatever the answers say; 1 no query was answered; 2 bad input; 130
interrupted. If a probe ended early, run.json in its folder has "status": "partial".
"""

ELSEWHERE = {"--port": "write the port after the server: SERVER:PORT, such as 192.0.2.53:5353"}


# Long: the arguments declare the options.
def command(
    servers: Annotated[
        list[str],
        argument(
            "SERVER",
            "Names or addresses, with a port if it is not the usual one: ns.example:5353, "
            "[2001:db8::1]:53. All transports use this port.",
        ),
    ],
    name: Annotated[str, typer.Option(metavar="NAME", help="The domain name to ask for.")] = ".",
    type: Annotated[str, typer.Option(metavar="TYPE", help="The record type to ask for.")] = "SOA",
    transport: Annotated[
        str,
        typer.Option(
            metavar="LIST",
            help="The transports of each round, in order: some of udp, tcp, tls and quic.",
        ),
    ] = "udp,tcp",
    count: Annotated[int | None, option("N", "Number of rounds. [default: 10]", min=1)] = None,
    interval: Annotated[
        str, typer.Option(metavar="TIME", help="Time from the start of one round to the next.")
    ] = "5s",
    timeout: Annotated[
        str,
        typer.Option(
            metavar="TIME", help="The longest that a query may take, including handshakes."
        ),
    ] = "5s",
    reuse: Annotated[
        bool, typer.Option("--reuse", help="Keep connections open from round to round.")
    ] = False,
    source: Annotated[
        list[str] | None,
        option("ADDRESS", "Send queries from this address of this machine; may be repeated."),
    ] = None,
    family: Annotated[
        int | None,
        option(
            "4|6",
            "Resolve server names to IPv4 (4) or IPv6 (6). [default: the system's first]",
            callback=address_family,
        ),
    ] = None,
    edns: Annotated[
        int,
        typer.Option(
            min=0,
            max=65_535,
            metavar="BYTES",
            help="The UDP payload size that EDNS offers; 0: no EDNS.",
        ),
    ] = 1232,
    nsid: Annotated[bool, typer.Option("--nsid", help="Ask which machine answers (NSID).")] = False,
    retry: Annotated[
        str | None,
        option(
            "NAME",
            "Repeat queries over UDP as this stub resolver does: glibc, windows-10, dig, "
            "systemd-resolved, ..",
        ),
    ] = None,
    tls_name: Annotated[
        str | None,
        option(
            "NAME", "The server name that TLS and QUIC send (SNI); certificates are not checked."
        ),
    ] = None,
    recursion: Annotated[bool, typer.Option("--recursion", help="Ask for recursion.")] = False,
    out: Annotated[
        Path | None,
        option("DIR", "The run folder; must not hold a run yet. [default: runs/probe-1, -2, ..]"),
    ] = None,
    json_output: Json = False,
    quiet: Quiet = False,
) -> Exit:
    """Measure DNS servers from this machine, over UDP, TCP, TLS and QUIC, and explain the results.

    Each round asks over every transport. The kernel's timestamps give the time of the handshake, of
    the query, and of both together. Refusals, resets, timeouts and truncated answers are counted
    separately. With CAP_NET_RAW, narrows also captures every segment.
    """
    from narrows.cli.probe_table import end_probe, live
    from narrows.probe import plan, probe
    from narrows.results.folder import check_target

    made = plan(
        servers,
        count=count,
        sources=source or (),
        transports=tuple(part.strip().lower() for part in transport.split(",") if part.strip()),
        interval_s=_seconds("--interval", interval),
        timeout_s=_seconds("--timeout", timeout),
        family=family,
        name=name,
        kind=type,
        reuse=reuse,
        edns=edns or None,
        nsid=nsid,
        recursion=recursion,
        retry=retry,
        tls_name=tls_name,
    )
    folder = out or free_folder(Path("runs"), "probe")
    check_target(folder)
    with live(made, quiet=quiet) as update:
        measurement = probe(made, update)
    return end_probe(measurement, folder, json_output=json_output, quiet=quiet)


def _seconds(option: str, text: str) -> float:
    from narrows import _core

    try:
        return _core.parse_span(text) / 1e12
    except ValueError as error:
        raise UserError(f"{option} {text}: {error}; hint: such as {option} 5s") from None

"""`narrows import capture`: captures and dnstap into a run folder."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

from narrows.cli.failure import Exit, UserError, say
from narrows.cli.folders import free_folder
from narrows.cli.options import Json, Quiet, argument, option
from narrows.progress import shown

EXAMPLES = """\
# Writes a row for each DNS exchange and each connection: handshake,
# segments, retransmissions, how the length was sent, who closed.
narrows import capture dns.pcapng --out runs/dns

# Reads the pieces of a capture as one, and servers on other ports, too.
narrows import capture *.pcap.xz --port 53 --port 8053
"""


def command(
    files: Annotated[
        list[Path],
        argument(
            "FILE",
            "pcap, pcapng or dnstap files, together one capture; also as gz, bz2, xz or zst. "
            "-: standard input.",
        ),
    ],
    port: Annotated[
        list[str] | None, option("PORT", "A port of DNS servers; may be repeated. [default: 53]")
    ] = None,
    out: Annotated[
        Path | None, option("DIR", "The run folder. [default: runs/capture-1, -2, ..]")
    ] = None,
    json_output: Json = False,
    quiet: Quiet = False,
) -> Exit:
    """Read DNS exchanges over UDP and TCP from captures, or from dnstap, into a run folder."""
    from narrows.captures import notes, read_captures, say_overview
    from narrows.cli.measured import saved
    from narrows.results.folder import check_target

    ports = [_port(text) for text in port or ["53"]]
    folder = out or free_folder(Path("runs"), "capture")
    check_target(folder)
    with shown("reading", quiet=quiet) as update:
        measurement = read_captures(files, ports=ports, progress=update)
    overview = say_overview(measurement)
    code = saved(measurement, folder, json_output=json_output, quiet=quiet, notes=overview)
    for line in () if quiet else notes(measurement, folder):
        say(line)
    return code


def _port(text: str) -> int:
    """The number of a port, 1 to 65535.

    Raises:
        UserError: The text is no such number.
    """
    if not re.fullmatch("[0-9]{1,5}", text) or not 0 < int(text) < 65536:
        hint = "give a number from 1 to 65535, and repeat --port for more ports"
        raise UserError(f"--port {text}: is not a port; hint: {hint}")
    return int(text)

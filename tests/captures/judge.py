"""Compares what narrows reads in captures with what tshark reads.

`python -m tests.captures.judge FOLDER...` looks at every file below the folders and prints a line
for each that differs without a known cause. It needs tshark, and the programs that come with it.

Of DNS on port 53 it compares the numbers of queries and replies over UDP and TCP, the number of TCP
streams, and the response times over UDP. tshark neither sorts packets nor drops copies, so editcap
and reordercap do that first where narrows says that it did.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import lzma
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from narrows.captures import CaptureError, read_captures
from narrows.results import Measurement

CAUSES = {
    "dnscap-dnso1tcp-midmiss.pcap": "tshark does not find its way back into the framing",
    "dnscap-do1t-nosyn-1nolen.pcap": "tshark takes a message without its length for two of TCP's",
    "tcpdump-dns_udp_2.pcap": "the capture cut the reply, and tshark gives no time then",
    "zeek-geneve-vxlan-dns.pcap": "the capture cut the reply, and tshark gives no time then",
}
"""Files in which narrows and tshark differ, by name, and why."""

_MAGIC = (
    (b"\x1f\x8b", gzip.decompress),
    (b"BZh", bz2.decompress),
    (b"\xfd7zXZ\0", lzma.decompress),
)
_CAPTURES = (
    *(bytes.fromhex(magic) for magic in ("a1b2c3d4", "d4c3b2a1", "a1b23c4d", "4d3cb2a1")),
    *(bytes.fromhex(magic) for magic in ("a1b2cd34", "34cdb2a1", "0a0d0d0a")),
)
_FIELDS = ("tcp.stream", "dns.flags.response", "dns.time")
_SECONDS = 120


@dataclass(frozen=True)
class Metrics:
    """What is compared."""

    udp_queries: int = 0
    udp_replies: int = 0
    tcp_queries: int = 0
    tcp_replies: int = 0
    tcp_streams: int = 0
    udp_times_ms: tuple[float, ...] = field(default=(), repr=False)

    def differ(self, other: Metrics) -> Iterator[str]:
        """What differs, in words."""
        for name in ("udp_queries", "udp_replies", "tcp_queries", "tcp_replies", "tcp_streams"):
            mine, theirs = getattr(self, name), getattr(other, name)
            if mine != theirs:
                yield f"{name.replace('_', ' ')}: narrows {mine}, tshark {theirs}"
        mine, theirs = self.udp_times_ms, other.udp_times_ms
        if len(mine) != len(theirs):
            yield f"udp times: narrows {len(mine)}, tshark {len(theirs)}"
        elif any(abs(a - b) > 2e-3 for a, b in zip(mine, theirs, strict=True)):
            yield "udp times differ"


@dataclass(frozen=True)
class Difference:
    """A file in which both do not see the same, and in what."""

    file: Path
    what: str


def judged(files: list[Path]) -> tuple[int, list[Difference]]:
    """How many files both read, and the differences without a known cause."""
    compared, found = 0, []
    with tempfile.TemporaryDirectory() as folder:
        for file in files:
            plain = _plain(file, Path(folder))
            if plain is None:
                continue
            compared += 1
            said = "; ".join(_compared(file, plain, Path(folder)))
            if said and file.name not in CAUSES:
                found.append(Difference(file, said))
    return compared, found


def _compared(file: Path, plain: Path, folder: Path) -> Iterator[str]:
    try:
        measurement = read_captures([file])
    except CaptureError as error:
        yield from (f"{what} ({error})" for what in Metrics().differ(look(plain)))
        return
    prepared = plain
    kinds = {remark["kind"] for remark in measurement.findings["remarks"]}
    if "out-of-order" in kinds:
        prepared = _run("reordercap", prepared, folder / "ordered")
    copies = "a packet that was captured twice"
    if copies in set(measurement.skipped["reason"]):
        prepared = _run("editcap", "-w", "0.01", prepared, folder / "single")
    yield from _metrics(measurement).differ(look(prepared))


def _metrics(measurement: Measurement) -> Metrics:
    exchanges = measurement.exchanges
    udp, tcp = (exchanges.filter(transport=transport) for transport in ("udp", "tcp"))
    answers = ("answered", "no-query-seen")
    again = sum(
        remark["records"]
        for remark in measurement.findings["remarks"]
        if remark["kind"] == "second-reply"
    )
    replies = udp.filter(udp["outcome"].is_in(answers))["replies"].fill_null(1).sum()
    return Metrics(
        udp_queries=int(udp.filter(udp["outcome"] != "no-query-seen")["attempts"].sum()),
        udp_replies=int(replies) + again,
        tcp_queries=int((tcp["outcome"] != "no-query-seen").sum()),
        tcp_replies=int(tcp["outcome"].is_in(answers).sum()),
        tcp_streams=measurement.connections.height,
        udp_times_ms=tuple(udp.filter(outcome="answered")["total_ms"].drop_nulls().sort()),
    )


def look(file: Path) -> Metrics:
    """What tshark sees in a file."""
    command = ["tshark", "-r", str(file), "-T", "fields", "-E", "header=y", "-E", "separator=/t"]
    # narrows waits for 60 s before it takes the same question for another query.
    command += ["-o", "dns.retransmission_timer:60"]
    command += ["-Y", "(udp.port == 53 || tcp.port == 53) && !icmp && !icmpv6"]
    command += [part for name in _FIELDS for part in ("-e", name)]
    done = subprocess.run(
        command, capture_output=True, text=True, errors="replace", timeout=_SECONDS, check=False
    )
    counts = {(tcp, reply): 0 for tcp in (False, True) for reply in (False, True)}
    streams, times = set(), []
    for row in csv.DictReader(io.StringIO(done.stdout), delimiter="\t"):
        tcp = bool(row["tcp.stream"])
        streams.add(row["tcp.stream"])
        # tshark 4.0 prints 1 and 0, other versions True and False.
        for flag in filter(None, row["dns.flags.response"].split(",")):
            counts[tcp, flag in {"1", "True"}] += 1
        if not tcp and row["dns.time"]:
            times += [1e3 * float(part) for part in row["dns.time"].split(",")]
    return Metrics(
        udp_queries=counts[False, False],
        udp_replies=counts[False, True],
        tcp_queries=counts[True, False],
        tcp_replies=counts[True, True],
        tcp_streams=len(streams - {""}),
        udp_times_ms=tuple(sorted(times)),
    )


def _plain(file: Path, folder: Path) -> Path | None:
    """The file, decompressed if it is compressed; None if it is no packet capture."""
    data = file.read_bytes()
    for magic, decompress in _MAGIC:
        if data.startswith(magic):
            try:
                data = decompress(data)
            except (OSError, EOFError, lzma.LZMAError):
                return None
            (folder / "plain").write_bytes(data)
            file = folder / "plain"
    return file if data.startswith(_CAPTURES) else None


def _run(program: str, *arguments: str | Path) -> Path:
    command = [program, *map(str, arguments)]
    subprocess.run(command, capture_output=True, timeout=_SECONDS, check=True)
    return Path(arguments[-1])


def main(folders: list[str]) -> int:
    """Judges the files below some folders; returns 1 if any differs."""
    if not folders or shutil.which("tshark") is None:
        print("usage: python -m tests.captures.judge FOLDER...; needs tshark", file=sys.stderr)
        return 2
    files = sorted(p for folder in folders for p in Path(folder).rglob("*") if p.is_file())
    compared, found = judged(files)
    for difference in found:
        print(f"{difference.file}: {difference.what}")
    print(f"{compared} captures, {len(found)} differ, {len(files) - compared} other files")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Captures of other projects' tests: each is read or refused with a reason; tshark agrees."""

from __future__ import annotations

from pathlib import Path

import pytest

from narrows.captures import CaptureError, read_captures
from tests.captures.judge import CAUSES
from tests.captures.tshark import NEEDS_TSHARK, agrees, look
from tests.shared_data import DATA, REASON, absent

FILES = sorted(p for p in (DATA / "pcap").glob("*") if p.suffix != ".md")

pytestmark = [
    pytest.mark.skipif(absent("pcap"), reason=REASON),
    pytest.mark.slow,
]

# Files in which tshark sees no DNS either: empty UDP payloads, and an invalid PPP protocol.
REFUSED = {
    "tcpdump-dns-zlip-1.pcap": "no DNS message",
    "tcpdump-dns-zlip-2.pcap": "no DNS message",
    "tcpdump-dns-zlip-3.pcap": "no DNS message",
    "tcpdump-dns_tcp_8053.pcap": "ports=8053",
    "tcpdump-dns_udp_8053.pcap": "ports=8053",
    "tcpdump-ppp_ip_udp_dns.pcap": "neither UDP nor TCP over IP",
}


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.name)
def test_every_file_is_read_or_refused_with_a_reason(file: Path) -> None:
    if file.name in REFUSED:
        with pytest.raises(CaptureError, match=REFUSED[file.name]):
            read_captures([file])
    else:
        assert read_captures([file]).exchanges.height > 0


def test_other_ports_are_read_when_named() -> None:
    for name in ("tcpdump-dns_tcp_8053.pcap", "tcpdump-dns_udp_8053.pcap"):
        exchanges = read_captures([DATA / "pcap" / name], ports=[8053]).exchanges
        assert exchanges["outcome"].to_list() == ["answered"]


@NEEDS_TSHARK
@pytest.mark.parametrize(
    "file",
    [
        path
        for path in FILES
        if path.suffix in (".pcap", ".pcapng")
        and path.name not in REFUSED
        and path.name not in CAUSES
    ],
    ids=lambda path: path.name,
)
def test_tshark_sees_the_same(file: Path) -> None:
    agrees(read_captures([file]), look(file))

"""DNS in tunnels, behind link types, and what is no DNS although its port is named."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from narrows.captures import CaptureError, read_captures
from tests.captures.written import SOA, Written, ip, reply_to, udp

MACS = bytes.fromhex("020000000001020000000002")
OUTER6 = bytes.fromhex("20010db800000000000000000000000120010db8000000000000000000000002")


def ethernet(packet: bytes, kind: int = 0x0800) -> bytes:
    return MACS + kind.to_bytes(2) + packet


def outer(protocol: int, payload: bytes) -> bytes:
    """Another IPv4 packet around it, whose addresses and identification are the tunnel's."""
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(payload), 99, 0, 64, protocol, 0)
    return head + bytes([192, 0, 2, 1, 192, 0, 2, 2]) + payload


def outer6(protocol: int, payload: bytes) -> bytes:
    return struct.pack("!IHBB", 6 << 28, len(payload), protocol, 64) + OUTER6 + payload


def over_udp(port: int, payload: bytes) -> bytes:
    return struct.pack("!4H", 55555, port, 8 + len(payload), 0) + payload


def vxlan(packet: bytes) -> bytes:
    return over_udp(4789, bytes([8, 0, 0, 0, 0, 0, 42, 0]) + ethernet(packet))


def geneve(packet: bytes) -> bytes:
    option = bytes([1, 2, 3, 1, 9, 9, 9, 9])
    return over_udp(6081, bytes([2, 0, 0x65, 0x58, 0, 0, 42, 0]) + option + ethernet(packet))


def gre(flags: int, kind: int, payload: bytes, fields: bytes = b"") -> bytes:
    return struct.pack("!HH", flags, kind) + fields + payload


def as6(packet: bytes) -> bytes:
    """The UDP datagram of an IPv4 packet, over IPv6."""
    back = packet[12] == 10 and packet[13] == 8
    ends = [b"\xfd" + b"\0" * 14 + b"\x01", b"\xfd" + b"\0" * 14 + b"\x02"]
    return (
        struct.pack("!IHBB", 6 << 28, len(packet) - 20, 17, 64)
        + b"".join(reversed(ends) if back else ends)
        + packet[20:]
    )


FRAMES: dict[str, Callable[[bytes], bytes]] = {
    "vxlan": lambda inner: ethernet(outer(17, vxlan(inner))),
    "vxlan over IPv6": lambda inner: ethernet(outer6(17, vxlan(inner)), 0x86DD),
    "vxlan in vxlan": lambda inner: ethernet(outer(17, vxlan(outer(17, vxlan(inner))))),
    "vxlan in Q-in-Q": lambda inner: (
        MACS + bytes.fromhex("88a80001810000020800") + outer(17, vxlan(inner))
    ),
    "vxlan-gpe": lambda inner: ethernet(
        outer(17, over_udp(4790, bytes([12, 0, 0, 1, 0, 0, 42, 0]) + inner))
    ),
    "geneve": lambda inner: ethernet(outer(17, geneve(inner))),
    "geneve in gre in ip": lambda inner: ethernet(
        outer(4, outer(47, gre(0, 0x0800, outer(17, geneve(inner)))))
    ),
    "gre": lambda inner: ethernet(outer(47, gre(0, 0x0800, inner))),
    "gre with checksum, key, sequence": lambda inner: ethernet(
        outer(47, gre(0xB000, 0x0800, inner, bytes(12)))
    ),
    "nvgre": lambda inner: ethernet(outer(47, gre(0x2000, 0x6558, ethernet(inner), bytes(4)))),
    "gre in udp": lambda inner: ethernet(outer(17, over_udp(4754, gre(0, 0x0800, inner)))),
    "erspan I": lambda inner: ethernet(outer(47, gre(0, 0x88BE, ethernet(inner)))),
    "erspan II": lambda inner: ethernet(
        outer(47, gre(0x1000, 0x88BE, ethernet(inner), bytes(4) + b"\x10" + bytes(7)))
    ),
    "erspan III": lambda inner: ethernet(
        outer(47, gre(0x1000, 0x22EB, ethernet(inner), bytes(4) + b"\x20" + bytes(11)))
    ),
    "erspan III with its subheader": lambda inner: ethernet(
        outer(
            47,
            gre(0x1000, 0x22EB, ethernet(inner), bytes(4) + b"\x20" + bytes(10) + b"\1" + bytes(8)),
        )
    ),
    "6in4": lambda inner: ethernet(outer(41, as6(inner))),
    "4in6": lambda inner: ethernet(outer6(4, inner), 0x86DD),
    "ip in ip": lambda inner: ethernet(outer(4, inner)),
    "mpls": lambda inner: ethernet(bytes.fromhex("0001003f0001113f") + inner, 0x8847),
    "ethernet over mpls": lambda inner: ethernet(
        bytes.fromhex("0001013f00000000") + ethernet(inner), 0x8847
    ),
    "pppoe": lambda inner: ethernet(
        struct.pack("!BBHHH", 0x11, 0, 1, 2 + len(inner), 0x21) + inner, 0x8864
    ),
    "etherip": lambda inner: ethernet(outer(97, b"\x30\0" + ethernet(inner))),
    "gtp-u": lambda inner: ethernet(
        outer(17, over_udp(2152, struct.pack("!BBHI", 0x30, 255, len(inner), 7) + inner))
    ),
    "gtp-u with an extension": lambda inner: ethernet(
        outer(
            17,
            over_udp(
                2152,
                struct.pack("!BBHIHBB", 0x34, 255, 8 + len(inner), 7, 0, 0, 0x85)
                + b"\x01\x10\0\0"
                + inner,
            ),
        )
    ),
    "tzsp": lambda inner: ethernet(
        outer(17, over_udp(37008, b"\1\0\0\1\x0a\1\x05\1" + ethernet(inner)))
    ),
}
NOT_FOR_TSHARK = {"ethernet over mpls"}
"""tshark wants to be told what a label carries."""

LINKS: dict[str, tuple[int, Callable[[bytes], bytes]]] = {
    "nflog": (
        239,
        lambda inner: (
            b"\x02\0\0\x2a"
            + struct.pack("<HHI", 8, 1, 3)
            + struct.pack("<HH", 5, 10)
            + b"\0\0\0\0"
            + struct.pack("<HH", 4 + len(inner), 9)
            + inner
        ),
    ),
    "pktap": (
        258,
        lambda inner: struct.pack("<III", 108, 1, 1) + bytes(96) + ethernet(inner),
    ),
    "pflog": (117, lambda inner: bytes([61, 2]) + bytes(62) + inner),
}


def written(link: int, wrap: Callable[[bytes], bytes]) -> Written:
    """A query and its reply after 20 ms."""
    plain = Written()
    plain.over_udp(0.0, 53, 20.0)
    capture = Written(link)
    for ms, packet in plain.frames:
        capture.frame(ms, wrap(packet))
    return capture


@pytest.mark.parametrize("name", FRAMES)
def test_dns_in_tunnels_is_read(tmp_path: Path, name: str) -> None:
    file = tmp_path / "tunnel.pcap"
    file.write_bytes(written(1, FRAMES[name]).bytes)
    (row,) = read_captures([file]).exchanges.to_dicts()
    assert (row["outcome"], row["qtype"], row["family"]) == (
        "answered",
        "SOA",
        6 if name == "6in4" else 4,
    )
    assert row["total_ms"] == pytest.approx(20.0)


def test_tshark_judges_the_same_tunnels() -> None:
    """test_judge.py asks tshark about this file, which holds all tunnels of this page."""
    capture = Written(1)
    names = [name for name in FRAMES if name not in NOT_FOR_TSHARK]
    for number, name in enumerate(names):
        message = (0x4000 + number).to_bytes(2) + SOA[2:]
        for ms, back, part in ((0.0, False, message), (20.0, True, reply_to(message))):
            packet = ip(back, 17, udp(back, part), number=number + 1)
            capture.frame(100.0 * number + ms, FRAMES[name](packet))
    file = Path(__file__).parent / "data" / "tunnels.pcap"
    assert file.read_bytes() == capture.bytes
    assert read_captures([file]).exchanges["outcome"].to_list() == ["answered"] * len(names)


@pytest.mark.parametrize("name", LINKS)
def test_link_types_of_packet_filters_are_read(tmp_path: Path, name: str) -> None:
    link, wrap = LINKS[name]
    file = tmp_path / "link.pcap"
    file.write_bytes(written(link, wrap).bytes)
    assert read_captures([file]).exchanges["outcome"].to_list() == ["answered"]


def test_tcp_in_a_tunnel_keeps_its_connections(tmp_path: Path) -> None:
    plain, capture = Written(), Written(1)
    plain.over_tcp(0.0, 53, 10.0)
    for ms, packet in plain.frames:
        capture.frame(ms, FRAMES["vxlan"](packet))
    (tmp_path / "tcp").write_bytes(capture.bytes)
    found = read_captures([tmp_path / "tcp"])
    assert found.exchanges["total_ms"].to_list() == pytest.approx([20.0])
    assert found.connections["ending"].to_list() == ["fin"]


def test_a_packet_inside_and_outside_a_tunnel_is_one(tmp_path: Path) -> None:
    capture = Written(1)
    for ms, back, message in ((0.0, False, SOA), (20.0, True, reply_to(SOA))):
        packet = ip(back, 17, udp(back, message))
        capture.frame(ms, FRAMES["vxlan"](packet))
        capture.frame(ms + 0.02, ethernet(packet))
    (tmp_path / "both").write_bytes(capture.bytes)
    found = read_captures([tmp_path / "both"])
    (row,) = found.exchanges.to_dicts()
    assert (row["attempts"], row["total_ms"]) == (1, pytest.approx(20.0))
    assert found.skipped["records"].to_list() == [2]


def test_tunnels_end_at_a_depth(tmp_path: Path) -> None:
    packet = ip(False, 17, udp(False, b"\1\2" + SOA[2:]))
    for depth, rows in ((8, 1), (9, 0)):
        nested = packet
        for _ in range(depth):
            nested = outer(4, nested)
        capture = Written()
        capture.frame(0.0, nested)
        capture.over_udp(100.0, 53, 10.0)
        (tmp_path / "deep").write_bytes(capture.bytes)
        assert read_captures([tmp_path / "deep"]).exchanges.height == 1 + rows


@pytest.mark.parametrize("port", [4789, 6081, 4754, 2152, 37008])
def test_a_client_may_ask_from_a_tunnel_s_port(tmp_path: Path, port: int) -> None:
    capture = Written()
    for ms, back, message in ((0.0, False, SOA), (20.0, True, reply_to(SOA))):
        ends = (53, port) if back else (port, 53)
        head = struct.pack("!4H", *ends, 8 + len(message), 0)
        capture.packet(ms, back, 17, head + message)
    (tmp_path / "odd").write_bytes(capture.bytes)
    assert read_captures([tmp_path / "odd"]).exchanges["outcome"].to_list() == ["answered"]


def test_a_tunnel_s_header_is_never_a_query(tmp_path: Path) -> None:
    """A VXLAN header with a network number read as DNS: number 0x0800, no question."""
    capture = Written(1)
    for count in range(3):
        capture.frame(float(count), FRAMES["vxlan"](ip(False, 1, bytes(8), number=count)))
        # What is no VXLAN either: a flag is missing.
        odd = over_udp(4789, bytes([0, 0, 0, 0, 0, 0, 42, 0]) + bytes([count]) * 40)
        capture.frame(count + 0.5, ethernet(outer(17, odd)))
    (tmp_path / "none").write_bytes(capture.bytes)
    with pytest.raises(CaptureError) as error:
        read_captures([tmp_path / "none"], ports=[4789])
    assert "a query without a question" in str(error.value) or "ICMP" in str(error.value)
    with pytest.raises(CaptureError) as error:
        read_captures([tmp_path / "none"])
    assert "`ports=4789` reads" not in str(error.value)


@pytest.mark.parametrize("port", [443, 853, 4789, 6081, 51820])
def test_encrypted_and_tunnels_ports_are_not_suggested(tmp_path: Path, port: int) -> None:
    capture = Written()
    for count in range(9):
        capture.packet(10.0 * count, False, 17, udp(False, bytes([count]) * 30, port=port))
    capture.over_udp(500.0, 5301, 10.0)
    (tmp_path / "other").write_bytes(capture.bytes)
    with pytest.raises(CaptureError, match=r"`ports=5301` reads the busiest other port$"):
        read_captures([tmp_path / "other"])


@pytest.mark.parametrize(
    ("protocol", "name"), [(50, "ESP"), (1, "ICMP"), (132, "SCTP"), (115, "L2TPv3")]
)
def test_a_refusal_names_the_protocol(tmp_path: Path, protocol: int, name: str) -> None:
    capture = Written()
    capture.packet(0.0, False, protocol, bytes(20))
    (tmp_path / "other").write_bytes(capture.bytes)
    with pytest.raises(CaptureError, match=name):
        read_captures([tmp_path / "other"])

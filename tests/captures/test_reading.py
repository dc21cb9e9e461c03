"""Captures of known servers: how they wrote replies, and what the rows say."""

from __future__ import annotations

import bz2
import gzip
import struct
from pathlib import Path
from typing import Any

import pytest

from narrows.captures import CaptureError, read_captures
from narrows.cli import main
from narrows.ratio import RatioError, Rules, analyse
from narrows.results import Measurement
from tests.captures.tshark import NEEDS_TSHARK, agrees, look
from tests.captures.written import Written

pytestmark = pytest.mark.slow

DATA = Path(__file__).parent / "data"
CAPTURES = sorted(path.name for path in DATA.glob("*.pcap*"))


def read(*names: str) -> Measurement:
    return read_captures([DATA / name for name in names])


def replies(name: str) -> list[tuple[str, list[int]]]:
    """How each reply over TCP was cut into segments."""
    rows = read(name).exchanges.filter(transport="tcp")
    return [(row[0], row[1]) for row in rows.select("prefix", "segment_bytes").iter_rows()]


def test_old_nsd_sends_the_length_by_itself_and_the_next_one_does_not() -> None:
    # Wijnen 2012: 2 bytes and the reply; with writev() one segment. Here the reply has 857 bytes.
    assert replies("nsd3213-soa.pcapng") == [("alone", [2, 857])]
    assert replies("nsd3214-soa.pcapng") == [("joined", [859])]


def test_a_length_written_byte_by_byte_is_split() -> None:
    assert {(prefix, sizes[0]) for prefix, sizes in replies("old-byte-soa.pcapng")} == {
        ("split", 1)
    }


def test_queries_on_one_connection_share_it() -> None:
    tcp = read("old-two-reuse.pcapng").exchanges.filter(transport="tcp")
    assert tcp["connection"].n_unique() == 1
    assert tcp["reused"].to_list() == [False, True, True]
    assert tcp["connect_ms"].is_null().to_list() == [False, True, True]
    # Two writes cost a second round trip of 40 ms each time.
    assert tcp["query_ms"].to_list() == pytest.approx([80, 80, 80], abs=8)
    assert tcp["total_ms"][0] == pytest.approx(120, abs=10)


def test_a_delayed_ack_shows_between_the_two_segments() -> None:
    tcp = read("old-two-delack.pcapng").exchanges.filter(transport="tcp")
    assert (tcp["query_ms"] - tcp["first_byte_ms"]).to_list() == pytest.approx([80] * 3, abs=10)


def test_large_replies_are_truncated_over_udp_and_come_in_segments_over_tcp() -> None:
    exchanges = read("unbound-big.pcapng").exchanges
    assert exchanges.filter(transport="udp")["truncated"].all()
    tcp = exchanges.filter(transport="tcp")
    assert (tcp["segments"] >= 3).all()
    assert (tcp["segment_bytes"].list.sum() == tcp["reply_bytes"] + 2).all()


def test_captures_of_several_interfaces_and_files_are_one_measurement() -> None:
    whole = read("two-interfaces.pcapng", "nsd3213-soa.pcapng")
    assert whole.connections["connection"].to_list() == list(range(7))
    assert whole.exchanges["connection"].drop_nulls().is_in(range(7)).all()
    assert whole.findings["watched_near"] == "client"


def test_dnstap_has_times_but_no_handshake() -> None:
    for transport in ("udp", "tcp"):
        row = read(f"kdig-{transport}.dnstap").exchanges.row(0, named=True)
        assert (row["transport"], row["outcome"], row["qtype"]) == (transport, "answered", "SOA")
        assert row["query_ms"] > 0.0
        assert (row["total_ms"] is None) == (transport == "tcp")
        assert row["segments"] is None


def test_ratios_come_of_captures_too() -> None:
    analysis = analyse([read("old-two-soa-nanoseconds.pcap")], Rules(window_s=float("inf")))
    assert analysis.table.height == 3
    assert analysis.whole.peaks.quantiles[0.5] == pytest.approx(3.0, abs=0.15)


def test_a_capture_near_the_server_is_told_and_warned_of(tmp_path: Path) -> None:
    # The same packets as the server sees them: the SYN/ACK at once, the ACK a round trip later.
    near = bytearray((DATA / "old-two-soa-nanoseconds.pcap").read_bytes())
    at = 24
    while at < len(near):
        fraction, kept = (int.from_bytes(near[at + p : at + p + 4], "little") for p in (4, 8))
        if near[at + 16 + 20 : at + 16 + 22] == b"\0\x35":
            # The server sends 40 ms before the client sees it, perhaps in the second before.
            moved = int.from_bytes(near[at : at + 4], "little") * 10**9 + fraction - 40_000_000
            near[at : at + 4] = (moved // 10**9).to_bytes(4, "little")
            near[at + 4 : at + 8] = (moved % 10**9).to_bytes(4, "little")
        at += 16 + kept
    (tmp_path / "near").write_bytes(near)
    measurement = read_captures([tmp_path / "near"])
    assert measurement.findings["watched_near"] == "server"
    assert measurement.connections["ack_ms"].to_list() == pytest.approx([40] * 3, abs=3)


@NEEDS_TSHARK
@pytest.mark.slow
@pytest.mark.parametrize("name", CAPTURES)
def test_tshark_sees_the_same(name: str) -> None:
    agrees(read(name), look(DATA / name))


def test_compressed_captures_are_read(tmp_path: Path) -> None:
    data = (DATA / "nsd3213-soa.pcapng").read_bytes()
    for name, packed in (("a.gz", gzip.compress(data, mtime=0)), ("b.bz2", bz2.compress(data))):
        (tmp_path / name).write_bytes(packed)
        assert read_captures([tmp_path / name]).exchanges.height == 2


def test_a_capture_cut_in_the_middle_keeps_what_was_read(tmp_path: Path) -> None:
    data = (DATA / "two-interfaces.pcapng").read_bytes()
    (tmp_path / "cut").write_bytes(data[: len(data) // 2 + 1])
    measurement = read_captures([tmp_path / "cut"])
    assert measurement.exchanges.height > 0
    reasons = dict(measurement.skipped.select("reason", "first").iter_rows())
    assert "ends within a packet" in reasons["the file is damaged from there on"]


def snapped(name: str, length: int, folder: Path) -> Path:
    """A pcap file as it would be with a snap length."""
    data = (DATA / name).read_bytes()
    cut, at = bytearray(data[:24]), 24
    while at < len(data):
        kept = int.from_bytes(data[at + 8 : at + 12], "little")
        now = min(kept, length)
        cut += data[at : at + 8] + now.to_bytes(4, "little") + data[at + 12 : at + 16 + now]
        at += 16 + kept
    (folder / "snapped.pcap").write_bytes(cut)
    return folder / "snapped.pcap"


IP, UDP, TCP, LENGTH, HEADER = 20, 8, 32, 2, 12
"""Bytes of each, TCP's with its timestamps (RFC 791, 768, 7323, 1035)."""


@pytest.mark.parametrize("question", range(5))
def test_names_and_types_that_the_capture_cut_off_are_null(tmp_path: Path, question: int) -> None:
    # A question about the root has 5 bytes: its name one, its type and its class two each.
    name = "old-two-soa-nanoseconds.pcap"
    cut = read_captures([snapped(name, IP + TCP + LENGTH + HEADER + question, tmp_path)])
    tcp, whole = (part.exchanges.filter(transport="tcp") for part in (cut, read(name)))
    assert whole["qtype"].to_list() == ["SOA"] * 3
    assert tcp["qname"].null_count() == tcp["qtype"].null_count() == 3
    same = ("outcome", "rcode", "total_ms", "reply_bytes", "segment_bytes", "prefix", "answers")
    assert tcp.select(same).equals(whole.select(same))
    # Three queries and three replies, whose messages have packets of their own: two bytes more.
    (remark,) = cut.findings["remarks"]
    assert "name and type the capture cut off" in remark["what"]
    assert remark["records"] == (6 if question + LENGTH < 5 else 3)
    # Over UDP the question is whole.
    assert cut.exchanges.filter(transport="udp")["qtype"].to_list() == ["SOA"] * 3
    with pytest.raises(RatioError) as error:
        analyse([cut])
    assert "tcp: 3 for a type that is not known" in str(error.value)
    assert "udp: 3 no TCP answer for the same type" in str(error.value)
    assert "tcpdump -s 0" in str(error.value)
    assert "within" not in str(error.value)


def test_a_header_that_the_capture_cut_off_is_known_as_far_as_it_goes(tmp_path: Path) -> None:
    name, before = "old-two-soa-nanoseconds.pcap", IP + TCP + LENGTH
    whole = read(name).exchanges.filter(transport="tcp")
    for known in range(HEADER):
        cut = read_captures([snapped(name, before + known, tmp_path)])
        tcp = cut.exchanges.filter(transport="tcp")
        what = [remark["what"] for remark in cut.findings["remarks"]]
        if known < 2:
            # Nothing tells to which query a reply belongs. Replies have two bytes more.
            assert tcp["outcome"].to_list() == ["no-query-seen"] * 3
            assert "a TCP message whose header the capture cut off" in what
            continue
        # RFC 1035, section 4.1.1: number, flags, code, and counts of questions and answers.
        assert tcp["total_ms"].to_list() == whole["total_ms"].to_list()
        of_reply = known + LENGTH
        assert tcp["truncated"].null_count() == (0 if of_reply > 2 else 3)
        assert tcp["rcode"].null_count() == (0 if of_reply > 3 else 3)
        assert tcp["answers"].null_count() == (0 if of_reply > 7 else 3)
        assert tcp["qtype"].null_count() == 3
    # Without its length, no message begins. A SYN without its options is one all the same.
    cut = read_captures([snapped(name, before - 1, tmp_path)])
    assert cut.connections.select("syn_ms", "ack_ms").equals(
        read(name).connections.select("syn_ms", "ack_ms")
    )
    assert cut.exchanges.filter(transport="tcp").height == 0
    assert "TCP bytes that belong to no message" in [r["what"] for r in cut.findings["remarks"]]


def fragments(message: bytes, cut: int) -> bytes:
    """A capture of a datagram in two fragments, each cut to `cut` bytes (RFC 791, 768)."""
    datagram = struct.pack("!4H", 4000, 53, 8 + len(message), 0) + message
    capture = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 101)
    for at, more in ((0, 0x2000), (64, 0)):
        part = datagram[at : at + 64] if more else datagram[at:]
        ends = bytes([10, 9, 0, 1, 10, 8, 0, 1])
        header = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(part), 7, more | at // 8, 64, 17, 0)
        packet = header + ends + part
        kept = packet[:cut]
        capture += struct.pack("<IIII", 1, at, len(kept), len(packet)) + kept
    return capture


@pytest.mark.parametrize(("cut", "name"), [(65535, True), (150, False), (60, False)])
def test_fragments_that_the_capture_cut_give_no_name(tmp_path: Path, cut: int, name: bool) -> None:
    # A name of three labels with 60 octets each. The packets have 84 and 164 bytes.
    question = b"".join(b"\x3c" + letter * 60 for letter in (b"a", b"b", b"c"))
    question += b"\0\0\x1c\0\x01"
    message = b"\x12\x34\0\0\0\x01\0\0\0\0\0\0" + question
    (tmp_path / "cut").write_bytes(fragments(message, cut))
    (row,) = read_captures([tmp_path / "cut"]).exchanges.to_dicts()
    assert row["query_bytes"] == len(message)
    assert (row["qtype"], row["qname"] is not None) == (("AAAA", True) if name else (None, False))


def test_what_the_capture_cut_off_is_counted_and_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = snapped("old-two-soa-nanoseconds.pcap", IP + UDP + HEADER, tmp_path)
    assert main(["import", "capture", str(file), "--out", str(tmp_path / "run")]) == 0
    said = capsys.readouterr()
    assert "name and type the capture cut off" in said.out
    assert "note: the capture cut off 6 messages" in said.err and "tcpdump -s 0" in said.err


def test_the_note_about_cut_messages_does_not_hang_on_the_words_of_remarks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def reworded(*given: Any, **settings: Any) -> Measurement:
        found = read_captures(*given, **settings)
        for remark in found.findings["remarks"]:
            remark["what"] = "other words"
        return found

    monkeypatch.setattr("narrows.captures.read_captures", reworded)
    for known, kind in ((0, "headless"), (HEADER, "no-question")):
        file = snapped("old-two-soa-nanoseconds.pcap", IP + TCP + LENGTH + known, tmp_path)
        assert kind in {remark["kind"] for remark in reworded([file]).findings["remarks"]}
        out = tmp_path / f"run-{known}"
        assert main(["import", "capture", str(file), "--out", str(out)]) == 0
        said = capsys.readouterr()
        assert "other words" in said.out
        assert "note: the capture cut" in said.err


def test_connections_with_tls_are_told_from_those_without_a_query(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, out = str(DATA / "tls/nsd.pcap"), str(tmp_path / "run")
    words = ["import", "capture", file, "--out", out, "--port"]
    assert main([*words, "53", "--port", "853"]) == 0
    said = capsys.readouterr()
    assert "a TCP connection that carries TLS" in said.out
    assert "without a query" not in said.out
    assert "note: 1 connection carries TLS, whose queries cannot be read; hint: " in said.err
    found = Measurement.load(out).findings["overview"]["tcp_connections"]
    assert found == {"used": 1, "tls": 1, "unused": 0, "queries": 1, "most": 1}
    words[4] = str(tmp_path / "other")
    assert main([*words, "853"]) == 2
    line = "holds no DNS on port 853 that can be read: 1 connection with TLS; hint: a server's dns"
    assert line in capsys.readouterr().err


def test_a_file_that_is_given_twice_is_refused() -> None:
    with pytest.raises(CaptureError, match="is given twice; hint: name each file once"):
        read("nsd3213-soa.pcapng", "nsd3214-soa.pcapng", "nsd3213-soa.pcapng")


def test_an_unknown_link_type_says_so(tmp_path: Path) -> None:
    data = bytearray((DATA / "old-two-soa-nanoseconds.pcap").read_bytes())
    data[20:24] = (147).to_bytes(4, "little")
    (tmp_path / "link").write_bytes(data)
    with pytest.raises(CaptureError, match=r"an unknown link type; record 1: link type 147 is not"):
        read_captures([tmp_path / "link"])


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (b"", "is empty"),
        (b"GET / HTTP/1.1\r\n", "is neither pcap, pcapng nor dnstap"),
        (b"\xd4\xc3\xb2\xa1", "ends within a packet"),
        (b"\0\0\0\0", "is neither pcap, pcapng nor dnstap"),
        (b"\x0a\x0d\x0d\x0a" + b"\xff" * 40, "no DNS on port 53 in 0 packets (1: the file is"),
        (gzip.compress(b"text", mtime=0), "is neither pcap, pcapng nor dnstap"),
    ],
)
def test_other_files_are_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], data: bytes, line: str
) -> None:
    (tmp_path / "file").write_bytes(data)
    out = str(tmp_path / "run")
    assert main(["import", "capture", str(tmp_path / "file"), "--out", out]) == 2
    error = capsys.readouterr().err
    assert line in error
    assert "hint: " in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["gone"], "gone: no such file or directory; hint: check the path"),
        (["{data}/nsd3213-soa.pcapng", "--port", "5353"], "--port 53 reads the busiest other port"),
        (["{data}/nsd3213-soa.pcapng", "--port", "0"], "--port 0: is not a port"),
        (
            ["{data}/nsd3213-soa.pcapng", "--port", "5301-5305"],
            "and repeat --port",
        ),
        (["{data}"], "is a directory"),
    ],
)
def test_bad_input_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], line: str
) -> None:
    given = [part.format(data=DATA) for part in arguments]
    assert main(["import", "capture", *given, "--out", str(tmp_path / "run")]) == 2
    error = capsys.readouterr().err
    assert line in error
    assert error.count("\n") == 1


def test_the_command_leaves_a_run_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    file = str(DATA / "nsd3213-soa.pcapng")
    assert main(["import", "capture", file, "--out", str(run)]) == 0
    assert "2 queries from 1 vantage point to 1 server" in capsys.readouterr().out
    again = Measurement.load(run)
    assert again.exchanges["segment_bytes"].drop_nulls().to_list() == [[2, 857]]


@pytest.fixture
def two_ports(tmp_path: Path) -> Path:
    """A capture of three servers at one address: a fast one, a slow one, and one at port 53."""
    capture = Written()
    for number, (port, trip) in enumerate(((5301, 10.0), (5302, 40.0), (53, 20.0))):
        capture.over_udp(1 + 200 * number, port, trip)
        capture.over_tcp(100 + 200 * number, port, trip)
    (tmp_path / "two-ports.pcap").write_bytes(capture.bytes)
    return tmp_path / "two-ports.pcap"


def test_servers_that_differ_in_their_port_are_apart(two_ports: Path) -> None:
    found = read_captures([two_ports], ports=[5301, 5302, 53])
    for table in (found.exchanges, found.connections):
        rows = set(table.select("target", "server", "port").unique().iter_rows())
        assert rows == {
            ("10.8.0.1:5301", "10.8.0.1", 5301),
            ("10.8.0.1:5302", "10.8.0.1", 5302),
            ("10.8.0.1", "10.8.0.1", 53),
        }
    assert [row["exchanges"] for row in found.summary["outcomes"]] == [1] * 6
    analysis = analyse([found], Rules(window_s=float("inf")))
    assert analysis.servers == ["10.8.0.1", "10.8.0.1:5301", "10.8.0.1:5302"]
    assert [round(group.udp_ms) for group in analysis.by_server] == [20, 10, 40]
    # An address chooses all of its servers, and a name one.
    assert analyse([found], servers=["10.8.0.1"]).servers == analysis.servers
    assert analyse([found], servers=["10.8.0.1:5302"]).servers == ["10.8.0.1:5302"]


def test_the_terminal_has_a_line_for_each_server(
    two_ports: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ports = [word for port in (5301, 5302) for word in ("--port", str(port))]
    run = tmp_path / "run"
    assert main(["import", "capture", str(two_ports), "--port", "54", "--out", str(run)]) == 2
    assert "--port 5302 reads the busiest other port; next: 5301, 53" in capsys.readouterr().err
    assert main(["import", "capture", str(two_ports), *ports, "--out", str(run)]) == 0
    said = capsys.readouterr().out
    assert "4 queries from 1 vantage point to 2 servers" in said
    lines = [" ".join(line.split()) for line in said.splitlines()]
    assert [line for line in lines if line.startswith("10.8.0.1:")] == [
        "10.8.0.1:5301 over udp 1 100.00 % answered median 10.00 ms",
        "10.8.0.1:5301 over tcp 1 100.00 % answered median 20.00 ms",
        "10.8.0.1:5302 over udp 1 100.00 % answered median 40.00 ms",
        "10.8.0.1:5302 over tcp 1 100.00 % answered median 80.00 ms",
    ]
    out = tmp_path / "ratio"
    assert main(["ratio", str(run), "--plots", "svg", "--out", str(out)]) == 0
    pages = {page.name for page in out.glob("server-*.html")}
    assert pages == {"server-10.8.0.1-5301.html", "server-10.8.0.1-5302.html"}
    assert "10.8.0.1:5302" in (out / "report.html").read_text()

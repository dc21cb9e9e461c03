"""What Wireshark's tshark says about the captures of a real run."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from narrows import Run, Scenario, ScenarioError, run


def tshark(capture: Path, *arguments: str) -> list[str]:
    """Lines that tshark prints about a capture; it verifies checksums."""
    protocols = ("ip", "tcp", "udp")
    verify = [word for p in protocols for word in ("-o", f"{p}.check_checksum:TRUE")]
    command = ["tshark", "-n", "-r", str(capture), *verify, *arguments]
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    return result.stdout.splitlines()


def finished_run(scenario: Scenario, tmp_path: Path) -> tuple[Run, Path]:
    """A run of the scenario, and the folder of its captures."""
    if shutil.which("tshark") is None:
        pytest.skip("tshark is not installed: apt-get install tshark")
    result = run(scenario, out=tmp_path / "run")
    assert result.folder is not None
    return result, result.folder / "captures"


@pytest.fixture
def finished(scenario_file: Path, tmp_path: Path) -> tuple[Run, Path]:
    return finished_run(Scenario.load(scenario_file), tmp_path)


def test_tshark_reads_a_run_without_complaint(finished: tuple[Run, Path]) -> None:
    result, captures = finished
    forward = captures / "bottleneck.forward.pcapng"
    backward = captures / "bottleneck.backward.pcapng"
    bad = (
        "_ws.malformed or ip.checksum.status==0 or tcp.checksum.status==0 or udp.checksum.status==0"
    )
    for capture in (forward, backward):
        assert tshark(capture, "-Y", bad) == []
    # As many packets as the link counted as transmitted, except after the last sample.
    count = len(tshark(forward, "-T", "fields", "-e", "frame.number"))
    assert count >= result.links["packets"].max()
    marked = len(tshark(forward, "-Y", "ip.dsfield.ecn==3"))
    marks = result.queues.select("marked_early", "marked_forced").tail(1).row(0)
    assert 0 < marked <= sum(marks)


def test_every_answer_is_in_the_capture(finished: tuple[Run, Path]) -> None:
    result, captures = finished
    forward = captures / "bottleneck.forward.pcapng"
    replies = tshark(forward, "-Y", "dns.flags.response==1", "-T", "fields", "-e", "dns.id")
    attempts = result.attempts
    received = attempts["received_s"].drop_nulls().len()
    assert received > 100
    assert len(replies) >= received


TUNNEL = """
name = "tunnel"
duration = "20 s"
[[links]]
name = "lan"
between = ["server", "router"]
rate = "100 Mbit/s"
delay = "1 ms"
[[links]]
name = "tunnel"
between = ["router", "exit"]
rate = "10 Mbit/s"
delay = "5 ms"
mtu = "1300 B"
[[links]]
name = "home"
between = ["exit", "client"]
rate = "100 Mbit/s"
delay = "1 ms"
[[dns]]
name = "stub"
client = "client"
server = "server"
queries = 20
messages = { query = "60 B", reply = "3000 B" }
[[traffic]]
kind = "once"
name = "download"
sender = "server"
receiver = "client"
size = "200 kB"
[monitor]
capture = ["lan.forward", "lan.backward", "tunnel.forward"]
"""

# tshark considers the checksum of a quoted segment wrong, because it only sees the beginning.
BROKEN = (
    "_ws.malformed or ip.checksum.status==0 or udp.checksum.status==0 or icmp.checksum.status==0 "
    "or (tcp.checksum.status==0 and not icmp) or ip.fragment.error"
)


@pytest.fixture
def tunnel(tmp_path: Path) -> Path:
    return finished_run(Scenario.parse(TUNNEL), tmp_path)[1]


def test_tshark_puts_fragments_together(tunnel: Path) -> None:
    capture = tunnel / "tunnel.forward.pcapng"
    assert tshark(capture, "-Y", BROKEN) == []
    # 8 bytes of UDP and 3000 of DNS, in pieces of at most 1280 bytes.
    fields = ("-T", "fields", "-e", "ip.fragment.count", "-e", "ip.reassembled.length")
    assert tshark(capture, "-Y", "dns.flags.response==1", *fields) == ["3\t3008"] * 20
    pieces = tshark(
        capture, "-Y", "ip.flags.mf==1 or ip.frag_offset>0", "-T", "fields", "-e", "ip.len"
    )
    assert pieces == ["1300", "1300", "468"] * 20
    # Nothing longer passes.
    assert tshark(capture, "-Y", "ip.len>1300") == []


def test_tshark_reads_routers_messages(tunnel: Path) -> None:
    capture = tunnel / "lan.backward.pcapng"
    assert tshark(capture, "-Y", BROKEN) == []
    messages = ("-Y", "icmp.type==3 and icmp.code==4", "-T", "fields")
    # All ten segments of the initial window were too long: ten messages of 576 bytes (RFC 1812).
    outer = ("-E", "occurrence=f", "-e", "icmp.mtu", "-e", "ip.len", "-e", "ip.dst")
    lines = [line.split("\t") for line in tshark(capture, *messages, *outer)]
    assert [line[:2] for line in lines] == [["1300", "576"]] * 10
    # Each goes to the sender of the segment that it quotes.
    inner = ("-E", "occurrence=l", "-e", "ip.src")
    assert tshark(capture, *messages, *inner) == [target for _, _, target in lines]
    raw = ("-o", "tcp.relative_sequence_numbers:FALSE")
    segment = (*raw, "-e", "tcp.srcport", "-e", "tcp.dstport", "-e", "tcp.seq", "-e", "tcp.ack")
    long = ("-Y", "tcp and ip.len==1500", "-T", "fields", *segment)
    sent = tshark(tunnel / "lan.forward.pcapng", *long)
    assert tshark(capture, *messages, *segment) == sent[:10]
    # A router's own packet has not passed one.
    assert set(tshark(capture, *messages, "-E", "occurrence=f", "-e", "ip.ttl")) == {"64"}


OVER_TCP = """
name = "over-tcp"
duration = "60 s"
end = "dns"
[[links]]
name = "wan"
between = ["client", "server"]
rate = "10 Mbit/s"
delay = "10 ms"
loss = {loss}
[[dns]]
name = "stub"
client = "client"
server = "server"
workers = 3
queries = 20
transport.kind = "tcp"
messages = [{{ query = "60 B", reply = "{reply} B" }}]
think_mean = "100 ms"
{keys}
[monitor]
capture = ["wan"]
"""


def both_ways(captures: Path) -> Path:
    """Both directions in one file: tshark tells connections with the same ports by their SYNs."""
    directions = [
        str(captures / f"wan.{direction}.pcapng") for direction in ("forward", "backward")
    ]
    merged = captures / "both.pcapng"
    subprocess.run(["mergecap", "-w", str(merged), *directions], check=True, capture_output=True)
    return merged


APART = 'transport.writes = "apart"\nanswers = { writes = "apart" }'
PIPELINED = "transport.reuse = true\ntransport.pipelining = true\ntransport.shared = true"
FAST_OPEN = "transport.fast_open = true\nanswers = { fast_open = true }"
STATELESS = "answers = { stateless = true }"


@pytest.mark.parametrize(
    ("keys", "loss", "reply"),
    [
        ("", 0.0, 100),
        ("", 0.05, 3000),
        (APART, 0.0, 100),
        (PIPELINED, 0.0, 3000),
        (FAST_OPEN, 0.0, 100),
        (STATELESS, 0.05, 3000),
    ],
    ids=["one", "lossy", "apart", "pipelined", "fast-open", "stateless"],
)
def test_tshark_reads_dns_over_tcp(keys: str, loss: float, reply: int, tmp_path: Path) -> None:
    scenario = Scenario.parse(OVER_TCP.format(keys=keys, loss=loss, reply=reply))
    capture = both_ways(finished_run(scenario, tmp_path)[1])
    assert tshark(capture, "-Y", BROKEN) == []
    fields = ("dns.flags.response", "dns.length", "dns.qry.type", "dns.qry.name", "dns.id")
    columns = [word for field in fields for word in ("-e", field)]
    seen = tshark(capture, "-Y", "dns", "-T", "fields", "-E", "aggregator=;", *columns)
    messages: list[tuple[str, ...]] = []
    for line in seen:
        # Several messages may end in one segment.
        messages += zip(*(column.split(";") for column in line.split("\t")), strict=True)
    assert {message[:3] for message in messages} == {("0", "60", "16"), ("1", str(reply), "16")}
    # Each query and its reply, under the same name and number.
    queries, replies = ({m[3:] for m in messages if m[0] == flag} for flag in "01")
    assert len(queries) == 60
    assert queries == replies
    # tshark, too, finds that they belong together.
    to = ("-T", "fields", "-E", "aggregator=;", "-e", "dns.response_to")
    assert len(";".join(tshark(capture, "-Y", "dns.response_to", *to)).split(";")) >= 60


def test_tshark_puts_a_length_to_its_message(tmp_path: Path) -> None:
    scenario = Scenario.parse(OVER_TCP.format(keys=APART, loss=0.0, reply=100))
    capture = both_ways(finished_run(scenario, tmp_path)[1])
    # The server writes twice, so the segment with the length has no message yet.
    assert tshark(capture, "-Y", "tcp.len==2 and dns") == []
    assert len(tshark(capture, "-Y", "tcp.len==2 and tcp.srcport==53")) == 60
    put_together = ("-T", "fields", "-e", "tcp.len", "-e", "tcp.reassembled.length")
    assert tshark(capture, "-Y", "dns.flags.response==1", *put_together) == ["100\t102"] * 60


PLACE = """
name = "place"
duration = "20 s"
[[links]]
name = "wan"
between = ["server", "client"]
rate = "10 Mbit/s"
delay = "20 ms"
[[dns]]
name = "stub"
client = "client"
server = "server"
queries = 3
[[traffic]]
kind = "once"
name = "download"
sender = "server"
receiver = "client"
start = "1 s"
size = "200 kB"
[monitor]
capture = [
    "wan", { link = "wan", at = "client", snaplen = "60 B" }, { link = "wan", at = "server" }
]
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return finished_run(Scenario.parse(PLACE), tmp_path)[1]


def fields(capture: Path, *names: str) -> list[list[str]]:
    words = [word for name in names for word in ("-e", name)]
    lines = tshark(capture, "-T", "fields", *words)
    return [line.split("\t") for line in lines]


def test_a_place_sees_both_directions_when_they_pass(place: Path) -> None:
    assert {path.name for path in place.iterdir()} == {
        *("wan.forward.pcapng", "wan.backward.pcapng"),
        *("wan@client.pcapng", "wan@server.pcapng"),
    }
    sent = {
        direction: [
            float(time) for (time,) in fields(place / f"wan.{direction}.pcapng", "frame.time_epoch")
        ]
        for direction in ("forward", "backward")
    }
    rows = fields(place / "wan@client.pcapng", "frame.time_epoch", "frame.packet_flags_direction")
    times = [float(time) for time, _ in rows]
    assert times == sorted(times)
    # Directions are 1, inbound, and 2, outbound.
    came = [float(time) for time, direction in rows if int(direction, 0) == 1]
    left = [float(time) for time, direction in rows if int(direction, 0) == 2]
    assert left == sent["backward"]
    assert came == pytest.approx([time + 0.020 for time in sent["forward"]], abs=2e-9)


def test_frames_are_cut_to_the_snap_length(place: Path) -> None:
    rows = fields(place / "wan@client.pcapng", "frame.cap_len", "frame.len", "ip.len")
    assert max(int(length) for _, length, _ in rows) == 1514
    for kept, length, ip in rows:
        assert int(kept) == min(60, int(length)) and int(length) == int(ip) + 14


def test_long_writes_are_pushed_half_a_window_after_64_kib(place: Path) -> None:
    """Linux sets PSH when more than 65,535 / 2 bytes follow the last PSH, and at the end.

    An application that writes 64 KiB at a time ends each write with a PSH of its own, in the middle
    of a segment. Segments carry 1448 bytes. By the third write, the window is
    larger than 128 KiB.
    """
    capture = place / "wan@server.pcapng"
    data = [
        (int(seq), int(length), push)
        for seq, length, push in fields(capture, "tcp.seq", "tcp.len", "tcp.flags.push")
        if length not in ("", "0")
    ]
    pushed = sorted({seq + length - 1 for seq, length, push in data if push in ("1", "True")})
    assert pushed == [33_304, 98_464, 200_000]


@pytest.mark.parametrize(
    ("capture", "said"),
    [
        ('[{ link = "wna", at = "client" }]', 'monitor.capture[0].link: "wna" is not a link'),
        (
            '[{ link = "wan", at = "nobody" }]',
            'monitor.capture[0].at: "nobody" is not an end of wan',
        ),
        ('[{ link = "wan.forward", at = "client" }]', "monitor.capture[0].link"),
        ('[{ link = "wan", snaplen = "1 B" }]', "monitor.capture[0].snaplen"),
        ('["wan", { link = "wan", snaplen = "60 B" }]', "monitor.capture[1]"),
    ],
)
def test_captures_that_are_impossible_are_refused(capture: str, said: str) -> None:
    before, _, _ = PLACE.partition("[monitor]")
    with pytest.raises(ScenarioError) as caught:
        Scenario.parse(f"{before}[monitor]\ncapture = {capture}\n")
    assert said in str(caught.value)

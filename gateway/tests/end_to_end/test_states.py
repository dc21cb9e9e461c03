"""The gateway's process, its modes and its limits, each in a separate network."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from . import gateway, zones
from .clients import ask, ask_udp, connect, prefixed, query, receive
from .conftest import LARGE, SMALL, Lab, laboratory
from .handmade import nothing_new
from .segments import ACK, FIN, PSH, RST, SYN, Peer, Tap, tap

Maker = Callable[..., AbstractContextManager[Lab]]


@pytest.fixture
def make(tmp_path: Path) -> Maker:
    """Makes a network with NSD and the gateway with some options."""
    if gateway.program() is None:
        pytest.skip(gateway.absent())

    def made(*options: str, **other: object) -> AbstractContextManager[Lab]:
        return laboratory(tmp_path / "lab", ("nsd",), options=options, **other)  # type: ignore[arg-type]

    return made


def behind(lab: Lab, version: int = 4) -> str:
    """NSD's address behind the gateway."""
    return lab.address("nsd", "gateway", version)


def from_kernel(lab: Lab, message: bytes) -> bytes:
    """The kernel's reply."""
    return ask(lab.network.client, lab.address("nsd", "kernel"), message)


def serves(lab: Lab) -> None:
    """Sizes, both IP versions, and a second query, through the gateway."""
    before = lab.counter("query")
    for version in (4, 6):
        for size in (60, 300, 1200, 1470, 2000, 4000, 9000):
            message = query(zones.size_name(size))
            assert ask(lab.network.client, behind(lab, version), message) == from_kernel(
                lab, message
            )
        with connect(lab.network.client, behind(lab, version)) as stream:
            for message in (SMALL, LARGE, SMALL):
                stream.sendall(prefixed(message))
                assert receive(stream) == from_kernel(lab, message)
    assert lab.counter("query") > before


# Modes.


@pytest.mark.parametrize(
    "options",
    [
        ("--mode", "generic"),
        ("--mode", "native"),
        ("--syncache-active", "true"),
        ("--edns-size", "65500 B", "--max-segments", "64"),
        ("--max-segments", "1"),
        ("--edns-size", "512 B"),
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("offload", [True, False], ids=["offload", "whole-checksums"])
def test_modes(make: Maker, options: tuple[str, ...], offload: bool) -> None:
    with make(*options, offload=offload) as lab:
        serves(lab)


@pytest.mark.parametrize("offload", [True, False], ids=["offload", "whole-checksums"])
def test_as_it_comes(make: Maker, offload: bool) -> None:
    """No mode is named, and the other end of the line lacks what native XDP would need."""
    with make("--mode", "auto", offload=offload, peer_program=False) as lab:
        serves(lab)
        assert lab.gateway is not None
        assert '"mode":"generic"' in (lab.gateway.folder / "log").read_text()


@pytest.mark.parametrize("mtu", [1280, 1400, 9000])
def test_sizes_of_frames(make: Maker, mtu: int) -> None:
    with make("--edns-size", "65500 B", "--max-segments", "64", mtu=mtu) as lab:
        serves(lab)


def test_closing_with_fin(make: Maker) -> None:
    """As in the paper: the FIN is on the last segment of each reply."""
    with make("--close", "fin") as lab, tap(lab.network) as line:
        for message, mss in ((SMALL, 1460), (LARGE, 1460), (LARGE, 536)):
            client = Peer(line, behind(lab), mss=mss)
            client.connect()
            sent = client.send(prefixed(message), ACK | PSH)
            assert client.reply(acknowledge=False) == from_kernel(lab, message)
            data = [segment for segment in client.seen if segment.payload]
            assert [bool(segment.flags & FIN) for segment in data] == [False] * (len(data) - 1) + [
                True
            ]
            client.send()
            client.send(flags=FIN | ACK)
            assert client.expect(ACK).ack == client.seq or client.expect(ACK).ack == client.seq
            nothing_new(client)
            assert sent.payload == prefixed(message)


def test_no_more_state_than_the_syn_cache_may_have(make: Maker) -> None:
    options = ("--syncache-active", "true", "--syncache-cachelimit", "40")
    with make(*options, "--syncache-bucketlimit", "30") as lab, tap(lab.network) as line:
        clients = [Peer(line, behind(lab)) for _ in range(200)]
        for client in clients:
            client.connect()
        assert lab.gateway is not None
        assert len(lab.gateway.dump("flows")) <= 41
        assert lab.counter("syn_cache_full") >= 150
        for client in clients:
            client.send(prefixed(SMALL), ACK | PSH)
            assert client.reply() == from_kernel(lab, SMALL)


# A share of the clients.


def test_a_share_of_the_clients_is_served(make: Maker) -> None:
    """The same clients are served each time; others get the kernel's TCP, and all get answers."""
    with make("--active", "25 %") as lab, tap(lab.network) as line:
        addresses = [f"198.18.{i}.{7 * i}" for i in range(36)]
        sides = []
        for address in addresses * 2:
            before = lab.counter("syn"), lab.counter("syn_aside")
            client = Peer(line, behind(lab), address=address)
            client.connect()
            client.send(prefixed(SMALL), ACK | PSH)
            assert client.reply() == from_kernel(lab, SMALL)
            served = lab.counter("syn") - before[0]
            assert (served, lab.counter("syn_aside") - before[1]) in ((1, 0), (0, 1))
            sides.append(served)
        assert sides[:36] == sides[36:]
        # 9 of 36 are expected; fewer than 2 or more than 18 occur once in a thousand runs.
        assert 2 <= sum(sides[:36]) <= 18
        assert lab.gateway is not None
        words = ["status", "--interface", lab.gateway.link, "--interval", "0 s"]
        for address in (*addresses, "2001:db8::7"):
            words += ["--address", address]
        status = json.loads(lab.gateway.command(*words, "--json"))
        assert status["settings"]["active"] == "25 %"
        assert status["active_percent"] == 25
        said = [status["addresses"][address] for address in addresses]
        assert said == [side == 1 for side in sides[:36]]
        shown = lab.gateway.command(*words)
        assert f"client       {addresses[0]} is {'' if said[0] else 'not '}in the share" in shown


# S9.


def test_udp_replies_are_truncated_above_a_size(make: Maker) -> None:
    with make("--truncate-over", "1000 B") as lab:
        for version in (4, 6):
            for size, edns in ((300, None), (1200, 4096), (4000, 4096)):
                message = query(zones.size_name(size), edns=edns)
                address = lab.address("nsd", "kernel", version)
                whole = ask_udp(lab.network.client, address, message)
                reply = ask_udp(lab.network.client, behind(lab, version), message)
                assert whole is not None
                assert reply is not None
                if len(whole) <= 1000:
                    assert reply == whole
                else:
                    assert reply[2] & 2, "TC"
                    assert reply[6:12] == bytes([0, 0, 0, 0, 0, 1]), "no record but OPT"
                    assert reply[12 : len(message) - 11] == message[12 : len(message) - 11]
                    # RFC 6891, section 6.1.2: root, type 41, a size, and no flags or options.
                    opt = reply[len(message) - 11 :]
                    assert (opt[:3], opt[5:]) == (bytes([0, 0, 41]), bytes(6))
                    if size < 1400:
                        assert opt == whole[-11:], "not the server's own"
                    else:
                        # The reply came in fragments, and the last one had the server's OPT.
                        assert int.from_bytes(opt[3:5]) == 1000
            words = ["dig", "+bufsize=4096", "+nocookie", f"@{behind(lab, version)}", "TXT"]
            shown = lab.network.client.run(*words, zones.size_name(4000))
            assert "Truncated, retrying in TCP mode" in shown
            assert "status: NOERROR" in shown
            # Resolvers ask with EDNS; a reply without OPT would say that the server has no EDNS.
            words.insert(1, "+ignore")
            for name in (zones.size_name(1200), zones.size_name(4000)):
                shown = lab.network.client.run(*words, "+dnssec", name)
                assert "flags: qr aa tc" in shown
                assert "ADDITIONAL: 1" in shown
                assert "EDNS: version: 0, flags:" in shown
        assert lab.counter("truncated") >= 8
        serves(lab)


# Limits.


def test_a_full_map_serves_the_newest(make: Maker) -> None:
    with make("--cache-connections", "1024") as lab:
        streams = []
        for i in range(1500):
            stream = connect(lab.network.client, behind(lab), timeout=5)
            stream.sendall(prefixed(query(f"x{i}.w.{zones.ZONE}")))
            receive(stream)
            streams.append(stream)
        for i in range(1500):
            stream = connect(lab.network.client, lab.address("unruly", "gateway"), timeout=5)
            stream.sendall(prefixed(query(f"quiet.60.{i}.test")))
            streams.append(stream)
        for i in range(200):
            message = query(f"y{i}.w.{zones.ZONE}")
            assert ask(lab.network.client, behind(lab), message) == from_kernel(lab, message)
        for stream in streams:
            stream.close()


def test_rates_of_a_source(make: Maker) -> None:
    options = ("--limits-syn-rate", "10", "--limits-syn-burst", "20")
    with make(*options) as lab, tap(lab.network) as line:
        clients = [Peer(line, behind(lab)) for _ in range(60)]
        for client in clients:
            line.send(client.segment(flags=SYN, options=client.syn()))
        answered = 0
        while line.receive(0.3, lambda segment: segment.flags == SYN | ACK):
            answered += 1
        assert 20 <= answered <= 30
        assert lab.counter("syn_limited") >= 30
        # Another source is not affected.
        other = Peer(line, behind(lab), address="198.18.7.7")
        other.connect()
        other.send(prefixed(SMALL), ACK | PSH)
        assert other.reply() == from_kernel(lab, SMALL)


# The server has no TCP.


def test_without_a_listener_single_queries_are_answered(make: Maker) -> None:
    with make() as lab, tap(lab.network) as line:
        address = lab.address("no-tcp", "gateway")
        message = query("plain.500.test")
        reply = ask(lab.network.client, address, message)
        assert len(reply) > 400
        # Connections that the kernel would have to take end as if nobody listened.
        client = Peer(line, address)
        client.connect()
        client.send(prefixed(message)[:1], ACK | PSH)
        while (segment := client.receive(1)) is not None:
            if segment.flags & RST:
                break
        assert segment is not None
        assert lab.counter("adopt_failed") >= 1


# VLANs. This kernel may not have such devices, and then drops the frames after XDP.


@pytest.mark.parametrize("vlan", [(5,), (5, 7)], ids=["one", "two"])
def test_vlan_tags_are_kept(make: Maker, vlan: tuple[int, ...]) -> None:
    with make() as lab, tap(lab.network) as line:
        client = Peer(line, behind(lab), vlan=vlan)
        answer = client.connect()
        assert answer.vlan == vlan
        client.send(flags=FIN | ACK)
        answer = client.expect(FIN | ACK)
        assert answer.vlan == vlan


# The cookie's age.


def test_a_connection_made_before_the_slots_change(make: Maker) -> None:
    """Slots are 32 seconds of the wall clock; a cookie is valid until the end of the next slot."""
    with make() as lab, tap(lab.network) as line:
        time.sleep(max(0.0, 30.5 - time.time() % 32))
        clients = [Peer(line, behind(lab), timestamps=stamps) for stamps in (True, False) * 3]
        for client in clients:
            client.connect()
        time.sleep(34 - (time.time() % 32))
        for client in clients:
            client.send(prefixed(SMALL), ACK | PSH)
            assert client.reply() == from_kernel(lab, SMALL)


def test_an_old_cookie_is_refused(make: Maker) -> None:
    with make() as lab, tap(lab.network) as line:
        client = Peer(line, behind(lab))
        client.connect()
        before = lab.counter("query")
        client.send(prefixed(SMALL), ACK | PSH, ack=(client.ack + 1) % (1 << 32))
        client.send(prefixed(SMALL), ACK | PSH, ack=(client.ack ^ 0x8000_0000))
        client.quiet()
        assert lab.counter("query") == before


# The process.


def mid_flow(line: Tap, lab: Lab) -> Callable[[], None]:
    """Opens connections in several states; returns a function that continues them."""
    shaken, asked, idle, adopted = (Peer(line, behind(lab)) for _ in range(4))
    slow = Peer(line, lab.address("unruly", "gateway"))
    for client in (shaken, asked, idle, adopted, slow):
        client.connect()
    for client in (idle, adopted):
        client.send(prefixed(SMALL), ACK | PSH)
        client.reply()
    # This query comes in parts, which the kernel's TCP has to assemble.
    adopted.send(prefixed(SMALL)[:9], ACK | PSH)
    adopted.send(prefixed(SMALL)[9:], ACK | PSH)
    adopted.reply()
    slow_query = query("slow.200.1.test")
    slow_sent = slow.send(prefixed(slow_query), ACK | PSH)
    asked_sent = asked.send(prefixed(LARGE), ACK | PSH)

    def again(client: Peer, payload: bytes, seq: int) -> Callable[[], None]:
        def send() -> None:
            if all(segment.ack != client.seq for segment in client.seen):
                client.send(payload, ACK | PSH, seq=seq)

        return send

    def goes_on() -> None:
        shaken.send(prefixed(SMALL), ACK | PSH)
        assert shaken.reply() == from_kernel(lab, SMALL)
        assert asked.reply(again=again(asked, asked_sent.payload, asked_sent.seq)) == from_kernel(
            lab, LARGE
        )
        for client in (idle, adopted):
            client.send(prefixed(LARGE), ACK | PSH)
            assert client.reply() == from_kernel(lab, LARGE)
        reply = slow.reply(again=again(slow, slow_sent.payload, slow_sent.seq))
        assert reply[:2] == slow_query[:2]

    return goes_on


@pytest.mark.parametrize("how", ["keep", "SIGUSR2", "SIGKILL"])
def test_a_restart_drops_no_connection(make: Maker, how: str) -> None:
    options = ("--on-exit", "keep") if how == "keep" else ()
    with make(*options) as lab, tap(lab.network) as line:
        assert lab.gateway is not None
        ending = signal.SIGTERM if how == "keep" else signal.Signals[how]
        goes_on = mid_flow(line, lab)
        lab.gateway.restart(ending)
        goes_on()
        # While there is no process, the kernel goes on by itself.
        goes_on = mid_flow(line, lab)
        lab.gateway.end(ending)
        serves(lab)
        goes_on()
        lab.gateway.process = gateway.start(
            lab.gateway.space, lab.gateway.words, lab.gateway.folder
        )
        serves(lab)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL], ids=lambda how: how.name)
def test_detach_leaves_the_machine_as_it_was(make: Maker, how: signal.Signals) -> None:
    with make() as lab:
        assert lab.gateway is not None
        net, pins = lab.network, Path("/sys/fs/bpf/narrows-gateway")
        assert list(pins.glob(f"{net.server_link}@*"))
        lab.gateway.end(how)
        if how == signal.SIGKILL:
            lab.gateway.command("detach", "--interface", net.server_link)
        assert not list(pins.glob(f"{net.server_link}@*"))
        assert "xdp" not in net.server.run("ip", "link", "show", net.server_link)
        shown = net.server.run("bpftool", "net", "show", "dev", net.server_link)
        assert "tcx" not in shown
        for message in (SMALL, LARGE):
            assert ask(net.client, behind(lab), message) == from_kernel(lab, message)
        lab.gateway.process = gateway.start(net.server, lab.gateway.words, lab.gateway.folder)
        serves(lab)

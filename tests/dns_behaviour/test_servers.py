"""Each value of a server's profile is what the program does, or reports about itself."""

from __future__ import annotations

import contextlib
import re
import shutil
import socket
import subprocess
from pathlib import Path

import dns.message
import pytest

from narrows import dns_profiles

from ..network import network
from . import capture, lab, real_servers, server_trials
from .cases import CASES, address
from .clients import CLIENTS, daemon
from .conftest import INSTALL, cannot, skip_other_release
from .packets import SYN, TCP
from .scripted import Scripted
from .server_trials import Shown
from .wire import Wire

WATCH, CROWD_WATCH = 11.5, 3.0
"""Seconds, longer than Knot's and dnsdist's timeouts. Those of the others are looked up."""


def about(shown: float, expected: float) -> bool:
    """Late is fine: dnsdist looks at its timeouts once a second.

    It may be early by a twentieth, because servers count from the last time that their loop read
    the clock. The client's own delays cannot make it early.
    """
    return 0.95 * expected - 0.05 <= shown <= expected + 1.6


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Shown]:
    """All trials of all servers."""
    if reason := cannot():
        pytest.skip(reason)
    if absent := real_servers.missing():
        pytest.skip(f"{absent[0]} is not installed; {INSTALL}")
    folder = tmp_path_factory.mktemp("servers")
    return server_trials.run_all(folder, WATCH, CROWD_WATCH)


@pytest.fixture(params=dns_profiles.servers())
def profile(request: pytest.FixtureRequest) -> dns_profiles.Server:
    """A server's profile."""
    return dns_profiles.server(str(request.param))


@pytest.fixture
def shown(profile: dns_profiles.Server, everything: dict[str, Shown]) -> Shown:
    """What it did."""
    shown = everything[profile.name]
    skip_other_release(profile.name, profile.version, shown.version)
    return shown


@pytest.mark.servers
def test_backlog(profile: dns_profiles.Server, shown: Shown) -> None:
    somaxconn = int(Path("/proc/sys/net/core/somaxconn").read_text())
    assert shown.backlog == min(profile.backlog, somaxconn)


@pytest.mark.servers
@pytest.mark.parametrize("which", ["idle", "first_query", "half_query"])
def test_timeouts(profile: dns_profiles.Server, shown: Shown, which: str) -> None:
    expected = {
        "idle": profile.idle_timeout_s,
        "first_query": profile.first_query_timeout_s,
        "half_query": profile.half_query_timeout_s,
    }[which]
    closed: float | None = getattr(shown, which)
    if expected < WATCH - 1:
        assert closed is not None
        assert about(closed, expected)
    else:
        assert closed is None


@pytest.mark.servers
def test_crowd(profile: dns_profiles.Server, shown: Shown) -> None:
    """As many connections are answered at once as the limit says; others wait."""
    if profile.tcp_connections is None or profile.tcp_connections > server_trials.CROWD:
        assert len(shown.crowd_answers) == server_trials.CROWD
    elif profile.busy_levels:
        # A query that a busy machine sends late finds that its connection has timed out, so fewer
        # connections than the limit may be answered.
        assert 0 < shown.together <= profile.tcp_connections
    else:
        assert shown.together == profile.tcp_connections
        assert not shown.crowd_refused
    if profile.busy_levels:
        # Connections above the level are closed in favour of those that wait.
        _, span = profile.busy_levels[-1]
        first = min(shown.crowd_ends) - min(shown.crowd_answers)
        assert span - 0.15 <= first <= span + 1.5
        assert len(shown.crowd_answers) > shown.together
    elif profile.tcp_connections is not None and profile.idle_timeout_s > CROWD_WATCH:
        assert not shown.crowd_ends


@pytest.mark.servers
def test_udp(profile: dns_profiles.Server, shown: Shown) -> None:
    assert shown.udp_bytes == 1232
    # The reply has about 3100 bytes, and the client offers 4096.
    assert shown.udp_truncated == (profile.udp_bytes < 3000)


@pytest.mark.servers
def test_options(profile: dns_profiles.Server, shown: Shown) -> None:
    assert shown.keepalive == profile.tcp_keepalive
    assert shown.cookie == profile.fast_open
    assert shown.one_segment == profile.one_segment
    if profile.queries_per_connection is None:
        assert shown.queries == server_trials.QUERIES


def test_segments_in_captures(profile: dns_profiles.Server) -> None:
    packets = capture.read(capture.FOLDER / f"{profile.name}-large.pcapng")
    longest = max(len(packet.payload) for packet in packets if not packet.from_client)
    # 1500 bytes less headers of 20 and 20, and timestamps of 12.
    assert longest == (profile.segment_bytes or 1448)


def test_nagle_in_captures(profile: dns_profiles.Server) -> None:
    """Three queries came in one segment: do the later replies wait for an acknowledgement?"""
    packets = capture.read(capture.FOLDER / f"{profile.name}-pipelined.pcapng")
    tcp = [packet for packet in packets if packet.protocol == TCP and not packet.flags & SYN]
    replies = [packet for packet in tcp if not packet.from_client and packet.payload]
    apart = (replies[-1].at - replies[0].at) / capture.ROUND_TRIP
    if profile.nagle:
        assert len(replies[1].payload) == 2 * len(replies[0].payload)
        assert abs(apart - 1) < 0.2
    else:
        assert len(replies) == 3
        assert apart < 0.2


SETTINGS = {
    "nsd": {"tcp-count": "tcp_connections", "tcp-timeout": "idle_timeout_s"}
    | {"ipv4-edns-size": "udp_bytes"},
    "unbound": {"incoming-num-tcp": "tcp_connections", "tcp-idle-timeout": "idle_timeout_s"}
    | {"max-udp-size": "udp_bytes"},
    "bind": {"tcp-clients": "tcp_connections", "tcp-idle-timeout": "idle_timeout_s"}
    | {"tcp-initial-timeout": "first_query_timeout_s", "max-udp-size": "udp_bytes"}
    | {"tcp-listen-queue": "backlog"},
}
"""The programs' own names for the values of a profile."""
UNITS = {("unbound", "tcp-idle-timeout"): 1000.0, ("bind", "tcp-idle-timeout"): 10.0}
UNITS |= {("bind", "tcp-initial-timeout"): 10.0}


def said(server: str, setting: str, folder: Path) -> str:
    """The default that a program reports."""
    if server == "bind":
        words = ["named", "-C"]
    else:
        config = folder / "empty.conf"
        config.write_text('server:\n  zonesdir: ""\n' if server == "nsd" else "server:\n")
        words = [f"{server}-checkconf", "-o", setting, str(config)]
    if not shutil.which(words[0]):
        pytest.skip(f"{words[0]} is not installed; {INSTALL}")
    out = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    if server == "bind":
        found = re.search(rf"^\s*{setting} (\S+);", out, re.MULTILINE)
        assert found is not None
        return found[1]
    return out.strip()


@pytest.mark.servers
@pytest.mark.parametrize(
    ("server", "setting", "key"),
    [(server, *pair) for server, pairs in SETTINGS.items() for pair in pairs.items()],
)
def test_what_programs_say(server: str, setting: str, key: str, tmp_path: Path) -> None:
    value = float(said(server, setting, tmp_path)) / UNITS.get((server, setting), 1.0)
    assert value == getattr(dns_profiles.server(server), key)


@pytest.mark.servers
@pytest.mark.parametrize("name", ["bind", "unbound"])
def test_order(name: str, tmp_path: Path) -> None:
    """A query is answered although an earlier one on the connection still waits."""
    if reason := cannot():
        pytest.skip(reason)
    program = next(client for client in CLIENTS if client.name == name)
    if program.version() is None:
        pytest.skip(f"{name} is not installed; {INSTALL}")
    cases = {address(1, case): case for case in CASES if case.name in ("answer", "dead")}
    with contextlib.ExitStack() as stack:
        net = stack.enter_context(network([lab.SERVER, lab.SERVER6], offload=False, wired=True))
        net.server.run("ip", "route", "add", "local", lab.PLACES, "dev", "lo")
        net.client.run("ip", "route", "add", lab.PLACES, "via", lab.SERVER)
        wire = Wire(net, lambda packet, frame: [frame])
        stack.callback(wire.close)
        server = Scripted(net.server, cases)
        stack.callback(server.close)
        stack.enter_context(daemon(program, net.client, tmp_path, "127.0.0.1", cases))
        with net.client.inside():
            sock = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
        sock.settimeout(5)
        sock.connect(("127.0.0.1", 53))
        for host in ("q1.dead.test", "q1.answer.test"):
            wire_form = dns.message.make_query(host, "A").to_wire()
            sock.sendall(len(wire_form).to_bytes(2) + wire_form)
        reply = server_trials.message(sock)
        assert reply is not None
        first = dns.message.from_wire(reply)
    assert dns_profiles.server(name).out_of_order
    assert first.question[0].name.to_text() == "q1.answer.test."

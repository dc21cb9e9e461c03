"""The simulator asks as each profiled client does, in the trials that show it (cases.py).

The expected behaviour comes from the profiles, and test_clients.py shows that programs behave like
their profiles. A trial's server or path is made with keys of the scenario language.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from narrows import Run, Scenario, dns_profiles, run

from . import cases, observe
from .conftest import INSTALL, Trials
from .lab import KERNEL
from .packets import SYN, parse, read_pcapng

TRIP = 0.02
"""The round trip, in seconds."""
LONG = 'messages = [{ query = "51 B", reply = "5000 B" }]'
"""A reply that is too long for any client over UDP, and so is truncated."""
SHORT = 'messages = [{ query = "51 B", reply = "200 B" }]'
EDNS = 'transport = { kind = "udp", edns_size = "1232 B" }'
PATIENT = 'gives_up = "1000 s"'
"""Lets a query go on after its user got an error, as Unbound does."""

TEXT = """
name = "trial"
duration = "{duration} s"
end = "dns"

[[links]]
name = "line"
between = ["client", "server"]
rate = "1 Gbit/s"
delay = "10 ms"
{line}

[[dns]]
name = "client"
client = "client"
server = "server"
profile = "{profile}"
{keys}
"""
CLIENTS = dns_profiles.clients()
WITH_TCP = [name for name in CLIENTS if dns_profiles.client(name).fallback_on_truncation]


def tried(profile: str, *keys: str, line: str = "", duration: int = 600) -> Run:
    """Runs a client; `line` has keys of its link."""
    lines = list(keys) if any(key.startswith("queries") for key in keys) else ["queries = 1", *keys]
    text = TEXT.format(profile=profile, keys="\n".join(lines), line=line, duration=duration)
    return run(Scenario.parse(text))


def rows(found: Run, transport: str) -> pl.DataFrame:
    """Its attempts over UDP, or over TCP."""
    return found.attempts.filter(transport=transport)


def gaps(found: pl.DataFrame) -> list[float]:
    """Seconds between attempts."""
    return [later - earlier for earlier, later in pairwise(found["sent_s"])]


def about(seconds: float) -> Any:
    """A time, give or take a few round trips."""
    return pytest.approx(seconds, abs=4 * TRIP)


@pytest.mark.parametrize("name", CLIENTS)
def test_truncate(name: str) -> None:
    client = dns_profiles.client(name)
    found = tried(name, LONG)
    expected = ["udp", "tcp"] if client.fallback_on_truncation else ["udp"]
    assert found.attempts["transport"].to_list() == expected
    last = "answered" if client.fallback_on_truncation else "truncated"
    assert found.attempts["fate"].to_list()[-1] == last


@pytest.mark.parametrize("name", CLIENTS)
def test_drop(name: str) -> None:
    client = dns_profiles.client(name)
    found = tried(name, SHORT, PATIENT, line='middlebox = { drop_dns_above = "20 B" }')
    assert len(rows(found, "udp")) == client.attempts
    assert gaps(rows(found, "udp")) == pytest.approx(client.timeouts_s[:-1])
    tcp = rows(found, "tcp")["fate"].to_list()
    assert tcp == (["answered"] if client.fallback_on_timeout else [])


@pytest.mark.parametrize("name", CLIENTS)
def test_cut_and_lost(name: str) -> None:
    """The trial cut-lost: a lost fragment is a lost reply."""
    client = dns_profiles.client(name)
    keys = (f'messages = [{{ query = "51 B", reply = "{cases.LONG} B" }}]', EDNS)
    narrow = f'mtu = "{cases.MTU} B"'
    whole = tried(name, *keys, line=narrow)
    assert whole.attempts["fate"].to_list() == ["answered"]
    assert whole.attempts["packets_received"].to_list() == [2]
    line = f"{narrow}\nmiddlebox = {{ drop_fragments = true }}"
    lost = tried(name, *keys, PATIENT, line=line)
    udp = rows(lost, "udp")
    assert len(udp) == client.attempts
    assert set(udp["fate"]) == {"reply-lost"}
    assert set(udp["reason"]) == {"middlebox-fragment"}
    assert gaps(udp) == pytest.approx(client.timeouts_s[:-1])
    tcp = rows(lost, "tcp")["fate"].to_list()
    assert tcp == (["answered"] if client.fallback_on_timeout else [])


@pytest.mark.parametrize("name", CLIENTS)
def test_ports(name: str) -> None:
    client = dns_profiles.client(name)
    text = TEXT.format(profile=name, keys="queries = 1", line="", duration=1)
    dns = Scenario.parse(text).plan()["applications"][0]["kind"]["dns-client"]
    assert dns["udp"]["new_port"] is client.new_port


@pytest.mark.parametrize("name", WITH_TCP)
def test_refuse(name: str) -> None:
    client = dns_profiles.client(name)
    found = tried(name, LONG, PATIENT, "answers = { tcp = false }")
    tcp = rows(found, "tcp")
    assert len(tcp) == client.tcp_attempts_refused
    assert set(tcp["fate"]) == {"refused"}
    asked = 1
    if client.tcp_retries == "udp-first":
        asked = client.tcp_attempts_refused // client.tcp_refused_together
    assert len(rows(found, "udp")) == asked
    # One right after the other, or after a query over UDP.
    assert all(gap < 2.5 * TRIP for gap in gaps(found.attempts))


@pytest.mark.parametrize("name", WITH_TCP)
@pytest.mark.parametrize("trial", ["close", "reset"])
def test_close_and_reset(name: str, trial: str) -> None:
    client = dns_profiles.client(name)
    found = tried(name, LONG, PATIENT, f'answers = {{ on_query = "{trial}" }}')
    tcp = rows(found, "tcp")
    close, reset = client.tcp_attempts_closed, client.tcp_attempts_reset
    expected, fate = (close, "closed") if trial == "close" else (reset, "reset")
    assert len(tcp) == expected
    assert set(tcp["fate"]) == {fate}
    assert len(rows(found, "udp")) == (expected if client.tcp_retries == "udp-first" else 1)
    # Each query was acknowledged, so the handshake was over.
    assert set(tcp["handshake_round_trips"]) == {1}


@pytest.mark.parametrize("name", WITH_TCP)
def test_silent(name: str) -> None:
    client = dns_profiles.client(name)
    found = tried(name, LONG, PATIENT, 'answers = { tcp_service = "900 s" }', duration=300)
    tcp = rows(found, "tcp")
    assert len(tcp) == client.tcp_attempts_silent
    if client.tcp_answer_timeout_s is None:
        # The client waits forever.
        assert tcp["fate"].to_list() == ["pending"]
        return
    assert set(tcp["fate"]) == {"timed-out"}
    again = client.tcp_after_silence
    assert tcp["reused"].to_list() == [False] + [again] * (client.tcp_attempts_silent - 1)
    for gap in gaps(tcp):
        assert gap == about(client.tcp_answer_timeout_s)


@pytest.mark.parametrize("name", WITH_TCP)
def test_lost(name: str) -> None:
    client = dns_profiles.client(name)
    found = tried(name, LONG, PATIENT, line='middlebox = { block_tcp_53 = "drop" }')
    first = rows(found, "tcp").row(0, named=True)
    ended = found.attempts.filter(pl.col("sent_s") > first["sent_s"])["sent_s"].to_list()
    ended += found.queries["end_s"].to_list()
    # tcp_syn_retries 6, and timers of Linux that are late (`calc_wheel_index`).
    expected = client.tcp_connect_timeout_s or pytest.approx(127, rel=0.15)
    assert ended[0] - first["sent_s"] == (
        about(expected) if isinstance(expected, float) else expected
    )
    assert first["fate"] == "timed-out"


@pytest.mark.parametrize("name", WITH_TCP)
def test_limits_of_a_query_over_tcp(name: str) -> None:
    """UDP's timeouts do not end a query that has changed to TCP."""
    client = dns_profiles.client(name)
    found = tried(name, LONG, 'answers = { tcp_service = "900 s" }', duration=300)
    took = (found.queries["end_s"] - found.queries["start_s"]).to_list()[0]
    if client.tcp_answer_timeout_s is None:
        assert took is None
        return
    patience = client.tcp_attempts_silent * client.tcp_answer_timeout_s
    limit = client.overall_limit_s or patience
    assert took == pytest.approx(min(limit, patience), rel=0.1)


@pytest.mark.parametrize("name", WITH_TCP)
def test_sequence(name: str) -> None:
    client = dns_profiles.client(name)
    found = tried(name, "queries = 5", 'think_mean = "300 ms"', LONG)
    tcp = rows(found, "tcp")
    assert set(tcp["fate"]) == {"answered"}
    assert tcp["reused"].to_list() == [False] + [client.reuse] * 4


@pytest.mark.parametrize("name", WITH_TCP)
def test_together(name: str) -> None:
    client = dns_profiles.client(name)
    shared = 'transport = { kind = "udp", shared = true }' if client.reuse else ""
    slow = 'answers = { tcp_service = "500 ms" }'
    found = tried(name, "workers = 10", LONG, shared, slow)
    tcp = rows(found, "tcp")
    assert set(tcp["fate"]) == {"answered"}
    opened = (~tcp["reused"]).sum()
    # All go out while the first waits, on one connection, or each on its own.
    assert opened == (1 if client.pipelining else 10)


LOST_SYNS = """
name = "lost-syns"
duration = "25 s"
monitor = { capture = ["line.forward"] }

[[links]]
name = "line"
between = ["client", "server"]
rate = "1 Gbit/s"
backward = { loss = 1.0 }

[[dns]]
name = "client"
client = "client"
server = "server"
transport = { kind = "tcp", tcp = { syn_linear_timeouts = %d } }
queries = 1
"""


@pytest.mark.servers
@pytest.mark.parametrize("name", ["dig", "glibc"])
def test_lost_syns_are_repeated_as_this_kernel_repeats_them(
    name: str, trials: Trials, tmp_path: Path
) -> None:
    """These clients let the kernel decide when a lost SYN is sent again, and wait long enough."""
    if (name, "lost") not in trials:
        pytest.skip(f"{name} is not installed; {INSTALL}")
    shown = observe.repeated_syns(trials[name, "lost"])
    sysctl = "net/ipv4/tcp_syn_linear_timeouts"
    linear = int(KERNEL[sysctl]) if (Path("/proc/sys") / sysctl).exists() else 0
    capture = tmp_path / "line.pcapng"
    capture.write_bytes(run(Scenario.parse(LOST_SYNS % linear)).capture("line.forward"))
    packets = [parse(frame, at, from_client=True) for at, frame in read_pcapng(capture)]
    syns = [packet.at for packet in packets if packet and packet.flags & SYN]
    # dig gives up after 10 s, and glibc is stopped when the trial ends.
    assert len(syns) >= len(shown) >= (7 if linear else 4)
    for at, simulated in zip(shown, syns, strict=False):
        assert abs(at - (simulated - syns[0])) < 0.1 + 0.02 * at, (shown, syns)

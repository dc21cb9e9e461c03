"""DNS over TLS on a real kernel: rustls at both ends, and servers that speak it."""

from __future__ import annotations

import shutil
from collections import Counter

import polars as pl
import pytest

from narrows import Run, Scenario, run
from narrows.backends import get
from narrows.backends.kernel import certificates
from narrows.backends.kernel.dns_messages import asked_name, padded, query
from narrows.testbed.needs import PATH
from narrows.testbed.software import SOFTWARE
from tests.kernel.own_servers import attempts, own_servers

GROUPS = {
    # A connection for each query; a key of RSA, whose signatures are of one length.
    "fresh": 'answers.tls = { certificates = "google-rsa" }',
    "resumed": "transport.tls = { resume = true }",
    "kept": "transport.reuse = true",
    "pipelined": "workers = 3\n"
    "transport.reuse = true\ntransport.pipelining = true\ntransport.shared = true",
    "unpadded": 'transport.tls.padding = "0 B"\nanswers.tls = { certificates = "google-rsa" }',
    # RFC 8446, 2: the answer to a ClientHello takes its time, and the server's flight has parts.
    "slow": 'answers.tls = { certificates = ["4000 B", "4000 B"], key = "rsa-2048", '
    'handshake_service = "30 ms", service = "5 ms", tickets = 0 }',
    "closed": 'answers.on_query = "close"\ntransport.tries = { closed = 2 }',
}

REAL = ("bind", "nsd", "unbound")
"""Knot DNS 3.2 has no TLS but QUIC's."""


def scenario(groups: dict[str, str], **settings: str) -> Scenario:
    """The groups over TLS, with three queries each."""
    groups = {name: f'transport.kind = "tls"\nqueries = 3\n{keys}' for name, keys in groups.items()}
    return own_servers('name = "tls"\nduration = "20 s"\nend = "dns"', groups, **settings)


def needs(*programs: str) -> None:
    for program in programs:
        if not shutil.which(program, path=PATH):
            pytest.skip(f"{program} is not installed (SKIP: sh tools/install_test_tools.sh)")


@pytest.fixture(scope="module")
def results(guest: str) -> tuple[Run, Run]:
    """The same on the kernel and in the simulator."""
    needs("openssl")
    found = scenario(GROUPS)
    return run(found, backend=guest), run(found)


@pytest.mark.slow
@pytest.mark.parametrize("name", GROUPS)
def test_attempts_end_as_in_the_simulator(results: tuple[Run, Run], name: str) -> None:
    columns = ["transport", "fate", "reused", "handshake_round_trips"]
    kernel, simulated = (
        Counter(attempts(result, name).select(columns).iter_rows()) for result in results
    )
    assert kernel == simulated


@pytest.mark.slow
@pytest.mark.parametrize("name", ["fresh", "unpadded"])
def test_bytes_are_those_of_the_simulator(results: tuple[Run, Run], name: str) -> None:
    columns = ["packets_sent", "bytes_sent", "packets_received", "bytes_received"]
    kernel, simulated = (attempts(result, name).select(columns).rows() for result in results)
    assert kernel == simulated


@pytest.mark.slow
@pytest.mark.parametrize("name", ["fresh", "resumed", "kept", "slow"])
def test_times_are_those_of_the_simulator(results: tuple[Run, Run], name: str) -> None:
    for column in ("handshake_ms", "took"):
        kernel, simulated = (
            attempts(result, name)
            # The very first packets wait until ARP has resolved the neighbour.
            .filter(pl.col("index") > 0)
            .with_columns(took=1e3 * (pl.col("received_s") - pl.col("sent_s")))
            .get_column(column)
            .to_list()
            for result in results
        )
        assert len(kernel) == 2
        # An ECDSA signature is up to 2 bytes longer or shorter than that of the simulator.
        assert kernel == pytest.approx(simulated, abs=0.1)


USES = {
    "fresh": "",
    "resumed": "transport.tls = { resume = true }",
    "kept": "transport.reuse = true",
}
"""How clients of real servers use their connections."""


@pytest.fixture(scope="module")
def real(guest: str) -> tuple[Run, Run]:
    """Servers of each kind, and the simulator's profiles of them."""
    needs("openssl", *(SOFTWARE[name].program for name in REAL))
    found = scenario(
        {
            f"{name}-{use}": f'answers.software = "{name}"\n{keys}'
            for name in REAL
            for use, keys in USES.items()
        }
    )
    return run(found, backend=guest), run(found)


@pytest.mark.slow
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("name", REAL)
def test_real_servers_speak_it_as_their_profiles_do(
    real: tuple[Run, Run], name: str, use: str
) -> None:
    """docs/dns-tls.md: the first reply takes another round trip, and mostly 40 ms more."""
    # The very first packets wait until ARP has resolved the neighbour.
    kernel, simulated = (
        attempts(result, f"{name}-{use}").filter(pl.col("index") > 0) for result in real
    )
    assert kernel.get_column("fate").to_list() == ["answered"] * 2
    trips = [0 if use == "kept" else 2] * 2
    for rows in (kernel, simulated):
        assert rows.get_column("handshake_round_trips").to_list() == trips
    took = [
        (1e3 * (rows.get_column("received_s") - rows.get_column("sent_s"))).to_list()
        for rows in (kernel, simulated)
    ]
    # The guest's kernel delays an acknowledgement until a tick, and has 100 ticks a second.
    assert took[0] == pytest.approx(took[1], abs=10.0)
    if use != "kept":
        assert min(took[0]) > 100.0
    # An ECDSA signature is up to 2 bytes longer or shorter than that of the simulator.
    carried = [
        (rows.get_column("bytes_received") - 52 * rows.get_column("packets_received")).to_list()
        for rows in (kernel, simulated)
    ]
    assert carried[0] == pytest.approx(carried[1], abs=2)


@pytest.mark.slow
@pytest.mark.parametrize("name", REAL)
def test_clients_of_real_servers_say_as_much_as_the_scenario(
    real: tuple[Run, Run], name: str
) -> None:
    """A ClientHello with a session depends on the server's ticket, and so is left out here."""
    for use in ("fresh", "kept"):
        columns = (
            attempts(result, f"{name}-{use}")
            .select(pl.col("bytes_sent") - 52 * pl.col("packets_sent"))
            .to_series()
            .to_list()
            for result in real
        )
        assert next(columns) == next(columns)


@pytest.mark.parametrize(("kind", "software"), [("https", "bind"), ("quic", "knot")])
def test_real_servers_are_asked_over_nothing_else(kind: str, software: str) -> None:
    found = own_servers(
        'name = "others"\nduration = "5 s"',
        {"stubs": f'transport.kind = "{kind}"\nanswers.software = "{software}"'},
    )
    refused = [(each.key, each.why) for each in get("kernel").refusals(found)]
    why = "a real server is asked over UDP, TCP or TLS"
    assert ("dns.stubs.transport", why) in refused


@pytest.mark.slow
def test_versions_and_logs_of_real_servers_are_kept(real: tuple[Run, Run]) -> None:
    servers = real[0].host["kernel"]["servers"]
    assert {name.partition("-")[0] for name in servers} == set(REAL)
    assert len(servers) == len(REAL) * len(USES)


@pytest.mark.parametrize(
    ("keys", "refused"),
    {
        # A certificate has a name and a key.
        'answers.tls.certificates = ["100 B"]': "transport",
        'answers.software = "nsd"\nanswers.tls.tickets = 3': "answers.tls.tickets",
    }.items(),
)
def test_what_cannot_be_made_is_refused_by_name(keys: str, refused: str) -> None:
    found = get("kernel").refusals(scenario({"stubs": keys}))
    assert [each.key for each in found] == [f"dns.stubs.{refused}"]


def test_certificates_are_as_long_as_asked_for() -> None:
    """X.690, 8.1.3: lengths of 128 and 256 bytes and more take more bytes themselves."""
    needs("openssl")
    for length in (600, 605, 661, 662, 663, 664, 2377):
        text = certificates.pem("ecdsa-p256", length)
        assert certificates._length(text) == length
        assert text.startswith("-----BEGIN PRIVATE KEY-----")


def test_queries_are_padded() -> None:
    """RFC 8467, 4.1: to a multiple of 128 bytes; RFC 6891, 6.1.2: the option's length."""
    for length, payload in ((40, 65_507), (60, 65_507), (128, 65_507), (200, 65_507), (40, 512)):
        plain = query(7, length, payload)
        found = padded(plain, 128)
        assert len(found) % 128 == 0 and len(found) - len(plain) < 128 + 15
        assert asked_name(found) == asked_name(plain)
        at = 12 + len(asked_name(found)) + 4
        assert found[at : at + 3] == b"\0\0\x29"
        assert found[at + 11 : at + 13] == b"\0\x0c", "the option that comes first (RFC 7830, 3)"
        assert int.from_bytes(found[at + 9 : at + 11], "big") == len(found) - at - 11
        assert int.from_bytes(found[at + 13 : at + 15], "big") == len(found) - at - 15

"""DNS over TLS, HTTPS and QUIC in the language: the effect of keys, and what is refused."""

from __future__ import annotations

import pytest

from narrows import Scenario, run
from narrows.errors import ScenarioError
from tests.scenario.dns_plans import TEXT, plan


def test_over_tls_both_ends_have_its_settings() -> None:
    client, server, tcp = plan('transport = "tls"')
    assert client["udp"] is None
    # RFC 8467, section 4.1.
    assert client["tcp"]["tls"]["padding"] == 128
    assert server["tcp"]["tls"]["padding"] == 468
    # RFC 8446, 4.4.2: header, context, length; each certificate has its length and extensions.
    assert server["tcp"]["tls"]["handshake"]["certificate"] == 4 + 1 + 3 + 1400 + 982
    assert [ends["nagle"] for ends in tcp] == [False]
    # Padding is an option of an OPT record of 11 bytes.
    assert client["sizes"]["drawn"]["query"]["constant"] == 70 - 28 + 11


@pytest.mark.parametrize(("profile", "fate"), [("knot", "closed"), ("bind", "answered")])
def test_knot_cuts_off_a_client_that_is_slow_in_the_middle_of_a_query(
    profile: str, fate: str
) -> None:
    # Length and query are two writes, and Nagle's algorithm holds the second back for a round trip
    # of 600 ms: longer than Knot's 0.5 s for half a query, shorter than BIND's 30 s.
    keys = (
        'transport = { kind = "tcp", writes = "apart", tcp = { nagle = true } }\n'
        f'answers = {{ profile = "{profile}" }}'
    )
    far = TEXT.replace('delay = "20 ms"', 'delay = "300 ms"')
    found = run(Scenario.parse(far + keys))
    assert set(found.attempts["fate"]) == {fate}


def test_http3_has_the_keys_of_quic_and_servers_without_profile() -> None:
    client, server, _ = plan(
        'transport = { kind = "http3", reuse = true, quic = { congestion = "cubic" } }'
    )
    of_client, of_server = (each["tcp"]["tls"] for each in (client, server))
    assert of_client["http3"] == {"settings": 14, "fields": 33}
    assert of_server["http3"] == {"settings": 11, "fields": 20}
    assert of_client["quic"]["congestion"] == of_server["quic"]["congestion"] == "cubic"
    assert of_client["handshake"]["alpn"] == len("h3")
    assert plan('transport = "quic"')[0]["tcp"]["tls"]["http3"] is None
    with pytest.raises(ScenarioError, match=r"knot was not captured over HTTP/3"):
        plan('transport = "http3"', 'answers = { profile = "knot" }')
    with pytest.raises(ScenarioError, match=r'set "http3"|transport: .*http3'):
        plan('transport = "doh3"')


def test_what_tls_takes_is_set_apart_for_handshakes_and_for_queries() -> None:
    _, server, _ = plan('transport = "tls"', 'answers = { tcp_service = "3 ms" }')
    tcp = server["tcp"]
    assert (tcp["extra_service"], tcp["tls"]["extra_service"]) == (3 * 10**9, None)
    assert tcp["tls"]["handshake"]["service"] == 0
    _, server, _ = plan(
        'transport = "tls"',
        'answers = { tls = { handshake_service = "2 ms", service = "1 ms" } }',
    )
    tls = server["tcp"]["tls"]
    assert (tls["extra_service"], tls["handshake"]["service"]) == (10**9, 2 * 10**9)


def test_profiles_say_how_programs_speak_tls() -> None:
    client, server, tcp = plan(
        'transport = "tls"',
        'profile = "dig"',
        'answers = { profile = "bind", tls = { certificates = ["500 B"], key = "rsa-4096" } }',
    )
    of_client, of_server = (each["tcp"]["tls"] for each in (client, server))
    # As docs/dns-clients.md and docs/dns-servers.md have it: neither pads, and both leave Nagle's
    # algorithm on.
    assert (of_client["padding"], of_server["padding"]) == (None, None)
    assert tcp[client["tcp"]["tcp"]]["nagle"] and tcp[server["tcp"]["tcp"]]["nagle"]
    handshake = of_server["handshake"]
    assert (handshake["ticket"], handshake["tickets_apart"], handshake["write"]) == (
        271,
        False,
        None,
    )
    # RSA's signature has the length of its modulus (RFC 8017, 8.1).
    assert (handshake["certificate"], handshake["signature"]) == (8 + 505, 512)


TLS = 'transport = "tls"'
HTTPS = 'transport = "https"'


@pytest.mark.parametrize(
    ("lines", "key", "said"),
    [
        (
            ['transport = { kind = "tls", tls = { early_data = true } }'],
            "transport.tls.early_data",
            "needs a session to resume",
        ),
        (
            ['transport = { kind = "tls", tls = { early_data = true, resume = true } }'],
            "transport.tls.early_data",
            "set answers.tls.early_data to true",
        ),
        (
            ['transport = { kind = "tls", pipelining = true }'],
            "transport.pipelining",
            "used again",
        ),
        ([TLS, 'answers = { profile = "knot" }'], "answers.profile", "knot does not speak TLS"),
        ([TLS, "answers = { stateless = true }"], "answers.stateless", "has no TLS"),
        ([TLS, "answers = { tcp = false }"], "answers.tcp", "must be true for TLS"),
        (["answers = { tcp = false, tls = {} }"], "answers.tls", "no effect without TCP"),
        (
            [TLS, 'answers = { tls = { certificates = ["99 B"] } }'],
            "answers.tls.certificates[0]",
            "at least 100",
        ),
        ([TLS, 'answers = { tls = { certificates = "mine" } }'], "certificates", "google-rsa"),
        (
            [HTTPS, 'answers = { profile = "nsd" }'],
            "answers.profile",
            "nsd was not captured over HTTPS; hint: name bind or dnsdist, or leave the profile out",
        ),
        (
            [TLS, 'answers = { profile = "knot" }'],
            "answers.profile",
            "knot does not speak TLS; hint: name bind, dnsdist, nsd or unbound, or leave",
        ),
    ],
)
def test_what_tls_cannot_do_is_refused_by_name(lines: list[str], key: str, said: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        plan(*lines)
    assert key in str(caught.value)
    assert said in str(caught.value)


def test_over_https_both_ends_have_its_settings() -> None:
    client, server, _ = plan(HTTPS, 'profile = "kdig"', 'answers = { profile = "dnsdist" }')
    # As docs/dns-clients.md and docs/dns-servers.md have it.
    assert client["tcp"]["tls"]["https"] == {"preface": 39, "fields": 62, "fields_again": 20}
    # The name of the protocol is "h2" (RFC 9113, 3.1) instead of "dot".
    assert client["tcp"]["tls"]["handshake"]["alpn"] == 2
    assert server["tcp"]["tls"]["https"]["responses"]["settings"] == 43
    shared = 'name = "more"\nclient = "client"\nserver = "server"\nqueries = 5\n'
    shared = f'[[dns]]\n{shared}{HTTPS}\nshares_server = "stubs"\n'
    of_nsd = 'answers = { profile = "nsd", tls = {} }\n'
    with pytest.raises(ScenarioError, match="nsd was not captured over HTTPS"):
        Scenario.parse(TEXT + of_nsd + shared)


@pytest.mark.parametrize("declares", ["udp", "tcp", "tls", "https"])
def test_a_shared_server_speaks_tls_and_https_in_their_own_ways(declares: str) -> None:
    # As captured, BIND has Nagle's algorithm only over TLS, and dnsdist a write for each ticket.
    for profile, nagle, apart in (("bind", True, False), ("dnsdist", False, True)):
        answers = f'answers = {{ profile = "{profile}", tls = {{}} }}'
        plan = Scenario.parse("\n".join([TEXT, f'transport = "{declares}"', answers])).plan()
        server = plan["applications"][1]["kind"]["dns-server"]["tcp"]
        https = server["tls"]["https"]
        of_ports = [plan["tcp"][each["tcp"]]["nagle"] for each in (server, https)]
        assert of_ports == [nagle, False]
        apart_of = [each["handshake"]["tickets_apart"] for each in (server["tls"], https)]
        assert apart_of == [apart, False]
        # RFC 9113, 3.3.
        assert https["handshake"]["alpn"]


def test_attempts_over_https_say_so() -> None:
    result = run(Scenario.parse(TEXT + HTTPS))
    assert set(result.attempts["transport"]) == {"https"}
    # RFC 8484: as many round trips as TLS.
    assert set(result.attempts["handshake_round_trips"]) == {2}


QUIC = 'transport = "quic"'


def test_over_quic_both_ends_have_its_settings() -> None:
    client, server, _ = plan(
        'transport = { kind = "quic", reuse = true, quic = { congestion = "cubic", ecn = true } }'
    )
    of_client, of_server = (each["tcp"]["tls"]["quic"] for each in (client, server))
    assert of_client == of_server
    assert (of_client["congestion"], of_client["ecn"]) == ("cubic", True)
    # RFC 9000, 14 and 18.2; RFC 9002, 7.2.
    assert (of_client["payload"], of_client["initial_window"]) == (1200, None)
    assert of_client["max_ack_delay"] == 25 * 10**9
    # RFC 9250, 4.2: each query has a stream of its own.
    assert client["tcp"]["reuse"]["persistent"]["pipelined"]


def test_attempts_over_quic_say_so() -> None:
    early = 'transport = { kind = "quic", tls = { resume = true, early_data = true } }'
    server = "answers = { tls = { early_data = true } }"
    result = run(Scenario.parse("\n".join([TEXT, early, server])))
    attempts = result.attempts
    assert set(attempts["transport"]) == {"quic"}
    # RFC 9001, 4 and 4.6: a round trip for the handshake, then none.
    assert attempts["handshake_round_trips"].to_list() == [1, 0, 0, 0, 0]
    trips = [ms / 40 for ms in result.queries["response_ms"].to_list()]
    assert trips == pytest.approx([2, 1, 1, 1, 1], abs=0.1)
    # RFC 9000, 14.1: the hello is in a datagram of 1200 bytes.
    assert min(attempts["bytes_sent"].to_list()) > 1200


@pytest.mark.parametrize(
    ("lines", "key", "said"),
    [
        (
            ['transport = { kind = "quic", tls = { early_data = true } }'],
            "transport.tls.early_data",
            "needs a session to resume",
        ),
        (
            [QUIC, 'answers = { profile = "bind" }'],
            "answers.profile",
            "bind was not captured over QUIC; hint: name knot, or leave the profile out",
        ),
        ([QUIC, "answers = { stateless = true }"], "answers.stateless", "has no TLS"),
        (
            ['transport = { kind = "quic", quic = { payload = "1199 B" } }'],
            "transport.quic.payload",
            "1200",
        ),
    ],
)
def test_what_quic_cannot_do_is_refused_by_name(lines: list[str], key: str, said: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        plan(*lines)
    assert key in str(caught.value)
    assert said in str(caught.value)


def test_a_shared_server_needs_tls_of_its_own() -> None:
    shared = """
[[dns]]
name = "more"
client = "client"
server = "server"
queries = 5
transport = "tls"
shares_server = "stubs"
"""
    with pytest.raises(ScenarioError, match=r"give stubs answers.tls"):
        Scenario.parse(TEXT + shared)
    plan = Scenario.parse(TEXT + "answers = { tls = {} }\n" + shared).plan()
    assert plan["applications"][1]["kind"]["dns-server"]["tcp"]["tls"] is not None


def test_quic_shares_a_server_that_has_keys_of_tcp() -> None:
    shared = """
[[dns]]
name = "more"
client = "client"
server = "server"
queries = 5
transport = "quic"
shares_server = "stubs"
"""
    # Keys of TCP are useful for other groups that ask this server.
    Scenario.parse(TEXT + "answers = { nagle = true, tls = {} }\n" + shared)


@pytest.mark.parametrize(("transport", "trips"), [("tls", 3), ("https", 3), ("quic", 2)])
def test_a_server_signs_over_every_transport(transport: str, trips: int) -> None:
    # Half of the round trip of 40 ms.
    slow = 'answers = { tls = { handshake_service = "20 ms" } }'
    result = run(Scenario.parse("\n".join([TEXT, f'transport = "{transport}"', slow])))
    found = [ms / 40 for ms in result.queries["response_ms"].to_list()]
    assert found == pytest.approx([trips + 0.5] * 5, abs=0.1)


def test_attempts_over_tls_say_so() -> None:
    early = 'transport = { kind = "tls", tls = { resume = true, early_data = true } }'
    server = "answers = { tls = { early_data = true } }"
    result = run(Scenario.parse("\n".join([TEXT, early, server])))
    attempts = result.attempts
    assert set(attempts["transport"]) == {"tls"}
    # RFC 8446, 2 and 2.3: TCP and TLS, and then TCP alone.
    assert attempts["handshake_round_trips"].to_list() == [2, 1, 1, 1, 1]
    trips = [ms / 40 for ms in result.queries["response_ms"].to_list()]
    assert trips == pytest.approx([3, 2, 2, 2, 2], abs=0.05)
    assert result.summary["dns"]["transports"]["tls"]["attempts"] == 5


@pytest.mark.parametrize("shared", ["true", "false"])
def test_no_packet_is_counted_twice_where_queries_overlap(shared: str) -> None:
    text = (
        'workers = 20\nthink_mean = "10 ms"\n'
        f'transport = {{ kind = "tcp", reuse = true, shared = {shared} }}\n'
        '[monitor.links]\nlinks = ["wan"]\nrate = 100.0\n'
    )
    # The run goes on to its end, so that the last sample has every packet.
    found = run(Scenario.parse(TEXT.replace('end = "dns"', "") + text))
    for column, direction in (("packets_sent", "forward"), ("packets_received", "backward")):
        link = found.links.filter(link=f"wan.{direction}")
        # The link carries nothing else. Only packets between queries count for no query: FINs and
        # late acknowledgements.
        carried = link.get_column("packets").max()
        counted = found.attempts.get_column(column).cast(int).sum()
        assert 0.5 * carried <= counted <= carried

"""DNS over UDP and TCP in the language: profiles, their values, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from narrows import Scenario, dns_profiles, run
from narrows.cli.schedules import schedules
from narrows.errors import ScenarioError
from narrows.results import summary_table
from tests.scenario.dns_plans import TEXT, S, plan


def remarks(*lines: str) -> list[str]:
    """The remarks of `narrows check`."""
    scenario = Scenario.parse(TEXT + "\n".join(lines))
    return [line for line in schedules(scenario) if line.startswith("warning")]


def test_check_says_when_a_client_gives_up() -> None:
    def said(*lines: str) -> list[str]:
        scenario = Scenario.parse(TEXT + "\n".join(lines))
        return [line for line in schedules(scenario) if "gives up" in line]

    # As in docs/dns-clients.md for Unbound 1.17.1: 0, 0.376, 0.752 and 1.504 s are before 1.9 s.
    assert said('profile = "unbound"') == [
        "stubs: it gives up a query after 1.9 s, so it makes only 4 of its 9 attempts over UDP "
        '(profile = "unbound")'
    ]
    # This schedule is Unbound's, and the limit is not part of it.
    assert said('transport = { kind = "udp", retry = "unbound" }') == []
    assert said('gives_up = "9 s"', 'transport = { kind = "udp", retry = ["1 s", "2 s"] }') == [
        "stubs: it gives up a query after 9 s (gives_up)"
    ]
    # The third attempt would begin when the query is given up.
    retry = 'transport = { kind = "udp", retry = ["1 s", "2 s", "4 s"] }'
    assert "2 of its 3 attempts" in said('gives_up = "3 s"', retry)[0]
    assert said('gives_up = "9 s"', 'transport = "tcp"') == [
        "stubs: it gives up a query after 9 s (gives_up)"
    ]


def test_a_summary_says_why_it_has_no_response_times() -> None:
    lossy = TEXT.replace('delay = "20 ms"', 'delay = "20 ms"\nloss = 1.0')
    found = str(summary_table(run(Scenario.parse(lossy + 'gives_up = "1 s"'))))
    assert "response time" not in found.split("\nwarning: ")[0]
    assert "warning: no measured query was answered, so there are no response times" in found
    whole = str(summary_table(run(Scenario.parse(TEXT))))
    assert "no response times" not in whole


def test_without_limits_nothing_is_truncated_and_udp_asks_alone() -> None:
    client, server, _ = plan()
    assert client["udp"]["payload"] == server["udp_payload"] == 65_507
    assert client["tcp"] is None


@pytest.mark.parametrize(
    "limit",
    ['transport = { kind = "udp", edns_size = "1232 B" }', 'answers = { udp_size = "1232 B" }'],
)
def test_a_limit_brings_the_retry_over_tcp(limit: str) -> None:
    client, _, _ = plan(limit)
    assert (client["udp"]["tcp_if_truncated"], client["udp"]["tcp_if_silent"]) == (True, False)
    assert client["tcp"]["reuse"] == "never"


def test_a_profile_gives_what_is_left_out_and_keys_win_over_it() -> None:
    # As in docs/dns-clients.md for Unbound 1.17.1.
    client, _, _ = plan('profile = "unbound"')
    assert client["udp"]["payload"] == 1232
    assert client["udp"]["timeouts"][0] == 376 * 10**9
    kept = client["tcp"]["reuse"]["persistent"]
    assert (kept["idle_timeout"], kept["queries"], kept["pipelined"]) == (60 * S, 200, True)
    assert client["tcp"]["attempts"] == {"refused": 10, "closed": 5, "reset": 5, "silent": 5}
    assert client["tcp"]["udp_between"]
    client, _, _ = plan(
        'profile = "unbound"',
        'transport = { kind = "udp", retry = ["1 s"], edns_size = "4 kB", queries = 7, tries = 2, '
        'udp_between = false, idle_timeout = "1 s" }',
    )
    assert (client["udp"]["timeouts"], client["udp"]["payload"]) == ([S], 4000)
    kept = client["tcp"]["reuse"]["persistent"]
    assert (kept["idle_timeout"], kept["queries"]) == (S, 7)
    assert set(client["tcp"]["attempts"].values()) == {2}
    assert not client["tcp"]["udp_between"]


def test_a_client_without_edns_takes_512_bytes() -> None:
    client, _, _ = plan('profile = "glibc"')
    assert client["udp"]["payload"] == 512
    # The client waits forever for a reply over TCP.
    assert client["tcp"]["answer_timeout"] is None


def test_clients_ask_for_cookies_as_measured_and_servers_give_none_unasked() -> None:
    # docs/dns-clients.md: Unbound, dnsmasq and systemd-resolved. By default, Linux lets no server
    # use Fast Open.
    for profile, expected in {"unbound": True, "systemd-resolved": True, "glibc": False}.items():
        client, server, tcp = plan(f'profile = "{profile}"', 'answers = { profile = "knot" }')
        assert tcp[client["tcp"]["tcp"]]["fast_open"] is expected
        assert not tcp[server["tcp"]["tcp"]]["fast_open"]
    client, server, tcp = plan(
        'profile = "unbound"',
        'transport = { kind = "udp", fast_open = false }',
        "answers = { fast_open = true }",
    )
    # Without Fast Open, no second connection follows one that was refused with it.
    assert client["tcp"]["attempts"]["refused"] == 5
    assert client["tcp"]["refused_together"] == 1
    assert not tcp[client["tcp"]["tcp"]]["fast_open"]
    assert tcp[server["tcp"]["tcp"]]["fast_open"]


def test_with_fast_open_at_both_ends_a_query_takes_one_round_trip() -> None:
    keys = 'transport = { kind = "tcp", fast_open = true }\nanswers = { fast_open = true }'
    found = run(Scenario.parse(TEXT + keys))
    assert found.attempts["handshake_round_trips"].to_list() == [1, 0, 0, 0, 0]
    response = found.queries["response_ms"]
    assert response[0] > 80 and all(40 < ms < 41 for ms in response[1:])


def test_edns_adds_its_record_to_queries_of_a_given_size() -> None:
    def query(*lines: str) -> int:
        client, _, _ = plan(*lines)
        size: int = client["sizes"]["drawn"]["query"]["constant"]
        return size

    assert query() == 42
    # RFC 6891, 6.1.2: root, type, class, TTL, and an empty RDATA.
    assert query('transport = { kind = "udp", edns_size = "1232 B" }') == 42 + 11
    assert query('profile = "glibc"') == 42
    over_udp = 'transport = { kind = "udp", edns_size = "4 kB" }'
    assert query('profile = "glibc"', over_udp) == 42 + 11
    # With a cookie, as measured.
    assert query('profile = "dig"') == 42 + 23


def test_systemd_resolved_asks_six_times_over_udp() -> None:
    client, _, _ = plan('transport = { kind = "udp", retry = "systemd-resolved" }')
    timeouts = client["udp"]["timeouts"]
    assert (len(timeouts), timeouts[0]) == (6, 5 * S)
    assert sum(timeouts) == 31.25 * S


def test_musl_knows_no_tcp() -> None:
    client, _, _ = plan('profile = "musl"')
    assert client["tcp"] is None
    assert not client["udp"]["tcp_if_truncated"]


def test_a_server_s_profile_gives_its_limits() -> None:
    # As in docs/dns-servers.md for NSD 4.6.1.
    _, server, tcp = plan('answers = { profile = "nsd" }')
    assert server["udp_payload"] == 1232
    limits = server["tcp"]
    assert (limits["connections"], limits["backlog"], limits["when_full"]) == (100, 256, "wait")
    assert limits["busy_levels"] == [[0.5, 200 * 10**9]]
    assert not limits["busy_counts_new"] and not limits["busy_stays"]
    assert (limits["idle_timeout"], limits["in_order"]) == (120 * S, True)
    assert tcp[limits["tcp"]]["nagle"]
    assert limits["half_query_timeout"] == 120 * S
    _, server, tcp = plan('answers = { profile = "nsd", connections = 5, nagle = false }')
    assert server["tcp"]["connections"] == 5
    assert not tcp[server["tcp"]["tcp"]]["nagle"]
    # As in the trial busy_handshakes.
    _, server, _ = plan('answers = { profile = "unbound" }')
    assert server["tcp"]["busy_counts_new"] and server["tcp"]["busy_stays"]


@pytest.mark.parametrize("profile", ["bind", "dnsdist", "knot", "nsd", "unbound"])
@pytest.mark.parametrize("client", ["bind", "dig", "glibc", "kdig", "systemd-resolved", "unbound"])
def test_every_client_has_its_answers_from_every_server(client: str, profile: str) -> None:
    # The reply fits into no datagram that these clients take.
    messages = '[{ query = "51 B", reply = "5000 B" }]'
    text = TEXT + f'profile = "{client}"\nmessages = {messages}\nanswers = {{profile="{profile}"}}'
    summary = run(Scenario.parse(text)).summary["dns"]
    assert summary["unanswered"] == 0
    assert summary["without_retry_percent"] == 100.0
    assert summary["transports"]["tcp"]["attempts"] > 0


# docs/dns-clients.md: BIND sets DO, dig sends EDNS without it, glibc no EDNS; 1232, 1232, 512 B.
MEASURED = {
    "bind": lambda choice: choice,
    "dig": lambda choice: choice.without_do,
    "glibc": lambda choice: choice.without_edns,
}


@pytest.mark.parametrize("profile", MEASURED)
@pytest.mark.parametrize("zone", dns_profiles.sizes_names())
def test_a_zone_s_replies_are_truncated_as_often_as_measured(zone: str, profile: str) -> None:
    """docs/dns-servers.md: `truncated`, weighted, of replies to a client that asks so."""
    choices = dns_profiles.sizes(zone).choices
    replies = [(choice.weight, MEASURED[profile](choice)) for choice in choices]
    weights = sum(weight for weight, _ in replies)
    share = sum(weight for weight, reply in replies if reply.truncated) / weights
    lengths = {28 + reply.udp_reply_bytes for _, reply in replies}
    keys = f'profile = "{profile}"\nmessages = "{zone}"\nanswers = {{ profile = "nsd" }}'
    keys += "\nqueries = 4000"
    found = run(Scenario.parse(TEXT.replace("queries = 5", keys).replace("60 s", "9000 s")))
    over_udp = found.attempts.filter(transport="udp")
    assert len(over_udp) == 4000
    shown = over_udp.filter(fate="truncated").height / 4000
    # Five standard errors of a share.
    assert abs(shown - share) <= 5 * (share * (1 - share) / 4000) ** 0.5
    assert set(over_udp["bytes_received"]) <= lengths


def test_a_server_that_may_send_more_sends_the_whole_reply() -> None:
    over_udp = 'transport = { kind = "udp", edns_size = "4096 B" }'
    keys = f'messages = "rsa-nsec"\n{over_udp}\nqueries = 200'
    found = run(Scenario.parse(TEXT.replace("queries = 5", keys)))
    whole = {28 + choice.reply_bytes for choice in dns_profiles.sizes("rsa-nsec").choices}
    # Above 1500 bytes in two fragments.
    assert (
        {2 * 20 + 8 + 1957}
        <= set(found.attempts["bytes_received"])
        <= whole | {length + 20 for length in whole}
    )
    assert set(found.attempts["fate"]) == {"answered"}


def test_a_client_gets_signatures_only_if_it_asks_for_them() -> None:
    # docs/dns-servers.md: www.rsa.test A at NSD, a query of 12 + 14 + 4 bytes without EDNS.
    def first(*lines: str) -> dict[str, Any]:
        client, _, _ = plan('messages = "rsa-nsec"', *lines)
        return dict(client["sizes"]["chosen"][0])

    signed = {"over_udp": {"bytes": 997, "truncated": False}, "reply": 1957, "weight": 48.0}
    assert first() == {"query": 41, **signed}
    # An OPT record of 11 bytes, and of 23 with a cookie (docs/dns-clients.md).
    assert first('profile = "unbound"') == {"query": 41, **signed}
    assert first('profile = "bind"') == {"query": 53, **signed}
    assert first('profile = "dig"') == {"query": 53, "reply": 181, "weight": 48.0}
    assert first('profile = "glibc"') == {"query": 30, "reply": 170, "weight": 48.0}
    # glibc's `options edns0` sets no DO.
    with_edns = first('profile = "glibc"', 'transport = { kind = "udp", edns_size = "1232 B" }')
    assert with_edns == {"query": 41, "reply": 181, "weight": 48.0}
    over_tls = first('profile = "kdig"', 'transport = "tls"')
    assert over_tls == {"query": 41, "reply": 181, "weight": 48.0}


def test_a_server_s_profile_lowers_its_segments() -> None:
    # docs/dns-servers.md: BIND and Knot set TCP_MAXSEG to 1220.
    for profile, expected in {"knot": 1220, "bind": 1220, "nsd": 1460}.items():
        client, server, tcp = plan('transport = "tcp"', f'answers = {{ profile = "{profile}" }}')
        assert tcp[server["tcp"]["tcp"]]["mss"] == expected
        assert tcp[client["tcp"]["tcp"]]["mss"] == 1460
    _, server, tcp = plan(
        'answers = { profile = "knot" }', 'transport = { kind = "udp", tcp = { mss = 1400 } }'
    )
    assert tcp[server["tcp"]["tcp"]]["mss"] == 1400


def test_groups_may_share_a_server_and_its_limits() -> None:
    second = """
[[dns]]
name = "others"
client = "client"
server = "server"
shares_server = "stubs"
transport = "tcp"
queries = 3
"""
    text = (
        TEXT + 'answers = { connections = 1, when_full = "reject" }\ntransport = "tcp"\n' + second
    )
    lowered = Scenario.parse(text).plan()
    kinds = [next(iter(application["kind"])) for application in lowered["applications"]]
    assert kinds == ["dns-client", "dns-server", "dns-client"]
    assert lowered["applications"][2]["kind"]["dns-client"]["server"] == 1
    fates = run(Scenario.parse(text)).attempts.get_column("fate").to_list()
    # Both groups open connections at once, and there is one slot.
    assert "closed" in fates and "answered" in fates


def test_lengths_may_be_chosen_drawn_or_listed() -> None:
    client, _, _ = plan('messages = [{ query = "45 B", reply = "1163 B", weight = 2.0 }]')
    assert client["sizes"] == {"chosen": [{"query": 45, "reply": 1163, "weight": 2.0}]}
    client, _, _ = plan('messages = { query = "45 B", reply = ["100 B", "3 kB"] }')
    drawn = {"query": {"constant": 45}, "reply": {"list": [100, 3000]}}
    assert client["sizes"] == {"drawn": drawn}
    client, _, _ = plan('messages = "root"')
    assert {"query": 44, "reply": 1163, "weight": 40.0} in client["sizes"]["chosen"]
    # NSD's root: the SOA record leaves additional records out where 1232 bytes are offered.
    shorter = {"bytes": 1216, "truncated": False}
    soa = {"query": 28, "reply": 1440, "weight": 1.0, "over_udp": shorter}
    assert soa in client["sizes"]["chosen"]
    client, _, _ = plan('query_size = "70 B"', 'reply_size = "100 B"')
    assert client["sizes"]["drawn"] == {"query": {"constant": 42}, "reply": {"constant": 72}}


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ('transport = "tcp"\nprofile = "musl"', "dns[0].profile: musl does not use TCP"),
        ('transport = "tls"\nprofile = "musl"', "dns[0].profile: musl does not use TCP"),
        (
            'transport = { kind = "tcp", idle_timeout = "5 s" }',
            "dns[0].transport.idle_timeout: needs connections that are used again; hint: set "
            "transport.reuse to true, or leave it out",
        ),
        (
            'transport = { kind = "udp", pipelining = true, queries = 5, shared = true }',
            "dns[0].transport.queries: needs connections that are used again, and so do "
            "pipelining, shared; hint: set transport.reuse to true, or leave them out",
        ),
        (
            'profile = "bind"\ntransport = { kind = "udp", pipelining = true }',
            "dns[0].transport.pipelining: needs connections that are used again",
        ),
        (
            'transport = { kind = "tcp", tcp = { skip_handshake = true } }',
            "dns[0].transport.tcp.skip_handshake: is only for bulk traffic",
        ),
        (
            'messages = "root"\nquery_size = "70 B"',
            "dns[0].messages: excludes query_size and reply_size",
        ),
        ('messages = "toor"', "dns[0].messages"),
        ('messages = [{ query = "11 B", reply = "50 B" }]', "dns[0].messages"),
        ('transport = { kind = "udp", edns_size = "500 B" }', "dns[0].transport.edns_size"),
        (
            "answers = { tcp = false, backlog = 5 }",
            "dns[0].answers.backlog: has no effect without TCP; hint: leave it out, or set tcp",
        ),
        (
            'answers = { when_full = "reject" }',
            "dns[0].answers.when_full: needs a limit of connections",
        ),
        (
            'transport = "tcp"\nanswers = { stateless = true, on_query = "reset" }',
            "dns[0].answers.on_query: needs connections; hint: leave stateless out",
        ),
        ('answers = { on_query = "answers" }', "dns[0].answers.on_query"),
        ('answers = { half_query_timeout = "0 s" }', "dns[0].answers.half_query_timeout"),
        ('shares_server = "nobody"', 'dns[0].shares_server: "nobody" is not a DNS group before'),
        ('transport = { kind = "udp", tries = 0 }', "dns[0].transport.tries"),
        ('profile = "unbond"', "dns[0].profile"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_name(lines: str, said: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        Scenario.parse(TEXT + lines)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_messages_that_no_capture_could_show_are_refused() -> None:
    capture = '\n[monitor]\ncapture = ["wan"]\n'
    # A query in a capture has at least 41 bytes of DNS: a header, a name such as
    # q000000.narrows.example., type and class.
    for messages, words in (
        ('"root"', 'an IP packet of "56 B" holds no DNS message'),
        ('{ query = "40 B", reply = "2 kB" }', 'an IP packet of "68 B"'),
        ('[{ query = "60 B", reply = "65535 B" }, { query = "60 B", reply = "50 B" }]', '"78 B"'),
    ):
        with pytest.raises(ScenarioError, match=r"dns\[0\]\.messages: ") as caught:
            Scenario.parse(f"{TEXT}messages = {messages}\n{capture}")
        assert words in str(caught.value)
    good = '{ query = ["60 B", "70 B"], reply = "65535 B" }'
    scenario = Scenario.parse(f"{TEXT}messages = {good}\n{capture}")
    assert run(scenario).complete


def test_lengths_that_no_message_has_are_refused() -> None:
    for lengths, words in (
        (
            '{ query = "11 B", reply = "1 kB" }',
            r'messages\.query: "11 B" is not the length of a DNS',
        ),
        ('{ query = "40 B", reply = ["1 kB", "65536 B"] }', r'messages\.reply\[1\]: "65536 B" is'),
    ):
        with pytest.raises(ScenarioError, match=rf"dns\[0\]\.{words}"):
            Scenario.parse(f"{TEXT}messages = {lengths}\n")


@pytest.mark.parametrize(
    ("ecn", "expected"),
    [
        ("true", (True, "data")),
        ('"syn-ack"', (True, "syn-ack")),
        ('"plus-plus"', (True, "plus-plus")),
        ('"accurate"', (True, "data")),
        ("false", (False, "data")),
    ],
)
def test_ecn_may_be_for_syns_too(ecn: str, expected: tuple[bool, str]) -> None:
    text = f'transport = {{ kind = "tcp", tcp = {{ ecn = {ecn} }} }}'
    client, server, tcp = plan(text)
    for end in (client["tcp"]["tcp"], server["tcp"]["tcp"]):
        assert (tcp[end]["ecn"], tcp[end]["ecn_control"]) == expected
        assert tcp[end]["accurate_ecn"] == (ecn == '"accurate"')
    assert run(Scenario.parse(TEXT + text)).summary["dns"]["unanswered"] == 0


TRANSPORTS = ("udp", "tcp", "tls", "https", "quic")
OF_UDP = {
    "new_port": "true",
    "tcp_if_truncated": "true",
    "tcp_if_silent": "true",
    "retry": '"unbound"',
    "edns_size": '"1232 B"',
    "udp_between": "true",
}
OF_TCP = {
    "pipelining": "true",
    "fast_open": "true",
    "writes": '"apart"',
    "tcp": '{ profile = "linux-6" }',
}
OF_TLS = {"tls": "{ resume = true, early_data = true }"}
OF_QUIC = {"quic": '{ congestion = "cubic" }'}
OF_KIND = {
    "udp": OF_UDP | OF_TCP,
    "tcp": OF_TCP,
    "tls": OF_TCP | OF_TLS,
    "https": OF_TCP | OF_TLS,
    "quic": OF_TLS | OF_QUIC,
}


def table(kind: str, **keys: str) -> str:
    """A group's transport."""
    inside = ", ".join(f"{key} = {value}" for key, value in {"kind": f'"{kind}"', **keys}.items())
    return f"transport = {{ {inside} }}"


@pytest.mark.parametrize("kind", TRANSPORTS)
def test_a_transport_refuses_the_keys_of_others(kind: str) -> None:
    plan(table(kind, reuse="true", **OF_KIND[kind]), "answers = { tls = { early_data = true } }")
    others = {key: value for keys in OF_KIND.values() for key, value in keys.items()}
    for key in others.keys() - OF_KIND[kind].keys():
        with pytest.raises(ScenarioError) as caught:
            plan(table(kind, **{key: others[key]}))
        assert f"dns[0].transport.{key}: is not a known key" in str(caught.value)


@pytest.mark.parametrize("kind", TRANSPORTS)
def test_a_name_stands_for_a_table(kind: str) -> None:
    assert plan(f'transport = "{kind}"') == plan(table(kind))
    assert plan() == plan('transport = "udp"')


@pytest.mark.parametrize(
    ("lines", "new"),
    [
        ('retry = "glibc"', 'transport = { kind = "udp", retry = "glibc" }'),
        (
            'retry = ["1 s", "2 s"]\nedns_size = "1232 B"\ntcp_if_truncated = true\n'
            "tcp_if_silent = false\nnew_port = true\nconnections = { shared = true }",
            'transport = { kind = "udp", retry = ["1 s", "2 s"], edns_size = "1232 B", '
            "tcp_if_truncated = true, tcp_if_silent = false, new_port = true, shared = true }",
        ),
        (
            'transport = "tls"\nconnections = { reuse = true, tls = { resume = true } }\n'
            'tcp = { ecn = true }\nretry = "glibc"\nquic = { ecn = true }',
            'transport = { kind = "tls", tcp = { ecn = true }, reuse = true, '
            "tls = { resume = true } }",
        ),
        (
            'transport = { kind = "quic", reuse = true }\nquic = { ecn = true }',
            'transport = { kind = "quic", reuse = true, quic = { ecn = true } }',
        ),
        ("quic = { ecn = true }", 'transport = { kind = "quic", quic = { ecn = true } }'),
    ],
)
def test_the_old_form_is_refused_with_the_new_one(lines: str, new: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        plan(lines)
    said = "dns[0].transport: has keys beside it that belong in its table; hint: "
    assert str(caught.value) == f"<text>: {said}{new}"


def test_transports_with_all_their_keys_give_answers() -> None:
    answers = (
        'answers = { nagle = true, writes = "apart", fast_open = true, half_query_timeout = "1 s", '
        'syncookies = "always", synack_retries = 3, max_syn_backlog = 9, '
        "tls = { early_data = true } }"
    )
    for profile in ("unbound", "bind", "glibc", "systemd-resolved"):
        for kind in TRANSPORTS:
            keys = table(kind, reuse="true", **OF_KIND[kind])
            text = f'{TEXT}profile = "{profile}"\n{keys}\n{answers}\n'
            found = run(Scenario.parse(text))
            assert set(found.attempts["transport"]) == {kind}
            assert found.summary["dns"]["unanswered"] == 0


def test_a_server_s_connections_over_tcp_leave_quic_alone() -> None:
    quic = table("quic", reuse="true")
    of_tcp = (
        'answers = { nagle = true, writes = "apart", fast_open = true, on_query = "reset", '
        'half_query_timeout = "10 ms", syncookies = "always", synack_retries = 1 }'
    )
    without = run(Scenario.parse(TEXT + quic))
    beside = run(Scenario.parse(f"{TEXT}{quic}\n{of_tcp}"))
    assert without.attempts.equals(beside.attempts)


@pytest.mark.parametrize("key", ["reuse", "connect_timeout", "fast_open", "udp_between"])
def test_clients_that_never_ask_over_tcp_have_no_connections(key: str) -> None:
    value = '"1 s"' if key == "connect_timeout" else "true"
    with pytest.raises(ScenarioError) as caught:
        plan(table("udp", **{key: value}))
    said = f"dns[0].transport.{key}: has no use, because these clients never ask over TCP"
    assert said in str(caught.value)
    plan(table("udp", tcp_if_silent="true", **{key: value}))
    # The server's TCP settings are also for other groups that ask it.
    assert plan(table("udp", tcp="{ ecn = true }"))[0]["tcp"] is None


def test_a_server_speaks_quic_as_its_group_s_clients_do_or_in_its_own_way() -> None:
    def ecn(*lines: str) -> bool:
        _, server, _ = plan(*lines)
        return bool(server["tcp"]["tls"]["quic"]["ecn"])

    assert not ecn(table("tls"))
    assert ecn(table("quic", quic="{ ecn = true }"))
    own = "answers = { tls = { quic = { ecn = true } } }"
    assert ecn(own) and ecn(table("quic", quic="{ ecn = false }"), own)


def test_one_key_turns_kept_connections_off() -> None:
    # A variant of a sweep sets transport.reuse alone.
    kept = {"idle_timeout": '"5 s"', "queries": "7", "pipelining": "true", "shared": "true"}
    client, _, _ = plan(table("tls", reuse="false", **kept))
    assert client["tcp"]["reuse"] == "never"


def test_check_says_whether_queries_share_connections() -> None:
    def said(*lines: str) -> list[str]:
        scenario = Scenario.parse(TEXT + "\n".join(lines))
        return [line for line in schedules(scenario) if "connection" in line and "warn" not in line]

    assert not said('profile = "glibc"')
    own = "each query opens a connection of its own"
    more = "transport.reuse = true keeps them"
    assert said('transport = "tls"') == [f"stubs: over TLS {own} (the default; {more})"]
    assert said('transport = "quic"', 'profile = "glibc"') == [
        f'stubs: over QUIC {own} (profile = "glibc"; {more})'
    ]
    assert said('transport = { kind = "tcp", reuse = false }') == [
        f"stubs: over TCP {own} (transport.reuse)"
    ]
    assert said('transport = "tls"', 'profile = "unbound"') == [
        'stubs: over TLS it keeps connections: each worker has its own (profile = "unbound")'
    ]
    assert said('transport = { kind = "https", reuse = true, shared = true }') == [
        "stubs: over HTTPS it keeps connections: its workers share them (transport.reuse)"
    ]


@pytest.mark.parametrize("transport", ["tls", "https", "quic"])
def test_a_client_that_was_not_captured_over_tls_keeps_its_habits_over_tcp(transport: str) -> None:
    text = f'transport = "{transport}"'
    client, _, tcp = plan(text, 'profile = "unbound"')
    plain, _, _ = plan(text)
    # docs/dns-clients.md, unbound: connect and answer 3 s, idle 60 s, 200 queries, pipelined; its
    # ten refused connections are five without Fast Open.
    of_client = client["tcp"]
    assert (of_client["connect_timeout"], of_client["answer_timeout"]) == (3 * S, 3 * S)
    kept = of_client["reuse"]["persistent"]
    assert (kept["idle_timeout"], kept["queries"], kept["pipelined"]) == (60 * S, 200, True)
    assert of_client["attempts"] == dict.fromkeys(("refused", "closed", "reset", "silent"), 5)
    assert not tcp[of_client["tcp"]]["fast_open"] and not tcp[of_client["tcp"]]["nagle"]
    assert of_client["tls"] == plain["tcp"]["tls"]
    (line,) = remarks(text, 'profile = "unbound"')
    assert f"unbound was not captured over {transport.upper()}: handshakes, padding" in line
    assert not remarks(text, 'profile = "kdig"')


def test_a_client_without_timer_is_no_schedule() -> None:
    with pytest.raises(ScenarioError, match=r"dns\[0\]\.transport\.retry"):
        plan('transport = { kind = "udp", retry = "dnsmasq" }')
    # docs/dns-clients.md, unbound: timeouts_s.
    client, _, _ = plan('transport = { kind = "udp", retry = "unbound" }')
    assert client["udp"]["timeouts"][:3] == [376 * 10**9, 376 * 10**9, 752 * 10**9]


def test_a_stateless_server_answers_without_a_connection() -> None:
    text = 'transport = "tcp"\nanswers = { stateless = true }'
    _, server, _ = plan(text)
    assert server["tcp"]["stateless"]
    found = run(Scenario.parse(TEXT + text))
    assert found.summary["dns"]["unanswered"] == 0
    # SYN-ACK, reply, and FIN: nothing acknowledges the query but the reply.
    assert found.attempts["packets_received"].to_list()[:4] == [3] * 4
    with pytest.raises(ScenarioError, match=r"answers\.fast_open: gives no cookies without state"):
        plan("answers = { stateless = true, fast_open = true }")

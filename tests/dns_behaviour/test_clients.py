"""Each value of a client's profile is what the program does."""

from __future__ import annotations

from itertools import pairwise

import dns.flags
import pytest

from narrows import dns_profiles

from . import observe
from .conftest import INSTALL, WATCH, Trials
from .lab import Trial
from .packets import CWR, ECE, FAST_OPEN

pytestmark = pytest.mark.servers


def about(shown: float, expected: float) -> bool:
    """Timers, and what starts them, may be late by their own slack and by a busy machine."""
    return 0.9 * expected - 0.15 <= shown <= 1.1 * expected + 0.6


def busy(trial: Trial) -> bool:
    """Whether the machine made the round trips of 20 ms so long that timeouts went off early."""
    return observe.longest_round_trip(trial) > 0.035


@pytest.fixture
def profile(client: str) -> dns_profiles.Client:
    """The client's profile."""
    return dns_profiles.client(client)


@pytest.fixture
def trial(client: str, trials: Trials) -> dict[str, Trial]:
    """The client's trials by case."""
    return {case: trial for (name, case), trial in trials.items() if name == client}


def test_query(profile: dns_profiles.Client, trial: dict[str, Trial]) -> None:
    first = observe.udp_queries(trial["answer"])[0]
    query = observe.message(first)
    assert query is not None
    assert max(query.payload, 0) == profile.edns_bytes
    assert bool(query.ednsflags & dns.flags.DO) == profile.dnssec_ok
    assert observe.extra_bytes(first) == profile.query_extra_bytes


def test_udp_schedule(profile: dns_profiles.Client, trial: dict[str, Trial]) -> None:
    times = [packet.at for packet in observe.udp_queries(trial["drop"])]
    # BIND sometimes sends one more query at the moment at which it gives up.
    times = [at for at in times if at < profile.gives_up_s - 0.1 or profile.gives_up_s < 2]
    seen = [s for s in profile.timeouts_s[:-1] if sum(profile.timeouts_s[:-1]) < WATCH]
    shown = [later - earlier for earlier, later in pairwise(times)]
    if seen:
        assert len(times) == profile.attempts
    for span, expected in zip(shown, profile.timeouts_s, strict=False):
        assert about(span, expected), (shown, profile.timeouts_s)


def test_known_server(profile: dns_profiles.Client, trial: dict[str, Trial]) -> None:
    """After ten replies, does the client wait for a shorter time?"""
    warm = trial["warm"]
    lost = [packet for packet in observe.udp_queries(warm) if observe.host(packet) == "drop"]
    shown = [later.at - earlier.at for earlier, later in pairwise(lost)]
    if profile.adapts:
        answered = sum(not packet.from_client for packet in warm.packets)
        if not busy(warm) and answered == 10:
            assert 0.02 <= shown[0] < 0.75 * profile.timeouts_s[0]
    else:
        assert profile.known_timeouts_s == profile.timeouts_s
        for span, expected in zip(shown, profile.timeouts_s, strict=False):
            assert about(span, expected)


def test_gives_up(profile: dns_profiles.Client, trial: dict[str, Trial]) -> None:
    end = observe.told(trial["dead"])
    if profile.name in ("dnsmasq", "unbound", "systemd-resolved"):
        # dnsmasq says nothing, Unbound nothing after 1.9 s, resolved nothing before 120 s.
        assert end is None
    else:
        assert end is not None
        assert about(end, profile.gives_up_s)


def test_ports(profile: dns_profiles.Client, trial: dict[str, Trial]) -> None:
    ports = {packet.source_port for packet in observe.udp_queries(trial["drop"])}
    if profile.attempts > 1:
        assert (len(ports) > 1) == profile.new_port


def test_unreachable(profile: dns_profiles.Client, trial: dict[str, Trial]) -> None:
    shown = observe.unreachable(trial["unreachable"], profile.timeouts_s[0])
    assert shown == profile.unreachable


def test_format_error(profile: dns_profiles.Client, trial: dict[str, Trial]) -> None:
    assert observe.format_error(trial["format-error"]) == profile.format_error


def test_fallback(profile: dns_profiles.Client, trial: dict[str, Trial]) -> None:
    truncated, cut = trial["truncate"], trial["cut"]
    assert bool(observe.connections(truncated)) == profile.fallback_on_truncation
    if profile.fallback_on_truncation:
        assert all(ask.outcome == "answer" for ask in truncated.asks)
    again = "asked-again" if observe.connections(cut) else "taken"
    assert again == profile.fragmented_reply
    assert all(ask.outcome == "answer" for ask in cut.asks)
    if sum(profile.timeouts_s) < WATCH:
        assert bool(observe.connections(trial["drop"])) == profile.fallback_on_timeout


def test_lost_fragment_is_a_lost_reply(
    profile: dns_profiles.Client, trial: dict[str, Trial]
) -> None:
    lost, dropped = (observe.udp_queries(trial[case]) for case in ("cut-lost", "drop"))
    # BIND's seventh query may come when it gives up.
    assert abs(len(lost) - len(dropped)) <= (profile.name == "bind")
    for one, other in zip(lost, dropped, strict=False):
        assert abs(one.at - other.at) < 0.7


@pytest.mark.parametrize("case", ["refuse", "close", "reset"])
def test_failed_connections(
    profile: dns_profiles.Client, trial: dict[str, Trial], case: str
) -> None:
    expected = {
        "refuse": profile.tcp_attempts_refused,
        "close": profile.tcp_attempts_closed,
        "reset": profile.tcp_attempts_reset,
    }[case]
    made = len(observe.connections(trial[case]))
    # Knot Resolver makes four or five, by chance: it chooses among servers at random.
    assert made == expected or (profile.name == "knot-resolver" and made == expected - 1)
    assert all(ask.outcome not in ("answer", "silence") for ask in trial[case].asks)
    # Unbound opens a second connection at once where a Fast Open connect is refused.
    if expected > 1 and case != "refuse":
        assert observe.retries(trial[case]) == profile.tcp_retries


def test_silent_server(profile: dns_profiles.Client, trial: dict[str, Trial]) -> None:
    silent = trial["silent"]
    queries = observe.tcp_queries(silent)
    if profile.tcp_attempts_silent:
        all_of_them = profile.tcp_attempts_silent * (profile.tcp_answer_timeout_s or 0) < WATCH
        if all_of_them or observe.told(silent) is not None:
            assert len(queries) == profile.tcp_attempts_silent
        shown = observe.answer_timeout(silent, WATCH)
        if profile.tcp_answer_timeout_s is None:
            assert shown is None
        else:
            assert shown is not None
            assert about(shown, profile.tcp_answer_timeout_s)
    else:
        assert not queries


def test_lost_syn(profile: dns_profiles.Client, trial: dict[str, Trial]) -> None:
    shown = observe.connect_timeout(trial["lost"])
    if profile.tcp_connect_timeout_s is None:
        assert shown is None
    else:
        assert shown is not None
        assert about(shown, profile.tcp_connect_timeout_s)


def test_reuse(profile: dns_profiles.Client, trial: dict[str, Trial]) -> None:
    sequence = trial["sequence"]
    if not profile.fallback_on_truncation:
        return
    assert all(ask.outcome == "answer" for ask in sequence.asks)
    assert len(observe.tcp_queries(sequence)) == 5
    assert observe.reused(sequence) == profile.reuse
    assert len(observe.connections(sequence)) == (1 if profile.reuse else 5)
    idle = observe.idle_timeout(sequence)
    if not profile.reuse:
        assert idle is not None
        assert idle < 2.0
    elif idle is not None:
        assert profile.idle_timeout_s is not None
        assert about(idle, profile.idle_timeout_s)
    else:
        assert profile.idle_timeout_s is not None
        # PowerDNS looks at its idle connections once a minute or so.
        assert profile.idle_timeout_s > WATCH - 3 or profile.name == "pdns-recursor"


def test_pipelining(profile: dns_profiles.Client, trial: dict[str, Trial]) -> None:
    together = trial["together"]
    if together.asks and profile.fallback_on_truncation:
        if not (profile.adapts and busy(together)):
            assert all(ask.outcome == "answer" for ask in together.asks)
        assert observe.pipelined(together) == profile.pipelining


def test_segments(profile: dns_profiles.Client, trial: dict[str, Trial]) -> None:
    for case in ("truncate", "sequence"):
        for syn in observe.connections(trial[case]):
            # Each connection to the same server asks for a cookie or sends one.
            assert (syn.option(FAST_OPEN) is not None) == profile.fast_open
            assert bool(syn.flags & (ECE | CWR)) == profile.ecn_on_syn
        assert observe.one_segment(trial[case]) == profile.one_segment
        assert observe.client_closes(trial[case]) == profile.closes


@pytest.mark.parametrize("name", ["glibc", "musl"])
def test_both_families(name: str, trials: Trials) -> None:
    """A and AAAA go out together from one port, and with glibc in one segment over TCP."""
    if (name, "both") not in trials:
        pytest.skip(f"{name} is not installed; {INSTALL}")
    both = trials[name, "both"]
    first, second = observe.udp_queries(both)
    assert first.source_port == second.source_port
    assert second.at < 1.0
    types = [observe.question_type(packet) for packet in (first, second)]
    assert types == ["A", "AAAA"]
    if name == "glibc":
        (segment,) = observe.tcp_queries(both)
        assert len(segment.payload) == 2 * (2 + len(first.payload))
        assert len(observe.connections(both)) == 1

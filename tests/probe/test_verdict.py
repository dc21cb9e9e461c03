"""What the patterns of real servers mean: round trips of 40 ms, and RFC 6298's seconds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from narrows.probe.verdict import VERDICTS, judge, verdicts
from narrows.results.exchanges import frame_of

from .rows import RTT, tcp, udp, unanswered, whole

SAMPLES = Path(__file__).parents[2] / "samples" / "atlas"
TEN_UDP = [udp() for _ in range(10)]


def name_of(rows: list[dict[str, Any]], over_udp: list[dict[str, Any]] | None = None) -> str:
    verdict = judge(TEN_UDP if over_udp is None else over_udp, rows)
    assert verdict.name in VERDICTS
    return verdict.name


@pytest.mark.parametrize(
    ("row", "name", "ratio"),
    [
        (tcp(), "one-write", 2.0),
        (tcp(gap=40.0, prefix="alone"), "two-writes", 3.0),
        (tcp(gap=40.0, prefix="split"), "split-length", 3.0),
        (tcp(gap=40.0), "late-part", 3.0),
        (tcp(gap=84.0, prefix="alone"), "delayed-acknowledgement", 4.1),
        (tcp(prefix="alone"), "two-writes-at-once", 2.0),
        (tcp(first=60.0), "fixed-delay", 2.5),
        # BIND and Knot answer a large reply in three segments, at once.
        (tcp(gap=0.1), "one-write", 2.0),
        (tcp(connect=12.0, first=12.0), "elsewhere", 0.6),
    ],
)
def test_ten_exchanges_alike(row: dict[str, Any], name: str, ratio: float) -> None:
    verdict = judge(TEN_UDP, [row] * 10)
    assert verdict.name == name
    assert verdict.metrics["ratio"] == pytest.approx(ratio, abs=0.05)
    assert verdict.sentence.startswith(f"{ratio:.1f}: ")


def test_the_issue_is_answered_in_its_words() -> None:
    assert judge(TEN_UDP, [tcp()] * 10).sentence == (
        "2.0: one round trip for the connection, one for the query"
    )
    assert (
        "the server adds 20 ms to each answer over TCP"
        in judge(TEN_UDP, [tcp(first=60.0)] * 10).sentence
    )


def test_metrics_are_medians_in_milliseconds() -> None:
    rows = [tcp(connect=20.12344, first=22.0, gap=3.0), tcp(connect=20.12344, first=26.0, gap=7.0)]
    rows += [unanswered("reset", "query", connect=20.12344)] * 2
    assert judge([udp(19.0), udp(21.0)], rows).metrics == {
        "ratio": 2.4562,  # (45.12344 + 53.12344) / 2 to 20, as there are no rounds
        "ratio_after_truncated": None,
        "round_trip_ms": 20.1234,
        "udp_ms": 20.0,
        "tcp_ms": 49.1234,
        "wait_ms": 3.8766,
        "gap_ms": 5.0,
        "answered_percent": 50.0,
    }
    never = judge(TEN_UDP, [unanswered("timeout", "query", connect=40.0)] * 3).metrics
    assert (never["wait_ms"], never["tcp_ms"], never["answered_percent"]) == (None, None, 0.0)
    assert judge(TEN_UDP, []).metrics["answered_percent"] is None


def test_a_fixed_delay_shows_at_any_distance() -> None:
    """20 ms: ratio 10.5 at 2 ms and 2.07 at 300 ms, and the same delay (a trial with real NSD)."""
    for rtt in (2.0, 20.0, 300.0):
        rows = [tcp(connect=rtt, first=rtt + 20.0) for _ in range(10)]
        assert name_of(rows, [udp(rtt)] * 10) == "fixed-delay", rtt


def test_a_fixed_delay_on_a_busy_machine_stays_one() -> None:
    """As seen in CI: some answers come three milliseconds after the others."""
    late = [tcp(first=60.0 + more) for more in (0.2, 0.4, 0.4, 0.5, 0.9, 2.8, 3.4, 9.0)]
    assert name_of(late) == "fixed-delay"


def test_full_slots_answer_late_now_and_then() -> None:
    late = [tcp(first=40.0 + wait) for wait in (30.0, 90.0, 250.0, 700.0)]
    assert name_of([tcp(gap=40.0, prefix="alone")] * 6 + late) == "slots-full"
    never = [unanswered("timeout", "query", connect=40.0)] * 8
    assert name_of([tcp()] * 2 + never) == "slots-full"
    assert name_of([tcp(), late[0]]) == "one-write"


def test_a_busy_machine_is_not_another_server() -> None:
    """As an operator saw on loopback: the handshake takes 0.03 ms, and UDP's answer 8 ms."""
    near = [tcp(connect=0.03, first=0.15)] * 10
    assert name_of(near, [udp(8.0)] * 10) == "one-write"
    assert name_of(near, [udp(40.0)] * 10) == "elsewhere"


def test_a_busy_machine_is_no_full_server() -> None:
    """As seen on loopback beside other programs: answers some milliseconds late, over UDP too."""
    near = tcp(connect=0.1, first=0.15)
    slow = [tcp(connect=0.1, first=first) for first in (5.2, 6.4, 9.1)]
    quiet = [udp(0.12)] * 10
    assert name_of([near] * 7 + slow, quiet) == "one-write"
    # The delays are longer than that, but over UDP as well.
    slow = [tcp(connect=0.1, first=first) for first in (25.0, 31.0, 38.0)]
    verdict = judge([udp(0.12)] * 8 + [udp(27.0), udp(33.0)], [near] * 7 + slow)
    assert verdict.name == "one-write"
    assert verdict.notes[0].startswith(
        "over TCP, 3 of 10 queries are answered late, and over UDP, 2 of 10 "
        "queries are answered late;"
    )
    # Two of ten against none of ten: a chance of 0.24 (Fisher).
    assert name_of([near] * 8 + slow[:2], quiet) == "one-write"
    far = [udp()] * 8 + [udp(65.0), udp(70.0)]
    assert name_of([tcp()] * 7 + [tcp(first=65.0), tcp(first=70.0), tcp(first=90.0)], far) == (
        "one-write"
    )


def test_too_few_rounds_say_how_many_would_tell() -> None:
    """As seen on loopback beside a full NSD: three rounds, none answered over TCP."""
    never = unanswered("timeout", "query", connect=0.1)
    few = judge([udp(0.12)] * 3, [never] * 3)
    # Three of three against none of three: a chance of 1 in 20 (Fisher).
    assert few.name == "unanswered"
    (note,) = few.notes
    assert note.startswith(
        "over TCP, 3 of 3 queries time out, and over UDP, none of 3 queries is answered late;"
    )
    assert note.endswith("hint: 10 rounds are enough if this continues")
    assert name_of([never] * 10, [udp(0.12)] * 10) == "slots-full"
    # Two of ten against none: 3 of 15 have a chance of 0.11, 4 of 20 one of 0.053, and 5 of 23 one
    # of 0.025 (Fisher); the count of late ones is rounded.
    rows = [tcp(connect=0.1, first=0.15)] * 8 + [tcp(connect=0.1, first=ms) for ms in (25.0, 31.0)]
    (note,) = judge([udp(0.12)] * 10, rows).notes
    assert note.endswith("hint: 23 rounds are enough if this continues")
    # A hundred rounds are the most that a note suggests: 24 of 100 against none of 12 have a chance
    # of 0.046, and 23 of 99 of 0.052. With 12 of 31, it would take 101.
    near, late = tcp(connect=0.1, first=0.15), tcp(connect=0.1, first=25.0)
    (note,) = judge([udp(0.12)] * 2, [near] * 13 + [late] * 4).notes
    assert note.endswith("hint: 100 rounds are enough if this continues")
    (note,) = judge([udp(0.12)] * 2, [near] * 19 + [late] * 12).notes
    assert "hint" not in note
    # One more may be enough.
    (note,) = judge([udp(0.12)] * 9 + [udp(27.0)], [near] * 5 + [late] * 5).notes
    assert note.endswith("hint: 11 rounds are enough if this continues")
    # If UDP is late as often, more rounds tell nothing.
    busy = [udp(0.12)] * 8 + [udp(27.0), udp(33.0)]
    (note,) = judge(busy, rows).notes
    assert "hint" not in note


def test_a_query_that_times_out_is_no_late_answer() -> None:
    """As on a path that loses packets: 2 late of 25 over TCP; over UDP 1 late and 4 lost."""
    rows = [tcp()] * 23 + [tcp(first=70.0), tcp(first=90.0)]
    over_udp = [udp()] * 20 + [udp(70.0)] + [unanswered("timeout", "query", transport="udp")] * 4
    *_, note = judge(over_udp, rows).notes
    assert note == (
        "over TCP, 2 of 25 queries are answered late, and over UDP, 1 of 25 queries is answered "
        "late and 4 time out; the difference is too small to show whether the server is full, this "
        "machine is busy or the path loses packets"
    )


def test_a_note_does_not_count_answers_of_nothing() -> None:
    rows = [tcp(connect=0.1, first=0.15)] * 18 + [tcp(connect=0.1, first=ms) for ms in (25.0, 31.0)]
    notes = judge([], rows).notes
    assert not any("of 0" in note for note in notes)
    assert any(
        note.startswith("over TCP, 2 of 20 queries are answered late; queries over UDP would show")
        for note in notes
    )
    assert not any("does not answer over UDP" in note for note in notes)


def test_a_full_server_shows_at_any_distance() -> None:
    near = tcp(connect=0.1, first=0.15)
    late = [tcp(connect=0.1, first=wait) for wait in (30.0, 90.0, 140.0, 250.0)]
    never = [unanswered("timeout", "query", connect=0.1)] * 4
    assert name_of([near] * 6 + late, [udp(0.12)] * 10) == "slots-full"
    assert name_of([near] * 6 + never, [udp(0.12)] * 10) == "slots-full"


def test_a_server_that_fills_up_while_it_is_asked_is_full() -> None:
    """As seen beside clients that hold connections: five plain answers, then seven never."""
    never = [unanswered("timeout", "query", connect=40.0)] * 7
    assert name_of([tcp(gap=40.0, prefix="alone")] * 5 + never) == "slots-full"


def test_a_resolver_that_asks_others_is_slow_and_not_full() -> None:
    times = [41.0, 42.0, 60.0, 95.0, 120.0, 180.0, 70.0, 85.0, 110.0, 240.0]
    rows = [tcp(first=ms) for ms in times]
    assert name_of(rows, [udp(ms) for ms in times[::-1]]) == "slow-server"


def test_a_full_backlog_drops_syns() -> None:
    late = [tcp(connect=1040.0), tcp(connect=3040.0), tcp(connect=7040.0)]
    verdict = judge(TEN_UDP, [tcp()] * 7 + late)
    assert verdict.name == "backlog-full"
    assert "3 of 10 connect late (by 1, 3, 7 s)" in verdict.sentence
    # The next timeouts are after 15 and 31 s; four are told.
    late += [tcp(connect=15_040.0), tcp(connect=31_040.0)]
    assert "(by 1, 3, 7, 15 s)" in judge(TEN_UDP, [tcp()] * 7 + late).sentence
    assert "(by 31 s)" in judge(TEN_UDP, [tcp()] * 3 + late[-1:]).sentence
    far = [tcp(connect=600.0, first=600.0)] * 3 + [tcp(connect=1600.0), tcp(connect=3600.0)]
    assert "2 of 5 connect late (by 1, 3 s)" in judge([udp(600.0)] * 5, far).sentence


def test_a_full_backlog_has_room_now_and_then() -> None:
    """As seen 10 ms from an emulated server: two SYNs of twelve dropped, nine answers late."""
    late = [tcp(first=40.0 + wait, query_retransmissions=0) for wait in (30.0, 90.0, 250.0) * 3]
    verdict = judge(TEN_UDP, [*late, tcp(), tcp(connect=3040.0), tcp(connect=4040.0)])
    assert verdict.name == "backlog-full"
    assert "2 of 12 connect late (by 3, 4 s)" in verdict.sentence


def test_a_full_backlog_drops_the_last_acknowledgement_too() -> None:
    """Linux does so if the backlog has filled since the SYN; the client's query is not heard."""
    late = [tcp(first=40.0 + wait, query_retransmissions=0) for wait in (30.0, 90.0, 250.0)]
    unheard = [
        tcp(first=440.0, query_retransmissions=2),
        unanswered("timeout", "query", connect=40.0, query_retransmissions=4),
    ]
    verdict = judge(TEN_UDP, [tcp()] * 7 + late + unheard)
    assert verdict.name == "backlog-full"
    assert "2 of 12 queries on new connections had to be sent again" in verdict.sentence
    mixed = [unanswered("timeout", "connect"), unheard[0]]
    assert name_of([tcp()] * 7 + late + mixed) == "backlog-full"
    # A single one may be due to the path, and all of them are if UDP loses as many.
    assert name_of([tcp()] * 7 + late + unheard[:1]) == "slots-full"
    lossy = [udp()] * 9 + [udp(outcome="timeout", query_ms=None, rcode=None)]
    assert name_of([tcp()] * 7 + late + unheard, lossy) == "slots-full"


def test_a_path_that_loses_packets_is_no_full_server() -> None:
    """4 % each way, as measured: UDP loses some too, and few exchanges are late."""
    lost = [udp(outcome="timeout", query_ms=None, rcode=None)] * 4
    rows = [tcp()] * 43 + [tcp(first=280.0)] * 4 + [tcp(connect=1040.0)] * 3
    verdict = judge([udp()] * 46 + lost, rows)
    assert verdict.name == "one-write"
    assert "4 of 50 queries over UDP were not answered in time" in verdict.notes


def test_servers_without_answers() -> None:
    assert name_of([unanswered("refused", "connect")] * 5) == "refuses"
    assert name_of([unanswered("timeout", "connect")] * 5) == "silent"
    assert name_of([unanswered("closed", "query", 40.0)] * 5) == "closes"
    assert name_of([tcp()] * 2 + [unanswered("reset", "query", 40.0)] * 6) == "closes"
    assert name_of([unanswered("unreachable", "connect")] * 5) == "unreachable"
    assert name_of([unanswered("not-asked", "connect")] * 5) == "not-asked"
    assert name_of([]) == "no-tcp"


def test_a_slow_server_is_slow_over_udp_too() -> None:
    assert name_of([tcp(first=60.0)] * 10, [udp(60.0)] * 10) == "slow-server"


def test_tls_and_quic_have_handshakes_of_their_own() -> None:
    """RFC 8446: one round trip for TLS 1.3; RFC 5246: two for 1.2; RFC 9001: none beyond QUIC's."""
    for secure, words in ((40.0, "one for TLS"), (80.0, "two for TLS")):
        rows = [tcp(secure_ms=secure, total_ms=80.0 + secure)] * 5
        verdict = judge(TEN_UDP, rows, transport="tls")
        assert verdict.name == "one-write" and words in verdict.sentence
    assert "with its keys" in judge(TEN_UDP, [tcp()] * 5, transport="quic").sentence
    # As Unbound 1.17 answered at 40 ms: tickets, our acknowledgement 44 ms later, the reply.
    held = [tcp(first=123.4, secure_ms=41.0)] * 5
    found = judge(TEN_UDP, held, transport="tls")
    assert (found.name, "comes 83 ms late" in found.sentence) == ("held-back", True)
    assert judge(TEN_UDP, held, transport="tcp").name == "fixed-delay"
    failed = [unanswered("handshake-failed", "secure", 40.0)] * 5
    assert judge(TEN_UDP, failed, transport="tls").name == "handshake-fails"


def test_truncation_and_codes_are_noted() -> None:
    verdict = judge([udp(truncated=True)] * 3, [tcp(rcode="REFUSED")] * 3)
    assert any("3 of 3 answers over UDP are truncated" in note for note in verdict.notes)
    assert any(
        note.startswith("answers have the code REFUSED; hint: ask for") for note in verdict.notes
    )


def test_an_open_connection_saves_the_handshake() -> None:
    rows = [tcp(), *[tcp(connect=None, reused=True, total_ms=40.0) for _ in range(9)]]
    verdict = judge(TEN_UDP, rows)
    assert verdict.sentence == "1.0: one round trip for the query, on an open connection"


def test_on_this_machine_times_say_nothing() -> None:
    verdict = judge([udp(0.05)] * 10, [tcp(connect=0.03, first=0.06, gap=0.04)] * 10)
    assert (verdict.name, "too near" in verdict.sentence) == ("one-write", True)
    assert verdict.metrics["ratio"] is None


def test_the_ratio_is_the_median_of_pairs_as_in_an_analysis() -> None:
    # Round by round 2, 3 and 2; medians of the times would give 120 / 50.
    times = [(40.0, 80.0), (50.0, 150.0), (60.0, 120.0)]
    asked = [udp(ms, round=at) for at, (ms, _) in enumerate(times)]
    over = [tcp(round=at, total_ms=ms) for at, (_, ms) in enumerate(times)]
    assert judge(asked, over).metrics["ratio"] == 2.0


def test_nothing_is_said_about_writes_that_nobody_saw() -> None:
    # A DNS server on TCP that takes TLS's first message for a query, and does not answer.
    rows = [unanswered("timeout", "secure", connect=RTT) for _ in range(3)]
    verdict = judge(TEN_UDP, rows, transport="tls")
    assert verdict.name == "unanswered"
    said = "answers none of 3: the handshake of TLS stays unanswered, as on a port without TLS"
    assert said in verdict.sentence


def test_a_server_without_quic_is_not_said_to_drop_syns() -> None:
    rows = [unanswered("timeout", "connect") for _ in range(3)]
    verdict = judge(TEN_UDP, rows, transport="quic")
    assert verdict.name == "silent"
    assert "QUIC" in verdict.sentence and "SYN" not in verdict.sentence


def test_over_quic_no_backlog_makes_answers_late() -> None:
    """The server's process completes QUIC's handshakes, so its kernel has nothing that fills."""
    never = [unanswered("timeout", "query", connect=RTT)] * 10
    assert judge(TEN_UDP, never, transport="quic").name == "unanswered"
    verdict = judge(TEN_UDP, [tcp()] * 7 + never[:3], transport="quic")
    assert (verdict.name, verdict.sentence) == (
        "late",
        "3 of 10 answers come late or never: the server is slow, or it or the path loses packets",
    )
    connects = judge(TEN_UDP, [tcp()] * 6 + [tcp(connect=1040.0)] * 4, transport="quic")
    assert (connects.name, connects.sentence[:30]) == ("late", "4 of 10 connect late or never:")


def test_truncation_names_the_sizes() -> None:
    cut = [udp(truncated=True, reply_bytes=40)] * 5
    over = [tcp(reply_bytes=1775)] * 5
    limited, *_ = judge(cut, over, settings={"edns": 4096}).notes
    assert limited == (
        "5 of 5 answers over UDP are truncated although 4096 bytes were offered; over TCP the "
        "reply has 1775 bytes: clients ask again over TCP, and wait for three round trips in all"
    )
    assert (
        "truncated where 1232 bytes were offered"
        in (judge(cut, over, settings={"edns": 1232}).notes[0])
    )
    assert (
        "without EDNS, which allows 512 bytes"
        in (judge(cut, over, settings={"edns": None}).notes[0])
    )
    # A server that truncates what would fit has a limit of its own.
    assert "although 1775 bytes" in judge(cut, over, settings={"edns": 1775}).notes[0]
    assert "where 1774 bytes" in judge(cut, over, settings={"edns": 1774}).notes[0]
    never = [unanswered("timeout", "query", RTT)] * 5
    assert "the reply has" not in judge(cut, never, settings={"edns": 1232}).notes[0]
    some = judge([*cut, udp(reply_bytes=1200)], over, settings={"edns": 4096}).notes[0]
    assert "5 of 6" in some and "the largest whole answer over UDP has 1200 bytes" in some


def test_attempts_are_told_if_a_stub_resolver_asked() -> None:
    over_udp = [udp(attempts=1)] * 8 + [udp(attempts=3), udp(attempts=2)]
    (note,) = judge(over_udp, [tcp()] * 10, settings={"retry": "glibc"}).notes
    assert note.startswith(
        "over UDP, 8 of 10 queries (80 %) were answered at the first attempt, and the others "
        "took up to 3"
    )
    assert judge(over_udp, [tcp()] * 10, settings={"retry": None}).notes == ()


def test_the_ratio_holds_the_truncated_query_if_all_are_truncated() -> None:
    """Clients wait three round trips: the truncated answer, the connection, and the query."""
    cut = [udp(truncated=True)] * 10
    verdict = judge(cut, [tcp()] * 10)
    assert verdict.sentence.startswith("2.0 (3.0 with the truncated query before it): one round")
    assert verdict.metrics["ratio_after_truncated"] == 3.0
    some = judge([*cut, udp()], [tcp()] * 10)
    assert some.sentence.startswith("2.0: one round")
    assert some.metrics["ratio_after_truncated"] is None


@pytest.mark.parametrize(
    ("row", "name", "words"),
    [
        (
            unanswered("mismatched", "reply", RTT, detail="a reply with another number"),
            "wrong-reply",
            "3 of 3 replies are no answers: a reply with another number",
        ),
        (
            unanswered("malformed", "reply", RTT, detail="it ends early"),
            "wrong-reply",
            "3 of 3 replies are no answers: not a DNS message (it ends early)",
        ),
        (
            unanswered("timeout", "reply", RTT, detail="20 of 154 bytes of the message arrived"),
            "unfinished",
            "it begins 3 of 3 replies, but the rest does not come in time: "
            "20 of 154 bytes of the message arrived",
        ),
        (
            unanswered("closed", "reply", RTT, detail="20 of 54 bytes of the message arrived"),
            "closes",
            "it closes every one of its connections within a reply: "
            "20 of 54 bytes of the message arrived",
        ),
    ],
)
def test_each_broken_reply_has_words_of_its_own(row: dict[str, Any], name: str, words: str) -> None:
    verdict = judge(TEN_UDP, [row] * 3)
    assert (verdict.name, verdict.sentence) == (name, words)
    # One in ten is an accident.
    assert name_of([tcp()] * 9 + [row]) == "one-write"


def test_broken_replies_over_udp_are_no_silence() -> None:
    row = unanswered("mismatched", "query", transport="udp", detail="a reply to another question")
    (note,) = judge([row] * 3, [tcp()] * 3).notes
    assert note == "3 of 3 replies over UDP are no answers: a reply to another question"


def test_servers_without_edns_get_a_hint() -> None:
    rows = [tcp(rcode="FORMERR")] * 3
    (note,) = judge([udp(rcode="FORMERR")] * 3, rows, settings={"edns": 1232}).notes
    assert note.endswith("hint: it may not know EDNS; ask without: --edns 0")
    for settings in ({"edns": None}, None):
        (note,) = judge([udp(rcode="FORMERR")] * 3, rows, settings=settings).notes
        assert "hint" not in note


def test_each_target_has_a_verdict_for_each_transport_in_order() -> None:
    far = {"target": "192.0.2.9"}
    rows = [udp(**far), tcp(**far), tcp(**far, transport="tls", secure_ms=RTT, total_ms=120.0)]
    rows += [udp(), udp(vantage="there"), tcp(vantage="there")]
    timed = [{"exchange": number, "started_s": 0.0} | row for number, row in enumerate(rows)]
    found = verdicts(frame_of("exchanges", timed))
    assert [(each.target, each.vantage, each.transport, each.name) for each in found] == [
        ("192.0.2.9", "here", "tcp", "one-write"),
        ("192.0.2.9", "here", "tls", "one-write"),
        ("192.0.2.1", "here", "tcp", "no-tcp"),
        ("192.0.2.1", "there", "tcp", "one-write"),
    ]
    document = found[0].document()
    assert (document["name"], document["notes"]) == ("one-write", [])


def test_sentences_name_what_was_seen() -> None:
    def sentence(rows: list[dict[str, Any]], over_udp: Any = TEN_UDP, kind: str = "tcp") -> str:
        return judge(over_udp, rows, transport=kind).sentence

    silent = [unanswered("timeout", "connect")] * 3
    assert "does not answer SYNs, though it answers over UDP:" in sentence(silent)
    assert "does not answer SYNs: a filter" in sentence(silent, [])
    closed = unanswered("closed", "query", RTT)
    assert sentence([closed] * 3) == (
        "it accepts connections and closes every one without an answer: no DNS over TCP"
    )
    assert sentence([tcp()] * 2 + [closed]) == (
        "it accepts connections and closes 1 of 3 without an answer: it has a limit, and rejects "
        "the rest"
    )
    late = [tcp(connect=1040.0)] * 2 + silent[:1]
    assert "3 of 10 connect late (by 1 s): its" in sentence([tcp()] * 7 + late)
    assert "3 of 10 connect late or never:" in sentence([tcp()] * 7 + late, kind="quic")
    unheard = tcp(first=440.0, query_retransmissions=1)
    assert "1 of 10 queries on new" in sentence([tcp()] * 6 + late + [unheard])
    for udp_ms, where in ((60.0, "TCP is answered nearer"), (20.0, "TCP is answered farther away")):
        assert where in sentence([tcp()] * 3, [udp(udp_ms)] * 3)
    opened = {"connect": None, "reused": True}
    assert sentence([tcp(**opened, total_ms=RTT)] * 3, kind="tls") == (
        "1.0: one round trip for the query, on an open connection"
    )
    assert sentence([whole(RTT) | {"connect_ms": None, "reused": True}] * 3).endswith(
        ": one round trip for the query, on an open connection"
    )
    assert sentence([whole(RTT)] * 3).endswith("for the connection, one for the query")
    untimed = tcp(first_byte_ms=None, query_ms=None, total_ms=None, prefix=None)
    assert sentence([untimed] * 3) == "nothing tells how long the queries took"
    replies = [unanswered("malformed", "reply", RTT, detail="it ends early")]
    replies.append(unanswered("mismatched", "reply", RTT, detail="it ends early"))
    assert sentence(replies) == "2 of 2 replies are no answers: it ends early"


def test_a_gap_without_known_segments_may_be_a_late_acknowledgement() -> None:
    assert name_of([tcp(gap=84.0, prefix=None)] * 3) == "delayed-acknowledgement"
    assert name_of([tcp(gap=84.0)] * 3) == "late-part"
    assert name_of([tcp(gap=84.0, prefix="split")] * 3) == "delayed-acknowledgement"


def test_a_millisecond_is_not_near() -> None:
    near = [tcp(connect=0.9, first=0.9)] * 3
    assert "too near" in judge([udp(1.1)] * 3, near).sentence
    assert "too near" not in judge([udp(0.9)] * 3, [tcp(connect=1.1, first=1.1)] * 3).sentence
    # On an open connection, UDP tells the distance.
    opened = [tcp(connect=None, first=0.9, reused=True)] * 3
    assert "too near" in judge([udp(0.9)] * 3, opened).sentence
    assert name_of([tcp(connect=1.0, first=1.0)] * 3, [udp(8.0)] * 3) == "elsewhere"
    # Four late of 16 against none of 16 would not be enough if it were near.
    rows = [tcp(connect=1.0, first=1.0)] * 12 + [tcp(connect=1.0, first=6.0)] * 4
    assert name_of(rows, [udp(1.0)] * 16) == "slots-full"


def test_failures_are_noted() -> None:
    failed = [unanswered("timeout", "query", RTT), unanswered("reset", "query", RTT)]
    lost = unanswered("timeout", "query", transport="udp")
    notes = judge([udp()] * 49 + [lost], [tcp()] * 17 + [failed[0], *failed]).notes
    assert "1 of 50 queries over UDP were not answered in time" in notes
    assert "3 of 20 queries over TCP failed: 2 timeout, 1 reset" in notes
    (note,) = judge([lost] * 3, [tcp()] * 3).notes
    assert note == "it does not answer over UDP, so there is no ratio"
    # One late answer may have any cause.
    assert judge(TEN_UDP, [tcp()] * 9 + [tcp(first=90.0)]).notes == ()


def test_truncation_names_the_largest_replies() -> None:
    cut = [udp(truncated=True, reply_bytes=40)] * 2

    def note(over: list[dict[str, Any]], edns: int, more: Any = ()) -> str:
        return judge([*cut, *more], over, settings={"edns": edns}).notes[0]

    sizes = [tcp(reply_bytes=600), tcp(reply_bytes=900), tcp()]
    assert "over TCP the reply has 900 bytes" in note(sizes, 800)
    whole_ones = [udp(reply_bytes=300), udp(reply_bytes=400), udp()]
    assert "largest whole answer over UDP has 400 bytes" in note(sizes, 800, whole_ones)
    # Nothing is said about sizes that are not known.
    unknown = note([tcp()] * 3, 800, [udp()])
    assert "where 800 bytes" in unknown and "has" not in unknown
    # 512 bytes are always allowed (RFC 6891, 6.2.3).
    assert "although 512 bytes" in note([tcp(reply_bytes=512)], 400)
    assert "where 512 bytes" in note([tcp(reply_bytes=513)], 400)
    assert "although 512 bytes" in note([tcp(reply_bytes=1)], 400)

"""What the agent does without a kernel: DNS messages, times, counters."""

from __future__ import annotations

import heapq
import random
import socket
import struct
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from narrows.backends.kernel.design.exchanges import Exchanges, Names
from narrows.backends.kernel.inside.agent import dns, dualpi2
from narrows.backends.kernel.inside.agent.dns_connections import Connections
from narrows.backends.kernel.inside.agent.dns_messages import asked_name, query, reply, truncated
from narrows.backends.kernel.inside.agent.dns_rows import Attempt, Query
from narrows.backends.kernel.inside.agent.loop import READ, Loop
from narrows.backends.kernel.inside.agent.samples import in_ring, reasons

dns_message = pytest.importorskip("dns.message")
dns_flags = pytest.importorskip("dns.flags")

LENGTHS = [17, 19, 20, 36, 80, 81, 82, 83, 84, 145, 146, 147, 148, 200, 271, 300, 512, 1400]


@pytest.mark.parametrize("length", [*LENGTHS, 65_535])
@pytest.mark.parametrize("payload", [512, 1232])
def test_queries_have_the_length_and_parse(length: int, payload: int) -> None:
    found = query(4711, length, payload)
    assert len(found) == length
    parsed = dns_message.from_wire(found)
    assert parsed.id == 4711 and len(parsed.question) == 1
    assert parsed.question[0].name.to_wire() == asked_name(found)
    if length >= 28 + 2:
        # There is room for an OPT record, and 512 bytes need none (RFC 6891, 6.2.3).
        assert parsed.payload in ((0, 512) if payload == 512 else (1232,))


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("more", [0, 11, 12, 36, 500])
def test_replies_have_the_length_and_parse(length: int, more: int) -> None:
    asked = query(1, length, 1232)
    found = reply(asked, length + more)
    assert len(found) == length + more
    parsed = dns_message.from_wire(found)
    assert dns_message.from_wire(asked).is_response(parsed)


def test_replies_may_be_shorter_than_padded_queries() -> None:
    asked = query(1, 1400, 1232, most=30)
    for length in (46, 57, 80):
        found = reply(asked, length)
        assert len(found) == length
        assert dns_message.from_wire(asked).is_response(dns_message.from_wire(found))


def test_truncated_replies_say_so() -> None:
    asked = query(1, 60, 1232)
    parsed = dns_message.from_wire(truncated(asked, 60))
    assert parsed.flags & dns_flags.TC and not parsed.answer


def sizes(**drawn: object) -> dict[str, object]:
    return {"drawn": drawn}


def test_exchanges_have_names_of_their_own() -> None:
    choices = [{"query": 40, "reply": reply, "weight": 1.0} for reply in range(100, 200)]
    found = Exchanges({"chosen": [*choices, choices[0]]}, 1232, "seed")
    assert Names().mark(found.rows) is None
    asked = {
        asked_name(query(0, row["query"], 1232, row["mark"], row["longest_name"]))
        for row in found.rows
    }
    assert len(asked) == 100


def test_queries_that_are_too_short_cannot_be_told_apart() -> None:
    # The root's name has one byte.
    choices = [{"query": 17, "reply": reply, "weight": 1.0} for reply in (100, 200)]
    assert Names().mark(Exchanges({"chosen": choices}, 512, "seed").rows) == 17


def test_lengths_in_a_list_come_in_turn() -> None:
    lists = sizes(query={"list": [40, 50]}, reply={"list": [100, 200, 300]})
    found = Exchanges(lists, 1232, "seed")
    assert found.in_turn
    assert [(row["query"], row["reply"]) for row in found.rows] == [
        *((40, 100), (50, 200), (40, 300), (50, 100), (40, 200), (50, 300)),
    ]


def test_lengths_that_are_drawn_have_their_mean() -> None:
    drawn = sizes(query={"constant": 60}, reply={"exponential": {"mean": 1000}})
    found = [row["reply"] for row in Exchanges(drawn, 1232, "seed").rows]
    # The standard error of the mean of a thousand is 3 %.
    assert sum(found) / len(found) == pytest.approx(1000.0, rel=0.12)
    assert len(set(found)) > 500


def test_the_loop_wakes_at_fractions_of_a_millisecond() -> None:
    """With epoll alone, the loop would wake up to a millisecond later."""
    loop = Loop(time.monotonic())
    woken: list[float] = []
    for when in (0.0201, 0.0203, 0.0205):
        loop.at(when, lambda: woken.append(loop.now()))
    loop.at(0.0207, loop.stop)
    loop.run()
    assert len(woken) == 3 and woken == sorted(woken)
    assert woken[0] >= 0.0201


def test_the_loop_calls_for_what_is_ready() -> None:
    near, far = socket.socketpair()
    with near, far:
        loop = Loop(time.monotonic())

        def read(_events: int) -> None:
            assert near.recv(10) == b"hello"
            loop.stop()

        loop.watch(near, READ, read)
        loop.at(0.001, lambda: far.sendall(b"hello") and None)
        loop.run()


class _Virtual:
    """A loop whose time passes at once."""

    def __init__(self) -> None:
        self._now = 0.0
        self._times: list[tuple[float, int, Callable[[], None]]] = []
        self._number = 0

    def now(self) -> float:
        return self._now

    def at(self, when: float, call: Callable[[], None]) -> None:
        self._number += 1
        heapq.heappush(self._times, (when, self._number, call))

    def run(self, until: float) -> None:
        while self._times and self._times[0][0] <= until:
            self._now, _, call = heapq.heappop(self._times)
            call()


HOLDS_S = 0.1


class _Answered:
    """Sockets of a worker whose queries are answered after a time."""

    def __init__(self, job: Any, loop: _Virtual, on_reply: Callable[..., None]) -> None:
        self._loop, self._on_reply = loop, on_reply

    def begin(self) -> None:
        pass

    def is_taken(self, _number: int) -> bool:
        return False

    def send(self, attempt: Any, _number: int, _message: bytes) -> None:
        came = self._loop.now() + HOLDS_S
        self._loop.at(came, lambda: self._on_reply(attempt, came, False))


def asked(monkeypatch: pytest.MonkeyPatch, until: float, **keys: Any) -> tuple[list[Any], int]:
    """The rows of queries that workers leave, and how often they say that they are done."""
    monkeypatch.setattr(dns, "Datagrams", _Answered)
    each = {"query": 40, "mark": "0", "longest_name": 4, "weight": 1.0}
    job = {
        **{"workers": 10, "warm_up": 0, "queries": None, "arrivals": None, "gives_up_s": None},
        **{"start_s": 0.0, "spread_s": 0.0, "think_mean_s": 0.0, "payload": 1232, "tcp": None},
        **{"exchanges": [each], "in_turn": True},
        "udp": {"timeouts_s": [5.0], "tcp_if_truncated": False, "tcp_if_silent": False},
        **keys,
    }
    loop, done = _Virtual(), []
    workers = dns.Workers(job, loop, "seed", lambda: done.append(1))  # type: ignore[arg-type]
    workers.start()
    loop.run(until)
    return workers.rows()[0], len(done)


def test_arrivals_are_a_poisson_process_and_find_places_as_erlang_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A hundred a second for 0.1 s each: with ten places, Erlang's B(10, 10) = 0.2146 are lost."""
    arrivals = {"interval_s": 0.01, "spacing": "poisson"}
    queries, _ = asked(monkeypatch, 400.0, arrivals=arrivals)
    starts = np.array([row["start_s"] for row in queries])
    assert abs(len(starts) - 40_000) < 5.0 * np.sqrt(40_000)
    gaps = np.sort(np.diff(starts))
    distances = np.abs(1.0 - np.exp(-100.0 * gaps) - (np.arange(len(gaps)) + 0.5) / len(gaps))
    # Kolmogorov-Smirnov, at a level of 0.1 %.
    assert distances.max() < 1.95 / np.sqrt(len(gaps))
    lost = sum(row["attempts"] == 0 for row in queries) / len(queries)
    # Losses come in bursts: their deviation is about twice that of independent ones.
    assert abs(lost - 0.2146) < 4.0 * 2.0 * np.sqrt(0.2146 * 0.7854 / len(queries))


def test_arrivals_end_with_their_number(monkeypatch: pytest.MonkeyPatch) -> None:
    arrivals = {"interval_s": 0.03, "spacing": "even"}
    queries, done = asked(monkeypatch, 9.0, arrivals=arrivals, queries=20, warm_up=5)
    assert [row["index"] for row in queries] == list(range(25))
    assert sum(row["measured"] for row in queries) == 20
    assert [row["start_s"] for row in queries] == pytest.approx([0.03 * n for n in range(25)])
    # The worker that became free last is taken, so four are enough for 0.1 s.
    assert {row["worker"] for row in queries} == {0, 1, 2, 3}
    assert done == 1


def test_workers_without_a_number_ask_until_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    queries, done = asked(monkeypatch, 10.05, workers=2)
    assert (len(queries), done) == (2 * 101, 0)
    assert sum(row["end_s"] is None for row in queries) == 2


def test_pie_counts_packets_without_room_among_its_drops() -> None:
    # From a guest with Linux 6.1: 14,759 packets found the queue full, none was dropped early.
    told = struct.pack("QIIIIIIII", 0, 20_000, 0, 0, 90_564, 14_759, 14_759, 20, 3)
    found = reasons({"kind": "pie", "drops": 14_759, "app": told})
    assert found == {"dropped_early": 0, "dropped_overflow": 14_759, "marked": 3}


def test_marks_of_a_threshold_count_as_codels_own() -> None:
    # struct tc_codel_xstats and tc_fq_codel_qd_stats of linux/pkt_sched.h.
    codel = struct.pack("4Ii4I", 1514, 1, 0, 5_000, 0, 7, 30, 0, 400)
    found = reasons({"kind": "codel", "drops": 9, "app": codel})
    assert found == {"dropped_early": 2, "dropped_overflow": 7, "marked": 430}
    fq_codel = struct.pack("10I", 0, 1514, 7, 30, 5, 1, 2, 400, 99, 0)
    found = reasons({"kind": "fq_codel", "drops": 9, "app": fq_codel})
    assert found == {"dropped_early": 2, "dropped_overflow": 7, "marked": 430}


def test_fq_tells_its_marks() -> None:
    # struct tc_fq_qd_stats of linux/pkt_sched.h: eight numbers of 64 bits, four of 32, ce_mark.
    told = struct.pack("8Q4I3Q", *range(12), 4711, 13, 14)
    found = reasons({"kind": "fq", "drops": 9, "app": told})
    assert found == {"dropped_early": 0, "dropped_overflow": 9, "marked": 4711}


def test_dualpi2_tells_its_marks_and_what_found_no_room() -> None:
    # struct tc_dualpi2_xstats: prob, delay_c, delay_l, packets_in_c, packets_in_l, maxq, ecn_mark.
    told = struct.pack("8Ii3I", 0, 0, 0, 100, 90, 20, 31, 7, -100, 0, 0, 0)
    found = reasons({"kind": "dualpi2", "drops": 9, "overlimits": 4, "app": told})
    assert found == {"dropped_early": 5, "dropped_overflow": 4, "marked": 31}


def test_dualpi2_is_asked_for_in_the_kernels_units() -> None:
    """The attributes of linux/pkt_sched.h, with the defaults that tc-dualpi2(8) lists."""
    words = (
        "limit 10000 memlimit 30280000 target 15000us tupdate 16000us alpha 0.16 beta 3.2 "
        "step_thresh 1000us min_qlen_step 2 coupling_factor 2 classic_protection 10% "
        "drop_on_overload drop_dequeue l4s_ect split_gso"
    )
    found = dict(dualpi2.attributes(words.split()))
    wide = {1: 10_000, 2: 30_280_000, 3: 15_000, 4: 16_000, 5: 41, 6: 819, 8: 1000, 9: 2}
    narrow = {10: 2, 11: 1, 12: 0, 13: 10, 14: 1, 15: 1}
    assert found == {
        **{number: struct.pack("I", value) for number, value in wide.items()},
        **{number: struct.pack("B", value) for number, value in narrow.items()},
    }
    other = dict(dualpi2.attributes(["step_thresh", "5p", "overflow", "drop_enqueue", "any_ect"]))
    assert other == {7: struct.pack("I", 5), 11: b"\0", 12: b"\1", 14: b"\3"}
    with pytest.raises(ValueError, match="dualpi2 has no limt"):
        dict(dualpi2.attributes(["limt", "5"]))


def test_what_waits_in_a_ring_is_told_and_nothing_where_there_is_none() -> None:
    # Of 15,000 bytes in ten packets, 6,000 are on their way already.
    wire = {"qlen": 10, "backlog": 15_000}
    found = in_ring({"ring": True, "propagation_bytes": 6_000}, wire)
    assert found == {"ring_packets": 6, "ring_bytes": 9_000}
    empty = in_ring({"ring": True, "propagation_bytes": 6_000}, {"qlen": 0, "backlog": 0})
    assert empty == {"ring_packets": 0, "ring_bytes": 0}
    without = in_ring({"ring": False, "propagation_bytes": 6_000}, wire)
    assert without == {"ring_packets": None, "ring_bytes": None}


class _Asker:
    """Notes how attempts fail."""

    def __init__(self) -> None:
        self.failed: list[str] = []

    def on_written(self, attempt: Attempt) -> None:
        pass

    def on_reply(self, attempt: Attempt, now: float, first_byte_s: float) -> None:
        raise AssertionError("the server answers nothing")

    def on_failed(self, attempt: Attempt, how: str) -> None:
        self.failed.append(how)


@pytest.mark.parametrize("closes", [True, False])
def test_failed_attempts_over_kept_connections_count_their_packets(closes: bool) -> None:
    """Two queries share a connection: the first attempt that ends counts for both."""
    loop = Loop(time.monotonic())
    asker = _Asker()
    reuse = {"shared": True, "pipelined": True, "queries": None, "idle_s": None}
    told = {
        **{"reuse": {**reuse, "after_silence": False}, "tls": None, "fast_open": False},
        **{"congestion": "reno", "mss": None, "nodelay": True, "length_apart": False},
        **{"client_address": "127.0.0.1", "server_address": "127.0.0.1"},
    }
    job = {"group": "stub", "client": "", "realtime_origin": time.time(), "tcp": told}
    messages = [query(0, length, 1232) for length in (40, 300)]
    carried = sum(2 + len(message) for message in messages)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        job["port"] = listener.getsockname()[1]
        connections = Connections(job, loop, random.Random(1), asker)
        attempts = [Attempt(Query(0, 0, 0.0, measured=True), 0.0, "tcp") for _ in messages]
        for attempt, message in zip(attempts, messages, strict=True):
            connections.ask(0, attempt, message)

        def serve() -> None:
            served, _ = listener.accept()
            with served:
                assert len(served.recv(carried, socket.MSG_WAITALL)) == carried
                for attempt in [] if closes else attempts:
                    connections.leave(attempt)

        loop.at(0.05, serve)
        loop.at(0.2, loop.stop)
        loop.run()
    assert asker.failed == (["closed"] * 2 if closes else [])
    first, second = ((*attempt.sent, *attempt.received) for attempt in attempts)
    # SYN, ACK and the queries; the SYN-ACK, and the server's FIN or an acknowledgement.
    assert first[0] >= 3 and first[2] >= 2
    # Headers of 52 bytes; a SYN has 8 more.
    assert first[1] == 52 * first[0] + 8 + carried
    assert first[3] == 52 * first[2] + 8
    assert second == (0, 0, 0, 0)

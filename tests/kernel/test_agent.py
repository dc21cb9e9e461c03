"""What the agent and the design of its job do without a kernel: queries, times, counters."""

from __future__ import annotations

import os
import shlex
import struct
import time
from pathlib import Path

import pytest

from narrows import _core
from narrows.backends.kernel.design.exchanges import Exchanges, Names
from narrows.backends.kernel.dns_messages import asked_name, query
from narrows.backends.kernel.inside.agent import dualpi2
from narrows.backends.kernel.inside.agent.live import Live
from narrows.backends.kernel.inside.agent.loop import Loop
from narrows.backends.kernel.inside.agent.network import NetworkError
from narrows.backends.kernel.inside.agent.samples import in_ring, reasons
from narrows.builds import THIS

dns_message = pytest.importorskip("dns.message")

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
    assert [(row["query"], row["reply"]) for row in found.rows] == [
        *((40, 100), (50, 200), (40, 300), (50, 100), (40, 200), (50, 300)),
    ]


def test_lengths_that_are_drawn_have_their_mean() -> None:
    drawn = sizes(query={"constant": 60}, reply={"exponential": {"mean": 1000}})
    found = [row["reply"] for row in Exchanges(drawn, 1232, "seed").rows]
    # The standard error of the mean of a thousand is 3 %.
    assert sum(found) / len(found) == pytest.approx(1000.0, rel=0.12)
    assert len(set(found)) > 500


def live_that_says(said: str, folder: Path) -> Live:
    """narrows-live, replaced by a program that says this when it is ready."""
    program = folder / "narrows-live"
    program.write_text(f"#!/bin/sh\nprintf '%b' {shlex.quote(said)}\nexec sleep 60\n")
    program.chmod(0o755)
    files = dict.fromkeys(("plan", "places", "real"), "none")
    given = {"program": str(program), "narrows": THIS, **files, "arguments": ()}
    return Live(given, folder, 0.0)


def test_narrows_live_of_this_build_plays(tmp_path: Path) -> None:
    live = live_that_says(f'{{"ready":"{THIS}"}}\\n', tmp_path)
    assert live.ended() is None
    live.kill()


@pytest.mark.parametrize(
    ("said", "theirs"),
    [
        (f'{{"ready":"{_core.version} (0123456789ab)"}}\\n', f"{_core.version} (0123456789ab)"),
        # Before builds were compared, it said only its version.
        (f'{{"ready":"{_core.version}"}}\\n', _core.version),
        ("{}\\n", "of an unknown version"),
        ("[1]\\n", "of an unknown version"),
        ("\\0377\\0\\n", "of an unknown version"),
        ("\\n", "of an unknown version"),
    ],
)
def test_narrows_live_of_another_build_is_refused(said: str, theirs: str, tmp_path: Path) -> None:
    with pytest.raises(NetworkError) as caught:
        live_that_says(said, tmp_path)
    assert str(caught.value) == (
        f"{tmp_path}/narrows-live: is of narrows {theirs}, but this is {THIS} "
        "(make setup builds both)"
    )


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
    near, far = os.pipe()
    loop = Loop(time.monotonic())

    def read() -> None:
        assert os.read(near, 10) == b"hello"
        loop.stop()

    loop.on_readable(near, read)
    loop.at(0.001, lambda: os.write(far, b"hello") and None)
    loop.run()
    for number in (near, far):
        os.close(number)


def test_pie_counts_packets_without_room_among_its_drops() -> None:
    # From a guest with Linux 6.1: 14,759 packets found the queue full, none was dropped early.
    given = struct.pack("QIIIIIIII", 0, 20_000, 0, 0, 90_564, 14_759, 14_759, 20, 3)
    found = reasons({"kind": "pie", "drops": 14_759, "app": given})
    assert found == {"dropped_early": 0, "dropped_overflow": 14_759, "marked": 3}


def test_marks_of_a_threshold_count_as_codels_own() -> None:
    # struct tc_codel_xstats and tc_fq_codel_qd_stats of linux/pkt_sched.h.
    codel = struct.pack("4Ii4I", 1514, 1, 0, 5_000, 0, 7, 30, 0, 400)
    found = reasons({"kind": "codel", "drops": 9, "app": codel})
    assert found == {"dropped_early": 2, "dropped_overflow": 7, "marked": 430}
    fq_codel = struct.pack("10I", 0, 1514, 7, 30, 5, 1, 2, 400, 99, 0)
    found = reasons({"kind": "fq_codel", "drops": 9, "app": fq_codel})
    assert found == {"dropped_early": 2, "dropped_overflow": 7, "marked": 430}


def test_fq_pie_tells_its_marks_and_what_found_no_room() -> None:
    # struct tc_fq_pie_xstats: packets_in, dropped, overlimit, overmemory, ecn_mark, four more.
    given = struct.pack("9I", 5_000, 90, 40, 7, 31, 0, 1, 2, 3_000)
    found = reasons({"kind": "fq_pie", "drops": 90, "app": given})
    assert found == {"dropped_early": 50, "dropped_overflow": 40, "marked": 31}


def test_cake_tells_the_marks_of_all_tins() -> None:
    # TCA_CAKE_STATS_TIN_STATS (10) with tins, each with TCA_CAKE_TIN_STATS_ECN_MARKED_PACKETS (8).
    def attribute(kind: int, value: bytes) -> bytes:
        return struct.pack("HH", 4 + len(value), kind) + value

    def tin(marked: int) -> bytes:
        return attribute(2, struct.pack("I", 900)) + attribute(8, struct.pack("I", marked))

    nested = attribute(1, tin(7)) + attribute(2, tin(31))
    given = attribute(3, struct.pack("I", 4 << 20)) + attribute(0x8000 | 10, nested)
    found = reasons({"kind": "cake", "drops": 9, "app": given})
    assert found == {"dropped_early": 9, "dropped_overflow": 0, "marked": 38}


def test_fq_tells_its_marks() -> None:
    # struct tc_fq_qd_stats of linux/pkt_sched.h: eight numbers of 64 bits, four of 32, ce_mark.
    given = struct.pack("8Q4I3Q", *range(12), 4711, 13, 14)
    found = reasons({"kind": "fq", "drops": 9, "app": given})
    assert found == {"dropped_early": 0, "dropped_overflow": 9, "marked": 4711}


def test_dualpi2_tells_its_marks_and_what_found_no_room() -> None:
    # struct tc_dualpi2_xstats: prob, delay_c, delay_l, packets_in_c, packets_in_l, maxq, ecn_mark.
    given = struct.pack("8Ii3I", 0, 0, 0, 100, 90, 20, 31, 7, -100, 0, 0, 0)
    found = reasons({"kind": "dualpi2", "drops": 9, "overlimits": 4, "app": given})
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

"""Pooled means, and sentences that the numbers choose."""

from __future__ import annotations

import math
import re
from itertools import product

import polars as pl
import pytest

from narrows.study.dns_transport.factors import QUEUES
from narrows.study.dns_transport.phrases import SECOND, percent, points
from narrows.study.dns_transport.pooled import difference, mean
from narrows.study.dns_transport.surprises import surprises
from narrows.study.dns_transport.words import sentences

PLANE = {"path": "clean", "round_trip": "20ms", "reply": "100B", "neighbours": "arp"}


def runs(shares: dict[str, dict[str, float]], **figures: float) -> pl.DataFrame:
    """Runs of three seeds: what is answered within a second by queue and transport."""
    rows = [
        {
            "transport": transport,
            "queue": queue,
            "load": "downloads-ecn",
            **PLANE,
            "seed": seed,
            # Seeds differ by a tenth of a point, alike in all cells.
            SECOND: share + 0.1 * seed,
            "without_retry_percent": share,
            "failed_percent": 100.0 - share,
            "silent_percent": 0.0,
            "queries": 0.0,
            "connections": 1.0,
            "packets_per_answer": 2.0,
            "goodput_mbit_per_s": 9.0,
            "outages": 0.0,
            "response_p50_ms": 20.0,
            "sojourn_ms": 1.0,
            "cpu_bind_us": None,
            "cpu_nsd_us": None,
            "cpu_knot_us": None,
            **figures,
        }
        for (queue, cells), seed in product(shares.items(), (1, 2, 3))
        for transport, share in cells.items()
    ]
    return pl.DataFrame(rows)


def told(table: pl.DataFrame) -> str:
    return "\n".join(each.text for each in sentences(table))


def test_a_mean_over_cells_has_students_interval_over_seeds() -> None:
    table = runs({"fifo": {"udp": 50.0}, "red": {"udp": 70.0}})
    found = mean(table, SECOND, {"transport": "udp"})
    assert found is not None
    assert found.mean == pytest.approx(60.2)
    # Seeds give 60.1, 60.2 and 60.3; t(0.975, 2) is 4.303 in the printed tables.
    assert found.half_width == pytest.approx(4.303 * 0.1 / math.sqrt(3), rel=1e-3)


def test_differences_are_of_the_same_cells_and_seeds() -> None:
    table = runs({"fifo": {"udp": 50.0, "tcp-new": 53.0}, "red": {"udp": 70.0}})
    found = difference(table, SECOND, {"transport": "tcp-new"}, {"transport": "udp"})
    assert found is not None
    # RED has no TCP, so only FIFO counts; what seeds do to both cancels.
    assert found.mean == pytest.approx(3.0)
    assert found.half_width == pytest.approx(0.0, abs=1e-9)
    assert difference(table, SECOND, {"transport": "tls-new"}, {"transport": "udp"}) is None


def test_seeds_that_lack_a_cell_do_not_count() -> None:
    table = runs({"fifo": {"udp": 50.0}, "red": {"udp": 70.0}})
    torn = table.filter(~((pl.col("queue") == "red") & (pl.col("seed") == 3)))
    found = mean(torn, SECOND, {"transport": "udp"})
    assert found is not None
    assert (found.count, found.mean) == (2, pytest.approx(60.15))


@pytest.mark.parametrize(
    ("kept", "words"),
    [
        (60.0, "Keep connections open"),
        (40.0, "Do not keep connections for speed"),
        (50.5, "No sure difference of a point or more was seen between kept and new connections"),
    ],
)
def test_the_advice_on_connections_follows_the_numbers(kept: float, words: str) -> None:
    table = runs({"fifo": {"tcp-new": 50.0, "tcp-kept": kept}})
    assert words in told(table)


@pytest.mark.parametrize(
    ("tcp", "tls", "words"),
    [
        (60.0, 60.0, "Keep connections open"),
        (60.0, 50.0, "Keeping connections helps some transports, within"),
        (40.0, 50.0, "Keeping connections costs some transports, within"),
        (60.0, 40.0, "Keeping connections helps some transports and costs others"),
    ],
)
def test_advice_holds_for_all_transports_or_says_for_some(
    tcp: float, tls: float, words: str
) -> None:
    cells = {"tcp-new": 50.0, "tcp-kept": tcp, "tls-new": 50.0, "tls-kept": tls}
    assert words in told(runs({"fifo": cells}))


def test_sentences_name_what_was_pooled() -> None:
    text = told(
        runs({"fifo": {"udp": 50.0, "tcp-new": 60.0}, "drr": {"udp": 70.0, "tcp-new": 80.0}})
    )
    assert "Over FIFO and DRR under 120 downloads with ECN, TCP new has most" in text
    assert "Over UDP and TCP new under 120 downloads with ECN, DRR lets most DNS" in text
    assert "all queues" not in text
    everything = {level.name: {"udp": 50.0} for level in QUEUES}
    both = {name: {**cells, "tcp-new": 60.0} for name, cells in everything.items()}
    assert f"Over all {len(QUEUES)} queues under" in told(runs(both))


@pytest.mark.parametrize(
    ("first", "words"),
    [
        (90.0, "DNS first is worth it"),
        (50.2, "No sure difference of a point or more between DNS first and the same FIFO"),
        (20.0, "DNS first costs"),
    ],
)
def test_dns_first_is_judged_without_https(first: float, words: str) -> None:
    queues = {"fifo": {"udp": 50.0, "https-new": 50.0}, "prio": {"udp": first, "https-new": 50.0}}
    text = told(runs(queues))
    assert words in text
    assert "under 120 downloads with ECN over the transports that it knows by their ports" in text
    (unseen,) = re.findall(r"It does not know DNS over HTTPS.*: (\S+) points", text)
    assert float(unseen) == 0.0


def test_what_lacks_cells_is_not_ranked() -> None:
    # A failure, or an interruption, took RED's new TCP: over FIFO alone it would be the best.
    text = told(
        runs(
            {
                "fifo": {"udp": 80.0, "tls-new": 70.0, "tcp-new": 90.0},
                "red": {"udp": 20.0, "tls-new": 10.0},
            }
        )
    )
    assert "UDP has most answers within a second: 50.2 %" in text
    assert "TCP new has" not in text
    assert "Left out under load, as cells are missing that others have: TCP new." in text


@pytest.mark.parametrize(("udp", "tcp"), [(45.0, 0.0), (0.0, 0.0)])
def test_nobody_is_answered_over_udp_only_if_so(udp: float, tcp: float) -> None:
    table = runs({"red-ecn": {"udp": udp, "tcp-new": tcp}}).with_columns(
        pl.col(SECOND) - 0.1 * pl.col("seed"), load=pl.lit("paper-h"), neighbours=pl.lit("known")
    )
    sentence = "almost nobody is answered within a second, over UDP either"
    assert (sentence in told(table)) == (udp == 0.0)
    # One seed has no interval, so it may be above.
    assert sentence not in told(table.filter(seed=1))


def test_queues_that_may_be_as_good_in_their_worst_case_are_named() -> None:
    text = told(runs({"fifo": {"udp": 50.0}, "drr": {"udp": 50.3}, "red": {"udp": 20.0}}))
    assert "DRR has the best worst case" in text
    (close,) = re.findall("not surely worse by a point or more: (.*)", text)
    assert "FIFO" in close
    assert "RED" not in close


@pytest.mark.parametrize(("stateless", "told_why"), [(60.0, False), (40.0, True)])
def test_why_stateless_tcp_is_worse_is_said_where_it_is(stateless: float, told_why: bool) -> None:
    text = told(runs({"fifo": {"tcp-new": 50.0, "tcp-stateless": stateless}}))
    assert "Stateless TCP against new TCP" in text
    assert ("the server has no timers" in text) == told_why


@pytest.mark.parametrize(
    ("best", "words"), [("fifo", "FIFO lets most DNS"), ("drr", "DRR lets most DNS")]
)
def test_the_best_queue_is_the_one_with_most_answers(best: str, words: str) -> None:
    shares = {"fifo": {"udp": 50.0}, "drr": {"udp": 50.0}}
    shares[best]["udp"] = 90.0
    assert words in told(runs(shares))


@pytest.mark.parametrize(
    ("ecn", "words"),
    [
        (90.0, "Turn ECN on where DNS uses connections: behind RED that marks"),
        (
            50.2,
            "No sure difference of a point or more by ECN on DNS was seen behind RED that marks",
        ),
        (20.0, "ECN on DNS costs behind RED that marks"),
    ],
)
def test_ecn_is_advised_where_it_helps(ecn: float, words: str) -> None:
    table = runs({"red-ecn": {"tcp-kept": 50.0, "tcp-kept-ecn": ecn}})
    assert words in told(table)


def test_ecn_is_not_advised_for_all_where_it_costs_some() -> None:
    cells = {"tcp-kept": 50.0, "tcp-kept-ecn": 90.0, "tls-kept": 50.0, "tls-kept-ecn": 20.0}
    text = told(runs({"red-ecn": cells}))
    assert "Turn ECN on" not in text
    assert "ECN on DNS helps some transports: behind RED that marks" in text
    assert "ECN on DNS costs behind RED that marks, among downloads with ECN (TLS kept" in text


def test_one_seed_gives_no_interval_and_no_advice_on_differences() -> None:
    table = runs({"fifo": {"tcp-new": 50.0, "tcp-kept": 90.0}}).filter(seed=1)
    text = told(table)
    assert "One seed only" in text
    assert "Keep" not in text
    assert "was seen between kept and new connections" in text


def test_what_contradicts_expectation_is_listed() -> None:
    table = runs({"fifo": {"udp": 80.0}, "codel": {"udp": 60.0}, "drr": {"udp": 90.0}})
    (found,) = surprises(table).found
    assert found["queue"] == "codel"
    assert found["value"] == pytest.approx(-20.0)
    silent = runs({"fifo": {"udp": 0.0}}, silent_percent=100.0)
    assert [each["value"] for each in surprises(silent).found] == [100.0]
    # Where the path drops the replies, that is no surprise.
    dropped = silent.with_columns(path=pl.lit("fragments"))
    assert surprises(dropped).found == []


def test_comparisons_are_counted() -> None:
    table = runs({"fifo": {"udp": 80.0}, "codel": {"udp": 60.0}, "drr": {"udp": 90.0}})
    # CoDel and DRR against FIFO; one in forty would be lower by chance.
    assert surprises(table).comparisons == 2
    assert surprises(table).by_chance == 1
    assert surprises(table.filter(seed=1)).comparisons == 0


@pytest.mark.parametrize("share", [0.0, 100.0])
def test_seeds_that_agree_leave_the_width_that_the_queries_give(share: float) -> None:
    table = runs({"fifo": {"udp": share, "tcp-new": share}}, queries=10.0).with_columns(
        pl.lit(share).alias(SECOND)
    )
    # 30 of 30: Wilson's interval ends at 1 / (1 + 1.96^2 / 30).
    distance = 100.0 * (1.0 - 1.0 / (1.0 + 1.959964**2 / 30))
    found = mean(table, SECOND, {"transport": "udp"})
    gap = difference(table, SECOND, {"transport": "udp"}, {"transport": "tcp-new"})
    assert found is not None
    assert gap is not None
    assert found.high - found.low == pytest.approx(distance, abs=1e-4)
    # Both ends at the same share: Newcombe's has that distance on either side.
    assert (gap.low, gap.high) == (
        pytest.approx(-distance, abs=1e-4),
        pytest.approx(distance, abs=1e-4),
    )


def test_percentages_stay_between_0_and_100() -> None:
    table = runs({"fifo": {"udp": 99.95}})
    found = mean(table.with_columns(pl.col(SECOND).clip(0.0, 100.0)), SECOND, {})
    assert found is not None
    assert percent(found) == "100.0 % (100.0 to 100.0)"
    assert points(found).startswith("+100.0 points (+")

"""Pooled means, and sentences that the numbers choose."""

from __future__ import annotations

import math
from itertools import product

import polars as pl
import pytest

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
            "frozen_percent": 0.0,
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
        (50.5, "Keeping connections does not help every transport"),
    ],
)
def test_the_advice_on_connections_follows_the_numbers(kept: float, words: str) -> None:
    table = runs({"fifo": {"tcp-new": 50.0, "tcp-kept": kept}})
    assert words in told(table)


@pytest.mark.parametrize(
    ("best", "words"), [("fifo", "FIFO lets most DNS"), ("drr", "DRR lets most DNS")]
)
def test_the_best_queue_is_the_one_with_most_answers(best: str, words: str) -> None:
    shares = {"fifo": {"udp": 50.0}, "drr": {"udp": 50.0}}
    shares[best]["udp"] = 90.0
    assert words in told(runs(shares))


@pytest.mark.parametrize(
    ("ecn", "words"),
    [(90.0, "Turn ECN on"), (50.2, "no sure difference was seen"), (20.0, "There it costs")],
)
def test_ecn_is_advised_where_it_helps(ecn: float, words: str) -> None:
    table = runs({"red-ecn": {"tcp-kept": 50.0, "tcp-kept-ecn": ecn}})
    assert words in told(table)


def test_one_seed_gives_no_interval_and_no_advice_on_differences() -> None:
    table = runs({"fifo": {"tcp-new": 50.0, "tcp-kept": 90.0}}).filter(seed=1)
    text = told(table)
    assert "One seed only" in text
    assert "Keep connections open" not in text


def test_what_contradicts_expectation_is_listed() -> None:
    table = runs({"fifo": {"udp": 80.0}, "codel": {"udp": 60.0}, "drr": {"udp": 90.0}})
    (found,) = surprises(table)
    assert found["queue"] == "codel"
    assert found["value"] == pytest.approx(-20.0)
    frozen = runs({"fifo": {"udp": 0.0}}, frozen_percent=100.0)
    assert [each["value"] for each in surprises(frozen)] == [100.0]


def test_percentages_stay_between_0_and_100() -> None:
    table = runs({"fifo": {"udp": 99.95}})
    found = mean(table.with_columns(pl.col(SECOND).clip(0.0, 100.0)), SECOND, {})
    assert found is not None
    assert percent(found) == "100.0 % (100.0 to 100.0)"
    assert points(found).startswith("+100.0 points (+")

"""Pooled means, and the tables and plots of them."""

from __future__ import annotations

import math
from itertools import product

import polars as pl
import pytest

from narrows.reproduce.statistics import Interval
from narrows.study.dns_transport.factors import QUEUES
from narrows.study.dns_transport.phrases import SECOND, bare, signed
from narrows.study.dns_transport.plots import plots
from narrows.study.dns_transport.pooled import difference, mean
from narrows.study.dns_transport.surprises import surprises
from narrows.study.dns_transport.tables import Table, notes, tables

pytestmark = pytest.mark.slow

PLANE = {"path": "clean", "round_trip": "20ms", "reply": "100B", "neighbours": "arp"}


def runs(shares: dict[str, dict[str, float]], **metrics: float) -> pl.DataFrame:
    """Runs of three seeds, from the share answered within a second by queue and transport."""
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
            **metrics,
        }
        for (queue, cells), seed in product(shares.items(), (1, 2, 3))
        for transport, share in cells.items()
    ]
    return pl.DataFrame(rows)


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
    # RED has no TCP, so only FIFO counts; effects of the seeds cancel.
    assert found.mean == pytest.approx(3.0)
    assert found.half_width == pytest.approx(0.0, abs=1e-9)
    assert difference(table, SECOND, {"transport": "tls-new"}, {"transport": "udp"}) is None


def test_seeds_that_lack_a_cell_do_not_count() -> None:
    table = runs({"fifo": {"udp": 50.0}, "red": {"udp": 70.0}})
    torn = table.filter(~((pl.col("queue") == "red") & (pl.col("seed") == 3)))
    found = mean(torn, SECOND, {"transport": "udp"})
    assert found is not None
    assert (found.count, found.mean) == (2, pytest.approx(60.15))


def test_tables_name_what_was_pooled() -> None:
    both = {"udp": 50.0, "tcp-new": 60.0}
    found = titles(runs({"fifo": both, "drr": both}))
    assert "Within a second over FIFO and DRR under 120 downloads with ECN" in found["transport"]
    assert "over UDP and TCP new under 120 downloads with ECN" in found["queue"]
    everything = titles(runs({level.name: both for level in QUEUES}))
    assert f"over all {len(QUEUES)} queues under" in everything["transport"]


def test_what_lacks_cells_is_not_ranked() -> None:
    # A failure, or an interruption, took RED's new TCP: over FIFO alone it would be the best.
    table = runs(
        {
            "fifo": {"udp": 80.0, "tls-new": 70.0, "tcp-new": 90.0},
            "red": {"udp": 20.0, "tls-new": 10.0},
        }
    )
    shown = next(each for each in tables(table) if each.columns[0] == "transport")
    assert [row[0] for row in shown.rows] == ["UDP", "TLS new"]
    assert shown.rows[0][1].startswith("50.2")
    assert "Left out under load, because cells are missing: TCP new." in notes(table)


def test_tables_hold_every_line_and_its_difference() -> None:
    cells = {"udp": 50.0, "tcp-kept": 70.0, "tcp-kept-ecn": 90.0}
    made = {each.title.split(",")[0]: each for each in tables(runs({"red-ecn": cells}))}
    (ecn,) = made["ECN on DNS behind RED that marks"].rows
    assert (ecn[0], ecn[3]) == ("TCP kept + ECN", "+20.0")
    assert [cell.split()[0] for cell in ecn[1:3]] == ["70.2", "90.2"]
    under_load = next(each for each in made.values() if each.columns[0] == "transport")
    assert [row[0] for row in under_load.rows] == ["TCP kept + ECN", "TCP kept", "UDP"]
    for each in made.values():
        assert all(len(row) == len(each.columns) for row in each.rows)


def test_costs_are_those_of_what_was_run() -> None:
    cells = {"udp": 50.0, "tcp-kept": 70.0}
    table = runs({"red-ecn": cells})
    (shown,) = (each for each in tables(table) if each.columns[0] == "transport")
    assert "and what an answer costs there" in shown.title
    assert [row[3:6] for row in shown.rows] == [("20.0", "2.0", "1.0")] * 2
    quiet = table.with_columns(load=pl.lit("none"), packets_per_answer=pl.lit(3.0))
    (shown,) = (e for e in tables(pl.concat([table, quiet])) if e.columns[0] == "transport")
    assert "behind RED with ECN without other load" in shown.title
    assert [row[4] for row in shown.rows] == ["3.0"] * 2


def test_one_seed_gives_no_interval() -> None:
    table = runs({"fifo": {"udp": 50.0, "tcp-kept": 90.0}}).filter(seed=1)
    assert any("only one seed" in note for note in notes(table))
    shown = next(each for each in tables(table) if each.columns[0] == "transport")
    assert [row[1:3] for row in shown.rows] == [("90.1", "+40.0"), ("50.1", "")]


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


def test_intervals_stay_within_what_is_possible() -> None:
    shares = {1: 99.9, 2: 100.0, 3: 96.0}
    table = runs({"fifo": {"udp": 50.0, "tcp-new": 50.0}}).with_columns(
        pl.when(pl.col("transport") == "udp")
        .then(pl.col("seed").replace_strict(shares, return_dtype=pl.Float64))
        .otherwise(100.0 - pl.col("seed").replace_strict(shares, return_dtype=pl.Float64))
        .alias(SECOND),
        outages=pl.when(pl.col("seed") == 3).then(5.0).otherwise(0.0),
    )
    share = mean(table, SECOND, {"transport": "udp"})
    gap = difference(table, SECOND, {"transport": "udp"}, {"transport": "tcp-new"})
    outages = mean(table, "outages", {"transport": "udp"})
    assert share is not None
    assert gap is not None
    assert outages is not None
    assert 50.0 < share.low < 98.0 < share.high < 100.0
    assert 0.0 < gap.low < 97.0 < gap.high < 100.0
    assert 0.0 <= outages.low < 5.0 / 3.0 < outages.high


def test_metrics_are_written_as_they_are_rounded() -> None:
    assert bare(Interval(99.96, 99.94, 99.99, 3)) == "100.0 (99.9 to 100.0)"
    assert bare(Interval(99.98, 99.97, 99.99, 3)) == "100.0"
    assert signed(Interval(-0.04, -0.5, 0.4, 3)) == "0.0 (-0.5 to +0.4)"
    assert signed(Interval(3.0, 2.0, 4.2, 3)) == "+3.0 (+2.0 to +4.2)"
    assert bare(Interval(50.0, -math.inf, math.inf, 1)) == "50.0"


def test_heat_maps_round_as_tables_do() -> None:
    # The mean over seeds 1 to 3 is the share plus 0.2.
    table = runs({"fifo": {"udp": 99.76, "tcp-new": 61.09}}, response_p95_ms=20.0)
    shown = next(each for each in plots(table) if each.name == "within-1s-downloads-ecn")
    cells = [text.get_text() for text in shown.figure.axes[0].texts]
    assert cells == ["100.0", "61.3"]


def test_the_caption_says_why_quic_fails_behind_drr() -> None:
    for share, said in ((0.3, True), (95.0, False)):
        table = runs({"drr": {"udp": 99.0, "quic-new": share}}, response_p95_ms=20.0)
        shown = next(each for each in plots(table) if each.name == "within-1s-downloads-ecn")
        assert ("DRR drops from the front" in shown.caption) == said


def test_seeds_that_lack_a_cell_do_not_count_in_a_difference() -> None:
    table = runs({"fifo": {"udp": 50.0, "tcp-new": 70.0}, "red": {"udp": 50.0, "tcp-new": 70.0}})
    table = table.with_columns(queries=pl.lit(100.0))
    # The third seed's queries behind RED are not there yet; what it has behind FIFO is odd.
    partial = table.filter(~((pl.col("seed") == 3) & (pl.col("queue") == "red"))).with_columns(
        pl.when(pl.col("seed") == 3).then(10_000.0).otherwise(pl.col("queries")).alias("queries")
    )
    found = difference(partial, SECOND, {"transport": "tcp-new"}, {"transport": "udp"})
    without = difference(
        table.filter(pl.col("seed") < 3), SECOND, {"transport": "tcp-new"}, {"transport": "udp"}
    )
    assert found == without


def test_a_table_names_only_the_load_that_was_run_and_has_no_empty_column() -> None:
    shares = {"udp": 90.0, "tcp-kept": 95.0}
    (whole,) = queue_tables(runs({"fifo": shares, "red": shares}))
    assert "with UDP and 120 downloads with ECN" in whole.title
    assert "time in the queue, ms" in whole.columns
    without_udp = runs({"fifo": {"tcp-kept": 95.0}, "red": {"tcp-kept": 90.0}})
    other = runs({"fifo": shares, "red": shares}).with_columns(load=pl.lit("downloads"))
    for table in (without_udp, other):
        (made,) = queue_tables(table)
        assert "time in the queue" not in f"{made.title} {made.columns}"
        assert "downloads with ECN" not in made.title or table is without_udp
        for place in range(1, len(made.columns)):
            assert any(row[place] for row in made.rows), made.columns[place]


def queue_tables(table: pl.DataFrame) -> list[Table]:
    return [each for each in tables(table) if each.columns[0] == "queue"]


def titles(table: pl.DataFrame) -> dict[str, str]:
    """The titles of the first tables with transports and with queues."""
    return {each.columns[0]: each.title for each in reversed(tables(table))}

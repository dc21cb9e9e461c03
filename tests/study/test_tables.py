"""Pooled means, and the tables and plots of them."""

from __future__ import annotations

import math
from itertools import product

import polars as pl
import pytest

from narrows.reproduce.statistics import Interval
from narrows.study.dns_transport.phrases import SECOND, bare, signed
from narrows.study.dns_transport.plots import plots
from narrows.study.dns_transport.pooled import difference, mean
from narrows.study.dns_transport.surprises import surprises
from narrows.study.dns_transport.tables import Table, notes, tables

pytestmark = pytest.mark.slow

OPERATOR = "Behind the queues of an operator"
PLANE = {"path": "clean", "round_trip": "20ms", "reply": "100B", "neighbours": "arp"}


def runs(shares: dict[str, dict[str, float]], **metrics: float) -> pl.DataFrame:
    """Runs of three seeds, from the share answered within a second by queue and transport."""
    rows = [
        {
            "place": "operator",
            "transport": transport,
            "queue": queue,
            "load": "cubic",
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


def test_what_lacks_cells_is_left_blank() -> None:
    # A failure, or an interruption, took RED's new TCP among BBR: it might be the best otherwise.
    cubic = runs({"fifo": {"udp": 80.0, "tcp-new": 70.0}, "red": {"udp": 20.0, "tcp-new": 90.0}})
    bbr = runs({"fifo": {"udp": 80.0, "tcp-new": 70.0}, "red": {"udp": 20.0}})
    made = named(pl.concat([cubic, bbr.with_columns(load=pl.lit("bbr"))]))
    cells = {row[0]: [cell.split()[0] if cell else "" for cell in row[1:]]
             for row in made["transport", OPERATOR].rows}  # fmt: skip
    assert cells == {"UDP": ["80.2", "20.2"], "TCP new": ["70.2", ""]}
    best = {row[0]: row[2] for row in made["queue", "The answer"].rows}
    assert best == {"FIFO of an operator": "UDP", "RED of an operator": "UDP"}
    # Nor is RED compared with FIFO over transports of which it lacks one.
    assert [row[0] for row in made["queue", OPERATOR].rows] == ["FIFO"]


def test_tables_hold_every_line_and_its_difference() -> None:
    cells = {"udp": 50.0, "tcp-kept": 70.0, "tcp-kept-ecn": 90.0}
    made = named(runs({"fifo": {"udp": 60.0, "tcp-kept": 40.0}, "red-ecn": cells}, page_p50_s=3.0))
    (ecn,) = made["transport", "ECN and L4S on DNS"].rows
    assert (ecn[0], ecn[1]) == ("TCP kept + ECN", "+20.0")
    under_load = made["transport", OPERATOR]
    assert list(under_load.columns) == ["transport", "FIFO", "RED with ECN"]
    assert [row[0] for row in under_load.rows] == ["UDP", "TCP kept", "TCP kept + ECN"]
    assert under_load.rows[2][1] == "" and under_load.rows[2][2].endswith("; 3.00")
    queues = {row[0]: row for row in made["queue", OPERATOR].rows}
    # Marked transports do not count, because they did not run behind FIFO.
    assert queues["FIFO"][1].startswith("50.2") and queues["RED with ECN"][2] == "+10.0"
    assert queues["RED with ECN"][3] == "50.2 (UDP, CUBIC)"
    answer = {row[0]: row for row in made["queue", "The answer"].rows}
    assert answer["RED with ECN of an operator"][2:4] == ["TCP kept + ECN", "+40.0"]
    assert answer["FIFO of an operator"][2:4] == ["UDP", ""]
    for each in made.values():
        assert all(len(row) == len(each.columns) for row in each.rows)


def test_pages_that_load_faster_are_better() -> None:
    table = runs({"fifo": {"udp": 50.0, "tcp-kept": 70.0, "tls-new": 60.0}}).with_columns(
        page_p50_s=pl.col("transport").replace_strict(
            {"udp": 3.0, "tcp-kept": 2.0, "tls-new": 4.0}, return_dtype=pl.Float64
        )
    )
    (row,) = named(table)["queue", "The answer"].rows
    assert row[4:] == ["3.00", "TCP kept", "+1.00"]


def test_costs_are_those_without_load() -> None:
    cells = {"udp": 50.0, "tcp-kept": 70.0}
    loaded = runs({"fifo": cells})
    assert ("transport", "What an answer costs") not in named(loaded)
    quiet = loaded.with_columns(load=pl.lit("none"), packets_per_answer=pl.lit(3.0))
    shown = named(pl.concat([loaded, quiet]))["transport", "What an answer costs"]
    assert [row[1:4] for row in shown.rows] == [("20.0", "3.0", "1.0")] * 2


def test_one_seed_gives_no_interval() -> None:
    table = runs({"fifo": {"udp": 50.0, "tcp-kept": 90.0}}).filter(seed=1)
    assert any("only one seed" in note for note in notes(table))
    (row,) = named(table)["queue", "The answer"].rows
    assert row[1:4] == ["50.1", "TCP kept", "+40.0"]


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
    table = runs({"fifo": {"udp": 99.76, "tcp-new": 61.09}}, page_p50_s=2.0)
    shown = {each.name: each.figure.axes[0].texts for each in plots(table)}
    assert [text.get_text() for text in shown["within-1s-operator-cubic"]] == ["100.0", "61.3"]
    assert [text.get_text() for text in shown["pages-operator"]] == ["2.00", "2.00"]


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


def test_a_table_has_no_empty_column() -> None:
    shares = {"udp": 90.0, "tcp-kept": 95.0}
    table = runs({"fifo": shares, "red": shares})
    assert "time in the queue, ms" in named(table)["queue", OPERATOR].columns
    made = named(table.with_columns(sojourn_ms=pl.lit(None, pl.Float64)))["queue", OPERATOR]
    assert "time in the queue, ms" not in made.columns
    for place in range(1, len(made.columns)):
        assert any(row[place] for row in made.rows), made.columns[place]


def named(table: pl.DataFrame) -> dict[tuple[str, str], Table]:
    """The tables by the head of their first column and their heading."""
    return {(each.columns[0], each.heading): each for each in tables(table)}

"""Dana, Malekloo 2010: the test bed, its claims, and the model of the router's processor."""

import threading
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from narrows import Scenario, run
from narrows.backends import get
from narrows.reproduce import Measured, reproduce, select
from narrows.reproduce.claims import Claim
from narrows.reproduce.dana_2010 import PAPER
from narrows.reproduce.dana_2010.measure import measure
from narrows.reproduce.runner import run_one
from narrows.results.router_cpu import Costs, router_cpu

FOLDER = PAPER.folder / "scenarios"


def claim(id: str, *words: str) -> Claim:
    """The one claim whose metric has all the words."""
    (found,) = (
        claim for claim in PAPER.claims if claim.id == id and all(w in claim.metric for w in words)
    )
    return found


def test_every_id_of_the_paper_is_there() -> None:
    ids = [claim.id for claim in PAPER.claims]
    assert list(dict.fromkeys(ids)) == [f"D{number}" for number in range(1, 9)]
    keys = [claim.key for claim in PAPER.claims]
    assert len(keys) == len(set(keys))
    names = {cell.name for cell in PAPER.cells}
    assert all(set(claim.cells) <= names for claim in PAPER.claims)


def test_the_scenario_has_the_papers_numbers() -> None:
    plan = Scenario.load(FOLDER / "ds1.toml", set=PAPER.cell("ecn").set).plan(1)
    (link,) = (link for link in plan["links"] if link["name"] == "ds1.forward")
    assert link["rate"] == 1_544_000
    red = link["queue"]["red-1993"]
    assert (red["limit"], red["min"], red["max"]) == (100, 25.0, 75.0)
    assert red["weight"] == 2**-9
    assert red["max_p"] == 0.1
    assert red["ecn"]
    assert plan["end"] == 600 * 10**12
    assert {link["rate"] for link in plan["links"]} == {1_544_000, 10_000_000}


def test_every_cell_under_every_choice_is_a_scenario_of_its_own() -> None:
    for cell in PAPER.cells:
        base = str(Scenario.load(FOLDER / cell.scenario, set=cell.set).plan(1))
        for choice in PAPER.choices:
            if choice.runs_again and choice.touches(cell.name):
                settings = {**cell.set, **choice.settings(cell)}
                other = str(Scenario.load(FOLDER / cell.scenario, set=settings).plan(1))
                assert other != base, (cell.name, choice.name)


def test_a_kernel_can_run_every_cell() -> None:
    linux = get("kernel-virtual")
    for cell in PAPER.cells:
        given = {**cell.set, **PAPER.on_kernel(cell)}
        assert not linux.refusals(Scenario.load(FOLDER / cell.scenario, set=given)), cell.name
        # Only TCP and RED differ.
        assert linux.refusals(Scenario.load(FOLDER / cell.scenario, set=cell.set)), cell.name


def test_red_has_the_same_thresholds_on_linux() -> None:
    """Bytes, in packets of 1500; tc(8) makes a weight of 2^-9 from `burst` (tc_red_eval_ewma)."""
    for cell in ("red", "ecn", "red-small"):
        given = {**PAPER.cell(cell).set, **PAPER.on_kernel(PAPER.cell(cell))}
        plan = Scenario.load(FOLDER / "ds1.toml", set=given).plan(1)
        (link,) = (link for link in plan["links"] if link["name"] == "ds1.forward")
        red = link["queue"]["red"]
        assert red["limit"] == 1500 * (50 if cell == "red-small" else 100)
        assert (red["min"], red["max"]) == (25 * 1500, 75 * 1500)
        assert red["probability"] == 0.1
        burst = red["burst"]
        needed = burst + 1 - red["min"] / red["avpkt"]
        fits = [log for log in range(1, 32) if needed <= (1 - (1 - 2**-log) ** burst) * 2**log]
        assert fits[0] == 9
        assert (red["ecn"], red["harddrop"]) == (cell == "ecn", cell == "ecn")


def test_what_a_kernel_does_not_tell_follows_from_its_samples() -> None:
    """The simulator knows delays and RED's average. If they are hidden, samples give them again."""
    cell = PAPER.cell("red")
    short = {"duration": "200 s", "traffic.ftp.start": "100 s"}
    path = FOLDER / cell.scenario
    result = run(Scenario.load(path, set={**cell.set, **PAPER.on_kernel(cell), **short}))
    hidden = result.queues.with_columns(
        pl.lit(None, pl.Float64).alias(name)
        for name in ("sojourn_mean_ms", "sojourn_max_ms", "average_packets", "average_bytes")
    )
    of_a_kernel = replace(result, backend="kernel", tables={**result.tables, "queues": hidden})
    measured = measure(of_a_kernel)
    known = measure(result)
    assert measured["average_s"] == pytest.approx(known["average_s"], abs=1.0)
    assert measured["average_s"] > 105
    # A sample shows what is in front of a packet; the packet itself takes 7.8 ms.
    assert measured["delay"] == pytest.approx(known["delay"], abs=16.0)
    assert measured["delay"] > 150
    for metric in ("drops", "buffer", "utilisation", "first_drop_s"):
        assert measured[metric] == known[metric]
    assert np.isnan(measured["cpu_late"])


def test_the_rate_and_the_threshold_are_those_of_the_run() -> None:
    """Half the rate, and 30 packets instead of 25."""
    cell = PAPER.cell("red")
    other = {"links.ds1.rate": "772 kbit/s", "links.ds1.forward.queue.min": "45000 B"}
    given = {**cell.set, **PAPER.on_kernel(cell), **other, "duration": "200 s"}
    result = run(Scenario.load(FOLDER / cell.scenario, set=given))
    passed = result.queues.filter(pl.col("average_bytes") > 30 * 1500)["t_s"].min()
    known = measure(result)
    assert known["average_s"] == passed
    hidden = result.queues.with_columns(pl.lit(None, pl.Float64).alias("sojourn_mean_ms"))
    measured = measure(replace(result, tables={**result.tables, "queues": hidden}))
    # Two packets of 1500 bytes take 31 ms.
    assert measured["delay"] == pytest.approx(known["delay"], abs=31.0)
    assert measured["delay"] > 300


def test_orders_are_differences() -> None:
    more = claim("D4", "total drops", "Drop Tail less RED")
    assert more.measure({"tail": Measured({"drops": 9.0}), "red": Measured({"drops": 4.0})}) == 5.0
    close = claim("D2", "last two minutes")
    runs = {"red": Measured({"delay_late": 200.0}), "ecn": Measured({"delay_late": 190.0})}
    assert close.measure(runs) == pytest.approx(5.0)


def test_first_drops_come_nearer() -> None:
    nearer = claim("D7", "first drops", "buffer of 50")
    moments = {"tail": 156.0, "red": 116.0, "tail-small": 125.0, "red-small": 115.0}
    runs = {cell: Measured({"first_drop_s": at}) for cell, at in moments.items()}
    assert nearer.measure(runs) == 30.0
    del runs["tail-small"], runs["red-small"]
    assert np.isnan(nearer.measure(runs))


def test_the_buffer_predicts_what_has_its_order() -> None:
    predicts = claim("D8", "how many have the buffer's order")
    names = ("buffer", "delay", "variation", "drops", "utilisation")
    runs = {
        "tail": Measured(dict(zip(names, (90.0, 700.0, 9.0, 600.0, 99.0), strict=True))),
        "red": Measured(dict(zip(names, (37.0, 300.0, 3.0, 3000.0, 97.0), strict=True))),
        "ecn": Measured(dict(zip(names, (49.0, 390.0, 4.0, 1.0, 98.0), strict=True))),
    }
    assert predicts.measure(runs) == 3.0


SMALL = """
name = "small"
duration = "4 s"
[[links]]
name = "ds1"
between = ["A", "B"]
rate = "1.544 Mbit/s"
[links.forward]
queue = { kind = "pfifo", limit = 10 }
[[traffic]]
kind = "bulk"
name = "ftp"
sender = "A"
receiver = "B"
[monitor]
queues = { links = ["ds1.forward"], rate = 10 }
links = { links = ["ds1.forward", "ds1.backward"], rate = 10 }
"""


def test_the_processor_is_what_is_counted_times_its_cost() -> None:
    result = run(Scenario.parse(SMALL))
    queue = result.queues.filter(link="ds1.forward").tail(1)
    back = result.links.filter(link="ds1.backward").tail(1)
    drops = queue["dropped_overflow"][0]
    assert drops > 0
    arrived, sent, acks = queue["arrived_packets"][0], queue["sent_packets"][0], back["packets"][0]
    costs = Costs()
    spent_us = (
        costs.receive_us * (arrived + acks)
        + costs.enqueue_us * (arrived - drops + acks)
        + costs.send_us * (sent + acks)
        + costs.drop_us * drops
    )
    ends, load = router_cpu(result, "ds1.forward", "ds1.backward", costs)
    assert ends.tolist() == [1.0, 2.0, 3.0, 4.0]
    assert load.sum() == pytest.approx(100 * spent_us * 1e-6)
    dearer = router_cpu(result, "ds1.forward", "ds1.backward", costs.scaled(drop=3.0))[1]
    assert (dearer - load).sum() == pytest.approx(100 * 2 * costs.drop_us * drops * 1e-6)


def test_only_red_pays_for_its_average() -> None:
    red = '{ kind = "red-1993", limit = 10, min = 3.0, max = 9.0 }'
    costs = Costs(receive_us=0, enqueue_us=0, send_us=0, drop_us=0, mark_us=0)
    for settings, pays in (({}, False), ({"links.ds1.forward.queue": red}, True)):
        result = run(Scenario.parse(SMALL, set=settings))
        _, load = router_cpu(result, "ds1.forward", "ds1.backward", costs)
        assert bool(load.sum() > 0) is pays


def test_a_router_that_was_not_watched_is_named() -> None:
    result = run(Scenario.parse(SMALL))
    with pytest.raises(ValueError, match=r"lan\.forward was not monitored"):
        router_cpu(result, "lan.forward", "ds1.backward")


def test_the_paper_end_to_end() -> None:
    ((paper, claims),) = select(["D1"])
    outcome = reproduce(paper, claims=claims, seeds=2, execute=run_one)
    assert outcome.complete
    full = outcome.interval("tail", "full_s")
    assert full is not None
    assert 120.0 < full.mean < 190.0
    assert {table.title for table in paper.tables(outcome)} == {"Figures 3 to 8 in numbers"}
    shown = paper.plots(outcome)
    assert [each.name for each in shown] == [f"figure-{n}" for n in range(3, 9)]
    titles = [each.figure.axes[0].get_title(loc="left") for each in shown]
    assert [title.partition(":")[0] for title in titles] == [f"Figure {n}" for n in range(3, 9)]
    assert "narrows/reproduce/dana_2010/README.md" in paper.tables(outcome)[0].note


def test_a_run_of_a_cell_is_measured() -> None:
    cell = PAPER.cell("red")
    found = run_one(PAPER, cell, {**cell.set, "duration": "300 s"}, 1, threading.Event())
    assert found["first_drop_s"] >= found["average_s"]
    assert found["cpu_after_drop10"] > found["cpu_after"] > found["cpu_after_drop0"]
    times, values = found.curves["utilisation"]
    assert times[-1] == 300.0
    # Nothing is sent before the load begins; then the link is always busy.
    assert max(values[:100]) == 0.0
    assert min(values[150:]) > 99.0

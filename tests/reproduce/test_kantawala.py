"""Kantawala, Turner 2002: the experiments as printed, and how their claims are judged."""

import json
import re
import statistics

import pytest

from narrows import Scenario, run
from narrows.reproduce import Measured, Verdict, judge
from narrows.reproduce.cells import Choice
from narrows.reproduce.claims import Claim
from narrows.reproduce.kantawala_2002 import PAPER
from narrows.reproduce.kantawala_2002.cells import CELLS, TOPOLOGIES
from narrows.reproduce.kantawala_2002.choices import VERSIONS
from narrows.reproduce.kantawala_2002.queues import FAMILY, QUEUES, SHARED
from narrows.reproduce.kantawala_2002.scaling import BIG, LARGE, POINTS
from narrows.reproduce.kantawala_2002.versions import LONG_PATHS, versions
from narrows.reproduce.measurements import BASE, Measurements
from narrows.reproduce.statistics import t_interval

from ..plans import connections, hops, settings

FOLDER = PAPER.folder / "scenarios"


def claim(id: str, *words: str) -> Claim:
    """The one claim whose metric has all the words."""
    (found,) = (
        claim for claim in PAPER.claims if claim.id == id and all(w in claim.metric for w in words)
    )
    return found


def metrics(cells: tuple[str, ...], **by_queue: float) -> dict[str, Measured]:
    """Runs in which each metric has the value of the cell's queue."""
    names = ("goodput.all", "completion.all", "ratio", "ratio_completion", "far_share", "jain.all")
    return {
        cell: Measured(dict.fromkeys((*names, "deviation.all"), by_queue[cell.split("-")[1]]))
        for cell in cells
    }


def test_every_id_of_the_paper_is_there() -> None:
    assert list(dict.fromkeys(claim.id for claim in PAPER.claims)) == [
        f"K{number}" for number in range(1, 14)
    ]


def test_ids_and_metrics_are_unique_and_cells_exist() -> None:
    keys = [claim.key for claim in PAPER.claims]
    assert len(keys) == len(set(keys))
    names = [cell.name for cell in PAPER.cells]
    assert len(names) == len(set(names))
    for claim in PAPER.claims:
        assert set(claim.cells) <= set(names)
    for choice in PAPER.choices:
        assert choice.cells is None or (choice.cells and choice.cells <= set(names)), choice.name


def test_the_scenarios_have_the_papers_numbers() -> None:
    single = Scenario.load(FOLDER / "single-bottleneck.toml").plan()
    assert len(connections(single)) == 500
    assert single["end"] == 100 * 10**12
    for sources in settings(single):
        assert sources["burst"]["constant"] == 256 * 1460
        assert sources["idle"]["exponential"]["mean"] == 2 * 10**12
    (bottleneck,) = (link for link in single["links"] if link["name"] == "bottleneck.forward")
    assert bottleneck["rate"] == 500_000_000
    trips = Scenario.load(FOLDER / "two-round-trips.toml").plan()
    delays = {link["name"]: link["delay"] for link in trips["links"]}
    for group, one_way_ms in (("near", 20), ("far", 100)):
        sources = connections(trips, group)
        assert len(sources) == 500
        names = [link["name"] for link in hops(trips, sources[7]["there"])]
        assert sum(delays[name] for name in names) == one_way_ms * 10**9
    three = Scenario.load(FOLDER / "three-hops.toml").plan()
    for group, bottlenecks in (("end", 3), ("cross1", 1), ("cross2", 1), ("cross3", 1)):
        sources = connections(three, group)
        assert len(sources) == 500
        names = [link["name"] for link in hops(three, sources[7]["there"])]
        assert sum(name.startswith("bottleneck") for name in names) == bottlenecks


NS_2 = {
    # By the dates in ns-default.tcl of ns-2.26.
    "ns-2 of August 2001": (6.0, 1.0, 1000.0, 0.1, False),
    "ns-2 of 2002": (6.0, 1.0, 1000.0, 0.01, True),
}
"""rtxcur_init_, minrto_, maxrto_, tcpTick_ and singledup_; no run reaches ns-2's maxrto_."""


@pytest.mark.parametrize("version", VERSIONS, ids=lambda row: row.name)
def test_a_version_has_the_tcp_of_its_ns_2(version: Choice) -> None:
    keys = ("initial_rto", "min_rto", "max_rto", "timer_granularity")
    for topology in TOPOLOGIES:
        cell = PAPER.cell(f"{topology}-drr-1000")
        settings = {**cell.set, **SMALLER[topology], **version.settings(cell)}
        (tcp,) = Scenario.load(FOLDER / cell.scenario, set=settings).plan()["tcp"]
        seconds = tuple(tcp[key] / 1e12 for key in keys)
        assert (*seconds, tcp["limited_transmit"]) == NS_2[version.name]
        assert (tcp["recovery"], tcp["congestion"]) == ("reno", "reno")


def test_the_versions_of_ns_2_stand_side_by_side() -> None:
    """TDRR's goodput is 1.1 of the others' under one version, and the same as theirs elsewhere."""
    outcome = Measurements(seeds=(1, 2, 3), choices=VERSIONS)
    gain = claim("K1", "mean goodput", "gain of TDRR")
    for name in (BASE, *(row.name for row in VERSIONS)):
        for cell in gain.cells:
            best = name == "ns-2 of 2002" and "-tdrr-" in cell
            outcome.measured[name, cell] = {
                seed: Measured({"goodput.all": 1.1 if best else 1.0}) for seed in outcome.seeds
            }
    table = versions(outcome, [gain])
    assert table is not None
    assert list(table.columns) == ["id", "claim", "base", *(row.name for row in VERSIONS)]
    ((id, _, *cells),) = table.rows
    assert id == "K1"
    fails, holds = "fails: 0.00 ± 0.00", "holds: 10.00 ± 0.00"
    assert cells == [fails, fails, holds]
    assert "ns-2 of August 2001: fails 1; ns-2 of 2002: holds 1." in table.note
    assert "All three agree on the verdict of 0; 1 hold " in table.note
    assert versions(Measurements(seeds=(1,)), [gain]) is None


def test_tahoe_is_run_with_every_buffer_or_says_so() -> None:
    for one in (one for one in PAPER.claims if one.id == "K8"):
        reno = {cell for cell in one.cells if not cell.endswith("-tahoe")}
        assert {f"{cell}-tahoe" for cell in reno} == set(one.cells) - reno
        network, which, _ = min(reno).split("-")
        every = {f"{network}-{which}-{limit}" for limit in TOPOLOGIES[network].limits}
        assert (reno == every) == (not one.note)
        assert one.note or network != "hops"


def test_the_summary_has_the_numbers_of_the_tables() -> None:
    found = json.loads((PAPER.folder / "result.json").read_text(encoding="utf-8"))
    tables = {table["title"]: table for table in found["tables"]}

    def mean(title: str, queue: str) -> str:
        table = tables[title]
        column = table["columns"].index(queue)
        values = [float(row[column].partition(" ")[0]) for row in table["rows"]]
        return f"{statistics.fmean(values):.2f}"

    trips = "Figure 6(a): goodput ratio 200 ms / 40 ms"
    hops = "Figure 7(a): goodput ratio end-to-end / cross"
    paths = {
        (row[0], row[1]): [cell.partition(" ")[0] for cell in row[3:]]
        for row in tables[LONG_PATHS]["rows"]
    }
    two, three = "two round-trip times", "three bottlenecks"
    assert paths[two, "TDRR"] == ["0.88", "0.88"]
    assert paths[three, "TDRR"] == ["0.78", "0.78"]
    numbers = [
        *(mean(title, "TDRR") for title in (trips, hops)),
        *(mean(title, "Blue") for title in (trips, hops)),
        paths[two, "TDRR"][0],
        paths[three, "TDRR"][0],
        *paths[two, "Tail Drop"],
        *paths[two, "QSDRR"],
    ]
    assert re.findall(r"0\.\d\d", " ".join(PAPER.summary)) == numbers


def test_small_buffers_are_5_to_10_percent_of_the_product_in_each_network() -> None:
    """Of 500 Mbit/s times the mean round trip: 100 ms, 40 and 200 ms, 100 and 260 ms."""
    product = {"single": 100e-3, "rtt": 120e-3, "hops": 180e-3}
    near = [one for one in PAPER.claims if one.id == "K6" and "Jain" in one.metric]
    assert len(near) == 6
    for one in near:
        for cell in one.cells:
            network, _, limit = cell.split("-")
            share = int(limit) / (500e6 * product[network] / 12_000)
            assert 0.0479 <= share <= 0.1


SMALLER = {
    "single": {f"links[{n}].count": "1" for n in (1, 2)} | {"traffic[0].count": "1"},
    "rtt": {f"links[{n}].count": "1" for n in range(1, 5)}
    | {f"traffic[{n}].count": "1" for n in range(2)},
    "hops": {f"links[{n}].count": "1" for n in range(3, 11)}
    | {f"traffic[{n}].count": "1" for n in range(4)},
}
"""Settings that leave one source in each group, so that a scenario is read quickly."""


def test_every_queue_under_every_choice_is_a_scenario_of_its_own() -> None:
    for topology in TOPOLOGIES:
        for which in QUEUES:
            cell = PAPER.cell(f"{topology}-{which}-1000")
            smaller = {**cell.set, **SMALLER[topology]}
            settings = [smaller] + [
                {**smaller, **choice.settings(cell)}
                for choice in PAPER.choices
                if choice.runs_again and choice.touches(cell.name)
            ]
            resolved = [
                str(Scenario.load(FOLDER / cell.scenario, set=setting).resolved())
                for setting in settings
            ]
            assert len(set(resolved)) == len(resolved), cell.name


def test_scaled_cells_have_their_window_and_their_buffer() -> None:
    for point in POINTS[::7]:
        cell = PAPER.cell(point.cell("qsdrr"))
        plan = Scenario.load(FOLDER / cell.scenario, set=cell.set).plan(1)
        assert len(connections(plan)) == point.sources
        links = plan["links"]
        first = connections(plan)[0]
        round_trip = sum(
            link["delay"]
            for direction in ("there", "back")
            for link in hops(plan, first[direction])
        )
        bottleneck = links[0]
        assert round_trip * 1e-12 == pytest.approx(point.rtt_s, rel=1e-5)
        window = bottleneck["rate"] * point.rtt_s / point.sources / 12_000
        # Sources are whole: 12 of 12.5 make a window of 104 packets.
        assert window == pytest.approx(point.window, rel=0.05)
        (queue,) = bottleneck["queue"].values()
        assert queue["limit"] == pytest.approx(point.product_packets, abs=1)


def test_the_open_question_has_20000_sources_over_10_gbit() -> None:
    (large,) = (big for big in BIG if big.sources == LARGE and big.share == 0.1)
    cell = PAPER.cell(large.cell("droptail"))
    plan = Scenario.load(FOLDER / cell.scenario, set=cell.set).plan(1)
    assert len(connections(plan)) == 20_000
    assert plan["links"][0]["rate"] == 10_000_000_000
    # A tenth of 10 Gbit/s times 100 ms, in packets of 1500 bytes.
    assert plan["links"][0]["queue"] == {"pfifo": {"limit": 8333}}
    assert cell.own_process


def test_gains_are_of_the_mean_of_the_others() -> None:
    gain = claim("K1", "mean goodput", "QSDRR at 5000")
    runs = metrics(gain.cells, droptail=1.0, red=0.9, blue=1.1, qsdrr=1.3)
    assert gain.measure(runs) == pytest.approx(30.0)
    assert judge(gain, t_interval([30.0, 30.1, 29.9])).verdict is Verdict.HOLDS
    # A shorter completion time is a gain.
    gain = claim("K1", "completion", "QSDRR at 5000")
    runs = metrics(gain.cells, droptail=1.3, red=1.2, blue=1.4, qsdrr=1.0)
    assert gain.measure(runs) == pytest.approx(30.0)


def test_the_worst_buffer_decides_where_the_paper_says_every() -> None:
    better = claim("K1", "mean goodput", "worst of the DRR family")
    values = dict.fromkeys(SHARED, 1.0) | dict.fromkeys(FAMILY, 1.2)
    runs = metrics(better.cells, **values)
    assert better.measure(runs) == pytest.approx(20.0)
    runs["single-drr-400"] = Measured({"goodput.all": 0.9})
    assert better.measure(runs) == pytest.approx(-10.0)
    alike = claim("K1", "mean goodput", "spread")
    runs = metrics(alike.cells, droptail=1.0, red=1.0, blue=1.0)
    runs["single-blue-100"] = Measured({"goodput.all": 0.7})
    assert alike.measure(runs) == pytest.approx(100 * 0.3 / 0.9)


def test_buffers_that_were_not_run_do_not_count() -> None:
    better = claim("K1", "mean goodput", "worst of the DRR family")
    cells = tuple(cell for cell in better.cells if cell.endswith(("-200", "-1000")))
    values = dict.fromkeys(SHARED, 1.0) | dict.fromkeys(FAMILY, 1.2)
    assert better.measure(metrics(cells, **values)) == pytest.approx(20.0)


def test_a_line_of_figure_8_is_flat_or_not() -> None:
    flat = claim("K7", "Tail Drop", "number of sources")
    runs = {cell: Measured({"fair_share": 90.0}) for cell in flat.cells}
    assert flat.measure(runs) == 0.0
    changed = next(cell for cell in flat.cells if "-w50-" in cell)
    runs[changed] = Measured({"fair_share": 45.0})
    line = [runs[cell]["fair_share"] for cell in flat.cells if "-w50-" in cell]
    assert flat.measure(runs) == pytest.approx(100 * 45.0 / statistics.fmean(line))


def test_the_wide_ranges_hold_the_figures_points() -> None:
    narrow, wide = claim("K7", "QSDRR", "round-trip"), claim("K12", "QSDRR", "round-trip")
    assert set(narrow.cells) < set(wide.cells)


def test_the_large_network_carries_over() -> None:
    change = claim("K9", "Tail Drop", "of the bandwidth-delay", "goodput")
    assert len(change.cells) == 6
    small, large = "big-droptail-1000-1", "big-droptail-20000-1"
    runs = {small: Measured({"goodput.all": 0.50}), large: Measured({"goodput.all": 0.48})}
    assert change.measure(runs) == pytest.approx(4.0)


@pytest.mark.slow
def test_a_small_network_end_to_end() -> None:
    """Twenty sources for five seconds: the metrics are what the tables say."""
    cell = PAPER.cell("single-qsdrr-100")
    smaller = {
        "links[0].rate": "20 Mbit/s",
        "links[1].count": "20",
        "links[2].count": "20",
        "traffic[0].count": "20",
        "duration": "5 s",
    }
    result = run(Scenario.load(FOLDER / cell.scenario, set={**cell.set, **smaller}), seed=3)
    found = PAPER.measure(result)
    received = result.flows["bytes_received"].sum() * 8e-6 / 5.0
    assert found["goodput.all"] == pytest.approx(received / 20)
    assert found["fair_share"] == pytest.approx(100 * received / 20.0)
    assert 50.0 < found["fair_share"] < 100.0
    done = result.bursts.drop_nulls("end_s")
    assert found["completion.all"] == pytest.approx((done["end_s"] - done["start_s"]).mean())
    assert found["bursts.all"] == done.height
    again = result.bursts["segments_retransmitted"] > 0
    assert found["bursts_hit"] == pytest.approx(100 * again.sum() / result.bursts.height)
    assert 0.0 < found["bursts_hit"] < 100.0


def test_groups_are_measured_apart() -> None:
    cell = next(cell for cell in CELLS if cell.name == "hops-droptail-100")
    smaller = {f"links[{n}].count": "4" for n in range(3, 11)}
    smaller |= {f"traffic[{n}].count": "4" for n in range(4)}
    smaller |= {f"links.bottleneck{n}.rate": "5 Mbit/s" for n in (1, 2, 3)} | {"duration": "8 s"}
    result = run(Scenario.load(FOLDER / cell.scenario, set={**cell.set, **smaller}), seed=1)
    found = PAPER.measure(result)
    cross = result.flows.filter(result.flows["group"].str.starts_with("cross"))
    assert cross.height == 12
    assert found["goodput.cross"] == pytest.approx(cross["bytes_received"].mean() * 8e-6 / 8.0)
    assert found["ratio"] == pytest.approx(found["goodput.end"] / found["goodput.cross"])

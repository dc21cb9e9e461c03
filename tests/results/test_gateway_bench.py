"""The gateway bench's folder and metrics."""

from __future__ import annotations

import errno
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from synthetic_bench import interval

from narrows import Run
from narrows.results import RunFolderError
from narrows.results.gateway_bench import BENCH_TABLES, GatewayBench
from narrows.results.schema import frame


def bench(*intervals: dict[str, Any], **tables: list[dict[str, Any]]) -> GatewayBench:
    rows = {"intervals": list(intervals), **tables}
    return GatewayBench(
        settings={"name": "bench-gateway"},
        seed=1,
        status="complete",
        stopped="end",
        end_s=60.0,
        tables={
            name: frame(
                table,
                {c.name: [row[c.name] for row in rows.get(name, [])] for c in table.columns},
            )
            for name, table in BENCH_TABLES.items()
        },
        narrows="0.1.0",
    )


def test_a_folder_is_read_as_it_was_written(tmp_path: Path) -> None:
    made = bench(interval("bind", "udp", 500.0, 1))
    made.save(tmp_path / "one")
    read = GatewayBench.load(tmp_path / "one")
    assert read.summary == made.summary
    assert read.settings == made.settings
    for name, table in made.tables.items():
        assert read.tables[name].equals(table)


def test_a_folder_of_the_other_kind_is_refused(tmp_path: Path) -> None:
    bench(interval("bind", "udp", 500.0, 1)).save(tmp_path / "one")
    with pytest.raises(RunFolderError, match=r"holds a bench, .*hint: narrows reproduce S --bench"):
        Run.load(tmp_path / "one")


def test_a_longer_part_of_a_bench_takes_the_place_of_a_shorter_one(tmp_path: Path) -> None:
    folder = tmp_path / "one"
    rows = [interval("bind", "udp", 500.0, number) for number in (1, 2)]
    bench(rows[0]).save(folder)
    (folder / "notes").write_text("mine")
    longer = bench(*rows).save(folder, renew=True)
    assert GatewayBench.load(folder).intervals.equals(longer.intervals)
    assert (folder / "notes").read_text() == "mine"
    with pytest.raises(RunFolderError, match="already holds a run"):
        longer.save(folder)


@pytest.mark.parametrize("moved", range(len(BENCH_TABLES) + 1))
def test_tables_of_two_ages_are_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moved: int
) -> None:
    folder = tmp_path / "one"
    rows = [interval("bind", "udp", 500.0, number) for number in (1, 2)]
    bench(rows[0]).save(folder)
    replace_file, count = Path.replace, 0

    def fail(self: Path, target: Path) -> Path:
        nonlocal count
        count += 1
        if count > moved:
            raise OSError(errno.EIO, "Input/output error")
        return replace_file(self, target)

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(RunFolderError, match="input/output error"):
        bench(*rows).save(folder, renew=True)
    with pytest.raises(RunFolderError, match=r"holds no run \(run\.json is missing\)"):
        GatewayBench.load(folder)


def test_tables_of_another_shape_are_refused() -> None:
    made = bench(interval("bind", "udp", 500.0, 1))
    wrong = {**made.tables, "checks": pl.DataFrame({"id": ["S1"]})}
    with pytest.raises(ValueError, match="table checks"):
        replace(made, tables=wrong)


def test_processor_time_is_for_ten_seconds_of_the_rate() -> None:
    # Half of the queries came in half of the time, so the time per query is the same.
    short = interval("bind", "udp", 500.0, 2, answered=2500, kernel_s=0.025, server_s=0.025)
    found = bench(interval("bind", "udp", 500.0, 1), short)
    assert found.cpu_s("bind", "udp", 500.0) == pytest.approx([0.1, 0.1])
    assert found.cpu_s("bind", "udp", 500.0, "kernel") == pytest.approx([0.05, 0.05])


def test_medians_over_rounds_are_compared_with_udp() -> None:
    rows = [interval("bind", "udp", 500.0, number) for number in (1, 2, 3)]
    rows += [
        interval("bind", "tcp", 500.0, number, server_s=server_s)
        for number, server_s in ((1, 0.15), (2, 0.10), (3, 9.0))
    ]
    metrics = bench(*rows).summary["bind"]
    assert metrics["tcp"]["us_per_query_500qps"] == 40.0
    assert metrics["tcp"]["over_udp_500qps"] == 1.0
    assert "over_udp_500qps" not in metrics["udp"]


def test_arms_are_compared_within_a_round() -> None:
    # The machine is slower by half in round 2, and UDP alone was lucky in round 3.
    slowness = {1: 1.0, 2: 1.5, 3: 1.0}
    rows = [
        interval("nsd", transport, 500.0, number, kernel_s=slow * kernel_s, server_s=0.0)
        for number, slow in slowness.items()
        for transport, kernel_s in (("udp", 0.1), ("gateway", 0.2), ("tcp", 0.4))
        if (transport, number) != ("tcp", 3)
    ]
    rows[-2]["kernel_s"] = 0.05
    made = bench(*rows)
    assert made.ratios("nsd", "gateway", "udp", 500.0) == pytest.approx([2.0, 2.0, 4.0])
    # Round 3 has no TCP to compare with.
    assert made.ratios("nsd", "gateway", "tcp", 500.0) == pytest.approx([0.5, 0.5])
    metrics = made.summary["nsd"]
    assert metrics["gateway"]["over_udp_500qps"] == 1.0
    assert metrics["gateway"]["of_tcp_500qps"] == 0.5
    assert "of_tcp_500qps" not in metrics["tcp"]


def test_knots_xdp_mode_is_compared_with_its_own_udp() -> None:
    metrics = bench(
        interval("knot", "udp", 500.0, 1, server_s=1.0),
        interval("knot", "xdp-udp", 500.0, 1),
        interval("knot", "xdp-tcp", 500.0, 1, server_s=0.1),
    ).summary["knot"]
    assert metrics["xdp-tcp"]["over_udp_500qps"] == 0.5


def test_the_most_that_was_answered_a_second_says_whose_limit_it_is() -> None:
    busy = interval("nsd", "tcp", 20_000.0, 1, answered_in_time=80_000, server_s=9.8)
    idle = interval("nsd", "gateway", 20_000.0, 1, answered_in_time=150_000, server_s=3.0)
    slow = interval("nsd", "tcp", 500.0, 1)
    metrics = bench(busy, idle, slow).summary["nsd"]
    assert (metrics["tcp"]["most_per_s"], metrics["tcp"]["at_least"]) == (8000.0, False)
    assert (metrics["gateway"]["most_per_s"], metrics["gateway"]["at_least"]) == (15_000.0, True)


def test_an_interval_without_answers_counts_for_no_query() -> None:
    nothing = interval("nsd", "tcp", 500.0, 1, answered=0, answered_in_time=0)
    assert bench(nothing).us_per_query("nsd", "tcp", 500.0) == []
    assert bench(nothing).summary["nsd"]["tcp"] == {}

"""Plots of sampled connections: `monitor.flows`."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from two_groups import TWO_GROUPS

import narrows
from narrows.records import Series
from narrows.report import plots, style
from narrows.report.evaluate import Data, points_of
from narrows.report.run_report import run_plots


def flow_plots(text: str) -> dict[str, Any]:
    run = narrows.run(narrows.Scenario.parse(text, set={"monitor.flows": '["*"]'}))
    return {each.name: each for each in run_plots(run) if each.name.startswith("flow-")}


def goodput_of(run: narrows.Run, states: pl.DataFrame) -> tuple[Any, Any]:
    """The curve of the goodput of a run's only sampled connection."""
    (goodput,) = (each for each in plots.QUANTITIES if each.averaged)
    (series,) = plots.flow_states(run, goodput).series
    assert isinstance(series, Series)
    data = Data({**run.tables, "flow_states": states}, run.end_s)
    (curve,) = points_of(series, data).values()
    return curve


def test_each_sampled_connection_has_a_line_of_its_own() -> None:
    shown = flow_plots(TWO_GROUPS)
    assert set(shown) == {"flow-windows", "flow-round-trips", "flow-goodput", "flow-pacing"}
    for plot in shown.values():
        (axes,) = plot.figure.axes
        assert {line.get_label() for line in axes.get_lines()} >= {"web/0", "web/1", "download"}
        assert "by connection" in axes.get_title(loc="left")
        assert "has most" in plot.alt
    run = narrows.run(narrows.Scenario.parse(TWO_GROUPS, set={"monitor.flows": '["download"]'}))
    states = run.table("flow_states")
    (shown_alone,) = (each for each in run_plots(run) if each.name == "flow-windows")
    (line,) = (
        line for line in shown_alone.figure.axes[0].get_lines() if line.get_label() == "download"
    )
    assert np.allclose(line.get_xdata(), states["t_s"])
    assert np.allclose(line.get_ydata(), states["cwnd_bytes"] / 1000)


def test_many_sampled_connections_are_drawn_behind_their_groups_mean() -> None:
    changed = TWO_GROUPS.replace('name = "download"', 'name = "download"\nconnections = 8')
    for plot in flow_plots(changed).values():
        (axes,) = plot.figure.axes
        labels = [line.get_label() for line in axes.get_lines()]
        assert "download, mean of 8 connections" in labels
        assert labels.count(style.SEED) >= 8
        assert "by group" in axes.get_title(loc="left")
        assert "Thick lines are means" in plot.caption


def test_goodput_of_a_connection_is_averaged_over_round_trips() -> None:
    run = narrows.run(narrows.Scenario.parse(TWO_GROUPS, set={"monitor.flows": '["download"]'}))
    states = run.table("flow_states")
    times, values = goodput_of(run, states)
    apart = np.diff(times)
    assert apart.min() * 1000 >= 4 * states["srtt_ms"].max() - 1e-6
    # The first value is drawn twice, because steps reach back.
    carried = np.sum(values[1:] * apart) * 1e6 / 8
    received = states.filter(pl.col("t_s") <= times[-1] + 1e-9)["goodput_bit_per_s"].sum() / 80
    assert carried == pytest.approx(received)


def test_samples_at_the_same_time_are_drawn_as_they_are() -> None:
    """A folder may come from another program than narrows, which writes none."""
    run = narrows.run(narrows.Scenario.parse(TWO_GROUPS, set={"monitor.flows": '["download"]'}))
    states = run.table("flow_states").with_columns(t_s=pl.lit(1.0))
    times, values = goodput_of(run, states)
    assert len(times) == len(values) == states.height

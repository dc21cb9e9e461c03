"""The page of a sweep."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from browser import ask
from made_sweeps import LIMITS, RATES, made

from narrows.report import write_sweep_report
from narrows.report.sweep_report import sweep_plots
from narrows.results import Axis
from narrows.results.sweep_means import metric_named, points

pytestmark = pytest.mark.slow


def test_one_key_has_lines_and_two_have_heat_maps_too() -> None:
    names = {shown.name for shown in sweep_plots(made((LIMITS,)))}
    assert "queues.wan.forward.run.loss_percent-against-queue.limit" in names
    assert not any(name.endswith("heat") for name in names)
    sweep = made((LIMITS, RATES))
    shown = {each.name: each for each in sweep_plots(sweep)}
    heat = shown["queues.wan.forward.run.loss_percent-heat"].drawing.heat
    assert heat is not None
    assert list(heat.columns) == ["limit 100", "limit 1000", "limit 10"]
    assert list(heat.rows) == ["1 Mbit/s", "500 kbit/s", "2 Mbit/s"]
    of_points = {
        (point.settings["queue.limit"], point.settings["links.wan.rate"]): point.mean
        for point in points(sweep, metric_named(sweep, "loss_percent"))
    }
    assert [list(row) for row in heat.values] == [
        [of_points[limit, rate] for limit in LIMITS.values] for rate in RATES.values
    ]
    lines = shown["queues.wan.forward.run.loss_percent-against-queue.limit"].drawing
    assert [curve.label for curve in lines.curves] == list(RATES.values)
    # A third key has plots for each of its values.
    third = sweep_plots(made((LIMITS, RATES, Axis("dns.workers", (1, 2)))))
    titles = [each.drawing.title for each in third if each.drawing.heat is not None]
    assert len([title for title in titles if title.endswith(": workers 2")]) == len(titles) / 2


def test_a_sweep_has_a_page(tmp_path: Path) -> None:
    hostile = Axis("variant", ("<b>one</b>", "two"))
    sweep = made((LIMITS, hostile))
    page = write_sweep_report(sweep, tmp_path).read_text(encoding="utf-8")
    assert "<b>one" not in page
    question = """
    found.heat = [...document.querySelectorAll("table.heat")].map((each) => each.rows.length);
    found.plots = made.length;
    found.words = document.body.textContent.includes("<b>one</b>");
    const [plot] = made;
    found.dots = painted(plot, "#0072b2", ...ends(plot, "y"));
    """
    found = ask(page, question, tmp_path)
    assert found["wrong"] == []
    assert found["heat"] and set(found["heat"]) == {3}
    assert found["plots"] == len(found["heat"])
    assert found["words"]
    assert found["dots"] > 50
    rows = re.findall(r"<tr>(?:<td class=\"n\">[^<]*</td>)+</tr>", page)
    assert len(rows) == 6


def test_a_sweep_that_varies_nothing_has_its_table(tmp_path: Path) -> None:
    page = write_sweep_report(made(()), tmp_path).read_text(encoding="utf-8")
    assert "<script" not in page
    assert "<h2>Combinations</h2>" in page

"""The plots of a page's curves, in a browser."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from browser import ask
from matplotlib.figure import Figure
from synthetic_run import DNS_START_S, LINK, synthetic_run

from narrows import Scenario, run
from narrows.report import plots, style, write_comparison, write_run_report
from narrows.report.live import curves, script, style_sheet
from narrows.report.page import policy
from narrows.results import Run, compare


def alone(figure: Figure) -> str:
    """A page with nothing but a figure."""
    return (
        f'<!doctype html><html><head><meta http-equiv="Content-Security-Policy" '
        f'content="{policy()}"><style>{style_sheet()}</style></head><body>'
        f"<figure>{style.svg_inline(style.svg(figure), 'one', 'one')}"
        f'<script type="application/json" class="curves">{curves(figure)}</script></figure>'
        f"<script>{script()}</script></body></html>"
    )


@style.styled
def logarithmic() -> Figure:
    figure, axes = style.new_figure()
    axes.plot([1.0, 10.0, 100.0, 5000.0], [0.1, 1.0, 10.0, 100.0], label="line")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(1.0, 5000.0)
    axes.set_ylim(0.1, 100.0)
    style.name_axes(axes, "Log", "size (kB)", "time (s)")
    return figure


def document(figure: Figure) -> dict[str, Any]:
    drawn = curves(figure)
    assert drawn is not None
    found: dict[str, Any] = json.loads(drawn)
    return found


@pytest.mark.slow
def test_plots_zoom_tell_values_and_leave_groups_out(tmp_path: Path) -> None:
    runs = [
        synthetic_run(kind=kind, seed=seed, duration_s=60.0, workers=5)
        for kind in ("bfifo", "red")
        for seed in (1, 2)
    ]
    page = write_comparison(compare(runs), tmp_path).read_text(encoding="utf-8")
    question = """
    found.buttons = document.querySelectorAll("button.live").length;
    const [figure, plot] = await shown("Backlog of the queue");
    const button = figure.querySelector("button.live");
    found.shown = [figure.querySelector("svg").style.display, button.textContent];
    found.whole = [...ends(plot, "x"), ends(plot, "y")[0]];
    found.series = plot.series.slice(1).map((one) => one.label);
    plot.setScale("x", { min: 10, max: 20 });
    plot.setScale("y", { min: 5, max: 50 });
    await settled();
    found.zoomed = [...ends(plot, "x"), ...ends(plot, "y")];
    plot.over.dispatchEvent(new MouseEvent("dblclick", { bubbles: true }));
    await settled();
    found.again = [...ends(plot, "x"), ends(plot, "y")[0]];
    found.values = await read(figure, plot, 30);
    // Below the limits, which are in the colours of their cases.
    const [low, high] = [ends(plot, "y")[0], 255];
    found.before = [painted(plot, "#0072b2", low, high), painted(plot, "#d55e00", low, high)];
    await click(figure, 1);
    found.after = [painted(plot, "#0072b2", low, high), painted(plot, "#d55e00", low, high)];
    found.drawn = plot.series.slice(1).map((one) => one.show);
    button.click();
    found.back = [figure.querySelector("svg").style.display, button.textContent];
    """
    found = ask(page, question, tmp_path)
    assert found["wrong"] == []
    assert found["buttons"] == page.count('class="curves"') >= 5
    assert found["shown"] == ["none", "Show the static plot"]
    assert found["whole"] == found["again"] == [0.0, 60.0, 0.0]
    assert found["zoomed"] == [10, 20, 5, 50]
    names = ["testbed-bfifo", "testbed-red"]
    of_each = {name: [n for n in found["series"] if n.startswith(name)] for name in names}
    assert [name for group in of_each.values() for name in group] == found["series"]
    assert all(group[1:] and set(group[1:]) == {f"{n}, a seed"} for n, group in of_each.items())
    # In the middle of the figure: the time, and the backlog of each case.
    time, *backlogs = found["values"]
    assert float(time.removeprefix("time=").removesuffix(" s")) == pytest.approx(30.0, abs=0.5)
    for text, name, pair in zip(backlogs, names, (runs[:2], runs[2:]), strict=True):
        backlog = float(text.removeprefix(f"{name}=").removesuffix(" kB"))
        samples = pl.concat([each.queues for each in pair])
        near = samples.filter((pl.col("t_s") - 30.0).abs() < 1.0).get_column("backlog_bytes")
        assert near.min() * 0.99e-3 <= backlog <= near.max() * 1.01e-3  # type: ignore[operator]
    # The first group with its seeds is switched off: its colour goes, and the other's stays.
    assert found["drawn"] == [name.startswith(names[1]) for name in found["series"]]
    assert found["before"][0] > 200 and found["before"][1] > 200
    assert found["after"][0] == 0
    assert found["after"][1] >= found["before"][1]
    assert found["back"] == ["", "Zoom and read values"]


TWO_DNS_GROUPS = """
name = "two"
duration = "60 s"
end = "dns"
links = [{ name = "wan", between = ["a", "b"], rate = "10 Mbit/s", delay = "20 ms" }]
"""
for _name in ("udp", "tcp"):
    TWO_DNS_GROUPS += f"""
[[dns]]
name = "over-{_name}"
client = "a"
server = "b"
queries = 3
transport = "{_name}"
"""


@pytest.mark.slow
def test_a_cdf_tells_the_share_of_each_group_at_the_cursor(tmp_path: Path) -> None:
    both = run(Scenario.parse(TWO_DNS_GROUPS), set={"dns.over-udp.transport.retry": '["9 s"]'})
    # A round trip over UDP takes 40 ms, one more over TCP 80 ms; both curves rise at once.
    question = """
    const [figure, plot] = await shown("DNS response time");
    found.values = [await read(figure, plot, 60), await read(figure, plot, 81)];
    const [low, high] = ends(plot, "y");
    found.before = [painted(plot, "#0072b2", low, high), painted(plot, "#d55e00", low, high)];
    await click(figure, 2);
    found.after = [painted(plot, "#0072b2", low, high), painted(plot, "#d55e00", low, high)];
    """
    page = write_run_report(both, tmp_path).read_text(encoding="utf-8")
    found = ask(page, question, tmp_path)
    assert found["wrong"] == []
    (_, *middle), (time, *end) = found["values"]
    assert middle == ["over-udp=100 %", "over-tcp=–"]
    assert end == ["over-udp=100 %", "over-tcp=100 %"]
    assert time.startswith("response time=8") and time.endswith(" ms")
    # The rise of each curve is there: as many points high as the plot, nearly.
    assert min(found["before"]) > 200
    assert found["after"][0] == found["before"][0]
    assert found["after"][1] == 0


@pytest.mark.slow
def test_logarithmic_axes_stay_logarithmic(tmp_path: Path) -> None:
    question = """
    const [figure, plot] = await shown("Log");
    const at = (key) => [1, 10, 100].map((value) => plot.valToPos(value, key));
    found.x = at("x");
    found.y = at("y");
    found.ends = [...ends(plot, "x"), ...ends(plot, "y")];
    found.ticks = plot.axes.map((axis) => axis._values);
    plot.setScale("x", { min: 110, max: 140 });
    await settled();
    found.near = plot.axes[0]._values;
    """
    found = ask(alone(logarithmic()), question, tmp_path)
    assert found["wrong"] == []
    for places in (found["x"], found["y"]):
        assert places[2] - places[1] == pytest.approx(places[1] - places[0], abs=1.5)
        assert abs(places[1] - places[0]) > 50
    assert found["ends"] == [1, 5000, 0.1, 100]
    assert found["ticks"][0] == [
        *("1", "2", "5", "10", "20", "50", "100", "200", "500", "1000", "2000", "5000")
    ]
    assert {"0.1", "1", "10", "100"} <= set(found["ticks"][1])
    # Where no round value is left, there are even steps.
    assert found["near"] == ["110", "120", "130", "140"]


@pytest.mark.slow
def test_a_whole_run_page_works_and_keeps_the_marks(tmp_path: Path) -> None:
    made = synthetic_run(duration_s=60.0, workers=10)
    question = """
    for (const button of document.querySelectorAll("button.live")) { button.click(); }
    await settled();
    found.plots = made.length;
    found.charts = document.querySelectorAll("figure canvas").length;
    const backlog = made.find((plot) => plot.root.textContent.includes("backlog"));
    const figure = backlog.root.closest("figure");
    found.values = await read(figure, backlog, 30);
    // RED's thresholds are 75 and 262.5 kB, and the limit is 375 kB: lines in their colours.
    found.levels = [["#009e73", 75], ["#d55e00", 262.5], ["#22272e", 375]].map(
      ([color, at]) => painted(backlog, color, at - 3, at + 3));
    found.elsewhere = painted(backlog, "#d55e00", 290, 340);
    found.series = made.map((plot) => plot.series.map((one) => one.label));
    """
    page = write_run_report(made, tmp_path).read_text(encoding="utf-8")
    found = ask(page, question, tmp_path)
    assert found["wrong"] == []
    assert found["plots"] == found["charts"] == page.count('class="curves"') == 7
    assert all(count > 100 for count in found["levels"]), found
    assert found["elsewhere"] == 0
    assert [text.partition("=")[0] for text in found["values"]] == [
        *("time", "in the card's ring", "in the queue", "RED's average")
    ]
    assert [text.rpartition(" ")[2] for text in found["values"]] == ["s", "kB", "kB", "kB"]
    # The link's rate, which the static plot names in the margin, is a curve.
    assert any(names[-1] == "rate" for names in found["series"])


def test_marks_of_a_plot_are_in_its_data() -> None:
    made = synthetic_run(loss=0.4)
    marks = document(plots.backlog(made, LINK))["marks"]
    levels = {mark["name"]: mark["at"] for mark in marks if mark["axis"] == "y"}
    assert levels == pytest.approx(
        {"min 75 kB": 75.0, "max 262 kB": 262.5, "limit 375 kB\n= 300 ms": 375.0}, abs=0.5
    )
    moments = {mark["name"]: mark["at"] for mark in marks if mark["axis"] == "x"}
    assert moments == {"DNS starts": DNS_START_S}
    again = document(plots.response_cdf({"a": made}))["marks"]
    assert [(mark["name"], mark["at"]) for mark in again] == [
        (f"attempt {number} sent", 1000.0 * moment)
        for number, moment in ((2, 1.0), (3, 3.0), (4, 5.0), (5, 9.0))
    ]
    assert {mark["upright"] for mark in again} == {True}


def test_averages_are_steps_and_samples_are_lines() -> None:
    made = synthetic_run(duration_s=60.0, workers=5)
    for figure, step in (
        (plots.goodput(made), -1),
        (plots.utilisation({"a": made}, LINK), -1),
        (plots.sojourn({"a": made}, LINK), -1),
        (plots.response_cdf({"a": made}), 1),
        (plots.backlog(made, LINK), 0),
    ):
        assert document(figure)["series"][0]["step"] == step


def test_axes_have_their_units() -> None:
    made = synthetic_run(duration_s=60.0, workers=5)
    found = {}
    for name, figure in (
        ("goodput", plots.goodput(made)),
        ("sojourn", plots.sojourn({"a": made}, LINK)),
        ("drops", plots.drop_rate({"a": made}, LINK)),
        ("responses", plots.response_cdf({"a": made})),
    ):
        axes = document(figure)
        found[name] = tuple(axes[key]["unit"] for key in "xy")
    assert found == {
        "goodput": ("s", "Mbit/s"),
        "sojourn": ("s", "ms"),
        "drops": ("s", "packets/s"),
        "responses": ("ms", "%"),
    }


def test_a_page_embeds_the_library_once_and_only_where_it_has_curves(tmp_path: Path) -> None:
    made = synthetic_run(duration_s=60.0, workers=5)
    text = write_run_report(made, tmp_path / "a").read_text(encoding="utf-8")
    assert text.count("https://github.com/leeoniya/uPlot") == 1
    empty = Run(
        scenario={"name": "empty"},
        seed=1,
        backend="sim",
        status="partial",
        stopped="interrupted",
        end_s=0.0,
        events=0,
        tables={},
        narrows="0",
    )
    text = write_run_report(empty, tmp_path / "b").read_text(encoding="utf-8")
    assert "<script" not in text


def test_curves_are_what_the_plot_draws() -> None:
    made = synthetic_run(duration_s=60.0, workers=5)
    hostile = "</script><b>"
    drawn = curves(plots.backlogs({hostile: made}, LINK))
    assert drawn is not None
    assert "<" not in drawn
    found = json.loads(drawn)
    (one,) = found["series"]
    assert one["label"] == hostile
    assert (found["x"]["label"], found["y"]["label"]) == ("time (s)", "backlog (kB)")
    assert (found["x"]["log"], found["y"]["ends"][0]) == (False, 0.0)
    assert max(one["y"]) == pytest.approx(made.queues["backlog_bytes"].max() * 1e-3, rel=1e-4)
    assert curves(plots.attempts(made)) is None


def test_a_curve_that_rises_at_once_keeps_its_beginning() -> None:
    figure, axes = style.new_figure()
    axes.step([40.0, 40.0, 40.0, 40.0], [0.0, 33.3, 66.7, 100.0], where="post", label="a")
    axes.plot([0.0, 1.0, 2.0], [1.0, np.nan, 3.0], label="b")
    one, other = document(figure)["series"]
    assert one["y"] == [0.0, 100.0]
    assert one["x"][0] < one["x"][1] == 40.0
    assert one["x"][0] == pytest.approx(40.0, rel=1e-5)
    assert other["y"] == [1.0, None, 3.0]

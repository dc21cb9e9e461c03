"""The plots of a page, in a browser."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from browser import ask
from drawn import drawing
from synthetic_run import DNS_START_S, LINK, synthetic_run

from narrows import Scenario, run
from narrows.records import Axis
from narrows.report import plots, write_comparison, write_run_report
from narrows.report.bars import PERCENT
from narrows.report.drawing import Bar, Curve, Drawing, Heat, Part
from narrows.report.page import policy, scripts, style_sheet
from narrows.results import Run, compare


def alone(*drawings: Drawing) -> str:
    """A page with nothing but figures."""
    figures = "".join(
        '<figure><h3 class="title"></h3><p class="says">what it shows</p>'
        f'<script type="application/json" class="drawing">{each.text()}</script></figure>'
        for each in drawings
    )
    library, module = scripts()
    return (
        f'<!doctype html><html><head><meta http-equiv="Content-Security-Policy" '
        f'content="{policy()}"><style>{style_sheet()}</style></head><body>{figures}'
        f'<script>{library}</script><script type="module">{module}</script></body></html>'
    )


def curve(label: str, x: list[float], y: list[float], **looks: Any) -> Curve:
    return Curve(label, looks.pop("color", "blue"), np.asarray(x), np.asarray(y), **looks)


def document(drawn: Drawing) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(drawn.text())
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
    const [figure, plot] = await shown("Backlog of the queue");
    const [, other] = await shown("Drops at");
    found.plots = made.length;
    found.whole = [...ends(plot, "x"), ends(plot, "y")[0]];
    found.series = plot.series.slice(1).map((one) => one.label);
    plot.setScale("x", { min: 10, max: 20 });
    plot.setScale("y", { min: 5, max: 50 });
    await settled();
    found.zoomed = [...ends(plot, "x"), ...ends(plot, "y")];
    found.linked = [...ends(other, "x"), ends(other, "y")[0]];
    plot.over.dispatchEvent(new MouseEvent("dblclick", { bubbles: true }));
    await settled();
    found.again = [...ends(plot, "x"), ends(plot, "y")[0]];
    found.values = await read(figure, plot, 30);
    // Below the limits, which are in the colours of their cases.
    const [low, high] = [ends(plot, "y")[0], 255];
    found.before = [painted(plot, "#0072b2", low, high), painted(plot, "#d55e00", low, high)];
    await click(figure, 0);
    found.after = [painted(plot, "#0072b2", low, high), painted(plot, "#d55e00", low, high)];
    found.drawn = plot.series.slice(1).map((one) => one.show);
    found.pressed = [...figure.querySelectorAll(".entry")].map((b) => b.ariaPressed);
    """
    found = ask(page, question, tmp_path)
    assert found["wrong"] == []
    assert found["plots"] >= 5
    assert found["whole"] == found["again"] == [0.0, 60.0, 0.0]
    assert found["zoomed"] == [10, 20, 5, 50]
    # Plots over the same time zoom together, each with its own height.
    assert found["linked"] == [10, 20, 0]
    labels = ["testbed-bfifo", "testbed-red"]
    at = [found["series"].index(label) for label in labels]
    assert at == [0, 3] and found["series"].count(" ") == len(found["series"]) - 2 == 4
    # In the middle of the figure: the time, and the backlog of each case.
    time, *backlogs = found["values"]
    assert float(time.removeprefix("at ").removesuffix(" s")) == pytest.approx(30.0, abs=0.5)
    for text, name, pair in zip(backlogs, labels, (runs[:2], runs[2:]), strict=True):
        backlog = float(text.removeprefix(f"{name}=").removesuffix(" kB"))
        samples = pl.concat([each.queues for each in pair])
        near = samples.filter((pl.col("t_s") - 30.0).abs() < 1.0).get_column("backlog_bytes")
        assert near.min() * 0.99e-3 <= backlog <= near.max() * 1.01e-3  # type: ignore[operator]
    # The first group with its seeds is switched off: its colour goes, and the other's stays.
    assert found["drawn"] == [False] * 3 + [True] * 3
    assert found["pressed"] == ["false", "true"]
    assert found["before"][0] > 200 and found["before"][1] > 200
    assert found["after"][0] == 0
    assert found["after"][1] >= found["before"][1]


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
    await click(figure, 1);
    found.after = [painted(plot, "#0072b2", low, high), painted(plot, "#d55e00", low, high)];
    """
    page = write_run_report(both, tmp_path).read_text(encoding="utf-8")
    found = ask(page, question, tmp_path)
    assert found["wrong"] == []
    (_, *middle), (time, *end) = found["values"]
    assert middle == ["over-udp=100 %", "over-tcp=–"]
    assert end == ["over-udp=100 %", "over-tcp=100 %"]
    assert time.startswith("at 8") and time.endswith(" ms")
    # The rise of each curve is there: as many points high as the plot, nearly.
    assert min(found["before"]) > 200
    assert found["after"][0] == found["before"][0]
    assert found["after"][1] == 0


@pytest.mark.slow
def test_logarithmic_axes_stay_logarithmic(tmp_path: Path) -> None:
    question = """
    const [figure, plot] = await shown("");
    const at = (key) => [1, 10, 100].map((value) => plot.valToPos(value, key));
    found.x = at("x");
    found.y = at("y");
    found.ends = [...ends(plot, "x"), ...ends(plot, "y")];
    found.ticks = plot.axes.map((axis) => axis._values);
    plot.setScale("x", { min: 110, max: 140 });
    await settled();
    found.near = plot.axes[0]._values;
    """
    logarithmic = Drawing(
        "Log",
        Axis("size (kB)", ends=(1.0, 5000.0), log=True),
        Axis("time (s)", ends=(0.1, 100.0), log=True),
        curves=[curve("line", [1.0, 10.0, 100.0, 5000.0], [0.1, 1.0, 10.0, 100.0])],
    )
    found = ask(alone(logarithmic), question, tmp_path)
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
    found.plots = made.length;
    found.charts = document.querySelectorAll("figure canvas").length;
    const [figure, backlog] = await shown("RED queue at");
    found.values = await read(figure, backlog, 30);
    // RED's thresholds are 75 and 262.5 kB, and the limit is 375 kB: lines in their colours.
    found.levels = [["#009e73", 75], ["#d55e00", 262.5], ["#22272e", 375]].map(
      ([color, at]) => painted(backlog, color, at - 3, at + 3));
    found.elsewhere = painted(backlog, "#d55e00", 290, 340);
    found.series = made.map((plot) => plot.series.map((one) => one.label));
    const [first] = document.querySelectorAll(".bars");
    found.bars = [...first.querySelectorAll(".text")].map((each) => each.textContent);
    found.names = [...document.querySelectorAll("[role=img]")].map((each) => each.ariaLabel);
    """
    page = write_run_report(made, tmp_path).read_text(encoding="utf-8")
    found = ask(page, question, tmp_path)
    assert found["wrong"] == []
    assert found["plots"] == found["charts"] == page.count('class="drawing"') - 1 == 7
    assert all(count > 100 for count in found["levels"]), found
    assert found["elsewhere"] == 0
    names = ["in the card's ring", "in the queue", "RED's average"]
    assert found["values"][0].endswith(" s")
    assert [text.partition("=")[0] for text in found["values"][1:]] == names
    assert [text.rpartition(" ")[2] for text in found["values"][1:]] == ["kB", "kB", "kB"]
    # The link's rate, which a name in the margin explains, is a curve.
    assert any(labels[-1] == "rate" for labels in found["series"])
    share = made.summary["dns"]["first_attempt_percent"]
    assert found["bars"][0].startswith(f"{share:.2f} %")
    # Readers who cannot see the plots hear what they say.
    assert len(found["names"]) == 8
    assert any("Curve: the backlog at" in name for name in found["names"])


@pytest.mark.slow
def test_plots_can_be_used_without_a_mouse(tmp_path: Path) -> None:
    line = Drawing(
        "Keys",
        Axis("time (s)", ends=(0.0, 100.0)),
        Axis("backlog (kB)", ends=(0.0, 100.0)),
        curves=[curve("a", [0.0, 50.0, 100.0], [0.0, 50.0, 100.0])],
    )
    question = """
    const [figure, plot] = await shown("");
    const chart = figure.querySelector(".chart");
    const press = async (key, more = {}) => {
      chart.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, ...more }));
      await settled();
    };
    found.tab = chart.tabIndex;
    await press("ArrowRight");
    found.heard = figure.querySelector("[aria-live]").textContent;
    await press("+");
    found.zoomed = ends(plot, "x");
    await press("ArrowRight", { shiftKey: true });
    found.moved = ends(plot, "x");
    await press("0");
    found.whole = ends(plot, "x");
    figure.querySelector(".zoom button").click();
    await settled();
    found.button = ends(plot, "x");
    """
    found = ask(alone(line), question, tmp_path)
    assert found["wrong"] == []
    assert found["tab"] == 0
    assert found["heard"].startswith("at 5") and found["heard"].endswith(" kB")
    low, high = found["zoomed"]
    assert high - low == pytest.approx(50.0)
    assert found["moved"] == pytest.approx([low + 10.0, high + 10.0])
    assert found["whole"] == [0, 100]
    assert found["button"][1] - found["button"][0] == pytest.approx(50.0)


@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True])
def test_a_page_fits_a_phone_and_a_dark_screen(tmp_path: Path, dark: bool) -> None:
    made = synthetic_run(duration_s=60.0, workers=10)
    question = """
    await shown("RED queue at");
    found.wide = document.documentElement.scrollWidth - innerWidth;
    found.charts = made.map((plot) => plot.root.getBoundingClientRect().right - innerWidth);
    const [figure, plot] = await shown("RED queue at");
    found.ink = plot.axes[0].stroke();
    found.paper = getComputedStyle(figure).backgroundColor;
    """
    page = write_run_report(made, tmp_path).read_text(encoding="utf-8")
    # Chromium's window is not narrower than 500 pixels.
    found = ask(page, question, tmp_path, width=500, dark=dark)
    assert found["wrong"] == []
    assert found["wide"] <= 0
    assert max(found["charts"]) <= 0
    assert found["ink"] == ("#e6e9ed" if dark else "#22272e")
    assert found["paper"] == ("rgb(27, 31, 36)" if dark else "rgb(255, 255, 255)")


@pytest.mark.slow
def test_foreign_texts_stay_texts(tmp_path: Path) -> None:
    hostile = "</script><img src=x onerror=alert(1)><b>"
    axis = Axis(f"{hostile} (s)", ends=(0.0, 2.0))
    lines = Drawing(
        hostile,
        axis,
        axis,
        curves=[curve(hostile, [0.0, 1.0], [1.0, 2.0], margin=hostile)],
        subtitle=hostile,
        legend=hostile,
    )
    bars = Drawing(
        hostile, PERCENT, axis, bars=[Bar(hostile, [Part(0.0, 5.0, label=hostile)], text=hostile)]
    )
    heat = Drawing(hostile, axis, axis, heat=Heat([hostile], [hostile], [[1.0]], [[hostile]]))
    question = """
    found.elements = document.querySelectorAll("img, figure b:not(.part)").length;
    found.words = figures.map((each) => each.querySelector(".plot").textContent);
    """
    page = alone(lines, bars, heat)
    assert page.count("<img") == 0
    found = ask(page, question, tmp_path)
    assert found["wrong"] == []
    assert found["elements"] == 0
    assert all(hostile in words for words in found["words"])


def test_marks_of_a_plot_are_in_its_data() -> None:
    made = synthetic_run(loss=0.4)
    marks = document(drawing(plots.backlog, made, LINK))["levels"]
    levels = {mark["name"]: mark["at"] for mark in marks if mark["axis"] == "y"}
    assert levels == pytest.approx(
        {"min 75 kB": 75.0, "max 262 kB": 262.5, "limit 375 kB\n= 300 ms": 375.0}, abs=0.5
    )
    moments = {mark["name"]: mark["at"] for mark in marks if mark["axis"] == "x"}
    assert moments == {"DNS starts": DNS_START_S}
    again = document(drawing(plots.response_cdf, made))["levels"]
    assert [(mark["name"], mark["at"]) for mark in again] == [
        (f"attempt {number} sent", 1000.0 * moment)
        for number, moment in ((2, 1.0), (3, 3.0), (4, 5.0), (5, 9.0))
    ]
    assert {mark["upright"] for mark in again} == {True}


def test_averages_are_steps_and_samples_are_lines() -> None:
    made = synthetic_run(duration_s=60.0, workers=5)
    for drawn, shape in (
        (drawing(plots.goodput, made), "before"),
        (drawing(plots.utilisation, made, LINK), "before"),
        (drawing(plots.sojourn, made, LINK), "before"),
        (drawing(plots.response_cdf, made), "cdf"),
        (drawing(plots.backlog, made, LINK), "area"),
    ):
        assert document(drawn)["curves"][0]["shape"] == shape


def test_axes_have_their_units() -> None:
    made = synthetic_run(duration_s=60.0, workers=5)
    found = {}
    for name, drawn in (
        ("goodput", drawing(plots.goodput, made)),
        ("sojourn", drawing(plots.sojourn, made, LINK)),
        ("drops", drawing(plots.drop_rate, made, LINK)),
        ("responses", drawing(plots.response_cdf, made)),
    ):
        axes = document(drawn)
        units = [re.search(r"\(([^\s()]+)\)$", axes[key]["label"]) for key in "xy"]
        found[name] = tuple(
            unit[1] if unit else axes[key].get("mixed")
            for unit, key in zip(units, "xy", strict=True)
        )
    assert found == {
        "goodput": ("s", "Mbit/s"),
        "sojourn": ("s", "ms"),
        "drops": ("s", "packets/s"),
        # Milliseconds, and seconds from 1000 ms on.
        "responses": (True, "%"),
    }


def test_a_page_embeds_the_library_once_and_only_where_it_has_plots(tmp_path: Path) -> None:
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


def test_a_drawing_has_what_the_tables_have() -> None:
    made = synthetic_run(duration_s=60.0, workers=5)
    hostile = "</script><b>"
    drawn = drawing(plots.backlog, {hostile: made, "b": made}, LINK)
    assert "<" not in drawn.text()
    found = document(drawn)
    one, _ = found["curves"]
    assert one["label"] == hostile
    assert (found["x"]["label"], found["y"]["label"]) == ("time (s)", "backlog (kB)")
    assert ("log" in found["x"], found["y"]["ends"][0]) == (False, 0.0)
    assert max(one["y"]) == pytest.approx(made.queues["backlog_bytes"].max() * 1e-3, rel=1e-4)


@pytest.mark.slow
def test_a_curve_that_rises_at_once_keeps_its_beginning(tmp_path: Path) -> None:
    at_once = Drawing(
        "Rise",
        Axis("time (s)", ends=(0.0, 50.0)),
        Axis("share (%)", ends=(0.0, 104.0)),
        curves=[
            curve("a", [40.0, 40.0, 40.0, 40.0], [0.0, 33.3, 66.7, 100.0], shape="cdf"),
            curve("b", [0.0, 1.0, 2.0], [1.0, float("nan"), 3.0]),
        ],
    )
    question = """
    const [, plot] = await shown("");
    const points = (n) => plot.data[0].map((x, i) => [x, plot.data[n][i]])
      .filter(([, y]) => y !== undefined);
    found.rise = points(1);
    found.gap = points(2);
    """
    found = ask(alone(at_once), question, tmp_path)
    assert found["wrong"] == []
    (before, low), (at, high) = found["rise"]
    assert (low, high) == (0, 100)
    assert before < at == 40.0 and before == pytest.approx(40.0, rel=1e-5)
    assert found["gap"] == [[0, 1], [1, None], [2, 3]]

import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import polars as pl
import pytest
from drawn import fig
from matplotlib.figure import Figure
from synthetic_run import DNS_START_S, LINK, synthetic_run
from two_groups import TWO_GROUPS

import narrows
from narrows.records import Axis
from narrows.report import plots, style
from narrows.report.comparison_report import comparison_plots
from narrows.report.drawing import Curve, Drawing, thin
from narrows.report.evaluate import smoothed
from narrows.report.page import write_plots
from narrows.report.paper import figure_of
from narrows.report.plots.first_attempt import Share, first_attempt
from narrows.report.run_report import run_plots
from narrows.report.scales import completed
from narrows.report.source import queue_facts, retry_marks, retry_moments_s
from narrows.results import Run, compare
from narrows.results.text import shown_metrics

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def run() -> Run:
    return synthetic_run(duration_s=60.0, workers=10)


def texts(figure: Figure) -> list[str]:
    found = [text.get_text() for axes in figure.axes for text in axes.texts]
    return found + [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def test_thresholds_of_red_are_drawn_and_named(run: Run) -> None:
    figure = fig(plots.backlog, run, LINK)
    shown = texts(figure)
    assert {"min 75 kB", "max 262 kB", "limit 375 kB\n= 300 ms"} <= set(shown)
    assert {"in the queue", "in the card's ring", "RED's average"} <= set(shown)
    assert figure.axes[0].get_ylim()[0] == 0.0
    assert figure.axes[0].get_ylim()[1] > 375.0


@pytest.mark.parametrize(
    ("kind", "label", "unit"),
    [("bfifo", "limit 262 kB\n= 210 ms", "kB"), ("pfifo", "limit 180 packets", "packets")],
)
def test_a_fifo_has_its_limit_in_its_own_unit(kind: str, label: str, unit: str) -> None:
    figure = fig(plots.backlog, synthetic_run(kind=kind, duration_s=20.0), LINK)
    assert label in texts(figure)
    assert figure.axes[0].get_ylabel() == f"backlog ({unit})"
    assert "RED's average" not in texts(figure)


@pytest.mark.parametrize(
    ("queue", "label"),
    [
        ({"kind": "codel"}, None),
        ({"kind": "fq-codel"}, None),
        ({"kind": "pie"}, None),
        ({"kind": "blue", "unit": "bytes", "limit": "9 kB"}, "limit 9 kB\n= 9 ms"),
        ({"kind": "drr", "limit": 50}, "limit 50 packets"),
        ({"kind": "tdrr"}, "limit 1000 packets"),
        ({"kind": "qsdrr"}, "limit 1000 packets"),
        ({"kind": "sfq"}, "limit 127 packets"),
        ({"kind": "prio", "bands": [{"name": "rest"}]}, None),
        ({"kind": "classes", "classes": [{"name": "rest"}]}, None),
    ],
)
def test_every_other_queue_is_drawn(queue: dict[str, Any], label: str | None) -> None:
    link = {"name": "bottleneck", "between": ["a", "b"], "rate": "8 Mbit/s", "queue": queue}
    figure = fig(plots.backlog, synthetic_run(duration_s=5.0, scenario={"links": [link]}), LINK)
    shown = [text for text in texts(figure) if text.startswith(("min", "max", "limit"))]
    assert shown == ([] if label is None else [label])


def test_tcs_defaults_are_drawn_where_a_scenario_leaves_them() -> None:
    queue = {"kind": "red", "limit": "400000 B"}
    link = {"name": "bottleneck", "between": ["a", "b"], "rate": "8 Mbit/s", "queue": queue}
    facts = queue_facts(synthetic_run(duration_s=5.0, scenario={"links": [link]}), LINK)
    assert facts is not None
    assert [t.level for t in facts.thresholds] == [33_333.0, 100_000.0, 400_000.0]


@pytest.mark.parametrize(
    "scenario", [{}, {"links": 3}, {"links": [{"name": "bottleneck", "queue": {"kind": "new"}}]}]
)
def test_a_scenario_that_says_nothing_leaves_a_plot_without_thresholds(
    scenario: dict[str, object],
) -> None:
    run = synthetic_run(duration_s=20.0, scenario=scenario)
    assert not any("limit" in text for text in texts(fig(plots.backlog, run, LINK)))
    assert retry_moments_s(run) == []


def changing(queue: dict[str, Any]) -> Run:
    link = {"name": "bottleneck", "between": ["a", "b"], "rate": "10 Mbit/s", "queue": queue}
    changes = [
        {"at": "8 s", "link": "bottleneck", "rate": "20 Mbit/s"},
        {"at": "4 s", "link": "bottle*.forward", "rate": "2 Mbit/s"},
        {"at": "5 s", "link": "bottleneck.backward", "rate": "1 Mbit/s"},
        {"at": "6 s", "link": "bottleneck", "delay": "1 ms"},
    ]
    return synthetic_run(duration_s=10.0, scenario={"links": [link], "changes": changes})


def test_a_rate_that_changes_is_drawn_as_steps() -> None:
    run = changing({"kind": "bfifo", "limit": "20 kB"})
    facts = queue_facts(run, LINK)
    assert facts is not None
    assert facts.rates == ((0.0, 10_000_000), (4.0, 2_000_000), (8.0, 20_000_000))
    figure = fig(plots.utilisation, {"a": run}, LINK)
    assert "rate\n20 Mbit/s" in texts(figure)
    steps = figure.axes[0].get_lines()[1]
    assert list(steps.get_xdata()) == [0.0, 4.0, 8.0, run.end_s]
    assert list(steps.get_ydata()) == [10.0, 2.0, 20.0, 20.0]
    assert "limit 20 kB" in texts(fig(plots.backlog, run, LINK))


def test_a_link_that_is_down_is_drawn_at_no_rate() -> None:
    link = {"name": "bottleneck", "between": ["a", "b"], "rate": "10 Mbit/s"}
    changes = [
        {"at": "2 s", "link": "bottleneck", "state": "down"},
        {"at": "3 s", "link": "bottleneck", "rate": "4 Mbit/s"},
        {"at": "5 s", "link": "bottleneck.forward", "state": "up"},
        {"at": "7 s", "link": "bottleneck.backward", "state": "up"},
    ]
    run = synthetic_run(duration_s=10.0, scenario={"links": [link], "changes": changes})
    facts = queue_facts(run, LINK)
    assert facts is not None
    assert facts.rates == ((0.0, 10_000_000), (2.0, 0), (3.0, 0), (5.0, 4_000_000))
    steps = fig(plots.utilisation, {"a": run}, LINK).axes[0].get_lines()[1]
    assert list(steps.get_ydata()) == [10.0, 0.0, 0.0, 4.0, 4.0]


def test_what_a_trace_offers_is_drawn_instead_of_a_rate(tmp_path: Path) -> None:
    trace = tmp_path / "trace.txt"
    # The list lasts a second and then repeats: 1 packet by 0.5 s, 3 more at its end, and so on.
    trace.write_text("500\n1000\n1000\n1000\n")
    link = {
        "name": "bottleneck",
        "between": ["a", "b"],
        "rate": "1 Mbit/s",
        "forward": {"rate_trace": str(trace)},
    }
    run = synthetic_run(duration_s=5.0, scenario={"links": [link]})
    facts = queue_facts(run, LINK)
    assert facts is not None
    times = np.array([0.0, 0.4, 0.5, 0.999, 1.0, 1.5, 3.0])
    assert list(facts.offered(times) / 1500) == [0, 0, 1, 1, 4, 5, 12]
    lines = fig(plots.utilisation, {"a": run}, LINK).axes[0].get_lines()
    assert lines[1].get_label() == "offered by the trace"
    # Four packets a second are 48 kbit/s.
    y, x = np.asarray(lines[1].get_ydata()), np.asarray(lines[1].get_xdata())
    assert float((y[1:] * np.diff(x)).sum() / x[-1]) == pytest.approx(0.048, rel=0.05)


def test_throughput_is_drawn_from_the_start(run: Run) -> None:
    curve = fig(plots.utilisation, {"a": run}, LINK).axes[0].get_lines()[0]
    assert curve.get_xdata()[0] == 0.0
    assert curve.get_ydata()[0] == curve.get_ydata()[1]


@pytest.mark.parametrize(
    ("queue", "target"),
    [
        ({"kind": "codel"}, "target\n5 ms"),
        ({"kind": "fq-codel", "target": "20 ms"}, "target\n20 ms"),
        ({"kind": "pie"}, "target\n15 ms"),
        ({"kind": "drr"}, None),
    ],
)
def test_a_waiting_time_to_aim_for_is_drawn(queue: dict[str, Any], target: str | None) -> None:
    run = changing(queue)
    shown = [text for text in texts(fig(plots.sojourn, {"a": run}, LINK)) if "target" in text]
    assert shown == ([target] if target else [])
    assert not any(
        "target" in text for text in texts(fig(plots.sojourn, {"a": run, "b": run}, LINK))
    )


@pytest.mark.parametrize(
    ("kind", "together"), [("codel", False), ("fq-codel", True), ("sfq", True)]
)
def test_a_report_does_not_say_that_dns_waits_where_it_need_not(kind: str, together: bool) -> None:
    shown = {figure.name: figure.caption for figure in run_plots(changing({"kind": kind}))}
    assert ("all flows together" in shown[f"sojourn-{LINK}"]) is together


def captions(run: Run) -> dict[str, str]:
    return {figure.name: figure.caption for figure in run_plots(run)}


def test_captions_speak_of_what_is_drawn(run: Run) -> None:
    of_red = captions(run)
    assert "levels at which the queue acts" in of_red[f"backlog-{LINK}"]
    assert "card's ring" in of_red[f"backlog-{LINK}"]
    assert of_red["response-cdf"].startswith("Each step is an attempt")
    links = [
        {key: value for key, value in link.items() if key != "ring"}
        | {"forward": {"queue": {"kind": "codel"}}}
        for link in run.scenario["links"]
    ]
    codel = replace(run, scenario={**run.scenario, "links": links})
    of_codel = captions(codel)
    assert "levels" not in of_codel[f"backlog-{LINK}"]
    assert "ring" not in of_codel[f"backlog-{LINK}"]
    names = {metric.name for metric in shown_metrics(codel)}
    assert "in transmission, mean" in names
    assert "in the ring, mean" not in names
    once = run.attempts.filter(pl.col("attempt") == 1)
    steady = replace(run, tables={**run.tables, "attempts": once})
    assert captions(steady)["response-cdf"] == "No query was sent again."


def test_the_start_of_dns_is_marked(run: Run) -> None:
    for figure in (
        fig(plots.backlog, run, LINK),
        fig(plots.drop_rate, {"a": run}, LINK),
    ):
        assert "DNS starts" in texts(figure)
        lines = [line.get_xdata() for line in figure.axes[0].get_lines()]
        assert any(list(x) == [DNS_START_S, DNS_START_S] for x in lines)


def test_the_average_is_the_papers() -> None:
    times = 0.1 * np.arange(6)
    total = np.array([0.0, 4.0, 4.0, 7.0, 7.0, 8.0])
    expected = []
    value = 0.0
    for drops in (4, 0, 3, 0, 1):
        value = 0.9 * value + 0.1 * (drops * 10)
        expected.append(value)
    found_times, found = smoothed(times, total, 0.1, 0.9)
    assert found == pytest.approx(expected)
    assert found_times == pytest.approx(times[1:])


def test_the_average_of_a_constant_rate_settles_there() -> None:
    times = np.arange(0.0, 60.1, 0.5)
    _, found = smoothed(times, 33.0 * times, 0.1, 0.9)
    assert found[-1] == pytest.approx(33.0)


def test_the_retry_schedule_stands_in_the_cdf() -> None:
    run = synthetic_run(loss=0.4)
    assert retry_moments_s(run) == [1.0, 3.0, 5.0, 9.0]
    figure = fig(plots.response_cdf, {"a": run})
    assert {f"attempt {n} sent" for n in (2, 3, 4, 5)} <= set(texts(figure))
    assert figure.axes[0].get_xscale() == "log"


# A reply of 1700 B is truncated at 1232 B, and comes over TCP.
TRUNCATED = """
name = "truncated"
duration = "600 s"
end = "dns"

[[links]]
name = "wan"
between = ["a", "b"]
rate = "10 Mbit/s"
delay = "20 ms"

[[dns]]
name = "stub"
client = "a"
server = "b"
workers = 5
queries = 40
reply_size = "1700 B"
transport = { kind = "udp", retry = ["1 s", "2 s"] }
answers = { udp_size = "1232 B" }
"""


def test_an_attempt_after_a_truncated_reply_has_no_time_in_the_schedule() -> None:
    lossless = narrows.run(narrows.Scenario.parse(TRUNCATED))
    assert lossless.queries.get_column("attempt").unique().to_list() == [2]
    assert retry_moments_s(lossless) == [1.0]
    assert retry_marks([lossless]) == []
    lossy = narrows.run(narrows.Scenario.parse(TRUNCATED, set={"links.wan.loss": "0.3"}))
    fates = lossy.attempts.filter(pl.col("attempt") == 1).get_column("fate")
    assert {"truncated", "query-lost"} <= set(fates)
    assert retry_marks([lossy]) == [(1.0, "attempt 2 sent after a timeout")]
    assert "attempt 2 sent after a timeout" in texts(fig(plots.response_cdf, {"a": lossy}))
    whole = narrows.run(
        narrows.Scenario.parse(
            TRUNCATED, set={"links.wan.loss": "0.3", "dns.stub.reply_size": "200 B"}
        )
    )
    assert retry_marks([whole]) == [(1.0, "attempt 2 sent")]


def test_runs_with_other_schedules_share_no_marks() -> None:
    run = synthetic_run(loss=0.4)
    over = {"kind": "udp", "retry": ["3 s", "3 s"]}
    dns = [{**group, "transport": over} for group in run.scenario["dns"]]
    other = replace(run, scenario={**run.scenario, "dns": dns})
    assert len(retry_marks([run, run])) == 4
    assert retry_marks([run, other]) == []


def test_a_schedule_for_udp_says_nothing_of_tcp() -> None:
    group = {"name": "stubs", "client": "a", "server": "b", "queries": 1}
    over_udp = synthetic_run(scenario={"dns": [group]})
    assert retry_moments_s(over_udp) == [1.0, 3.0, 5.0, 9.0]
    over_tcp = synthetic_run(scenario={"dns": [{**group, "transport": "tcp"}]})
    assert retry_moments_s(over_tcp) == []


def test_an_axis_from_zero_ends_above_its_highest_value() -> None:
    def ends(*values: float) -> tuple[float | None, object]:
        times = np.arange(len(values), dtype=np.float64)
        curve = Curve("delay", "blue", times, np.asarray(values))
        axis = Axis("delay (ms)", ends=(0.0, None))
        return completed(Drawing("", Axis("time (s)"), axis, curves=[curve])).y.ends

    assert ends() == (0.0, 1.0)
    assert ends(35.0, 40.0, float("nan")) == pytest.approx((0.0, 44.8))


def test_one_run_has_a_curve_for_each_dns_group() -> None:
    text = """
name = "two"
duration = "60 s"
end = "dns"
links = [{ name = "wan", between = ["a", "b"], rate = "10 Mbit/s", delay = "20 ms" }]
"""
    for name in ("udp", "tcp"):
        text += f'[[dns]]\nname = "over-{name}"\nclient = "a"\nserver = "b"\n'
        text += f'queries = 3\ntransport = "{name}"\n'
    both = narrows.run(narrows.Scenario.parse(text))
    figure = fig(plots.response_cdf, {"two": both})
    curves = {str(line.get_label()): line for line in figure.axes[0].get_lines()}
    assert list(curves) == ["over-udp", "over-tcp"]
    # One round trip of 40 ms, and two.
    for curve, expected in zip(curves.values(), (40, 80), strict=True):
        assert np.asarray(curve.get_xdata())[-1] == pytest.approx(expected, abs=1)
    together = fig(plots.response_cdf, {"one": both, "other": both})
    assert [str(line.get_label()) for line in together.axes[0].get_lines()] == ["one", "other"]


@pytest.mark.parametrize(
    ("shortest", "longest", "scale"),
    [
        (562.0, 918.0, "linear"),
        (564.1, 564.3, "linear"),
        (210.0, 640.0, "log"),
        (0.4, 900.0, "log"),
        (1.0, 30_000.0, "log"),
        (0.01, 90_000.0, "log"),
    ],
)
def test_the_cdfs_axis_fits_the_data_and_its_labels(
    run: Run, shortest: float, longest: float, scale: str
) -> None:
    place = pl.int_range(pl.len()) / (pl.len() - 1)
    times = shortest * (longest / shortest) ** place
    answered = run.queries.filter(pl.col("measured") & pl.col("response_ms").is_not_null())
    queries = answered.with_columns(response_ms=times)
    figure = fig(plots.response_cdf, {"a": replace(run, tables={**run.tables, "queries": queries})})
    figure.draw_without_rendering()
    axes = figure.axes[0]
    assert axes.get_xscale() == scale
    low, high = axes.get_xlim()
    assert low < shortest < longest < high
    # The data fill nine tenths of the axis.
    ends = axes.transData.transform([(shortest, 0.0), (longest, 0.0)])[:, 0]
    assert ends[1] - ends[0] > (0.9 if longest > 1.01 * shortest else 0.02) * axes.bbox.width
    shown = [label for label in axes.get_xticklabels() if label.get_text()]
    boxes = [label.get_window_extent() for label in shown]
    boxes = [box for box in boxes if axes.bbox.x0 <= (box.x0 + box.x1) / 2.0 <= axes.bbox.x1]
    assert len(boxes) >= 3
    assert all(one.x1 + 3.0 < other.x0 for one, other in pairwise(boxes))


def test_unanswered_queries_keep_the_cdf_below_one() -> None:
    run = synthetic_run(loss=0.7, workers=10)
    answered = 100.0 - run.summary["dns"]["unanswered_percent"]
    curve = fig(plots.response_cdf, {"a": run}).axes[0].get_lines()[0].get_ydata()
    assert np.max(np.asarray(curve)) == pytest.approx(answered)
    assert answered < 95.0


def test_open_queries_count_for_as_long_as_they_waited(run: Run) -> None:
    # Kaplan and Meier by hand: of four queries, one is answered after 1 s, one is still open after
    # 2 s, one is answered after 3 s, and one is given up: 1/4, then 1 - 3/4 * 1/2.
    end_s, nothing = run.end_s, None
    four = run.queries.filter(pl.col("measured")).head(4)
    asked = four.with_columns(
        pl.Series("start_s", [1.0, end_s - 2.0, 1.0, 1.0]),
        pl.Series("end_s", [2.0, nothing, 4.0, 9.0]),
        pl.Series("response_ms", [1000.0, nothing, 3000.0, nothing]),
    )
    (curve, *_) = (
        fig(plots.response_cdf, {"a": replace(run, tables={**run.tables, "queries": asked})})
        .axes[0]
        .get_lines()
    )
    assert np.asarray(curve.get_xdata()) == pytest.approx([1000.0, 1000.0, 3000.0])
    assert np.asarray(curve.get_ydata()) == pytest.approx([0.0, 25.0, 62.5])


def test_the_first_attempts_interval_is_named(run: Run) -> None:
    labels = [text.get_text() for text in fig(plots.attempts, run).legends[0].get_texts()]
    assert labels == ["95 % interval of the first attempt's share"]


def test_bars_start_at_zero() -> None:
    drawing = first_attempt([Share("FIFO", 97.2, 96.8, 97.6), Share("x", 80, 70, 90)], "t")
    axes = figure_of(drawing).axes[0]
    assert axes.get_xlim()[0] == 0.0
    assert all(patch.get_x() == 0.0 for patch in axes.patches)  # type: ignore[attr-defined]
    assert {"97.20 %", "80.00 %"} <= set(texts(figure_of(drawing)))


def test_a_long_series_keeps_its_peaks() -> None:
    times = np.arange(100_000) * 0.01
    values = np.zeros(100_000)
    values[54_321] = 7.0
    values[77_777] = np.nan
    few_times, few = thin(times, values)
    assert len(few) <= 3_000
    assert np.nanmax(few) == 7.0
    assert list(few_times) == sorted(few_times)


def test_the_same_run_gives_the_same_files(run: Run, tmp_path: Path) -> None:
    one, two = (write_plots(run_plots(run), tmp_path / name) for name in "ab")
    assert len(one) == 2 * len(run_plots(run))
    for first, second in zip(one, two, strict=True):
        assert first.read_bytes() == second.read_bytes(), first.name
        assert b"<dc:date>" not in first.read_bytes()
    assert [shown.drawing.text() for shown in run_plots(run)] == [
        shown.drawing.text() for shown in run_plots(run)
    ]


def test_plots_leave_matplotlib_as_it_was(run: Run) -> None:
    before = dict(mpl.rcParams)
    style.svg(fig(plots.backlog, run, LINK))
    assert dict(mpl.rcParams) == before


def test_inline_plots_share_no_identifier(run: Run) -> None:
    shown = run_plots(run)
    names: list[str] = []
    for figure in shown:
        text = style.svg_inline(
            style.svg(figure.figure), figure.name.replace(".", "-"), 'a "b" & <c>'
        )
        root = ElementTree.fromstring(text)
        ids = [element.get("id") for element in root.iter() if element.get("id")]
        names += [name for name in ids if name]
        used = re.findall(r'(?:href="#|url\(#)([^")]+)', text)
        assert set(used) <= set(ids)
        title = root.find("{http://www.w3.org/2000/svg}title")
        assert title is not None
        assert title.text == 'a "b" & <c>'
    assert len(names) == len(set(names))


def test_marks_are_drawn_beside_drops_where_there_are_any(run: Run) -> None:
    assert texts(fig(plots.drop_rate, {"a": run}, LINK))[-1:] == ["drops"]
    marked = run.queues.with_columns(marked_early=(30.0 * pl.col("t_s")).cast(pl.UInt64))
    figure = fig(
        plots.drop_rate, {"a": replace(run, tables={**run.tables, "queues": marked})}, LINK
    )
    assert texts(figure)[-2:] == ["drops", "marks"]
    marks = np.asarray(figure.axes[0].get_lines()[1].get_ydata())
    assert np.mean(marks[200:]) == pytest.approx(30.0, rel=0.01)
    style.svg(figure)


def steps(figure: Figure, label: str) -> tuple[Any, Any]:
    """The ends of the steps of a curve, from its start on, and their heights."""
    (line,) = (line for line in figure.axes[0].get_lines() if line.get_label() == label)
    assert line.get_drawstyle() == "steps-pre"
    return np.asarray(line.get_xdata()), np.asarray(line.get_ydata())[1:]


def test_goodput_of_groups_adds_up_to_what_they_received() -> None:
    run = narrows.run(narrows.Scenario.parse(TWO_GROUPS))
    shown = {each.name: each for each in run_plots(run)}
    for group in ("web", "download"):
        ends, rates = steps(shown["goodput"].figure, group)
        received = run.flows.filter(group=group)["bytes_received"].sum()
        assert 1e6 / 8 * np.sum(rates * np.diff(ends)) == pytest.approx(received)
        assert len(rates) <= 200
    # The download starts after 10 s, and takes what the link has left.
    ends, rates = steps(shown["goodput"].figure, "download")
    assert not rates[ends[1:] <= 10.0].any()
    assert rates[ends[1:] > 12.0].mean() > 1.0
    assert "download carried most" in shown["goodput"].alt


def test_a_comparison_draws_the_goodput_of_each_group() -> None:
    here = narrows.Scenario.parse(TWO_GROUPS)
    there = narrows.Scenario.parse(TWO_GROUPS.replace("125 kB", "60 kB"))
    runs = [narrows.run(each, seed=seed) for each in (here, there) for seed in (1, 2)]
    compared = comparison_plots(compare(runs[:3]))
    shown = {each.name: each for each in compared if each.name.startswith("goodput")}
    assert set(shown) == {"goodput-web", "goodput-download"}
    lines = shown["goodput-download"].figure.axes[0].get_lines()
    # The first case has the mean of two seeds and each of them.
    assert len(lines) == 2 + 2
    assert {line.get_drawstyle() for line in lines} == {"steps-pre"}


def test_directions_of_a_group_have_curves_of_their_own() -> None:
    both = TWO_GROUPS.replace(
        'kind = "bulk"\nname = "download"\nsender = "a"\nreceiver = "b"',
        'kind = "bulk"\nname = "both"\npairs = [["a", "b"], ["b", "a"]]',
    )
    (shown,) = (
        each
        for each in run_plots(narrows.run(narrows.Scenario.parse(both)))
        if each.name == "goodput"
    )
    labels = {line.get_label() for line in shown.figure.axes[0].get_lines()}
    assert labels == {"web", "both, forward", "both, backward"}


def test_completion_times_are_drawn_for_each_group() -> None:
    changed = TWO_GROUPS.replace('"bulk"', '"once"').replace("start =", 'size = "1 MB"\nstart =')
    run = narrows.run(narrows.Scenario.parse(changed))
    (shown,) = (each for each in run_plots(run) if each.name.startswith("burst"))
    assert {"web", "download"} <= set(texts(shown.figure))


@pytest.mark.parametrize("count", [1, 2, 4, 5, 7])
@pytest.mark.parametrize("name", ["codel", "home-line, kind fq-codel", 3 * "a long name "])
def test_legends_fit_into_the_plot(count: int, name: str) -> None:
    figure, axes = style.new_figure()
    for number in range(count):
        axes.plot([0, 1], [0, number], label=f"{name} {number}")
    style.below(figure)
    figure.draw_without_rendering()
    legend = figure.legends[0].get_window_extent()
    assert legend.x0 >= 0 and legend.x1 <= figure.bbox.x1
    widest = max(text.get_window_extent().x1 for text in figure.legends[0].get_texts())
    assert widest <= figure.bbox.x1

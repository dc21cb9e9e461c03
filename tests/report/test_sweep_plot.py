from __future__ import annotations

import math
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from made_sweeps import KINDS, LIMITS, RATES, figure, made, summary
from matplotlib.figure import Figure

from narrows.errors import NarrowsError
from narrows.report import plot_sweep
from narrows.report.paper import figure_of
from narrows.report.plots.against import Line, Mean, Ticks, against
from narrows.results import Axis, Sweep, compare_sweeps
from narrows.results.intervals import within
from narrows.results.setting_names import value_names
from narrows.results.student import t_half_width
from narrows.results.sweep_means import metric_named, metrics_of, points, table_of_metrics
from narrows.results.sweep_text import sweep_text

pytestmark = pytest.mark.slow


def drawn_against(*given: Any, **named: Any) -> Figure:
    """What `against` draws, on paper."""
    return figure_of(against(*given, **named))


@pytest.mark.parametrize("count", [1, 2, 4, 5])
def test_tables_and_plots_warn_of_intervals_over_few_seeds(count: int) -> None:
    sweep = made((LIMITS,), seeds=tuple(range(count)))
    runs = tuple(
        replace(run, summary=summary(1.0, 5.0 + 0.1 * at)) for at, run in enumerate(sweep.runs)
    )
    sweep = replace(sweep, runs=runs)
    key = "flows.goodput_mbit_per_s"
    for table in (sweep_text(sweep, [key]), plot_sweep(sweep, key, "limit").table()):
        warned = [
            note for note in table.notes if note.startswith(f"warning: intervals over {count} ")
        ]
        assert len(warned) == (1 < count < 5)
    # One form for all means, whether their intervals are symmetric or not.
    cells = [row[2] for row in sweep_text(sweep, [key]).sections[0][1]]
    assert all((" to " in cell) == (count > 1) and "±" not in cell for cell in cells)


def test_a_missing_mean_is_explained() -> None:
    sweep = made((LIMITS,))
    assert "no mean" not in str(sweep_text(sweep, ["loss_percent"]))

    def without(seeds: tuple[int, ...]) -> Sweep:
        runs = tuple(
            replace(run, summary={**run.summary, "queues": {}})
            if run.settings["queue.limit"] == 1000 and run.seed in seeds
            else run
            for run in sweep.runs
        )
        return replace(sweep, runs=runs)

    table = sweep_text(without((1, 2, 3)), ["loss_percent"])
    assert [row[2] for row in table.sections[0][1]][1] == "-"
    assert any(note.startswith('no mean ("-"): no complete run') for note in table.notes)
    notes = sweep_text(without((2,)), ["loss_percent"]).notes
    assert (
        "limit 1000: queues.wan.forward.run.loss_percent is missing from 1 of 3 runs, so its mean "
        "is of the others"
    ) in notes


def test_points_are_means_with_intervals() -> None:
    plot = plot_sweep(made((LIMITS,)), "loss_percent", "limit")
    assert plot.metric.key == "queues.wan.forward.run.loss_percent"
    first = plot.points[0]
    assert first.mean == pytest.approx(0.2)
    assert (first.low, first.high) == pytest.approx(within([0.1, 0.2, 0.3], 0.0, 100.0))
    (line,) = figure(plot).axes[0].containers
    drawn = line.lines[0].get_xydata()  # type: ignore[attr-defined]
    # Sorted along the axis, whatever the order of the values.
    assert drawn.tolist() == [[10.0, pytest.approx(0.8)], [100.0, pytest.approx(0.2)],
                              [1000.0, pytest.approx(0.5)]]  # fmt: skip


def test_the_interval_of_a_percentage_stays_where_percentages_are() -> None:
    sweep = made((LIMITS,))
    runs = tuple(
        replace(run, summary=summary(loss, 50.0 * loss))
        for run, loss in zip(
            sweep.runs, (0.0, 1.0, 9.0, 99.0, 90.0, 99.9, 50.0, 51.0, 52.0), strict=True
        )
    )
    plot = plot_sweep(replace(sweep, runs=runs), "loss_percent", "limit")
    low, high = plot.points[0].low, plot.points[1].high
    assert low is not None
    assert high is not None
    assert 0.0 < low < 3.0
    assert 96.3 < high < 100.0
    # Far from both ends it is Student's.
    half = t_half_width([50.0, 51.0, 52.0])
    ends = (51.0 - half, 51.0 + half)
    assert (plot.points[2].low, plot.points[2].high) == pytest.approx(ends, abs=0.01)
    other = plot_sweep(replace(sweep, runs=runs), "flows.goodput_mbit_per_s", "limit").points[1]
    assert other.high is not None
    assert other.high > 100.0


def test_what_most_seeds_have_none_of_has_no_interval() -> None:
    # Late packets of five calls: one seed says little about how rare they are.
    sweep = made((LIMITS,), seeds=(1, 2, 3, 4, 5))
    values = (0.0, 0.0, 0.0, 0.0, 0.1845)
    runs = tuple(
        replace(run, summary=summary(values[at % 5], 1.0)) for at, run in enumerate(sweep.runs)
    )
    point = plot_sweep(replace(sweep, runs=runs), "loss_percent", "limit").points[0]
    assert (point.low, point.high, sorted(point.values)) == (None, None, sorted(values))
    assert "0 to 0.1845" in str(sweep_text(replace(sweep, runs=runs), ["loss_percent"]))


@pytest.mark.parametrize(
    ("values", "has_interval"),
    [
        ((99.94, 100.0), False),
        ((97.0, 99.0), False),
        ((100.0,) * 6, False),
        ((100.0, 100.0, 99.9), False),
        ((100.0, 99.8, 99.9), True),
        ((97.0, 99.0, 99.5), True),
    ],
)
def test_a_percentage_has_an_interval_where_it_says_something(
    values: tuple[float, ...], has_interval: bool
) -> None:
    sweep = made((LIMITS,), seeds=tuple(range(len(values))))
    # Goodput varies, so that the seeds are no copies of each other.
    runs = tuple(
        replace(run, summary=summary(values[at % len(values)], 2.0 + at))
        for at, run in enumerate(sweep.runs)
    )
    sweep = replace(sweep, runs=runs)
    plot = plot_sweep(sweep, "loss_percent", "limit")
    assert all((point.low is not None) is has_interval for point in plot.points)
    for table in (str(plot.table()), str(sweep_text(sweep, ["loss_percent"]))):
        assert table.count('no interval ("-"): a percentage ') == (not has_interval)
    assert ("(-)" in str(sweep_text(sweep, ["loss_percent"]))) is not has_interval
    # A metric without such an end has an interval with two seeds.
    assert plot_sweep(sweep, "flows.goodput_mbit_per_s", "limit").points[0].low is not None


def test_a_percentile_at_the_jump_is_said_wherever_it_is_shown() -> None:
    # Two standard deviations of a share of 99 % in 1000 queries are 0.63 points.
    dns = {"queries": 1000, "unanswered": 0, "without_retry_percent": 98.8}
    metrics = {"response_p95_ms": 80.0, "response_p99_ms": 900.0, "within_1s_percent": 99.5}
    sweep = made((LIMITS,))
    runs = tuple(
        replace(run, summary={**summary(1.0, 2.0 + run.seed), "dns": {**dns, **metrics}})
        for run in sweep.runs
    )
    sweep = replace(sweep, runs=runs)
    (compared,) = compare_sweeps([sweep])
    for key, is_said in (("dns.response_p99_ms", True), ("dns.response_p95_ms", False)):
        for table, whose in (
            (sweep_text(sweep, [key]), "combinations"),
            (plot_sweep(sweep, key, "limit").table(), "combinations"),
            (compared.only([key]).table(), "groups"),
        ):
            said = f"warning: all {whose}: 98.8 % of the answered queries were asked once"
            assert str(table).count(said) == is_said
            assert str(table).count("warning") == is_said
    few = plot_sweep(sweep, "dns.response_p99_ms", "limit", where={"limit": 100}).table()
    assert "warning: DNS: 98.8 %" in str(few)


def test_each_seed_is_a_dot_and_the_legend_says_what_lines_are() -> None:
    ecn = [Axis(f"traffic.{name}.tcp.ecn", (False, True)) for name in ("web", "downloads")]
    plot = plot_sweep(made((LIMITS, *ecn)), "loss_percent", "limit", [axis.key for axis in ecn])
    drawn = figure(plot)
    (legend,) = drawn.legends
    assert legend.get_title().get_text() == "web.tcp.ecn, downloads.tcp.ecn"
    labels = [text.get_text() for text in legend.get_texts()]
    assert labels == ["false, false", "false, true", "true, false", "true, true"]
    dots = [line for line in drawn.axes[0].lines if line.get_label() == "_seeds"]
    assert sum(len(line.get_ydata()) for line in dots) == 3 * len(plot.points)  # type: ignore[arg-type]


def test_axes_that_span_decades_are_logarithmic() -> None:
    plot = plot_sweep(made((LIMITS,)), "flows.goodput_mbit_per_s", "queue.limit")
    axes = figure(plot).axes[0]
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "linear")
    figure(plot).draw_without_rendering()
    assert [label.get_text() for label in axes.get_xticklabels()] == ["10", "100", "1000"]
    axes = figure(plot_sweep(made((LIMITS, RATES)), "goodput_mbit_per_s", "limit", ["rate"])).axes[
        0
    ]
    assert axes.get_yscale() == "log"
    wished = plot_sweep(
        made((LIMITS,)), "loss_percent", "limit", x_scale="linear", y_scale="linear"
    )
    assert figure(wished).axes[0].get_xscale() == "linear"


def test_quantities_share_a_unit_and_names_their_places() -> None:
    axes = figure(plot_sweep(made((RATES, KINDS)), "loss_percent", "rate", ["queue"])).axes[0]
    assert axes.get_xlabel() == "rate of wan (kbit/s)"
    assert axes.get_ylabel() == "packets dropped (%)"
    assert sorted(axes.get_xticks()) == [500.0, 1000.0, 2000.0]
    assert axes.get_legend_handles_labels()[1] == ["pfifo", "red"]
    axes = figure(plot_sweep(made((RATES, KINDS)), "loss_percent", "queue", ["rate"])).axes[0]
    assert axes.get_xlabel() == "queue (kind)"
    assert [label.get_text() for label in axes.get_xticklabels()] == ["pfifo", "red"]


@pytest.mark.parametrize("axis", [LIMITS, KINDS])
@pytest.mark.parametrize("y_scale", ["linear", "log"])
def test_the_axes_hold_all_dots(axis: Axis, y_scale: str) -> None:
    # Goodputs of four queues, with single seeds far below the others.
    sweep = made((axis,), seeds=tuple(range(1, 11)))
    goodputs = [18.98, 18.97, 18.99, 18.96, 18.98, 18.2, 18.97, 18.99, 18.98, 18.6]
    runs = tuple(
        replace(run, summary=summary(1.0, goodputs[at % 10] - 0.01 * (at // 10)))
        for at, run in enumerate(sweep.runs)
    )
    plot = plot_sweep(
        replace(sweep, runs=runs), "flows.goodput_mbit_per_s", axis.key, y_scale=y_scale
    )
    drawn = figure(plot)
    drawn.draw_without_rendering()
    axes = drawn.axes[0]
    for line in axes.lines:
        if line.get_label() == "_seeds":
            shown = line.get_transform().transform(line.get_xydata())
            for x, y in shown:
                assert axes.bbox.y0 < y < axes.bbox.y1
                assert axes.bbox.x0 < x < axes.bbox.x1


@pytest.mark.parametrize("axis", [LIMITS, KINDS, Axis("variant", tuple("abcdefgh"))])
def test_a_row_of_equal_seeds_stays_within_the_axes(axis: Axis) -> None:
    sweep = made((axis,), seeds=tuple(range(20)))
    runs = tuple(replace(run, summary=summary(1.0, 5.0)) for run in sweep.runs)
    # The last seed differs, because equal runs would be no seeds.
    runs = (*runs[:-1], replace(runs[-1], summary=summary(1.0, 6.0)))
    drawn = figure(plot_sweep(replace(sweep, runs=runs), "flows.goodput_mbit_per_s", axis.key))
    drawn.draw_without_rendering()
    axes = drawn.axes[0]
    # The radius of a dot, whose size is given in points.
    radius = 3.0 * drawn.dpi / 72.0
    ends = [
        x + radius
        for line in axes.lines
        if line.get_label() == "_seeds"
        for x, _ in line.get_transform().transform(line.get_xydata())
    ]
    assert len(ends) == 20 * len(axis.values)
    assert max(ends) < axes.bbox.x1


def test_a_logarithmic_axis_cuts_intervals_that_reach_zero() -> None:
    sweep = made((LIMITS,))
    values = (0.2, 0.1, 3.0)
    runs = tuple(
        replace(run, summary=summary(1.0, values[at % 3])) for at, run in enumerate(sweep.runs)
    )
    plot = plot_sweep(replace(sweep, runs=runs), "flows.goodput_mbit_per_s", "limit", y_scale="log")
    assert {point.low for point in plot.points} == {0.0}
    axes = figure(plot).axes[0]
    assert axes.get_yscale() == "log"
    bottom, top = axes.get_ylim()
    assert 0.0 < bottom < 0.1
    (bars,) = axes.containers
    ends = [y for part in bars.lines[2][0].get_segments() for _, y in part]  # type: ignore[attr-defined]
    assert min(ends) == pytest.approx(bottom) and max(ends) < top
    (text,) = [text.get_text() for text in axes.texts if "means of" in text.get_text()]
    assert "an interval that ends at the lower edge goes on to 0" in " ".join(text.split())
    runs = (*runs[:-1], replace(runs[-1], summary=summary(1.0, 0.0)))
    with pytest.raises(NarrowsError, match="scale log: a value is 0, and"):
        plot_sweep(replace(sweep, runs=runs), "flows.goodput_mbit_per_s", "limit", y_scale="log")
    with pytest.raises(NarrowsError, match="scale log: queue has names"):
        plot_sweep(made((KINDS,)), "loss_percent", "queue", x_scale="log")


def test_a_legend_that_fits_is_one_row() -> None:
    four = Axis("variant", ("pfifo", "codel", "fq-codel", "pie"))
    drawn = figure(plot_sweep(made((LIMITS, four)), "loss_percent", "limit", ["variant"]))
    drawn.draw_without_rendering()
    rows = {round(text.get_window_extent().y0) for text in drawn.legends[0].get_texts()}
    assert len({row // 6 for row in rows}) == 1, rows


def test_axes_and_titles_say_what_they_show() -> None:
    connections = Axis("traffic.connections", (1, 4))
    plot = plot_sweep(
        made((connections, LIMITS)), "flows.goodput_mbit_per_s", "connections", ["limit"]
    )
    axes = figure(plot).axes[0]
    assert axes.get_xlabel() == "connections of the traffic"
    assert axes.get_ylabel() == "goodput (Mbit/s)"
    assert axes.get_title(loc="left") == "TCP (bulk, once, on-off and ftp): goodput"
    axes = figure(plot_sweep(made((LIMITS,)), "loss_percent", "limit")).axes[0]
    assert axes.get_xlabel() == "limit of the queue (packets)"


def test_long_labels_stay_in_the_plot_and_cover_nothing() -> None:
    long = "answered within a second, of all queries that had a second to be answered in (%)"
    variants = [Line(name, [Mean(1.0, 2.0, None, None)]) for name in ("codel", "fq-codel")]
    drawn = drawn_against(
        variants,
        Ticks(
            "interval of the queue and then some more words than have room here (ms)", [1.0], None
        ),
        title=f"DNS: {long}",
        subtitle=f"means of 6 seeds with 95 % intervals; {long}; {long}",
        y_label=long,
        legend="variant",
    )
    drawn.draw_without_rendering()
    axes = drawn.axes[0]
    (subtitle,) = (text for text in axes.texts if text.get_text().startswith("means"))
    label = axes.yaxis.label.get_window_extent()
    title = axes._left_title.get_window_extent()  # type: ignore[attr-defined]
    boxes = [label, title, subtitle.get_window_extent(), axes.xaxis.label.get_window_extent()]
    for box in boxes:
        assert drawn.bbox.x0 <= box.x0 < box.x1 <= drawn.bbox.x1
        assert drawn.bbox.y0 <= box.y0 < box.y1 <= drawn.bbox.y1
    assert not label.overlaps(drawn.legends[0].get_window_extent())
    assert not title.overlaps(subtitle.get_window_extent())


def test_equal_seeds_are_dots_side_by_side() -> None:
    values = (5.0, 5.0, 1.0, 5.0, 5.0, 5.0)
    series = [
        Line(name, [Mean(at, 4.3, 3.0, 5.6, values) for at in (1.0, 2.0)]) for name in ("a", "b")
    ]
    drawn = drawn_against(series, Ticks("key", [1.0, 2.0], None), title="", subtitle="", y_label="")
    drawn.draw_without_rendering()
    axes = drawn.axes[0]
    seen: list[tuple[float, float]] = []
    for line in axes.lines:
        if line.get_label() == "_seeds":
            seen += map(tuple, line.get_transform().transform(line.get_xydata()))
    # Two series of six seeds at two places: no dot covers another.
    assert len(seen) == 2 * 2 * 6
    assert len({(round(x), round(y)) for x, y in seen}) == 2 * 2 * 6
    assert all(axes.bbox.x0 < x < axes.bbox.x1 for x, _ in seen)


@pytest.mark.parametrize(
    ("values", "note"),
    [
        ((563.0, 918.0), None),
        ((700.0, 918.0), "axis begins at 680 ms"),
        ((18.2, 18.99), "axis begins at 18.13 ms"),
        ((-3.0, 918.0), None),
        ((0.0, 0.0), None),
    ],
)
def test_an_axis_that_begins_above_zero_says_so(
    values: tuple[float, ...], note: str | None
) -> None:
    series = [Line("", [Mean(float(n), y, None, None) for n, y in enumerate(values)])]
    drawn = drawn_against(
        series, Ticks("key", [0.0, 1.0], None), title="", subtitle="", y_label="", unit="ms"
    )
    axes = drawn.axes[0]
    notes = [text.get_text() for text in axes.texts if "begins" in text.get_text()]
    assert notes == ([] if note is None else [note])
    assert note is not None or axes.get_ylim()[0] <= 0.0


def test_a_single_seed_has_no_interval() -> None:
    plot = plot_sweep(made((LIMITS,), seeds=(1,)), "loss_percent", "limit")
    assert {(point.low, point.high) for point in plot.points} == {(None, None)}
    texts = [text.get_text() for text in figure(plot).axes[0].texts]
    assert "single runs: more seeds would give intervals" in texts


@pytest.mark.parametrize(
    ("metric", "against", "options", "message"),
    [
        ("loss", "limit", {}, r'is no metric loss; hint: did you mean "queues.wan.forward.run'),
        ("loss_percent", "limt", {}, r'limt was not varied; hint: did you mean "limit"'),
        (
            "loss_percent",
            "limit",
            {},
            "links.wan.rate was varied too.*`by` links.wan.rate, or `where`",
        ),
        ("loss_percent", "limit", {"where": {"rate": "3 Mbit/s"}}, "rate=3 Mbit/s was not run"),
        ("loss_percent", "limit", {"by": ["limit"]}, "a key is given twice"),
        ("loss_percent", "limit", {"by": ["rate"], "x_scale": "log2"}, "one of auto, linear, log"),
        ("nothing_at_all", "limit", {}, "hint: one of queues"),
        (
            "queues.wan.forward.run.loss_per_s",
            "limit",
            {},
            'did you mean "queues.wan.forward.run.loss_percent"',
        ),
        ("mbit", "limit", {}, 'did you mean "flows.goodput_mbit_per_s" or "flows.groups.a.good'),
    ],
)
def test_what_cannot_be_drawn_is_refused(
    metric: str, against: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(NarrowsError, match=message):
        plot_sweep(made((LIMITS, RATES)), metric, against, **options)


def test_a_key_is_named_once_in_a_hint() -> None:
    variants = Axis("variant", ("red", "fifo"), {"red": {"queue.kind": "red"}, "fifo": {}})
    with pytest.raises(NarrowsError, match=r'zzz was not varied; hint: it can only be "variant"$'):
        plot_sweep(made((variants,)), "loss_percent", "zzz")


def test_all_metrics_are_listed() -> None:
    lines = str(table_of_metrics(made((LIMITS,)))).splitlines()
    assert [line.split()[0] for line in lines[4:]] == list(metrics_of(made((LIMITS,))))
    assert "queue wan.forward, whole run: packets dropped" in lines[4]


def test_files_and_numbers(tmp_path: Path) -> None:
    plot = plot_sweep(made((LIMITS,)), "loss_percent", "limit")
    written = plot.write(tmp_path)
    name = "queues.wan.forward.run.loss_percent-against-queue.limit"
    assert [path.name for path in written] == [f"{name}.png", f"{name}.svg"]
    assert written[0].read_bytes().startswith(b"\x89PNG")
    again = plot_sweep(made((LIMITS,)), "loss_percent", "limit").write(tmp_path / "again")
    assert [path.read_bytes() for path in written] == [path.read_bytes() for path in again]
    assert "100             3       0.2" in str(plot.table())
    assert len(plot.document()["points"]) == 3


def test_units_are_those_of_the_metric() -> None:
    sweep = made((LIMITS,))
    backlog = metric_named(sweep, "backlog_mean_bytes")
    assert (backlog.unit, backlog.scale) == ("kB", 1e-3)
    assert points(sweep, backlog)[0].mean == 5.0
    # The list names the unit of the table, and that of plots.
    (line,) = [line for line in str(table_of_metrics(sweep)).splitlines() if "backlog_mean" in line]
    assert line.endswith("  B (kB in plots)")
    assert set(metrics_of(sweep)) == {
        "queues.wan.forward.run.loss_percent",
        "queues.wan.forward.run.backlog_mean_bytes",
        "flows.goodput_mbit_per_s",
        "flows.groups.a.goodput_mbit_per_s",
    }
    # The text has the units of the table, which are in its names.
    assert "5000  " in str(sweep_text(sweep, ["backlog_mean_bytes"]))


def test_seeds_that_all_give_the_same_give_no_interval() -> None:
    sweep = made((LIMITS,))
    same = tuple(replace(run, summary=sweep.runs[0].summary) for run in sweep.runs)
    sweep = replace(sweep, runs=same)
    metric = metric_named(sweep, "loss_percent")
    assert {(point.low, point.high) for point in points(sweep, metric)} == {(None, None)}
    assert "3 of 3 combinations give the same with every seed" in str(sweep_text(sweep))


def test_every_line_can_be_told_apart() -> None:
    many = made((LIMITS, Axis("duration", tuple(f"{n} s" for n in range(1, 40)))), seeds=(1,))
    with pytest.raises(NarrowsError, match="39 lines could not be told apart"):
        plot_sweep(many, "loss_percent", "limit", ["duration"])
    few = plot_sweep(many, "loss_percent", "limit", where={"duration": "3 s"})
    assert math.isfinite(few.points[0].mean)


def test_what_is_possible_is_the_same_for_all_points() -> None:
    sweep = made((LIMITS,))
    at = {str(run.settings): [0.1, 0.9, 0.1] for run in sweep.runs}
    at[str(sweep.runs[0].settings)] = [-1.0, 1.0, 3.0]
    changed = tuple(
        replace(run, summary={"flows": {"goodput_mbit_per_s": at[str(run.settings)].pop()}})
        for run in sweep.runs
    )
    sweep = replace(sweep, runs=changed)
    first, *others = points(sweep, metric_named(sweep, "flows.goodput_mbit_per_s"))
    assert first.mean == 1.0
    # The metric may be negative, so Student's t interval of the others is not cut at zero:
    # 4.303 is the quantile for two degrees of freedom, 0.8 / 3 the mean's standard error.
    for point in others:
        assert point.low == pytest.approx(1.1 / 3 - 4.303 * 0.8 / 3, abs=1e-3)


def test_tables_are_named_by_what_differs_and_leave_room_to_draw() -> None:
    pie = {"kind": "pie", "limit": 1000, "target": "15 ms", "tupdate": "15 ms", "ecn": True}
    fq = {"kind": "fq-codel", "limit": 10240, "flows": 1024, "target": "5 ms"}
    red = {"kind": "red", "limit": "400 kB", "min": "30 kB", "max": "90 kB", "avpkt": "1400 B"}
    tables = (pie, fq, red, {**red, "ecn": True}, {**red, "min": "9 kB", "max": "27 kB"})
    names = value_names(Axis("queue", tables))
    assert list(names.values())[:2] == ["pie", "fq-codel"]
    plot = plot_sweep(made((Axis("queue", tables),)), "loss_percent", "queue")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure(plot).canvas.draw()
    assert figure(plot).axes[0].get_position().height > 0.4
    labels = [label.get_text() for label in figure(plot).axes[0].get_xticklabels()]
    assert max(len(line) for label in labels for line in label.split("\n")) <= 24
    text = str(plot.table())
    assert "{" not in text and "\nfq-codel " in text


def test_names_of_any_length_leave_room_to_draw() -> None:
    variants = Axis("variant", tuple(f"{letter} {'long name ' * 20}" for letter in "abcd"), {})
    plot = plot_sweep(made((LIMITS, variants)), "loss_percent", "variant", ["limit"])
    other = plot_sweep(made((LIMITS, variants)), "loss_percent", "limit", ["variant"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for each in (plot, other):
            figure(each).canvas.draw()
            position = figure(each).axes[0].get_position()
            assert position.height > 0.2 and position.width > 0.5


def test_a_plot_says_what_its_means_leave_out() -> None:
    sweep = made((LIMITS,))
    pages = {"loads": 100, "completed": 90, "load_mean_s": 2.0}
    groups = {"near": {**pages, "completed": 100}, "far": {**pages, "completed": 80}}
    runs = tuple(
        replace(run, summary={**run.summary, "pages": {**pages, "loads": 200, "groups": groups}})
        for run in sweep.runs
    )
    sweep = replace(sweep, runs=runs)
    notes = plot_sweep(sweep, "pages.groups.far.load_mean_s", "limit").notes
    assert any("pages, group far: only 240 of 300 loads ended" in note for note in notes)
    # All near pages ended, and goodput leaves out none.
    for metric in ("pages.groups.near.load_mean_s", "loss_percent"):
        assert not any("ended" in note for note in plot_sweep(sweep, metric, "limit").notes)

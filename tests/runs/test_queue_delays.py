"""The table `queue_delays`: waiting times by ECN field, against counters that others keep."""

from __future__ import annotations

import warnings
from dataclasses import replace

import polars as pl
import pytest

from narrows import Scenario, ScenarioError, run
from narrows.report.paper import figure_of
from narrows.report.run_report import run_plots
from narrows.results import compare

TEXT = """
name = "delays"
seed = 3
duration = "12 s"

[[links]]
name = "bottleneck"
between = ["R1", "R2"]
rate = "10 Mbit/s"
delay = "10 ms"
queue = { kind = "codel", ecn = true }

[[links]]
name = "left"
between = ["a", "R1"]
rate = "100 Mbit/s"
delay = "0 s"

[[links]]
name = "right"
between = ["R2", "b"]
rate = "100 Mbit/s"
delay = "0 s"

[[traffic]]
kind = "bulk"
name = "ecn"
sender = "a"
receiver = "b"
connections = 1
tcp = { ecn = true }

[[traffic]]
kind = "bulk"
name = "classic"
sender = "a"
receiver = "b"
connections = 1

[monitor]
queues = { links = ["bottleneck.forward"], rate = 1 }
queue_delays = ["bottleneck.forward"]
"""


@pytest.mark.parametrize("queue", ["codel", "fq-codel", "red", "pfifo"])
def test_classes_add_up_to_the_queues_counters(queue: str) -> None:
    kinds = {
        "codel": '{kind="codel", ecn=true}',
        "fq-codel": '{kind="fq-codel", ecn=true}',
        "red": '{kind="red", limit="120 kB", min="15 kB", max="45 kB", avpkt="1000 B", burst=25, '
        "probability=0.1, ecn=true}",
        "pfifo": '{kind="pfifo", limit=40}',
    }
    scenario = Scenario.parse(TEXT, set={"links.bottleneck.queue": kinds[queue]})
    done = run(scenario)
    delays, last = done.table("queue_delays"), done.queues.sort("t_s").row(-1, named=True)
    dropped = last["dropped_overflow"] + last["dropped_early"] + last["dropped_forced"]
    marked = last["marked_early"] + last["marked_forced"]
    assert delays["marked_packets"].sum() == pytest.approx(marked, abs=2)
    assert delays["dropped_packets"].sum() == dropped
    assert delays["sent_packets"].sum() == pytest.approx(last["sent_packets"], abs=45)
    by_ecn = {row["ecn"]: row for row in delays.iter_rows(named=True)}
    assert by_ecn.keys() == {"not-ect", "ect0"}
    assert by_ecn["not-ect"]["marked_packets"] == 0
    for row in by_ecn.values():
        quantiles = [row[f"wait_{name}_ms"] for name in ("p50", "p95", "p99")]
        assert quantiles == sorted(quantiles) and quantiles[2] <= row["wait_max_ms"]
    # The samples count the transmission of 1.2 ms too.
    sojourn = done.queues.filter(pl.col("t_s") > 1)["sojourn_max_ms"].max()
    longest = delays["wait_max_ms"].max()
    assert isinstance(sojourn, float) and isinstance(longest, float)
    assert longest <= done.queues["sojourn_max_ms"].max()
    assert longest == pytest.approx(done.queues["sojourn_max_ms"].max() - 1.2, abs=1.3)


def test_histograms_hold_every_packet_to_within_a_64th() -> None:
    done = run(Scenario.parse(TEXT))
    for row in done.table("queue_delays").iter_rows(named=True):
        bins = done.table("queue_delay_bins").filter(link=row["link"], ecn=row["ecn"])
        low, high, packets = bins["from_ms"], bins["to_ms"], bins["packets"]
        assert packets.sum() == row["sent_packets"]
        assert (high > low).all() and (low[1:] >= high[:-1]).all()
        # A nanosecond is 1e-6 ms.
        assert (high - low <= low / 64 + 1.0001e-6).all()
        # The mean is exact, and does not come from the bins.
        least, most = ((edge * packets).sum() / packets.sum() for edge in (low, high))
        assert least <= row["wait_mean_ms"] <= most < least * (1 + 1.01 / 64)
        assert low[-1] <= row["wait_max_ms"] < high[-1]
        above = 100.0 * packets.cum_sum(reverse=True) / packets.sum()
        assert bins["at_least_percent"].to_list() == pytest.approx(above.to_list())
        for share, name in ((0.5, "p50"), (0.99, "p99"), (0.999, "p999"), (0.9999, "p9999")):
            # The first bin up to which this share of the packets has waited.
            at = int((packets.cum_sum() >= share * packets.sum()).arg_max() or 0)
            assert low[at] <= row[f"wait_{name}_ms"] <= high[at]


def test_reports_draw_the_histograms() -> None:
    done = run(Scenario.parse(TEXT))
    [shown] = done.plot("waits")
    assert [curve.label for curve in shown.drawing.curves] == ["not-ect", "ect0"]
    assert "99.99 % of ect0 packets waited for" in shown.alt
    other = run(Scenario.parse(TEXT, set={"links.bottleneck.queue": '{kind="pfifo", limit=40}'}))
    both = compare([done, other]).plot("waits")
    assert [one.name for one in both] == [
        "waits-bottleneck.forward-not-ect",
        "waits-bottleneck.forward-ect0",
    ]
    for one in both:
        assert len(one.drawing.curves) == 2
        assert all(curve.y[0] == 100.0 for curve in one.drawing.curves)


def test_the_window_counts_and_the_monitor_changes_nothing() -> None:
    plain = run(Scenario.parse(TEXT.replace("queue_delays", "# queue_delays")))
    whole = run(Scenario.parse(TEXT))
    assert "queue_delays" not in plain.tables
    for name in ("flows", "queues"):
        assert whole.table(name).equals(plain.table(name), null_equal=True)
    part = run(Scenario.parse(TEXT + '\n[measure]\nfrom = "2 s"\nto = "8 s"\n'))
    sent = part.table("queue_delays")["sent_packets"].sum()
    # A full link sends 10 Mbit/s / 1514 B, framing included, for six seconds.
    assert sent == pytest.approx(6 * 10e6 / 8 / 1538, rel=0.06)
    assert sent < whole.table("queue_delays")["sent_packets"].sum()


def test_an_unknown_link_is_named_with_a_suggestion() -> None:
    with pytest.raises(ScenarioError, match=r'monitor.queue_delays\[0\]: "bottlenek'):
        Scenario.parse(TEXT.replace('queue_delays = ["bottleneck', 'queue_delays = ["bottlenek'))


@pytest.mark.parametrize("ecn", ["not-ect", "ect0", "ect1"])
def test_datagrams_carry_their_groups_ecn_field(ecn: str) -> None:
    text = (
        TEXT.split("[[traffic]]")[0]
        + f"""
[[traffic]]
kind = "udp"
name = "stream"
sender = "a"
receiver = "b"
rate = "12 Mbit/s"
ecn = "{ecn}"

[monitor]
queue_delays = ["bottleneck.forward"]
"""
    )
    (row,) = run(Scenario.parse(text)).table("queue_delays").iter_rows(named=True)
    assert row["ecn"] == ecn
    assert (row["marked_packets"] > 0) == (ecn != "not-ect")


CLASSES = {
    "prio": (
        '{kind="prio", bands=[{name="ecn", match=[{ecn=true}], queue={kind="pfifo", limit=50}}, '
        '{name="rest", queue={kind="pfifo", limit=50}}]}',
        {"ecn": "ect0", "rest": "not-ect"},
    ),
    "dualpi2": ('{kind="dualpi2", any_ect=true}', {"l4s": "ect0", "classic": "not-ect"}),
}


@pytest.mark.parametrize("queue", CLASSES)
def test_classes_that_follow_the_ecn_field_have_its_rows(queue: str) -> None:
    kind, fields = CLASSES[queue]
    # SYNs are not ECN-capable, so the window begins after them.
    text = TEXT + '\n[measure]\nfrom = "2 s"\n'
    done = run(Scenario.parse(text, set={"links.bottleneck.queue": kind}))
    for table in ("delays", "delay_bins"):
        by_class = done.table(f"queue_class_{table}")
        assert set(by_class["class"]) == set(fields)
        for name, ecn in fields.items():
            alone = by_class.filter(pl.col("class") == name).drop("class")
            assert alone.height and alone.equals(
                done.table(f"queue_{table}").filter(ecn=ecn).drop("ecn")
            )


def test_tins_are_classes_also_if_the_packets_are_washed() -> None:
    text = TEXT.replace("connections = 1\ntcp", "connections = 1\ndscp = 46\ntcp")
    kind = '{kind="cake", rate="9 Mbit/s", tins="diffserv4", wash=WASH}'
    washed, plain = (
        run(Scenario.parse(text, set={"links.bottleneck.queue": kind.replace("WASH", wash)}))
        for wash in ("true", "false")
    )
    rows = washed.table("queue_class_delays")
    assert rows["class"].to_list() == ["best-effort", "voice"]
    assert rows.equals(plain.table("queue_class_delays"))
    last = washed.queues.sort("t_s").row(-1, named=True)
    assert rows["sent_packets"].sum() == pytest.approx(last["sent_packets"], abs=45)


def test_a_plot_of_many_classes_shows_those_with_the_most_packets_and_says_so() -> None:
    done = run(Scenario.parse(TEXT, set={"links.bottleneck.queue": '{kind="cake"}'}))
    rows, bins = (done.table(f"queue_class_delay{end}") for end in ("s", "_bins"))
    names = [f"class {number}" for number in range(64)]
    many = replace(
        done,
        tables={
            **done.tables,
            "queue_class_delays": pl.concat(
                rows.head(1).with_columns(
                    pl.lit(name).alias("class"),
                    # Those in the middle have the most, and one has none.
                    pl.lit(max(0, 31 - abs(32 - number)), pl.UInt64).alias("sent_packets"),
                )
                for number, name in enumerate(names)
            ),
            "queue_class_delay_bins": pl.concat(
                bins.with_columns(pl.lit(name).alias("class")) for name in names
            ),
        },
    )
    plots = {shown.name: shown for shown in run_plots(many)}
    drawing = plots["class-waits-bottleneck.forward"].drawing
    assert [curve.label for curve in drawing.curves] == names[27:37]
    assert drawing.title == (
        "Time in the 10 classes with most packets, of 61, at bottleneck.forward"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure_of(drawing).canvas.draw()


def test_a_queue_without_classes_has_no_table_of_them() -> None:
    assert "queue_class_delays" not in run(Scenario.parse(TEXT)).tables

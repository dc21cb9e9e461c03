"""The window that `[measure]` declares: what counts within it, and what it changes."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from narrows import Run, Scenario, ScenarioError, run
from narrows.records.plotted import Extreme
from narrows.report import REPORT_FILE, plots, write_run_report
from narrows.report.evaluate import Data, extreme
from narrows.report.shown import shown_of
from narrows.results import summary_table
from narrows.results.checked import fault_of_document
from narrows.results.compare import Group, compare_groups

SCENARIO = """
name = "windows"
duration = "30 s"
[[links]]
name = "wan"
between = ["server", "home"]
rate = "5 Mbit/s"
delay = "20 ms"
loss = 0.001
queue = { kind = "red", limit = "60 kB", avpkt = "1000 B", probability = 0.1, ecn = true }
[monitor]
queues = { links = ["wan.forward"], rate = 100 }
links = { links = ["wan.forward"], rate = 100 }
[[traffic]]
kind = "bulk"
name = "early"
sender = "server"
receiver = "home"
connections = 3
ecn_share = 0.5
stop = "12 s"
[[traffic]]
kind = "bulk"
name = "late"
sender = "server"
receiver = "home"
start = "14 s"
[[traffic]]
kind = "on-off"
name = "web"
sender = "server"
receiver = "home"
burst = "20 kB"
idle_mean = "500 ms"
[[traffic]]
kind = "voip"
name = "calls"
sender = "server"
receiver = "home"
calls = 4
start = "3 s"
spread = "20 s"
[[traffic]]
kind = "udp"
name = "video"
sender = "server"
receiver = "home"
rate = "300 kbit/s"
packet = "1000 B"
[[traffic]]
kind = "ping"
name = "pings"
sender = "server"
receiver = "home"
interval = "200 ms"
[[dns]]
name = "resolver"
client = "home"
server = "server"
workers = 5
[[dns]]
name = "other"
client = "home"
server = "server"
start = "16 s"
transport = "tcp"
"""

WHOLE = Scenario.parse(SCENARIO)


@pytest.fixture(scope="module")
def whole() -> Run:
    return run(WHOLE)


def within(start: str, end: str) -> Run:
    return run(WHOLE.with_({"measure.from": start, "measure.to": end}))


@pytest.fixture(scope="module")
def parts() -> list[Run]:
    """Windows that follow each other and together cover the whole run."""
    return [within("0 s", "10 s"), within("10 s", "17.3 s"), within("17.3 s", "30 s")]


COUNTS = [
    "dns.queries",
    "dns.unanswered",
    "dns.late_answers",
    "flows.segments_sent",
    "flows.timeouts",
    "flows.ecn_reductions",
    "bursts.bursts",
    "voip.calls",
    "pings.sent",
]


def value(found: Run, path: str) -> Any:
    metric: Any = found.summary
    for key in path.split("/") if "/" in path else path.split("."):
        metric = (metric or {}).get(key)
    return metric or 0


@pytest.mark.parametrize("path", COUNTS)
def test_windows_add_up_to_the_run(path: str, whole: Run, parts: list[Run]) -> None:
    assert sum(value(part, path) for part in parts) == value(whole, path)


@pytest.mark.parametrize(
    "path",
    [
        "queues/wan.forward/run/drops_total_per_s",
        "queues/wan.forward/run/marks_total_per_s",
        "links/wan.forward/run/utilisation_percent",
        "links/wan.forward/run/throughput_mbit_per_s",
        "links/wan.forward/run/lost_per_s",
        "streams/received_mbps",
    ],
)
def test_rates_of_windows_add_up_to_the_runs(path: str, whole: Run, parts: list[Run]) -> None:
    lengths = (10.0, 7.3, 12.7)
    mean = math.fsum(n * value(part, path) for n, part in zip(lengths, parts, strict=True)) / 30.0
    assert value(whole, path) > 0.0
    assert mean == pytest.approx(value(whole, path), rel=0.01)


@pytest.mark.parametrize("group", ["early", "late", "web"])
def test_goodput_covers_the_time_in_which_a_group_was_open(
    group: str, whole: Run, parts: list[Run]
) -> None:
    """The rate in each window times its length is what arrived; the lengths are the window's."""
    received = 0.0
    for part in parts:
        metrics_of = part.summary["flows"]["groups"].get(group)
        if metrics_of is None:
            continue
        window = metrics_of["window"]
        declared = part.summary["window"]
        assert declared["start_s"] <= window["start_s"] < window["end_s"] <= declared["end_s"]
        received += metrics_of["goodput_mbit_per_s"] * window["length_s"]
    rows = whole.flows.filter(whole.flows["group"] == group)
    assert received * 1e6 / 8.0 == pytest.approx(rows["bytes_received"].sum(), rel=1e-6)


def test_windows_with_connections_that_never_open_add_up_too(tmp_path: Path) -> None:
    """Every SYN of the second group is lost, so it has only its SYNs, in whichever window."""
    aside = '[[links]]\nname = "dead"\nbetween = ["server", "gone"]\nrate = "1 Mbit/s"\nloss = 1\n'
    load = '[[traffic]]\nkind = "bulk"\nname = "{0}"\nsender = "server"\nreceiver = "{1}"\n'
    text = SCENARIO.partition("[[traffic]]")[0] + load.format("load", "home")
    scenario = Scenario.parse(text + load.format("lost", "gone") + aside)
    found = run(scenario)
    lost = found.flows.filter(found.flows["group"] == "lost")
    assert lost["start_s"].to_list() == lost["established_s"].to_list() == [None]
    windows = [("0 s", "12 s"), ("12 s", "30 s")]
    parts = [
        run(scenario.with_({"measure.from": start, "measure.to": end})) for start, end in windows
    ]
    sent = [part.summary["flows"]["groups"]["lost"]["segments_sent"] for part in parts]
    assert sum(sent) == found.summary["flows"]["groups"]["lost"]["segments_sent"] > sent[0] > 0
    assert [part.summary["flows"]["groups"]["lost"]["window"] for part in parts] == [None, None]
    write_run_report(found, tmp_path)


def test_a_group_that_had_ended_does_not_count(parts: list[Run]) -> None:
    groups = parts[2].summary["flows"]["groups"]
    assert set(groups) == {"late", "web"}
    assert groups["late"]["jain_fairness"] == 1.0


def test_tables_hold_the_whole_run(whole: Run, parts: list[Run]) -> None:
    for name, table in whole.tables.items():
        kept = [column for column in table.columns if column != "measured"]
        for part in parts:
            assert part.tables[name].select(kept).equals(table.select(kept)), name
    measured = sum(part.queries["measured"].sum() for part in parts)
    assert measured == whole.queries["measured"].sum()
    assert "flow_samples" not in whole.tables
    samples = parts[1].table("flow_samples")
    assert samples["t_s"].unique().sort().to_list() == [10.0, 17.3]


def test_people_see_the_window(parts: list[Run], tmp_path: Path) -> None:
    text = str(summary_table(parts[1]))
    assert "30 s simulated" in text and "metrics from 10 to 17.3 s" in text
    assert "queue wan.forward, declared window" in text
    alone = {"a": parts[1]}
    drawn = shown_of(plots.backlog(alone, "wan.forward"), alone).drawing
    names = {level.name for level in drawn.levels}
    assert {"measured from here", "to here"} <= names
    write_run_report(parts[1], tmp_path)
    page = (tmp_path / REPORT_FILE).read_text()
    assert "from 10 to\n17.3 s; curves over time show the whole run" in page
    start = Extreme("min", "queries", "start_s")
    assert (
        extreme(start, Data(parts[1].tables, parts[1].end_s))
        == parts[1].queries["start_s"].min()
        < 1.0
    )


def test_a_comparison_names_different_windows(whole: Run, parts: list[Run]) -> None:
    def warnings(*runs: Run) -> list[str]:
        groups = [Group(f"g{number}", (run,)) for number, run in enumerate(runs)]
        return [note for note in compare_groups(groups).notes if "different times" in note]

    (warning,) = warnings(parts[1], whole)
    assert warning.endswith("g0: 10 to 17.3 s; g1: the whole run")
    assert warnings(parts[0], parts[1])
    assert not warnings(whole, whole) and not warnings(parts[1], parts[1])


def test_a_window_that_the_run_never_reached_has_no_metrics() -> None:
    scenario = WHOLE.with_({"event_limit": 5_000, "measure.from": "20 s"})
    found = run(scenario)
    assert found.end_s < 20.0
    assert any("ended before the window" in flag for flag in found.flags)
    assert found.summary["dns"] is None and found.summary["flows"] is None
    assert found.summary["queues"]["wan.forward"]["run"]["drops_total_per_s"] is None


@pytest.mark.parametrize(
    ("start", "end", "key"),
    [
        ("10 s", "10 s", "measure.from"),
        ("30 s", None, "measure.from"),
        (None, "31 s", "measure.to"),
    ],
)
def test_an_impossible_window_is_refused(start: str | None, end: str | None, key: str) -> None:
    keys = {"measure.from": start, "measure.to": end}
    with pytest.raises(ScenarioError, match=key):
        WHOLE.with_({name: text for name, text in keys.items() if text is not None})


def test_foreign_folders_have_a_window_or_none(whole: Run) -> None:
    document = {**whole.document(), "host": {}}
    for odd in (["10 s"], {"from": "x"}, {"to": 3}, {"from": None}, 7):
        document["scenario"] = {**whole.scenario, "measure": odd}
        assert "measure" in fault_of_document(document)

"""The tables `delays`, `delay_bins` and `packet_delays`: one-way delays, against other tables."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from narrows import Scenario, ScenarioError, run
from narrows.results import compare

TEXT = """
name = "delays"
seed = 3
duration = "8 s"

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
delay = "1 ms"

[[links]]
name = "right"
between = ["R2", "b"]
rate = "100 Mbit/s"
delay = "1 ms"

[[traffic]]
kind = "bulk"
name = "download"
sender = "a"
receiver = "b"
connections = 3
tcp = { ecn = true }

[[traffic]]
kind = "page"
name = "web"
client = "b"
server = "a"
protocol = "http/3"
profile = "desktop-2024"
transport = "quic"
loads = 5

[[dns]]
name = "names"
client = "b"
server = "a"
workers = 3
queries = 30

[monitor]
links = { links = ["left", "right"], rate = 1 }
delays = ["*"]
"""


def _run(text: str = TEXT, **changes: Any) -> Any:
    return run(Scenario.parse(text, set={f"monitor.{key}": to for key, to in changes.items()}))


def test_groups_add_up_to_what_the_hosts_links_carry() -> None:
    done = _run()
    delays = done.table("delays")
    assert delays["flow"].unique().to_list() == [""]
    assert set(delays["group"]) == {"download", "web", "names"}
    for here, there in (("left.forward", "right.forward"), ("right.backward", "left.backward")):
        # What a host sends and gets, as the links that lead from it and to it count it.
        counted = done.links.filter(pl.col("t_s") == done.links["t_s"].max())
        sent, arrived = (counted.filter(link=link)["packets"].item() for link in (here, there))
        data = "there" if here == "left.forward" else "back"
        is_here = (pl.col("direction") == data) == (pl.col("group") == "download")
        rows = list(delays.filter(is_here).iter_rows(named=True))
        assert sum(row["sent_packets"] for row in rows) == pytest.approx(sent, abs=20)
        assert sum(row["arrived_packets"] for row in rows) == pytest.approx(arrived, abs=20)
        # Only what was under way at the end is missing.
        lost = sum(row["lost_packets"] for row in rows)
        assert lost == pytest.approx(sent - arrived, abs=150)
    # No packet is faster than light: 12 ms, and the transmission.
    assert done.table("delay_bins")["to_ms"].min() > 12.0
    names = delays.filter(group="names", direction="there").row(0, named=True)
    queries = done.attempts.filter(transport="udp").height
    assert names["sent_packets"] == queries


def test_every_packet_has_a_row_if_asked_for() -> None:
    done = _run(delays='{ groups = ["download", "names"], flows = true, packets = true }')
    delays, packets = done.table("delays"), done.table("packet_delays")
    assert packets["sent_s"].is_sorted()
    assert set(packets["group"]) == {"download", "names"}
    flows = set(delays.filter(group="download")["flow"]) - {""}
    assert flows == set(done.flows["name"])
    for row in delays.iter_rows(named=True):
        of_row = packets.filter(group=row["group"], direction=row["direction"])
        if row["flow"]:
            of_row = of_row.filter(flow=row["flow"])
        fates = of_row["fate"].value_counts(name="n")
        found = dict(fates.iter_rows())
        assert of_row.height == row["sent_packets"]
        assert found.get("arrived", 0) == row["arrived_packets"]
        assert found.get("lost", 0) == row["lost_packets"]
        times = of_row["delay_ms"].drop_nulls()
        assert times.len() == row["arrived_packets"]
        bins = done.table("delay_bins").filter(
            group=row["group"], flow=row["flow"], direction=row["direction"]
        )
        assert bins["packets"].sum() == times.len()
        if times.is_empty():
            continue
        assert row["delay_mean_ms"] == pytest.approx(times.mean(), abs=2e-6)
        for share, name in ((0.5, "p50"), (0.99, "p99"), (0.9999, "p9999")):
            exact = times.quantile(share, "higher")
            below = times.quantile(share, "lower")
            value = row[f"delay_{name}_ms"]
            assert min(abs(value / exact - 1), abs(value / below - 1)) < 0.01
    assert packets.filter("marked")["ecn"].unique().to_list() == ["ect0"]


def test_measuring_changes_nothing() -> None:
    plain = run(Scenario.parse(TEXT.replace("delays = [", "# ")))
    assert not {"delays", "delay_bins", "packet_delays"} & set(plain.tables)
    done = _run()
    assert "packet_delays" not in done.tables
    for name in ("flows", "links", "queries"):
        assert done.table(name).equals(plain.table(name), null_equal=True)


def test_only_the_window_counts() -> None:
    window = '\n[measure]\nfrom = "2 s"\nto = "5 s"\n'
    part = _run(TEXT + window)
    whole = _run().table("delays")["sent_packets"].sum()
    assert 0.3 * whole < part.table("delays")["sent_packets"].sum() < 0.45 * whole
    packets = _run(TEXT + window, delays='{ groups = ["*"], packets = true }').table(
        "packet_delays"
    )
    assert packets["sent_s"].is_between(2.0, 5.0, closed="left").all()
    assert packets.height == part.table("delays")["sent_packets"].sum()


def test_reports_draw_the_histograms() -> None:
    done = _run()
    [shown] = done.plot("delays")
    labels = [curve.label for curve in shown.drawing.curves]
    assert labels[:2] == ["download, there", "download, back"] and len(labels) == 6
    assert "99.99 % of the packets of download there took" in shown.alt
    other = run(Scenario.parse(TEXT, set={"links.bottleneck.queue": '{kind="pfifo", limit=40}'}))
    both = list(compare([done, other]).plot("delays"))
    assert len(both) == 6 and both[0].name == "delays-download-there"
    assert all(len(one.drawing.curves) == 2 for one in both)


def test_an_unknown_group_is_named_with_a_suggestion() -> None:
    with pytest.raises(ScenarioError, match=r'monitor.delays.groups\[0\]: "wb" is not a group'):
        Scenario.parse(TEXT.replace('["*"]', '["wb"]'))

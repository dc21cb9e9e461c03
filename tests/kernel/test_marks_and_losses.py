"""Code points, losses in bursts and changes of links, on a real kernel and in the simulator."""

from __future__ import annotations

from itertools import groupby

import polars as pl
import pytest

from narrows import Scenario, run

pytestmark = pytest.mark.slow

LINE = """
name = "line"
duration = "60 s"

[[links]]
name = "wan"
between = ["a", "b"]
rate = "{rate}"
delay = "5 ms"
forward = {{ {forward} }}
"""

PROBES = """
[[traffic]]
kind = "ping"
name = "probes"
sender = "a"
receiver = "b"
interval = "2 ms"
spacing = "even"
"""


@pytest.mark.parametrize("simulated", [True, False], ids=["simulator", "kernel"])
def test_losses_come_in_bursts(guest: str, *, simulated: bool) -> None:
    """A bad line loses everything and stays so for 1 / r packets; it is bad for p / (p + r).

    Of 25,000 probes some 960 are lost, in 240 bursts: the standard error of their number is a
    tenth, and that of the bursts' length a twentieth. Those of the last ten seconds do not count:
    on a kernel, a lost probe stays pending for seconds.
    """
    loss = 'loss = { kind = "gilbert-elliott", p = 0.01, r = 0.25 }'
    text = LINE.format(rate="100 Mbit/s", forward=loss) + PROBES
    found = run(Scenario.parse(text), backend="sim" if simulated else guest)
    probes = found.table("pings").sort("sent_s").filter(pl.col("sent_s") < 50)
    fates = probes.get_column("fate").to_list()
    assert len(fates) == 25_000 and "pending" not in fates
    lost = [fate != "answered" for fate in fates]
    bursts = [len(list(run)) for is_lost, run in groupby(lost) if is_lost]
    assert sum(lost) / len(lost) == pytest.approx(0.01 / 0.26, rel=0.35)
    assert sum(bursts) / len(bursts) == pytest.approx(4.0, rel=0.2)


CALLS = """
[[traffic]]
kind = "udp"
name = "urgent"
sender = "a"
receiver = "b"
rate = "400 kbit/s"
packet = "500 B"
dscp = "EF"

[[traffic]]
kind = "bulk"
name = "rest"
sender = "a"
receiver = "b"
connections = 4
"""


@pytest.mark.parametrize("simulated", [True, False], ids=["simulator", "kernel"])
def test_a_band_takes_marked_datagrams_first(guest: str, *, simulated: bool) -> None:
    """They wait for the packet in transmission at most: 1500 bytes take 6 ms at 2 Mbit/s."""
    bands = '{ name = "urgent", match = [{ dscp = "EF" }] }, { name = "rest" }'
    queue = f'queue = {{ kind = "prio", bands = [{bands}] }}'
    text = LINE.format(rate="2 Mbit/s", forward=queue) + CALLS
    found = run(Scenario.parse(text), backend="sim" if simulated else guest)
    late = found.table("streams").filter(pl.col("t_s") > 5.0)
    assert late.get_column("lost_packets").sum() == 0
    assert late.get_column("delay_max_ms").max() < 5.0 + 2.0 + 6.1 + 1.0  # type: ignore[operator]


# ARP goes to the last band. Behind 1000 packets, its replies would come too late for the router.
HOSTS = """
[[links]]
name = "wan"
between = ["R", "b"]
rate = "2 Mbit/s"
delay = "5 ms"
queue = { kind = "prio", bands = [
    { name = "urgent", match = [{ source = "a", destination = "b" }] },
    { name = "rest", queue = { kind = "pfifo", limit = 50 } },
] }

[[links]]
name = "first"
between = ["a", "R"]
rate = "100 Mbit/s"
delay = "0 s"

[[links]]
name = "second"
between = ["c", "R"]
rate = "100 Mbit/s"
delay = "0 s"
"""


@pytest.mark.parametrize("simulated", [True, False], ids=["simulator", "kernel"])
def test_a_band_takes_the_packets_of_a_host_first(guest: str, *, simulated: bool) -> None:
    calls = CALLS.replace('dscp = "EF"\n', "").replace(
        'name = "rest"\nsender = "a"', 'name = "rest"\nsender = "c"'
    )
    text = LINE[: LINE.index("[[links]]")] + HOSTS + calls
    found = run(Scenario.parse(text), backend="sim" if simulated else guest)
    late = found.table("streams").filter(pl.col("t_s") > 5.0)
    assert late.get_column("lost_packets").sum() == 0
    assert late.get_column("delay_max_ms").max() < 5.0 + 2.0 + 6.1 + 1.0  # type: ignore[operator]
    assert found.flows["bytes_received"].sum() > 0.5e6


@pytest.mark.parametrize("simulated", [True, False], ids=["simulator", "kernel"])
def test_a_link_changes_its_queue_and_its_losses(guest: str, *, simulated: bool) -> None:
    """CoDel takes over from a FIFO at 20 s, and a tenth of the packets is lost from 40 s on."""
    changes = """
[[changes]]
at = "20 s"
link = "wan.forward"
queue = { kind = "codel" }
[[changes]]
at = "40 s"
link = "wan.forward"
loss = 0.1
[monitor]
queues = { links = ["wan.forward"], rate = 10 }
links = { links = ["wan.forward"], rate = 10 }
"""
    queue = 'queue = { kind = "pfifo", limit = 100 }'
    traffic = CALLS.replace("connections = 4", "connections = 10")
    text = LINE.format(rate="10 Mbit/s", forward=queue) + traffic + changes
    found = run(Scenario.parse(text), backend="sim" if simulated else guest)

    # Only CoDel drops early. (On a kernel, TCP's small queues keep the FIFO short.)
    early = found.queues.sort("t_s").select("t_s", "dropped_early")
    assert early.filter(pl.col("t_s") < 20.0).get_column("dropped_early").max() == 0
    assert early.get_column("dropped_early").max() > 50  # type: ignore[operator]
    drops = found.queues.select(pl.sum_horizontal("dropped_overflow", "dropped_early"))
    assert drops.to_series().is_sorted(), "the counts go on"
    links = found.links.sort("t_s")
    before = links.filter(pl.col("t_s") < 40.0)
    assert before.get_column("lost").max() == 0
    after = links.filter(pl.col("t_s") > 40.5)
    first, last = after.row(0, named=True), after.row(-1, named=True)
    share = (last["lost"] - first["lost"]) / (last["packets"] - first["packets"])
    assert share == pytest.approx(0.1, rel=0.2)

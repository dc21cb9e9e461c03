"""Scenarios on a real kernel, in a guest, against results of other test beds on the same kernel."""

from __future__ import annotations

import contextlib
import json
import math
import os
import tempfile
from pathlib import Path

import polars as pl
import pytest

from narrows import Run, Scenario, run
from narrows.backends import BackendError, get
from narrows.backends.kernel.slots import slot
from narrows.cli import main
from narrows.reproduce.harhalakis_2011 import PAPER
from tests.kernel.scenarios import aqm, dumbbell

pytestmark = pytest.mark.slow

SHORT = {
    "traffic.background.spread": "1 s",
    "dns.dns.start": "15 s",
    "dns.dns.warm_up": "1",
    "dns.dns.queries": "9",
}


def cell(name: str, backend: str) -> Run:
    (found,) = [cell for cell in PAPER.cells if cell.name == name]
    path = PAPER.folder / "scenarios" / found.scenario
    return run(Scenario.load(path, set={**found.set, **SHORT}), backend=backend)


def rate(result: Run, columns: list[str], start_s: float) -> float:
    """A counter's change per second from a time on."""
    rows = result.queues.filter(pl.col("t_s") >= start_s)
    total = rows.select(pl.sum_horizontal(columns).alias("n"), "t_s")
    first, last = total.row(0, named=True), total.row(-1, named=True)
    return float((last["n"] - first["n"]) / (last["t_s"] - first["t_s"]))


def backlog(result: Run, start_s: float) -> float:
    rows = result.queues.filter(pl.col("t_s") >= start_s)
    return float(rows.get_column("backlog_bytes").cast(pl.Float64).mean())  # type: ignore[arg-type]


def test_a_fifo_of_the_first_paper(guest: str) -> None:
    """docs/kernel-notes.md: 98.9 to 99.2 % and 256 kB in virtual time, 96.81 % in real time.

    Nine hundred queries have a standard error of 0.5 points.
    """
    found = cell("fifo-300", guest).summary
    assert 95.0 < found["dns"]["first_attempt_percent"] <= 100.0
    phase = found["queues"]["bottleneck.forward"]["dns_phase"]
    assert phase["backlog_mean_bytes"] == pytest.approx(256e3, rel=0.03)
    assert phase["marks_total_per_s"] == 0.0
    used = found["links"]["bottleneck.forward"]["dns_phase"]["utilisation_percent"]
    assert used == pytest.approx(100.0, abs=0.5)


def test_red_with_ecn_of_the_first_paper(guest: str) -> None:
    """docs/kernel-notes.md: 85.3 to 86.0 %, 42 drops and 113 to 118 marks a second, 214 to 218 kB.

    Of nine hundred queries: three standard errors are 3.5 points.
    """
    result = cell("red-300-all", guest)
    found = result.summary
    assert 80.0 < found["dns"]["first_attempt_percent"] < 91.0
    phase = found["queues"]["bottleneck.forward"]["dns_phase"]
    assert phase["backlog_mean_bytes"] == pytest.approx(216e3, rel=0.15)
    assert phase["marks_total_per_s"] == pytest.approx(115.0, rel=0.35)
    assert result.flows.get_column("ecn").all()


def test_codel(guest: str) -> None:
    """Another test bed on this kernel, 120 s: 128.8 to 133.5 drops a second, 32.6 to 33.9 kB.

    Its tbf takes each packet from CoDel one frame early and still counts it, so there are two
    frames less here.
    """
    result = run(aqm('{ kind = "codel" }', "20 ms", 20), backend=guest)
    # There are no probes here, which had a tenth of the drops in that bed.
    assert rate(result, ["dropped_early"], 10.0) == pytest.approx(125.0, rel=0.12)
    assert rate(result, ["dropped_overflow"], 10.0) == 0.0
    assert backlog(result, 10.0) == pytest.approx(33.1e3 - 2 * 1514, rel=0.12)


def test_fq_codel_shares_the_link_evenly(guest: str) -> None:
    """Deficit round robin gives each of few flows the same: Jain's index is 1 but for rounding."""
    result = run(aqm('{ kind = "fq-codel", flows = 16384 }', "100 ms", 20), backend=guest)
    assert result.summary["flows"]["jain_fairness"] == pytest.approx(1.0, abs=0.01)
    # A frame of 1514 bytes carries 1448.
    goodput = result.summary["flows"]["goodput_mbit_per_s"]
    assert goodput == pytest.approx(10.0 * 1448 / 1514, rel=0.03)


def test_a_kernel_without_dualpi2_is_told_with_the_key(guest: str) -> None:
    """The guest is Linux 6.1; without the check before a run, the agent finds it out."""
    scenario = dumbbell(links__bottleneck__forward__queue='{ kind = "dualpi2" }')
    why = r"links\.bottleneck\.forward\.queue\.kind: this kernel has no dualpi2"
    with pytest.raises(BackendError, match=why):
        get(guest).run(scenario)


def test_what_was_applied_is_kept(
    guest: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    queue = (
        '{ kind = "red", limit = "300 kB", min = "30 kB", max = "90 kB", burst = 60, ecn = true }'
    )
    scenario = dumbbell(
        duration="10 s",
        links__bottleneck__forward__queue=queue,
        links__internet__loss="0.01",
        traffic__downloads__ecn_share="0.5",
    )
    saved = run(scenario, backend=guest, out=tmp_path / "run")
    run(scenario, out=tmp_path / "sim")
    assert main(["compare", str(tmp_path / "sim"), str(tmp_path / "run")]) == 0
    assert "answered at the first attempt" in capsys.readouterr().out
    document = json.loads((tmp_path / "run" / "run.json").read_text())
    kernel = document["host"]["kernel"]
    assert kernel["virtual_time"] is True
    lines = kernel["applied"]["qdiscs"]["isp"]
    assert any(
        "red 10: " in line and "limit 300000b min 30000b max 90000b ecn" in line for line in lines
    )
    assert any(
        "netem" in line and "loss 1%" in line for line in kernel["applied"]["qdiscs"]["wires"]
    )
    assert kernel["applied"]["settings"]["far"]["ipv4/tcp_ecn"] == "2"
    assert saved.flows.get_column("ecn").sum() == 5
    assert 100 < saved.queries.height <= 200
    assert saved.links.get_column("packets").max() > 1000


def test_delays_are_the_scenarios(guest: str) -> None:
    """An empty network: the round trip is the sum of delays, transmissions and the service time."""
    scenario = dumbbell(
        traffic__downloads__stop="2 s",
        dns__stubs__think_mean="100 ms",
        dns__stubs__service_jitter_mean="0 ms",
        dns__stubs__start="8 s",
    )
    found = run(scenario, backend=guest)
    # Two directions over 5 ms and 2 ms, 0.5 ms at the server; the bottleneck sends 70 and 100 bytes
    # of IP with 38 of framing, and the server's link sends them without.
    expected = 2 * (5.0 + 2.0) + 0.5 + 8e3 * (108 + 138) / 10e6 + 8e3 * 170 / 100e6
    response = found.queries.get_column("rtt_ms").to_list()
    assert math.isclose(min(response), expected, abs_tol=0.05)


def test_datagrams_take_the_time_of_the_path(guest: str) -> None:
    """The stream uses half of the line, so each datagram only takes delay and transmission."""
    text = """
name = "datagrams"
duration = "12 s"
links = [{ name = "wan", between = ["a", "b"], rate = "1 Mbit/s", delay = "10 ms" }]

[[traffic]]
kind = "udp"
name = "stream"
sender = "a"
receiver = "b"
rate = "500 kbit/s"
packet = "500 B"

[[traffic]]
kind = "ping"
name = "probes"
sender = "b"
receiver = "a"
interval = "100 ms"
start = "1 s"
"""
    result = run(Scenario.parse(text), backend=guest)
    streams = result.table("streams")
    assert streams.get_column("sent_packets").sum() == pytest.approx(12.0 * 500e3 / 4000, abs=2)
    # 10 ms of delay and 500 bytes at 1 Mbit/s, behind an answer of 84 bytes at most.
    delays = streams.get_column("delay_min_ms").drop_nulls()
    assert delays.min() == pytest.approx(10.0 + 4.0, abs=0.05)
    longest = streams.sort("t_s").get_column("delay_max_ms").drop_nulls().to_list()
    # The first waits until ARP has resolved the neighbour: 28 bytes there and 28 bytes back.
    assert longest[0] == pytest.approx(10.0 + 4.0 + 2 * (10.0 + 0.224), abs=0.05)
    assert max(longest[1:]) < 10.0 + 4.0 + 1.0
    assert streams.get_column("lost_packets").sum() == 0
    pings = result.table("pings")
    answered = pings.filter(pl.col("fate") == "answered")
    # One is due at the very end.
    assert pings.height in (110, 111) and answered.height >= 109
    # Nothing is in the way there; on the way back, perhaps a datagram of 500 bytes.
    assert answered.get_column("there_ms").min() == pytest.approx(10.672, abs=0.05)
    assert 21.3 < answered.get_column("rtt_ms").min() < 21.4 + 4.0
    assert result.summary["pings"]["lost_percent"] == 0.0


def test_links_change_at_their_times(guest: str) -> None:
    """Probes of 84 bytes: twice the delay and transmission, before the change and after it."""
    text = """
name = "changes"
duration = "8 s"
links = [
    { name = "wan", between = ["a", "b"], rate = "1 Mbit/s", delay = "10 ms" },
    { name = "dead", between = ["a", "c"], rate = "1 Mbit/s", loss = 1.0 },
]
changes = [{ at = "4 s", link = "wan", rate = "2 Mbit/s", delay = "30 ms" }]

[[traffic]]
kind = "ping"
name = "probes"
sender = "a"
receiver = "b"
interval = "500 ms"
start = "1 s"

[[traffic]]
kind = "ping"
name = "unheard"
sender = "a"
receiver = "c"
interval = "500 ms"
start = "1 s"
"""
    result = run(Scenario.parse(text), backend=guest)
    # RFC 1122, 2.3.2.2: a request a second; the kernel gives up after three (arp(7)).
    assert result.host["kernel"]["applied"]["neighbours_failed"] == {"a": 2}
    pings = result.table("pings")
    assert pings.filter(pl.col("group") == "unheard", pl.col("fate") == "answered").is_empty()
    answered = pings.filter(pl.col("fate") == "answered", pl.col("probe") > 0)
    for rows, expected in (
        (answered.filter(pl.col("sent_s") < 3.9), 2 * (10.0 + 0.672)),
        (answered.filter(pl.col("sent_s") > 4.1), 2 * (30.0 + 0.336)),
    ):
        rtts = rows.get_column("rtt_ms").to_list()
        assert len(rtts) >= 5
        assert rtts == pytest.approx([expected] * len(rtts), abs=0.05)


def test_the_processors_time_is_measured_at_the_router(guest: str) -> None:
    """Each packet that isp forwards is received once; what the shaper sends later comes on top."""
    result = run(dumbbell(duration="10 s", dns__stubs__start="2 s"), backend=guest)
    rows = result.tables["processor"].sort("t_s")
    assert rows.get_column("node").unique().to_list() == ["isp"]
    for column in ("cpu_s", "turns"):
        assert rows.get_column(column).diff().min() >= 0  # type: ignore[operator]
    forwarded = result.queues.sort("t_s").row(-1, named=True)
    packets = forwarded["sent_packets"] + forwarded["dropped_early"]
    last = rows.row(-1, named=True)
    assert packets < last["turns"] < 5 * packets
    # A packet takes a present processor some tenths of a microsecond to some hundred microseconds.
    assert 1e-7 < last["cpu_s"] / packets < 1e-4
    assert result.summary["processor"]["cpu_s"] == pytest.approx(last["cpu_s"])


def test_a_guest_computes_on_one_core(guest: str) -> None:
    """Its programs take turns, and a turn on another core would have to wake that core first."""
    seen: set[frozenset[int]] = set()

    def look(_: float) -> None:
        for place in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if f"uml_dir={tempfile.gettempdir()}".encode() in (place / "cmdline").read_bytes():
                    seen.add(frozenset(os.sched_getaffinity(int(place.name))))

    before = os.sched_getaffinity(0)
    result = run(dumbbell(duration="1 s", dns__stubs__start="0.1 s"), backend=guest, progress=look)
    assert result.status == "complete"
    assert seen
    assert all(len(cores) == 1 for cores in seen)
    assert os.sched_getaffinity(0) == before


def test_guests_at_the_same_time_have_different_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with slot(2, lambda: None) as first, slot(2, lambda: None) as second:
        assert {first, second} == {0, 1}

        def stop() -> None:
            raise TimeoutError

        with pytest.raises(TimeoutError), slot(2, stop):
            pass
    with slot(2, lambda: None) as again:
        assert again == 0

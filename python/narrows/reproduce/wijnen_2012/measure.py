"""A run of a cell: a bed with fourteen vantage points, pairs of queries, and metrics of the pairs.

A pair is a query over UDP and one over TCP from the same vantage point and round. They are asked
within seconds of each other, so the paper's limit of 150 seconds is always met.
"""

from __future__ import annotations

import contextlib
import statistics
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from narrows.backends.interrupts import Stopped, until
from narrows.probe import Plan, Target, probe
from narrows.reproduce.claims import Measured
from narrows.reproduce.wijnen_2012.root_zone import soa_reply_bytes, zone_file
from narrows.reproduce.wijnen_2012.settings import (
    CROWD,
    CROWD_RTT_MS,
    RTTS_MS,
    Settings,
    address,
)
from narrows.testbed import (
    SERVER,
    Bed,
    Crowd,
    Link,
    OldServer,
    Requests,
    bed,
    counted,
    crowd,
    emulated,
    missing,
    real,
)

if TYPE_CHECKING:
    from narrows.reproduce.cells import Cell
    from narrows.reproduce.paper import Paper
    from narrows.results import Run

SETTLE_S = 2.5
"""Seconds until a crowd is in its steady state."""

BIN = 0.01
"""The width of a bin in the paper's histogram."""


def lacks(cell: Cell) -> str | None:
    """Why this machine cannot run a cell; None if it can."""
    program = Settings.read(cell.set).server
    return missing() if program == "old" else missing([program])


def not_a_scenario(_: Run) -> Measured:
    """Raises, because the cells of this paper are not scenarios."""
    raise RuntimeError("the experiments of this paper are measurements, not scenarios")


def execute(
    paper: Paper, cell: Cell, set: Mapping[str, str], seed: int, stop: threading.Event
) -> Measured:
    """Runs a cell once.

    Raises:
        BedError: The bed or the server is not available.
        RuntimeError: The run was interrupted.
    """
    settings = Settings.read(set)
    plan = Plan(
        (Target("server", SERVER),),
        sources=tuple(address(rtt) for rtt in RTTS_MS),
        count=settings.rounds,
        interval_s=settings.interval_s,
        timeout_s=settings.timeout_s,
        edns=settings.edns or None,
        late_acknowledgements=settings.late_acknowledgements,
    )

    links = [
        Link(address(rtt), float(rtt), tcp_rtt_ms=settings.tcp_rtt_factor * rtt) for rtt in RTTS_MS
    ]
    requests: Requests | None = None
    with (
        bed([*links, Link(CROWD, CROWD_RTT_MS)], seed=seed) as made,
        _server(made, settings),
        contextlib.ExitStack() as stack,
    ):
        if settings.clients:
            requests = stack.enter_context(counted(made))
        with _others(made, settings, seed), made.client.inside():
            found = probe(plan, until(stop))
    if not found.complete:
        raise Stopped("interrupted")
    return metrics_of(found.exchanges.to_dicts(), requests)


@contextlib.contextmanager
def _others(made: Bed, settings: Settings, seed: int) -> Iterator[None]:
    """Other clients, if there are any, in their steady state."""
    if not settings.clients:
        yield
        return
    others = Crowd(settings.clients, CROWD, settings.hold_s, settings.think_s, seed=seed)
    with crowd(made, others):
        time.sleep(SETTLE_S)
        yield


@contextlib.contextmanager
def _server(made: Bed, settings: Settings) -> Iterator[None]:
    if settings.server == "old":
        old = OldServer(
            writing=settings.writing,  # type: ignore[arg-type]
            slots=settings.slots,
            backlog=settings.backlog,
            tcp_delay_ms=settings.tcp_delay_ms,
            reply_bytes=soa_reply_bytes(),
        )
        with emulated(made, old):
            yield
    else:
        own = {"tcp-count": str(settings.slots)} if settings.server == "nsd" else {}
        root = zone_file() if settings.zone == "2012" else None
        with real(made, settings.server, own, root):
            yield


def metrics_of(
    exchanges: Sequence[Mapping[str, Any]], requests: Requests | None = None
) -> Measured:
    """Metrics of a run's pairs.

    `median`, `peak` (the half-sample mode), shares in percent of the pairs within 0.2 of 2
    (`at_2`) and 0.3 of 3 (`at_3`), `above_4`, `above_10`, between (`between`, 2.2 to 2.8); `failed`
    in percent of the queries over TCP; `segments`, `first_bytes`, `second_bytes` of most replies;
    `slope` and `intercept_ms` of TCP's medians on UDP's over the vantage points; `excess` over two
    round trips, in round trips; `lost` in percent of the queries over TCP, of all clients, that
    arrived at the server's machine and were never answered.
    """
    by_place: dict[tuple[str, int], dict[str, Mapping[str, Any]]] = {}
    for row in exchanges:
        by_place.setdefault((row["vantage"], row["round"]), {})[row["transport"]] = row
    pairs = [
        (place[0], both["udp"]["total_ms"], both["tcp"]["total_ms"])
        for place, both in sorted(by_place.items())
        if len(both) == 2 and all(row["outcome"] == "answered" for row in both.values())
    ]
    over_tcp = [row for row in exchanges if row["transport"] == "tcp"]
    failed = sum(1 for row in over_tcp if row["outcome"] != "answered")
    nan = float("nan")
    names = ("median", "peak", "p95", "at_2", "at_3", "between", "above_4", "above_10", "excess")
    values = dict.fromkeys((*names, "slope", "intercept_ms"), nan)
    values["pairs"] = float(len(pairs))
    values["failed"] = 100.0 * failed / len(over_tcp) if over_tcp else nan
    lost = None if requests is None else requests.lost_percent
    values["lost"] = nan if lost is None else lost
    values |= segments_of(over_tcp)
    if not pairs:
        return Measured(values)
    ratio = np.array([tcp / udp for _, udp, tcp in pairs])
    values["median"] = float(np.median(ratio))
    values["peak"] = peak(ratio.tolist())
    values["p95"] = float(np.quantile(ratio, 0.95))
    values["at_2"] = 100.0 * float(np.mean(np.abs(ratio - 2.0) <= 0.2))
    values["at_3"] = 100.0 * float(np.mean(np.abs(ratio - 3.0) <= 0.3))
    values["between"] = 100.0 * float(np.mean((ratio > 2.2) & (ratio < 2.8)))
    values["above_4"] = 100.0 * float(np.mean(ratio > 4.0))
    values["above_10"] = 100.0 * float(np.mean(ratio > 10.0))
    values["excess"] = float(np.median([(tcp - 2.0 * udp) / udp for _, udp, tcp in pairs]))
    medians = [
        (
            statistics.median(udp for place, udp, _ in pairs if place == vantage),
            statistics.median(tcp for place, _, tcp in pairs if place == vantage),
        )
        for vantage in sorted({place for place, _, _ in pairs})
    ]
    if len(medians) > 2:
        udp_medians, tcp_medians = (list(column) for column in zip(*medians, strict=True))
        slope, intercept = np.polyfit(udp_medians, tcp_medians, 1)
        values["slope"], values["intercept_ms"] = float(slope), float(intercept)
    counts, edges = np.histogram(ratio, bins=np.arange(0.0, 10.0 + BIN, BIN))
    percent = 100.0 * counts / len(ratio)
    curves = {
        "histogram": (edges[:-1].tolist(), percent.tolist()),
        "udp_tcp": ([udp for udp, _ in medians], [tcp for _, tcp in medians]),
    }
    return Measured(values, curves)


def peak(values: Sequence[float]) -> float:
    """The half-sample mode (Bickel and Frühwirth 2006): the densest half, again and again.

    Examples:
        >>> peak([1.0, 2.0, 2.01, 2.04, 3.0, 9.0])
        2.005
    """
    left = sorted(values)
    while len(left) > 2:
        half = (len(left) + 1) // 2
        if half == len(left):
            break
        widths = [left[at + half - 1] - left[at] for at in range(len(left) - half + 1)]
        start = widths.index(min(widths))
        left = left[start : start + half]
        if len(left) == 3:
            low, high = left[1] - left[0], left[2] - left[1]
            left = left[:2] if low < high else left[1:] if high < low else [left[1]]
    return round(statistics.fmean(left), 6)


def segments_of(over_tcp: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The segments into which most replies were cut."""
    cut = [tuple(row["segment_bytes"]) for row in over_tcp if row["segment_bytes"]]
    counts = [row["segments"] for row in over_tcp if row["segments"] is not None]
    usual = statistics.mode(cut) if cut else ()
    nan = float("nan")
    return {
        "segments": float(statistics.mode(counts)) if counts else nan,
        "first_bytes": float(usual[0]) if usual else nan,
        "second_bytes": float(usual[1]) if len(usual) > 1 else nan,
    }

"""A run as a Flent data file."""

from __future__ import annotations

import datetime
import gzip
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from narrows.flent.names import DELAY_S, TEST, ping_series, tcp_series
from narrows.flent.reading import FlentError
from narrows.results import Run, RunFolderError
from narrows.results.goodput import goodput_of, goodput_series
from narrows.unfinished import write_whole

STEP_S = 0.2
"""Flent's time between values, of which `results` has one each."""
FORMAT = 4
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


@dataclass
class _Series:
    """Times in seconds and values of a series, as measured."""

    times: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    """The numbers of probes, by which Flent counts losses."""
    units: str = "Mbits/s"


def write_flent(run: Run, path: str | Path, *, title: str = "") -> Path:
    """Writes a run as a data file of Flent, which its `-i` reads and draws.

    A run of a scenario of `narrows suite rrul` has the names of Flent's test. Any other run is
    written as the test `tcp_ndown`, or as `tcp_bidirectional` if its TCP goes both ways: long
    connections, bursts and pages as TCP series, and probes as pings. Downloads go the way of the
    first group with samples.

    Args:
        run: The run.
        path: The file, which must not exist.
        title: Shown in Flent's legends; the scenario's name by default.

    Raises:
        FlentError: The run has neither TCP's samples nor probes.
        RunFolderError: The file exists, or cannot be written.
    """
    target = Path(path)
    if target.exists():
        raise RunFolderError(target, "exists already", "choose another name")
    document = flent_document(run, title=title)
    text = json.dumps(document, indent=1, sort_keys=True, allow_nan=False)
    data = gzip.compress(text.encode(), mtime=0) if target.suffix == ".gz" else text.encode()
    try:
        write_whole(target, data)
    except OSError as error:
        raise RunFolderError.of_system(target, error) from None
    return target


def flent_document(run: Run, *, title: str = "") -> dict[str, Any]:
    """The contents of the file, as JSON values.

    Raises:
        FlentError: The run has neither TCP's samples nor probes.
    """
    name = str(run.scenario["name"])
    if name.startswith(TEST):
        test, series = name.removeprefix(TEST), _of_test(run)
    else:
        test, series = _general(run)
    if not series:
        raise FlentError(
            run.folder or name,
            "has neither samples of TCP nor probes",
            "add traffic of kind bulk or ping",
        )
    started = _started(run)
    xs = [round(STEP_S * n, 6) for n in range(math.floor(run.end_s / STEP_S) + 1)]
    results = {name: _at(each, xs) for name, each in series.items()}
    results |= _computed(results)
    delay = DELAY_S if name.startswith(TEST) else 0.0
    return {
        "version": FORMAT,
        "x_values": xs,
        "results": results,
        "raw_values": {name: _raw(each, started) for name, each in series.items()},
        "metadata": {
            **_identity(run, test, title or name, started),
            "LENGTH": round(run.end_s - 2.0 * delay),
            "TOTAL_LENGTH": round(run.end_s),
            "STEP_SIZE": STEP_S,
            "TEST_PARAMETERS": _streams(series),
            "SERIES_META": {
                name: {"UNITS": each.units, "MEAN_VALUE": _mean(each)}
                for name, each in series.items()
            },
        },
    }


def _identity(run: Run, test: str, title: str, started: float) -> dict[str, Any]:
    at = _EPOCH + datetime.timedelta(seconds=started)
    moment = at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return {
        "NAME": test,
        "TITLE": title,
        "TIME": moment,
        "T0": moment,
        "DATA_FILENAME": f"{test}.flent.gz",
        "FLENT_VERSION": f"narrows-{run.narrows}",
        "NOTE": f"{run.backend} by narrows {run.narrows}, seed {run.seed}",
        "HOST": "server",
        "HOSTS": ["server"],
        "LOCAL_HOST": "client",
        "IP_VERSION": 4,
    }


def _started(run: Run) -> float:
    """When the run began, in seconds since 1970; zero if it does not say."""
    try:
        started = datetime.datetime.fromisoformat(str(run.wall["started"]))
        return started.astimezone(datetime.UTC).timestamp()
    except (KeyError, ValueError, OverflowError):
        return 0.0


def _of_test(run: Run) -> dict[str, _Series]:
    found = {
        tcp_series(group): _goodput(run.goodput, group, direction)
        for group, direction in goodput_series(run.goodput)
    }
    return {**found, **_pings(run), **_stream(run)}


def _general(run: Run) -> tuple[str, dict[str, _Series]]:
    directions: dict[str, list[tuple[str, str]]] = {"download": [], "upload": []}
    ends = {each["name"]: each for each in run.scenario.get("traffic", ())}
    groups = goodput_series(run.goodput)
    # Nodes that receive what the first group sends.
    clients = _nodes(ends.get(groups[0][0], {}), "receiver", "client") if groups else set()
    for group, direction in groups:
        # A group's second direction goes the other way.
        back = bool(clients & _nodes(ends.get(group, {}), "sender", "server"))
        is_upload = back == (direction == "forward")
        directions["upload" if is_upload else "download"].append((group, direction))
    pings = _pings(run)
    if pings and "Ping (ms) ICMP" not in pings:
        # Flent's plots show the series of this name.
        first = next(iter(pings))
        pings = {"Ping (ms) ICMP": pings[first], **{k: v for k, v in pings.items() if k != first}}
    if not directions["upload"]:
        found = {
            f"TCP download::{n}": _goodput(run.goodput, *which)
            for n, which in enumerate(directions["download"], start=1)
        }
        return "tcp_ndown", {**found, **pings}
    both = {
        f"TCP {name}": _together([_goodput(run.goodput, *which) for which in which_ones])
        for name, which_ones in directions.items()
        if which_ones
    }
    return "tcp_bidirectional", {**both, **pings}


def _nodes(group: Mapping[str, Any], pair: str, alone: str) -> set[str]:
    """The nodes at one end of a group."""
    place = 0 if pair == "sender" else 1
    pairs = {each[place] for each in group.get("pairs") or ()}
    return pairs | {str(group[key]) for key in (pair, alone) if group.get(key)}


def _goodput(rows: pl.DataFrame, group: str, direction: str) -> _Series:
    """The goodput in each interval, at its end, from the first to the last that carried some."""
    ends, rates = goodput_of(rows, group, direction, least_s=STEP_S)
    carried = np.flatnonzero(rates)
    inside = slice(int(carried[0]), int(carried[-1]) + 1) if len(carried) else slice(0)
    return _Series([*map(float, ends[1:][inside])], [*map(float, rates[inside])])


def _together(parts: Sequence[_Series]) -> _Series:
    """The sum of series; one that has not begun counts as zero."""
    times = sorted({time for part in parts for time in part.times})
    sums = np.zeros(len(times))
    for part in parts:
        if part.times:
            sums += np.interp(times, part.times, part.values, left=0.0)
    return _Series(times, [*map(float, sums)])


def _pings(run: Run) -> dict[str, _Series]:
    if "pings" not in run.tables:
        return {}
    rows = run.table("pings").filter(fate="answered").sort("sent_s")
    found = {}
    for (group,), part in rows.group_by("group", maintain_order=True):
        sent, rtt = part["sent_s"].to_list(), part["rtt_ms"].to_list()
        times = [at + 1e-3 * wait for at, wait in zip(sent, rtt, strict=True)]
        numbers = part["probe"].to_list()
        found[ping_series(str(group))] = _Series(times, rtt, numbers, "ms")
    return found


def _stream(run: Run) -> dict[str, _Series]:
    """The series of Flent's VoIP test, from a stream of datagrams of that name."""
    if "streams" not in run.tables:
        return {}
    rows = run.table("streams").filter(group="voip").sort("t_s")
    times = (rows["t_s"] + rows["period_s"]).to_list()
    rates = (8e-3 * rows["received_bytes"] / rows["period_s"]).to_list()
    delays = rows["delay_mean_ms"].to_list()
    least = min((value for value in delays if value is not None), default=0.0)
    columns = {
        "VoIP::bitrate": (rates, "Kbits/s"),
        "VoIP::delay": (delays, "ms"),
        "VoIP::induced_delay": ([None if d is None else d - least for d in delays], "ms"),
        "VoIP::jitter": (rows["jitter_ms"].to_list(), "ms"),
        "VoIP::loss": ([float(count) for count in rows["lost_packets"]], "count"),
    }
    found = {}
    for name, (values, units) in columns.items():
        pairs = [(t, value) for t, value in zip(times, values, strict=True) if value is not None]
        found[name] = _Series([t for t, _ in pairs], [v for _, v in pairs], units=units)
    return found if times else {}


def _at(series: _Series, xs: Sequence[float]) -> list[float | None]:
    """Values at given times, between the nearest two; null before the first and after the last."""
    if not series.times:
        return [None] * len(xs)
    values = np.interp(xs, series.times, series.values, left=np.nan, right=np.nan)
    return [None if math.isnan(value) else float(value) for value in values]


def _raw(series: _Series, started: float) -> list[dict[str, float]]:
    points = zip(series.times, series.values, strict=True)
    found = [{"t": started + time, "val": value} for time, value in points]
    for point, number in zip(found, series.numbers, strict=False):
        point["seq"] = number
    return found


def _mean(series: _Series) -> float | None:
    return math.fsum(series.values) / len(series.values) if series.values else None


def _computed(results: Mapping[str, Sequence[float | None]]) -> dict[str, list[float | None]]:
    """The sums and means that Flent computes from series."""
    found: dict[str, list[float | None]] = {}
    for base in ("TCP upload", "TCP download"):
        own = [
            values for name, values in results.items() if name.startswith((f"{base} ", f"{base}::"))
        ]
        if own:
            found[f"{base} avg"] = _each(own, mean=True)
            found[f"{base} sum"] = _each(own)
    tcp = [values for name, values in results.items() if name.startswith("TCP ")]
    if tcp:
        found["TCP totals"] = _each(tcp)
    if pings := [values for name, values in results.items() if name.startswith("Ping (ms) ")]:
        found["Ping (ms) avg"] = _each(pings, mean=True)
    return found


def _each(series: Sequence[Sequence[float | None]], *, mean: bool = False) -> list[float | None]:
    """The sum or mean of series at each time, of those that have a value."""
    found: list[float | None] = []
    for values in zip(*series, strict=True):
        there = [value for value in values if value is not None]
        total = math.fsum(there)
        found.append((total / len(there) if mean else total) if there else None)
    return found


def _streams(series: Mapping[str, _Series]) -> dict[str, int]:
    """How many streams a test of Flent with any number of them had."""
    counts = {
        f"{direction}_streams": sum(name.startswith(f"TCP {direction}::") for name in series)
        for direction in ("upload", "download")
    }
    return {name: count for name, count in counts.items() if count}

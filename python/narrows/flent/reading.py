"""A Flent data file as a run, to stand in comparisons beside simulated ones.

TCP series become groups with one connection each, whose bytes follow from the rates; pings become
probes. Everything else in the file is left out and counted. What Flent does not know (segments,
windows, the network between) is null or zero.
"""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from narrows import _core
from narrows.errors import HintedError
from narrows.flent.names import DELAY_S, TEST, Series, fit, series_of, with_own_groups
from narrows.foreign_text import cleaned
from narrows.results import Run
from narrows.results.checked import LONGEST_TEXT
from narrows.results.origin import FLENT

LARGEST = 64 << 20
"""The most bytes of an uncompressed file. A test of an hour with ten series has a tenth of it."""
LARGEST_MS = 1e7
"""The longest round trip, in ms; more is no measurement."""
LARGEST_MBIT = 1e7
"""The highest rate, in Mbit/s."""
MOST_SERIES = 500
"""The most series of TCP and pings. Flent's tests have some tens."""
MOST_LOST = 1_000_000
"""The most probes of a file that count as lost, of those whose numbers are missing."""
_HINT = "name a file that Flent or narrows export flent wrote"


class FlentError(HintedError):
    """A file is no data file of Flent, or a run cannot be written as one; one line."""


@dataclass(frozen=True)
class Imported:
    """A run made of a file, and what of the file it lacks."""

    run: Run
    left_out: Sequence[str]
    """Names of series that are neither TCP nor pings, without those that Flent computes."""


def read_flent(path: str | Path) -> Imported:
    """Reads a data file of Flent (`.flent`, `.flent.gz`, also bz2, xz and zst), format 1 to 4.

    Raises:
        FlentError: It cannot be read, is no such file, or is longer than `LARGEST` bytes.
    """
    document = _document(str(path))
    metadata, xs, results, raw = _parts(document, path)
    began = _began(metadata)
    points = {
        name: _points(name, xs, values, raw.get(name), began, path)
        for name, values in results.items()
    }
    known = {name: series for name in results if (series := series_of(name)) is not None}
    measured = {name: series for name, series in known.items() if points[name]}
    if not measured:
        raise FlentError(path, "has no values of TCP or pings", _HINT)
    if len(measured) > MOST_SERIES:
        what = f"has {len(measured)} series of TCP and pings, more than {MOST_SERIES}"
        raise FlentError(path, what, _HINT)
    measured = with_own_groups(measured)
    end_s = max(time for name in measured for time, _, _ in points[name])
    total_s = _number(metadata.get("TOTAL_LENGTH"))
    end_s = max(end_s, total_s if total_s is not None and total_s < 1e7 else 0.0)
    own = ("avg", "sum", "totals", "fairness")
    left_out = [
        name for name in results if name not in known and not name.endswith(own) and points[name]
    ]
    scenario = _scenario(metadata, measured, end_s)
    tcp = {name: each for name, each in measured.items() if each.kind != "ping"}
    pings = {name: each for name, each in measured.items() if each.kind == "ping"}
    window = _window(metadata, end_s)
    columns: dict[str, Mapping[str, Any]] = {
        **_connections(tcp, points, window),
        **({"pings": _probes(pings, points, path)} if pings else {}),
    }
    run = Run.from_columns(
        columns,
        scenario=scenario,
        seed=0,
        backend=FLENT,
        status="complete",
        stopped="end",
        end_s=end_s,
        events=0,
        narrows=_core.version,
        wall={"started": _text(metadata.get("TIME"))},
        host={
            key: _text(metadata[key])
            for key in ("HOST", "LOCAL_HOST", "FLENT_VERSION", "NOTE", "KERNEL_RELEASE")
            if isinstance(metadata.get(key), str)
        },
    )
    return Imported(run, left_out)


Point = tuple[float, float, int | None]
"""The time since the start in seconds, the value, and the number of a probe."""


def _document(path: str) -> Any:
    try:
        content = _core.decompressed(path, LARGEST)
    except OSError as error:
        raise FlentError(
            path, str(error).split(" (os error")[0].lower(), "check the path"
        ) from None
    except ValueError:
        raise FlentError(path, f"is longer than {LARGEST >> 20} MiB, unpacked", _HINT) from None
    try:
        # Some files have NaN for a missing value.
        return cleaned(json.loads(content, parse_constant=lambda _: None))
    except (ValueError, RecursionError):
        raise FlentError(path, "is not JSON", _HINT) from None


def _parts(
    document: Any, path: str | Path
) -> tuple[dict[str, Any], list[float], dict[str, list[Any]], dict[str, Any]]:
    """The parts of a file, of which only `raw_values` may be missing."""
    if not isinstance(document, dict):
        raise FlentError(path, "is no data file of Flent", _HINT)
    metadata, xs, results = (document.get(key) for key in ("metadata", "x_values", "results"))
    if not isinstance(metadata, dict) or not isinstance(xs, list) or not isinstance(results, dict):
        raise FlentError(path, "lacks metadata, x_values or results", _HINT)
    version = document.get("version", 1)
    if not isinstance(version, int) or not 1 <= version <= 4:
        raise FlentError(path, f"has format {version}", "narrows reads formats 1 to 4 (Flent 2.3)")
    times = [_number(x) for x in xs]
    if any(x is None or not 0.0 <= x < 1e7 for x in times):
        raise FlentError(path, "has x_values that are no times", _HINT)
    for name, values in results.items():
        if not isinstance(values, list) or len(values) != len(xs):
            raise FlentError(path, f"has a series {name} of another length than x_values", _HINT)
    raw = document.get("raw_values")
    return (
        metadata,
        [x for x in times if x is not None],
        results,
        raw if isinstance(raw, dict) else {},
    )


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) else None


def _text(value: Any) -> str:
    """A text of the file, as long as reports and plots can show."""
    return value[:LONGEST_TEXT] if isinstance(value, str) else ""


def _began(metadata: Mapping[str, Any]) -> float | None:
    """When the test began, in seconds since 1970; None if only `x_values` can be used."""
    for key in ("T0", "TIME"):
        text = _text(metadata.get(key))
        # Times without a zone are the measuring machine's own, which nobody knows here.
        if text.endswith("Z"):
            try:
                return datetime.datetime.fromisoformat(text).timestamp()
            except ValueError:
                continue
    return None


def _points(
    name: str,
    xs: Sequence[float],
    values: Sequence[Any],
    raw: Any,
    began: float | None,
    path: str | Path,
) -> list[Point]:
    """The measured values of a series if the file has them, and those at `x_values` otherwise."""
    found: list[Point] = []
    if began is not None and isinstance(raw, list):
        for each in raw:
            if isinstance(each, dict):
                time, value = _number(each.get("t")), _number(each.get("val"))
                if time is not None and value is not None and 0.0 <= time - began < 1e7:
                    number = each.get("seq")
                    is_count = isinstance(number, int) and not isinstance(number, bool)
                    found.append((time - began, value, number if is_count else None))
    if not found:
        pairs = zip(xs, map(_number, values), strict=True)
        found = [(x, value, None) for x, value in pairs if value is not None]
    found.sort(key=lambda point: point[0])
    series = series_of(name)
    if series is not None:
        most = LARGEST_MS if series.kind == "ping" else LARGEST_MBIT
        for _, value, _ in found:
            if not 0.0 <= value < most:
                raise FlentError(path, f"has the value {value:g} in {name}", _HINT)
    return found


def _scenario(
    metadata: Mapping[str, Any], measured: Mapping[str, Series], end_s: float
) -> dict[str, Any]:
    """What is known of the test, in the form of a scenario: its groups of traffic."""
    first, last = _window(metadata, end_s)
    return {
        "name": f"{TEST}{fit(_text(metadata.get('NAME'))) or 'test'}",
        "description": _text(metadata.get("TITLE")),
        "duration": f"{round(1e3 * end_s)} ms",
        "traffic": [
            {"kind": "ping" if each.kind == "ping" else "bulk", "name": each.group, **_ends(each)}
            for each in measured.values()
        ],
        "measure": {"from": f"{round(1e3 * first)} ms", "to": f"{round(1e3 * last)} ms"},
    }


def _window(metadata: Mapping[str, Any], end_s: float) -> tuple[float, float]:
    """When all of the load was there: Flent's probes last longer by `DELAY_S` at either end."""
    length = _number(metadata.get("LENGTH"))
    if length is not None and length > 0.0 and length + 2.0 * DELAY_S <= end_s + 1.0:
        return DELAY_S, min(end_s, DELAY_S + length)
    return 0.0, end_s


def _ends(series: Series) -> dict[str, str]:
    if series.kind == "download":
        return {"sender": "server", "receiver": "client"}
    return {"sender": "client", "receiver": "server"}


def _connections(
    tcp: Mapping[str, Series],
    points: Mapping[str, Sequence[Point]],
    window: tuple[float, float],
) -> dict[str, Mapping[str, Any]]:
    """The tables `flows`, `goodput` and `flow_samples`."""
    flows: list[dict[str, Any]] = []
    goodput: list[tuple[float, str, str, int]] = []
    samples: list[tuple[float, int, int]] = []
    for number, (name, series) in enumerate(tcp.items()):
        times, counts = _delivered(points[name])
        ends = _ends(series)
        flows.append(
            {
                "flow": number,
                "name": series.group,
                "group": series.group,
                **ends,
                "start_s": times[0],
                "bytes": counts[-1],
            }
        )
        goodput += [(t, series.group, "forward", n) for t, n in zip(times, counts, strict=True)]
        samples += [
            (at, number, round(float(np.interp(at, times, counts)))) for at in window if at > 0.0
        ]
    if not flows:
        return {}
    return {
        "flows": _flow_columns(flows),
        "goodput": _columns(sorted(goodput), ("t_s", "group", "direction", "bytes_received")),
        "flow_samples": {
            **_columns(sorted(samples), ("t_s", "flow", "bytes_received")),
            **dict.fromkeys(("segments_sent", "segments_retransmitted"), [0] * len(samples)),
            **dict.fromkeys(("timeouts", "ecn_reductions", "srtt_ms"), [None] * len(samples)),
        },
    }


def _delivered(points: Sequence[Point]) -> tuple[list[float], list[int]]:
    """Bytes that had arrived at each time; a rate covers the time since the value before."""
    times = [time for time, _, _ in points]
    gap = times[1] - times[0] if len(times) > 1 else 0.2
    begins = [max(0.0, times[0] - gap), *times[:-1]]
    amounts = [
        0.125e6 * rate * (end - begin)
        for begin, end, (_, rate, _) in zip(begins, times, points, strict=True)
    ]
    return [begins[0], *times], [0, *(round(float(n)) for n in np.cumsum(amounts))]


def _columns(rows: Sequence[tuple[Any, ...]], names: Sequence[str]) -> dict[str, list[Any]]:
    return {name: [row[n] for row in rows] for n, name in enumerate(names)}


def _flow_columns(flows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """The table `flows`; all that Flent does not know is null, or zero where it cannot be."""
    count = len(flows)
    known = ("flow", "name", "group", "sender", "receiver", "start_s")
    unknown = (
        "end_s", "timeouts", "fast_recoveries", "ecn_reductions", "tail_probes", "undos",
        "marks_received", "srtt_ms", "min_rtt_ms", "cwnd_segments", "cwnd_mean_segments", "busy_s",
        "rwnd_limited_s",
    )  # fmt: skip
    received = [flow["bytes"] for flow in flows]
    return {
        **{name: [flow[name] for flow in flows] for name in known},
        "ecn": [False] * count,
        "established_s": [flow["start_s"] for flow in flows],
        "bytes_acked": received,
        "bytes_received": received,
        "segments_sent": [0] * count,
        "segments_retransmitted": [0] * count,
        **dict.fromkeys(unknown, [None] * count),
    }


def _probes(
    pings: Mapping[str, Series], points: Mapping[str, Sequence[Point]], path: str | Path
) -> dict[str, list[Any]]:
    """The table `pings`. Probes whose numbers are missing between others were lost."""
    rows: list[tuple[Any, ...]] = []
    lost = 0
    for name, series in pings.items():
        before: Point | None = None
        count = 0
        for time, rtt, number in points[name]:
            missing = 0
            if before is not None and number is not None and before[2] is not None:
                missing = max(0, number - before[2] - 1)
                lost += missing
                if lost > MOST_LOST:
                    what = f"lacks more than {MOST_LOST} probes by their numbers, in {name}"
                    raise FlentError(path, what, _HINT)
            for n in range(missing):
                assert before is not None, "something is missing behind it"
                at = before[0] + (time - before[0]) * (n + 1) / (missing + 1)
                rows.append((at, series.group, count, "probe-lost", None))
                count += 1
            rows.append((max(0.0, time - 1e-3 * rtt), series.group, count, "answered", rtt))
            count += 1
            before = (time, rtt, number)
    rows.sort(key=lambda row: (row[0], row[1], row[2]))
    return {
        **_columns(rows, ("sent_s", "group", "probe", "fate", "rtt_ms")),
        "prober": [0] * len(rows),
        "there_ms": [None] * len(rows),
        "lost_at": [""] * len(rows),
        "reason": [""] * len(rows),
    }

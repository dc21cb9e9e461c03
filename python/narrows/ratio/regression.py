"""TCP's time as a line over UDP's, with one point for each vantage point.

The slope counts round trips, and the intercept is the time that does not depend on the distance. A
server that writes once has a slope of 2 and almost no intercept. A server that sends the length in
a separate segment has a slope of 3. A server that makes TCP wait for 20 ms has a slope of 2 and an
intercept of 20 ms. A ratio mixes the two: those 20 ms give 12 at a round trip of 2 ms, and 2.07 at
300 ms.

The line is that of Theil and Sen (Sen 1968): its slope is the median of the slopes between all
pairs of points, so nearly a third of the points may lie anywhere. SciPy has it (`theilslopes`);
`narrows.results.student` says why narrows does not use SciPy.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from narrows.ratio.resampling import Interval, percentile_interval
from narrows.records.numbers import Floats

_MOST = 600
_REPLICATES = 200


@dataclass(frozen=True)
class Line:
    """`tcp_ms = slope * udp_ms + intercept_ms`."""

    slope: float
    intercept_ms: float
    slope_interval: Interval | None
    intercept_interval_ms: Interval | None
    points: int
    ratio: float
    """The median of `tcp_ms / udp_ms` over vantage points."""


def line_through(udp_ms: Floats, tcp_ms: Floats) -> Line | None:
    """The line through one point for each vantage point; None if they give no slope.

    Of more than 600 points, it uses every n-th by distance, which gives enough slopes.
    """
    if len(udp_ms) < 3 or np.ptp(udp_ms) <= 0.0:
        return None
    order = np.lexsort((tcp_ms, udp_ms))
    if len(order) > _MOST:
        order = order[np.linspace(0, len(order) - 1, _MOST).round().astype(np.int64)]
    x, y = udp_ms[order], tcp_ms[order]
    slope, intercept = _theil_sen(x, y)
    rng = np.random.Generator(np.random.PCG64(19680101))
    drawn = [rng.integers(0, len(x), len(x)) for _ in range(_REPLICATES)]
    few = [_theil_sen(x[rows], y[rows]) for rows in drawn[: 60 if len(x) > 200 else _REPLICATES]]
    slopes, intercepts = (np.array(part) for part in zip(*few, strict=True))
    return Line(
        slope,
        intercept,
        percentile_interval(slopes),
        percentile_interval(intercepts),
        len(udp_ms),
        float(np.median(tcp_ms / udp_ms)),
    )


def is_pattern(line: Line) -> bool:
    """Whether the slope matches a way of writing: two round trips, or three."""
    return min(abs(line.slope - trips) for trips in (2.0, 3.0)) <= 0.12


def say_line(line: Line) -> str:
    """Says in a sentence what a line means."""
    whole = round(line.slope)
    fixed = line.intercept_ms
    slope = f"(slope {line.slope:.3f})"
    if not is_pattern(line):
        seen = f"{line.slope:.2f} round trips and {fixed:+.1f} ms"
        if line.ratio < _FEWER:
            return (
                f"At most distances, TCP takes fewer round trips than a handshake needs ({seen}): "
                "something nearer than the server answers TCP, or UDP takes longer by itself."
            )
        if line.slope < _FEWER:
            return (
                f"TCP's time hardly grows with the distance ({seen}): TCP waits for something, "
                "such as a free slot for a connection, longer than for round trips."
            )
        return (
            f"At every distance, TCP takes {seen}: between the patterns; several kinds of servers "
            f"behind one address, or TCP and UDP take different ways {slope}."
        )
    trips = {
        2: "two round trips: the server writes the reply at once",
        3: "three round trips: the server writes the length in a segment of its own and waits for "
        "an ACK",
    }[whole]
    if fixed > 5.0:
        trips += f", plus {fixed:.0f} ms that do not depend on the distance"
    return f"At every distance, TCP takes {trips} {slope}."


_FEWER = 1.88
"""Below this, there are fewer round trips than a handshake and a query need."""


def _theil_sen(x: Floats, y: Floats) -> tuple[float, float]:
    first, second = np.triu_indices(len(x), k=1)
    run = x[second] - x[first]
    apart = run != 0.0
    if not apart.any():
        return float("nan"), float("nan")
    slope = float(np.median((y[second] - y[first])[apart] / run[apart]))
    return slope, float(np.median(y - slope * x))

"""What a suite's runs show: means with intervals, paired differences, and sentences about them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple

from narrows.results.intervals import of_seeds, paired
from narrows.suites.conduct import SuiteRun
from narrows.suites.parts import Column, Metric, Part


class Cell(NamedTuple):
    """A metric of a queue: its mean, its interval, and its difference from the first queue's."""

    mean: float
    low: float | None
    high: float | None
    apart: tuple[float, float] | None
    """The paired interval of this queue less the first; None for the first, or without pairs."""

    @property
    def differs(self) -> bool:
        """Whether the difference's interval excludes zero."""
        return self.apart is not None and (self.apart[0] > 0.0 or self.apart[1] < 0.0)


def cell(run: SuiteRun, column: Column, queue: str) -> Cell | None:
    """A metric of a queue; None if no run has it, or if some runs lack it.

    A mean over some seeds only would not be comparable with that of another queue.
    """
    metric = run.suite.metric(column)
    values = run.values(column.scene, column.metric, queue)
    if not values or len(values) < _runs(run, column.scene, queue):
        return None
    inside = [min(metric.high, max(metric.low, value)) for value in values.values()]
    ends = of_seeds(inside, metric.low, metric.high)
    low, high = ends or (None, None)
    return Cell(fmean(inside), low, high, _apart(run, column, queue, values, metric))


def _runs(run: SuiteRun, scene: str, queue: str) -> int:
    return run.runs.filter(scene=scene, queue=queue).height


def _apart(
    run: SuiteRun, column: Column, queue: str, values: Mapping[int, float], metric: Metric
) -> tuple[float, float] | None:
    first = run.names[0]
    if queue == first:
        return None
    others = run.values(column.scene, column.metric, first)
    seeds = [seed for seed in values if seed in others]
    if len(seeds) < 2:
        return None
    before, after = [others[seed] for seed in seeds], [values[seed] for seed in seeds]
    low, high, _ = paired(before, after, metric.low, metric.high)
    return (low, high)


def number(value: float, digits: int) -> str:
    """A value with as many digits behind the point as are worth reading."""
    return f"{value:,.{0 if abs(value) >= 1000.0 else digits}f}"


def cell_text(found: Cell | None, metric: Metric) -> str:
    """`12.3 ± 0.4`; a dash without a value."""
    if found is None:
        return "-"
    text = number(found.mean, metric.digits)
    if found.low is None or found.high is None:
        return text
    half = max(found.high - found.mean, found.mean - found.low)
    return f"{text} ± {number(half, metric.digits)}"


def findings(run: SuiteRun, part: Part) -> list[str]:
    """Sentences on what the part's telling metrics show."""
    said = []
    for name in part.telling:
        scene, _, metric = name.rpartition(".")
        # A scene's key may have dots, a metric's name has none.
        column = next(
            (each for each in part.columns if (each.scene, each.metric) == (scene, metric)),
            Column(scene, metric),
        )
        if sentence := _sentence(run, column):
            said.append(sentence)
    return said


def _sentence(run: SuiteRun, column: Column) -> str:
    known = run.suite.metric(column)
    found = {name: each for name in run.names if (each := cell(run, column, name)) is not None}
    if not found:
        return ""
    what = column.title or known.title

    def value(name: str) -> str:
        unit = f" {known.unit}" if known.unit else ""
        return f"{cell_text(found[name], known)}{unit}"

    if len(found) == 1:
        (name,) = found
        return f"{_capital(what)}: {value(name)} behind {name}."
    if len({each.mean for each in found.values()}) == 1:
        return f"{_capital(what)}: {value(next(iter(found)))} behind all queues."
    least = min(found, key=lambda name: found[name].mean)
    most = max(found, key=lambda name: found[name].mean)
    text = f"{_capital(what)}: from {value(least)} behind {least} to {value(most)} behind {most}."
    first = run.names[0]
    if first not in found:
        return text
    more = [name for name in found if found[name].differs and _sign(found[name]) > 0]
    less = [name for name in found if found[name].differs and _sign(found[name]) < 0]
    alike = [name for name in found if name != first and name not in (*more, *less)]
    parts = [f"lower with {listed(less)}"] if less else []
    parts += [f"higher with {listed(more)}"] if more else []
    parts += [f"not certainly different with {listed(alike)}"] if alike else []
    return f"{text} Compared with {first}, it is {'; '.join(parts)}." if parts else text


def _sign(found: Cell) -> float:
    assert found.apart is not None, "the caller has checked that it differs"
    return found.apart[0] + found.apart[1]


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def listed(names: Sequence[str]) -> str:
    """Names in a sentence."""
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


@dataclass(frozen=True)
class Ellipse:
    """The ellipse of one standard deviation of points in a plane.

    Source: K. Winstein, H. Balakrishnan, "TCP ex Machina", 2013, which RFC 7928 (2.7) follows: the
    two-dimensional Gaussian of largest likelihood. Its axes are the square roots of the eigenvalues
    of the covariance matrix (divided by n, not n - 1).
    """

    x: float
    y: float
    """The centre: the means."""
    major: float
    minor: float
    """Half of the axes' lengths."""
    angle: float
    """The angle from the x axis to the major axis, in degrees."""


def ellipse(xs: Sequence[float], ys: Sequence[float]) -> Ellipse:
    """The ellipse of points.

    Examples:
        >>> found = ellipse([1.0, 3.0], [2.0, 4.0])
        >>> round(found.major, 6), round(found.minor, 6), round(found.angle, 6)
        (1.414214, 0.0, 45.0)
    """
    x, y = fmean(xs), fmean(ys)
    xx = fmean((each - x) ** 2 for each in xs)
    yy = fmean((each - y) ** 2 for each in ys)
    xy = fmean((one - x) * (other - y) for one, other in zip(xs, ys, strict=True))
    middle, apart = (xx + yy) / 2.0, math.hypot((xx - yy) / 2.0, xy)
    angle = 0.5 * math.atan2(2.0 * xy, xx - yy)
    # Rounding may take the smaller eigenvalue below zero.
    return Ellipse(
        x,
        y,
        math.sqrt(middle + apart),
        math.sqrt(max(0.0, middle - apart)),
        math.degrees(angle),
    )

"""D1 to D8 as inequalities; the paper prints no numbers except times. Reasons: README.md."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from narrows.reproduce.claims import NOT_NEGATIVE, Claim, Measured, Worded, less
from narrows.reproduce.dana_2010.cells import QUEUES, TITLES

FULL_AT_S, FULL_TOLERANCE_S = 156.0, 10.0
"""D1: when Drop Tail fills. We chose the load for this; the claim checks that it still does."""
FULL_PACKETS = 90.0
"""D1: "full" of 100."""
BACKED_OFF_PACKETS = 75.0
"""D1: senders that back off together leave at least a quarter of the buffer empty."""
EQUAL = 10.0
"""Percent within which two curves are "in close", "almost equal", "almost the same"."""
RED_STARTS_S, RED_STARTS_TOLERANCE_S = 120.0, 30.0
"""D4: "around second minute"."""
SEEN = 0.1
"""D5: percentage points of utilisation that a figure can show."""
AFTER_AVERAGE_S = 5.0
"""D4: seconds after its average passes 25 packets, within which RED drops."""

Runs = Mapping[str, Measured]


def _worded(
    id: str,
    metric: str,
    unit: str,
    cells: Sequence[str],
    measure: Callable[[Runs], float],
    sentence: str,
    relation: Literal["at least", "at most"] = "at least",
    bound: float = 0.0,
    bounds: tuple[float, float] = (-math.inf, math.inf),
) -> Claim:
    worded = Worded(sentence, relation, bound)
    return Claim(id, metric, unit, tuple(cells), measure, worded=worded, bounds=bounds)


def _order(
    id: str, words: str, unit: str, upper: str, lower: str, metric: str, by: float = 0.0
) -> Claim:
    margin = f" by {by:g} at least" if by else ""
    return _worded(
        id,
        f"{words}: {TITLES[upper]} less {TITLES[lower]}",
        unit,
        (upper, lower),
        less(upper, lower, metric),
        f"{TITLES[upper]} is above {TITLES[lower]}{margin}",
        "at least",
        by,
    )


def _apart(metric: str) -> Callable[[Runs], float]:
    """The distance of RED+ECN from RED, in percent of RED's value."""

    def measure(runs: Runs) -> float:
        red = runs["red"][metric]
        # If the load ends, the last minutes have nothing to compare.
        return 100.0 * abs(runs["ecn"][metric] / red - 1.0) if red > 0 else math.nan

    return measure


def _buffer() -> list[Claim]:
    return [
        *(_order("D1", "mean buffer", "packets", "tail", other, "buffer") for other in QUEUES[1:]),
        _order("D1", "mean buffer", "packets", "ecn", "red", "buffer"),
        _order(
            "D1",
            "deviation of the buffer, second by second",
            "packets",
            "tail",
            "red",
            "buffer_deviation",
        ),
        Claim(
            "D1",
            "Drop Tail: the queue first overflows",
            "s",
            ("tail",),
            lambda runs: runs["tail"]["full_s"],
            published=FULL_AT_S,
            tolerance=FULL_TOLERANCE_S,
            fitted=True,
            note="We searched for opening times of the sessions that give this value.",
        ),
        _worded(
            "D1",
            "Drop Tail: mean buffer from 156 to 192 s",
            "packets",
            ("tail",),
            lambda runs: runs["tail"]["buffer_full"],
            f"stays full: at least {FULL_PACKETS:g} of 100",
            "at least",
            FULL_PACKETS,
        ),
        _worded(
            "D1",
            "Drop Tail: lowest buffer within a minute after 192 s",
            "packets",
            ("tail",),
            lambda runs: runs["tail"]["buffer_low"],
            f"all senders back off together: at most {BACKED_OFF_PACKETS:g} of 100",
            "at most",
            BACKED_OFF_PACKETS,
        ),
    ]


def _delay() -> list[Claim]:
    return [
        _order("D2", "mean queueing delay", "ms", "tail", "ecn", "delay"),
        _order("D2", "mean queueing delay", "ms", "ecn", "red", "delay"),
        _worded(
            "D2",
            "mean queueing delay in the last two minutes: distance of RED+ECN from RED",
            "%",
            ("red", "ecn"),
            _apart("delay_late"),
            f"are going to be in close: at most {EQUAL:g} % apart",
            "at most",
            EQUAL,
            NOT_NEGATIVE,
        ),
        _order("D3", "delay variation", "ms²", "tail", "red", "variation"),
        _order("D3", "delay variation before 200 s", "ms²", "ecn", "red", "variation_early"),
        _worded(
            "D3",
            "delay variation in the last two minutes: distance of RED+ECN from RED",
            "%",
            ("red", "ecn"),
            _apart("variation_late"),
            f"almost equal: at most {2 * EQUAL:g} % apart",
            "at most",
            2 * EQUAL,
            NOT_NEGATIVE,
        ),
    ]


def _drops() -> list[Claim]:
    return [
        _worded(
            "D4",
            "RED: first drop after its average passed 25 packets",
            "s",
            ("red",),
            lambda runs: abs(runs["red"]["first_drop_s"] - runs["red"]["average_s"]),
            f"starts dropping then: within {AFTER_AVERAGE_S:g} s",
            "at most",
            AFTER_AVERAGE_S,
            NOT_NEGATIVE,
        ),
        Claim(
            "D4",
            "RED: first drop",
            "s",
            ("red",),
            lambda runs: runs["red"]["first_drop_s"],
            published=RED_STARTS_S,
            tolerance=RED_STARTS_TOLERANCE_S,
            fitted=True,
            note="Sessions begin to open at 100 s with this in view.",
        ),
        _order("D4", "total drops", "packets", "tail", "red", "drops"),
        _order("D4", "total drops", "packets", "red", "ecn", "drops"),
        replace(
            _order("D5", "utilisation", "percentage points", "tail", "red", "utilisation", SEEN),
            note='RED\'s "is reduced too"; that Drop Tail is above it is our reading.',
        ),
        _order("D5", "utilisation", "percentage points", "ecn", "red", "utilisation", SEEN),
    ]


def _processor() -> list[Claim]:
    return [
        *(
            _worded(
                "D6",
                f"{TITLES[queue]}: router CPU in the 15 s after its first drop minus before",
                "percentage points",
                (queue,),
                lambda runs, queue=queue: runs[queue]["cpu_after"] - runs[queue]["cpu_before"],  # type: ignore[misc]
                "rises when the queue starts dropping",
            )
            for queue in ("tail", "red")
        ),
        _order(
            "D6",
            "router CPU from the second minute to 156 s",
            "percentage points",
            "red",
            "tail",
            "cpu_second",
        ),
        _worded(
            "D6",
            "router CPU in the last two minutes: largest distance between the three",
            "%",
            QUEUES,
            _spread,
            f"almost the same: at most {EQUAL:g} % apart",
            "at most",
            EQUAL,
            NOT_NEGATIVE,
        ),
        *(
            _worded(
                "D7",
                f"first drops of Drop Tail and RED with {words}: how much nearer to each other",
                "s",
                ("tail", "red", f"tail-{other}", f"red-{other}"),
                _nearer(other),
                "come closer together",
            )
            for other, words in (
                ("small", "a buffer of 50 packets"),
                ("heavy", "twice the sessions"),
            )
        ),
        *(
            _worded(
                "D7",
                f"router CPU of RED and Drop Tail from the second minute to 156 s with {words}: "
                "how much nearer to each other",
                "percentage points",
                ("tail", "red", f"tail-{other}", f"red-{other}"),
                _nearer(other, "cpu_second"),
                "come closer together",
            )
            for other, words in (
                ("small", "a buffer of 50 packets"),
                ("heavy", "twice the sessions"),
            )
        ),
    ]


PROPORTIONAL = 0.5
"""D8: correlation from which drops are said to follow the share of the bandwidth."""

_PREDICTED = ("delay", "variation", "drops", "utilisation")


def _buffer_predicts() -> list[Claim]:
    return [
        _worded(
            "D8",
            "RED: correlation of a connection's retransmissions with its goodput",
            "",
            ("red",),
            lambda runs: runs["red"]["drops_follow_share"],
            f"drops in proportion to the share of the bandwidth: at least {PROPORTIONAL:g}",
            "at least",
            PROPORTIONAL,
            (-1.0, 1.0),
        ),
        _worded(
            "D8",
            "delay, its variation, drops, utilisation: how many have the buffer's order",
            "",
            QUEUES,
            _as_the_buffer,
            "the buffer's behaviour alone tells their order: all four",
            "at least",
            float(len(_PREDICTED)),
        ),
    ]


def _as_the_buffer(runs: Runs) -> float:
    def order(metric: str) -> list[str]:
        return sorted(QUEUES, key=lambda queue: runs[queue][metric])

    return float(sum(order(metric) == order("buffer") for metric in _PREDICTED))


def _spread(runs: Runs) -> float:
    loads = [runs[queue]["cpu_late"] for queue in QUEUES]
    return 100.0 * (max(loads) - min(loads)) / min(loads) if min(loads) > 0 else math.nan


def _nearer(other: str, metric: str = "first_drop_s") -> Callable[[Runs], float]:
    def gap(runs: Runs, suffix: str = "") -> float:
        return abs(runs[f"tail{suffix}"][metric] - runs[f"red{suffix}"][metric])

    # Choices of another load have no runs of D7's cells.
    return lambda runs: gap(runs) - gap(runs, f"-{other}") if f"tail-{other}" in runs else math.nan


_REASONS = {
    "D1": "Senders back off together only with large windows. With windows of six segments, which "
    "fill the queue as slowly as Figure 3 shows, the buffer stays above 80 packets.",
    "D2": "A mark slows a session of six segments less than a lost segment does. RED and RED+ECN "
    "come together only if a few sessions with large windows share the link.",
    "D3": "RED and RED+ECN come together only if a few sessions with large windows share the "
    "link, as in D2. The paper does not say how it computes variation.",
    "D4": "TCP reacts to drops: a shorter queue means smaller windows, and those need a higher "
    "drop rate for the same throughput. No load that we tried gives the paper's whole order.",
    "D5": "A link whose queue never runs empty is always busy, whatever the queue drops.",
    "D6": "The first drop raises the model's CPU by less than 0.1 points, and RED's stays higher "
    "because RED computes an average. Measured on Linux, the CPU changes by thousandths of a "
    "point, less than the measurement's noise. The paper prints no levels.",
    "D7": "The CPU of the two differs by hundredths of a point in the model, and by thousandths "
    "when measured on Linux.",
    "D8": "Delay and its variation follow the buffer's order. Drops and utilisation do not, for "
    "the reasons given at D4 and D5.",
}

_PROPORTION = "With few sessions, retransmissions differ too little or come for other reasons."

CLAIMS = [
    replace(claim, reason=_PROPORTION if "correlation" in claim.metric else _REASONS[claim.id])
    for claim in (*_buffer(), *_delay(), *_drops(), *_processor(), *_buffer_predicts())
]

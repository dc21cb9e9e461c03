"""What each part asks, and the metrics that show it."""

from __future__ import annotations

from narrows.suites.l4s.measure import MEASURED
from narrows.suites.l4s.scenes import (
    ALONE,
    LENGTH_S,
    OVERLOADS,
    PAIRS,
    SAME,
    WARM_UP_S,
    Controls,
    scenes,
)
from narrows.suites.parts import Column, Metric, Part, Suite

METRICS = {
    "ratio": Metric("ratio of rates", "", 2),
    "jain": Metric("Jain's index", "", 3, high=1.0),
    "utilisation_percent": Metric("utilisation", "%", high=100.0),
    "delay_l4s": Metric("delay of L4S, mean", "ms", 2),
    "delay_p99_l4s": Metric("delay of L4S, 99 % within", "ms", 2),
    "delay_classic": Metric("delay of classic, mean", "ms", 2),
    "delay_p99_classic": Metric("delay of classic, 99 % within", "ms", 2),
    "marks_l4s_percent": Metric("marks of L4S", "%", 2, high=100.0),
    "marks_classic_percent": Metric("marks of classic", "%", 2, high=100.0),
    "loss_l4s_percent": Metric("loss of L4S", "%", 2, high=100.0),
    "loss_classic_percent": Metric("loss of classic", "%", 2, high=100.0),
    "rate_l4s": Metric("rate of L4S", "Mbit/s", 2),
    "rate_classic": Metric("rate of classic", "Mbit/s", 2),
    "rate_near": Metric("rate, near", "Mbit/s", 2),
    "rate_far": Metric("rate, far", "Mbit/s", 2),
    "rate_long": Metric("rate of the long one", "Mbit/s", 2),
    "rate_stream": Metric("stream received, with headers", "Mbit/s", 2),
    "fct_geometric": Metric("completion, geometric mean", "ms", 0),
    "fct_p95": Metric("completion, 95 % within", "ms", 0),
    "unfinished_percent": Metric("unfinished", "%", 2, high=100.0),
}


def _both(of: Controls) -> str:
    return f"{of.l4s} (ECN) beside {of.classic} (no ECN)"


def _two(of: Controls) -> list[Part]:
    """What one connection of each gets, and how long its packets wait."""
    equal = [f"mixed-{a}-{b}" for a, b in PAIRS]
    both = _both(of)
    return [
        Part(
            "rates",
            "Do both get the same?",
            "An L4S and a classic connection share a line: which gets more, at equal and at "
            "different round trips?",
            f"One connection each, {both}, over 40 Mbit/s. The ratio is that of {of.l4s}'s goodput "
            f"to {of.classic}'s; the round trips are those of {of.l4s} and of {of.classic}.",
            tuple(
                Column(key, "ratio", f"ratio, {a} / {b} ms")
                for key, (a, b) in zip(equal, PAIRS, strict=True)
            )
            + tuple(
                Column(key, "utilisation_percent", f"utilisation, {a} / {b} ms")
                for key, (a, b) in zip(equal, PAIRS, strict=True)
            ),
            (f"{equal[1]}.ratio", f"{equal[4]}.ratio", f"{equal[2]}.utilisation_percent"),
        ),
        Part(
            "delays",
            "How long do packets of each wait?",
            "Does the queue keep L4S's delay below a millisecond while classic packets wait for "
            "their own target?",
            f"The same runs: {both}, with round trips of 5, 20 and 100 ms for both.",
            (
                *(
                    Column(key, metric, f"{a} ms: {METRICS[metric].title}")
                    for key, (a, _) in list(zip(equal, PAIRS, strict=True))[:3]
                    for metric in ("delay_l4s", "delay_p99_l4s", "delay_classic")
                ),
                Column(equal[1], "marks_l4s_percent", "20 ms: marks of L4S"),
                Column(equal[1], "loss_classic_percent", "20 ms: loss of classic"),
            ),
            (f"{equal[1]}.delay_l4s", f"{equal[1]}.delay_classic"),
        ),
    ]


def _others(of: Controls) -> list[Part]:
    """L4S alone, with itself, overloaded, and beside short flows."""
    both = _both(of)
    return [
        Part(
            "alone",
            "Does one L4S connection fill the line?",
            "Little delay is easy on a line that is not full.",
            f"One connection, {of.l4s}, over 40 Mbit/s with a round trip of {ALONE[0]} and of "
            f"{ALONE[1]} ms.",
            tuple(
                Column(f"alone-{rtt}", metric, f"{rtt} ms: {METRICS[metric].title}")
                for rtt in ALONE
                for metric in ("utilisation_percent", "delay_l4s", "delay_p99_l4s")
            ),
            (f"alone-{ALONE[1]}.utilisation_percent", f"alone-{ALONE[1]}.delay_l4s"),
        ),
        Part(
            "round-trips",
            "Two L4S connections with different round trips",
            "Heist and Morton found most unfairness between two L4S connections: with Prague of "
            "2020 behind DualPI2, 45.46 against 1.56 Mbit/s.",
            f"Two connections, {of.l4s}, over 50 Mbit/s, with round trips of {SAME[0]} ms (near) "
            f"and {SAME[1]} ms (far).",
            tuple(Column("same", metric) for metric in ("rate_near", "rate_far", "ratio", "jain")),
            ("same.ratio",),
        ),
        Part(
            "overload",
            "A stream that does not react",
            "What happens to both if datagrams that claim to be L4S overload the queue?",
            f"Five connections each, {both}, over 100 Mbit/s with a round trip of 10 ms, beside a "
            f"stream of ECT(1) datagrams with {OVERLOADS[0]} and {OVERLOADS[1]} Mbit/s of payload. "
            "Rates of L4S and classic are those of one connection.",
            tuple(
                Column(f"overload-{rate}", metric, f"{rate} Mbit/s: {METRICS[metric].title}")
                for rate in OVERLOADS
                for metric in (
                    "rate_l4s", "rate_classic", "rate_stream", "delay_l4s", "delay_classic",
                )
            ),
            (f"overload-{OVERLOADS[0]}.rate_classic", f"overload-{OVERLOADS[1]}.delay_l4s"),
        ),
        Part(
            "short",
            "Short flows beside a long one",
            "Heist and Morton: what does a long connection do to short classic ones?",
            f"Five short flows a second, {of.classic}, of ten sizes from 64 kB to 2.1 MB (parts "
            f"of their lognormal), over 50 Mbit/s with a round trip of 20 ms: alone, beside "
            f"{of.classic}, and beside {of.l4s}.",
            tuple(
                Column(f"short-{which}", metric, f"{words}: {METRICS[metric].title}")
                for which, words in (
                    ("none", "alone"), ("classic", f"beside {of.classic}"),
                    ("l4s", f"beside {of.l4s}"),
                )
                for metric in ("fct_geometric", "fct_p95")
            ),
            ("short-none.fct_geometric", "short-classic.fct_geometric", "short-l4s.fct_geometric"),
        ),
    ]  # fmt: skip


def suite(of: Controls, scale: float = 1.0) -> Suite:
    """The suite for a pair of controls, with times scaled by a factor."""
    return Suite(
        "l4s",
        f"L4S coexistence: {of.l4s} beside {of.classic}",
        "The tests of DualPI2's authors and of Heist and Morton, for any queue and control. L4S "
        "stands for ECN-capable packets, classic for those that are not. narrows reproduce L4S "
        "compares narrows with their published numbers.",
        scenes(of, scale),
        [*_two(of), *_others(of)],
        METRICS,
        MEASURED,
        (
            "Heist and Morton's bursts of a Skype-like stream and their tunnels do not run here.",
            f"Runs last {LENGTH_S * scale:g} s, of which the first {WARM_UP_S * scale:g} s do not "
            "count; theirs three to four minutes.",
        ),
    )

"""S1 to S10 as numbers and inequalities. Tolerances' reasons are in README.md."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Literal

from narrows.reproduce.claims import Claim, Measured, Worded
from narrows.reproduce.hayes_2010 import published
from narrows.reproduce.hayes_2010.cells import CHECKS4, CHECKS6, TITLES
from narrows.reproduce.hayes_2010.measure import value
from narrows.reproduce.hayes_2010.published import RATES, TOP

SECONDS_TOLERANCE = 0.5
"""S5, S6: share of the printed seconds. Machines and kernels are 16 years apart."""
OVER_UDP_TOLERANCE = {"gateway": 15.0, "tcp": 80.0}
"""S6: percentage points. 15 tells stateless TCP from UDP and from TCP."""
SAME_PERCENT = 10.0
"""S7: "the same": within ten percent."""
SLIGHTLY_PERCENT = 5.0
"""S7: "only slightly increases"."""
LINEAR = 0.98
"""S6: share of the variance between rates that a line explains, at least."""
SESSIONS_TOLERANCE = 0.5
"""S8: share of the printed numbers."""

CHECKS: dict[str, tuple[tuple[str, str], ...]] = {
    "S1": (
        ("syn-answered", "a SYN is answered with SYN/ACK"),
        ("no-state", "a thousand SYNs leave no entry"),
        ("fin-answered", "a FIN is acknowledged"),
        ("translated", "a query reaches the server over UDP, and its reply comes back over TCP"),
    ),
    "S2": (
        ("ack-dropped", "the handshake's ACK does not reach the kernel's TCP"),
        ("query-acknowledged", "the query is acknowledged"),
        ("acknowledged-at-once", "the query is acknowledged before its reply"),
        ("reply-segmented", "a reply above the MSS comes in several segments"),
        ("fin-on-last", "with close = fin, the last segment of the reply has the FIN"),
        ("entry-removed", "the entry is removed at close"),
    ),
    "S3": (
        ("names", "the settings have the paper's names"),
        (
            "defaults",
            "timeout, loglevel, port, hash size and bucket limit have its defaults",
        ),
        ("default-active", "active is 0 unless it is set"),
        ("default-axfr-detect", "axfr_detect is 0 unless it is set"),
    ),
    "S4": (
        ("transfer-detected", "a zone transfer takes the kernel's TCP"),
        ("transfer-whole", "it is the zone that the server gives over the kernel's TCP"),
    ),
    "S9": (
        ("truncated", "a UDP reply above the size is truncated, with TC"),
        ("retried", "a client then has the whole reply over TCP"),
    ),
}
"""What the bench looks for, by claim: name and sentence."""

Runs = Mapping[str, Measured]


def _seen(id: str, check: str, sentence: str) -> Claim:
    return Claim(
        id,
        check.replace("-", " "),
        "",
        (CHECKS4,),
        lambda runs: value(runs, CHECKS4, f"{id} {check}"),
        worded=Worded(sentence, "at least", 1.0),
    )


def _worded(
    id: str,
    metric: str,
    unit: str,
    cells: tuple[str, ...],
    measure: Callable[[Runs], float],
    worded: tuple[str, Literal["at least", "at most"], float],
) -> Claim:
    return Claim(id, metric, unit, cells, measure, worded=Worded(*worded))


def _figure(cell: str, name: str) -> Callable[[Runs], float]:
    return lambda runs: value(runs, cell, name)


def _over(cell: str, base: str, figure: str) -> Callable[[Runs], float]:
    """By how much a cell's figure is above another's, in percent of the latter."""

    def measure(runs: Runs) -> float:
        below = value(runs, base, figure)
        return 100.0 * (value(runs, cell, figure) / below - 1.0) if below else math.nan

    return measure


def _times(cell: str, base: str, figure: str) -> Callable[[Runs], float]:
    over = _over(cell, base, figure)
    return lambda runs: 1.0 + over(runs) / 100.0


def _straight(cell: str) -> Callable[[Runs], float]:
    """How much of the variance of a round's totals a line against the rate explains."""

    def measure(runs: Runs) -> float:
        ordinates = [value(runs, cell, f"total_{rate}") for rate in RATES]
        if any(math.isnan(y) for y in ordinates):
            return math.nan
        middle, mean = sum(RATES) / len(RATES), sum(ordinates) / len(ordinates)
        products = sum((x - middle) * (y - mean) for x, y in zip(RATES, ordinates, strict=True))
        spread = sum((x - middle) ** 2 for x in RATES) * sum((y - mean) ** 2 for y in ordinates)
        return products**2 / spread if spread else math.nan

    return measure


def _seconds(id: str, what: str, part: str, printed: Mapping[str, float]) -> list[Claim]:
    return [
        Claim(
            id,
            f"{what} at {TOP} q/s in 10 s: {TITLES[cell]}",
            "s",
            (cell,),
            _figure(cell, f"{part}_{TOP}"),
            published=seconds,
            tolerance=round(SECONDS_TOLERANCE * seconds, 3),
        )
        for cell, seconds in printed.items()
    ]


def _processor() -> list[Claim]:
    claims = _seconds("S5", "kernel's processor time", "kernel", published.KERNEL_S)
    claims += [
        _worded(
            "S5",
            "kernel's processor time: TCP less stateless TCP",
            "s",
            ("tcp", "gateway"),
            lambda runs: (
                value(runs, "tcp", f"kernel_{TOP}") - value(runs, "gateway", f"kernel_{TOP}")
            ),
            ("stateless TCP takes less than TCP", "at least", 0.0),
        ),
        _worded(
            "S5",
            "kernel's processor time: stateless TCP over UDP, times",
            "",
            ("gateway", "udp"),
            _times("gateway", "udp", f"kernel_{TOP}"),
            (
                "about four times: at most five",
                "at most",
                published.KERNEL_TIMES_UDP["gateway"] + 1.0,
            ),
        ),
        _worded(
            "S5",
            "kernel's processor time: TCP over UDP, times",
            "",
            ("tcp", "udp"),
            _times("tcp", "udp", f"kernel_{TOP}"),
            ("more than six times", "at least", published.KERNEL_TIMES_UDP["tcp"]),
        ),
    ]
    claims += _seconds("S6", "kernel and server", "total", published.TOTAL_S)
    claims += [
        Claim(
            "S6",
            f"kernel and server at {TOP} q/s: {TITLES[cell]} over UDP",
            "%",
            (cell, "udp"),
            _over(cell, "udp", f"total_{TOP}"),
            published=round(percent, 1),
            tolerance=OVER_UDP_TOLERANCE[cell],
        )
        for cell, percent in published.OVER_UDP_PERCENT.items()
    ]
    claims += [
        _worded(
            "S6",
            f"linear in {RATES[0]} to {TOP} q/s: {TITLES[cell]}",
            "",
            (cell,),
            _straight(cell),
            (f"a line explains {100 * LINEAR:g} % of it at least", "at least", LINEAR),
        )
        for cell in TITLES
    ]
    return claims


def _server() -> list[Claim]:
    def apart(runs: Runs) -> float:
        return abs(_over("gateway", "udp", f"server_{TOP}")(runs))

    return [
        _worded(
            "S7",
            "server's processor time: stateless TCP from UDP",
            "%",
            ("gateway", "udp"),
            apart,
            (f"the same: at most {SAME_PERCENT:g} % apart", "at most", SAME_PERCENT),
        ),
        _worded(
            "S7",
            "kernel and server: detection over none",
            "%",
            ("gateway-axfr", "gateway"),
            _over("gateway-axfr", "gateway", f"total_{TOP}"),
            (f"slightly more: at most {SLIGHTLY_PERCENT:g} %", "at most", SLIGHTLY_PERCENT),
        ),
    ]


def _memory() -> list[Claim]:
    claims = [
        _worded(
            "S8",
            "state of a connection: stateless TCP",
            "bytes",
            ("gateway",),
            _figure("gateway", "bytes_asked_entry"),
            ("at most the paper's 88 bytes", "at most", published.BYTES["gateway"]),
        ),
        Claim(
            "S8",
            "kernel's memory for a connection: TCP",
            "bytes",
            ("tcp",),
            _figure("tcp", "bytes_idle_kernel"),
            published=published.BYTES["tcp"],
            tolerance=round(SECONDS_TOLERANCE * published.BYTES["tcp"], 1),
        ),
        _worded(
            "S8",
            "memory for a connection: TCP over stateless TCP, times",
            "",
            ("tcp", "gateway"),
            lambda runs: (
                value(runs, "tcp", "bytes_idle_kernel")
                / value(runs, "gateway", "bytes_asked_gateway")
            ),
            ("more than seven times", "at least", published.BYTES_RATIO),
        ),
    ]
    for statistic, printed in (
        ("mean", published.SESSIONS_MEAN),
        ("most", published.SESSIONS_MOST),
    ):
        claims += [
            Claim(
                "S8",
                f"connections at once at {TOP} q/s, {statistic}: {TITLES[cell]}",
                "",
                (cell,),
                _figure(cell, f"sessions_{statistic}"),
                published=count,
                tolerance=SESSIONS_TOLERANCE * count,
            )
            for cell, count in printed.items()
        ]
    return claims


def _families() -> list[Claim]:
    def alike(runs: Runs) -> float:
        four, six = runs[CHECKS4].values, runs[CHECKS6].values
        shared = four.keys() & six.keys()
        same = sum(1 for name in shared if four[name] == six[name])
        return 100.0 * same / len(shared) if shared else math.nan

    return [
        _worded(
            "S10",
            "what was looked for in S1 to S9: over IPv6 as over IPv4",
            "%",
            (CHECKS4, CHECKS6),
            alike,
            ("IPv4 and IPv6", "at least", 100.0),
        )
    ]


CLAIMS: list[Claim] = [
    *(_seen(id, *check) for id in ("S1", "S2", "S3", "S4") for check in CHECKS[id]),
    *_processor(),
    *_server(),
    *_memory(),
    *(_seen("S9", *check) for check in CHECKS["S9"]),
    *_families(),
]

"""S1 to S12 as numbers and inequalities. Tolerances' reasons are in README.md."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

from narrows.dns_profiles import sizes, sizes_names
from narrows.reproduce.claims import NOT_NEGATIVE, SHARE, Claim, Measured, Worded, reason_of, worded
from narrows.reproduce.hayes_2010 import published
from narrows.reproduce.hayes_2010.cells import CHECKS4, CHECKS6, TITLES
from narrows.reproduce.hayes_2010.measure import value
from narrows.reproduce.hayes_2010.published import FAST, RATES, TOP

SECONDS_TOLERANCE = 0.5
"""S5, S6: share of the printed seconds. Machines and kernels are 16 years apart."""
OVER_UDP_TOLERANCE = {"gateway": 15.0, "tcp": 80.0}
"""S6: percentage points. 15 tells stateless TCP from UDP and from TCP."""
ABOUT_FOUR_TOLERANCE = 1.0
"""S5: of "about four times"; it tells four from UDP's one and from TCP's six."""
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
        ("acknowledged-at-once", "with its settings, the query is acknowledged before its reply"),
        ("reply-segmented", "a reply above the MSS comes in several segments"),
        ("fin-on-last", "with its settings, the last segment of the reply has the FIN"),
        ("entry-removed", "the entry is removed at close"),
    ),
    "S3": (
        ("names", "the settings have the paper's names"),
        (
            "defaults",
            "timeout, loglevel, port, hash size and bucket limit have its defaults",
        ),
        ("default-active", "with its settings, active is 0 unless it is set"),
        ("default-axfr-detect", "with its settings, axfr_detect is 0 unless it is set"),
    ),
    "S4": (
        ("transfer-detected", "a zone transfer takes the kernel's TCP"),
        ("transfer-whole", "it is the zone that the server gives over the kernel's TCP"),
    ),
    "S9": (
        ("truncated", "a UDP reply above the size is truncated, with TC"),
        ("retried", "a client then has the whole reply over TCP"),
    ),
    "S12": (("stays-with-udp", "clients do not fall back when a query fails"),),
}
"""The bench's checks by claim: name and sentence."""

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


def _metric(cell: str, name: str) -> Callable[[Runs], float]:
    return lambda runs: value(runs, cell, name)


def over(cell: str, base: str, metric: str) -> Callable[[Runs], float]:
    """How far a cell's metric is above another's, in percent of the latter."""

    def measure(runs: Runs) -> float:
        below = value(runs, base, metric)
        return 100.0 * (value(runs, cell, metric) / below - 1.0) if below else math.nan

    return measure


def _times(cell: str, base: str, metric: str) -> Callable[[Runs], float]:
    percent = over(cell, base, metric)
    return lambda runs: 1.0 + percent(runs) / 100.0


def _straight(cell: str) -> Callable[[Runs], float]:
    """The share of the variance of a round's totals that a line against the rate explains."""

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
            _metric(cell, f"{part}_{TOP}"),
            published=seconds,
            tolerance=round(SECONDS_TOLERANCE * seconds, 3),
            bounds=NOT_NEGATIVE,
        )
        for cell, seconds in printed.items()
    ]


# Long: a list of statements.
def _processor() -> list[Claim]:
    claims = _seconds("S5", "kernel's processor time", "kernel", published.KERNEL_S)
    claims += [
        worded(
            "S5",
            "kernel's processor time: TCP minus stateless TCP",
            "s",
            ("tcp", "gateway"),
            lambda runs: (
                value(runs, "tcp", f"kernel_{TOP}") - value(runs, "gateway", f"kernel_{TOP}")
            ),
            ("stateless TCP takes less than TCP", "at least", 0.0),
        ),
        Claim(
            "S5",
            "kernel's processor time: stateless TCP over UDP, times",
            "",
            ("gateway", "udp"),
            _times("gateway", "udp", f"kernel_{TOP}"),
            published=published.KERNEL_TIMES_UDP["gateway"],
            tolerance=ABOUT_FOUR_TOLERANCE,
            bounds=NOT_NEGATIVE,
            reason=_KERNEL,
        ),
        worded(
            "S5",
            "kernel's processor time: TCP over UDP, times",
            "",
            ("tcp", "udp"),
            _times("tcp", "udp", f"kernel_{TOP}"),
            ("more than six times", "at least", published.KERNEL_TIMES_UDP["tcp"]),
            NOT_NEGATIVE,
        ),
    ]
    claims += _seconds("S6", "kernel and server", "total", published.TOTAL_S)
    claims += [
        Claim(
            "S6",
            f"kernel and server at {TOP} q/s: {TITLES[cell]} over UDP",
            "%",
            (cell, "udp"),
            over(cell, "udp", f"total_{TOP}"),
            published=round(percent, 1),
            tolerance=OVER_UDP_TOLERANCE[cell],
            note="Derived from the printed seconds; the paper prints 367 %."
            if cell == "tcp"
            else "",
        )
        for cell, percent in published.OVER_UDP_PERCENT.items()
    ]
    claims.append(
        worded(
            "S6",
            "kernel and server: TCP over UDP, times",
            "",
            ("tcp", "udp"),
            _times("tcp", "udp", f"total_{TOP}"),
            ("up to four times more powerful", "at most", 4.0),
            NOT_NEGATIVE,
        )
    )
    claims += [
        worded(
            "S6",
            f"the server's share of kernel and server: {TITLES[cell]}",
            "%",
            (cell,),
            _metric(cell, f"server_percent_{TOP}"),
            ("the server takes the majority", "at least", 50.0),
            SHARE,
        )
        for cell in ("udp", "gateway", "tcp")
    ]
    claims.append(
        replace(
            worded(
                "S6",
                "the server's processor time: TCP minus stateless TCP",
                "s",
                ("tcp", "gateway"),
                lambda runs: (
                    value(runs, "tcp", f"server_{TOP}") - value(runs, "gateway", f"server_{TOP}")
                ),
                ("above all over TCP", "at least", 0.0),
            ),
            note="In seconds. Of the sum, the paper's own numbers give the server 84 % over UDP "
            "and 74 % over TCP.",
        )
    )
    claims += [
        worded(
            "S6",
            f"linear in {RATES[0]} to {TOP} q/s: {TITLES[cell]}",
            "",
            (cell,),
            _straight(cell),
            (f"a line explains {100 * LINEAR:g} % of it at least", "at least", LINEAR),
            (0.0, 1.0),
        )
        for cell in TITLES
    ]
    return claims


def _server() -> list[Claim]:
    return [
        Claim(
            "S7",
            "server's processor time: stateless TCP over UDP",
            "%",
            ("gateway", "udp"),
            # With its sign: the mean of absolute values would count noise as a difference.
            over("gateway", "udp", f"server_{TOP}"),
            published=0.0,
            tolerance=SAME_PERCENT,
            note="The paper says that it is the same.",
        ),
        worded(
            "S7",
            "kernel's processor time: with detection over without",
            "%",
            ("gateway-axfr", "gateway"),
            over("gateway-axfr", "gateway", f"kept_{TOP}"),
            (f"slightly more: at most {SLIGHTLY_PERCENT:g} %", "at most", SLIGHTLY_PERCENT),
        ),
    ]


def _memory() -> list[Claim]:
    claims = [
        worded(
            "S8",
            "state of a connection: stateless TCP",
            "bytes",
            ("gateway",),
            _metric("gateway", "bytes_asked_entry"),
            ("at most the paper's 88 bytes", "at most", published.BYTES["gateway"]),
        ),
        Claim(
            "S8",
            "kernel's memory for a connection: TCP",
            "bytes",
            ("tcp",),
            _metric("tcp", "bytes_idle_kernel"),
            published=published.BYTES["tcp"],
            tolerance=round(SECONDS_TOLERANCE * published.BYTES["tcp"], 1),
            bounds=NOT_NEGATIVE,
        ),
        worded(
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
                _metric(cell, f"sessions_{statistic}"),
                published=count,
                tolerance=SESSIONS_TOLERANCE * count,
                bounds=NOT_NEGATIVE,
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
        worded(
            "S10",
            "checks of S1 to S9: the same over IPv6 as over IPv4",
            "%",
            (CHECKS4, CHECKS6),
            alike,
            ("IPv4 and IPv6", "at least", 100.0),
        )
    ]


PACKETS_TOLERANCE = {"udp": 0.2, "gateway": 2.0, "tcp": 2.0}
"""S11: "two", and "about eight"."""


def _packets() -> list[Claim]:
    return [
        Claim(
            "S11",
            f"packets a query: {TITLES[cell]}",
            "",
            (cell,),
            _metric(cell, f"packets_{TOP}"),
            published=count,
            tolerance=PACKETS_TOLERANCE[cell],
            bounds=NOT_NEGATIVE,
            reason="The gateway answers with fewer packets on purpose: README.md.",
        )
        for cell, count in published.PACKETS.items()
    ]


def _premises() -> list[Claim]:
    return [
        worded(
            "S12",
            "clients turn to TCP after a truncated reply",
            "",
            (CHECKS4,),
            lambda runs: value(runs, CHECKS4, "S9 retried"),
            ("they fall back on a truncated response", "at least", 1.0),
        ),
        replace(
            _seen("S12", *CHECKS["S12"][0]),
            note="Here dig, whose queries get no reply or SERVFAIL. Of the ten clients in "
            "docs/dns-clients.md, Knot Resolver and systemd-resolved do turn to TCP without a "
            "reply.",
        ),
        *(_socket(rate) for rate in (TOP, FAST)),
        replace(
            worded(
                "S12",
                "smallest reply with signatures",
                "bytes",
                (CHECKS4,),
                lambda _: float(_smallest_signed()),
                ("with IPv6 and DNSSEC a response always exceeds 512 bytes", "at least", 513.0),
            ),
            note="Of the signed zones in narrows.dns_profiles, as NSD and Knot serve them.",
            reason="An answer with one signature fits: an IPv6 address with ECDSA takes 177 bytes, "
            "with RSA 365. Negative answers, and those with servers and addresses, exceed 512.",
        ),
        worded(
            "S12",
            "datagrams above 512 bytes, and fragments, that middleboxes drop",
            "%",
            (),
            lambda _: math.nan,
            ("firewalls and NAT boxes drop them: needs measurements in networks", "at least", 0.0),
        ),
    ]


def _smallest_signed() -> int:
    """The shortest reply of a signed zone to clients that ask for signatures, in bytes."""
    signed = [name for name in sizes_names() if not name.startswith("unsigned")]
    return min(choice.reply_bytes for name in signed for choice in sizes(name).choices)


def _socket(rate: int) -> Claim:
    """Most of what stateless TCP saves is saved on connections, at a rate."""
    claim = worded(
        "S12",
        f"saved on opening and closing connections, of all that is saved at {rate} q/s",
        "%",
        ("udp", "tcp", "tcp-kept", "gateway"),
        lambda runs: _connection_share(runs, rate),
        (
            "most of the gain is that no socket is created for each connection",
            "at least",
            published.SOCKET_SHARE_PERCENT,
        ),
    )
    note = (
        "Of kernel and server. The rest is what a query costs more on a persistent connection than "
        "over UDP."
    )
    return replace(claim, note=note)


def _connection_share(runs: Runs, rate: int) -> float:
    """Which part of what stateless TCP saves goes with the connection, not with the query.

    Over the kernel's TCP, a query costs what it costs on a persistent connection, and its
    connection the rest; over stateless TCP, the query costs what it costs over UDP.
    """
    udp, tcp, kept, stateless = (
        value(runs, arm, f"total_{rate}") for arm in ("udp", "tcp", "tcp-kept", "gateway")
    )
    saved = tcp - stateless
    return 100.0 * ((tcp - kept) - (stateless - udp)) / saved if saved > 0.0 else math.nan


_KERNEL = (
    "Here the kernel's time is that of the thread in which the interface receives, and the "
    "server's system calls count as the server's time; FreeBSD's kernel process did both."
)
_TIMES = "Machines and kernels are 16 years apart: ratios say more than seconds."
_REASONS = {
    ("S1", ""): "The gateway answers a FIN with FIN and ACK on purpose: otherwise the client would "
    "wait for the other half to close.",
    ("S5", "over UDP"): "Relative to UDP, Linux's kernel spends less on TCP than FreeBSD 9's did.",
    ("S5", ""): _TIMES,
    ("S6", "linear"): "The core sleeps between packets, and waking it costs more the longer it "
    "slept: a query over UDP takes 92 us at 50 a second and 33 us at 500.",
    (
        "S6",
        "stateless TCP over UDP",
    ): "BIND takes a smaller share of the total today (65 % over UDP; 84 % in the paper), so "
    "packets matter more: a query takes nine over stateless TCP and two over UDP.",
    ("S6", "share"): "BIND takes a smaller share of the total today: 65 % over UDP, where the "
    "paper has 84 %.",
    ("S6", ""): _TIMES,
    ("S7", "server's"): "Here the server's system calls count as the server's time, and during "
    "these calls the gateway turns the replies into TCP segments.",
    ("S8", "memory"): "The paper counts two structures; we count all that the kernel's allocator "
    "takes for a connection.",
    ("S8", ""): "Connections last a fraction of a millisecond here; the paper's lasted 20 ms, over "
    "a network that it does not describe.",
}


CLAIMS: list[Claim] = [
    *(_seen(id, *check) for id in ("S1", "S2", "S3", "S4") for check in CHECKS[id]),
    *_processor(),
    *_server(),
    *_memory(),
    *(_seen("S9", *check) for check in CHECKS["S9"]),
    *_families(),
    *_packets(),
    *_premises(),
]
CLAIMS = [replace(claim, reason=claim.reason or reason_of(claim, _REASONS)) for claim in CLAIMS]

"""C1 to C16 of the published numbers. Tolerances were set before the first run with CAKE."""

from __future__ import annotations

from narrows.reproduce.claims import NOT_NEGATIVE, SHARE, Claim, metric_of, worded
from narrows.reproduce.hoiland_jorgensen_2018.published import (
    ARCHIVE,
    CLASSES,
    CONNECTIONS,
    PROBES,
    QUOTED,
    RRUL,
    SHARES,
    STRATUM,
    STREAM_TCP,
    TIN_SHARES,
    Rrul,
)

PATH_MS = 50.0
"""The round trip without queues: what exceeds it was spent in queues and transmission."""


UNEQUAL = "the row's four uploads add up to 0.710, as ours do"
PROBES_OPEN = (
    "a packet of 1500 bytes takes a tin of 62.5 or 250 kbit/s 48 to 194 ms, so it matters when the "
    "probes come; we do not know whether Flent sent one every 200 ms or after each reply"
)
WORK_CONSERVING = (
    "a tin has priority up to its threshold and takes more only of what others leave, so that BE "
    "gets the rest; C3, of the authors' data, shows the same"
)
DROPS_NOW = "since the paper, CAKE drops such a stream (C12) where it only delayed it"
EMPTY_AT_TIMES = (
    "the queue of this connection is empty at times after a drop; if all queues have packets, the "
    "shares are the ideal (a test of the queue shows it)"
)


def rate_tolerance(published: float) -> float:
    """For a rate in Mbit/s: 10 %, and at least 0.05 Mbit/s (0.01 below 0.5 Mbit/s)."""
    return max(0.1 * published, 0.05 if published >= 0.5 else 0.01)


def delay_tolerance(published: float, percentile: int) -> float:
    """For a round trip: 25 % of what exceeds the path's; at least 1 ms (99 %: 2 ms)."""
    return max(0.25 * (published - PATH_MS), 1.0 if percentile == 50 else 2.0)


def _rrul(row: Rrul) -> list[Claim]:
    def rate(what: str, key: str, published: float) -> Claim:
        return Claim(
            f"CAKE-C{row.number}",
            f"{row.title}: {what}",
            "Mbit/s",
            (row.cell,),
            metric_of(row.cell, key),
            published=published,
            tolerance=rate_tolerance(published),
            bounds=NOT_NEGATIVE,
            note=ARCHIVE,
            reason=UNEQUAL if (row.number, key) == (7, "up") else "",
        )

    rates = [
        rate(f"upload {name.upper()}", f"up-{name}", published)
        for name, published in zip(CLASSES, row.classes, strict=True)
    ]
    rates.append(rate("all uploads", "up", row.up))
    if row.down is not None:
        rates.append(rate("all downloads", "down", row.down))
    return rates + [
        Claim(
            f"CAKE-C{row.number}",
            f"{row.title}: {PROBES[probe]}, {'median' if percentile == 50 else '99 %'}",
            "ms",
            (row.cell,),
            metric_of(row.cell, f"{probe}-{percentile}"),
            published=published,
            tolerance=delay_tolerance(published, percentile),
            bounds=NOT_NEGATIVE,
            note=ARCHIVE,
            reason=PROBES_OPEN if row.up_mbits == 1 and probe != "icmp" else "",
        )
        for (probe, percentile), published in row.probes.items()
    ]


def share_of(mode: str, pair: str) -> str:
    """A label for a connection's share in Figure 3."""
    return f"{mode}: share of each connection from {pair[0]} to {pair[2]}"


def _share(mode: str, pair: str, published: float) -> Claim:
    cell = f"isolation-{mode}"
    return Claim(
        "CAKE-C9",
        share_of(mode, pair),
        "%",
        (cell,),
        lambda runs: (
            100.0
            * runs[cell][pair]
            / CONNECTIONS[pair]
            / sum(runs[cell][other] for other in CONNECTIONS)
        ),
        published=published,
        tolerance=0.5,
        bounds=SHARE,
        note="the ideal; " + STRATUM,
        reason=EMPTY_AT_TIMES,
    )


CLAIMS: list[Claim] = [
    *(claim for row in RRUL for claim in _rrul(row)),
    *(
        _share(mode, pair, published)
        for mode, shares in SHARES.items()
        for pair, published in zip(CONNECTIONS, shares, strict=True)
    ),
    *(
        Claim(
            "CAKE-C10",
            f"diffserv4: share of the connection with {dscp}",
            "%",
            ("tins",),
            lambda runs, dscp=dscp: (  # type: ignore[misc]
                100.0 * runs["tins"][dscp] / sum(runs["tins"][other] for other in TIN_SHARES)
            ),
            published=published,
            tolerance=2.0,
            bounds=SHARE,
            note="the thresholds over their sum: " + STRATUM,
            reason=WORK_CONSERVING,
        )
        for dscp, published in TIN_SHARES.items()
    ),
    *(
        Claim(
            "CAKE-C11",
            f"{queue}: goodput of 32 uploads beside a stream of 2 Mbit/s",
            "Mbit/s",
            (f"stream-{queue}",),
            metric_of(f"stream-{queue}", "uploads"),
            published=published,
            tolerance=rate_tolerance(published),
            bounds=NOT_NEGATIVE,
            note="one run of the authors' archive",
        )
        for queue, published in STREAM_TCP.items()
    ),
    worded(
        "CAKE-C11",
        "diffserv4: the stream's mean one-way delay",
        "ms",
        ("stream-diffserv4",),
        metric_of("stream-diffserv4", "stream-delay"),
        ("no added delay: at most 2 ms more than the path's 25", "at most", 27.0),
        bounds=NOT_NEGATIVE,
        note=QUOTED,
    ),
    Claim(
        "CAKE-C11",
        "besteffort: the stream's mean one-way delay",
        "ms",
        ("stream-besteffort",),
        metric_of("stream-besteffort", "stream-delay"),
        published=200.0,
        tolerance=20.0,
        read_from=QUOTED,
        bounds=NOT_NEGATIVE,
        reason=DROPS_NOW,
    ),
    worded(
        "CAKE-C12",
        "diffserv4: packets of the stream that are lost",
        "%",
        ("stream-diffserv4",),
        metric_of("stream-diffserv4", "stream-lost"),
        ("none is lost", "at most", 0.1),
        bounds=SHARE,
        note=STRATUM + ", on a current kernel",
    ),
    *(
        Claim(
            "CAKE-C12",
            f"{queue}: packets of the stream that are lost",
            "%",
            (f"stream-{queue}",),
            metric_of(f"stream-{queue}", "stream-lost"),
            published=82.0,
            tolerance=3.0,
            bounds=SHARE,
            note="79 to 85 %; " + STRATUM + ", on a current kernel",
        )
        for queue in ("besteffort", "fq-codel")
    ),
    Claim(
        "CAKE-C13",
        "30/1 Mbit/s: downloads with the ACK filter over those without",
        "",
        ("ack-off", "ack-conservative"),
        lambda runs: runs["ack-conservative"]["down"] / runs["ack-off"]["down"],
        published=1.15,
        tolerance=0.05,
        read_from=QUOTED,
        bounds=NOT_NEGATIVE,
    ),
    *(
        Claim(
            "CAKE-C14",
            f"1000/20 Mbit/s, 30 s: {what} with the ACK filter over those without",
            "",
            ("gigabit-off", "gigabit-conservative"),
            lambda runs, key=key: (  # type: ignore[misc]
                runs["gigabit-conservative"][key] / runs["gigabit-off"][key]
            ),
            published=published,
            tolerance=0.2 * published,
            bounds=NOT_NEGATIVE,
            note="the blog of one of the authors, 28 November 2017: one run",
        )
        for what, key, published in (("downloads", "down", 791 / 410), ("uploads", "up", 1.5))
    ),
    Claim(
        "CAKE-C16",
        "share of a host with 4 connections against one with 1",
        "%",
        ("hosts-4",),
        lambda runs: (
            100.0 * runs["hosts-4"]["many"] / (runs["hosts-4"]["many"] + runs["hosts-4"]["one"])
        ),
        published=51.5,
        tolerance=1.0,
        bounds=SHARE,
        note=STRATUM + ", on Linux",
    ),
    Claim(
        "CAKE-C16",
        "share of 16 connections against 1 to the same destination",
        "%",
        ("hosts-16",),
        lambda runs: (
            100.0 * runs["hosts-16"]["many"] / (runs["hosts-16"]["many"] + runs["hosts-16"]["one"])
        ),
        published=100 * 16 / 17,
        tolerance=1.0,
        bounds=SHARE,
        note="fair by connection; " + STRATUM + ", on Linux",
    ),
]

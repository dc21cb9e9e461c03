"""W1 to W13 of the published numbers, and Figure 8a. Tolerances' reasons are in README.md."""

from __future__ import annotations

from narrows.reproduce.claims import NOT_NEGATIVE, Claim, metric_of
from narrows.reproduce.ware_2019.cells import (
    BUFFERS,
    BUFFERS_8A,
    LOSSY,
    MANY,
    RIVALS,
    name,
    name_8a,
)

PLOTS = "the plots of github.com/wisclmy0611/bbr-fairness-experiment (Mininet)"
"""Whose plots the rates were read from."""

READING = 0.2
"""The reading error of a rate in Mbit/s."""
READING_SHARE = 0.02
"""The same of a share."""

PUBLISHED = {
    "cubic": (
        (8.95, 0.4), (8.5, 0.9), (6.7, 2.75), (4.15, 5.4), (3.75, 5.8),
        (3.35, 6.2), (2.7, 6.85), (1.15, 8.35), (0.3, 9.2), (0.2, 9.15),
    ),
    "reno": (
        (8.95, 0.45), (8.4, 1.0), (7.45, 2.0), (3.8, 5.75), (3.75, 5.8),
        (3.65, 5.9), (3.35, 6.2), (2.75, 6.8), (2.05, 7.5), (0.1, 9.5),
    ),
}  # fmt: skip
"""Goodput of BBR and of its rival in Mbit/s, by buffer."""

PUBLISHED_8A = {
    1: (0.74, 0.45, 0.35, 0.40, 0.385, 0.255, 0.04),
    8: (0.98, 0.975, 0.87, 0.78, 0.78, 0.78, 0.78),
}
"""BBR's share against one CUBIC connection, by buffer."""

CLAIMS: list[Claim] = [
    *(
        Claim(
            f"BBR-W{number}",
            f"{who} against {against}, {buffer:g} BDP",
            "Mbit/s",
            (name(rival, buffer),),
            metric_of(name(rival, buffer), key),
            published=rates[index],
            tolerance=READING,
            read_from=PLOTS,
            bounds=NOT_NEGATIVE,
        )
        for number, buffer in enumerate(BUFFERS, start=1)
        for rival, title in RIVALS.items()
        for rates in (PUBLISHED[rival][number - 1],)
        for index, (key, who, against) in enumerate(
            (("bbr", "BBR", title), ("other", title, "BBR"))
        )
    ),
    *(
        Claim(
            "BBR-8a",
            f"share of {connections} BBR against 1 CUBIC, {buffer:g} BDP",
            "",
            (name_8a(connections, buffer),),
            metric_of(name_8a(connections, buffer), "share"),
            published=published,
            tolerance=READING_SHARE,
            read_from=PLOTS,
            bounds=(0.0, 1.0),
        )
        for connections, shares in PUBLISHED_8A.items()
        for buffer, published in zip(BUFFERS_8A, shares, strict=True)
    ),
    Claim(
        "BBR-W11",
        "share of 1 BBR against 16 CUBIC, 32 BDP",
        "",
        (MANY,),
        metric_of(MANY, "share"),
        published=0.40,
        tolerance=0.1,
        note="the paper's abstract says 40 %, as another text quotes it; the tolerance is ours",
        bounds=(0.0, 1.0),
    ),
    *(
        Claim(
            "BBR-W13",
            f"goodput of {title} with 1 % of random loss",
            "Mbit/s",
            (LOSSY[congestion],),
            metric_of(LOSSY[congestion], "bbr"),
            published=published,
            tolerance=0.2 * published,
            note="the message of BBR's merge into Linux, as another text quotes it; it does not "
            "name the queue. The tolerance is ours",
            bounds=NOT_NEGATIVE,
        )
        for congestion, title, published in (("cubic", "CUBIC", 3.27), ("bbr", "BBR", 9150.0))
    ),
]

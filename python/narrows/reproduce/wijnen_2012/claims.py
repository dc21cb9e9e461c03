"""R1 to R7 as numbers and inequalities. Tolerances' reasons are in README.md."""

from __future__ import annotations

import math
from collections.abc import Mapping

from narrows.reproduce.claims import SHARE, Claim, Measured, less, metric_of, worded
from narrows.reproduce.wijnen_2012.cells import (
    BIND_2012,
    FARTHER,
    FIXED,
    L_ROOT,
    LATE,
    NEW,
    NSD_10,
    NSD_2012,
    OLD,
    OLD_10,
    OLD_100,
    TODAY,
)

NEAR = 0.03
"""Tolerance (half-width) about a peak of a quiet server."""
LOADED = 0.1
"""The same for a server with other clients."""

Runs = Mapping[str, Measured]


def _two_peaks(runs: Runs) -> float:
    """Share of the pairs at 2 or at 3, over ten servers that write once and three that do not."""
    once = [runs[program] for program in TODAY]
    one = sum(run["at_2"] + run["at_3"] for run in once) / len(once)
    two = runs[OLD]["at_2"] + runs[OLD]["at_3"]
    return (10.0 * one + 3.0 * two) / 13.0


def _more_round_trips(runs: Runs) -> float:
    return runs[OLD]["excess"] - runs[NEW]["excess"]


def _not_tested(_: Runs) -> float:
    return math.nan


CLAIMS: list[Claim] = [
    *(
        Claim(
            "R1",
            f"most frequent ratio: {name} of today",
            "",
            (program,),
            metric_of(program, "peak"),
            published=2.0,
            tolerance=NEAR,
        )
        for program, name in TODAY.items()
    ),
    *(
        worded(
            "R1",
            f"pairs within 0.2 of 2: {name} of today",
            "%",
            (program,),
            metric_of(program, "at_2"),
            ("the majority of the measurements is around 2", "at least", 50.0),
            bounds=SHARE,
        )
        for program, name in TODAY.items()
    ),
    Claim(
        "R2",
        "most frequent ratio: length and message in two writes",
        "",
        (OLD,),
        metric_of(OLD, "peak"),
        published=3.0,
        tolerance=NEAR,
    ),
    Claim(
        "R2",
        "what two writes cost, in round trips",
        "",
        (OLD, NEW),
        _more_round_trips,
        published=1.0,
        tolerance=NEAR,
    ),
    worded(
        "R2",
        "pairs at 2 or at 3, ten servers of the first kind and three of the second",
        "%",
        (*TODAY, OLD),
        _two_peaks,
        ("two distinct peaks: most pairs are at 2 or 3", "at least", 90.0),
        note="90 % is our reading of two distinct peaks",
        bounds=SHARE,
    ),
    worded(
        "R2",
        "the three root servers at 3 are those that run NSD",
        "",
        (),
        _not_tested,
        ("needs a day's results of each root server, and what each ran in 2012", "at least", 0.0),
    ),
    worded(
        "R3",
        "pairs above 4: ten connections at most",
        "%",
        (OLD_10,),
        metric_of(OLD_10, "above_4"),
        ("several much bigger values: 5 % at least", "at least", 5.0),
        note="5 % is our reading of the paper's words",
        bounds=SHARE,
    ),
    worded(
        "R3",
        "pairs above 10: ten connections at most",
        "%",
        (OLD_10,),
        metric_of(OLD_10, "above_10"),
        ("many results above 10: 1 % at least", "at least", 1.0),
        note="1 % is our reading of the paper's words",
        bounds=SHARE,
    ),
    Claim(
        "R3",
        "most frequent ratio: a hundred connections",
        "",
        (OLD_100,),
        metric_of(OLD_100, "peak"),
        published=3.0,
        tolerance=LOADED,
    ),
    worded(
        "R3",
        "pairs within 0.3 of 3: a hundred connections",
        "%",
        (OLD_100,),
        metric_of(OLD_100, "at_3"),
        ("the density is around 3: most pairs", "at least", 50.0),
        note="50 % is our reading of the paper's words",
        bounds=SHARE,
    ),
    worded(
        "R3",
        "pairs above 4: ten connections minus a hundred",
        "%",
        (OLD_10, OLD_100),
        less(OLD_10, OLD_100, "above_4"),
        ("a hundred connections bring the ratio back", "at least", 5.0),
    ),
    worded(
        "R3",
        "pairs above 4: NSD of today with ten connections",
        "%",
        (NSD_10,),
        metric_of(NSD_10, "above_4"),
        ("several much bigger values: 5 % at least", "at least", 5.0),
        reason="Since 2016, NSD gives a connection 200 ms, not 120 s, once half of its slots are "
        "taken, and its backlog holds 256 connections, not 5",
        bounds=SHARE,
    ),
    *(
        Claim(
            "R3",
            f"queries that arrived and were never answered: {name}",
            "%",
            (cell,),
            metric_of(cell, "lost"),
            published=0.0,
            tolerance=0.0,
            note="seen on the server's side of the path, of all clients; an answer counts even if "
            "the client no longer waits for it",
            reason=reason,
            bounds=SHARE,
        )
        for cell, name, reason in (
            (
                OLD_10,
                "ten connections at most",
                "When its queue of five is full, Linux 6.18 sends SYN cookies. A few of these "
                "clients consider themselves connected, but Linux drops every copy of their query",
            ),
            (
                NSD_10,
                "NSD of today with ten connections",
                "On a busy machine, one query of three runs got no answer; nine further runs lost "
                "none",
            ),
        )
    ),
    worded(
        "R3",
        "queries that timed out at a client",
        "",
        (OLD_10,),
        _not_tested,
        ("the paper says only that some may have; Figure 2's table has our share", "at least", 0.0),
    ),
    worded(
        "R3",
        "why L-root's ratios vary, up to 10",
        "",
        (L_ROOT,),
        _not_tested,
        ("needs a day of L-root's results; Figure 2's table has a guess", "at least", 0.0),
    ),
    worded(
        "R4",
        "the paper's figures, from a day of RIPE Atlas results",
        "",
        (),
        _not_tested,
        ("needs the day's results: narrows import atlas, narrows ratio", "at least", 0.0),
        note="samples/plots has all four kinds, of a small sample in Atlas's form",
    ),
    Claim(
        "R5",
        "data segments of a reply: BIND",
        "",
        ("named",),
        metric_of("named", "segments"),
        published=1.0,
        tolerance=0.0,
    ),
    Claim(
        "R5",
        "payload of BIND's segment",
        "bytes",
        (BIND_2012,),
        metric_of(BIND_2012, "first_bytes"),
        published=747.0,
        tolerance=0.0,
        note="BIND of today with the root zone of 2012, asked without EDNS as in the paper",
        reason="BIND 9.18 writes the root, which owns the thirteen NS records, twelve times as a "
        "pointer of two bytes; the name itself has one byte",
    ),
    Claim(
        "R5",
        "payload of a segment with length and message: NSD",
        "bytes",
        (NSD_2012,),
        metric_of(NSD_2012, "first_bytes"),
        published=747.0,
        tolerance=0.0,
        note="NSD of today with the same zone, asked in the same way; the paper prints the number "
        "of BIND",
    ),
    Claim(
        "R5",
        "data segments of a reply: old NSD",
        "",
        (OLD,),
        metric_of(OLD, "segments"),
        published=2.0,
        tolerance=0.0,
    ),
    Claim(
        "R5",
        "payload of old NSD's first segment",
        "bytes",
        (OLD,),
        metric_of(OLD, "first_bytes"),
        published=2.0,
        tolerance=0.0,
    ),
    Claim(
        "R5",
        "payload of old NSD's second segment",
        "bytes",
        (OLD,),
        metric_of(OLD, "second_bytes"),
        published=745.0,
        tolerance=0.0,
        note="the emulated server's reply is as long as the root zone of 2012 makes it",
    ),
    worded(
        "R6",
        "why C-root's ratios lie between 2 and 3",
        "",
        (FIXED, FARTHER, LATE, OLD, NEW),
        _not_tested,
        ("needs a day of C-root's results; the plots show four causes", "at least", 0.0),
    ),
    Claim(
        "R7",
        "most frequent ratio: length and message in one writev",
        "",
        (NEW,),
        metric_of(NEW, "peak"),
        published=2.0,
        tolerance=NEAR,
        note="the paper expects it of NSD 3.2.14, and does not measure it",
    ),
]

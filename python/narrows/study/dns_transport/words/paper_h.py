"""Paper H's worst cell: RED, all downloads with ECN, 20 ms."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from narrows.study.dns_transport.design import PAPER_H
from narrows.study.dns_transport.factors import TRANSPORTS
from narrows.study.dns_transport.phrases import (
    MATTERS,
    SECOND,
    bare,
    fewer,
    listed,
    more,
    number,
    percent,
    points,
    spread,
    transport_title,
)
from narrows.study.dns_transport.pooled import Where, difference, mean
from narrows.study.dns_transport.words.told import Sentence, Table
from narrows.study.dns_transport.words.transports import ecn_gap

__all__ = ["sentences", "tables"]

CLEAN = "without_retry_percent"

_ARP: Where = {"load": PAPER_H, "neighbours": "arp"}
_KNOWN: Where = {"load": PAPER_H, "neighbours": "known"}


def sentences(runs: pl.DataFrame) -> list[Sentence]:
    """Sentences about this cell."""
    return [each for part in (_arp, _moving, _marked, _dead) for each in part(runs)]


def tables(runs: pl.DataFrame) -> list[Table]:
    """A table with one transport for all DNS in each row."""
    return [_transports(runs)]


def _arp(runs: pl.DataFrame) -> Iterator[Sentence]:
    arp = mean(runs, CLEAN, {**_ARP, "transport": "udp"})
    known = mean(runs, CLEAN, {**_KNOWN, "transport": "udp"})
    if arp is None or known is None:
        return
    text = (
        "All downloads use ECN there, behind RED and 20 ms away. Over UDP "
        f"{percent(arp)} of the queries are answered without a retry (the paper: 41.39 %; "
        "Linux 6.1 in 14 runs: 39 to 52 %; both with more queries). "
    )
    decides = known.high < arp.low
    if decides:
        text += f"Without ARP it is {percent(known)}"
        silent = mean(runs, "silent_percent", {**_KNOWN, "transport": "udp"})
        if silent is not None and silent.mean > 50.0:
            text += (
                f", and for {percent(silent)} of the time nobody gets an answer while the queue "
                "keeps its length"
            )
        outages = mean(runs, "outages", {**_ARP, "transport": "udp"})
        if outages is not None:
            text += (
                ". RED drops the ARP packets of its own routers, so the link fails "
                f"{number(outages)} times in a run, and each failure lets DNS through"
            )
    else:
        text += f"Without ARP it is {percent(known)}"
    yield Sentence(
        "paper H's worst cell",
        "ARP decides paper H's worst cell."
        if decides
        else "ARP does not decide paper H's worst cell.",
        text + ".",
        headline=True,
    )


def _moving(runs: pl.DataFrame) -> Iterator[Sentence]:
    """What it costs to move all DNS away from UDP to transports that cannot be marked."""
    told, costs = [], []
    for name in ("tcp-new", "tcp-stateless", "quic-new", "tcp-kept", "quic-kept"):
        value = mean(runs, SECOND, {**_ARP, "transport": name})
        gap = difference(runs, SECOND, {"transport": name}, {"transport": "udp"}, _ARP)
        if value is None or gap is None:
            continue
        told.append(f"{transport_title(name)} {percent(value)}, {points(gap)}")
        if fewer(gap):
            costs.append(transport_title(name))
    if not told:
        return
    yield Sentence(
        "paper H's worst cell",
        f"Moving all DNS to {listed(costs, 'or')} costs answers in that cell."
        if costs
        else "Moving all DNS to connections makes no clear difference in that cell.",
        "With ARP and without ECN on DNS, these shares are answered within a second, with the "
        f"differences from UDP: {'; '.join(told)}.",
        headline=True,
    )


def _marked(runs: pl.DataFrame) -> Iterator[Sentence]:
    """The gain from ECN on DNS in this cell."""
    gained, not_sure = [], []
    for line in TRANSPORTS:
        value = mean(runs, SECOND, {**_ARP, "transport": line.name})
        gap = ecn_gap(runs, line, _ARP) if line.ecn_of else None
        if value is None or gap is None:
            continue
        if more(gap):
            gained.append((value.mean, f"{line.title} {percent(value)}"))
        else:
            not_sure.append(line.title)
    if not gained and not not_sure:
        return
    text = ""
    if gained:
        told = listed([words for _, words in sorted(gained, reverse=True)])
        text += f"With ARP and ECN on DNS, these shares are answered within a second: {told}. "
    if not_sure:
        text += f"There is no clear gain of a point or more for {listed(not_sure)}."
    yield Sentence(
        "paper H's worst cell",
        "ECN on DNS helps in that cell."
        if gained
        else "ECN on DNS makes no clear difference in that cell.",
        text.strip(),
        headline=bool(gained),
    )


def _dead(runs: pl.DataFrame) -> Iterator[Sentence]:
    alive, dead = [], []
    for line in TRANSPORTS:
        value = mean(runs, SECOND, {**_KNOWN, "transport": line.name})
        if value is None:
            continue
        if value.high < MATTERS:
            dead.append(line)
        else:
            alive.append((line, value))
    if not dead:
        return
    without_ecn = [line for line in dead if not line.ecn_of]
    text = "Almost no query is answered within a second over "
    if any(not line.ecn_of for line, _ in alive):
        advice = "Without ARP, some transports get nothing through."
        text += listed([line.title for line in dead])
    else:
        advice = "Without ARP, nothing gets through without ECN."
        text += "any transport without ECN" if len(without_ecn) > 1 else without_ecn[0].title
        with_ecn = [line.title for line in dead if line.ecn_of]
        if with_ecn:
            text += f", nor over {listed(with_ecn, 'or')}"
    if alive:
        told = listed([f"{line.title} ({percent(value)})" for line, value in alive])
        text += f". Queries are answered over {told}"
    yield Sentence("paper H's worst cell", advice, text + ".")


def _transports(runs: pl.DataFrame) -> Table:
    rows = []
    for line in TRANSPORTS:
        at: Where = {**_ARP, "transport": line.name}
        value = mean(runs, SECOND, at)
        if value is None:
            continue
        this, udp = {"transport": line.name}, {"transport": "udp"}
        gap = difference(runs, SECOND, this, udp, _ARP)
        lost = mean(runs, "failed_percent", at)
        known = mean(runs, SECOND, {**_KNOWN, "transport": line.name})
        packets, held = (mean(runs, name, at) for name in ("packets_per_answer", "connections"))
        rows.append(
            (
                line.title,
                bare(value),
                "" if line.name == "udp" or gap is None else spread(gap, signed=True),
                "" if lost is None else bare(lost),
                "" if packets is None else f"{packets.mean:.1f}",
                "" if held is None else f"{held.mean:.0f}",
                "" if known is None else bare(known),
            )
        )
    return Table(
        "paper H's worst cell",
        "All DNS on one transport, with ARP except in the last column",
        (
            "transport",
            "within a second, %",
            "against UDP, points",
            "failed, %",
            "packets per answer",
            "connections at the server",
            "without ARP: within a second, %",
        ),
        rows,
    )

"""The study's tables: its metrics for each group of readers, with 95 % intervals over seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import polars as pl

from narrows.reproduce.statistics import Interval
from narrows.study.dns_transport import cpu
from narrows.study.dns_transport.design import PAPER_H
from narrows.study.dns_transport.factors import TRANSPORTS, Transport
from narrows.study.dns_transport.phrases import (
    LOADED,
    SECOND,
    bare,
    base,
    listed,
    loaded,
    pooled_over,
    ranked,
    signed,
    title,
    transport_title,
    under_loads,
    whole,
)
from narrows.study.dns_transport.pooled import Where, difference, mean, select


@dataclass(frozen=True)
class Table:
    """Metrics for a group of readers."""

    heading: Literal["For DNS operators", "For network operators", "Paper H's worst cell"]
    title: str
    columns: Sequence[str]
    """The heads of the columns. The first column names the row; the others are numbers."""
    rows: Sequence[Sequence[str]]


_MARKED: Where = {**base(), "queue": "red-ecn", "load": "downloads-ecn"}
"""Cells in which RED marks packets instead of dropping them, if they can be marked."""

_QUIET: Where = {**base(), "load": "none"}
_ARP: Where = {"load": PAPER_H, "neighbours": "arp"}
_KNOWN: Where = {"load": PAPER_H, "neighbours": "known"}

_WAITED = "time in the queue, ms"
"""The heading of a column that needs runs with UDP."""


def tables(runs: pl.DataFrame) -> list[Table]:
    """The tables that the runs allow; none is empty."""
    if runs.is_empty():
        return []
    runs, _ = whole(runs)
    made = (_transports_under_load, _with_ecn, _queues_under_load, _in_paper_h)
    return [table for make in made if (table := make(runs)).rows]


def notes(runs: pl.DataFrame) -> list[str]:
    """What a reader of the tables must know, a sentence or two each."""
    if runs.is_empty():
        return []
    runs, short = whole(runs)
    texts = []
    loads = [title("load", name) for name in loaded(runs)["load"]]
    if loads and under_loads(runs) == LOADED:
        texts.append(f"{LOADED.capitalize()} is the mean over {listed(loads)}.")
    texts.append(cpu.source())
    if runs["seed"].n_unique() < 2:
        texts.append("There is only one seed, so no metric has an interval or a clear difference.")
    if short:
        names = listed([transport_title(name) for name in short])
        texts.append(f"Left out under load, because cells are missing: {names}.")
    return texts


def _transports_under_load(runs: pl.DataFrame) -> Table:
    rows = []
    at, where_it_costs = _cost_cells(runs)
    for name, within in ranked(runs, "transport", loaded(runs)):
        gap = difference(runs, SECOND, {"transport": name}, {"transport": "udp"}, loaded(runs))
        metrics = [
            mean(runs, metric, {**at, "transport": name})
            for metric in ("response_p50_ms", "packets_per_answer", "connections")
        ]
        spent = [
            each.mean
            for server in cpu.SERVERS
            if (each := mean(runs, f"cpu_{server}_us", {**at, "transport": name}))
        ]
        rows.append(
            (
                transport_title(name),
                bare(within),
                "" if name == "udp" or gap is None else signed(gap),
                *("" if each is None else f"{each.mean:.1f}" for each in metrics),
                f"{min(spent):.0f} to {max(spent):.0f}" if spent else "",
            )
        )
    return Table(
        "For DNS operators",
        f"Within a second over {pooled_over(runs, 'queue')}, and what an answer costs "
        f"{where_it_costs}",
        (
            "transport",
            "within a second, %",
            "against UDP, points",
            "median without load, ms" if at["load"] == "none" else "median, ms",
            "packets per answer",
            "connections at the server",
            "server's processor, us",
        ),
        rows,
    )


def _cost_cells(runs: pl.DataFrame) -> tuple[Where, str]:
    """The cells for the table's costs: FIFO without load, or else cells that ran."""
    quiet = select(runs, _QUIET).get_column("queue").unique(maintain_order=True).to_list()
    if quiet:
        queue = "fifo" if "fifo" in quiet else quiet[0]
        return {**_QUIET, "queue": queue}, f"behind {title('queue', queue)} without other load"
    return loaded(runs), "there"


def _with_ecn(runs: pl.DataFrame) -> Table:
    rows = []
    for line in TRANSPORTS:
        gap = _ecn_gap(runs, line, _MARKED) if line.ecn_of else None
        without = mean(runs, SECOND, {**_MARKED, "transport": line.ecn_of})
        with_ecn = mean(runs, SECOND, {**_MARKED, "transport": line.name})
        if gap is not None and without is not None and with_ecn is not None:
            rows.append((gap.mean, (line.title, bare(without), bare(with_ecn), signed(gap))))
    return Table(
        "For DNS operators",
        "ECN on DNS behind RED that marks, among downloads with ECN: answered within a second",
        ("transport", "without ECN, %", "with ECN, %", "difference, points"),
        [row for _, row in sorted(rows, key=lambda item: -item[0])],
    )


def _ecn_gap(runs: pl.DataFrame, line: Transport, where: Where) -> Interval | None:
    """The gain from ECN for a transport, in points of answers within a second."""
    return difference(runs, SECOND, {"transport": line.name}, {"transport": line.ecn_of}, where)


def _queues_under_load(runs: pl.DataFrame) -> Table:
    rows = []
    waiting = {**base(), "transport": "udp", "load": "downloads-ecn"}
    for name, within in ranked(runs, "queue", loaded(runs)):
        gap = difference(runs, SECOND, {"queue": name}, {"queue": "fifo"}, loaded(runs))
        udp = mean(runs, SECOND, {**loaded(runs), "queue": name, "transport": "udp"})
        worst = _worst_cell(runs, name)
        waited = mean(runs, "sojourn_ms", {**waiting, "queue": name})
        rows.append(
            (
                title("queue", name),
                bare(within),
                "" if name == "fifo" or gap is None else signed(gap),
                "" if udp is None else bare(udp),
                ""
                if worst is None
                else f"{worst[1].mean:.1f} ({transport_title(worst[0]['transport'])}, "
                f"{title('load', worst[0]['load'])})",
                "" if waited is None else f"{waited.mean:.0f}",
            )
        )
    columns = (
        "queue",
        "within a second, %",
        "against FIFO, points",
        "UDP alone, %",
        "worst cell, %",
        _WAITED,
    )
    shown = [0, *(place for place in range(1, len(columns)) if any(row[place] for row in rows))]
    caption = f"Answered within a second over {pooled_over(runs, 'transport')}"
    if columns.index(_WAITED) in shown:
        load = title("load", waiting["load"])
        caption += f"; time in the queue is the mean of all packets with UDP and {load}"
    return Table(
        "For network operators",
        caption,
        [columns[place] for place in shown],
        [tuple(row[place] for place in shown) for row in rows],
    )


def _worst_cell(runs: pl.DataFrame, queue: str) -> tuple[dict[str, str], Interval] | None:
    """The queue's cell that answers the fewest queries within a second, and their share."""
    rows = select(runs, {**loaded(runs), "queue": queue})
    found: tuple[dict[str, str], Interval] | None = None
    for (name, load), part in rows.group_by(("transport", "load"), maintain_order=True):
        value = mean(part, SECOND, {})
        if value is not None and (found is None or value.mean < found[1].mean):
            found = {"transport": str(name), "load": str(load)}, value
    return found


def _in_paper_h(runs: pl.DataFrame) -> Table:
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
                "" if line.name == "udp" or gap is None else signed(gap),
                "" if lost is None else bare(lost),
                "" if packets is None else f"{packets.mean:.1f}",
                "" if held is None else f"{held.mean:.0f}",
                "" if known is None else bare(known),
            )
        )
    return Table(
        "Paper H's worst cell",
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

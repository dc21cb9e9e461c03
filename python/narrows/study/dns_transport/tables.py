"""The study's tables, with 95 % intervals over seeds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import polars as pl

from narrows.reproduce.statistics import Interval
from narrows.study.dns_transport import cpu
from narrows.study.dns_transport.design import PAPER_H
from narrows.study.dns_transport.factors import (
    MARKING,
    OPERATOR,
    PLACES,
    TRANSPORTS,
    Place,
)
from narrows.study.dns_transport.phrases import (
    PAGE,
    SECOND,
    UNMARKED,
    bare,
    listed,
    loaded,
    plane,
    present,
    signed,
    title,
    transport_title,
)
from narrows.study.dns_transport.pooled import Where, difference, mean, select


@dataclass(frozen=True)
class Table:
    """Metrics under a heading of the README."""

    heading: str
    title: str
    columns: Sequence[str]
    """The heads of the columns. The first column names the row; the others are numbers."""
    rows: Sequence[Sequence[str]]


ANSWER = "The answer"
COSTS = "What an answer costs"
MARKS = "ECN and L4S on DNS"
WORST = "Paper H's worst cell"


def heading(place: Place) -> str:
    """The heading of a place's tables."""
    return f"Behind the queues of {place.title}"


def tables(runs: pl.DataFrame) -> list[Table]:
    """The tables that the runs allow; none is empty."""
    if runs.is_empty():
        return []
    planes = [(place, part) for place in PLACES if not (part := plane(runs, place.name)).is_empty()]
    made = [_answers(planes)]
    for place, part in planes:
        made += [_transports(place, part), _queues(place, part)]
    made += [_costs(planes), _marks(planes), _paper_h(runs)]
    return [table for table in made if table.rows]


def notes(runs: pl.DataFrame) -> list[str]:
    """What a reader of the tables must know, a sentence or two each."""
    if runs.is_empty():
        return []
    loads = [title("load", name) for name in present(runs, "load") if name != "none"]
    texts = [f"Under load is the mean over downloads with {listed(loads)}."] if loads else []
    texts.append(cpu.source())
    if runs["seed"].n_unique() < 2:
        texts.append("There is only one seed, so no metric has an interval or a clear difference.")
    return texts


def _mean(plane: pl.DataFrame, metric: str, where: Where) -> Interval | None:
    """The mean under load; None if a load is missing that the plane has."""
    where = {**loaded(plane), **where}
    there = select(plane, where)
    names = ("transport", "queue")
    if any(there.filter(**{n: v}).is_empty() for n in names for v in _listed(where.get(n))):
        return None
    cells = there.select(*names, "load").unique()
    complete = cells.group_by(names).len()["len"] == len(where["load"])
    return mean(plane, metric, where) if complete.all() else None


def _listed(wanted: str | Sequence[str] | None) -> list[str]:
    return [] if wanted is None else [wanted] if isinstance(wanted, str) else list(wanted)


def _answers(planes: Sequence[tuple[Place, pl.DataFrame]]) -> Table:
    return Table(
        ANSWER,
        "UDP and the transport with the most answers within a second, and with the fastest pages, "
        "under load",
        (
            "queue",
            "UDP: within a second, %",
            "most answers",
            "more than UDP, points",
            "UDP: page, s",
            "fastest pages",
            "faster than UDP, s",
        ),
        [row for place, part in planes for row in _answer(place, part)],
    )


def _answer(place: Place, plane: pl.DataFrame) -> Iterator[Sequence[str]]:
    for queue in present(plane, "queue"):
        cells = [f"{title('queue', queue)} of {place.title}"]
        udp: Where = {"queue": queue, "transport": "udp"}
        for metric, sign in ((SECOND, 1.0), (PAGE, -1.0)):
            of_udp = _mean(plane, metric, udp)
            found = {
                name: sign * value.mean
                for name in present(plane, "transport")
                if (value := _mean(plane, metric, {"queue": queue, "transport": name}))
            }
            if of_udp is None or not found:
                cells += ["", "", ""]
                continue
            best = max(found, key=lambda name: found[name])
            gap = difference(
                plane,
                metric,
                {"transport": best if sign > 0 else "udp"},
                {"transport": "udp" if sign > 0 else best},
                {"queue": queue, **loaded(plane)},
            )
            clear = "" if best == "udp" or gap is None else signed(gap, 1 if sign > 0 else 2)
            cells += [bare(of_udp, 1 if sign > 0 else 2), transport_title(best), clear]
        if any(cells[1:]):
            yield cells


def _transports(place: Place, plane: pl.DataFrame) -> Table:
    queues = present(plane, "queue")
    rows = []
    for name in present(plane, "transport"):
        cells = [_both(plane, {"queue": queue, "transport": name}) for queue in queues]
        if any(cells):
            rows.append([transport_title(name), *cells])
    pages = "; page load time, median, s" if PAGE in plane.columns else ""
    return Table(
        heading(place),
        f"Answered within a second, %{pages}; under load",
        ["transport", *(title("queue", queue) for queue in queues)],
        rows,
    )


def _both(plane: pl.DataFrame, where: Where) -> str:
    """The share of answers within a second, and the page load time."""
    answers, pages = (_mean(plane, metric, where) for metric in (SECOND, PAGE))
    texts = ["" if answers is None else bare(answers), "" if pages is None else bare(pages, 2)]
    return "; ".join(filter(None, texts))


def _queues(place: Place, plane: pl.DataFrame) -> Table:
    unmarked = [name for name in present(plane, "transport") if name in UNMARKED]
    pooled: Where = {"transport": unmarked, **loaded(plane)}
    rows = []
    for queue in present(plane, "queue"):
        at: Where = {"queue": queue, "transport": unmarked}
        within = _mean(plane, SECOND, at)
        if within is None:
            continue
        gap = difference(plane, SECOND, {"queue": queue}, {"queue": "fifo"}, pooled)
        metrics = [_mean(plane, metric, at) for metric in (PAGE, "response_p50_ms", "sojourn_ms")]
        goodput = _mean(plane, "goodput_mbit_per_s", at)
        rows.append(
            (
                title("queue", queue),
                bare(within),
                "" if queue == "fifo" or gap is None else signed(gap),
                _worst_cell(plane, queue),
                "" if metrics[0] is None else bare(metrics[0], 2),
                *("" if each is None else f"{each.mean:.0f}" for each in metrics[1:]),
                "" if goodput is None else f"{goodput.mean:.2f}",
            )
        )
    columns = (
        "queue",
        "within a second, %",
        "against FIFO, points",
        "worst cell, %",
        "page, s",
        "median answer, ms",
        "time in the queue, ms",
        "goodput of the downloads, Mbit/s",
    )
    shown = [0, *(place for place in range(1, len(columns)) if any(row[place] for row in rows))]
    return Table(
        heading(place),
        f"The queues, over {len(unmarked)} transports without ECN under load",
        [columns[place] for place in shown],
        [tuple(row[place] for place in shown) for row in rows],
    )


def _worst_cell(plane: pl.DataFrame, queue: str) -> str:
    """The queue's cell that answers the fewest queries within a second."""
    rows = select(plane, {**loaded(plane), "queue": queue, "transport": UNMARKED})
    found = [
        (value.mean, str(name), str(load))
        for (name, load), part in rows.group_by(("transport", "load"), maintain_order=True)
        if (value := mean(part, SECOND, {})) is not None
    ]
    share, name, load = min(found)
    return f"{share:.1f} ({transport_title(name)}, {title('load', load)})"


def _costs(planes: Sequence[tuple[Place, pl.DataFrame]]) -> Table:
    rows = []
    at: Where = {"load": "none", "queue": "fifo"}
    for place, part in planes:
        if place is not OPERATOR:
            continue
        for name in present(select(part, at), "transport"):
            where: Where = {**at, "transport": name}
            metrics = [
                mean(part, metric, where)
                for metric in ("response_p50_ms", "packets_per_answer", "connections")
            ]
            pages = mean(part, PAGE, where)
            spent = [
                each.mean
                for server in cpu.SERVERS
                if (each := mean(part, f"cpu_{server}_us", where))
            ]
            rows.append(
                (
                    transport_title(name),
                    *("" if each is None else f"{each.mean:.1f}" for each in metrics),
                    "" if pages is None else f"{pages.mean:.2f}",
                    f"{min(spent):.0f} to {max(spent):.0f}" if spent else "",
                )
            )
    return Table(
        COSTS,
        f"Behind the FIFO of {OPERATOR.title}, without other load",
        (
            "transport",
            "median, ms",
            "packets per answer",
            "connections at the server",
            "page, s",
            "server's processor, us",
        ),
        rows,
    )


def _marks(planes: Sequence[tuple[Place, pl.DataFrame]]) -> Table:
    columns = [
        (place, part, queue)
        for place, part in planes
        for queue in present(part, "queue")
        if queue in MARKING
    ]
    rows = []
    for line in TRANSPORTS:
        if not line.unmarked:
            continue
        one, other = {"transport": line.name}, {"transport": line.unmarked}
        gaps = [
            difference(part, SECOND, one, other, {"queue": queue, **loaded(part)})
            for _, part, queue in columns
        ]
        if any(gaps):
            rows.append([line.title, *("" if gap is None else signed(gap) for gap in gaps)])
    return Table(
        MARKS,
        "What marks change: more answered within a second than without ECN, points, under load",
        [
            "transport",
            *(f"{title('queue', queue)} of {place.title}" for place, _, queue in columns),
        ],
        rows,
    )


def _paper_h(runs: pl.DataFrame) -> Table:
    arp: Where = {"place": PAPER_H, "neighbours": "arp"}
    rows = []
    for line in TRANSPORTS:
        at: Where = {**arp, "transport": line.name}
        value = mean(runs, SECOND, at)
        if value is None:
            continue
        gap = difference(runs, SECOND, {"transport": line.name}, {"transport": "udp"}, arp)
        lost = mean(runs, "failed_percent", at)
        known = mean(runs, SECOND, {**at, "neighbours": "known"})
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
        WORST,
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

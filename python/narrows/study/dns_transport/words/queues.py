"""For network operators: which queue to use."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from narrows.reproduce.statistics import Interval
from narrows.study.dns_transport.factors import TRANSPORTS
from narrows.study.dns_transport.phrases import (
    SECOND,
    bare,
    base,
    fewer,
    listed,
    loaded,
    more,
    number,
    percent,
    points,
    pooled_over,
    queue_title,
    ranked,
    spread,
    title,
    transport_title,
    under_loads,
)
from narrows.study.dns_transport.pooled import Where, difference, mean, select
from narrows.study.dns_transport.words.told import Sentence, Table

__all__ = ["sentences", "tables"]


def sentences(runs: pl.DataFrame) -> list[Sentence]:
    """Sentences for network operators."""
    parts = (_best, _marking, _first, _worst_case)
    return [each for part in parts for each in part(runs)]


def tables(runs: pl.DataFrame) -> list[Table]:
    """A table of queues under load."""
    return [_under_load(runs)]


def _best(runs: pl.DataFrame) -> Iterator[Sentence]:
    found = ranked(runs, "queue", loaded(runs))
    if len(found) < 2:
        return
    (best, top), (worst, low) = found[0], found[-1]
    text = (
        f"Over {pooled_over(runs, 'transport')}, {percent(top)} of the queries are answered within "
        f"a second behind it. {queue_title(worst)} lets the fewest through: {percent(low)}."
    )
    better, same, worse = _against_fifo(runs, [name for name, _ in found])
    if better:
        text += f" Better than FIFO: {', '.join(better)}."
    if worse:
        text += f" Worse than FIFO: {', '.join(worse)}."
    if same:
        text += f" There is no clear difference from FIFO for {listed(same)}."
    text += " All transports have the same weight here, however much of DNS they carry."
    yield Sentence(
        "network operator", f"{queue_title(best)} lets the most DNS through.", text, headline=True
    )


def _against_fifo(runs: pl.DataFrame, names: list[str]) -> tuple[list[str], list[str], list[str]]:
    """Queues that are better than FIFO, not clearly different, and worse, with differences."""
    better: list[str] = []
    same: list[str] = []
    worse: list[str] = []
    for name in names:
        gap = difference(runs, SECOND, {"queue": name}, {"queue": "fifo"}, loaded(runs))
        if name == "fifo" or gap is None:
            continue
        if more(gap):
            better.append(f"{queue_title(name)} by {points(gap)}")
        elif fewer(gap):
            worse.append(f"{queue_title(name)} by {points(gap)}")
        else:
            same.append(queue_title(name))
    return better, same, worse


def _marking(runs: pl.DataFrame) -> Iterator[Sentence]:
    where: Where = {**base(), "queue": "red-ecn", "transport": "udp"}
    gap = difference(runs, SECOND, {"load": "downloads-ecn"}, {"load": "downloads"}, where)
    here = mean(runs, SECOND, {**where, "load": "downloads-ecn"})
    if gap is None or here is None:
        return
    yield Sentence(
        "network operator",
        "Do not let RED mark where DNS runs over UDP."
        if fewer(gap)
        else "RED's marks make no clear difference to DNS over UDP.",
        f"If all downloads use ECN, RED that marks lets {percent(here)} of DNS over UDP through "
        f"within a second, a difference of {points(gap)} from downloads without ECN.",
        headline=True,
    )


def _first(runs: pl.DataFrame) -> Iterator[Sentence]:
    known = [line.name for line in TRANSPORTS if line.keys["transport"] != "https"]
    where = {**loaded(runs), "transport": known}
    gap = difference(runs, SECOND, {"queue": "prio"}, {"queue": "fifo"}, where)
    price = difference(runs, "goodput_mbit_per_s", {"queue": "prio"}, {"queue": "fifo"}, where)
    if gap is None:
        return
    if more(gap):
        advice = "Give DNS priority if the queue is a FIFO."
    elif fewer(gap):
        advice = "Priority for DNS costs answers."
    else:
        advice = "Priority for DNS makes no clear difference of a point or more."
    text = (
        f"In front of the same FIFO, priority changes the share answered within a second by "
        f"{points(gap)}"
    )
    if price is not None:
        text += f", and the goodput of other traffic by {number(price, 'Mbit/s', signed=True)}"
    text += f", {under_loads(runs)}, over the transports that it knows by their ports, 53 and 853."
    hidden = [line.name for line in TRANSPORTS if line.keys["transport"] == "https"]
    unseen = difference(
        runs, SECOND, {"queue": "prio"}, {"queue": "fifo"}, {**loaded(runs), "transport": hidden}
    )
    if unseen is not None:
        text += (
            " It cannot recognise DNS over HTTPS, which uses port 443 like other traffic: "
            f"{points(unseen)}."
        )
    yield Sentence("network operator", advice, text, headline=more(gap))


def _worst_case(runs: pl.DataFrame) -> Iterator[Sentence]:
    queues = [name for name, _ in ranked(runs, "queue", loaded(runs))]
    least = [(name, cell) for name in queues if (cell := _worst_cell(runs, name)) is not None]
    if len(least) < 2:
        return
    least.sort(key=lambda item: -item[1][1].mean)
    (name, (where, value)), *rest = least
    text = (
        f"In its worst cell {percent(value)} are answered within a second "
        f"({transport_title(where['transport'])}, {title('load', where['load'])})"
    )
    close = [
        f"{queue_title(other)} ({percent(its)})"
        for other, (there, its) in rest
        if (
            gap := difference(
                runs, SECOND, {**where, "queue": name}, {**there, "queue": other}, base()
            )
        )
        is None
        or not more(gap)
    ]
    if close:
        text += f". There is no clear difference of a point or more to {listed(close)}"
    yield Sentence("network operator", f"{queue_title(name)} has the best worst case.", text + ".")


def _worst_cell(runs: pl.DataFrame, queue: str) -> tuple[dict[str, str], Interval] | None:
    """The queue's cell that answers the fewest queries within a second, and their share."""
    rows = select(runs, {**loaded(runs), "queue": queue})
    found: tuple[dict[str, str], Interval] | None = None
    for (name, load), part in rows.group_by(("transport", "load"), maintain_order=True):
        value = mean(part, SECOND, {})
        if value is not None and (found is None or value.mean < found[1].mean):
            found = {"transport": str(name), "load": str(load)}, value
    return found


def _under_load(runs: pl.DataFrame) -> Table:
    rows = []
    waiting = {**base(), "transport": "udp", "load": "downloads-ecn"}
    for name, within in ranked(runs, "queue", loaded(runs)):
        gap = difference(runs, SECOND, {"queue": name}, {"queue": "fifo"}, loaded(runs))
        udp = mean(runs, SECOND, {**loaded(runs), "queue": name, "transport": "udp"})
        worst = _worst_cell(runs, name)
        waited = mean(runs, "sojourn_ms", {**waiting, "queue": name})
        rows.append(
            (
                queue_title(name),
                bare(within),
                "" if name == "fifo" or gap is None else spread(gap, signed=True),
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
        WAITED,
    )
    shown = [0, *(place for place in range(1, len(columns)) if any(row[place] for row in rows))]
    caption = f"Answered within a second over {pooled_over(runs, 'transport')}"
    if columns.index(WAITED) in shown:
        load = title("load", waiting["load"])
        caption += f"; time in the queue is the mean of all packets with UDP and {load}"
    return Table(
        "network operator",
        caption,
        [columns[place] for place in shown],
        [tuple(row[place] for place in shown) for row in rows],
    )


WAITED = "time in the queue, ms"
"""The heading of a column that needs runs with UDP."""

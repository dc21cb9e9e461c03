"""For DNS operators: which transport to use, on which connections, with or without ECN."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl

from narrows.reproduce.statistics import Interval
from narrows.study.dns_transport import cpu
from narrows.study.dns_transport.factors import TRANSPORTS, Transport
from narrows.study.dns_transport.phrases import (
    KEPT,
    MATTERS,
    SECOND,
    bare,
    base,
    differs,
    fewer,
    listed,
    loaded,
    more,
    number,
    percent,
    points,
    pooled_over,
    ranked,
    spread,
    title,
    transport_title,
)
from narrows.study.dns_transport.pooled import Where, difference, mean, select
from narrows.study.dns_transport.words.told import Sentence, Table

__all__ = ["ecn_gap", "sentences", "tables"]

NO_SURE_DIFFERENCE = "no clear difference of a point or more"

MARKED: Where = {**base(), "queue": "red-ecn", "load": "downloads-ecn"}
"""Cells in which RED marks packets instead of dropping them, if they can be marked."""

CLIENTS = (
    "The clients are 100 stubs that ask again over UDP after 1 s, each with its own connections. "
    "A resolver asks again sooner and shares connections, so its ranking may differ."
)
"""The network for which the ranking holds: network.toml."""

QUIET: Where = {**base(), "load": "none"}


def sentences(runs: pl.DataFrame) -> list[Sentence]:
    """Sentences for DNS operators."""
    parts = (_best, _keeping, _ecn, _stateless, _paths, _quiet)
    return [each for part in parts for each in part(runs)]


def tables(runs: pl.DataFrame) -> list[Table]:
    """Two tables: transports under load with their costs, and the gain from ECN on DNS."""
    return [_under_load(runs), _with_ecn(runs)]


def ecn_gap(runs: pl.DataFrame, line: Transport, where: Where) -> Interval | None:
    """The gain from ECN for a transport, in points of answers within a second."""
    return difference(runs, SECOND, {"transport": line.name}, {"transport": line.ecn_of}, where)


def _best(runs: pl.DataFrame) -> Iterator[Sentence]:
    found = ranked(runs, "transport", loaded(runs))
    if len(found) < 2:
        return
    (best, top), (worst, low) = found[0], found[-1]
    text = (
        f"Over {pooled_over(runs, 'queue')}, it answers {percent(top)} of the queries within a "
        f"second"
    )
    if best != "udp" and (udp := dict(found).get("udp")) is not None:
        gap = difference(runs, SECOND, {"transport": best}, {"transport": "udp"}, loaded(runs))
        text += f", and UDP {percent(udp)}"
        if gap is not None and more(gap):
            text += f", a difference of {points(gap)}"
    text += f". {transport_title(worst)} answers the fewest: {percent(low)}."
    equal = [
        transport_title(name)
        for name, _ in found[1:]
        if not differs(
            difference(runs, SECOND, {"transport": best}, {"transport": name}, loaded(runs))
        )
    ]
    if equal:
        text += f" There is {NO_SURE_DIFFERENCE} to {listed(equal)}."
    advice = (
        f"For stubs with Windows' timers, {transport_title(best)} gets the most answers through."
    )
    yield Sentence("dns operator", advice, f"{text} {CLIENTS}", headline=True)


def _keeping(runs: pl.DataFrame) -> Iterator[Sentence]:
    parts = []
    for new, kept in KEPT:
        gap = difference(runs, SECOND, {"transport": kept}, {"transport": new}, loaded(runs))
        if gap is not None:
            parts.append((transport_title(kept).removesuffix(" kept"), gap))
    if not parts:
        return
    helped = [gap for _, gap in parts if more(gap)]
    hurt = [gap for _, gap in parts if fewer(gap)]
    if len(helped) == len(parts):
        advice = "Keep connections open."
    elif len(hurt) == len(parts):
        advice = "Do not keep connections for speed."
    elif helped and hurt:
        advice = "Keeping connections helps some transports and costs others."
    elif helped:
        advice = "Keeping connections helps some transports."
    elif hurt:
        advice = "Keeping connections costs some transports."
    else:
        advice = f"Kept and new connections show {NO_SURE_DIFFERENCE}."
    told = ", ".join(f"{name} {points(gap)}" for name, gap in parts)
    yield Sentence(
        "dns operator",
        advice,
        "Compared with a new connection for each query, kept connections change the share answered "
        f"within a second, over {pooled_over(runs, 'queue')}, as follows: {told}.",
        headline=bool(helped or hurt),
    )


def _ecn(runs: pl.DataFrame) -> Iterator[Sentence]:
    lines = [line for line in TRANSPORTS if line.ecn_of]
    gaps = [(line, ecn_gap(runs, line, MARKED)) for line in lines]
    known = [(line, gap) for line, gap in gaps if gap is not None]
    if not known:
        return
    helped = [(line, gap) for line, gap in known if more(gap)]
    same = [line.title for line, gap in known if not differs(gap)]
    hurt = [(line, gap) for line, gap in known if fewer(gap)]
    if len(helped) == len(known):
        advice = "Turn ECN on where DNS uses connections."
    elif helped:
        advice = f"Turn ECN on for {listed([_plain(line) for line, _ in helped])}."
    elif hurt:
        advice = "ECN on DNS costs."
    else:
        advice = f"ECN on DNS makes {NO_SURE_DIFFERENCE}."
    where = "Behind RED that marks, among downloads with ECN,"
    told = []
    if helped:
        told.append(f"ECN on DNS raises the share answered within a second by {_range(helped)}")
    if hurt:
        names = listed([line.title for line, _ in hurt])
        told.append(f"it lowers the share that {names} answer by {_range(hurt)}")
    if same:
        told.append(f"there is {NO_SURE_DIFFERENCE} for {listed(same)}")
    yield Sentence(
        "dns operator",
        advice,
        f"{where} {'; '.join(told)}.{_elsewhere(runs, lines)}",
        headline=True,
    )


def _plain(line: Transport) -> str:
    """The transport's name without "ECN". ECN++ stays, because it differs from plain ECN."""
    name, _, ecn = line.title.partition(" + ")
    return name if ecn == "ECN" else f"{name} (as {ecn})"


def _range(found: Sequence[tuple[Transport, Interval]]) -> str:
    least, most = (f(found, key=lambda item: abs(item[1].mean)) for f in (min, max))
    if len(found) == 1:
        return f"{spread(least[1])} points"
    return (
        f"{spread(least[1])} points ({_plain(least[0])}) to {spread(most[1])} points "
        f"({_plain(most[0])})"
    )


def _elsewhere(runs: pl.DataFrame, lines: Sequence[Transport]) -> str:
    others = select(runs, loaded(runs)).filter(
        ~((pl.col("queue") == "red-ecn") & (pl.col("load") == "downloads-ecn"))
    )
    gaps = [(line, ecn_gap(others, line, {})) for line in lines]
    away = [(line, gap) for line, gap in gaps if gap is not None]
    if not away:
        return ""
    line, largest = max(away, key=lambda item: abs(item[1].mean))
    return (
        f" Behind other queues and under other loads, ECN on DNS changes the share by at most "
        f"{points(largest)} on average ({_plain(line)}); single cells differ more."
    )


def _stateless(runs: pl.DataFrame) -> Iterator[Sentence]:
    where = loaded(runs)
    gap = difference(runs, SECOND, {"transport": "tcp-stateless"}, {"transport": "tcp-new"}, where)
    if gap is None:
        return
    if fewer(gap):
        advice = "Stateless TCP costs answers."
    elif more(gap):
        advice = "Stateless TCP gets more answers through than the kernel's."
    elif gap.low > -MATTERS and gap.high < MATTERS:
        advice = "Stateless TCP costs no answers."
    else:
        advice = f"Stateless TCP makes {NO_SURE_DIFFERENCE}."
    text = (
        f"Compared with new TCP, it changes the share answered within a second by {points(gap)} "
        f"over {pooled_over(runs, 'queue')}"
    )
    if fewer(gap):
        text += ", because the server has no timers and only the client notices losses"
    held = mean(runs, "connections", {**where, "transport": "tcp-new"})
    if held is not None:
        text += f". The server keeps no connections for it, instead of {number(held)} on average"
    spent = [
        (
            mean(runs, f"cpu_{server}_us", {**where, "transport": "tcp-stateless"}),
            mean(runs, f"cpu_{server}_us", {**where, "transport": "tcp-new"}),
        )
        for server in cpu.SERVERS
    ]
    shares = [one.mean / two.mean for one, two in spent if one and two and two.mean]
    if shares:
        low, high = 100.0 * min(shares), 100.0 * max(shares)
        text += f"; an answer takes {low:.0f} to {high:.0f} % of the processor time of new TCP"
    yield Sentence("dns operator", advice, text + ".")


def _paths(runs: pl.DataFrame) -> Iterator[Sentence]:
    for path in ("fragments", "512"):
        for reply in ("1232B", "3000B"):
            where: Where = {"path": path, "reply": reply, "load": "none"}
            told = []
            for name in ("udp", "udp-tcp", "tcp-new"):
                lost = mean(runs, "failed_percent", {**where, "transport": name})
                within = mean(runs, SECOND, {**where, "transport": name})
                if lost is not None and within is not None:
                    told.append((name, lost, within))
            if not told or all(lost.mean < MATTERS for _, lost, _ in told):
                continue
            names = [transport_title(name) for name, _, within in told if within.mean > 99.0]
            words = "; ".join(
                f"{transport_title(name)}: {percent(lost)} fail, {percent(within)} within a second"
                for name, lost, within in told
            )
            what = f"If a path {title('path', path)} and replies are {title('reply', reply)}"
            advice = "none of these answers in time" if not names else f"use {listed(names, 'or')}"
            yield Sentence("dns operator", f"{what}, {advice}.", f"Without other load, {words}.")


def _quiet(runs: pl.DataFrame) -> Iterator[Sentence]:
    found = ranked(runs, "transport", QUIET)
    if not found or min(interval.mean for _, interval in found) <= 99.0:
        return
    times = [
        (name, mean(runs, "response_p50_ms", {**QUIET, "transport": name})) for name, _ in found
    ]
    known = sorted(
        ((name, each) for name, each in times if each is not None), key=lambda x: x[1].mean
    )
    if not known:
        return
    (fast, least), (slow, most) = known[0], known[-1]
    yield Sentence(
        "dns operator",
        "Without other load, every transport will do.",
        "Every transport answers more than 99 % within a second. The median is "
        f"{number(least, 'ms')} over {transport_title(fast)} and {number(most, 'ms')} over "
        f"{transport_title(slow)}.",
    )


def _under_load(runs: pl.DataFrame) -> Table:
    rows = []
    at, where_it_costs = _cost_cells(runs)
    for name, within in ranked(runs, "transport", loaded(runs)):
        gap = difference(runs, SECOND, {"transport": name}, {"transport": "udp"}, loaded(runs))
        figures = [
            mean(runs, figure, {**at, "transport": name})
            for figure in ("response_p50_ms", "packets_per_answer", "connections")
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
                "" if name == "udp" or gap is None else spread(gap, signed=True),
                *("" if each is None else f"{each.mean:.1f}" for each in figures),
                f"{min(spent):.0f} to {max(spent):.0f}" if spent else "",
            )
        )
    return Table(
        "dns operator",
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
    quiet = select(runs, QUIET).get_column("queue").unique(maintain_order=True).to_list()
    if quiet:
        queue = "fifo" if "fifo" in quiet else quiet[0]
        return {**QUIET, "queue": queue}, f"behind {title('queue', queue)} without other load"
    return loaded(runs), "there"


def _with_ecn(runs: pl.DataFrame) -> Table:
    rows = []
    for line in TRANSPORTS:
        gap = ecn_gap(runs, line, MARKED) if line.ecn_of else None
        without = mean(runs, SECOND, {**MARKED, "transport": line.ecn_of})
        with_ecn = mean(runs, SECOND, {**MARKED, "transport": line.name})
        if gap is not None and without is not None and with_ecn is not None:
            rows.append(
                (gap.mean, (line.title, bare(without), bare(with_ecn), spread(gap, signed=True)))
            )
    return Table(
        "dns operator",
        "ECN on DNS behind RED that marks, among downloads with ECN: answered within a second",
        ("transport", "without ECN, %", "with ECN, %", "difference, points"),
        [row for _, row in sorted(rows, key=lambda item: -item[0])],
    )

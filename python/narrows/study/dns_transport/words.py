"""What the cells say, in sentences: the numbers choose which of several is written.

An interval is Student's 95 % over seeds. A difference is told when its interval does not hold zero
and the difference is above `MATTERS`, as a difference of a tenth of a point can be sure and yet
help nobody.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import polars as pl

from narrows.reproduce.statistics import Interval
from narrows.study.dns_transport import cpu
from narrows.study.dns_transport.design import PAPER_H
from narrows.study.dns_transport.factors import TRANSPORTS, Transport
from narrows.study.dns_transport.phrases import (
    KEPT,
    MATTERS,
    SECOND,
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
    queue_title,
    ranked,
    title,
    transport_title,
    under_loads,
    whole,
)
from narrows.study.dns_transport.pooled import Where, difference, mean, select

__all__ = ["Sentence", "sentences"]

CLEAN = "without_retry_percent"

NO_SURE_DIFFERENCE = "No sure difference of a point or more"

Audience = Literal["dns operator", "network operator", "paper H's worst cell", "limits"]


@dataclass(frozen=True)
class Sentence:
    """Something that the study says, and to whom."""

    audience: Audience
    text: str
    headline: bool = False
    """Whether it is among the few that stand for the whole."""


def sentences(runs: pl.DataFrame) -> list[Sentence]:
    """Everything that the runs allow to say."""
    if runs.is_empty():
        return []
    runs, short = whole(runs)
    # With each part, how many of its sentences stand for the whole.
    parts: list[tuple[Audience, Callable[[pl.DataFrame], list[str]], int]] = [
        ("dns operator", _best_transport, 1),
        ("dns operator", _keeping, 0),
        ("dns operator", _ecn_in_short, 1),
        ("dns operator", _ecn, 0),
        ("dns operator", _stateless, 0),
        ("dns operator", _paths, 0),
        ("dns operator", _costs, 0),
        ("network operator", _best_queue, 2),
        ("network operator", _marking, 0),
        ("network operator", _priority, 0),
        ("network operator", _standing, 0),
        ("paper H's worst cell", _arp, 1),
        ("paper H's worst cell", _worst_in_short, 2),
        ("paper H's worst cell", _worst_ecn, 0),
        ("paper H's worst cell", _worst_moved, 0),
        ("limits", _limits, 0),
    ]
    told = [
        Sentence(audience, text, headline=place < heads)
        for audience, part, heads in parts
        for place, text in enumerate(part(runs))
    ]
    if short:
        names = listed([transport_title(name) for name in short])
        told.append(
            Sentence(
                "limits", f"Left out under load, as cells are missing that others have: {names}."
            )
        )
    return told


# -- for those who run DNS --


def _best_transport(runs: pl.DataFrame) -> list[str]:
    found = ranked(runs, "transport", loaded(runs))
    if len(found) < 2:
        return []
    (best, top), (worst, low) = found[0], found[-1]
    text = (
        f"Over {pooled_over(runs, 'queue')}, {transport_title(best)} has most answers within a "
        f"second: {percent(top)} of queries"
    )
    if best != "udp" and (udp := dict(found).get("udp")) is not None:
        gap = difference(runs, SECOND, {"transport": best}, {"transport": "udp"}, loaded(runs))
        text += f"; UDP has {percent(udp)}"
        if gap is not None and more(gap):
            text += f" (difference: {points(gap)})"
    texts = [text + f". {transport_title(worst)} has fewest: {percent(low)}."]
    equal = [
        transport_title(name)
        for name, _ in found[1:]
        if not differs(
            difference(runs, SECOND, {"transport": best}, {"transport": name}, loaded(runs))
        )
    ]
    if equal:
        names = listed(equal)
        texts.append(f"{NO_SURE_DIFFERENCE} from {transport_title(best)} was seen for {names}.")
    quiet = ranked(runs, "transport", {**base(), "load": "none"})
    if quiet and min(interval.low for _, interval in quiet) > 99.0:
        times = [
            (name, mean(runs, "response_p50_ms", {**base(), "load": "none", "transport": name}))
            for name, _ in quiet
        ]
        known = sorted(
            ((name, each) for name, each in times if each is not None), key=lambda x: x[1].mean
        )
        (fast, least), (slow, most) = known[0], known[-1]
        texts.append(
            "Without other load every transport answers more than 99 % within a second. Half of "
            f"the answers take at most {number(least, 'ms')} over {transport_title(fast)} and "
            f"{number(most, 'ms')} over {transport_title(slow)}."
        )
    return texts


def _keeping(runs: pl.DataFrame) -> list[str]:
    parts = []
    for new, kept in KEPT:
        gap = difference(runs, SECOND, {"transport": kept}, {"transport": new}, loaded(runs))
        if gap is not None:
            parts.append((transport_title(kept), transport_title(new), gap))
    if not parts:
        return []
    told = "; ".join(f"{kept} {points(gap)} against {new}" for kept, new, gap in parts)
    helped = [gap for _, _, gap in parts if more(gap)]
    hurt = [gap for _, _, gap in parts if fewer(gap)]
    if len(helped) == len(parts):
        head = "Keep connections open: queries answered within a second rise"
    elif len(hurt) == len(parts):
        head = "Do not keep connections for speed: queries answered within a second fall"
    elif helped and hurt:
        head = "Keeping connections helps some transports and costs others, within a second"
    elif helped:
        head = "Keeping connections helps some transports, within a second"
    elif hurt:
        head = "Keeping connections costs some transports, within a second"
    else:
        head = f"{NO_SURE_DIFFERENCE} was seen between kept and new connections, within a second"
    return [f"{head}: {told}, over {pooled_over(runs, 'queue')}."]


def _ecn_in_short(runs: pl.DataFrame) -> list[str]:
    where: Where = {**base(), "queue": "red-ecn", "load": "downloads-ecn"}
    told = []
    for name in ("tcp-kept", "quic-new", "tcp-new"):
        without = mean(runs, SECOND, {**where, "transport": name})
        with_ecn = mean(runs, SECOND, {**where, "transport": f"{name}-ecn"})
        if without is not None and with_ecn is not None:
            told.append(f"{transport_title(name)} {percent(without)} and {percent(with_ecn)}")
    if not told:
        return []
    return [
        "Behind RED that marks, among downloads with ECN, within a second, without ECN on DNS and "
        f"with it: {'; '.join(told)}."
    ]


def _ecn(runs: pl.DataFrame) -> list[str]:
    lines = [line for line in TRANSPORTS if line.ecn_of]
    marked: Where = {**base(), "queue": "red-ecn", "load": "downloads-ecn"}
    gaps = [(line, _ecn_gap(runs, line, marked)) for line in lines]
    known = [(line, gap) for line, gap in gaps if gap is not None]
    if not known:
        return []
    helped = [(line, gap) for line, gap in known if more(gap)]
    same = [line for line, gap in known if not differs(gap)]
    hurt = [(line, gap) for line, gap in known if fewer(gap)]
    where = "behind RED that marks, among downloads with ECN"
    texts = []
    if helped:
        helped.sort(key=lambda item: -item[1].mean)
        told = "; ".join(f"{line.title}: {points(gap)}" for line, gap in helped)
        head = "ECN on DNS helps some transports"
        if len(helped) == len(known):
            head = "Turn ECN on where DNS uses connections"
        texts.append(f"{head}: {where}, it raises what is answered within a second ({told}).")
    if same:
        names = listed([line.title for line in same])
        texts.append(f"{NO_SURE_DIFFERENCE} by ECN on DNS was seen {where} for {names}.")
    if hurt:
        told = "; ".join(f"{line.title}: {points(gap)}" for line, gap in hurt)
        texts.append(f"ECN on DNS costs {where} ({told}).")
    loads = loaded(runs)["load"]
    others = select(runs, {**loaded(runs)}).filter(
        ~((pl.col("queue") == "red-ecn") & (pl.col("load") == "downloads-ecn"))
    )
    away = [
        (line.title, gap)
        for line in lines
        if loads and (gap := _ecn_gap(others, line, {})) is not None
    ]
    if away:
        largest = max(away, key=lambda item: abs(item[1].mean))
        texts.append(
            "On average over the other pairs of queue and load, of "
            f"{pooled_over(runs, 'queue')}, ECN on DNS changes that by at most "
            f"{points(largest[1])} ({largest[0]}); a single pair can differ more."
        )
    return texts


def _ecn_gap(runs: pl.DataFrame, line: Transport, where: Where) -> Interval | None:
    return difference(runs, SECOND, {"transport": line.name}, {"transport": line.ecn_of}, where)


def _stateless(runs: pl.DataFrame) -> list[str]:
    where = loaded(runs)
    gap = difference(runs, SECOND, {"transport": "tcp-stateless"}, {"transport": "tcp-new"}, where)
    if gap is None:
        return []
    held = mean(runs, "connections", {**where, "transport": "tcp-new"})
    text = (
        f"Stateless TCP against new TCP: {points(gap)} within a second over "
        f"{pooled_over(runs, 'queue')}"
    )
    if fewer(gap):
        text += " (the server has no timers: the client alone finds out what was lost)"
    if held is not None:
        text += f"; the server holds no connection for it, instead of {number(held)} on average"
    spent = [
        (
            server,
            mean(runs, f"cpu_{server}_us", {**where, "transport": "tcp-stateless"}),
            mean(runs, f"cpu_{server}_us", {**where, "transport": "tcp-new"}),
        )
        for server in cpu.SERVERS
    ]
    shares = [one.mean / two.mean for _, one, two in spent if one and two and two.mean]
    if shares:
        low, high = 100.0 * min(shares), 100.0 * max(shares)
        text += f"; an answer costs {low:.0f} to {high:.0f} % of the processor time of new TCP"
    return [text + "."]


def _paths(runs: pl.DataFrame) -> list[str]:
    texts = []
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
            words = "; ".join(
                f"{transport_title(name)}: {percent(lost)} fail, {percent(within)} within a second"
                for name, lost, within in told
            )
            texts.append(
                f"On a path that {title('path', path)}, replies of {title('reply', reply)} without "
                f"other load: {words}."
            )
    return texts


def _costs(runs: pl.DataFrame) -> list[str]:
    where = {**base(), "queue": "fifo", "load": "none"}
    told = []
    for line in TRANSPORTS:
        if line.ecn_of:
            continue
        packets = mean(runs, "packets_per_answer", {**where, "transport": line.name})
        held = mean(runs, "connections", {**where, "transport": line.name})
        spent = [
            each
            for server in cpu.SERVERS
            if (each := mean(runs, f"cpu_{server}_us", {**where, "transport": line.name}))
        ]
        if packets is None or held is None:
            continue
        words = f"{line.title} {packets.mean:.1f} packets, {held.mean:.0f} connections"
        if spent:
            low, high = (f(each.mean for each in spent) for f in (min, max))
            words += f", {low:.0f} to {high:.0f} us of the server's processor"
        told.append(words)
    if not told:
        return []
    return [f"What an answer costs behind FIFO without other load, means: {'; '.join(told)}."]


# -- for those who run the line --


def _best_queue(runs: pl.DataFrame) -> list[str]:
    found = ranked(runs, "queue", loaded(runs))
    if len(found) < 2:
        return []
    (best, top), (worst, low) = found[0], found[-1]
    over = pooled_over(runs, "transport")
    texts = [
        f"Over {over}, {queue_title(best)} lets most DNS through within a second: "
        f"{percent(top)}; {queue_title(worst)} least: {percent(low)}. Each transport counts the "
        "same here, however much of DNS it carries."
    ]
    if "fifo" in dict(found):
        better, same, worse = [], [], []
        for name, _ in found:
            gap = difference(runs, SECOND, {"queue": name}, {"queue": "fifo"}, loaded(runs))
            if name == "fifo" or gap is None:
                continue
            if more(gap):
                better.append(f"{queue_title(name)} {points(gap)}")
            elif fewer(gap):
                worse.append(f"{queue_title(name)} {points(gap)}")
            else:
                same.append(queue_title(name))
        parts = []
        if better:
            parts.append(f"better: {', '.join(better)}")
        if worse:
            parts.append(f"worse: {', '.join(worse)}")
        if same:
            parts.append(f"no sure difference of a point or more: {listed(same)}")
        texts.append(f"Against FIFO, over {over}: {'; '.join(parts)}.")
    return texts + _best_worst_case(runs, [name for name, _ in found])


def _best_worst_case(runs: pl.DataFrame, queues: list[str]) -> list[str]:
    least = [(name, cell) for name in queues if (cell := _worst_cell(runs, name)) is not None]
    if not least:
        return []
    least.sort(key=lambda item: -item[1][1].mean)
    (name, (where, value)), *rest = least
    text = (
        f"{queue_title(name)} has the best worst case: {percent(value)} within a second "
        f"({transport_title(where['transport'])}, {title('load', where['load'])})"
    )
    close = [
        f"{queue_title(other)} {percent(its)}"
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
        text += f"; not surely worse by a point or more: {', '.join(close)}"
    return [text + "."]


def _worst_cell(runs: pl.DataFrame, queue: str) -> tuple[dict[str, str], Interval] | None:
    """The cell of a queue in which fewest queries are answered within a second, and how many."""
    rows = select(runs, {**loaded(runs), "queue": queue})
    found: tuple[dict[str, str], Interval] | None = None
    for (name, load), part in rows.group_by(("transport", "load"), maintain_order=True):
        value = mean(part, SECOND, {})
        if value is not None and (found is None or value.mean < found[1].mean):
            found = {"transport": str(name), "load": str(load)}, value
    return found


def _marking(runs: pl.DataFrame) -> list[str]:
    texts = []
    gap = difference(
        runs,
        SECOND,
        {"load": "downloads-ecn"},
        {"load": "downloads"},
        {**base(), "queue": "red-ecn", "transport": "udp"},
    )
    here = mean(
        runs,
        SECOND,
        {**base(), "queue": "red-ecn", "load": "downloads-ecn", "transport": "udp"},
    )
    if gap is not None and here is not None:
        if fewer(gap):
            texts.append(
                "Do not let RED mark as its only answer: where all downloads use ECN, DNS over UDP "
                f"has {percent(here)} within a second, {points(gap)} against downloads without ECN."
            )
        else:
            texts.append(
                "Behind RED that marks, ECN on the downloads changes DNS over UDP by "
                f"{points(gap)}."
            )
    return texts


def _priority(runs: pl.DataFrame) -> list[str]:
    known = [line.name for line in TRANSPORTS if line.keys["transport"] != "https"]
    where = {**loaded(runs), "transport": known}
    gap = difference(runs, SECOND, {"queue": "prio"}, {"queue": "fifo"}, where)
    price = difference(runs, "goodput_mbit_per_s", {"queue": "prio"}, {"queue": "fifo"}, where)
    if gap is None:
        return []
    if more(gap):
        text = f"DNS first is worth it: {points(gap)} within a second against the same FIFO"
    elif fewer(gap):
        text = f"DNS first costs: {points(gap)} within a second against the same FIFO"
    else:
        text = f"{NO_SURE_DIFFERENCE} between DNS first and the same FIFO ({points(gap)})"
    if price is not None:
        text += f", and the others' goodput changes by {number(price, 'Mbit/s', signed=True)}"
    text += f", {under_loads(runs)} over the transports that it knows by their ports, 53 and 853"
    texts = [text + "."]
    hidden = [line.name for line in TRANSPORTS if line.keys["transport"] == "https"]
    where = {**loaded(runs), "transport": hidden}
    unseen = difference(runs, SECOND, {"queue": "prio"}, {"queue": "fifo"}, where)
    if unseen is not None:
        texts.append(
            "It does not know DNS over HTTPS, which is on port 443 as everything else: "
            f"{points(unseen)}."
        )
    return texts


def _standing(runs: pl.DataFrame) -> list[str]:
    rows = select(runs, loaded(runs)).group_by(("queue", "load"), maintain_order=True)
    told = []
    for (queue, load), part in rows:
        waited = mean(part.filter(pl.col("transport") == "udp"), "sojourn_ms", {})
        if waited is not None and load == "downloads-ecn":
            told.append((waited.mean, f"{queue_title(str(queue))} {waited.mean:.0f} ms"))
    if len(told) < 2:
        return []
    words = ", ".join(text for _, text in sorted(told))
    return [
        f"Mean time in the queue, all packets, UDP, with 120 downloads that all use ECN: {words}."
    ]


# -- paper H's worst cell --


def _arp(runs: pl.DataFrame) -> list[str]:
    here = {"load": PAPER_H, "transport": "udp"}
    arp = mean(runs, CLEAN, {**here, "neighbours": "arp"})
    known = mean(runs, CLEAN, {**here, "neighbours": "known"})
    if arp is None or known is None:
        return []
    text = (
        f"UDP, all downloads with ECN, 20 ms: {percent(arp)} of queries are answered without a "
        "retry (the paper: 41.39 %; Linux 6.1 in 14 runs: 39 to 52 %; both with more queries). "
    )
    silent = mean(runs, "silent_percent", {**here, "neighbours": "known"})
    if known.high < arp.low:
        text += f"Without ARP it is {percent(known)}"
        if silent is not None and silent.mean > 50.0:
            text += (
                f", and for {percent(silent)} of the time nobody is answered while the queue keeps "
                "its length"
            )
        outages = mean(runs, "outages", {**here, "neighbours": "arp"})
        if outages is not None:
            text += (
                ": what lets DNS through is that RED drops the routers' ARP packets, and the link "
                f"fails {number(outages)} times in a run"
            )
    else:
        text += f"Without ARP it is {percent(known)}: ARP does not decide it"
    return [text + "."]


def _worst_in_short(runs: pl.DataFrame) -> list[str]:
    shown = ("udp", "tcp-new", "tcp-stateless", "tcp-kept", "quic-new")
    texts = []
    for neighbours in ("arp", "known"):
        where: Where = {"load": PAPER_H, "neighbours": neighbours}
        parts = []
        for heading, names in (
            ("", shown),
            ("with ECN on DNS ", [f"{name}-ecn" for name in shown] + ["tcp-new-ecn++"]),
        ):
            told = [
                f"{transport_title(name)} {percent(value)}"
                for name in names
                if (value := mean(runs, SECOND, {**where, "transport": name})) is not None
            ]
            if told:
                parts.append(heading + ", ".join(told))
        if parts:
            how = title("neighbours", neighbours)
            texts.append(f"All of DNS on one transport there, {how}: {'; '.join(parts)}.")
    return texts


def _worst_ecn(runs: pl.DataFrame) -> list[str]:
    texts = []
    for neighbours in ("arp", "known"):
        where: Where = {"load": PAPER_H, "neighbours": neighbours}
        told, dead = [], []
        for line in TRANSPORTS:
            value = mean(runs, SECOND, {**where, "transport": line.name})
            gap = _ecn_gap(runs, line, where) if line.ecn_of else None
            if value is None or gap is None:
                continue
            if value.high < MATTERS and not fewer(gap):
                dead.append(line.title)
            else:
                told.append((value.mean, f"{line.title} {percent(value)}, {points(gap)}"))
        words = [text for _, text in sorted(told, reverse=True)]
        heading = f"What ECN on DNS gives, {title('neighbours', neighbours)}, within a second"
        if words:
            texts.append(f"{heading}: {'; '.join(words)}.")
        if dead:
            texts.append(
                f"{heading}: nothing to {listed(dead)}, over which almost nobody is answered."
            )
    return texts


def _worst_moved(runs: pl.DataFrame) -> list[str]:
    texts = []
    for neighbours in ("arp", "known"):
        where: Where = {"load": PAPER_H, "neighbours": neighbours}
        how = title("neighbours", neighbours)
        over_udp = mean(runs, SECOND, {**where, "transport": "udp"})
        udp_dead = over_udp is not None and over_udp.high < MATTERS
        dead = []
        for line in TRANSPORTS:
            if line.ecn_of or line.name == "udp":
                continue
            at: Where = {**where, "transport": line.name}
            this, udp = {"transport": line.name}, {"transport": "udp"}
            value = mean(runs, SECOND, at)
            gap = difference(runs, SECOND, this, udp, where)
            lost = difference(runs, "failed_percent", this, udp, where)
            if value is None or gap is None or lost is None:
                continue
            if udp_dead and value.high < MATTERS:
                dead.append(line.title)
                continue
            text = (
                f"All of DNS on {line.title}, {how}: {percent(value)} within a second, "
                f"{points(gap)} against UDP; failures {points(lost)}"
            )
            packets = mean(runs, "packets_per_answer", at)
            held = mean(runs, "connections", at)
            if packets is not None and held is not None:
                text += f"; {packets.mean:.1f} packets an answer, {held.mean:.0f} connections"
            texts.append(text + ".")
        if dead:
            texts.append(
                f"All of DNS on {listed(dead, 'or')}, {how}: almost nobody is answered within a "
                "second, over UDP either."
            )
    return texts


def _limits(runs: pl.DataFrame) -> list[str]:
    texts = [cpu.source()]
    if runs["seed"].n_unique() < 2:
        texts.append("One seed only: no figure has an interval, and no difference is told.")
    return texts

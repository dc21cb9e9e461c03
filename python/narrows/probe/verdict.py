"""What the times and segments of a server's answers mean, in words.

The unit is the round trip of TCP's own handshake. The server's kernel answers it, whatever the
server does. For the median exchange over TCP:

- *wait*: from the query to the first byte of the reply, less a round trip: the server's own time.
- *gap*: from the first byte of the reply to the last. If a server writes the length and the message
  separately, with Nagle's algorithm on (RFC 896), the second write waits for the acknowledgement of
  the first: a round trip. If that acknowledgement is delayed, it waits 40 ms or more in addition.
- *lag*: the time by which UDP's answer takes longer than the handshake.

Full servers have two signatures, both seen with real servers. The kernel completes handshakes as
long as the backlog has room, so a server whose connection slots are full connects at once and
answers late. When the backlog is full too, the kernel drops SYNs, and clients send them again after
1, 3 and 7 seconds (RFC 6298: the first timeout is a second, and doubles). If the backlog has filled
since the SYN, Linux also drops the handshake's last acknowledgement. Such a client believes that it
is connected, and sends its query again and again until there is room. A full backlog has room now
and then, more often for near clients. The verdict therefore needs only two dropped handshakes, and
answers that are late besides. Without a full backlog, no handshake is dropped.

Over TLS 1.3, a server sends session tickets before its first reply. If Nagle's algorithm is on, the
reply waits until they are acknowledged, and a client that has nothing to say acknowledges late
(seen with Unbound 1.17).

A path that loses packets makes connections and answers late too, but it also loses UDP, and only
few packets in all. A busy machine answers late over UDP as well as over TCP, so answers over TCP
have to be late much more often. At distances below a millisecond, a machine's own delays are longer
than round trips. There only long waits count, and only if they are too frequent to be chance.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import polars as pl

from narrows.probe.whole_ratio import NEAR_MS, whole_ratio

__all__ = ["VERDICTS", "Verdict", "judge", "verdicts"]

VERDICTS: Mapping[str, str] = {
    "one-write": "the reply comes at once after the query",
    "two-writes": "the length comes in its own segment, a round trip before the message",
    "split-length": "the length's bytes come in two segments, a round trip apart",
    "late-part": "the reply comes in parts, a round trip apart, after the length",
    "two-writes-at-once": "the length comes in its own segment, without a wait",
    "delayed-acknowledgement": "two writes, and our acknowledgement came late",
    "slots-full": "connects at once, answers late or never, now and then or always",
    "backlog-full": "connects late, by whole SYN timeouts",
    "fixed-delay": "answers over TCP later than over UDP, always by the same time",
    "held-back": "over TLS, answers a round trip or more later than it could",
    "slow-server": "answers later than the handshake, over UDP and over TCP",
    "elsewhere": "TCP and UDP are answered at different distances",
    "closes": "accepts connections and closes some or all of them without an answer",
    "refuses": "refuses connections",
    "handshake-fails": "accepts connections, but TLS fails",
    "silent": "does not answer SYNs, or QUIC's first packets",
    "unanswered": "accepts connections, but answers nothing on them",
    "unreachable": "cannot be reached",
    "not-asked": "this machine could not ask",
    "no-tcp": "nothing was asked over TCP",
}
"""Every verdict by name, and what was seen."""


@dataclass(frozen=True)
class Verdict:
    """What a server does, as seen from one vantage point."""

    target: str
    vantage: str
    transport: str
    name: str
    """Of `VERDICTS`."""
    sentence: str
    notes: tuple[str, ...] = ()
    """What else was seen."""
    figures: Mapping[str, float | None] = field(default_factory=dict)
    """`ratio`, and in ms `round_trip`, `udp`, `wait`, `gap`; and `answered_percent`."""

    def document(self) -> dict[str, Any]:
        """As JSON values."""
        return {**asdict(self), "notes": list(self.notes)}


def verdicts(exchanges: pl.DataFrame) -> list[Verdict]:
    """A verdict for each target, vantage point and connection-oriented transport.

    Args:
        exchanges: The table of a measurement.
    """
    found = []
    for (target, vantage), rows in exchanges.group_by("target", "vantage", maintain_order=True):
        udp = rows.filter(transport="udp").to_dicts()
        kinds = [kind for kind in ("tcp", "tls", "quic") if rows.filter(transport=kind).height]
        for kind in kinds or ["tcp"]:
            over = rows.filter(transport=kind).to_dicts()
            found.append(judge(udp, over, str(target), str(vantage), kind))
    return found


def judge(
    udp: Sequence[Mapping[str, Any]],
    tcp: Sequence[Mapping[str, Any]],
    target: str = "",
    vantage: str = "",
    transport: str = "tcp",
) -> Verdict:
    """The verdict on rows of `exchanges`: those over UDP, and those over a connection."""
    seen = _Seen(udp, tcp, transport)
    name, sentence = seen.verdict()
    if name == "one-write" and transport != "tcp":
        sentence = seen.secure(transport)
    if name == "fixed-delay" and transport == "tls" and seen.held_back:
        name, sentence = "held-back", seen.held()
    return Verdict(target, vantage, transport, name, sentence, seen.notes(), seen.figures())


LATE_SYN_MS = 900.0
"""A handshake that takes so much longer than usual has lost a SYN: the first is sent again after a
second."""

SOME = 0.2
"""A share of exchanges that is no accident."""

PLAIN_MS = 4.0
"""Waits below this are a server's ordinary work, and noise."""

NEAR_WAIT_MS = 20.0
"""Nearer than `NEAR_MS`: what a busy machine may take until a server's process runs. Who waits for
a connection slot waits for another client's idle time-out, which is 100 ms and more."""

ACCIDENT = 0.05
"""What happens more rarely than this by chance is no accident."""


class _Seen:
    """Figures of one server's exchanges, and what they mean."""

    def __init__(
        self,
        udp: Sequence[Mapping[str, Any]],
        tcp: Sequence[Mapping[str, Any]],
        transport: str = "tcp",
    ) -> None:
        self.udp, self.tcp, self.transport = udp, tcp, transport
        self.answered = [row for row in tcp if row["outcome"] == "answered"]
        self.udp_ms = _median([row["query_ms"] for row in udp if row["outcome"] == "answered"])
        connects = [row["connect_ms"] for row in tcp if row["connect_ms"] is not None]
        least = min(connects, default=None)
        on_time = [ms for ms in connects if least is not None and ms < least + LATE_SYN_MS]
        self.late_connects = len(connects) - len(on_time)
        self.round_trip = _median(on_time)
        self.unconnected = _count(tcp, "timeout", stage="connect")
        self.dropped = self.late_connects + self.unconnected + self._unheard()
        self.waits = self._waits()
        self.wait = _median(self.waits)
        self.late = sum(1 for wait in self.waits if wait > self.late_ms)
        self.gap = _median(
            [
                row["query_ms"] - row["first_byte_ms"]
                for row in self.answered
                if row["query_ms"] is not None and row["first_byte_ms"] is not None
            ]
        )
        prefixes = [row["prefix"] for row in self.answered if row["prefix"]]
        self.prefix = statistics.mode(prefixes) if prefixes else None
        totals = [row["total_ms"] for row in self.answered if row["total_ms"] is not None]
        self.total = _median(totals)
        self.ratio = whole_ratio(udp, tcp)
        self.reused = any(row["reused"] for row in self.answered)

    def _waits(self) -> list[float]:
        """Each connected exchange's wait; infinite where no answer came."""
        if self.round_trip is None:
            return []
        found = [
            row["first_byte_ms"] - self.round_trip
            for row in self.answered
            if row["first_byte_ms"] is not None
        ]
        lost = _count(self.tcp, "timeout", stage="query")
        return [*found, *([float("inf")] * lost)]

    def _unheard(self) -> int:
        """Queries sent again on connections that stood at once."""
        return sum(
            1
            for row in self.tcp
            if row["connect_ms"] is not None
            and not self._is_late(row)
            and (row["query_retransmissions"] or 0) > 0
        )

    def share(self, count: int) -> float:
        """Of all exchanges over TCP."""
        return count / len(self.tcp)

    @property
    def late_ms(self) -> float:
        """Waits above this are late."""
        trip = self.round_trip or 0.0
        return max(NEAR_WAIT_MS if trip < NEAR_MS else PLAIN_MS, 0.5 * trip)

    @property
    def udp_late(self) -> int:
        """Queries over UDP that were answered late, or not in time."""
        times = [row["query_ms"] for row in self.udp if row["outcome"] == "answered"]
        known = [ms for ms in times if ms is not None]
        least = min(known, default=0.0)
        late = sum(1 for ms in known if ms - least > self.late_ms)
        return late + _count(self.udp, "timeout")

    @property
    def lag(self) -> float:
        """What UDP's answer takes longer than the handshake, in ms; 0 where one is not known."""
        if self.udp_ms is None or self.round_trip is None:
            return 0.0
        return self.udp_ms - self.round_trip

    @property
    def udp_lost(self) -> float:
        """Share of queries over UDP without an answer."""
        return _count(self.udp, "timeout") / len(self.udp) if self.udp else 0.0

    def verdict(self) -> tuple[str, str]:
        """Name and sentence: the first that fits."""
        if not self.tcp:
            return "no-tcp", "nothing was asked over TCP"
        return (
            self._failure()
            or self._lateness()
            or self._unanswered()
            or self._place()
            or self._writing()
        )

    def _failure(self) -> tuple[str, str] | None:
        every = len(self.tcp)
        refused = _count(self.tcp, "refused")
        if 2 * refused > every:
            return "refuses", "it refuses: nothing listens there, or a filter says no"
        failed = _count(self.tcp, "handshake-failed")
        if 2 * failed > every:
            words = self._detail("handshake-failed")
            return "handshake-fails", f"its TLS handshake fails: {words}"
        for outcome, sentence in (
            ("unreachable", "the network says that there is no way to it"),
            ("not-asked", f"this machine could not ask ({self._detail('not-asked')})"),
        ):
            if 2 * _count(self.tcp, outcome) > every:
                return outcome, sentence
        if self.unconnected == every:
            udp = "" if self.udp_ms is None else ", though it answers over UDP"
            if self.transport == "quic":
                why = "no QUIC on this port, or a filter drops it"
                return "silent", f"it does not answer QUIC{udp}: {why}"
            return "silent", f"it does not answer SYNs{udp}: a filter drops TCP, or nobody is there"
        closed = _count(self.tcp, "closed") + _count(self.tcp, "reset")
        if self.share(closed) >= SOME:
            what = "every one" if closed == every else f"{closed} of {every}"
            why = "no DNS over TCP" if closed == every else "it has a limit, and rejects the rest"
            return "closes", f"it accepts connections and closes {what} without an answer: {why}"
        return None

    def _lateness(self) -> tuple[str, str] | None:
        late = self.late_connects + self.unconnected
        if self.share(late) >= SOME and self.share(late) > 3.0 * self.udp_lost:
            return self._backlog_full()
        if self.round_trip is None or not self.waits:
            return None
        assert self.wait is not None, "there are waits"
        slow = self.wait > max(PLAIN_MS, 0.04 * self.round_trip)
        # Who waits for a free slot waits much longer or shorter than the one before.
        noise = max(PLAIN_MS, 0.1 * self.wait)
        steady = (
            math.isfinite(self.wait)
            and _spread(self.waits) <= noise
            and self.wait - min(self.waits) <= noise
        )
        if slow and steady:
            return self._steady()
        if self._answers_late():
            if self.dropped >= 2 and self.share(self.dropped) > 3.0 * self.udp_lost:
                return self._backlog_full()
            return (
                "slots-full",
                f"{self._number()}it connects at once and {self.late} of {len(self.waits)} "
                "answers come late or never: its connection slots are full",
            )
        return self._steady() if slow and self._slow_everywhere() else None

    def _unanswered(self) -> tuple[str, str] | None:
        """Nothing came on any connection: then nothing can be said about how it answers."""
        if self.answered:
            return None
        stages = [row["stage"] for row in self.tcp if row["stage"]]
        stage = statistics.mode(stages) if stages else "query"
        what = {"secure": "the handshake of TLS", "query": "the query"}.get(stage, f"the {stage}")
        return (
            "unanswered",
            f"it accepts connections and answers none of {len(self.tcp)}: {what} stays unanswered",
        )

    def _answers_late(self) -> bool:
        """Whether answers over TCP come late, and those over UDP do not."""
        # One late answer may be anybody's: a busy machine's, too.
        every, asked = len(self.waits), len(self.udp)
        if self.late < 2 or self.late < SOME * every:
            return False
        if asked and self.late * asked <= 3 * self.udp_late * every:
            return False
        near = self.round_trip is not None and self.round_trip < NEAR_MS
        chance = _chance(self.late, every, self.udp_late, asked) if near and asked else 0.0
        return chance < ACCIDENT

    def _slow_everywhere(self) -> bool:
        """Whether UDP's answers wait too: a slow server, or a resolver that has to ask others."""
        return self.wait is not None and self.wait < 2.0 * self.lag

    def _backlog_full(self) -> tuple[str, str]:
        every, late = len(self.tcp), self.late_connects + self.unconnected
        times = sorted({round(self._syn_wait(row)) for row in self.tcp if self._is_late(row)})
        said = ", ".join(f"{seconds}" for seconds in times[:4])
        said = f"by {said} s" if said else "or not at all"
        seen = [f"{late} of {every} connect late ({said})"] if late else []
        if unheard := self.dropped - late:
            seen.append(f"{unheard} of {every} queries on new connections are not heard at first")
        return "backlog-full", f"{', '.join(seen)}: its backlog is full"

    def _steady(self) -> tuple[str, str]:
        assert self.wait is not None, "called with a wait"
        if self._slow_everywhere():
            return (
                "slow-server",
                f"{self._number()}it answers {self.lag:.0f} ms after the handshake's round trip, "
                "over UDP as over TCP: the server takes that long, or TCP ends at a nearer machine",
            )
        return "fixed-delay", f"{self._number()}a fixed {self.wait:.0f} ms at the server over TCP"

    def _place(self) -> tuple[str, str] | None:
        """Whether TCP's round trip is another one than UDP's."""
        if self.round_trip is None or self.udp_ms is None:
            return None
        if abs(self.lag) <= max(PLAIN_MS, 0.2 * min(self.udp_ms, self.round_trip)):
            return None
        nearer = "nearer" if self.lag > 0 else "farther away"
        return (
            "elsewhere",
            f"{self._number()}TCP's round trip takes {self.round_trip:.0f} ms and UDP's "
            f"{self.udp_ms:.0f} ms: TCP is answered {nearer} than UDP",
        )

    def _writing(self) -> tuple[str, str]:
        number = self._number()
        base = self.round_trip if self.round_trip is not None else self.udp_ms
        gap = self.gap or 0.0
        apart = self.prefix in ("alone", "split")
        if base is None or base < NEAR_MS:
            near = "it is too near to tell by times"
            if apart:
                return "two-writes", f"{near}, but the length comes in a segment of its own"
            return "one-write", f"{near}; the length comes with the message"
        if gap >= 0.5 * base:
            # Who saw no segments (a scenario's run) has no prefix.
            if (apart or self.prefix is None) and gap >= base + 0.75 * DELAYED_MS:
                return (
                    "delayed-acknowledgement",
                    f"{number}this server writes twice, and the acknowledgement of the first part "
                    f"came {gap - base:.0f} ms late",
                )
            if self.prefix == "split":
                return (
                    "split-length",
                    f"{number}the length comes in two segments: this server writes byte by byte",
                )
            if self.prefix == "alone" or self.prefix is None:
                return (
                    "two-writes",
                    f"{number}the length comes in a segment of its own: this server writes twice",
                )
            return (
                "late-part",
                f"{number}the reply comes in parts, a round trip apart: more than TCP sends at "
                "first, or a server that writes it in pieces",
            )
        if apart:
            return (
                "two-writes-at-once",
                f"{number}the length comes in a segment of its own, but nothing waits for it",
            )
        if self.reused:
            return "one-write", f"{number}one round trip for the query, on an open connection"
        return (
            "one-write",
            f"{number}one round trip for the connection, one for the query",
        )

    @property
    def held_back(self) -> bool:
        """Whether the wait is long enough for an acknowledgement to travel."""
        return bool(self.wait and self.round_trip and self.wait >= 0.75 * self.round_trip)

    def held(self) -> str:
        """The sentence for a reply that waits for an acknowledgement."""
        return (
            f"{self._number()}the reply comes {self.wait:.0f} ms late, a round trip or more: the "
            "server holds it until what it said before, such as session tickets, is acknowledged"
        )

    def secure(self, transport: str) -> str:
        """The sentence for TLS and QUIC, whose handshakes have a length of their own."""
        number = self._number()
        if self.reused:
            return f"{number}one round trip for the query, on an open connection"
        if transport == "quic":
            return f"{number}one round trip for the connection with its keys, one for the query"
        secure = _median([row["secure_ms"] for row in self.answered])
        trips = round(secure / self.round_trip) if secure and self.round_trip else 0
        said = {1: "one", 2: "two"}.get(trips, f"{trips}")
        return f"{number}one round trip for TCP, {said} for TLS, one for the query"

    def notes(self) -> tuple[str, ...]:
        """What else is worth saying."""
        found = []
        truncated = sum(1 for row in self.udp if row["truncated"])
        if truncated:
            found.append(
                f"{truncated} of {len(self.udp)} answers over UDP are truncated: clients ask "
                "again over TCP, and wait three round trips in all"
            )
        if self.udp and self.udp_ms is None:
            found.append("it does not answer over UDP, so there is no ratio")
        elif self.udp_lost > 0.0:
            lost = _count(self.udp, "timeout")
            found.append(f"{lost} of {len(self.udp)} queries over UDP were not answered in time")
        failed = len(self.tcp) - len(self.answered)
        if failed and self.answered:
            names = [row["outcome"] for row in self.tcp if row["outcome"] != "answered"]
            kinds = ", ".join(f"{names.count(name)} {name}" for name in dict.fromkeys(names))
            found.append(f"{failed} of {len(self.tcp)} queries over TCP failed: {kinds}")
        if self.late > 1 and not self._answers_late() and not self._slow_everywhere():
            found.append(
                f"{self.late} of {len(self.waits)} answers over TCP come late, and "
                f"{self.udp_late} of {len(self.udp)} over UDP: too few more to tell a full server "
                "from a busy machine or a path that loses packets"
            )
        codes = {row["rcode"] for row in [*self.udp, *self.answered] if row["rcode"]}
        if bad := sorted(codes - {"NOERROR"}):
            hint = "; hint: --name with a name that it serves" if "REFUSED" in bad else ""
            found.append(f"answers say {', '.join(bad)}{hint}")
        return tuple(found)

    def figures(self) -> dict[str, float | None]:
        """Figures by name, finite or None."""
        wait = None if self.wait == float("inf") else self.wait
        rounded = {
            "ratio": self.ratio,
            "round_trip_ms": self.round_trip,
            "udp_ms": self.udp_ms,
            "tcp_ms": self.total,
            "wait_ms": wait,
            "gap_ms": self.gap,
        }
        share = 100.0 * len(self.answered) / len(self.tcp) if self.tcp else None
        return {
            **{name: None if v is None else round(v, 4) for name, v in rounded.items()},
            "answered_percent": share,
        }

    def _number(self) -> str:
        return "" if self.ratio is None else f"{self.ratio:.1f}: "

    def _is_late(self, row: Mapping[str, Any]) -> bool:
        ms = row["connect_ms"]
        return (
            ms is not None and self.round_trip is not None and ms > (self.round_trip + LATE_SYN_MS)
        )

    def _syn_wait(self, row: Mapping[str, Any]) -> float:
        return float(row["connect_ms"] - (self.round_trip or 0.0)) / 1e3

    def _detail(self, outcome: str) -> str:
        for row in self.tcp:
            if row["outcome"] == outcome and row["detail"]:
                return str(row["detail"])
        return "no reason is known"


DELAYED_MS = 40.0
"""Linux's shortest delay of an acknowledgement (TCP_DELACK_MIN)."""


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def _spread(values: Sequence[float]) -> float:
    """The interquartile range."""
    if len(values) < 2:
        return 0.0
    ordered = sorted(values)
    quarter = (len(ordered) - 1) / 4
    return _at(ordered, 3 * quarter) - _at(ordered, quarter)


def _at(ordered: Sequence[float], place: float) -> float:
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    if ordered[high] == float("inf"):
        return ordered[high] if place > low else ordered[low]
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def _chance(late: int, every: int, others_late: int, others: int) -> float:
    """How often so many of the late ones or more would be among the first by chance.

    Fisher's exact test (The Design of Experiments, 1935, chapter 2).
    """
    both = late + others_late
    ways = sum(
        math.comb(every, count) * math.comb(others, both - count)
        for count in range(late, min(both, every) + 1)
    )
    return ways / math.comb(every + others, both)


def _count(rows: Sequence[Mapping[str, Any]], outcome: str, *, stage: str | None = None) -> int:
    return sum(
        1 for row in rows if row["outcome"] == outcome and (stage is None or row["stage"] == stage)
    )

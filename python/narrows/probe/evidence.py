"""What was seen of one server: the times and segments of its answers, as metrics.

The unit is the round trip of TCP's own handshake. The server's kernel answers it, whatever the
server does. For the median exchange over TCP:

- *wait*: from the query to the first byte of the reply, less a round trip: the server's own time.
- *gap*: from the first byte of the reply to the last. If a server writes the length and the message
  separately, with Nagle's algorithm on (RFC 896), the second write waits for the acknowledgement of
  the first: a round trip. If that acknowledgement is delayed, it waits 40 ms or more in addition.
- *lag*: the time by which UDP's answer takes longer than the handshake.

Some sources know less. Without the time of the first byte (RIPE Atlas), wait and gap are one time:
the wait ends at the last byte. Without the time of the connection (Atlas before 2019, and most
other people's tables), the round trip is that of UDP, and the connection takes one, too.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from narrows.probe.plan import ROUNDS
from narrows.probe.whole_ratio import ratio_after_truncated, whole_ratio
from narrows.results.exchanges import NEAR_MS

LATE_SYN_MS = 900.0
"""A handshake that takes this many milliseconds longer than usual has lost a SYN, because the first
is sent again after a second."""

SOME = 0.2
"""The share of exchanges above which something is not an accident."""

PLAIN_MS = 4.0
"""Waits below this are a server's ordinary work, and noise."""

NEAR_WAIT_MS = 20.0
"""Milliseconds that a busy machine may take until a server's process runs, for servers nearer than
`NEAR_MS`. A client that waits for a connection slot waits for another client's idle timeout, which
is 100 ms or more."""

ACCIDENT = 0.05
"""If the probability that something happens by chance is below this, it is not an accident."""


MOST_ROUNDS = 100
"""The most rounds that a note suggests for deciding between two verdicts."""


class Evidence:
    """Metrics of one server's exchanges."""

    def __init__(
        self,
        udp: Sequence[Mapping[str, Any]],
        tcp: Sequence[Mapping[str, Any]],
        transport: str = "tcp",
    ) -> None:
        self.udp = udp = [filled(row) for row in udp]
        self.udp_ms = median([row["query_ms"] for row in udp if row["outcome"] == "answered"])
        self.tcp = tcp = [filled(row, self.udp_ms) for row in tcp]
        self.transport = transport
        self.answered = [row for row in tcp if row["outcome"] == "answered"]
        self.connects_known = not any(row["assumed"] for row in tcp)
        """Whether the source tells the time of the connection from that of the query."""
        self.in_whole = not any(row["first_byte_ms"] is not None for row in self.answered)
        """Whether only the time to the last byte of replies is known, and no segments."""
        connects = [row["connect_ms"] for row in tcp if row["connect_ms"] is not None]
        self.late_from = min(connects, default=math.inf) + LATE_SYN_MS
        """The time in ms from which on a handshake has lost a SYN."""
        on_time = [ms for ms in connects if ms < self.late_from]
        self.late_connects = len(connects) - len(on_time)
        self.round_trip = median(on_time)
        self.unconnected = ended(tcp, "timeout", stage="connect")
        self.dropped = self.late_connects + self.unconnected + self._unheard()
        self.waits = self._waits()
        self.wait = median(self.waits)
        usual = self._usual()
        self.late = sum(1 for wait in self.waits if wait - usual > self.late_ms)
        self.gap = median(
            [
                row["query_ms"] - row["first_byte_ms"]
                for row in self.answered
                if row["query_ms"] is not None and row["first_byte_ms"] is not None
            ]
        )
        prefixes = [row["prefix"] for row in self.answered if row["prefix"]]
        self.prefix = statistics.mode(prefixes) if prefixes else None
        totals = [row["total_ms"] for row in self.answered if row["total_ms"] is not None]
        self.total = median(totals)
        self.ratio = whole_ratio(udp, tcp)
        self.ratio_after_truncated = ratio_after_truncated(udp, self.ratio)
        self.reused = any(row["reused"] for row in self.answered)

    def _waits(self) -> list[float]:
        """Each connected exchange's wait; infinite where no answer came."""
        if self.round_trip is None:
            return []
        ends = "query_ms" if self.in_whole else "first_byte_ms"
        found = [row[ends] - self.round_trip for row in self.answered if row[ends] is not None]
        lost = ended(self.tcp, "timeout", stage="query")
        return [*found, *([float("inf")] * lost)]

    def _unheard(self) -> int:
        """How many queries were retransmitted on connections that were open at once."""
        return sum(
            1
            for row in self.tcp
            if row["connect_ms"] is not None
            and not self.is_late(row)
            and (row["query_retransmissions"] or 0) > 0
        )

    def share(self, count: int) -> float:
        """A count as a share of all exchanges over TCP."""
        return count / len(self.tcp)

    def _usual(self) -> float:
        """The wait in ms of every answer: a round trip if whole replies take two."""
        trip, least = self.round_trip, min(self.waits, default=0.0)
        return trip if self.in_whole and trip is not None and about(least, trip) else 0.0

    @property
    def late_ms(self) -> float:
        """The wait in ms above which an answer is late."""
        trip = self.round_trip or 0.0
        return max(NEAR_WAIT_MS if trip < NEAR_MS else PLAIN_MS, 0.5 * trip)

    @property
    def udp_late(self) -> int:
        """Queries over UDP that were answered late, or not in time."""
        times = [row["query_ms"] for row in self.udp if row["outcome"] == "answered"]
        known = [ms for ms in times if ms is not None]
        least = min(known, default=0.0)
        late = sum(1 for ms in known if ms - least > self.late_ms)
        return late + ended(self.udp, "timeout")

    @property
    def lag(self) -> float:
        """By how many ms UDP's answer takes longer than the handshake; 0 if either is not known."""
        if self.udp_ms is None or self.round_trip is None:
            return 0.0
        return self.udp_ms - self.round_trip

    @property
    def udp_lost(self) -> float:
        """Share of queries over UDP without an answer."""
        return ended(self.udp, "timeout") / len(self.udp) if self.udp else 0.0

    def answers_late(self) -> bool:
        """Whether answers over TCP come late, and those over UDP do not."""
        return self._would_be_late(1)

    def _would_be_late(self, times: float) -> bool:
        """Whether answers would be late with `times` as many queries and the same shares."""
        late, every = round(times * self.late), round(times * len(self.waits))
        udp_late, asked = round(times * self.udp_late), round(times * len(self.udp))
        # A single late answer has many possible causes, such as a busy machine.
        if late < 2 or late < SOME * every:
            return False
        if asked and late * asked <= 3 * udp_late * every:
            return False
        near = self.round_trip is not None and self.round_trip < NEAR_MS
        chance = _chance(late, every, udp_late, asked) if near and asked else 0.0
        return chance < ACCIDENT

    def rounds_that_tell(self) -> int | None:
        """Rounds after which `answers_late` would be true at the same rates; None: never.

        A round has one query over TCP. The number is not below the default number of rounds,
        because a hint to ask fewer would be odd.
        """
        asked = len(self.tcp)
        for rounds in range(max(ROUNDS, asked + 1), MOST_ROUNDS + 1):
            if self._would_be_late(rounds / asked):
                return rounds
        return None

    def slow_everywhere(self) -> bool:
        """Whether answers over UDP wait too: a slow server, or a resolver that asks others."""
        return self.wait is not None and self.wait < 2.0 * self.lag

    @property
    def held_back(self) -> bool:
        """Whether the wait is long enough to be a wait for an acknowledgement."""
        return bool(self.wait and self.round_trip and self.wait >= 0.75 * self.round_trip)

    def metrics(self) -> dict[str, float | None]:
        """Metrics by name, finite or None."""
        wait = None if self.wait == float("inf") else self.wait
        rounded = {
            "ratio": self.ratio,
            "ratio_after_truncated": self.ratio_after_truncated,
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

    def is_late(self, row: Mapping[str, Any]) -> bool:
        """Whether the exchange's handshake lost a SYN."""
        return row["connect_ms"] is not None and row["connect_ms"] >= self.late_from

    def syn_wait(self, row: Mapping[str, Any]) -> float:
        """The time that the exchange's handshake took beyond a round trip, in seconds."""
        return float(row["connect_ms"] - (self.round_trip or 0.0)) / 1e3

    @property
    def excess(self) -> float | None:
        """By how many ms a query took longer than a round trip, from the query to the last byte."""
        base = self.round_trip if self.round_trip is not None else self.udp_ms
        whole = median([row["query_ms"] for row in self.answered])
        return None if base is None or whole is None else whole - base


def detail(rows: Sequence[Mapping[str, Any]]) -> str:
    """The most common detail of these exchanges."""
    details = [str(row["detail"]) for row in rows if row["detail"]]
    return statistics.mode(details) if details else "no reason is known"


def about(ms: float, trip: float) -> bool:
    """Whether a time is a round trip, give or take a quarter."""
    return abs(ms - trip) <= 0.25 * trip


def filled(row: Mapping[str, Any], connect_ms: float | None = None) -> dict[str, Any]:
    """A row with the times that follow from its whole time, where the source gives no others.

    Args:
        row: A row of `exchanges`.
        connect_ms: How long its connection took if the source does not say; `assumed` marks such
            rows.
    """
    found = {**row, "assumed": False}
    total = row.get("total_ms")
    if total is None or row["query_ms"] is not None:
        return found
    if row["transport"] == "udp" or row["reused"]:
        return {**found, "query_ms": total}
    if row["transport"] == "tcp" and row["connect_ms"] is None and connect_ms is not None:
        found |= {"connect_ms": min(connect_ms, total), "assumed": True}
    if found["connect_ms"] is None or (row["transport"] == "tls" and row["secure_ms"] is None):
        return found
    return {**found, "query_ms": total - found["connect_ms"] - (row["secure_ms"] or 0.0)}


def median(values: Sequence[float | None]) -> float | None:
    """The median of the values that are known; None if none is."""
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def spread(values: Sequence[float]) -> float:
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
    """The probability that chance puts `late` or more of all late ones among the first `every`.

    Fisher's exact test (The Design of Experiments, 1935, chapter 2).
    """
    both = late + others_late
    ways = sum(
        math.comb(every, count) * math.comb(others, both - count)
        for count in range(late, min(both, every) + 1)
    )
    return ways / math.comb(every + others, both)


def ended(rows: Sequence[Mapping[str, Any]], outcome: str, *, stage: str | None = None) -> int:
    """How many exchanges had this outcome, at that stage or at any."""
    return len(which(rows, outcome, stage=stage))


def which(
    rows: Sequence[Mapping[str, Any]], *outcomes: str, stage: str | None = None
) -> list[Mapping[str, Any]]:
    """The exchanges that had one of these outcomes, at that stage or at any."""
    return [row for row in rows if row["outcome"] in outcomes and stage in (None, row["stage"])]

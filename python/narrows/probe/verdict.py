"""What the times and segments of a server's answers mean, in words.

Verdicts rest on metrics of evidence.py, such as the wait and the gap.

Full servers have two signatures, both seen with real servers. The kernel completes handshakes as
long as the backlog has room, so a server whose connection slots are full connects at once and
answers late. When the backlog is full too, the kernel drops SYNs, and clients send them again after
1, 3 and 7 seconds (RFC 6298: the first timeout is a second, and doubles). If the backlog has filled
since the SYN, Linux also drops the handshake's last acknowledgement. Such a client believes that it
is connected, and sends its query again and again until there is room. A full backlog has room now
and then, more often for near clients. So the verdict needs only two dropped handshakes if answers
are late as well. Without a full backlog, no handshake is dropped.

Over TLS 1.3, a server sends session tickets before its first reply. If Nagle's algorithm is on, the
reply waits until they are acknowledged, and a client that has nothing to send acknowledges late
(seen with Unbound 1.17).

A path that loses packets also makes connections and answers late, but it loses UDP too, and only a
few packets in all. A busy machine answers late over UDP as well as over TCP, so answers over TCP
have to be late much more often. At distances below a millisecond, a machine's own delays are longer
than round trips. There, only long waits count, and only if they are too frequent to be chance.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import polars as pl

from narrows.probe.evidence import (
    NEAR_WAIT_MS,
    PLAIN_MS,
    SOME,
    Evidence,
    about,
    detail,
    ended,
    median,
    spread,
    which,
)
from narrows.results.exchanges import NEAR_MS

VERDICTS: Mapping[str, str] = {
    "one-write": "the reply comes at once, in one piece",
    "two-writes": "the length comes in its own segment, a round trip before the message",
    "split-length": "the length's bytes come in two segments, a round trip apart",
    "late-part": "the reply comes in parts, a round trip apart, after the length",
    "two-writes-at-once": "the length comes in its own segment, without a wait",
    "delayed-acknowledgement": "two writes, and our acknowledgement came late",
    "slots-full": "connects at once, but answers late or never, sometimes or always",
    "backlog-full": "connects late, by whole SYN timeouts",
    "late": "connects or answers late or never, and the source or QUIC does not tell which",
    "fixed-delay": "answers over TCP later than over UDP, always by the same amount",
    "held-back": "over TLS, answers a round trip or more later than it could",
    "slow-server": "answers later than the handshake, over UDP and over TCP",
    "elsewhere": "TCP and UDP are answered by machines at different distances",
    "closes": "accepts connections and closes some or all of them without an answer",
    "refuses": "refuses connections",
    "handshake-fails": "accepts connections, but TLS fails",
    "silent": "does not answer SYNs, or QUIC's first packets",
    "unanswered": "accepts connections, but answers nothing on them",
    "unfinished": "begins replies, but the rest does not come in time",
    "wrong-reply": "replies, but some or all replies answer no query or are not DNS",
    "unknown": "answers, but its times and segments do not tell how it writes",
    "unreachable": "cannot be reached",
    "not-asked": "this machine could not ask",
    "no-tcp": "nothing was asked over TCP",
}
"""What each verdict means, by its name."""


@dataclass(frozen=True)
class Verdict:
    """A server's behaviour, as seen from one vantage point."""

    target: str
    vantage: str
    transport: str
    name: str
    """One of `VERDICTS`."""
    sentence: str
    notes: tuple[str, ...] = ()
    """What else was seen."""
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    """`ratio`, `ratio_after_truncated` if all answers over UDP are truncated; in ms `round_trip`,
    `udp`, `wait`, `gap`; and `answered_percent`."""

    def document(self) -> dict[str, Any]:
        """As JSON values."""
        return {**asdict(self), "notes": list(self.notes)}


def verdicts(exchanges: pl.DataFrame, settings: Mapping[str, Any] | None = None) -> list[Verdict]:
    """A verdict for each target, vantage point and connection-oriented transport.

    Args:
        exchanges: The table `exchanges` of a measurement.
        settings: The probe's settings, for notes on `edns` and `retry`.
    """
    found = []
    for (target, vantage), rows in exchanges.group_by("target", "vantage", maintain_order=True):
        udp = rows.filter(transport="udp").to_dicts()
        kinds = [kind for kind in ("tcp", "tls", "quic") if rows.filter(transport=kind).height]
        for kind in kinds or ["tcp"]:
            over = rows.filter(transport=kind).to_dicts()
            found.append(judge(udp, over, str(target), str(vantage), kind, settings))
    return found


def judge(
    udp: Sequence[Mapping[str, Any]],
    tcp: Sequence[Mapping[str, Any]],
    target: str = "",
    vantage: str = "",
    transport: str = "tcp",
    settings: Mapping[str, Any] | None = None,
) -> Verdict:
    """The verdict on rows of `exchanges`: those over UDP, and those over a connection."""
    seen = _Reading(udp, tcp, transport)
    name, sentence = seen.verdict()
    if name == "one-write" and transport != "tcp":
        sentence = seen.secure(transport)
    if name == "fixed-delay" and transport == "tls" and seen.held_back:
        name, sentence = "held-back", seen.held()
    return Verdict(
        target, vantage, transport, name, sentence, seen.notes(settings or {}), seen.metrics()
    )


class _Reading(Evidence):
    """What the metrics of one server's exchanges mean."""

    def verdict(self) -> tuple[str, str]:
        """Name and sentence of the first verdict that fits."""
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
        refused = ended(self.tcp, "refused")
        if 2 * refused > every:
            return "refuses", "it refuses connections: nothing listens there, or a filter rejects"
        failed = which(self.tcp, "handshake-failed")
        if 2 * len(failed) > every:
            return "handshake-fails", f"its TLS handshake fails: {detail(failed)}"
        if 2 * ended(self.tcp, "unreachable") > every:
            return "unreachable", "the network reports that it cannot be reached"
        unasked = which(self.tcp, "not-asked")
        if 2 * len(unasked) > every:
            return "not-asked", f"this machine could not ask ({detail(unasked)})"
        if self.unconnected == every:
            udp = "" if self.udp_ms is None else ", though it answers over UDP"
            if self.transport == "quic":
                why = "no QUIC on this port, or a filter drops it"
                return "silent", f"it does not answer QUIC{udp}: {why}"
            return (
                "silent",
                f"it does not answer SYNs{udp}: a filter drops TCP, or no host is there",
            )
        closed = which(self.tcp, "closed", "reset")
        if self.share(len(closed)) >= SOME:
            what = "every one" if len(closed) == every else f"{len(closed)} of {every}"
            if 2 * len(cut := which(closed, "closed", "reset", stage="reply")) > len(closed):
                return (
                    "closes",
                    f"it closes {what} of its connections within a reply: {detail(cut)}",
                )
            why = "no DNS over TCP"
            if len(closed) < every:
                why = "it has a limit, and rejects the rest"
            return "closes", f"it accepts connections and closes {what} without an answer: {why}"
        if self.share(len(wrong := which(self.tcp, *_WRONG))) >= SOME:
            return "wrong-reply", f"{len(wrong)} of {every} replies are no answers: {_wrong(wrong)}"
        cut = which(self.tcp, "timeout", stage="reply")
        if self.share(len(cut)) >= SOME and self.share(len(cut)) > 3.0 * self.udp_lost:
            what = f"begins {len(cut)} of {every} replies, but the rest does not come in time"
            return "unfinished", f"it {what}: {detail(cut)}"
        return None

    def _lateness(self) -> tuple[str, str] | None:
        late = self.late_connects + self.unconnected
        if self.share(late) >= SOME and self.share(late) > 3.0 * self.udp_lost:
            return self._late_over_quic() if self.transport == "quic" else self._backlog_full()
        if self.round_trip is None or not self.waits:
            return None
        assert self.wait is not None, "there are waits"
        slow = self.wait > max(PLAIN_MS, 0.04 * self.round_trip)
        # A client that waits for a free slot waits much longer or shorter than the one before.
        noise = max(PLAIN_MS, 0.1 * self.wait)
        steady = (
            math.isfinite(self.wait)
            and spread(self.waits) <= noise
            and self.wait - min(self.waits) <= noise
        )
        if slow and steady:
            twice = self.in_whole and self.round_trip and about(self.wait, self.round_trip)
            # Without segments, a second round trip means two writes, unless UDP is as slow.
            return None if twice and not self.slow_everywhere() else self._steady()
        if self.answers_late() and self.transport == "quic":
            return self._late_over_quic() if self.answered else None
        if self.answers_late() and not self.connects_known:
            return (
                "late",
                f"{self._number()}{self.late} of {len(self.waits)} answers come late or never: its "
                "connection slots or its backlog are full, or the path loses packets",
            )
        if self.answers_late():
            if self.dropped >= 2 and self.share(self.dropped) > 3.0 * self.udp_lost:
                return self._backlog_full()
            return (
                "slots-full",
                f"{self._number()}it connects at once and {self.late} of {len(self.waits)} "
                "answers come late or never: its connection slots are full",
            )
        return self._steady() if slow and self.slow_everywhere() else None

    def _late_over_quic(self) -> tuple[str, str]:
        """Over QUIC, the server completes handshakes, not its kernel: there is no backlog."""
        every, connects = len(self.tcp), self.late_connects + self.unconnected
        seen = [f"{connects} of {every} connect late or never"] if connects else []
        if self.late:
            seen.append(f"{self.late} of {len(self.waits)} answers come late or never")
        return "late", f"{' and '.join(seen)}: the server is slow, or it or the path loses packets"

    def _unanswered(self) -> tuple[str, str] | None:
        """The verdict if no connection brought an answer."""
        if self.answered:
            return None
        stages = [row["stage"] for row in self.tcp if row["stage"]]
        stage = statistics.mode(stages) if stages else "query"
        what = {"secure": "the handshake of TLS", "query": "the query"}.get(stage, f"the {stage}")
        seen = (
            f"it accepts connections but answers none of {len(self.tcp)}: {what} stays unanswered"
        )
        return "unanswered", seen + (", as on a port without TLS" if stage == "secure" else "")

    def _backlog_full(self) -> tuple[str, str]:
        every, late = len(self.tcp), self.late_connects + self.unconnected
        times = sorted({round(self.syn_wait(row)) for row in self.tcp if self.is_late(row)})
        said = ", ".join(f"{seconds}" for seconds in times[:4])
        said = f"by {said} s" if said else "or not at all"
        seen = [f"{late} of {every} connect late ({said})"] if late else []
        if unheard := self.dropped - late:
            seen.append(f"{unheard} of {every} queries on new connections had to be sent again")
        return "backlog-full", f"{', '.join(seen)}: its backlog is full"

    def _steady(self) -> tuple[str, str]:
        assert self.wait is not None, "called with a wait"
        if self.slow_everywhere():
            return (
                "slow-server",
                f"{self._number()}it answers {self.lag:.0f} ms after the handshake's round trip, "
                "over UDP and TCP alike: the server is slow, or a nearer machine answers TCP",
            )
        return (
            "fixed-delay",
            f"{self._number()}the server adds {self.wait:.0f} ms to each answer over TCP",
        )

    def _place(self) -> tuple[str, str] | None:
        """The verdict if TCP's round trip differs from UDP's."""
        if self.round_trip is None or self.udp_ms is None:
            return None
        nearest = min(self.udp_ms, self.round_trip)
        # The kernel completes handshakes at once, but a busy machine runs the server later.
        plain = NEAR_WAIT_MS if nearest < NEAR_MS else PLAIN_MS
        if abs(self.lag) <= max(plain, 0.2 * nearest):
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
            near = "it is too near to judge by times (below 1 ms)"
            if apart:
                return "two-writes", f"{near}, but the length comes in a segment of its own"
            if self.prefix is None:
                return "unknown", near
            return "one-write", f"{near}; the length comes with the message"
        if self.in_whole:
            return self._writing_in_whole(base)
        if gap >= 0.5 * base:
            # Without knowledge of segments (as in a scenario's run), there is no prefix.
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
                f"{number}the reply comes in parts, a round trip apart: it is more than TCP sends "
                "at first, or the server writes it in pieces",
            )
        if apart:
            return (
                "two-writes-at-once",
                f"{number}the length comes in a segment of its own, but the message comes at once",
            )
        if self.reused:
            return "one-write", f"{number}one round trip for the query, on an open connection"
        return (
            "one-write",
            f"{number}one round trip for the connection, one for the query",
        )

    def _writing_in_whole(self, base: float) -> tuple[str, str]:
        """The verdict from the times to the last bytes of replies alone."""
        number, excess = self._number(), self.excess
        if excess is None:
            return "unknown", f"{number}nothing tells how long the queries took"
        if about(excess, base):
            return (
                "two-writes",
                f"{number}the reply takes a second round trip: this server writes twice, or it "
                f"adds {excess:.0f} ms (the source has no segments that would tell)",
            )
        if excess > max(PLAIN_MS, 0.25 * base):
            return (
                "unknown",
                f"{number}the reply takes {excess:.0f} ms more than a round trip, and the source "
                "has no segments that would tell why",
            )
        if self.reused:
            return "one-write", f"{number}one round trip for the query, on an open connection"
        return "one-write", f"{number}one round trip for the connection, one for the query"

    def held(self) -> str:
        """The sentence for a reply that waits for an acknowledgement."""
        return (
            f"{self._number()}the reply comes {self.wait:.0f} ms late, a round trip or more: the "
            "server holds it until earlier data, such as session tickets, are acknowledged"
        )

    def secure(self, transport: str) -> str:
        """The sentence for TLS and QUIC, whose handshakes take their own number of round trips."""
        number = self._number()
        if self.reused:
            return f"{number}one round trip for the query, on an open connection"
        if transport == "quic":
            return f"{number}one round trip for the connection with its keys, one for the query"
        secure = median([row["secure_ms"] for row in self.answered])
        trips = round(secure / self.round_trip) if secure and self.round_trip else 0
        said = {1: "one", 2: "two"}.get(trips, f"{trips}")
        return f"{number}one round trip for TCP, {said} for TLS, one for the query"

    def notes(self, settings: Mapping[str, Any]) -> tuple[str, ...]:
        """Notes on what else is worth saying."""
        found = []
        if any(row["truncated"] for row in self.udp):
            found.append(self._truncation(settings))
        if settings.get("retry") and (attempts := self._attempts()):
            found.append(attempts)
        wrong = which(self.udp, *_WRONG)
        if wrong:
            words = f"{len(wrong)} of {len(self.udp)} replies over UDP are no answers"
            found.append(f"{words}: {_wrong(wrong)}")
        elif self.udp and self.udp_ms is None:
            found.append("it does not answer over UDP, so there is no ratio")
        if self.udp_ms is not None and self.udp_lost > 0.0:
            lost = ended(self.udp, "timeout")
            found.append(f"{lost} of {len(self.udp)} queries over UDP were not answered in time")
        failed = len(self.tcp) - len(self.answered)
        if failed and self.answered:
            names = [row["outcome"] for row in self.tcp if row["outcome"] != "answered"]
            kinds = ", ".join(f"{names.count(name)} {name}" for name in dict.fromkeys(names))
            found.append(f"{failed} of {len(self.tcp)} queries over TCP failed: {kinds}")
        if self.late > 1 and not self.answers_late() and not self.slow_everywhere():
            found.append(self._undecided())
        codes = {row["rcode"] for row in [*self.udp, *self.answered] if row["rcode"]}
        if bad := sorted(codes - {"NOERROR"}):
            hint = "; hint: ask for a name that it serves (--name)" if "REFUSED" in bad else ""
            # RFC 6891, section 7: FORMERR from servers without EDNS; old ones say NOTIMP.
            if settings.get("edns") and not codes.isdisjoint({"FORMERR", "NOTIMP"}):
                hint += "; hint: it may not know EDNS; ask without: --edns 0"
            found.append(f"answers have the code {', '.join(bad)}{hint}")
        return tuple(found)

    def _truncation(self, settings: Mapping[str, Any]) -> str:
        """A note on how many answers are truncated, at what size, and what clients do then."""
        answered = [row for row in self.udp if row["outcome"] == "answered"]
        said = f"{sum(1 for row in answered if row['truncated'])} of {len(answered)} answers"
        said += " over UDP are truncated"
        whole = max((row.get("reply_bytes") or 0 for row in self.answered), default=0)
        largest = max(
            (row.get("reply_bytes") or 0 for row in answered if not row["truncated"]), default=0
        )
        if "edns" in settings:
            offered = settings["edns"]
            size = max(offered or 0, PLAIN_BYTES)
            # A server that truncates a reply that would fit has a limit of its own.
            when = "although" if 0 < whole <= size else "where"
            said += (
                " without EDNS, which allows 512 bytes"
                if offered is None
                else f" {when} {size} bytes were offered"
            )
        if whole:
            said += f"; over {self.transport.upper()} the reply has {whole} bytes"
        if largest:
            said += f"; the largest whole answer over UDP has {largest} bytes"
        return f"{said}: clients ask again over TCP, and wait for three round trips in all"

    def _attempts(self) -> str:
        """A note on how many attempts answers over UDP took."""
        taken = [row.get("attempts") for row in self.udp if row["outcome"] == "answered"]
        known = [count for count in taken if count]
        if not known:
            return ""
        first, every = known.count(1), len(self.udp)
        most = max(count for row in self.udp if (count := row.get("attempts")))
        return (
            f"over UDP, {first} of {every} queries ({100 * first / every:.0f} %) were answered at "
            f"the first attempt, and the others took up to {most}; times are those of the last "
            "attempt, without the timeouts before it"
        )

    def _undecided(self) -> str:
        """A note on late answers that are too few for a verdict, and how many rounds it takes."""
        never = ended(self.tcp, "timeout", stage="query")
        over_tcp = _said("over TCP", self.late - never, never, len(self.waits))
        causes = "whether the server is full, this machine is busy or the path loses packets"
        if not self.udp:
            return f"{over_tcp}; queries over UDP would show {causes}; hint: ask over both"
        lost = ended(self.udp, "timeout")
        over_udp = _said("over UDP", self.udp_late - lost, lost, len(self.udp))
        rounds = self.rounds_that_tell()
        hint = "" if rounds is None else f"; hint: {rounds} rounds are enough if this continues"
        return f"{over_tcp}, and {over_udp}; the difference is too small to show {causes}{hint}"

    def _number(self) -> str:
        if self.ratio is None:
            return ""
        if self.ratio_after_truncated is None:
            return f"{self.ratio:.1f}: "
        after = f"{self.ratio_after_truncated:.1f} with the truncated query before it"
        return f"{self.ratio:.1f} ({after}): "


PLAIN_BYTES = 512
"""The longest message over UDP without EDNS, and the smallest size with it (RFC 6891, 6.2.3)."""

DELAYED_MS = 40.0
"""Linux's shortest delay of an acknowledgement (TCP_DELACK_MIN)."""


_WRONG = ("mismatched", "malformed")
"""Outcomes of exchanges whose reply is no answer."""


def _wrong(rows: Sequence[Mapping[str, Any]]) -> str:
    """Says what these replies are instead of answers."""
    words = detail(rows)
    malformed = 2 * ended(rows, "malformed") > len(rows)
    return f"not a DNS message ({words})" if malformed else words


def _said(over: str, late: int, timeouts: int, every: int) -> str:
    """States how many queries over a transport were answered late, and how many timed out."""
    many = f"of {every} queries"
    if timeouts and not late:
        return f"{over}, {timeouts} {many} {'times' if timeouts == 1 else 'time'} out"
    if not late:
        return f"{over}, none {many} is answered late"
    lost = f" and {timeouts} {'times' if timeouts == 1 else 'time'} out" if timeouts else ""
    return f"{over}, {late} {many} {'is' if late == 1 else 'are'} answered late{lost}"

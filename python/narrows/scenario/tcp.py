"""TCP settings: a named profile and what differs from it, by the simulator's field names."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import Field

from narrows import _core
from narrows.scenario.amounts import Duration
from narrows.scenario.base import Table
from narrows.scenario.quantities import PositiveBytes, PositiveSpan, at_most, refuse
from narrows.scenario.rules import Fault, Faults, rule

__all__ = ["PROFILES", "Delayed", "Tcp"]

PROFILES = ("linux-6", "legacy", "linux-2.6.30", "ns-2")

Switch = Annotated[bool, Field(strict=True)]
Timeout = Annotated[PositiveSpan, at_most(1000 * 10**12, "1000 s")]
Segments = Annotated[int, Field(strict=True, ge=1, le=65_535)]


class Delayed(Table):
    """Delayed acknowledgements (RFC 1122, 4.2.3.2)."""

    delayed: Annotated[PositiveSpan, at_most(10**12, "1 s")]
    """Longest time that an acknowledgement waits for a second segment; at most 1 s."""


class Tcp(Table):
    """TCP settings of both ends of a connection: a profile, and the keys that differ from it."""

    profile: Literal["linux-6", "legacy", "linux-2.6.30", "ns-2"] = "linux-6"
    """Where the settings come from: `linux-6` (today), `legacy` (the same with RACK and TLP off
    and an initial window of 3), `linux-2.6.30` (rate halving, initial window 3), `ns-2` (for
    comparisons with it). All other keys are the profile's unless given; the defaults below are
    those of `linux-6`."""
    mss: Annotated[int, Field(strict=True, ge=88, le=8960)] | None = None
    """Largest payload of a segment without options, in bytes; with timestamps each data segment
    carries 12 bytes less."""
    initial_window: Segments | None = None
    """Initial window in segments (RFC 6928: 10)."""
    initial_ssthresh: Annotated[int, Field(strict=True, ge=2, le=1_000_000)] | (
        Literal["unbounded"] | None
    ) = None
    """Initial slow-start threshold in segments, or `"unbounded"`."""
    congestion: Literal["reno", "cubic"] | None = None
    """Congestion control: Reno (RFC 5681) or CUBIC (RFC 9438)."""
    hystart: Switch | None = None
    """Leaves slow start before the first loss; CUBIC only."""
    recovery: Literal["tahoe", "reno", "new-reno", "sack"] | None = None
    """How lost segments are found and sent again. `tahoe`: fast retransmit, then slow start
    (Jacobson 1988); `reno`: fast recovery until the first new acknowledgement (RFC 2581);
    `new-reno`: fast recovery over partial acknowledgements too (RFC 6582); `sack`: by a scoreboard
    (RFC 6675)."""
    reduction: Literal["at-once", "rate-halving", "prr"] | None = None
    """How the window shrinks in recovery: `at-once` (RFC 5681), `rate-halving` (Linux before 3.2),
    or `prr` (RFC 6937)."""
    rack: Switch | None = None
    """Loss detection by time (RFC 8985)."""
    tlp: Switch | None = None
    """Tail loss probes (RFC 8985)."""
    frto: Switch | None = None
    """Detection of spurious timeouts (RFC 5682)."""
    undo: Switch | None = None
    """Undoes window reductions that turn out to be needless."""
    limited_transmit: Switch | None = None
    """Limited transmit (RFC 3042)."""
    sack: Switch | None = None
    """Offers selective acknowledgements (RFC 2018)."""
    timestamps: Switch | None = None
    """Offers timestamps (RFC 7323)."""
    window_scaling: Switch | None = None
    """Offers window scaling (RFC 7323)."""
    receive_buffer: Annotated[PositiveBytes, at_most(2**30, "1 GiB")] | None = None
    """The largest window that is advertised; at most 1 GiB (RFC 7323)."""
    receive_autotuning: Switch | None = None
    """The window starts at 64 KB and grows with what the application reads, and every segment is
    acknowledged at once while it grows, as in Linux. `false`: the whole window is advertised from
    the start."""
    acks: Literal["every-segment", "linux", "linux-2.6"] | Delayed | None = None
    """When a receiver acknowledges: `"every-segment"`, `"linux"` (quick at the start, then a
    delay that adapts), `"linux-2.6"` (the same, but not quick after marks), or
    `{ delayed = "200 ms" }`."""
    nagle: Switch | None = None
    """Nagle's algorithm; false means TCP_NODELAY."""
    ecn: Switch | Literal["syn-ack", "plus-plus"] | None = None
    """Negotiates ECN, so that data are marked rather than dropped (RFC 3168). With `"syn-ack"` the
    SYN-ACK may be marked too (RFC 5562), with `"plus-plus"` SYN, SYN-ACK, FIN and retransmissions
    (ECN++). Not together with a traffic group's `ecn_share`."""
    ecn_response: Literal["as-loss", "abe"] | None = None
    """The response to an ECN echo: as to a loss (RFC 3168), or a smaller reduction (RFC 8511)."""
    initial_rto: Timeout | None = None
    """Retransmission timeout before the first measurement (RFC 6298: 1 s)."""
    min_rto: Timeout | None = None
    """Lower bound of the retransmission timeout (Linux: 200 ms)."""
    max_rto: Timeout | None = None
    """Upper bound of the retransmission timeout (Linux: 120 s)."""
    timer_granularity: Annotated[PositiveSpan, at_most(10**12, "1 s")] | None = None
    """Granularity of the retransmission timer, 1 us to 1 s."""
    timer_rounding: Literal["exact", "jiffy", "wheel"] | None = None
    """When a timer fires: exactly when its time is over (ns-2), at a tick of the host's clock
    (Linux before 4.8), or at a slot of the timer wheel, one tick later and coarser for long timers
    (Linux since 4.8)."""
    restart_after_idle: Literal["keep", "decay", "slow-start", "fresh"] | None = None
    """The window after an idle time: it stays, decays (RFC 2861, Linux), goes back to the initial
    window (RFC 5681, 4.1), or starts as on a new connection."""
    max_retries: Annotated[int, Field(strict=True, ge=1, le=255)] | None = None
    """How often a segment is sent again after a timeout before the connection is given up."""
    syn_linear_timeouts: Annotated[int, Field(strict=True, ge=0, le=127)] | None = None
    """How many repetitions of a lost SYN leave its timeout as it is; each later one doubles it
    (`tcp_syn_linear_timeouts`). With 0, a lost SYN is sent again after 1, 3, 7, 15, 31 and 63 s, as
    before Linux 6.5. With 4, the default since then, it is sent again after 1, 2, 3, 4, 5, 7, 11,
    19, 35 and 67 s. SYN-ACKs are not affected."""
    skip_handshake: Switch | None = None
    """The connection starts established, without SYN and FIN."""

    @rule
    def _times_are_possible(self) -> Faults:
        config = self._in_effect
        if config["timer_granularity"] < 10**6:
            yield refuse('must be at least "1 us"', "", "timer_granularity")
        for key in ("initial_rto", "min_rto"):
            if config[key] > config["max_rto"]:
                yield self._clash(key, "above", "max_rto", "below", config)
            if config[key] < config["timer_granularity"]:
                yield self._clash(key, "below", "timer_granularity", "above", config)

    @rule
    def _recovery_is_possible(self) -> Faults:
        config = self._in_effect
        if config["recovery"] == "sack" and config["reduction"] == "at-once":
            if self.reduction is None:
                yield refuse(
                    f"sack does not go with reduction at-once{self._origin('reduction')}",
                    "set reduction to rate-halving or prr",
                    "recovery",
                )
            else:
                yield refuse(
                    f"at-once goes with recovery tahoe, reno or new-reno, not sack"
                    f"{self._origin('recovery')}",
                    "use rate-halving or prr",
                    "reduction",
                )
        if config["recovery"] == "tahoe" and config["reduction"] != "at-once":
            yield refuse(
                f"tahoe does not go with reduction {config['reduction']}"
                f"{self._origin('reduction')}",
                "set reduction to at-once",
                "recovery" if self.recovery is not None else "reduction",
            )
        if self.recovery == "sack" and not config["sack"]:
            origin = (
                "" if self.sack is not None else f", which profile {self.profile} does not have"
            )
            yield refuse(f"sack needs sack = true{origin}", "set sack to true", "recovery")

    @rule
    def _buffer_holds_segments(self) -> Faults:
        config = self._in_effect
        if config["receive_buffer"] < 2 * config["mss"]:
            yield refuse(
                f"must hold two segments of {config['mss']} B{self._origin('mss')}",
                "raise it or lower mss",
                "receive_buffer",
            )

    @property
    def wants_ecn(self) -> bool:
        """Whether connections negotiate ECN."""
        return bool(self._in_effect["ecn"])

    @property
    def _in_effect(self) -> dict[str, Any]:
        """Its settings: a key may contradict the profile's value of a key that is not given."""
        return self.config(_core.tcp_profile)

    def _clash(self, key: str, how: str, other: str, inverse: str, config: dict[str, Any]) -> Fault:
        """Says that two durations contradict each other; the error is at the given one."""
        if getattr(self, key) is None:
            key, how, other = other, inverse, key
        bound = f'("{Duration(config[other])}"{self._origin(other)})'
        mend = "lower" if how == "above" else "raise"
        return refuse(f"is {how} {other} {bound}", f"{mend} it or change {other}", key)

    def _origin(self, key: str) -> str:
        """Words for a value that the profile gives."""
        return "" if getattr(self, key) is not None else f", as profile {self.profile} has it"

    def config(self, profile: Callable[[str], str], *, ecn: bool | None = None) -> dict[str, Any]:
        """The simulator's settings, in base units.

        Args:
            profile: Gives a profile's settings as JSON; `_core.tcp_profile`.
            ecn: Overrides the key `ecn`, from a group's `ecn_share`.
        """
        config: dict[str, Any] = json.loads(profile(self.profile))
        for key in type(self).model_fields.keys() - {"profile"}:
            value = getattr(self, key)
            if value is None:
                continue
            if isinstance(value, Delayed):
                value = {"delayed": value.delayed}
            elif value == "unbounded":
                value = None
            elif key == "ecn" and isinstance(value, str):
                value, config["ecn_control"] = True, value
            config[key] = value
        if ecn is not None:
            config["ecn"] = ecn
        return config

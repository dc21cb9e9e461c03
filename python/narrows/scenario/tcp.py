"""TCP settings: a named profile and what differs from it, by the simulator's field names."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict

from narrows import _core
from narrows.scenario import given
from narrows.scenario.amounts import Duration
from narrows.scenario.base import Table
from narrows.scenario.declared import TABLES, DeclaredTable, annotation
from narrows.scenario.quantities import Name, PositiveSpan, Switch, at_most, refuse
from narrows.scenario.rules import Fault, Faults, rule

PROFILES = tuple(_core.tcp_profiles())
"""The names of the profiles."""

_KEYS = {key["name"]: key for key in TABLES["Tcp"]["keys"]}

_ELSEWHERE = ("accurate_ecn", "ecn_control", "fast_open")
"""Settings that the language gives in other places: as words of `ecn`, and with DNS over TCP."""

_MOST_DELAY = int(_KEYS["acks"]["most"])


class Delayed(Table):
    """Delayed acknowledgements (RFC 1122, 4.2.3.2)."""

    delayed: Annotated[PositiveSpan, at_most(_MOST_DELAY, str(Duration(_MOST_DELAY)))]
    """Longest time that an acknowledgement waits for a second segment; at most 1 s."""


class OwnControl(Table):
    """A congestion control of your own, by its name; other keys are its settings."""

    model_config = ConfigDict(extra="allow")

    name: Name
    """What a plugin or `controls=` calls it."""

    @rule
    def _is_possible(self) -> Faults:
        yield from given.faults(self.model_extra)


CONTROLS: tuple[str, ...] = tuple(_KEYS["congestion"]["of"])
"""The congestion controls that the simulator has."""


def _not_misspelt(word: str) -> str:
    close = difflib.get_close_matches(word.lower(), CONTROLS, n=1, cutoff=0.8)
    if word not in CONTROLS and close:
        raise refuse(f'"{word}" is not known here', f'did you mean "{close[0]}"?')
    return word


_TYPES: dict[str, Any] = {
    "congestion": (
        Literal[CONTROLS] | Annotated[Name, AfterValidator(_not_misspelt)] | OwnControl,
        f"""{_KEYS["congestion"]["about"]} Another word names one of your own
(docs/extending.md), as `{{ name = "mine" }}` does, which also takes the settings of one in C.""",
    ),
    "acks": (Literal[tuple(_KEYS["acks"]["of"][0])] | Delayed, _KEYS["acks"]["about"]),
    "initial_ssthresh": (
        annotation(_KEYS["initial_ssthresh"]) | Literal["unbounded"],
        'Initial slow-start threshold in segments, or `"unbounded"`.',
    ),
    "ecn": (
        Switch | Literal[(*_KEYS["ecn_control"]["of"][1:], "accurate")],
        """Negotiates ECN, so that data are marked rather than dropped (RFC 3168). With
`"syn-ack"` the SYN-ACK may be marked too (RFC 5562), with `"plus-plus"` SYN, SYN-ACK,
FIN and retransmissions (ECN++). With `"accurate"` every segment says how many packets
and bytes were marked (RFC 9768). Not together with a traffic group's `ecn_share`.""",
    ),
}
"""Types and meanings of keys that take other values here than in Rust."""


def tcp_tables(scenario: Any, *places: str) -> Iterator[tuple[str, Tcp]]:
    """The TCP settings of a scenario's groups, each with its key. `places`: `traffic`, `dns`."""
    for place in places:
        for number, group in enumerate(getattr(scenario, place)):
            yield from _tables(group, f"{place}.{getattr(group, 'name', None) or number}")


def own_controls(scenario: Any) -> Iterator[tuple[str, str]]:
    """The congestion controls of the user's own that a scenario names, each with its key."""
    for key, tcp in tcp_tables(scenario, "traffic", "dns"):
        if own := tcp.own_control:
            yield f"{key}.congestion", own.name


def _tables(table: Any, key: str) -> Iterator[tuple[str, Tcp]]:
    if isinstance(table, Tcp):
        yield key, table
    elif isinstance(table, Table):
        for name in type(table).model_fields:
            yield from _tables(getattr(table, name), f"{key}.{name}")
    elif isinstance(table, list | tuple):
        for number, entry in enumerate(table):
            if not isinstance(entry, Table):
                break
            yield from _tables(entry, f"{key}[{number}]")


class Tcp(DeclaredTable, declares="Tcp", without=_ELSEWHERE, open=True, types=_TYPES):
    """TCP settings of both ends of a connection: a profile, and the keys that differ from it."""

    profile: Literal[PROFILES] = PROFILES[0]  # type: ignore[valid-type]
    """Where the settings come from: `linux-6` (Linux 6.1), `linux-7` (Linux 7.3: its receive
    window, held-back SACKs and repeated SYNs), `legacy` (`linux-6` with RACK and TLP off and an
    initial window of 3), `linux-2.6.30` (rate halving, initial window 3), `ns-2` (for comparisons
    with it). All other keys are the profile's unless given; the defaults below are those of
    `linux-6`."""

    @property
    def own_control(self) -> OwnControl | None:
        """The congestion control of the user's own, if it is none of the simulator's."""
        if isinstance(self.congestion, OwnControl):
            return self.congestion
        known = self.congestion is None or self.congestion in CONTROLS
        return None if known else OwnControl(name=self.congestion)

    @rule
    def _times_are_possible(self) -> Faults:
        config = self.in_effect
        for key in ("initial_rto", "min_rto"):
            if config[key] > config["max_rto"]:
                yield self._clash(key, "above", "max_rto", "below", config)
            if config[key] < config["timer_granularity"]:
                yield self._clash(key, "below", "timer_granularity", "above", config)

    @rule
    def _recovery_is_possible(self) -> Faults:
        config = self.in_effect
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
    def _pacing_is_possible(self) -> Faults:
        config = self.in_effect
        always = config["congestion"] in _core.tcp_paced_controls()
        paces = config["pacing"] or always or self.own_control is not None
        if paces and config["reduction"] != "prr":
            key = "pacing" if self.pacing else "congestion"
            yield refuse(
                f"a sender that paces needs reduction prr, not {config['reduction']}"
                f"{self._origin('reduction')}",
                "set reduction to prr, or use profile linux-6",
                key,
            )
        if config["segmentation_offload"] and not paces:
            yield refuse(
                "has no effect on a sender that does not pace",
                "set pacing to true, or congestion to bbr",
                "segmentation_offload",
            )

    @rule
    def _slow_start_is_possible(self) -> Faults:
        config = self.in_effect
        if config["slow_start"] != "standard" and config["congestion"] not in ("reno", "cubic"):
            yield refuse(
                f"{config['slow_start']} goes with congestion reno or cubic, not "
                f"{config['congestion']}{self._origin('congestion')}",
                "leave slow_start out, or use another congestion control",
                "slow_start",
            )

    @rule
    def _feedback_is_possible(self) -> Faults:
        config = self.in_effect
        if self.counts_marks and self.ecn is False:
            yield refuse(
                f"{self.congestion} always negotiates ECN",
                "leave ecn out, or use another congestion control",
                "ecn",
            )
        if self.congestion == "prague" and self.ecn == "syn-ack":
            yield refuse(
                "syn-ack does not go with congestion prague, which uses accurate ECN",
                "leave ecn out, or use plus-plus",
                "ecn",
            )
        if self.counts_marks and config["reduction"] == "at-once":
            yield refuse(
                f"{self.congestion} does not go with reduction at-once{self._origin('reduction')}",
                "set reduction to prr, or use profile linux-6",
                "congestion",
            )
        if config["accurate_ecn"] and config["reduction"] == "at-once":
            yield refuse(
                f"accurate does not go with reduction at-once{self._origin('reduction')}",
                "use ecn = true, or set reduction to prr",
                "ecn",
            )

    @rule
    def _buffer_holds_segments(self) -> Faults:
        config = self.in_effect
        if config["receive_buffer"] < 2 * config["mss"]:
            yield refuse(
                f"must hold two segments of {config['mss']} B{self._origin('mss')}",
                "raise it or lower mss",
                "receive_buffer",
            )

    @property
    def counts_marks(self) -> bool:
        """Whether the congestion control counts marks, and so always negotiates ECN."""
        return self.congestion in _core.tcp_marked_controls()

    @property
    def wants_ecn(self) -> bool:
        """Whether connections negotiate ECN."""
        return bool(self.in_effect["ecn"])

    @property
    def in_effect(self) -> dict[str, Any]:
        """Its settings: a key may contradict the profile's value of a key that is not given."""
        return self.config(_core.tcp_profile)

    def _clash(self, key: str, how: str, other: str, inverse: str, config: dict[str, Any]) -> Fault:
        """Says that two durations contradict each other; the error is at the given one."""
        if getattr(self, key) is None:
            key, how, other = other, inverse, key
        bound = f'("{Duration(config[other])}"{self._origin(other)})'
        change = "lower" if how == "above" else "raise"
        return refuse(f"is {how} {other} {bound}", f"{change} it or change {other}", key)

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
            elif key == "congestion" and (own := self.own_control):
                settings = given.settings(own.model_extra)
                value = {"custom": {"name": own.name, "settings": settings}}
            elif value == "unbounded":
                value = None
            elif key == "ecn" and value == "accurate":
                value, config["accurate_ecn"] = True, True
            elif key == "ecn" and isinstance(value, str):
                value, config["ecn_control"] = True, value
            config[key] = value
        if self.counts_marks:
            config["ecn"] = True
        elif ecn is not None:
            config["ecn"] = ecn
        return config

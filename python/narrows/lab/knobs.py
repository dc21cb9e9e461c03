"""What can be turned in a scenario: a knob has some settings, and each changes keys.

The knobs are those that people ask about first: the queue and its parameters, rate, delay, loss,
flows, congestion control, ECN, and how DNS asks. A scenario has those that fit its network and
traffic. Each number has a step of a tenth of a decade, so that all settings can be tried.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from narrows.scenario import DISCIPLINES, Bulk, Scenario, ScenarioError
from narrows.scenario.queues.kinds import Plugin

Changes = dict[str, Any]

_WIDE = (-10, -8, -6, -4, -2, 0, 2, 4, 6, 8, 10)
"""Tenths of a decade: from a tenth of the scenario's own value to ten times as much."""
_FEW = (-10, -7, -5, -3, 0, 2, 3)
_HALF = (-10, -7, -5, -3, -2, -1, 0, 1, 2, 3, 5)


@dataclass(frozen=True)
class Setting:
    """One position of a knob."""

    text: str
    """What the page shows."""
    changes: Changes
    """Values by dotted key; none in the scenario's own setting."""


@dataclass(frozen=True)
class Knob:
    """Something to turn."""

    name: str
    """A short word, for links to a state of the page."""
    label: str
    settings: tuple[Setting, ...]
    own: int
    """The setting that the scenario has."""
    slider: bool
    """Whether the settings are ordered numbers."""
    needs: tuple[str, int] | None = None
    """A knob and its setting without which this knob means nothing."""
    beside: tuple[str, ...] = ()
    """Knobs that are known to change the same places."""


def knobs(scenario: Scenario) -> list[Knob]:
    """The knobs of a scenario; the first ones change most of its plan."""
    found: list[Knob | None] = [_seed(scenario)]
    link, direction = _bottleneck(scenario)
    queue = _queues(scenario)
    found.append(queue)
    found += _traffic_choices(scenario)
    found += _dns_choices(scenario)
    place = f"links.{link.name}"
    rate = (
        f"{place}.{direction}.rate"
        if getattr(link, direction) and getattr(link, direction).rate is not None
        else f"{place}.rate"
    )
    traced = link.direction(direction).trace is not None
    if not traced:
        found.append(_number(scenario, "rate", "Bottleneck rate", rate, _HALF))
    if queue is not None:
        found += _queue_numbers(scenario, queue)
    found.append(_delay(scenario))
    found.append(_loss(scenario, place))
    found += _amounts(scenario)
    return [knob for knob in found if knob is not None and len(knob.settings) > 1]


def active(knobs: Sequence[Knob], number: int, settings: Sequence[int]) -> bool:
    """Whether a knob means something beside the other settings."""
    needs = knobs[number].needs
    if needs is None:
        return True
    other = next(at for at, knob in enumerate(knobs) if knob.name == needs[0])
    return settings[other] == needs[1]


def changes_of(knobs: Sequence[Knob], settings: Sequence[int]) -> Changes:
    """The keys that some settings change, in the order of the knobs."""
    changes: Changes = {}
    for number, at in enumerate(settings):
        if active(knobs, number, settings):
            changes |= knobs[number].settings[at].changes
    return changes


def watched(scenario: Scenario) -> Scenario:
    """The scenario with what the page draws: its bottleneck, and windows of its downloads.

    More samples change nothing else in a run.
    """
    link, direction = _bottleneck(scenario)
    name = f"{link.name}.{direction}"
    changes: Changes = {}
    for kind in ("queues", "links"):
        sampler = getattr(scenario.monitor, kind)
        if sampler is None or not sampler.links:
            changes[f"monitor.{kind}"] = {"links": [name], "rate": 10}
    bulk = [group.name for group in scenario.traffic if isinstance(group, Bulk)]
    if scenario.monitor.flows is None and bulk:
        changes["monitor.flows"] = {"groups": bulk, "rate": 2}
    return scenario.with_(changes)


def _seed(scenario: Scenario) -> Knob:
    settings = [Setting(str(scenario.seed), {})]
    settings += [
        Setting(str(seed), {"seed": seed}) for seed in range(1, 6) if seed != scenario.seed
    ][:4]
    return Knob("seed", "Seed", tuple(settings), 0, slider=False)


def _bottleneck(scenario: Scenario) -> tuple[Any, str]:
    """The link that is watched, or else the slowest one, and its direction."""
    watched = scenario.monitor.queues.links if scenario.monitor.queues else ()
    name, _, direction = (watched[0] if watched else "").partition(".")
    by_name = {link.name: link for link in scenario.links}
    if name in by_name:
        return by_name[name], direction if direction in ("forward", "backward") else "forward"
    slowest = min(scenario.links, key=lambda link: link.direction("forward").rate)
    return slowest, "forward"


def _choice(
    scenario: Scenario, name: str, label: str, own: str, others: Sequence[tuple[str, Changes]]
) -> Knob:
    """A knob of the settings that the language accepts."""
    settings = [Setting(own, {})]
    settings += [Setting(text, changes) for text, changes in others if _fits(scenario, changes)]
    return Knob(name, label, tuple(settings), 0, slider=False)


def _fits(scenario: Scenario, changes: Changes) -> bool:
    try:
        scenario.with_(changes)
    except ScenarioError:
        return False
    return True


def _queues(scenario: Scenario) -> Knob | None:
    link, direction = _bottleneck(scenario)
    given = link.direction(direction).keys["queue"]
    own = given.name if isinstance(given, Plugin) else given.kind
    try:
        scenario.with_({"queue": {"kind": "fq-codel"}})
    except ScenarioError:
        return None
    # 200 ms at the bottleneck's rate, as the documents' examples have.
    room = max(15_000, round(int(link.direction(direction).rate) / 8 * 0.2, -3))
    size = f"{room / 1000:.0f} kB"
    kinds: list[dict[str, Any]] = [
        {"kind": "pfifo", "limit": 100},
        {"kind": "bfifo", "limit": size},
        {"kind": "red", "limit": size, "avpkt": "1000 B", "probability": 0.1, "ecn": True},
        {"kind": "pie", "ecn": True},
        {"kind": "codel", "ecn": True},
        {"kind": "fq-codel"},
        {"kind": "dualpi2"},
        {"kind": "fq-pie", "ecn": True},
        {"kind": "cake"},
    ]
    others = [(kind["kind"], {"queue": kind}) for kind in kinds if kind["kind"] != own]
    return _choice(scenario, "queue", "Queue", own, others)


_QUEUE_NUMBERS: dict[str, Sequence[tuple[str, str, tuple[int, ...]]]] = {
    "pfifo": [("limit", "Buffer", _WIDE)],
    "bfifo": [("limit", "Buffer", _WIDE)],
    # The ranges of RED's thresholds do not meet, whatever the other is set to.
    "red": [
        ("min", "Lower threshold", tuple(range(-10, 2))),
        ("max", "Upper threshold", (-2, -1, 0, 1, 2)),
        ("probability", "Probability at the upper threshold", _HALF),
    ],
    "pie": [("target", "Target delay", _WIDE), ("limit", "Buffer", _WIDE)],
    "codel": [("target", "Target delay", _WIDE), ("interval", "Interval", (*range(-2, 11),))],
    "fq-codel": [
        ("target", "Target delay", _WIDE),
        ("interval", "Interval", (*range(-2, 11),)),
        ("flows", "Queues for flows", (-20, -15, -10, -5, 0, 6, 12, 18)),
    ],
    "dualpi2": [("target", "Target delay", _WIDE), ("step_thresh", "Marking threshold", _WIDE)],
    "fq-pie": [
        ("target", "Target delay", _WIDE),
        ("flows", "Queues for flows", (-20, -15, -10, -5, 0, 6, 12, 18)),
    ],
    "cake": [("rtt", "Round-trip time of the settings", _WIDE)],
    "blue": [("limit", "Buffer", _WIDE)],
    "prio": [],
}
_SWITCH = "ecn"


def _queue_numbers(scenario: Scenario, queue: Knob) -> Iterator[Knob | None]:
    for position, setting in enumerate(queue.settings):
        of_kind = scenario.with_(setting.changes) if setting.changes else scenario
        link, direction = _bottleneck(of_kind)
        given = link.direction(direction).keys["queue"]
        if isinstance(given, Plugin):
            for key in given.model_extra or ():
                place = ("queue", position)
                label = f"{key} of {given.name}"
                yield _number(of_kind, f"own-{key}", label, f"queue.{key}", _WIDE, needs=place)
            continue
        kind = setting.text
        for key, label, steps in _QUEUE_NUMBERS.get(kind, ()):
            name = f"{kind}-{key}"
            yield _number(of_kind, name, label, f"queue.{key}", steps, needs=("queue", position))
        if _SWITCH in DISCIPLINES[kind].model_fields:
            marks = bool(own_value(of_kind, f"queue.{_SWITCH}"))
            settings = [
                Setting(text, {} if value == marks else {f"queue.{_SWITCH}": value})
                for text, value in (("drops", False), ("marks ECN packets", True))
            ]
            own = int(marks)
            yield Knob(
                f"{kind}-ecn",
                "What it does early",
                tuple(settings),
                own,
                False,
                ("queue", position),
            )


def _delay(scenario: Scenario) -> Knob | None:
    longest = max(scenario.links, key=lambda link: link.direction("forward").keys["delay"])
    key = f"links.{longest.name}.delay"
    return _number(scenario, "delay", f"Delay of link {longest.name}", key, _WIDE)


def _loss(scenario: Scenario, place: str) -> Knob | None:
    key = f"{place}.loss"
    own = own_value(scenario, key) or 0.0
    if not isinstance(own, float):
        return None
    values = sorted({own, 0.0, 0.001, 0.003, 0.01, 0.03, 0.1})
    settings = [Setting(f"{v * 100:g} %", {} if v == own else {key: v}) for v in values]
    if not all(_fits(scenario, setting.changes) for setting in settings):
        return None
    return Knob("loss", "Random loss", tuple(settings), values.index(own), slider=True)


def _traffic_choices(scenario: Scenario) -> Iterator[Knob | None]:
    bulk = [group for group in scenario.traffic if isinstance(group, Bulk)]
    for group in bulk[:2]:
        place = f"traffic.{group.name}"
        mine = group.tcp.own_control
        own = mine.name if mine else group.tcp.congestion or "cubic"
        others = [
            (name, {f"{place}.tcp.congestion": name})
            for name in ("reno", "cubic", "bbr", "bbr-v3")
            if name != own
        ]
        yield _choice(
            scenario, f"control-{group.name}", f"Congestion control of {group.name}", own, others
        )
        for key in (mine.model_extra or ()) if mine else ():
            own_number = f"{place}.tcp.congestion.{key}"
            needs = (f"control-{group.name}", 0)
            name = f"control-{group.name}-{key}"
            yield _number(scenario, name, f"{key} of {own}", own_number, _FEW, needs=needs)
        if response := group.tcp.ecn_response:
            other = "abe" if response == "as-loss" else "as-loss"
            label = f"How {group.name} slows down for a mark"
            changes = [(other, {f"{place}.tcp.ecn_response": other})]
            knob = _choice(scenario, f"marks-{group.name}", label, response, changes)
            yield replace(knob, beside=(f"control-{group.name}",))
        share = f"{place}.ecn_share"
        if group is bulk[0] and _fits(scenario, {share: 1.0}):
            given = float(own_value(scenario, share) or 0.0)
            shares = sorted({given, 0.0, 0.5, 1.0})
            settings = [Setting(f"{v * 100:g} %", {} if v == given else {share: v}) for v in shares]
            knob = Knob("ecn", f"ECN at {group.name}", tuple(settings), shares.index(given), True)
            yield replace(knob, beside=(f"control-{group.name}",))


def _dns_choices(scenario: Scenario) -> Iterator[Knob | None]:
    if len(scenario.dns) != 1:
        return
    (group,) = scenario.dns
    place, own = f"dns.{group.name}", group.transport.kind
    kinds = [kind for kind in ("udp", "tcp", "tls", "https", "quic", "http3") if kind != own]
    yield _choice(
        scenario,
        "transport",
        "DNS transport",
        own,
        [(kind, {f"{place}.transport": kind}) for kind in kinds],
    )
    if own == "udp":
        retry = getattr(group.transport, "retry", None)
        known = retry if isinstance(retry, str) else "the example's"
        others = [
            (name, {f"{place}.transport.retry": name})
            for name in ("windows", "windows-10", "glibc", "unbound")
            if name != retry
        ]
        choice = _choice(scenario, "retry", "Retry schedule", known, others)
        yield replace(choice, needs=("transport", 0))


def _amounts(scenario: Scenario) -> Iterator[Knob | None]:
    """How many do it, or how often."""
    amounts = {
        "bulk": ("connections", "Connections of {}"),
        "on-off": ("connections", "Connections of {}"),
        "page": ("browsers", "Browsers of {}"),
        "voip": ("calls", "Calls of {}"),
        "trace": ("streams", "Streams of {}"),
        "flood": ("per_second", "Packets per second of {}"),
        "udp": ("rate", "Rate of {}"),
        "incast": ("block", "Block of {}"),
        "transfer": ("zone", "Zone of {}"),
    }
    for group in scenario.traffic[:3]:
        kind = str(getattr(group, "kind", ""))
        if kind in amounts:
            key, label = amounts[kind]
            name, place = f"amount-{group.name}", f"traffic.{group.name}.{key}"
            knob = _number(scenario, name, label.format(group.name), place, _FEW)
            if knob and isinstance(group, Bulk):
                # Each connection has settings of TCP.
                knob = replace(knob, beside=(f"control-{group.name}", "ecn"))
            yield knob
    if scenario.dns:
        group = scenario.dns[0]
        yield _number(
            scenario, "workers", f"Workers of {group.name}", f"dns.{group.name}.workers", _HALF
        )
        yield _number(
            scenario,
            "think",
            f"Pause between queries of {group.name}",
            f"dns.{group.name}.think_mean",
            _HALF,
        )


def own_value(scenario: Scenario, key: str) -> Any:
    """The value of a dotted key, with defaults; None if it has none."""
    values: Any = scenario.resolved()
    parts = key.split(".")
    if parts[0] == "queue":
        link, direction = _bottleneck(scenario)
        return link.direction(direction).keys["queue"].model_dump(mode="json").get(parts[1])
    for part in parts:
        if isinstance(values, list):
            values = next((each for each in values if each.get("name") == part), None)
        elif isinstance(values, dict):
            values = values.get(part)
        if values is None:
            return None
    return values


def _number(
    scenario: Scenario,
    name: str,
    label: str,
    key: str,
    steps: Sequence[int],
    *,
    needs: tuple[str, int] | None = None,
) -> Knob | None:
    """A slider around the scenario's own value; None if the key has no number above zero."""
    own = own_value(scenario, key)
    written = _written(own)
    if written is None:
        return None
    number, say = written
    settings: dict[str, Setting] = {}
    for step in steps:
        value = say(number * 10 ** (step / 10))
        if step == 0:
            settings[str(own)] = Setting(str(own), {})
        elif str(value) not in settings:
            changes = {key: value}
            if value != own and _fits(scenario, changes):
                settings[str(value)] = Setting(str(value), changes)
    found = tuple(settings.values())
    place = next(at for at, setting in enumerate(found) if not setting.changes)
    return Knob(name, label, found, place, slider=True, needs=needs)


def _written(own: Any) -> tuple[float, Callable[[float], Any]] | None:
    """A number, and what writes others as it is written, with two digits."""
    if isinstance(own, bool) or own is None:
        return None
    if isinstance(own, int):
        return (own, lambda value: max(1, round(_two_digits(value)))) if own > 0 else None
    if isinstance(own, float):
        return (own, _two_digits) if own > 0 else None
    match = re.fullmatch(r"([0-9.]+) ([A-Za-z/]+)", str(own))
    if match is None or float(match[1]) == 0:
        return None
    unit = match[2]
    whole = unit == "B"
    return float(
        match[1]
    ), lambda value: f"{round(_two_digits(value)) if whole else _two_digits(value):g} {unit}"


def _two_digits(value: float) -> float:
    return float(f"{value:.2g}")

"""The scenes: one or more for each section of RFC 7928 that asks for a test.

All stand on the RFC's dumbbell (3.1): senders at the left, receivers at the right, and a
bottleneck of 10 Mbit/s between two routers, whose queue is under test. Every other queue is long
enough never to drop. Rates are of IP packets.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from narrows.suites.contenders import BDP_PACKETS
from narrows.suites.parts import Scene

RATE = "10 Mbit/s"
RTT_MS = 100.0
WARM_UP_S = 10.0
LENGTH_S = 60.0
PHASE_S = 20.0

LEVELS = {"mild": 0.001, "medium": 0.005, "heavy": 0.01}
"""The congestion levels of section 8.2, as loss rates."""

OTHER_RTTS_MS = (5, 20, 50, 200, 560)
"""Section 6.2: the other flow's round trip, from 5 to 560 ms."""

_LONG = {"kind": "pfifo", "limit": 100_000}
Table = dict[str, Any]


def connections(loss: float) -> int:
    """The connections that would lose this share of packets at a full link without a queue.

    Source: R. Morris, "Scalable TCP congestion control", 2000: a Reno connection with a window of w
    packets loses 0.76 / w^2 of them.

    >>> [connections(loss) for loss in LEVELS.values()]
    [3, 7, 10]
    """
    return round(BDP_PACKETS * math.sqrt(loss / 0.76))


class Maker:
    """Makes scenes whose times are all scaled by one factor."""

    def __init__(self, scale: float) -> None:
        self.scale = scale

    def s(self, seconds: float) -> str:
        """A scaled time."""
        return f"{max(1, round(1e3 * seconds * self.scale))} ms"

    def dumbbell(
        self,
        key: str,
        traffic: Sequence[Table],
        *,
        rtts_ms: Mapping[str, float] | None = None,
        length_s: float = LENGTH_S,
        from_s: float = WARM_UP_S,
        more: Mapping[str, Any] | None = None,
    ) -> Scene:
        """A scene with one bottleneck; each name NAME has hosts `NAME-a` and `NAME-b`."""
        rtts = {each["name"]: RTT_MS for each in traffic} | dict(rtts_ms or {})
        links = [_bottleneck("bottleneck", "R1", "R2")]
        for name, rtt in rtts.items():
            links += [_access(f"{name}-a", "R1", rtt / 4), _access(f"{name}-b", "R2", rtt / 4)]
        return Scene(key, self.scenario(key, links, traffic, length_s, from_s, more or {}))

    def scenario(
        self,
        key: str,
        links: Sequence[Table],
        traffic: Sequence[Table],
        length_s: float,
        from_s: float,
        more: Mapping[str, Any],
    ) -> Table:
        """A scenario that samples all bottlenecks."""
        slow = [f"{link['name']}.*" for link in links if "forward" in link]
        long = [each["name"] for each in traffic if each["kind"] == "bulk"]
        return {
            "name": f"rfc7928-{key.replace('.', '-')}",
            "duration": self.s(length_s),
            "links": list(links),
            "traffic": list(traffic),
            "measure": {"from": self.s(from_s), "to": self.s(length_s)},
            "monitor": {
                "queues": {"links": slow, "rate": 10.0},
                "links": {"links": slow, "rate": 10.0},
                "queue_delays": slow,
                **({"flows": {"groups": long, "rate": 10.0}} if long else {}),
            },
            **more,
        }

    def bulk(self, name: str, count: int = 1, *, start_s: float = 0.0, **tcp: Any) -> Table:
        """Long connections that begin within a second."""
        return {
            **_ends("bulk", name),
            "connections": count,
            "start": self.s(start_s),
            "spread": self.s(1.0),
            "stagger": "random",
            "tcp": {"congestion": "reno", **tcp},
        }


def _ends(kind: str, name: str) -> Table:
    return {"kind": kind, "name": name, "sender": f"{name}-a", "receiver": f"{name}-b"}


def _bottleneck(name: str, left: str, right: str) -> Table:
    directions = {"forward": {"queue": _LONG}, "backward": {"queue": _LONG}}
    return {"name": name, "between": [left, right], "rate": RATE, "delay": "0 s", **directions}


def _access(host: str, router: str, delay_ms: float) -> Table:
    return {
        "name": host,
        "between": [host, router],
        "rate": "1 Gbit/s",
        "delay": f"{round(1e3 * delay_ms)} us",
        "queue": _LONG,
    }


def scenes(scale: float = 1.0, *, ecn: bool = False) -> list[Scene]:
    """All scenes, with times scaled by a factor; whether all TCP senders negotiate ECN."""
    make = Maker(scale)
    made = [*_senders(make), *_round_trips(make), *_bursts(make), *_levels(make), *_mixes(make)]
    if ecn:
        for scene in made:
            for group in scene.scenario["traffic"]:
                if group["kind"] in ("bulk", "once", "page"):
                    group["tcp"] = {**group.get("tcp", {}), "ecn": True}
    return made


def cost_scene(scale: float = 1.0) -> Scene:
    """Datagrams of 20 Poisson streams, which take 98 % of 100 Mbit/s: the same for every queue."""
    make = Maker(scale)
    streams = {**_udp("load", "4900 kbit/s", spacing="poisson"), "streams": 20}
    scene = make.dumbbell("11", [streams], length_s=20.0, from_s=0.0)
    scene.scenario["links"][0]["rate"] = "100 Mbit/s"
    return scene


def _senders(make: Maker) -> list[Scene]:
    short = {"size": "100 kB", "connections": 40, "stagger": "even"}
    times = {"start": make.s(WARM_UP_S), "spread": make.s(0.7 * LENGTH_S)}
    small, large = (
        {**_ends("once", f"iw{window}"), **short, **times, "tcp": tcp}
        for window, tcp in (
            (3, {"congestion": "reno", "initial_window": 3}),
            (10, {"congestion": "reno", "initial_window": 10}),
        )
    )
    return [
        make.dumbbell("5.1.1", [make.bulk("friendly", 4)]),
        make.dumbbell("5.1.2", [make.bulk("friendly"), small, large]),
        make.dumbbell("5.2", [make.bulk("friendly"), make.bulk("aggressive", congestion="bbr")]),
        make.dumbbell("5.3-alone", [_udp("stream", "12 Mbit/s")]),
        make.dumbbell("5.3-beside", [make.bulk("friendly"), _udp("stream", "5 Mbit/s")]),
    ]


def _udp(name: str, rate: str, **more: Any) -> Table:
    return {**_ends("udp", name), "rate": rate, "packet": "1500 B", **more}


def _round_trips(make: Maker) -> list[Scene]:
    return [
        make.dumbbell(
            f"6-{other}",
            [make.bulk("fixed"), make.bulk("other")],
            rtts_ms={"other": float(other)},
            length_s=2 * LENGTH_S,
            from_s=2 * WARM_UP_S,
        )
        for other in OTHER_RTTS_MS
    ]


def _bursts(make: Maker) -> list[Scene]:
    page = {
        "kind": "page",
        "name": "web",
        "client": "web-b",
        "server": "web-a",
        "browsers": 2,
        "loads": 1000,
        "start": make.s(0.2 * WARM_UP_S),
        "spread": make.s(1.0),
        "pause": "1 s",
        # The document, and two rounds of what it names: 380 kB.
        "objects": [
            {"name": "html", "size": "30 kB"},
            {"name": "style", "size": "30 kB", "number": 3, "after": ["html"]},
            {"name": "image", "size": "20 kB", "number": 13, "after": ["style"]},
        ],
        "tcp": {"initial_window": 10},
    }
    # 25 frames a second of 10 kB, each sent at 40 Mbit/s: 2 Mbit/s.
    video = _udp("video", "40 Mbit/s", on="2 ms", off="38 ms")
    return [
        make.dumbbell("7.2", [make.bulk("bulk"), page, video, _udp("cbr", "1 Mbit/s")]),
        make.dumbbell(
            "9.1",
            [
                make.bulk("bulk", 2, congestion="cubic"),
                page,
                {**_ends("voip", "calls"), "calls": 4, "start": make.s(WARM_UP_S)},
                video,
            ],
        ),
    ]


def _levels(make: Maker) -> list[Scene]:
    few, some, many = (connections(loss) for loss in LEVELS.values())
    phases = [
        make.bulk("mild", few),
        make.bulk("medium", some - few, start_s=PHASE_S),
        make.bulk("heavy", many - some, start_s=2 * PHASE_S),
    ]
    return [
        *(
            make.dumbbell(f"8.2.{number}", [make.bulk(name, connections(loss))])
            for number, (name, loss) in enumerate(LEVELS.items(), start=2)
        ),
        make.dumbbell("8.2.5", phases, length_s=3 * PHASE_S, from_s=0.0),
        make.dumbbell(
            "8.2.6-slow",
            [make.bulk("flows", 2)],
            length_s=4 * PHASE_S,
            from_s=0.0,
            more={"changes": _changes(make, PHASE_S, 4 * PHASE_S)},
        ),
        make.dumbbell(
            "8.2.6-fast", [make.bulk("flows", 2)], more={"changes": _changes(make, 0.1, LENGTH_S)}
        ),
    ]


def _changes(make: Maker, every_s: float, until_s: float) -> list[Table]:
    """Ten and one Mbit/s in turns."""
    count = math.ceil(until_s / every_s)
    rates = ("10 Mbit/s", "1 Mbit/s")
    # Quick changes stay quick in short runs.
    scaled = Maker(1.0) if every_s < 1.0 else make
    last = math.floor(until_s * make.scale / every_s) if every_s < 1.0 else count
    return [
        {"at": scaled.s(every_s * n), "link": "bottleneck.forward", "rate": rates[n % 2]}
        for n in range(1, last)
    ]


def _mixes(make: Maker) -> list[Scene]:
    there = make.bulk("there", 2, congestion="cubic")
    back = make.bulk("back", 2, congestion="cubic")
    back["sender"], back["receiver"] = back["receiver"], back["sender"]
    both = make.dumbbell("9.2", [there, back])
    links = [
        _bottleneck("bottleneck", "R1", "R2"),
        _bottleneck("second", "R2", "R3"),
        *(_access(f"{name}-a", at, RTT_MS / 4) for name, at in _LEFT.items()),
        *(_access(f"{name}-b", at, RTT_MS / 4) for name, at in _RIGHT.items()),
    ]
    flows = [make.bulk(name) for name in _LEFT]
    two = make.scenario("10", links, flows, LENGTH_S, WARM_UP_S, {})
    return [
        Scene(both.key, both.scenario, tuple(_key("bottleneck", each) for each in _DIRECTIONS)),
        Scene("10", two, tuple(_key(link, "forward") for link in ("bottleneck", "second"))),
    ]


_DIRECTIONS = ("forward", "backward")
_LEFT = {"whole": "R1", "first": "R1", "last": "R2"}
_RIGHT = {"whole": "R3", "first": "R2", "last": "R3"}


def _key(link: str, direction: str) -> str:
    return f"links.{link}.{direction}.queue"

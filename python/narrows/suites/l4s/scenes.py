"""Scenes of L4S coexistence, as DualPI2's authors and Heist and Morton measured them.

Sources: De Schepper, Albisser, Tilmans, Briscoe, "Dual Queue Coupled AQM", arXiv 2209.01078, with
the `info` files of its data (github.com/olgaalb/dualpi2eval); Heist and Morton,
github.com/heistp/l4s-tests (2021) and github.com/heistp/ccafct. `narrows reproduce L4S` compares
narrows with their numbers; here, any queue and control takes their places. Differences: runs last
160 s, of which the first 40 s do not count, and not 260 s or 180 s; Prague scales with the round
trip in all of them; and short flows have ten sizes.

    NAME-host -1 Gbit/s, half of the RTT- R1 =(bottleneck)= R2 -1 Gbit/s- receiver
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

from narrows.errors import argument
from narrows.scenario.suggestions import suggestion
from narrows.scenario.tcp import CONTROLS
from narrows.suites.contenders import SuiteError
from narrows.suites.parts import Scene

PAIRS = ((5, 5), (20, 20), (100, 100), (5, 100), (100, 5))
"""Round trips of the L4S and the classic connection in ms, of the authors' mixed round trips."""
ALONE = (5, 100)
SAME = (10, 160)
"""Two connections of the same control with these round trips in ms: Heist and Morton's worst."""
OVERLOADS = (50, 100)
"""Rates of the stream that does not react, in Mbit/s of 100."""
WARM_UP_S = 40.0
"""Alone over 100 ms, Prague takes half a minute to fill the line."""
LENGTH_S = 160.0
SHORT_BYTES, SHORT_SIGMA, SHORT_SIZES = 645_683, 1.06, 10
"""Mean of the sizes of short flows, the deviation of their logarithm (5 % are below 65536 B, 5 %
above 2097152 B), and how many sizes stand for them here."""
_LONG = {"kind": "pfifo", "limit": 40_000}
# As a qdisc counts Ethernet.
_FRAMING = {"overhead": "14 B", "min": "60 B", "queue_overhead": "14 B"}
Table = dict[str, Any]


@dataclass(frozen=True)
class Controls:
    """The controls that share the line.

    Raises:
        SuiteError: There is no such control.
    """

    l4s: str = "prague"
    """The scalable one, whose packets are ECN-capable."""
    classic: str = "cubic"
    """The one without ECN."""
    outside: frozenset[str] = frozenset()
    """The names of controls from outside, which are known, too."""

    def __post_init__(self) -> None:
        known = [*CONTROLS, *sorted(self.outside)]
        named = {self.l4s: argument("control"), self.classic: argument("classic")}
        for value, what in named.items():
            if value not in known:
                hint = suggestion(value, known) or f"one of {', '.join(known)}"
                raise SuiteError(f"{what} {value}", "is no congestion control", hint)

    def tcp(self, which: str) -> Table:
        """The settings of TCP of the `l4s` or the `classic` group."""
        name = self.l4s if which == "l4s" else self.classic
        settings: Table = {"congestion": name, "segmentation_offload": True}
        if name not in ("bbr", "bbr-v3"):
            settings["pacing"] = True
        # Prague and DCTCP ask for ECN of their own accord.
        if which == "l4s" and name not in ("prague", "dctcp"):
            settings["ecn"] = True
        return settings


class _Maker:
    def __init__(self, of: Controls, scale: float) -> None:
        self.of = of
        self.scale = scale

    def s(self, seconds: float) -> str:
        return f"{max(1, round(1e3 * seconds * self.scale))} ms"

    def scene(
        self,
        key: str,
        rate: str,
        groups: Sequence[Table],
        rtts_ms: Mapping[str, float],
    ) -> Scene:
        links: list[Table] = [
            {
                "name": "bottleneck",
                "between": ["R1", "R2"],
                "rate": rate,
                "delay": "0 s",
                "framing": _FRAMING,
                "forward": {"queue": _LONG},
                "backward": {"queue": _LONG},
            },
            {"name": "receiver", "between": ["R2", "receiver"], "rate": "1 Gbit/s", "queue": _LONG},
        ]
        links += [
            {
                "name": name,
                "between": [f"{name}-host", "R1"],
                "rate": "1 Gbit/s",
                "delay": f"{round(500 * rtt)} us",
                "queue": _LONG,
            }
            for name, rtt in rtts_ms.items()
            if any(group["sender"] == f"{name}-host" for group in groups)
        ]
        return Scene(
            key,
            {
                "name": f"l4s-{key}",
                "duration": self.s(LENGTH_S),
                "links": links,
                "traffic": list(groups),
                "measure": {"from": self.s(WARM_UP_S), "to": self.s(LENGTH_S)},
                "monitor": {
                    "links": {"links": ["bottleneck.forward"], "rate": 10.0},
                    "queue_delays": ["bottleneck.forward"],
                },
            },
        )

    def bulk(self, name: str, which: str, count: int = 1) -> Table:
        return {
            **_ends("bulk", name),
            "connections": count,
            "spread": self.s(1.0),
            "stagger": "random",
            "tcp": self.of.tcp(which),
        }


def _ends(kind: str, name: str) -> Table:
    return {"kind": kind, "name": name, "sender": f"{name}-host", "receiver": "receiver"}


def scenes(of: Controls, scale: float = 1.0) -> list[Scene]:
    """All scenes, with times scaled by a factor."""
    make = _Maker(of, scale)
    return [
        *(
            make.scene(
                f"mixed-{l4s}-{classic}",
                "40 Mbit/s",
                [make.bulk("l4s", "l4s"), make.bulk("classic", "classic")],
                {"l4s": l4s, "classic": classic},
            )
            for l4s, classic in PAIRS
        ),
        *(
            make.scene(f"alone-{rtt}", "40 Mbit/s", [make.bulk("l4s", "l4s")], {"l4s": rtt})
            for rtt in ALONE
        ),
        make.scene(
            "same",
            "50 Mbit/s",
            [make.bulk("near", "l4s"), make.bulk("far", "l4s")],
            dict(zip(("near", "far"), SAME, strict=True)),
        ),
        *(_overload(make, rate) for rate in OVERLOADS),
        *(_short(make, which) for which in ("none", "classic", "l4s")),
    ]


def _overload(make: _Maker, rate: int) -> Scene:
    stream = {
        **_ends("udp", "stream"),
        # 1470 bytes of payload in a packet.
        "rate": f"{rate * 1498 / 1470:.2f} Mbit/s",
        "packet": "1498 B",
        "ecn": "ect1",
    }
    groups = [make.bulk("l4s", "l4s", 5), make.bulk("classic", "classic", 5), stream]
    return make.scene(
        f"overload-{rate}", "100 Mbit/s", groups, dict.fromkeys(("l4s", "classic", "stream"), 10.0)
    )


def sizes() -> list[int]:
    """The sizes of short flows in bytes: the medians of ten equal parts of a lognormal.

    >>> sizes()[0], sizes()[-1]
    (64400, 2105000)
    """
    middle = SHORT_BYTES / math.exp(SHORT_SIGMA**2 / 2.0)
    parts = ((n + 0.5) / SHORT_SIZES for n in range(SHORT_SIZES))
    deviations = (NormalDist().inv_cdf(part) for part in parts)
    return [100 * round(middle * math.exp(SHORT_SIGMA * each) / 100.0) for each in deviations]


def _short(make: _Maker, beside: str) -> Scene:
    """Short classic flows, five a second, beside one long connection or none."""
    count = max(1, round(5.0 * LENGTH_S * make.scale / SHORT_SIZES))
    groups = [
        {
            **_ends("once", "short"),
            "name": f"short-{n}",
            "connections": count,
            "size": f"{size} B",
            "spread": make.s(LENGTH_S),
            "stagger": "random",
            "tcp": make.of.tcp("classic"),
        }
        for n, size in enumerate(sizes())
    ]
    groups += [] if beside == "none" else [make.bulk("long", beside)]
    return make.scene(f"short-{beside}", "50 Mbit/s", groups, {"short": 20.0, "long": 20.0})

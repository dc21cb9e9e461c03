"""Flent's tests as scenarios: rrul, rrul_be, tcp_nup, tcp_ndown, voip.

Source: Flent 2.3, `flent/tests/NAME.conf`. Probes run for the whole test; the load begins 5 s later
and ends 5 s earlier (`DELAY_S`). Connections are CUBIC's, the default of Linux. Differences:

- Flent's UDP probes by netperf are sent as soon as the answer to the one before arrives; those by
  irtt, which it prefers, at its step of 0.2 s, as here.
- Flent's VoIP stream is D-ITG's: G.711 with two samples in a packet, 50 packets of 200 bytes a
  second, one way.

    client -1 Gbit/s- R1 =(up, down)= R2 -1 Gbit/s, half of the RTT- server
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from narrows.errors import argument
from narrows.flent.names import DELAY_S, TEST
from narrows.scenario.amounts import DataRate, Duration
from narrows.suites.contenders import SuiteError
from narrows.suites.parts import Scene

STREAMS = 4
"""Connections of `tcp_nup` and `tcp_ndown`; Flent's own default is the number of processors."""
TESTS = ("rrul", "rrul_be", "tcp_nup", "tcp_ndown", "voip")
MARKS = {"be": "CS0", "bk": "CS1", "cs5": "CS5", "ef": "EF"}
"""rrul's code points, by the names of its series."""
_LONG = {"kind": "pfifo", "limit": 100_000}
PLACES = ("links.bottleneck.forward.queue", "links.bottleneck.backward.queue")
Table = dict[str, Any]


@dataclass(frozen=True)
class Line:
    """The line whose queues are under test.

    Raises:
        SuiteError: A text is no rate or no time, or the load is too short or too long.

    >>> Line(rtt="20 ms").rtt_ms, Line(length="1 min").length_s
    (20.0, 60.0)
    """

    up: str = "20 Mbit/s"
    down: str = "20 Mbit/s"
    rtt: str = "50 ms"
    """The round trip of the empty line."""
    length: str = "60 s"
    """How long the load lasts, one second to an hour."""

    def __post_init__(self) -> None:
        for what, text, kind, usual in (
            (argument("up"), self.up, DataRate, Line.up),
            (argument("down"), self.down, DataRate, Line.down),
            (argument("rtt"), self.rtt, Duration, Line.rtt),
            (argument("length"), self.length, Duration, Line.length),
        ):
            try:
                kind(text)
            except ValueError as error:
                raise SuiteError(f"{what} {text}", str(error), f"such as {usual}") from None
        if not 1.0 <= self.length_s <= 3600.0:
            what = f"{argument('length')} {self.length}"
            raise SuiteError(what, "is not within 1 s and 1 h", Line.length)

    @property
    def rtt_ms(self) -> float:
        """The round trip in ms."""
        return 1e3 * Duration(self.rtt).s

    @property
    def length_s(self) -> float:
        """The load's length in seconds."""
        return Duration(self.length).s


def scenes(tests: Sequence[str], line: Line) -> list[Scene]:
    """The scenes of some tests."""
    return [Scene(test, _scenario(test, line), PLACES) for test in tests]


def _scenario(test: str, line: Line) -> Table:
    traffic = {
        "rrul": _rrul,
        "rrul_be": _best_effort,
        "tcp_nup": lambda line: [*_numbered("up", line), _ping("icmp")],
        "tcp_ndown": lambda line: [*_numbered("down", line), _ping("icmp")],
        "voip": _voip,
    }[test](line)
    end = line.length_s + 2.0 * DELAY_S
    return {
        "name": f"{TEST}{test}",
        "duration": _s(end),
        "links": [
            {
                "name": "bottleneck",
                "between": ["R1", "R2"],
                "delay": "0 s",
                "forward": {"rate": line.up, "queue": _LONG},
                "backward": {"rate": line.down, "queue": _LONG},
            },
            {"name": "home", "between": ["client", "R1"], "rate": "1 Gbit/s", "queue": _LONG},
            {
                "name": "far",
                "between": ["R2", "server"],
                "rate": "1 Gbit/s",
                "delay": f"{round(1e3 * line.rtt_ms / 2)} us",
                "queue": _LONG,
            },
        ],
        "traffic": traffic,
        "monitor": {
            "queues": {"links": ["bottleneck.*"], "rate": 10.0},
            "links": {"links": ["bottleneck.*"], "rate": 10.0},
            "queue_delays": ["bottleneck.*"],
            # A value each 0.2 s, as Flent has.
            "goodput": {"rate": 5.0},
        },
        "measure": {"from": _s(DELAY_S), "to": _s(end - DELAY_S)},
    }


def _s(seconds: float) -> str:
    return f"{round(1e3 * seconds)} ms"


def _tcp(direction: str, rest: str, line: Line, dscp: str = "CS0") -> Table:
    ends = ("client", "server") if direction == "up" else ("server", "client")
    return {
        "kind": "bulk",
        "name": f"{direction}-{rest}",
        "sender": ends[0],
        "receiver": ends[1],
        # The client opens all connections.
        "opener": "sender" if direction == "up" else "receiver",
        "start": _s(DELAY_S),
        "stop": _s(DELAY_S + line.length_s),
        "spread": "100 ms",
        "stagger": "random",
        "dscp": dscp,
        "tcp": {"congestion": "cubic"},
    }


def _ping(name: str, dscp: str = "CS0") -> Table:
    return {
        "kind": "ping",
        "name": name,
        "sender": "client",
        "receiver": "server",
        "interval": "200 ms",
        "spread": "200 ms",
        "stagger": "random",
        "packet": "84 B" if name == "icmp" else "60 B",
        "dscp": dscp,
    }


def _rrul(line: Line) -> list[Table]:
    tcp = [_tcp(each, rest, line, dscp) for each in ("up", "down") for rest, dscp in MARKS.items()]
    return [
        *tcp,
        *(_ping(f"udp-{rest}", MARKS[rest]) for rest in ("ef", "bk", "be")),
        _ping("icmp"),
    ]


def _best_effort(line: Line) -> list[Table]:
    names = ("be", "be2", "be3", "be4")
    tcp = [_tcp(direction, rest, line) for direction in ("up", "down") for rest in names]
    return [*tcp, *(_ping(f"udp-be{n}") for n in (1, 2, 3)), _ping("icmp")]


def _numbered(direction: str, line: Line) -> list[Table]:
    return [_tcp(direction, str(n), line) for n in range(1, STREAMS + 1)]


def _voip(line: Line) -> list[Table]:
    return [
        {
            "kind": "udp",
            "name": "voip",
            "sender": "client",
            "receiver": "server",
            "rate": "80 kbit/s",
            "packet": "200 B",
            "period": "200 ms",
            "stop": _s(line.length_s + 2.0 * DELAY_S),
        }
    ]

"""The order of measurements: each round has all rates, and each rate all arms, in a new order.

Arms that are compared are measured one after the other. A slow minute of the machine then affects
all arms of a rate alike, and their ratios within a round remain right.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from .beds import Arm

PAPER_RATES = tuple(float(rate) for rate in range(50, 501, 50))
"""Hayes, Rossi, Armitage 2010, VI: 50 queries a second up to 500, in steps of 50."""

PAPER_ARMS = ("udp", "tcp", "gateway", "gateway-axfr")
"""The four curves of its Figures 4 to 6."""

CONNECTING = ("tcp", "gateway", "gateway-axfr", "xdp-tcp")
"""Arms whose highest rate of connections is searched for."""


@dataclass(frozen=True)
class Part:
    """Arms and rates that are measured in the same way."""

    name: str
    arms: tuple[Arm, ...]
    rates: tuple[float, ...]
    rounds: int
    seconds: float
    flood: bool = False
    """Whether connections come from a generator without sockets."""
    at_highest: tuple[Arm, ...] = ()
    """Further arms, which are measured at the highest rate only."""

    @property
    def length_s(self) -> float:
        """Load that it makes, in seconds."""
        intervals = sum(len(self.arms_at(rate)) for rate in self.rates)
        return intervals * self.rounds * self.seconds

    def arms_at(self, rate: float) -> tuple[Arm, ...]:
        """The arms that are compared at a rate."""
        return self.arms + (self.at_highest if rate == max(self.rates) else ())


@dataclass(frozen=True)
class Interval:
    """One interval of load."""

    arm: Arm
    rate: float
    round: int
    seconds: float
    seed: int
    flood: bool


@dataclass(frozen=True)
class Round:
    """A round of a part: measurements that are compared with each other, and therefore adjacent."""

    part: Part
    number: int
    intervals: tuple[Interval, ...]

    @property
    def length_s(self) -> float:
        """Load that it makes, in seconds."""
        return sum(interval.seconds for interval in self.intervals)


@dataclass(frozen=True)
class Form:
    """The rates, rounds and times of a bench."""

    name: str
    rates: tuple[float, ...]
    """Rates for BIND, the paper's server."""
    rounds: int
    seconds: float
    fast: tuple[float, ...]
    """Rates for all servers, far beyond the paper's."""
    fast_rounds: int
    fast_seconds: float
    saturating: tuple[float, ...]
    saturating_rounds: int
    idle: int
    """Connections that are opened to see what they cost."""
    looks: int
    """How often memory, open connections and the gateway's behaviour are measured."""


_FLOODS = (20_000.0, 40_000.0, 60_000.0)

FULL = Form("full", PAPER_RATES, 20, 10.0, (500.0, 5000.0), 10, 3.0, _FLOODS, 5, 5000, 3)
QUICK = Form("quick", (100.0, 500.0), 3, 1.5, (500.0, 5000.0), 2, 1.0, (50_000.0,), 1, 1000, 2)


def parts(form: Form, arms: Sequence[Arm]) -> list[Part]:
    """The parts that a form measures of these arms."""
    paper = tuple(arm for arm in arms if arm.server == "bind" and arm.transport in PAPER_ARMS)
    # These are compared with the paper's arms, and therefore measured next to them.
    beside = tuple(arm for arm in arms if paper and arm.server == "bind" and arm not in paper)
    others = tuple(arm for arm in arms if arm not in paper + beside)
    connecting = tuple(arm for arm in arms if arm.transport in CONNECTING)
    slow = tuple(rate for rate in form.fast if rate in form.rates)
    fast = tuple(rate for rate in form.fast if rate not in form.rates)
    # The longest part is last, so that a bench with too small a budget has the others complete.
    found = [
        Part("the paper's highest rate", others, slow, form.fast_rounds, form.fast_seconds),
        Part("beyond", tuple(arms), fast, form.fast_rounds, form.fast_seconds),
        Part(
            "saturation",
            connecting,
            form.saturating,
            form.saturating_rounds,
            form.fast_seconds,
            True,
        ),
        Part("the paper's rates", paper, form.rates, form.rounds, form.seconds, at_highest=beside),
    ]
    return [part for part in found if part.length_s > 0]


def intervals(part: Part, seed: int) -> list[Interval]:
    """A part's intervals in the order in which they are measured."""
    order = random.Random(f"{seed} {part.name}")
    found = []
    for number in range(1, part.rounds + 1):
        turn = [
            (arm, rate)
            for rate in order.sample(part.rates, len(part.rates))
            for arm in order.sample(part.arms_at(rate), len(part.arms_at(rate)))
        ]
        # Arms of a round and rate get the same arrivals.
        found += [
            Interval(arm, rate, number, part.seconds, seed * 1000 + number, part.flood)
            for arm, rate in turn
        ]
    return found


def rounds(part: Part, seed: int) -> list[Round]:
    """A part's intervals by round, in the order in which they are measured."""
    found = intervals(part, seed)
    return [
        Round(part, number, tuple(i for i in found if i.round == number))
        for number in range(1, part.rounds + 1)
    ]

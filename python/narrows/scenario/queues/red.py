"""RED as in the Linux kernel."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import Field, model_validator

from narrows.scenario.base import Table
from narrows.scenario.quantities import PositiveBytes, Probability, Rate, refuse

__all__ = ["Red"]


class Red(Table):
    """RED as in the Linux kernel, with the parameters of tc-red(8)."""

    kind: Literal["red"] = "red"
    """Which discipline this is."""
    limit: PositiveBytes
    """Hard limit of the real queue; what comes beyond it is dropped."""
    min: PositiveBytes | None = None
    """Average backlog at which marking or dropping starts; a third of `max` by default."""
    max: PositiveBytes | None = None
    """Average backlog from which every packet is marked or dropped; a quarter of `limit` by
    default."""
    avpkt: PositiveBytes = 1000
    """Average packet size, for `burst` and for the decay of the average in idle times."""
    burst: Annotated[int, Field(strict=True, ge=1, le=2**31 - 1)] | None = None
    """Packets that may come in a burst before the average follows: sets its weight. By default
    (2 `min` + `max`) / (3 `avpkt`), as tc has it."""
    probability: Annotated[Probability, Field(gt=0.0)] = 0.02
    """Probability of marking or dropping when the average reaches `max`."""
    bandwidth: Rate | None = None
    """Rate by which the average decays while the queue is idle; the link's by default (where
    tc takes 10 Mbit/s)."""
    ecn: bool = Field(default=False, strict=True)
    """Marks packets of ECN-capable transports where it would drop them early."""
    harddrop: bool = Field(default=False, strict=True)
    """Above `max`, drops what it could mark."""
    nodrop: bool = Field(default=False, strict=True)
    """Of packets that cannot be marked, lets those pass that it would drop early; needs `ecn`."""
    adaptive: bool = Field(default=False, strict=True)
    """Adapts `probability` to keep the average half-way between `min` and `max`."""

    @property
    def upper(self) -> int:
        """`max` in effect, in bytes."""
        return self.limit // 4 if self.max is None else self.max

    @property
    def lower(self) -> int:
        """`min` in effect, in bytes."""
        return self.upper // 3 if self.min is None else self.min

    @property
    def packets(self) -> int:
        """`burst` in effect, in packets."""
        if self.burst is not None:
            return self.burst
        return (2 * self.lower + self.upper) // (3 * self.avpkt)

    @model_validator(mode="after")
    def _is_possible(self) -> Red:
        lower, upper, burst = self.lower, self.upper, self.packets
        if lower >= upper:
            origin = "" if self.max is not None else ", which is a quarter of limit"
            raise refuse(
                f'"{lower} B" is not below max ("{upper} B"{origin})',
                "tc-red(8) advises a max of at least twice min",
                "min" if self.min is not None else "max",
            )
        if lower == 0:
            raise refuse(
                "is too small for a min of its own", "raise it or give min and max", "limit"
            )
        if burst * self.avpkt < lower:
            raise refuse(
                f"{burst} is below min / avpkt, which no weight of the average gives",
                f"at least {math.ceil(lower / self.avpkt)}",
                "burst",
            )
        log = _weight_log(lower, burst, self.avpkt)
        if log is None:
            raise refuse(
                f"{burst} is more than any weight of the average gives",
                f'raise min above avpkt ("{self.avpkt} B") or lower burst',
                "burst" if self.burst is not None else "min",
            )
        # The kernel's red_check_params: the threshold, shifted by the weight, fits in 32 bits.
        for key, value in (("min", lower), ("max", upper)):
            if value.bit_length() + log >= 32:
                raise refuse(
                    f'"{value} B" is too large for the weight that burst {burst} asks for',
                    "lower it or burst",
                    key if getattr(self, key) is not None else "limit",
                )
        # iproute2's tc_red_eval_P.
        if self.probability / (upper - lower) * 2.0**31 <= 1.0:
            raise refuse(
                "is too small for the distance of min and max",
                "raise it or bring min and max together",
                "probability",
            )
        if self.nodrop and not self.ecn:
            raise refuse("needs ecn = true", "set ecn, or leave nodrop out", "nodrop")
        return self

    def decays_at(self, bits_per_second: int) -> bool:
        """Whether the average can decay at a rate: iproute2's tc_red_eval_idle_damping."""
        log = _weight_log(self.lower, self.packets, self.avpkt)
        bytes_per_second = bits_per_second // 8
        if log is None or bytes_per_second == 0:
            return False
        transmission_ticks = math.floor(1e6 * (self.avpkt / bytes_per_second) * _TICKS_PER_US)
        longest = 31.0 * transmission_ticks / -math.log(1.0 - 2.0**-log)
        return longest / 2.0**31 < 512.0


def _weight_log(lower: int, burst: int, avpkt: int) -> int | None:
    """The weight of RED's average as a power of 1/2: iproute2's tc_red_eval_ewma."""
    wanted = burst + 1 - lower / avpkt
    for log in range(1, 32):
        weight = 2.0**-log
        if 1.0 <= wanted <= (1.0 - (1.0 - weight) ** burst) / weight:
            return log
    return None


# tc's unit of time is a tick of 64 ns.
_TICKS_PER_US = 15.625

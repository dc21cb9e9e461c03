"""Quantities as values: whole base units that show as the text that a file would have.

Durations count picoseconds, rates bits a second, sizes bytes. A quantity is an int, so that plans
and sums take it as it is; it shows with its unit, and its attributes give it in other units.
"""

from __future__ import annotations

import operator
from abc import ABCMeta, abstractmethod
from typing import ClassVar, Self

from narrows import _core

__all__ = ["DataRate", "DataSize", "Duration", "Quantity"]


class Quantity(int, metaclass=ABCMeta):
    """A whole number of base units, zero or more, made from them or from text with a unit."""

    __slots__ = ()

    def __new__(cls, value: int | str) -> Self:
        """From base units, or from text.

        Raises:
            ValueError: The text is no such quantity, or the number is negative.
            TypeError: The number is not whole, or the class is `Quantity` itself.
        """
        if cls is Quantity:
            raise TypeError("a quantity has a unit; hint: Duration, DataRate or DataSize")
        count = cls._parsed(value) if isinstance(value, str) else operator.index(value)
        if count < 0:
            raise ValueError(f"a {cls.__name__} is not negative: {count}")
        return super().__new__(cls, count)

    def __repr__(self) -> str:
        return repr(str(self))

    @classmethod
    @abstractmethod
    def _parsed(cls, text: str) -> int:
        """The number of base units that a text says."""


class Duration(Quantity):
    """A duration, in picoseconds.

    Examples:
        >>> delay = Duration("1500 ms")
        >>> delay, delay.s, delay.ms, int(delay)
        ('1.5 s', 1.5, 1500.0, 1500000000000)
    """

    __slots__ = ()

    _UNITS: ClassVar = [("s", 10**12), ("ms", 10**9), ("us", 10**6), ("ns", 10**3), ("ps", 1)]

    def __str__(self) -> str:
        return _in_largest_unit(int(self), self._UNITS) if self else "0 s"

    @property
    def s(self) -> float:
        """In seconds."""
        return self / 1e12

    @property
    def ms(self) -> float:
        """In milliseconds."""
        return self / 1e9

    @property
    def us(self) -> float:
        """In microseconds."""
        return self / 1e6

    @classmethod
    def _parsed(cls, text: str) -> int:
        return _core.parse_span(text)


class DataRate(Quantity):
    """A rate above zero, in bits a second.

    Examples:
        >>> rate = DataRate("1544 kbit/s")
        >>> rate, rate.mbit_per_s, int(rate)
        ('1.544 Mbit/s', 1.544, 1544000)
    """

    __slots__ = ()

    _UNITS: ClassVar = [("Gbit/s", 10**9), ("Mbit/s", 10**6), ("kbit/s", 10**3), ("bit/s", 1)]

    def __str__(self) -> str:
        return _in_largest_unit(int(self), self._UNITS) if self else "0 bit/s"

    @property
    def bit_per_s(self) -> int:
        """In bits a second."""
        return int(self)

    @property
    def mbit_per_s(self) -> float:
        """In millions of bits a second."""
        return self / 1e6

    @classmethod
    def _parsed(cls, text: str) -> int:
        return _core.parse_rate(text)


class DataSize(Quantity):
    """A size, in bytes.

    Examples:
        >>> limit = DataSize("375 kB")
        >>> limit, limit.bytes, limit.kb
        ('375000 B', 375000, 375.0)
    """

    __slots__ = ()

    def __str__(self) -> str:
        return f"{int(self)} B"

    @property
    def bytes(self) -> int:
        """In bytes."""
        return int(self)

    @property
    def kb(self) -> float:
        """In thousands of bytes."""
        return self / 1e3

    @classmethod
    def _parsed(cls, text: str) -> int:
        return _core.parse_bytes(text)


def _in_largest_unit(value: int, units: list[tuple[str, int]]) -> str:
    unit, scale = next(entry for entry in units if value >= entry[1])
    whole, rest = divmod(value, scale)
    if not rest:
        return f"{whole} {unit}"
    decimals = len(str(scale)) - 1
    return f"{whole}.{rest:0{decimals}d}".rstrip("0") + f" {unit}"

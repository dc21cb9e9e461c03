"""Quantities as values: whole base units that print as text, in the form that files use.

Durations count picoseconds, rates bits per second, sizes bytes. A quantity is an int, so plans and
sums can use it directly. Its text is exact. A duration or a rate uses the largest unit that it
reaches, a size the largest in which it is whole. Its attributes give it in other units.
"""

from __future__ import annotations

import operator
from abc import ABCMeta, abstractmethod
from typing import Self

from narrows import _core

SECOND = 10**12
"""A second in picoseconds, as plans and `Duration` count."""

MILLISECOND = 10**9
"""A millisecond in picoseconds."""


_MOST = 2**64 - 1
"""The largest number that a plan can hold."""


class Quantity(int, metaclass=ABCMeta):
    """A whole number of base units, zero or more, made from them or from text with a unit."""

    __slots__ = ()

    def __new__(cls, value: int | str) -> Self:
        """Makes a quantity from base units or from text.

        Raises:
            ValueError: The text is not such a quantity, or the number is negative or above
                2^64 - 1.
            TypeError: The number is not whole, or the class is `Quantity` itself.
        """
        if cls is Quantity:
            raise TypeError("a quantity has a unit; hint: Duration, DataRate or DataSize")
        count = cls._parsed(value) if isinstance(value, str) else operator.index(value)
        if count < 0:
            raise ValueError(f"a {cls.__name__} is not negative: {count}")
        if count > _MOST:
            raise ValueError(f"a {cls.__name__} has at most 64 bits: {count}")
        return super().__new__(cls, count)

    def __repr__(self) -> str:
        return repr(str(self))

    @classmethod
    @abstractmethod
    def _parsed(cls, text: str) -> int:
        """The number of base units in a text."""


class Duration(Quantity):
    """A duration, in picoseconds.

    Examples:
        >>> delay = Duration("1500 ms")
        >>> delay, delay.s, delay.ms, int(delay)
        ('1.5 s', 1.5, 1500.0, 1500000000000)
    """

    __slots__ = ()

    def __str__(self) -> str:
        return _core.format_span(self)

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

    def __str__(self) -> str:
        return _core.format_rate(self) if self else "0 bit/s"

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
        ('375 kB', 375000, 375.0)
    """

    __slots__ = ()

    def __str__(self) -> str:
        return _core.format_bytes(self)

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

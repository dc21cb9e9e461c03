"""The units of axes, as their labels and ticks name them."""

from __future__ import annotations

import re

from matplotlib.ticker import Formatter


class Milliseconds(Formatter):
    """Labels times in milliseconds, each with its unit."""

    def __call__(self, x: float, pos: object = None) -> str:
        """A time in words.

        Examples:
            >>> Milliseconds()(250.0), Milliseconds()(1500.0)
            ('250 ms', '1.5 s')
        """
        return f"{x / 1e3:g} s" if x >= 1e3 else f"{x:g} ms"


def unit_of(label: str) -> str:
    """The unit in parentheses at the end of a label; empty without one.

    Examples:
        >>> unit_of("backlog (kB)"), unit_of("score (1 bad, 4.4 good)"), unit_of("attempt")
        ('kB', '', '')
    """
    found = re.search(r"\(([^\s()]+)\)$", label)
    return found[1] if found else ""

"""The units of axes, as their labels and ticks name them."""

from __future__ import annotations

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

"""Ware et al. 2019: BBR's share against CUBIC and Reno, by the length of the buffer."""

from narrows.reproduce.ware_2019.paper import PAPER

__all__ = ["PAPER"]

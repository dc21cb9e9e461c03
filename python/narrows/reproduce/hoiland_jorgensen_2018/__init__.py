"""Hoiland-Jorgensen, Taht, Morton 2018: CAKE's tins, isolation and ACK filter."""

from narrows.reproduce.hoiland_jorgensen_2018.paper import PAPER

__all__ = ["PAPER"]

"""Dana, Malekloo 2010: performance comparison between active and passive queue management."""

from narrows.reproduce.dana_2010.paper import PAPER

__all__ = ["PAPER"]

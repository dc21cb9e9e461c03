"""Wijnen 2012: response times of the root servers over TCP and UDP, seen from RIPE Atlas."""

from narrows.reproduce.wijnen_2012.paper import PAPER

__all__ = ["PAPER"]

"""Harhalakis, Samaras, Vitsas 2011: the effects of AQM and ECN on DNS traffic."""

from narrows.reproduce.harhalakis_2011.paper import PAPER

__all__ = ["PAPER"]

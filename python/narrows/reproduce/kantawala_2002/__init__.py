"""Kantawala, Turner 2002: queue management for short-lived TCP flows in backbone routers."""

from narrows.reproduce.kantawala_2002.paper import PAPER

__all__ = ["PAPER"]

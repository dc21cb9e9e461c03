"""The study's two networks: its own, and paper H's test bed."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from narrows.scenario.reading import read

NETWORK = Path(__file__).parent / "network.toml"
"""The file of the study's network: a line of 10 Mbit/s, the clients behind it, and the resolver."""

TESTBED = Path(__file__).parents[2] / "reproduce/harhalakis_2011/scenarios/testbed.toml"
"""The reproduction's file for paper H's test bed, with the card's ring and `dns_exempt`."""


@cache
def network() -> dict[str, Any]:
    """The study's own network, as read from TOML."""
    return read(NETWORK)


@cache
def testbed() -> dict[str, Any]:
    """Paper H's test bed, as read from TOML."""
    return read(TESTBED)

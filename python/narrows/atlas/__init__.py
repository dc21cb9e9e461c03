"""RIPE Atlas: results of its probes as a measurement, and how to download them."""

from __future__ import annotations

from narrows.atlas.builtins import ROOT_SERVERS, RootServer, download_commands
from narrows.atlas.errors import AtlasError
from narrows.atlas.probes import read_probes
from narrows.atlas.reading import read_atlas

__all__ = [
    "ROOT_SERVERS",
    "AtlasError",
    "RootServer",
    "download_commands",
    "read_atlas",
    "read_probes",
]

"""A testbed for DNS servers on one machine: two network namespaces, and a path with set delays.

A real server, or one that behaves like old servers, stands at one end. A probe and other clients
stand at the other. It needs root, /dev/net/tun and iproute2; `missing` says which of these are
missing. docs/probe.md has an example.
"""

from __future__ import annotations

from narrows.testbed.bed import SERVER, Bed, Link, bed
from narrows.testbed.crowd import Crowd, crowd
from narrows.testbed.needs import BedError, missing
from narrows.testbed.old_server import OldServer
from narrows.testbed.requests import Requests, counted
from narrows.testbed.servers import SERVERS, emulated, real

__all__ = [
    "SERVER",
    "SERVERS",
    "Bed",
    "BedError",
    "Crowd",
    "Link",
    "OldServer",
    "Requests",
    "bed",
    "counted",
    "crowd",
    "emulated",
    "missing",
    "real",
]

"""A laboratory for DNS servers on one machine: two network namespaces, and a path with set delays.

A real server, or one that behaves like old servers, stands at one end. A probe and other clients
stand at the other. It needs root, /dev/net/tun and iproute2; `missing` says which of these are
missing. docs/probe.md has an example.
"""

from __future__ import annotations

from narrows.lab.bed import SERVER, Bed, Link, bed
from narrows.lab.crowd import Crowd, crowd
from narrows.lab.needs import LabError, missing
from narrows.lab.old_server import OldServer
from narrows.lab.requests import Requests, counted
from narrows.lab.servers import SERVERS, emulated, real

__all__ = [
    "SERVER",
    "SERVERS",
    "Bed",
    "Crowd",
    "LabError",
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

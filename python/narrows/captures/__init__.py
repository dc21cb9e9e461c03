"""Packet captures and dnstap: DNS exchanges and connections as a measurement."""

from __future__ import annotations

from narrows.captures.reading import CaptureError, read_captures

__all__ = ["CaptureError", "read_captures"]

"""Packet captures and dnstap: DNS exchanges and connections as a measurement."""

from __future__ import annotations

from narrows.captures.notes import notes
from narrows.captures.overview import say_overview
from narrows.captures.reading import CaptureError, read_captures

__all__ = ["CaptureError", "notes", "read_captures", "say_overview"]

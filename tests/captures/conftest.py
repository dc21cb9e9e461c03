"""What the tests of captures share."""

from __future__ import annotations

from tests.shared_data import not_collected

collect_ignore = not_collected("pcap", "test_public_captures.py")

"""What the tests of Atlas results share."""

from __future__ import annotations

from tests.shared_data import not_collected

collect_ignore = not_collected("atlas", "test_public_sets.py")

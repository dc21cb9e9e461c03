"""What the tests of ratios share."""

from __future__ import annotations

from pathlib import Path

import pytest

from narrows.atlas import read_atlas
from narrows.results import Measurement
from tests.shared_data import ROOT, not_collected

collect_ignore = not_collected("atlas", "test_public_sets.py")

SAMPLES = ROOT / "samples" / "atlas"


@pytest.fixture(scope="session")
def samples() -> dict[str, Measurement]:
    """The sample's three measurements."""
    names = {"before": "3.2.13-10-slots", "after": "3.2.13-100-slots", "fixed": "3.2.14"}
    return {
        label: read_atlas([SAMPLES / f"nsd-{name}.jsonl.gz"], probes=SAMPLES / "probes.json")
        for label, name in names.items()
    }


def saved(measurements: dict[str, Measurement], folder: Path) -> dict[str, Path]:
    """Run folders of measurements."""
    return {name: part.save(folder / name).folder or folder for name, part in measurements.items()}

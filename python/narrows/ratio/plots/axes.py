"""What plots of the ratio have in common."""

from __future__ import annotations

from narrows.records.plotted import Axis
from narrows.report.drawing import Level

TRIPS = (Level("x", 2.0, "", dash=True), Level("x", 3.0, "", dash=True))
"""Two and three round trips."""


def ratio_axis(top: float) -> Axis:
    """The ratio, up to `top`."""
    return Axis("TCP response time / UDP response time", ends=(0.0, top))

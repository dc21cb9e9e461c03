"""Moments that figures over time have in common."""

from __future__ import annotations

from matplotlib.axes import Axes

from narrows.report.style import MUTED

__all__ = ["mark_dns"]


def mark_dns(axes: Axes, start_s: float | None) -> None:
    """A vertical line where the first DNS query was sent, named at its top."""
    if start_s is None:
        return
    low, high = axes.get_xlim()
    if not low < start_s < high:
        return
    axes.axvline(start_s, color=MUTED, linewidth=1.0, zorder=2.5)
    axes.annotate(
        "DNS starts",
        (start_s, 1.0),
        xycoords=("data", "axes fraction"),
        xytext=(4, -2),
        textcoords="offset points",
        va="top",
        ha="left",
        fontsize=9,
        color=MUTED,
    )

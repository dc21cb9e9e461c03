"""Compares TCP with UDP: ratios of response times, their peaks, and the reasons."""

from __future__ import annotations

from narrows.ratio.analysis import Group, RatioAnalysis, RatioError, analyse
from narrows.ratio.pairs import PAPER, Pairs, Rules, pair_up

__all__ = ["PAPER", "Group", "Pairs", "RatioAnalysis", "RatioError", "Rules", "analyse", "pair_up"]

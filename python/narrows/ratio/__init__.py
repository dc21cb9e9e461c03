"""TCP against UDP: ratios of response times, where they gather, and why."""

from __future__ import annotations

from narrows.ratio.analysis import Group, RatioAnalysis, RatioError, analyse
from narrows.ratio.pairs import PAPER, Pairs, Rules, pair_up

__all__ = ["PAPER", "Group", "Pairs", "RatioAnalysis", "RatioError", "Rules", "analyse", "pair_up"]

"""L4S and classic TCP in DualPI2, PIE and FQ-CoDel: De Schepper et al. 2022; Heist, Morton 2021."""

from narrows.reproduce.l4s_2022.paper import PAPER

__all__ = ["PAPER"]

"""The simulator against a kernel on scenarios that are drawn at random.

`draws` says from what, `compare` what counts as agreement, `conduct` runs both, `figures` draws.
"""

from narrows.agreement.compare import METRICS, Comparison, Metric
from narrows.agreement.conduct import Agreement, conduct
from narrows.agreement.draws import drawn, set_of

__all__ = ["METRICS", "Agreement", "Comparison", "Metric", "conduct", "drawn", "set_of"]

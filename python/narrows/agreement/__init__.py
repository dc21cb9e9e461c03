"""Compares the simulator with a kernel on randomly drawn scenarios.

`draws` defines the distribution of scenarios, `compare` defines agreement, `conduct` runs both,
`saved` saves the kernel's runs, `output` reports the results, and `plots` draws them.
"""

from narrows.agreement.compare import METRICS, RESPONSE, Comparison, Metric
from narrows.agreement.conduct import Agreement, conduct
from narrows.agreement.draws import drawn, set_of

__all__ = ["METRICS", "RESPONSE", "Agreement", "Comparison", "Metric", "conduct", "drawn", "set_of"]

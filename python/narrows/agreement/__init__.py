"""Compares the simulator with a kernel on randomly drawn scenarios.

`draws`, `modern` and `home` are distributions of scenarios, `dumbbell` is their network, and
`distributions` names them. `compare` defines agreement, `conduct` runs both, `saved` saves the
kernel's runs, `output` reports the results, and `plots` draws them.
"""

from narrows.agreement.compare import METRICS, RESPONSE, Comparison, Metric
from narrows.agreement.conduct import Agreement, conduct
from narrows.agreement.distributions import CLASSIC, DISTRIBUTIONS, HOME, MODERN, Distribution
from narrows.agreement.draws import drawn, set_of

__all__ = [
    "CLASSIC",
    "DISTRIBUTIONS",
    "HOME",
    "METRICS",
    "MODERN",
    "RESPONSE",
    "Agreement",
    "Comparison",
    "Distribution",
    "Metric",
    "conduct",
    "drawn",
    "set_of",
]

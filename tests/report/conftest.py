"""Lets the tests of reports use the synthetic run of the tests of results."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "results"))

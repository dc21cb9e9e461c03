"""What ns-2 and ns-3 get of a scenario: numbers in their units, whatever text narrows shows."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
try:
    import b1_scenario
finally:
    sys.path.pop(0)

WORDS = {"discipline", "red_gentle", "red_wait"}
"""Parameters that are no numbers."""


@pytest.mark.parametrize("discipline", b1_scenario.DISCIPLINES)
def test_parameters_are_numbers_in_the_units_of_their_names(discipline: str) -> None:
    found = b1_scenario.parameters(20.0)[discipline]
    numbers = {key: float(value) for key, value in found["ns-3"].items() if key not in WORDS}
    # b1/b1.toml: 500 sources on links of 100 Mbit/s and 5 ms, before 500 Mbit/s and 40 ms.
    assert numbers["sources"] == 500
    assert numbers["access_bps"] == 100e6
    assert numbers["bottleneck_bps"] == 500e6
    assert numbers["sender_delay_s"] == numbers["receiver_delay_s"] == 0.005
    assert numbers["bottleneck_delay_s"] == 0.04
    assert numbers["seconds"] == 20.0
    words = found["ns-2"]
    of_ns2 = dict(zip(words[::2], words[1::2], strict=True))
    assert of_ns2.items() >= found["ns-3"].items()
    assert [float(start) for start in of_ns2["starts_s"].split()] == [0.0] * 500

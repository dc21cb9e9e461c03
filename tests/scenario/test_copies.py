"""`count` and `{i}`: copies of links and pairs."""

from __future__ import annotations

from pathlib import Path

import pytest

from narrows import Scenario, ScenarioError

B1 = Path(__file__).parents[2] / "benchmarks" / "b1" / "b1.toml"

FAN = """
name = "fan"
duration = "1 s"
[[links]]
name = "access{i}"
between = ["src{i}", "R1"]
count = 3
rate = "1 Mbit/s"
[[links]]
name = "wan"
between = ["R1", "sink"]
rate = "1 Mbit/s"
[[traffic]]
kind = "bulk"
name = "data"
pairs = [["src{i}", "sink"]]
count = 3
"""


def test_copies_stand_in_the_place_of_their_table() -> None:
    scenario = Scenario.parse(FAN)
    assert [link.name for link in scenario.links] == ["access0", "access1", "access2", "wan"]
    assert scenario.links[2].between == ("src2", "R1")
    assert scenario.traffic[0].pairs == (("src0", "sink"), ("src1", "sink"), ("src2", "sink"))


def test_the_resolved_scenario_reads_back_as_the_same() -> None:
    scenario = Scenario.parse(FAN)
    assert Scenario.from_dict(scenario.resolved()) == scenario


def test_overrides_come_before_copies() -> None:
    scenario = Scenario.parse(FAN, set={"links[0].rate": "7 Mbit/s"})
    assert [link.rate for link in scenario.links] == [7_000_000, 7_000_000, 7_000_000, 1_000_000]


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ("count = 3\nrate", "count = 0\nrate", "links[0].count"),
        ("count = 3\nrate", "count = true\nrate", "links[0].count"),
        ("count = 3\nrate", "count = 1000000000000\nrate", "links[0].count"),
        ("access{i}", "access", "links[0].name"),
        ("pairs =", "sender =", "traffic[0].count"),
        ("\ncount = 3\nrate", "\nrate", "links[0].name"),
    ],
)
def test_counts_that_cannot_be_meant_are_refused(old: str, new: str, key: str) -> None:
    assert old in FAN
    with pytest.raises(ScenarioError) as caught:
        Scenario.parse(FAN.replace(old, new))
    assert caught.value.key == key


def test_the_benchmark_has_a_thousand_access_links() -> None:
    scenario = Scenario.load(B1)
    assert len(scenario.links) == 1001
    assert scenario.traffic[0].total == 500

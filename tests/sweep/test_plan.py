"""Every combination is checked before anything runs."""

from __future__ import annotations

import time
from typing import Any

import pytest

from narrows import Scenario, ScenarioError, sweep
from narrows.sweeps import SweepError, axes_of
from narrows.sweeps.plan import make_plan


def test_runs_are_known_by_scenario_and_seed(small: dict[str, Any]) -> None:
    axes = axes_of({"links.bottleneck.delay": ["10 ms", "0.02 s"]})
    plan = make_plan(small, "small", axes, (1, 2))
    again = make_plan(small, "small", axes[::-1], (2, 1))
    runs = {item.run for item in plan.items()}
    assert len(runs) == 4
    assert runs == {item.run for item in again.items()}
    # How a value is written does not matter.
    same = make_plan(small, "small", axes_of({"links[0].delay": ["20 ms"]}), (1,))
    assert {item.run for item in same.items()} < runs
    # An interrupted sweep has some seeds of each combination.
    assert [item.seed for item in plan.items()] == [1, 1, 2, 2]


def test_a_key_that_does_not_exist_is_named_with_the_nearest(small: dict[str, Any]) -> None:
    with pytest.raises(
        ScenarioError, match=r'is not a known key.*hint: did you mean "limit"'
    ) as found:
        sweep(small, vary={"queue.limt": [1, 2]})
    assert "\n" not in str(found.value)
    with pytest.raises(ScenarioError, match="has no entry"):
        sweep(small, vary={"links[5].rate": ["1 Mbit/s"]})


def test_the_combination_that_is_not_possible_is_named(small: dict[str, Any]) -> None:
    small["links"][0]["queue"] = {
        "kind": "red", "limit": "100 kB", "min": "10 kB", "max": "30 kB", "avpkt": "1 kB",
        "burst": 50,
    }  # fmt: skip
    vary = {"queue.min": ["10 kB", "40 kB"], "queue.max": ["60 kB", "30 kB"]}
    with pytest.raises(ScenarioError, match=r"with queue\.min=40 kB, queue\.max=30 kB"):
        sweep(small, vary=vary)


def errors_of(scenario: dict[str, Any], **arguments: Any) -> list[str]:
    with pytest.raises(ScenarioError) as caught:
        sweep(scenario, **arguments)
    errors = (caught.value, *caught.value.others)
    return [f"{error.key}: {error.message}" for error in errors]


def test_every_error_of_the_values_is_named_once(small: dict[str, Any]) -> None:
    small["links"][0]["lss"] = 0.1
    vary = {"queue.limit": ["100 kB", "0 B"], "traffic.burst": ["1 kB", "2 s"]}
    assert errors_of(small, vary=vary, set={"duration": "5"}, seeds=3) == [
        "links[0].lss: is not a known key",
        "duration: is a number without a unit",
        "queue.limit: must be above zero (with queue.limit=0 B, traffic.burst=1 kB)",
        'traffic.burst: "2 s" has the unknown unit "s"; use one of B, kB, MB, GB, KiB, MiB, GiB '
        "(with queue.limit=100 kB, traffic.burst=2 s)",
    ]


def test_every_error_of_the_combinations_is_named_once(small: dict[str, Any]) -> None:
    small["links"][0]["queue"] = {
        "kind": "red", "limit": "100 kB", "min": "10 kB", "max": "60 kB", "avpkt": "1 kB",
        "burst": 50,
    }  # fmt: skip
    vary = {
        "queue.min": ["10 kB", "40 kB", "50 kB"],
        "queue.max": ["60 kB", "30 kB"],
        "traffic.start": ["0 s", "0.1 s"],
    }
    # Each value alone is possible. The other start changes nothing about the errors.
    assert errors_of(small, vary=vary) == [
        'queue.min: "40 kB" is not below max ("30 kB") '
        "(with queue.min=40 kB, queue.max=30 kB, traffic.start=0 s)",
        'queue.min: "50 kB" is not below max ("30 kB") '
        "(with queue.min=50 kB, queue.max=30 kB, traffic.start=0 s)",
    ]


def test_a_huge_product_is_refused_before_it_is_made(small: dict[str, Any]) -> None:
    keys = ("duration", "links[0].delay", "traffic.idle_mean", "traffic.burst")
    vary = {key: [f"{n} s" for n in range(1, 2000)] for key in keys}
    began = time.perf_counter()
    with pytest.raises(SweepError, match=r"15,968,023,992,001 .* only 100,000"):
        sweep(small, vary=vary)
    assert time.perf_counter() - began < 5.0


@pytest.mark.parametrize(
    "vary",
    [
        {"queue.limit": [f"{n} x" for n in range(3000)]},
        {"queue.limt": list(range(3000))},
    ],
)
def test_few_of_many_wrong_combinations_are_looked_at(
    vary: dict[str, Any], small: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at = 0
    read = Scenario.from_dict

    def counted(*values: Any, **facts: Any) -> Scenario:
        nonlocal looked_at
        looked_at += 1
        return read(*values, **facts)

    monkeypatch.setattr(Scenario, "from_dict", counted)
    with pytest.raises(ScenarioError):
        make_plan(small, "a", axes_of(vary), [1])
    assert looked_at <= 60


def test_two_combinations_that_are_the_same_are_refused(small: dict[str, Any]) -> None:
    with pytest.raises(SweepError, match="are the same scenario; hint: leave one out"):
        sweep(small, vary={"duration": ["2 s", "2000 ms"]})


def test_seeds_have_an_option_of_their_own(small: dict[str, Any]) -> None:
    with pytest.raises(SweepError, match="use `seeds`"):
        sweep(small, set={"seed": 3})


def test_a_whole_table_does_not_replace_a_key_that_is_varied_inside_it(
    small: dict[str, Any],
) -> None:
    """The order of the keys does not matter."""
    vary = {"queue.limit": [50, 60], "queue": [{"kind": "pfifo"}, {"kind": "codel"}]}
    axes = axes_of(vary)
    plan = make_plan(small, "small", axes, (1,))
    assert len(plan.digests) == 4
    assert set(make_plan(small, "small", axes[::-1], (1,)).digests.values()) == set(
        plan.digests.values()
    )

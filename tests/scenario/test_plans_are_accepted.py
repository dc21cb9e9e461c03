"""What the language accepts, the simulator accepts."""

from __future__ import annotations

import json
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from narrows import Scenario, ScenarioError, _core
from narrows.scenario import PROFILES, Tcp

from .test_bad_input import CASES, GOOD, with_change
from .test_lowering import TEXT
from .test_properties import RICH

EXAMPLES = sorted((Path(__file__).parents[2] / "scenarios").glob("*.toml"))


def simulate(scenario: Scenario) -> _core.Simulation:
    return _core.Simulation(json.dumps(scenario.plan()))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_examples_start(path: Path) -> None:
    simulation = simulate(Scenario.load(path))
    ended = simulation.advance(10_000)
    # An example with only a few exchanges ends before that.
    assert ended or simulation.events >= 10_000
    assert simulation.events > 1_000


def test_every_kind_of_queue_ring_and_source_is_accepted() -> None:
    simulate(Scenario.parse(TEXT))
    simulate(Scenario.from_dict(GOOD))


@pytest.mark.parametrize(("path", "value"), [(path, value) for path, value, _ in CASES])
def test_what_is_impossible_is_refused_by_the_language_first(path: str, value: Any) -> None:
    try:
        scenario = Scenario.from_dict(with_change(path, value))
    except ScenarioError:
        return
    simulate(scenario)


def test_the_profiles_are_the_simulators() -> None:
    assert tuple(_core.tcp_profiles()) == PROFILES


def test_tcp_keys_are_the_simulators() -> None:
    # `ecn` has a word for each `ecn_control` and one for `accurate_ecn`; DNS groups have Fast Open
    # in keys of their own.
    ours = (Tcp.model_fields.keys() - {"profile"}) | {"accurate_ecn", "ecn_control", "fast_open"}
    for name in PROFILES:
        assert json.loads(_core.tcp_profile(name)).keys() == ours


WORDS = {
    key: [
        word
        for part in (field.annotation, *typing.get_args(field.annotation))
        if typing.get_origin(part) is typing.Literal
        for word in typing.get_args(part)
    ]
    for key, field in Tcp.model_fields.items()
}


@pytest.mark.parametrize(
    ("key", "word"), [(key, word) for key, words in WORDS.items() for word in words]
)
def test_every_word_of_tcp_is_the_simulators(key: str, word: str) -> None:
    settings: dict[str, str] = {key: word}
    if (key, word) == ("reduction", "at-once"):
        settings["recovery"] = "new-reno"
    if (key, word) == ("recovery", "tahoe"):
        settings["reduction"] = "at-once"
    if (key, word) == ("recovery", "sack"):
        settings["reduction"] = "prr"
    simulate(Scenario.from_dict(with_change("traffic/0/tcp", settings)))


@pytest.mark.parametrize(
    "keys",
    [
        {"recovery": "tahoe"},
        {"recovery": "new-reno"},
        {"recovery": "sack", "sack": True, "reduction": "prr"},
        {"restart_after_idle": "keep"},
        {"restart_after_idle": "decay"},
        {"restart_after_idle": "slow-start"},
        {"initial_window": 1},
        {"initial_ssthresh": 20, "acks": {"delayed": "100 ms"}},
        {"min_rto": "1 s", "timer_granularity": "100 ms"},
        {"ecn": True, "limited_transmit": True, "nagle": True},
        {"congestion": "cubic", "skip_handshake": False},
    ],
)
def test_each_choice_of_ns_2_can_be_made(keys: dict[str, Any]) -> None:
    """Each choice of ns-2's agents and their variables, one by one."""
    values = with_change("traffic/0/tcp", {"profile": "ns-2", **keys})
    values["traffic"][0].update(kind="on-off", burst="384 kB", idle_mean="200 ms")
    simulation = simulate(Scenario.from_dict(values))
    while not simulation.advance(1 << 20):
        pass
    assert len(simulation.tables()["bursts"]["end_s"]) > 2


@settings(deadline=None)
@given(
    limit=st.integers(1, 2**32 - 1),
    lower=st.integers(1, 2**22),
    upper=st.integers(1, 2**22),
    avpkt=st.integers(1, 2**14),
    burst=st.integers(1, 2**12),
    probability=st.floats(1e-7, 1),
    rate=st.integers(1, 10**11),
)
def test_red_is_refused_where_the_kernel_refuses_it(
    limit: int, lower: int, upper: int, avpkt: int, burst: int, probability: float, rate: int
) -> None:
    """The language refuses RED's settings exactly where the simulator does."""
    queue = {
        "kind": "red",
        "limit": f"{limit} B",
        "min": f"{lower} B",
        "max": f"{upper} B",
        "avpkt": f"{avpkt} B",
        "burst": burst,
        "probability": probability,
        "bandwidth": f"{rate} bit/s",
    }
    plan = Scenario.from_dict(GOOD).plan()
    plan["links"][0]["queue"] = {
        "red": {
            **plan["links"][0]["queue"]["red"],
            "limit": limit,
            "min": lower,
            "max": upper,
            "avpkt": avpkt,
            "burst": burst,
            "probability": probability,
            "bandwidth": rate,
        }
    }
    try:
        Scenario.from_dict(with_change("links/0/queue", queue))
    except ScenarioError:
        with pytest.raises(ValueError, match="queue"):
            _core.Simulation(json.dumps(plan))
    else:
        _core.Simulation(json.dumps(plan))


def numbers_in(node: Any) -> Iterator[tuple[Any, Any]]:
    """All tables and lists of a plan that hold a number, each with its key or index."""
    if isinstance(node, dict | list):
        for key in list(node) if isinstance(node, dict) else range(len(node)):
            if type(node[key]) in (int, float):
                yield node, key
            yield from numbers_in(node[key])


@settings(deadline=None)
@given(
    edits=st.lists(
        st.tuples(st.integers(0, 2**16), st.sampled_from([0, 1, 3, 250, -1])),
        min_size=1,
        max_size=6,
    )
)
def test_a_plan_is_refused_if_and_only_if_it_has_errors(edits: list[tuple[int, int]]) -> None:
    plan = Scenario.from_dict(RICH).plan()
    places = list(numbers_in(plan))
    for place, value in edits:
        node, key = places[place % len(places)]
        node[key] = value
    text = json.dumps(plan)
    if errors := _core.check_plan(text):
        assert all(error and error.isprintable() for error in errors)
        with pytest.raises(ValueError, match=r".") as refused:
            _core.Simulation(text)
        assert str(refused.value) in errors
    else:
        _core.Simulation(text)

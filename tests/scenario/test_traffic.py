"""Traffic sources, ramps, stops, and servers chosen by chance."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from narrows import Scenario, _core, run
from narrows import scenario as scenario_language
from narrows.scenario import Bulk, Ftp

from ..plans import Plan, connections
from .test_bad_input import FTP, GOOD, ON_OFF, PARETO, with_change

S = 10**12


def group(table: dict[str, Any]) -> Scenario:
    return Scenario.from_dict(with_change("traffic/0", table))


def plan(table: dict[str, Any], seed: int = 1) -> dict[str, Any]:
    lowered = group(table).plan(seed)
    _core.Simulation(json.dumps(lowered))
    return lowered


def sends(table: dict[str, Any]) -> dict[str, Any]:
    """What the plan's first group sends, without its connections."""
    kind = plan(table)["applications"][0]["kind"]
    return {key: value for key, value in kind["on-off"].items() if key != "connections"}


@pytest.mark.parametrize(
    ("given", "lowered"),
    [
        ("2 s", {"constant": 2 * S}),
        (["1 s", "3 s"], {"list": [S, 3 * S]}),
        ({"distribution": "exponential", "mean": "2 s"}, {"exponential": {"mean": 2 * S}}),
        (PARETO, {"pareto": {"mean": 2 * S, "shape": 1.5}}),
    ],
)
def test_idle_times(given: Any, lowered: dict[str, Any]) -> None:
    lowered_to = sends({**ON_OFF, "idle": given, "bursts": 3})
    assert lowered_to == {"burst": {"constant": 1000}, "idle": lowered, "bursts": 3}
    scenario = group({**ON_OFF, "idle": given})
    assert Scenario.from_dict(json.loads(json.dumps(scenario.resolved()))) == scenario


def test_idle_mean_is_exponential() -> None:
    table = {key: value for key, value in ON_OFF.items() if key != "idle"}
    assert sends({**table, "idle_mean": "2 s"})["idle"] == {"exponential": {"mean": 2 * S}}


def test_sizes_of_files() -> None:
    for given, lowered in [
        (["1 kB", "3 kB"], {"list": [1000, 3000]}),
        (
            {"distribution": "pareto", "mean": "9 kB", "shape": 1.2},
            {"pareto": {"mean": 9000, "shape": 1.2}},
        ),
    ]:
        lowered_to = sends({**FTP, "file": given, "pause": "1 s", "files": 4})
        assert lowered_to == {"burst": lowered, "idle": {"constant": S}, "bursts": 4}
        scenario = group({**FTP, "file": given})
        assert Scenario.from_dict(json.loads(json.dumps(scenario.resolved()))) == scenario


def test_once_is_a_single_burst() -> None:
    table = {**GOOD["traffic"][0], "kind": "once", "size": "5 kB"}
    assert sends(table) == {"burst": {"constant": 5000}, "idle": {"constant": 0}, "bursts": 1}


def test_stop_comes_to_the_plan() -> None:
    assert connections(plan({**ON_OFF, "stop": "7 s"}))[0]["stop"] == 7 * S


def offsets(**keys: Any) -> list[float]:
    bulk = Bulk(name="g", sender="a", receiver="b", **keys)
    return [bulk.offset(number, None) / S for number in range(bulk.total)]


def test_a_rising_ramp_has_opened_a_quarter_at_half_time() -> None:
    opened = offsets(connections=400, spread="100 s", ramp="rising")
    assert sum(offset < 50 for offset in opened) == 100
    assert sum(offset < 25 for offset in opened) == 25
    assert opened == sorted(opened)
    assert opened[-1] < 100


def test_a_listed_ramp_keeps_its_numbers() -> None:
    ramp = [["0 s", 2], ["10 s", 2], ["20 s", 4], ["20 s", 6]]
    assert offsets(connections=6, ramp=ramp) == [0, 0, 10, 15, 20, 20]
    assert offsets(connections=4, ramp=[["10 s", 0], ["14 s", 4]]) == [10, 11, 12, 13]


def test_random_starts_follow_the_ramp() -> None:
    bulk = Bulk(name="g", sender="a", receiver="b", spread="100 s", ramp="rising")
    assert bulk.offset(0, 0.25) == 50 * S
    listed = Bulk(name="g", sender="a", receiver="b", connections=4, ramp=[["0 s", 0], ["10 s", 4]])
    assert listed.offset(0, 0.5) == 5 * S


FAR = """
name = "far"
duration = "10 s"
[[links]]
name = "server{i}"
between = ["s{i}", "R"]
rate = "10 Mbit/s"
count = 5
[[links]]
name = "client{i}"
between = ["R", "c{i}"]
rate = "10 Mbit/s"
count = 40
[[traffic]]
kind = "ftp"
name = "ftp"
servers = ["s0", "s1", "s2", "s3", "s4"]
clients = ["c{i}"]
count = 40
connections = 25
file = "10 kB"
"""


def ends(plan: Plan) -> list[tuple[str, str]]:
    """Sender and receiver of each connection."""
    paths = [plan["paths"][connection["there"]] for connection in connections(plan)]
    return [(plan["nodes"][path["from"]], plan["nodes"][path["to"]]) for path in paths]


def test_each_session_has_a_server_by_chance() -> None:
    scenario = Scenario.parse(FAR)
    ftp = scenario.traffic[0]
    assert isinstance(ftp, Ftp)
    assert (ftp.servers, ftp.total) == (("s0", "s1", "s2", "s3", "s4"), 1000)
    first, again, other = (scenario.plan(seed) for seed in (1, 1, 2))
    assert first == again
    assert ends(first) != ends(other)
    servers = Counter(server for server, _ in ends(first))
    for name in ("s0", "s1", "s2", "s3", "s4"):
        # Binomial: 200 on average, a standard deviation of 12.6; five of them.
        assert 137 < servers[name] < 263
    assert [client for _, client in ends(first)[:26]] == ["c0"] * 25 + ["c1"]
    assert {c["opener"] for c in connections(first)} == {"receiver"}


def test_a_session_fetches_its_files_and_closes() -> None:
    simulation = _core.Simulation(
        json.dumps(plan({**FTP, "file": ["20 kB", "30 kB"], "files": 3, "pause": "1 s"}))
    )
    while not simulation.advance(1 << 20):
        pass
    tables = simulation.tables()
    bursts, flows = tables["bursts"], tables["flows"]
    assert list(bursts["bytes"]) == [20_000, 30_000, 20_000]
    assert list(flows["bytes_received"]) == [70_000]


def test_every_kind_and_table_of_the_language_is_a_python_object_too() -> None:
    names = {name: getattr(scenario_language, name) for name in scenario_language.__all__}
    assert len(names) == len(scenario_language.__all__)
    shown = set(map(id, names.values()))
    assert all(id(kind) in shown for kind in scenario_language.KINDS.values())
    assert all(id(kind) in shown for kind in scenario_language.DISCIPLINES.values())
    assert "Middlebox" in names


def test_a_kind_is_in_the_file_of_its_name() -> None:
    """A scenario imports the files of its kinds alone."""
    kinds = scenario_language.KINDS
    homes = {kind: table.__module__.rpartition(".")[2] for kind, table in kinds.items()}
    assert homes == {kind: kind.replace("-", "_") for kind in kinds}
    assert not [name for name in ("base", "kinds", "on_off", "..base", "", "x.y") if name in kinds]


@pytest.mark.parametrize(("opener", "round_trips"), [("sender", 2.0), ("receiver", 2.5)])
def test_the_first_burst_takes_the_handshake_and_the_way_of_its_acknowledgement(
    opener: str, round_trips: float
) -> None:
    """On a fast link, a burst of one segment takes nothing but round trips."""
    link = {"name": "l", "between": ["a", "b"], "rate": "1 Gbit/s", "delay": "100 ms"}
    once = {"kind": "once", "name": "f", "sender": "a", "receiver": "b", "size": "1 kB"}
    values = {"name": "s", "duration": "2 s", "links": [link]}
    found = run(Scenario.from_dict({**values, "traffic": [{**once, "opener": opener}]}))
    took = found.summary["bursts"]["completion_mean_s"]
    assert took == pytest.approx(0.2 * round_trips, abs=1e-3)

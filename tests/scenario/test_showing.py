"""How a scenario shows itself in a session."""

from pathlib import Path

import pytest

from narrows import Scenario, ScenarioError, run
from narrows.scenario import Codel
from narrows.scenario.amounts import DataRate, DataSize, Duration, Quantity

SCENARIOS = Path(__file__).parents[2] / "scenarios"

TEXT = """
name = "two"
description = "one <two>"
duration = "10 s"
[[links]]
name = "wan"
between = ["a", "b"]
rate = "10 Mbit/s"
forward = { queue = { kind = "pfifo", limit = 50 } }
[[traffic]]
kind = "bulk"
name = "files"
sender = "a"
receiver = "b"
connections = 3
"""


def test_a_line() -> None:
    assert repr(Scenario.parse(TEXT)) == "<Scenario two: 1 link, 3 connections, at most 10 s>"
    dns = '[[dns]]\nname = "d"\nclient = "a"\nserver = "b"\nqueries = 9\n'
    assert "3 connections, 1 resolver worker, at most" in repr(Scenario.parse(TEXT + dns))


def test_a_notebook_shows_links_and_traffic_with_units() -> None:
    html = Scenario.parse(TEXT)._repr_html_()
    for words in ("a to b", "rate 10 Mbit/s", "forward (queue (kind pfifo, limit 50))", "files"):
        assert words in html
    assert "one &lt;two&gt;" in html


def test_quantities_show_as_a_file_says_them_and_give_themselves_in_units() -> None:
    link = Scenario.parse(TEXT).links[0]
    assert repr(link.rate) == "'10 Mbit/s'"
    assert f"{link.rate}" == "10 Mbit/s"
    assert link.rate is not None
    assert (link.rate.mbit_per_s, link.rate.bit_per_s) == (10.0, 10_000_000)
    assert "rate='10 Mbit/s'" in repr(link)
    assert "delay=" not in repr(link)  # it has none
    sizes = [str(DataSize(text)) for text in ("0 B", "1514 B", "375 kB", "4096 B", "32 MiB")]
    assert sizes == ["0 B", "1514 B", "375 kB", "4096 B", "32 MiB"]
    # Defaults are quantities too, and a quantity is accepted wherever text is.
    codel = Codel(limit=3)
    assert repr(codel.target) == "'5 ms'"
    assert Codel(target=codel.interval).target.ms == 100.0


def test_quantities_are_whole_and_not_negative() -> None:
    for quantity in (Duration, DataRate, DataSize):
        with pytest.raises(ValueError, match=f"a {quantity.__name__} is not negative: -1"):
            quantity(-1)
        with pytest.raises(TypeError):
            quantity(1.7)  # type: ignore[arg-type]


def test_completion_offers_nothing_deprecated_or_unchecked() -> None:
    for offered in (dir(Scenario), dir(Scenario.parse(TEXT))):
        assert {"load", "with_", "resolved"} <= set(offered)
        assert not {"parse_obj", "dict", "copy", "schema", "model_copy"} & set(offered)


def test_with_changes_keys_and_validates_the_whole() -> None:
    scenario = Scenario.parse(TEXT)
    changed = scenario.with_({"links.wan.forward.queue.limit": 7}, seed=3, duration="1 min")
    assert (changed.seed, changed.duration.s) == (3, 60.0)
    assert changed.with_(duration=scenario.duration).duration == scenario.duration
    assert changed.with_({"links.wan.forward.queue": Codel(limit=3)}).links[0].forward
    assert scenario.seed == 1
    with pytest.raises(ScenarioError, match=r"two: links\.wan\.forward\.queue\.limit"):
        scenario.with_({"links.wan.forward.queue.limit": 0})


@pytest.mark.parametrize("path", sorted(SCENARIOS.glob("*.toml")), ids=lambda path: path.stem)
def test_what_was_left_out_stays_so(path: Path) -> None:
    scenario = Scenario.load(path)
    assert scenario.with_(seed=scenario.seed).plan() == scenario.plan()


@pytest.mark.parametrize(
    "line",
    [
        'messages = { query = "40 B", reply = "100 B" }',
        "answers = { tcp = false }",
        'transport = { kind = "quic", quic = { ecn = true } }\nanswers = { profile = "knot" }',
        'answers = { software = "nsd" }',
    ],
)
def test_keys_that_exclude_defaults_can_be_changed_beside_them(line: str) -> None:
    dns = 'name = "d"\nclient = "a"\nserver = "b"\nqueries = 9'
    scenario = Scenario.parse(f"{TEXT}\n[[dns]]\n{dns}\n{line}\n")
    assert scenario.with_(seed=2).plan() == scenario.plan(seed=2)
    assert Scenario.from_dict(scenario.written()) == scenario


def test_run_takes_what_sweep_takes(tmp_path: Path) -> None:
    (tmp_path / "two.toml").write_text(TEXT)
    scenario = Scenario.parse(TEXT)
    runs = [
        run(source, set={"duration": "1 s"})
        for source in (tmp_path / "two.toml", str(tmp_path / "two.toml"), scenario)
    ]
    runs.append(run(scenario.resolved(), set={"duration": "1 s"}))
    assert {found.end_s for found in runs} == {1.0}
    assert all(found.flows.equals(runs[0].flows) for found in runs)
    with pytest.raises(ScenarioError, match="does not exist"):
        run(tmp_path / "three.toml")


def test_a_quantity_without_a_unit_is_none() -> None:
    with pytest.raises(TypeError, match="Duration, DataRate or DataSize"):
        Quantity(3)

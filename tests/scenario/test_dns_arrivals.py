"""DNS workers that ask until the end, and queries that arrive by themselves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from narrows import Run, Scenario, ScenarioError, run
from narrows.cli import main
from narrows.results import summary_table

TEXT = """
name = "one-link"
duration = "20 s"
[[links]]
name = "wan"
between = ["stub", "server"]
rate = "10 Mbit/s"
delay = "20 ms"
[[dns]]
name = "dns"
client = "stub"
server = "server"
"""


def scenario(keys: str, **given: object) -> Scenario:
    return Scenario.parse(TEXT + keys, set=given)


@pytest.mark.parametrize("keys", ["workers = 2", "arrivals = { per_second = 50 }"])
def test_without_a_number_they_ask_until_the_end(tmp_path: Path, keys: str) -> None:
    run(scenario(keys), out=tmp_path / "run")
    found = Run.load(tmp_path / "run")
    assert (found.status, found.stopped, found.end_s) == ("complete", "end", 20.0)
    last = found.queries.get_column("start_s").max()
    assert isinstance(last, float) and 19.0 < last <= 20.0
    assert found.summary["dns"]["unanswered"] == found.summary["dns"]["turned_away"] == 0


def test_a_closed_loop_asks_once_in_a_round_trip() -> None:
    # 40 ms of delay, and 70 and 100 bytes at 10 Mbit/s.
    found = run(scenario("workers = 1"))
    assert found.queries.height == pytest.approx(20.0 / 0.040136, abs=1.0)


def test_poisson_arrivals() -> None:
    found = run(scenario("arrivals = { per_second = 200 }", duration='"100 s"'))
    starts = found.queries.get_column("start_s").to_numpy()
    # Five standard deviations of a Poisson number.
    assert abs(len(starts) - 20_000) < 5.0 * np.sqrt(20_000)
    gaps = np.sort(np.diff(starts))
    # The greatest distance from the exponential distribution, at a level of 0.1 %.
    distances = np.abs(1.0 - np.exp(-200.0 * gaps) - (np.arange(len(gaps)) + 0.5) / len(gaps))
    assert distances.max() < 1.95 / np.sqrt(len(gaps))


def test_what_finds_no_place_is_counted() -> None:
    """Fifty a second, each for a little more than 0.24 s: one place takes every thirteenth."""
    keys = """
arrivals = { per_second = 50, spacing = "even", outstanding = 1 }
service = "200 ms"
queries = 130
"""
    found = run(scenario(keys, end="dns"))
    asked = found.queries.filter(found.queries.get_column("attempts") > 0)
    assert asked.get_column("index").to_list() == list(range(0, 130, 13))
    assert found.stopped == "dns-done"
    dns = found.summary["dns"]
    assert (dns["queries"], dns["unanswered"], dns["turned_away"]) == (130, 120, 120)
    assert "arrivals that were not asked" in str(summary_table(found))


@pytest.mark.parametrize(
    ("keys", "given", "key", "said"),
    [
        ("", {"end": "dns"}, "end", "asks until the run ends"),
        (
            "arrivals = { per_second = 5 }\nworkers = 3",
            {},
            "dns[0].workers",
            "arrivals.outstanding",
        ),
        ('arrivals = { per_second = 5 }\nthink_mean = "1 s"', {}, "dns[0].think_mean", "arrivals"),
        ("arrivals = { per_second = 0 }", {}, "dns[0].arrivals.per_second", "0.001"),
        ("arrivals = { per_minute = 5 }", {}, "dns[0].arrivals.per_minute", "per_second"),
        (
            "arrivals = { per_second = 1000000 }",
            {"duration": '"100 s"'},
            "dns[0].arrivals.per_second",
            "recorded",
        ),
    ],
)
def test_what_is_impossible_is_refused(
    keys: str, given: dict[str, str], key: str, said: str
) -> None:
    with pytest.raises(ScenarioError) as caught:
        scenario(keys, **given)
    assert caught.value.key == key
    assert said in str(caught.value)


def test_check_speaks_of_arrivals_and_of_no_workers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = TEXT + "arrivals = { per_second = 50, outstanding = 700 }"
    file = tmp_path / "users.toml"
    file.write_text(text)
    assert main(["check", str(file)]) == 0
    said = capsys.readouterr().out
    assert "50 queries arrive a second, and at most 700 are under way at once" in said
    assert "outstanding queries" in said
    assert "worker" not in said
    assert "700 outstanding queries, at most" in repr(Scenario.parse(text))

"""The distribution `modern`, and that no distribution changes."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest

from narrows import Scenario
from narrows.agreement import CLASSIC, MODERN, conduct, draws, home, modern
from narrows.agreement.conduct import Agreement, words
from narrows.agreement.output import agreement_table
from narrows.backends import get
from narrows.cli import main
from narrows.scenario import Bulk
from tests.agreement.test_agreement import comparison


def texts(module: ModuleType, seed: int, count: int, monkeypatch: pytest.MonkeyPatch) -> str:
    """The first draws of a seed as text, which new keys of the language do not change."""
    found: list[str] = []

    class Kept:
        @staticmethod
        def parse(text: str, file: str) -> None:
            found.append(text)

    monkeypatch.setattr(module, "Scenario", Kept)
    for number in range(count):
        module.drawn(seed, number)
    return hashlib.sha256("".join(found).encode()).hexdigest()


@pytest.mark.parametrize(
    ("module", "seed", "count", "digest"),
    [
        # The sealed set of docs/kernel-agreement.json (there without `idles` of fq-codel, which the
        # kernel has not), and development draws.
        (draws, 1005, 100, "827e86e9376502aa5c95744b0d7b85e7143e0f75ee318628920c46dd2f2f897e"),
        (draws, 7, 60, "e13da7dd77a6ae3e38be883152f1bbbd02ec6261940474b94aee152265d1269d"),
        (modern, 7, 60, "1e1d5ed1c98622fa0ebcf2e605fefec43aa43b3f95b35856118c128ffcaf0ba5"),
        (home, 7, 60, "403506be92efbc686b7790ec3956f99ab3321b36aebfd748056618a68fb42720"),
    ],
    ids=lambda value: str(getattr(value, "__name__", value))[:30],
)
def test_the_same_seeds_give_the_same_draws(
    module: ModuleType, seed: int, count: int, digest: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert texts(module, seed, count, monkeypatch) == digest


def test_draws_stay_in_the_distribution_and_linux_7_takes_them() -> None:
    seen = Counter[str]()
    for number in range(120):
        scenario = modern.drawn(7, number)
        (bulk,) = scenario.traffic
        assert isinstance(bulk, Bulk)
        tcp = bulk.tcp
        bottleneck = scenario.links[0].direction("forward")
        queue: Any = bottleneck.queue
        delay_ms = 2 * scenario.links[1].direction("forward").delay / 1e9
        assert 1.99e6 <= bottleneck.rate <= 30.01e6
        assert 4.99 <= delay_ms <= 100.01
        assert 1 <= bulk.total <= 40
        assert 5 <= scenario.dns[0].workers <= 20
        assert bool(tcp.pacing) is (tcp.congestion == "cubic")
        # Where DCTCP meets a queue that can have a threshold, it has one.
        if tcp.congestion == "dctcp" and queue.kind in ("codel", "fq-codel"):
            assert 1e9 <= queue.ce_threshold <= 5e9
        if tcp.congestion == "dctcp" and queue.kind == "dualpi2":
            assert queue.any_ect
        assert get("kernel-7").refusals(scenario) == []
        assert get("kernel-7").differences(scenario) == []
        assert words(scenario).startswith(queue.kind)
        assert MODERN.factor(scenario) == (2.0 if tcp.congestion == "bbr" else 1.0)
        seen.update([queue.kind, str(tcp.congestion), f"ecn {tcp.ecn}"])
        seen[scenario.dns[0].transport.kind] += 1
    assert {kind for kind in seen if kind in modern.QUEUES} == set(modern.QUEUES)
    assert min(seen[kind] for kind in modern.QUEUES) >= 10
    assert min(seen[control] for control in modern.ECN) >= 25
    assert min(seen[ecn] for ecn in ("ecn accurate", "ecn True", "ecn False")) >= 15
    assert min(seen["udp"], seen["tcp"]) >= 25


def test_the_words_name_pacing_and_feedback() -> None:
    found = {word for number in range(60) for word in words(modern.drawn(7, number)).split(", ")}
    assert {"accurate ECN", "100 % ECN", "0 % ECN"} <= found
    assert any(word.endswith("cubic paced") for word in found)
    assert not any(word.endswith(("bbr paced", "dctcp paced")) for word in found)


def test_draws_with_bbr_have_a_summary_of_their_own_with_twice_the_bounds() -> None:
    # 4 % of the backlog: more than the bound, and less than twice the bound.
    plain, bbr = comparison(0, 1e6, 1.04e6), comparison(1, 1e6, 1.04e6)
    result = Agreement(1, 2, 1, comparisons=[plain, replace(bbr, factor=2.0)])
    for factor, agrees in ((1.0, False), (2.0, True)):
        entries = {entry["metric"]: entry for entry in result.summary(factor)}
        backlog = entries["mean backlog"]
        assert (backlog["draws"], backlog["own_bound"]) == (1, 2.5 * factor)
        assert backlog["agrees"] is agrees
    assert plain.worst() == pytest.approx(2.0 * result.comparisons[1].worst())
    document = result.document()
    assert document["metrics"] == result.summary(1.0)
    assert document["metrics_at_2_bounds"] == result.summary(2.0)
    assert "draws with 2 times the bounds" in str(agreement_table(result))


def test_without_bbr_there_is_one_summary() -> None:
    result = Agreement(1, 1, 1, comparisons=[comparison(0, 1e6, 1e6)])
    assert [key for key in result.document() if key.startswith("metrics")] == ["metrics"]
    assert "times the bounds" not in str(agreement_table(result))


def short(seed: int, number: int) -> Scenario:
    return modern.drawn(seed, number).with_({"duration": "8 s"})


def test_the_simulator_agrees_with_itself_on_bbr() -> None:
    number = next(n for n in range(60) if MODERN.factor(modern.drawn(7, n)) == 2.0)
    only = replace(MODERN, drawn=lambda seed, _number: short(seed, number))
    result = conduct(draws=1, seed=7, sim_seeds=2, backend="sim", distribution=only)
    assert result.document()["distribution"] == "modern"
    assert result.factors == [1.0, 2.0]
    assert result.comparisons[0].factor == 2.0
    assert abs(result.comparisons[0].differences()["utilisation"]) < 2.0


def test_the_classic_distribution_is_the_default() -> None:
    assert Agreement(1, 1, 1).distribution == CLASSIC.name == "classic"


def test_an_unknown_distribution_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["agreement", "--distribution", "old"]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert "--distribution: 'old' is not known; use classic or modern" in line

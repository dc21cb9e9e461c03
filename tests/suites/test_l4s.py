"""The suite of L4S's coexistence: what was published, in outline, and other controls."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from narrows.cli.app import main
from narrows.controls import Control
from narrows.suites import SuiteError, SuiteRun, l4s
from narrows.suites.l4s.parts import METRICS, suite
from narrows.suites.l4s.scenes import Controls, scenes, sizes
from narrows.suites.output import write
from narrows.suites.parts import Column
from narrows.suites.seen import cell


@pytest.fixture(scope="module")
def whole() -> SuiteRun:
    """All scenes, shortened, behind DualPI2, FQ-CoDel and PIE with marks."""
    queues = ["dualpi2", "fq-codel", "pie:ecn=true"]
    return l4s(queues, seeds=2, scale=0.2, workers=2)


def mean(run: SuiteRun, scene: str, metric: str, queue: str) -> float:
    found = cell(run, Column(scene, metric), queue)
    assert found is not None, (scene, metric, queue)
    return found.mean


def test_every_column_has_a_value(whole: SuiteRun, tmp_path: Path) -> None:
    assert whole.status == "complete"
    assert whole.runs.height == 2 * 3 * len(scenes(Controls()))
    for part in whole.suite.parts:
        for column in part.columns:
            for queue in whole.names:
                assert math.isfinite(mean(whole, column.scene, column.metric, queue))
    assert {*whole.runs.columns} - {"scene", "queue", "seed"} <= METRICS.keys()
    write(whole, tmp_path, ())
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "L4S coexistence: prague beside cubic" in page


def test_dualpi2_keeps_both_as_its_authors_measured(whole: SuiteRun) -> None:
    # Their row of 5 and 5 ms: a ratio of 1.01, 0.32 and 14.85 ms, 99.92 %.
    assert mean(whole, "mixed-5-5", "ratio", "dualpi2") == pytest.approx(1.01, abs=0.3)
    assert mean(whole, "mixed-5-5", "delay_l4s", "dualpi2") == pytest.approx(0.32, abs=0.1)
    assert mean(whole, "mixed-5-5", "delay_classic", "dualpi2") == pytest.approx(14.85, abs=2.5)
    assert mean(whole, "mixed-5-5", "utilisation_percent", "dualpi2") > 99.0
    # 100 and 5 ms: 0.299; 5 and 100 ms: 6.07.
    assert mean(whole, "mixed-100-5", "ratio", "dualpi2") < 0.6
    assert mean(whole, "mixed-5-100", "ratio", "dualpi2") > 3.0


def test_one_queue_that_marks_is_not_enough(whole: SuiteRun) -> None:
    # Heist and Morton: 23 to 1 behind PIE at 20 ms; FQ-CoDel shares equally.
    assert mean(whole, "mixed-20-20", "ratio", "pie ecn true") > 5.0
    assert mean(whole, "mixed-20-20", "ratio", "fq-codel") == pytest.approx(1.0, abs=0.1)
    assert mean(whole, "same", "ratio", "fq-codel") == pytest.approx(1.0, abs=0.15)
    assert mean(whole, "same", "ratio", "dualpi2") > 5.0


def test_an_overload_moves_the_delay_into_the_l_queue(whole: SuiteRun) -> None:
    # The authors: 0.22 ms at 50 Mbit/s, 15.03 at 100.
    assert mean(whole, "overload-50", "delay_l4s", "dualpi2") < 0.6
    assert mean(whole, "overload-100", "delay_l4s", "dualpi2") == pytest.approx(15.0, abs=1.0)
    assert mean(whole, "overload-50", "rate_stream", "dualpi2") == pytest.approx(50.95, rel=0.02)


def test_short_flows_wait_behind_prague_in_one_queue(whole: SuiteRun) -> None:
    alone, beside = (
        mean(whole, f"short-{which}", "fct_geometric", "pie ecn true") for which in ("none", "l4s")
    )
    assert beside > 2.0 * alone
    assert len(sizes()) == 10 and sizes() == sorted(sizes())


def test_controls_are_chosen() -> None:
    made = suite(Controls("dctcp", "reno")).scenes[0].scenario
    tcp = {group["name"]: group["tcp"] for group in made["traffic"]}
    assert tcp["l4s"]["congestion"] == "dctcp" and "ecn" not in tcp["l4s"]
    assert tcp["classic"]["congestion"] == "reno" and "ecn" not in tcp["classic"]
    ecn = suite(Controls("cubic")).scenes[0].scenario["traffic"][0]["tcp"]
    assert ecn["ecn"] is True
    with pytest.raises(SuiteError, match="`control` prage: is no congestion control; hint: did"):
        l4s(["dualpi2"], control="prage")


class Half(Control):
    """Halves its window at each loss, as Reno does."""

    def on_loss(self, now: float) -> None:
        """A loss."""
        self.ssthresh = self.cwnd / 2.0


def test_controls_from_outside_take_part() -> None:
    one = {"seeds": 1, "scale": 0.05, "workers": 1}
    queues = {"tail": {"kind": "pfifo", "limit": 100}}
    run = l4s(queues, control="prague", classic="half", controls={"half": Half()}, **one)
    assert run.status == "complete", run.failures
    assert run.runs.height == len(scenes(Controls()))
    assert mean(run, "mixed-5-5", "rate_classic", "tail") > 0.0
    with pytest.raises(SuiteError, match="`classic` halve: is no congestion control"):
        l4s(queues, classic="halve", controls={"half": Half()}, **one)


@pytest.mark.slow
@pytest.mark.parametrize("control", ["dctcp", "bbr", "bbr-v3", "cubic", "reno"])
def test_every_control_takes_prague_s_place(control: str) -> None:
    run = l4s(["dualpi2"], control=control, classic="reno", seeds=1, scale=0.05, workers=2)
    assert run.status == "complete", run.failures


def test_the_command_refuses_another_control(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["suite", "l4s", "--queue", "dualpi2", "--classic", "cubik"]
    assert main([*command, "--out", str(tmp_path / "new")]) == 2
    shown = capsys.readouterr().err
    assert shown.count("\n") == 1 and "--classic cubik: is no congestion control" in shown
    assert not (tmp_path / "new").exists()

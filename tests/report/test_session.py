"""How results are shown in a session."""

from __future__ import annotations

from copy import copy
from pathlib import Path

import pytest

from narrows import NarrowsError, Run, Sweep, progress, run, sweep
from narrows.results import Comparison, compare, summary_table
from narrows.results.sweep_text import sweep_text

pytestmark = pytest.mark.slow

SCENARIO = {
    "name": "short",
    "duration": "2 s",
    "links": [
        {
            "name": "wan",
            "between": ["a", "b"],
            "rate": "2 Mbit/s",
            "delay": "5 ms",
            "queue": {"kind": "pfifo", "limit": 20},
        }
    ],
    "traffic": [{"kind": "bulk", "name": "f", "sender": "a", "receiver": "b", "connections": 4}],
    "dns": [{"name": "d", "client": "b", "server": "a", "queries": 20, "workers": 2}],
    "monitor": {"queues": {"links": ["wan.forward"], "rate": 10}},
}


@pytest.fixture(scope="module")
def runs() -> list[Run]:
    return [run(SCENARIO, set={"queue.limit": limit}) for limit in (20, 40)]


@pytest.fixture(scope="module")
def swept() -> Sweep:
    return sweep(SCENARIO, vary={"queue.limit": [20, 40]}, seeds=2, workers=1)


def test_a_run_draws_the_plots_of_its_report(runs: list[Run], tmp_path: Path) -> None:
    plots = runs[0].plot()
    assert {one.name for one in plots} >= {"attempts", "response-cdf", "backlog-wan.forward"}
    assert plots["attempts"].figure.axes
    assert [one.name for one in runs[0].plot("backlog")] == ["backlog-wan.forward"]
    assert {path.suffix for path in runs[0].plot("backlog").write(tmp_path)} == {".png", ".svg"}
    (pdf,) = runs[0].plot("backlog").write(tmp_path, "pdf")
    data = pdf.read_bytes()
    # Text is text in an embedded font (TrueType), not outlines (Type 3); and there is no date.
    assert data.startswith(b"%PDF-")
    assert b"/FontFile2" in data
    assert b"/Type3" not in data
    assert b"/CreationDate" not in data
    with pytest.raises(NarrowsError, match='hint: did you mean "attempts"'):
        runs[0].plot("atempts")


def test_a_notebook_shows_plots_and_tables(runs: list[Run], swept: Sweep) -> None:
    comparison = compare(runs)
    for shown, words in (
        (runs[0], "answered at the first attempt"),
        (comparison, "difference"),
        (swept, "queue.limit"),
        (swept.plot(), "95 % interval"),
    ):
        html = shown._repr_html_()
        assert '<script type="application/json" class="drawing">' in html
        assert words in html
        assert html.count("<table") >= 1


def test_a_notebook_shows_the_tables_of_the_commands(runs: list[Run], swept: Sweep) -> None:
    """A run leaves out metrics without a meaning, a sweep shows means; both show their notes."""
    flagged = copy(runs[0])
    vars(flagged)["summary"] = {**runs[0].summary, "flags": ["a queue stood still"]}
    html = flagged._repr_html_()
    assert summary_table(flagged)._repr_html_() in html
    assert "warning: a queue stood still" in html
    assert flagged.summary["queues"]["wan.forward"]["run"]["marks_total_per_s"] == 0.0
    assert ">marks<" not in html
    assert sweep_text(swept)._repr_html_() in swept._repr_html_()
    comparison = compare(runs)
    assert comparison.table()._repr_html_() in comparison._repr_html_()


@pytest.mark.parametrize("kind", [Run, Sweep, Comparison])
def test_what_cannot_be_drawn_shows_its_table(
    kind: type, runs: list[Run], swept: Sweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    def plot(_result: object) -> None:
        raise NarrowsError("a table lacks a column")

    results: dict[type, Run | Sweep | Comparison] = {
        Run: runs[0],
        Sweep: swept,
        Comparison: compare(runs),
    }
    monkeypatch.setattr(kind, "plot", plot)
    html = results[kind]._repr_html_()
    assert "<script" not in html
    assert "<table>" in html


def test_a_sweep_plots_what_nobody_named(swept: Sweep) -> None:
    plot = swept.plot()
    assert (plot.metric.key, plot.against) == ("dns.first_attempt_percent", "queue.limit")
    assert swept.plot("loss_percent", "limit").metric.key.endswith("loss_percent")
    with pytest.raises(NarrowsError, match="no key has several values"):
        swept.plot(where={"queue.limit": 20})


def test_progress_is_shown_where_asked_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "EVERY_S", 0.0)
    whole = run(SCENARIO)
    assert capsys.readouterr().err == ""
    assert run(SCENARIO, progress=True).flows.equals(whole.flows)
    assert "% done" in capsys.readouterr().err
    assert sweep(SCENARIO, seeds=2, workers=1, progress=True).complete
    assert "% done" in capsys.readouterr().err


def test_comparisons_are_short_in_a_console(runs: list[Run], swept: Sweep) -> None:
    assert len(repr(compare(runs))) < 300
    with pytest.raises(NarrowsError, match=r"hint: compare_sweeps\(\[sweep\]\)"):
        compare([swept])  # type: ignore[list-item]

"""What results show of themselves in a session."""

from __future__ import annotations

from pathlib import Path

import pytest

from narrows import NarrowsError, Run, Sweep, progress, run, sweep
from narrows.results import compare

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


def test_a_run_plots_the_figures_of_its_report(runs: list[Run], tmp_path: Path) -> None:
    figures = runs[0].plot()
    assert {one.name for one in figures} >= {"attempts", "response-cdf", "backlog-wan.forward"}
    assert figures["attempts"].figure.axes
    assert [one.name for one in runs[0].plot("backlog")] == ["backlog-wan.forward"]
    assert {path.suffix for path in runs[0].plot("backlog").write(tmp_path)} == {".png", ".svg"}
    (pdf,) = runs[0].plot("backlog").write(tmp_path, "pdf")
    data = pdf.read_bytes()
    # Text as text: in a font that is embedded (TrueType), not as outlines (Type 3); and no date.
    assert data.startswith(b"%PDF-")
    assert b"/FontFile2" in data
    assert b"/Type3" not in data
    assert b"/CreationDate" not in data
    with pytest.raises(NarrowsError, match='hint: did you mean "attempts"'):
        runs[0].plot("atempts")


def test_a_notebook_shows_figures_and_tables(runs: list[Run], swept: Sweep) -> None:
    comparison = compare(runs)
    for shown, words in (
        (runs[0], "answered at the first attempt"),
        (comparison, "difference"),
        (swept, "queue.limit"),
        (swept.plot(), "95 % interval"),
    ):
        html = shown._repr_html_()
        assert '<img alt="' in html
        assert "data:image/svg+xml;base64," in html
        assert words in html
        assert html.count("<table") >= 1


def test_a_run_whose_figures_cannot_be_drawn_shows_its_table(
    runs: list[Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    def plot(_run: Run) -> None:
        raise NarrowsError("a table lacks a column")

    monkeypatch.setattr(Run, "plot", plot)
    html = runs[0]._repr_html_()
    assert "<img" not in html
    assert "answered at the first attempt" in html


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

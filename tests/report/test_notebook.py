"""Plots in a notebook."""

from __future__ import annotations

from pathlib import Path

import pytest
from browser import ask
from synthetic_run import synthetic_run

from narrows.report import notebook
from narrows.report.run_report import run_plots

pytestmark = pytest.mark.slow


def test_a_notebook_carries_the_library_once_and_draws_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notebook, "_sent", [])
    made = synthetic_run(duration_s=600.0, workers=10)
    outputs = [made._repr_html_(), made.plot("backlog")._repr_html_()]
    assert outputs[0].count("https://github.com/leeoniya/uPlot") == 1
    assert "https://github.com/leeoniya/uPlot" not in outputs[1]
    # The data of a run, however long it is.
    assert sum(len(text.encode()) for text in notebook.data_of(run_plots(made))) <= 60_000
    assert len(outputs[1]) < 60_000
    # The second output comes first: it waits for the library.
    body = outputs[1] + outputs[0]
    page = (
        '<html><head><meta http-equiv="Content-Security-Policy" content="default-src '
        "'unsafe-inline'; script-src 'unsafe-inline'\"></head><body>"
        f"{body}</body></html>"
    )
    question = """
    found.plots = made.length;
    found.figures = figures.length;
    found.points = made[0].data[0].length;
    """
    found = ask(page, question, tmp_path)
    assert found["wrong"] == []
    assert found["figures"] == len(run_plots(made)) + 1
    assert found["plots"] == found["figures"] - 1
    assert found["points"] > 50

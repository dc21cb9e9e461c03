"""The plots of a page's curves, in a browser."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from synthetic_run import LINK, synthetic_run

from narrows.report import figures, write_comparison, write_run_report
from narrows.report.live import curves
from narrows.results import Run, compare

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), ""
)

# Runs after the page's own script, and keeps the plots that it makes, to examine them.
ASK = """
<script>
const made = [];
const Plot = uPlot;
uPlot = function (...given) { const plot = new Plot(...given); made.push(plot); return plot; };
Object.assign(uPlot, Plot);
(async () => {
  const settled = () => new Promise((done) => setTimeout(done, 50));
  const found = { buttons: document.querySelectorAll("button.live").length };
  const figure = [...document.querySelectorAll("figure")].find((each) =>
    each.querySelector("script.curves")?.textContent.includes("Backlog of the queue"));
  const button = figure.querySelector("button.live");
  button.click();
  await settled();
  const plot = made[0];
  const ends = () => [plot.scales.x.min, plot.scales.x.max];
  found.shown = [figure.querySelector("svg").style.display, button.textContent];
  found.whole = ends();
  found.series = plot.series.slice(1).map((one) => one.label);
  plot.setScale("x", { min: 10, max: 20 });
  await settled();
  found.zoomed = ends();
  plot.over.dispatchEvent(new MouseEvent("dblclick", { bubbles: true }));
  await settled();
  found.again = ends();
  plot.setCursor({ left: plot.over.clientWidth / 2, top: 10 });
  await settled();
  const rows = [...figure.querySelectorAll(".u-legend .u-series:not(.seed)")];
  found.values = rows.map((row) => row.querySelector(".u-value").textContent);
  rows[1].querySelector("th").dispatchEvent(new MouseEvent("click", { bubbles: true }));
  await settled();
  found.drawn = plot.series.slice(1).map((one) => one.show);
  button.click();
  found.back = [figure.querySelector("svg").style.display, button.textContent];
  const answer = document.createElement("pre");
  answer.id = "answer";
  answer.textContent = JSON.stringify(found);
  document.body.append(answer);
})();
</script>
"""


def in_browser(page: str, folder: Path) -> dict[str, Any]:
    """What `ASK` finds on a page in Chromium, which has no network."""
    if not CHROMIUM:
        pytest.skip("needs Chromium: apt-get install chromium")
    path = folder / "asked.html"
    path.write_text(page.replace("</body>", f"{ASK}</body>"), encoding="utf-8")
    done = subprocess.run(
        [
            CHROMIUM,
            *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
            *("--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={folder / 'profile'}"),
            *("--virtual-time-budget=20000", "--window-size=1000,900", "--dump-dom", path.as_uri()),
        ],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    answer = re.search(r'<pre id="answer">(.*?)</pre>', done.stdout, re.DOTALL)
    assert answer, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(unescape(answer[1]))
    return found


@pytest.mark.slow
def test_plots_zoom_tell_values_and_leave_groups_out(tmp_path: Path) -> None:
    runs = [
        synthetic_run(kind=kind, seed=seed, duration_s=60.0, workers=5)
        for kind in ("bfifo", "red")
        for seed in (1, 2)
    ]
    page = write_comparison(compare(runs), tmp_path).read_text(encoding="utf-8")
    found = in_browser(page, tmp_path)
    assert found["buttons"] == page.count('class="curves"') >= 5
    assert found["shown"] == ["none", "Show the picture"]
    assert found["whole"] == found["again"] == [0.0, 60.0]
    assert found["zoomed"] == [10, 20]
    another = ", another seed"
    names = ["testbed-bfifo", "testbed-red"]
    assert found["series"] == [name + seed for name in names for seed in ("", another)]
    # In the middle of the figure: the time, and the backlog of each case whose run lasts that long.
    time, *backlogs = map(float, found["values"])
    assert time == pytest.approx(30.0, abs=0.5)
    for backlog, run in zip(backlogs, (runs[0], runs[2]), strict=True):
        near = np.abs(run.queues.get_column("t_s").to_numpy() - time) < 1.0
        there = run.queues.get_column("backlog_bytes").to_numpy()[near] * 1e-3
        assert there.min() * 0.99 <= backlog <= there.max() * 1.01
    # The first group with its other seed is switched off.
    assert found["drawn"] == [False, False, True, True]
    assert found["back"] == ["", "Zoom and read values"]


def test_a_page_embeds_the_library_once_and_only_where_it_has_curves(tmp_path: Path) -> None:
    run = synthetic_run(duration_s=60.0, workers=5)
    text = write_run_report(run, tmp_path / "a").read_text(encoding="utf-8")
    assert text.count("https://github.com/leeoniya/uPlot") == 1
    empty = Run(
        scenario={"name": "empty"},
        seed=1,
        backend="sim",
        status="partial",
        stopped="interrupted",
        end_s=0.0,
        events=0,
        tables={},
        narrows="0",
    )
    text = write_run_report(empty, tmp_path / "b").read_text(encoding="utf-8")
    assert "<script" not in text


def test_curves_are_what_the_figure_draws() -> None:
    run = synthetic_run(duration_s=60.0, workers=5)
    hostile = "</script><b>"
    drawn = curves(figures.backlogs({hostile: run}, LINK))
    assert drawn is not None
    assert "<" not in drawn
    document = json.loads(drawn)
    (one,) = document["series"]
    assert one["label"] == hostile
    assert (document["x"], document["y"], document["log"]) == ("time (s)", "backlog (kB)", False)
    assert max(one["y"]) == pytest.approx(run.queues["backlog_bytes"].max() * 1e-3, rel=1e-4)
    assert curves(figures.attempts(run)) is None

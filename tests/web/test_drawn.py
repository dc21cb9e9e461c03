"""The range over seeds in plots, and plots as SVG."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from narrows.lab.server import Server

from .browser import Page

SVG = "{http://www.w3.org/2000/svg}"


def test_the_range_over_seeds_is_a_band_around_the_curve(server: Server, page: Page) -> None:
    page.follow(f"{server.address}#dns-over-tls")
    page.ask("document.getElementById('seeds').click()")
    page.until("document.getElementById('plots').textContent.includes('range over seeds')")
    outside = page.ask(
        """[...document.querySelectorAll(".card")].filter(({ drawing }) =>
            drawing?.curves?.some(({ shape }) => shape === "band")).map(({ drawing }) => {
          const band = drawing.curves.find(({ shape }) => shape === "band");
          const main = drawing.curves.find(({ label }) => band.label.startsWith(`${label}, `));
          const off = band.x.filter((t, n) => {
            const y = main.y[main.x.indexOf(t)];
            const first = band.x.indexOf(t);
            return y < band.low[first] || y > band.high[first];
          });
          const wide = band.x.filter((_, n) => band.high[n] > band.low[n]);
          return [drawing.title, band.x.length, off.length, wide.length];
        })"""
    )
    assert len(outside) >= 2
    for title, points, off, wide in outside:
        assert points > 10 and off == 0 and wide > 0, title


def test_a_plot_is_saved_as_svg(server: Server, page: Page) -> None:
    page.follow(f"{server.address}#dns-behind-red")
    page.ask(
        """globalThis.saved = [];
        URL.createObjectURL = (blob) => { saved.push(blob.text()); return "#"; };
        HTMLAnchorElement.prototype.click = () => {};
        document.querySelectorAll("button.save").forEach((button) => button.click())"""
    )
    page.until("saved.length === document.querySelectorAll('.card').length")
    files = page.ask("Promise.all(saved)")
    queue = next(ET.fromstring(file) for file in files if "Queue at" in file)
    texts = [each.text for each in queue.iter(f"{SVG}text")]
    assert {"Queue at bottleneck.forward", "time (s)", "kB", "backlog", "RED's average", "min"} <= {
        *texts
    }
    paths = [each.get("d", "") for each in queue.iter(f"{SVG}path")]
    assert len(paths) == 2 and all(path.count("L") > 100 for path in paths)
    assert not any("NaN" in file or "undefined" in file for file in files)
    bars = next(ET.fromstring(file) for file in files if "DNS answered by" in file)
    assert any(each.text == "attempt 1" for each in bars.iter(f"{SVG}text"))

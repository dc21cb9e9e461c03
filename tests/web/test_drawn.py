"""The range over seeds in plots, and plots as SVG."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

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


SHOW = """(async () => {
  const { show } = await import("./draw.mjs");
  globalThis.x = Float64Array.from({ length: 200_000 }, (_, n) => n / 1000);
  globalThis.y = x.map((at, n) => (n === 120_001 ? 900 : n % 5 === 0 ? NaN : (n * 7919) % 101));
  globalThis.boxes = [1, 2].map((n) => {
    const box = document.createElement("article");
    document.getElementById("plots").append(box);
    show(box, { title: `${n}`, x: "samples", y: "kB", curves: [{ label: "y", x, y }] });
    return box;
  });
})()"""
SEEN = """(({ data: [x, y], scales }) => x.map((at, n) => [at, y[n]]).filter(([at]) =>
    at >= scales.x.min && at <= scales.x.max))(boxes[1].drawn.plot)"""
WHOLE = "boxes[0].drawn.whole()"


def zoom(page: Page, low: float, high: float) -> None:
    page.ask(f"void boxes[0].drawn.plot.setScale('x', {{ min: {low}, max: {high} }})")


def test_a_zoom_shows_every_sample_where_there_is_room(server: Server, page: Page) -> None:
    """Also in the plot beside it, which zooms along; and from one zoom to the next."""
    page.follow(f"{server.address}#dns-over-tls")
    page.ask(SHOW)
    coarse = page.ask(SEEN)
    assert len(coarse) <= 2400
    # Of each column the largest, and no gap where there are numbers.
    assert [120.001, 900] in coarse and None not in [y for _, y in coarse]
    for low in (119.5, 60.0):
        zoom(page, low, low + 2)
        page.until(f"{SEEN}.length > 1900")
        true = page.ask(
            f"""[...x.keys()].filter((n) => x[n] >= {low} && x[n] <= {low + 2})
              .map((n) => [x[n], Number.isNaN(y[n]) ? null : y[n]])"""
        )
        assert page.ask(SEEN) == true and len(true) == 2001
    # Beyond the ends of the view, the coarse points stay, so that a way back is not blank.
    assert page.ask("boxes[1].drawn.plot.data[0][0]") < 1
    page.ask(WHOLE)
    page.until(f"{SEEN}.length <= 2400")
    assert [120.001, 900] in page.ask(SEEN)
    page.ask("boxes.forEach((box) => { box.drawn.destroy(); box.remove(); })")


@pytest.mark.parametrize(
    ("low", "high"), [(0, 200), (0.0005, 150.3), (20, 30), (-5, -1), (300, 400)]
)
def test_each_column_has_its_least_and_its_largest_sample(
    server: Server, page: Page, low: float, high: float
) -> None:
    """As a search through all samples finds them, at any edge of a column."""
    page.follow(f"{server.address}#dns-over-tls")
    wrong = page.ask(
        f"""(async () => {{
          const {{ Samples }} = await import("./samples.mjs");
          const x = Float64Array.from({{ length: 20_011 }}, (_, n) => n / 100);
          const y = x.map((at, n) => ((n * 7919) % 1009) - 500);
          const kept = new Samples({{ x, y }}, 100).between({low}, {high});
          if (kept.some((at, n) => n && at < kept[n - 1])) return "not in order";
          const from = x.findLastIndex((at) => at <= {low});
          const end = x.findIndex((at) => at >= {high});
          const [first, last] = [Math.max(from, 0), end < 0 ? x.length : end + 1];
          const edge = (n) => first + Math.floor((n * (last - first)) / 100);
          for (let column = 0; last > first && column < 100; column += 1) {{
            const values = [...y.subarray(edge(column), edge(column + 1))];
            if (!values.length) continue;
            for (const value of [Math.min(...values), Math.max(...values)]) {{
              const is = (at) => at >= edge(column) && at < edge(column + 1) && y[at] === value;
              if (!kept.some(is)) return `column ${{column}} lacks ${{value}}`;
            }}
          }}
          return kept.length > 420 ? `${{kept.length}} samples` : "";
        }})()"""
    )
    assert wrong == ""


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

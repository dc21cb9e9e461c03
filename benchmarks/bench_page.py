"""The laboratory page: its engine's speed, the time to the first picture, and its size.

Processor times of the engine are the least of several rounds, native and WebAssembly in turn. The
times to the first picture are those that a reader waits: from the move of a knob until all plots
show the first part of its run.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from narrows import Scenario, _core  # noqa: E402
from narrows.lab.build import SITE  # noqa: E402
from narrows.lab.server import Server, site  # noqa: E402
from tests.web.browser import LATER, Page  # noqa: E402

EXAMPLES = ("dns-behind-red", "dns-behind-fq-codel", "rate-change", "voip-and-downloads")
ROUNDS = 5
FIRST = "dns-behind-red"


def native(plan: str) -> float:
    """Processor time of a run, in s."""
    simulation = _core.Simulation(plan)
    clock = time.process_time()
    while not simulation.advance(1_000_000):
        pass
    return time.process_time() - clock


def webassembly(plan: str, folder: Path) -> float:
    """The least of eight runs in one process, whose compiler is then warm, in s."""
    (folder / "plan.json").write_text(plan)
    command = ["node", Path(__file__).with_name("page_speed.mjs"), SITE / "engine.wasm"]
    words = [*command, folder / "plan.json", "8"]
    return float(subprocess.run(words, capture_output=True, text=True, check=True).stdout)


def speed(folder: Path) -> None:
    """Prints how fast the engine is, compared with the native one."""
    for name in EXAMPLES:
        plan = json.dumps(Scenario.load(ROOT / "scenarios" / f"{name}.toml").plan())
        pairs = [(native(plan), webassembly(plan, folder)) for _ in range(ROUNDS)]
        here, there = (min(times) for times in zip(*pairs, strict=True))
        print(f"{name}: native {here:.3f} s, WebAssembly {there:.3f} s, speed {here / there:.2f}")


def pictures(folder: Path) -> None:
    """Prints how long a reader waits for the first picture."""
    with Server(site()) as server, Page(folder) as page:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        page.size(1280, 900)
        first = "Number(document.body.dataset.firstMs)"
        cold = []
        for _ in range(ROUNDS):
            page.open(f"{server.address}#{FIRST}")
            cold.append(page.ask(first))
        warm = []
        for number in range(2 * ROUNDS):
            page.ask(
                f"""(() => {{ const input = document.querySelector("[name=delay]");
                  input.value = {number}; input.dispatchEvent(new Event("input")); }})()"""
            )
            page.until("document.body.dataset.state === 'done'")
            warm.append(page.ask(first))
        server.shutdown()
    for name, times in (("cold", cold), ("warm", warm)):
        print(f"first picture, {name}: {median(times):.0f} ms (least {min(times):.0f} ms)")


def zooms(folder: Path) -> None:
    """Prints the script's time for a zoom step of six linked plots of a million samples each.

    It is processor time of all that the page's thread does, so other programs on the machine do not
    count.
    """
    with Server(site()) as server, Page(folder) as page:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        page.size(1280, 900)
        page.open(f"{server.address}#{FIRST}")
        page("Performance.enable", timeDomain="threadTicks")

        def took(expression: str) -> float:
            before = busy_s(page)
            page.ask(expression)
            return 1e3 * (busy_s(page) - before)

        drawn = took(
            """(async () => {
              const { show } = await import("./draw.mjs");
              const x = Float64Array.from({ length: 1_000_000 }, (_, n) => n / 1e4);
              const y = x.map((at) => Math.sin(at) + Math.random());
              globalThis.boxes = [1, 2, 3, 4, 5, 6].map((n) => {
                const box = document.createElement("article");
                document.getElementById("plots").append(box);
                const curves = [{ label: "y", x, y }];
                show(box, { title: `${n}`, x: "samples", y: "kB", curves });
                return box;
              });
            })()"""
        )
        page.ask("new Promise((done) => setTimeout(done, 1000))")
        steps, finer = [], []
        for number in range(40):
            ends = f"{{ min: {1.2 * number}, max: {100 - 1.2 * number} }}"
            # uPlot draws in a microtask.
            steps.append(took(f"void boxes[0].drawn.plot.setScale('x', {ends})"))
            finer.append(took("new Promise((done) => setTimeout(done, 300))") / 6)
        points = page.ask("boxes[5].drawn.plot.data[0].filter((x) => x > 47 && x < 53).length")
        server.shutdown()
    print(f"six plots of a million samples: made and drawn in {drawn:.0f} ms")
    print(f"a zoom step of all six: {median(steps):.1f} ms (most {max(steps):.1f} ms)")
    print(f"finer points, for each plot: {median(finer):.1f} ms (most {max(finer):.1f} ms)")
    print(f"points of the last zoom: {points}")


def busy_s(page: Page) -> float:
    """The processor time of the page's thread so far."""
    metrics = page("Performance.getMetrics")["metrics"]
    return next(float(one["value"]) for one in metrics if one["name"] == "TaskDuration")


def sizes() -> None:
    """Prints what is sent to browsers, and to those that do not know Brotli."""
    files = site()
    for accepted in ("br, gzip", "gzip"):
        sent = {name: len(served.encoded(accepted)[1]) for name, served in files.items()}
        first = [size for name, size in sent.items() if not name.startswith(LATER)]
        before = sum(first) + sent[f"examples/{FIRST}.json"]
        print(f"sent before the first picture ({accepted}): {before / 1e3:.0f} kB, of which")
        print(f"  the engine has {sent['engine.wasm'] / 1e3:.0f} kB")
    stored = sum(len(each.compressed) + len(each.brotli or b"") for each in files.values())
    print(f"all files, in a wheel: {stored / 1e3:.0f} kB")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        speed(Path(name))
        pictures(Path(name))
        zooms(Path(name))
    sizes()

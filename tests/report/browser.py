"""Pages in Chromium, without a network: what a script finds on them."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), ""
)

# Before the page's own script: keeps what goes wrong.
_BEFORE = """
<script>
const wrong = [];
addEventListener("error", (event) => wrong.push(event.message));
addEventListener("securitypolicyviolation", (event) => wrong.push(event.violatedDirective));
addEventListener("unhandledrejection", (event) => wrong.push(String(event.reason)));
for (const kind of ["error", "warn"]) {
  console[kind] = (...words) => wrong.push(words.join(" "));
}
</script>
"""

# After it, and after the page's module: has what questions need.
_AFTER = """
<script type="module">
const settled = () => new Promise((done) => setTimeout(done, 80));
const figures = [...document.querySelectorAll("figure")];
const made = figures.map((each) => each.drawn?.plot).filter(Boolean);
// The figure whose title begins so, and its plot.
async function shown(title) {
  await settled();
  const figure = figures.find((each) =>
    (each.querySelector(".title")?.textContent ?? "").startsWith(title));
  return [figure, figure.drawn.plot];
}
const ends = (plot, key) => [plot.scales[key].min, plot.scales[key].max];
// What the legend says with the pointer at a value of x.
async function read(figure, plot, x) {
  plot.setCursor({ left: plot.valToPos(x, "x"), top: 10 });
  await settled();
  const rows = [...figure.querySelectorAll(".legend .entry")];
  return [figure.querySelector(".legend .at").textContent, ...rows.map((row) =>
    row.querySelector("span").textContent + "=" + row.querySelector("output").textContent)];
}
async function click(figure, number) {
  figure.querySelectorAll(".legend .entry")[number].click();
  await settled();
}
// How many points of the plot have nearly this colour, between two heights in y's values.
function painted(plot, color, low, high) {
  const { left, width } = plot.bbox;
  const [top, bottom] = [high, low].map((y) => Math.round(plot.valToPos(y, "y", true)));
  const data = plot.ctx.getImageData(left, top, width, Math.max(1, bottom - top)).data;
  const want = [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16));
  let count = 0;
  for (let at = 0; at < data.length; at += 4) {
    if (want.every((value, n) => Math.abs(value - data[at + n]) < 24)) { count += 1; }
  }
  return count;
}
(async () => {
  const found = {};
  await settled();
  try { QUESTION } catch (error) { wrong.push(String(error)); }
  found.wrong = wrong;
  const answer = document.createElement("pre");
  answer.id = "answer";
  answer.textContent = JSON.stringify(found);
  document.body.append(answer);
})();
</script>
"""


def _digest(element: str) -> str:
    """How a policy names a script element."""
    text = re.sub(r"^<script[^>]*>|</script>$", "", element.strip())
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def ask(
    page: str, question: str, folder: Path, *, width: int = 1000, dark: bool = False
) -> dict[str, Any]:
    """What a question, in JavaScript, finds on a page: it fills in the object `found`.

    `wrong` has the page's errors and warnings.
    """
    if not CHROMIUM:
        pytest.skip("needs Chromium: apt-get install chromium")
    after = _AFTER.replace("QUESTION", question)
    text = page.replace("<body>", f"<body>{_BEFORE}").replace("</body>", f"{after}</body>")
    # The page's policy holds, and lets these two scripts run as well.
    ours = "".join(f"'{_digest(each)}' " for each in (_BEFORE, after))
    assert text.count("script-src '") == 1
    if "script-src 'unsafe-inline'" not in text:
        text = text.replace("script-src '", f"script-src {ours}'")
    path = folder / "asked.html"
    path.write_text(text, encoding="utf-8")
    done = subprocess.run(
        [
            CHROMIUM,
            *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
            *("--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={folder / 'profile'}"),
            *(["--blink-settings=preferredColorScheme=0"] if dark else []),
            f"--window-size={width},900",
            *("--virtual-time-budget=20000", "--dump-dom", path.as_uri()),
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

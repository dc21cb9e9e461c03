"""The chapter on one's own AQM: its notebook is what its Python prints, and its commands work."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from narrows import Run

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import notebook  # noqa: E402 - a tool of this checkout

CHAPTER = (ROOT / "docs" / "own-aqm.md").read_text(encoding="utf-8")


def printed(document: dict[str, Any]) -> dict[str, tuple[float, float]]:
    """The two groups' values of each metric in the table that the notebook prints."""
    outputs = [output for cell in document["cells"] for output in cell.get("outputs", ())]
    [text, *_] = ["".join(output["text"]) for output in outputs if "text" in output]
    rows = re.findall(r"^  (.*?\)?) {2,}([\d.]+) +([\d.]+) +[-+]", text, flags=re.MULTILINE)
    return {name: (float(one), float(other)) for name, one, other in rows}


@pytest.mark.slow
def test_the_notebook_holds_what_the_chapter_prints() -> None:
    """To within a tenth, so that not each change of the simulator needs a new notebook."""
    known = json.loads(notebook.NOTEBOOK.read_text(encoding="utf-8"))
    made = notebook.notebook(CHAPTER)
    for one, other in zip(known["cells"], made["cells"], strict=True):
        assert one["source"] == other["source"], "run python tools/notebook.py"
        kinds = [[each["output_type"] for each in cell.get("outputs", ())] for cell in (one, other)]
        assert kinds[0] == kinds[1]
    before, now = printed(known), printed(made)
    assert len(now) == 4 and before.keys() == now.keys()
    for name, values in now.items():
        assert values == pytest.approx(before[name], rel=0.1), "run python tools/notebook.py"
    # What the chapter says in words.
    waits, busy, times, firsts = now.values()
    assert waits[0] > 190 and waits[1] == pytest.approx(15, rel=0.25)
    assert 0 < busy[0] - busy[1] < 1
    assert times[0] / times[1] == pytest.approx(7, rel=0.1)
    assert 100 - firsts[1] == pytest.approx(100 / 6, rel=0.1) and 100 - firsts[0] < 1.5
    for document in (known, made):
        assert notebook.image(document).startswith(b"\x89PNG")
    assert notebook.IMAGE.read_bytes() == notebook.image(known)


def test_the_notebook_is_one() -> None:
    """What nbformat 4.5's schema requires."""
    known = json.loads(notebook.NOTEBOOK.read_text(encoding="utf-8"))
    assert (known["nbformat"], known["nbformat_minor"]) == (4, 5)
    names = [cell["id"] for cell in known["cells"]]
    assert len(set(names)) == len(names)
    for cell in known["cells"]:
        wanted = {"cell_type", "id", "metadata", "source"}
        if cell["cell_type"] == "code":
            wanted |= {"execution_count", "outputs"}
        assert cell.keys() == wanted
        assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", cell["id"])
    assert sum(len(cell.get("outputs", ())) for cell in known["cells"]) == 3


@pytest.mark.slow
def test_the_commands_for_rust_work(tmp_path: Path) -> None:
    """They build without optimisation here, and runs are shorter, which takes less time."""
    home, built = tmp_path / "narrows", ROOT / "target" / "new"
    home.mkdir()
    (home / "scenarios").symlink_to(ROOT / "scenarios")
    before, after = re.findall(r"```rust,ignore\n(.*?)```\n", CHAPTER, flags=re.DOTALL)
    commands = re.findall(r"^    \$ (.*)$", CHAPTER, flags=re.MULTILINE)
    assert len(commands) == 10
    for number, command in enumerate(commands):
        if number == 6:
            source = tmp_path / "slope" / "src" / "queue.rs"
            text = source.read_text()
            assert text.count(before) == 1
            source.write_text(text.replace(before, after))
        words = shlex.split(command.replace("../slope/target/release", str(built / "debug")))
        if words[0] == "cargo":
            words = [*(word for word in words if word != "--release"), "-q", "--offline"]
        else:
            short = ["--set", "duration=20 s"] if words[1] == "run" else []
            words = [sys.executable, "-m", *words, *short]
        done = subprocess.run(
            words,
            cwd=home,
            env={**os.environ, "CARGO_TARGET_DIR": str(built)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stderr}"
    waits = [
        Run.load(home / "runs" / name).queues["backlog_packets"].mean()
        for name in ("slope", "square", "fifo")
    ]
    assert waits == sorted(waits), "the square lets the queue grow longer"
    assert list((home / "square-against-fifo" / "plots").glob("*.pdf"))

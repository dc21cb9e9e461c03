"""`--plots`: the kinds of files that commands write plots as."""

import json
import re
import zlib
from pathlib import Path
from xml.etree import ElementTree

import pytest

from .conftest import Narrows

EVERY_COMMAND = [
    ["run", "x.toml"],
    ["compare", "a", "b", "--out", "c"],
    ["sweep", "plot", "x", "--metric", "loss_percent", "--against", "seed"],
    ["monitor"],
    ["merge", "a", "b"],
    ["ratio", "x"],
    ["reproduce", "H1"],
    ["study", "dns-transport"],
    ["suite", "rfc7928", "--queue", "codel"],
]


def refused(narrows: Narrows, *arguments: str) -> str:
    done = narrows(*arguments)
    assert done.returncode == 2, done
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr


@pytest.mark.parametrize("command", EVERY_COMMAND, ids=lambda words: words[0])
def test_other_kinds_of_files_are_refused_before_anything_is_done(
    narrows: Narrows, tmp_path: Path, command: list[str]
) -> None:
    line = refused(narrows, *command, "--plots", "png", "--plots", "gif")
    assert line == "error: --plots gif: is not known; hint: one of png, svg, pdf\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("command", "remedy"),
    [
        (["run", "x.toml", "--no-report"], "--no-report"),
        (["monitor", "--no-report"], "--no-report"),
        (["monitor", "--scenario", "x.toml"], "narrows merge"),
        (["merge", "a", "b", "--no-report"], "--no-report"),
        (["ratio", "x", "--no-report"], "--no-report"),
        (["compare", "a", "b"], "--out"),
    ],
)
def test_a_command_that_writes_no_plots_refuses_the_option(
    narrows: Narrows, command: list[str], remedy: str
) -> None:
    line = refused(narrows, *command, "--plots", "pdf")
    assert line.startswith("error: --plots: there are no plots to write; hint: ")
    assert remedy in line


def test_a_run_writes_the_kinds_that_are_asked_for(narrows: Narrows, small: Path) -> None:
    done = narrows("run", str(small), "--out", "run", "--plots", "pdf,svg", "--plots", "SVG")
    assert done.returncode == 0, done.stderr
    files = [*(small.parent / "run" / "plots").iterdir()]
    assert {path.suffix for path in files} == {".pdf", ".svg"}
    assert len({path.stem for path in files}) == len(files) / 2
    for path in files:
        if path.suffix == ".svg":
            _check_svg(path)
        else:
            _check_pdf(path)
    drawn = ElementTree.parse(small.parent / "run" / "plots" / "backlog-bottleneck.forward.svg")
    words = [text.strip() for text in drawn.getroot().itertext()]
    assert {"time (s)", "backlog (kB)", "limit 30 kB", "DNS starts"} <= set(words)


def test_comparisons_and_plots_of_sweeps_write_the_same_kinds(
    narrows: Narrows, small: Path
) -> None:
    vary = ("--vary", "queue.limit=10 kB,30 kB", "--seeds", "2", "--out", "sweep", "--keep-runs")
    assert narrows("sweep", str(small), *vary).returncode == 0
    home = small.parent
    plot = ("--metric", "run.loss_percent", "--against", "limit", "--plots", "pdf", "--json")
    done = narrows("sweep", "plot", "sweep", *plot)
    assert done.returncode == 0, done.stderr
    (plotted,) = json.loads(done.stdout)["files"]
    runs = sorted(str(path.parent) for path in home.glob("sweep/runs/*/run.json"))
    done = narrows("compare", *runs, "--out", "both", "--plots", "pdf", "--plots", "svg")
    assert done.returncode == 0, done.stderr
    files = [*(home / "both" / "plots").iterdir()]
    assert {path.suffix for path in files} == {".pdf", ".svg"}
    for path in (home / plotted, *files):
        (_check_pdf if path.suffix == ".pdf" else _check_svg)(path)


def _check_svg(path: Path) -> None:
    """Its letters are text, not outlines."""
    root = ElementTree.parse(path).getroot()
    texts = [each for each in root.iter() if each.tag.endswith("}text")]
    assert len(texts) > 5, path
    glyphs = [each for each in root.iter() if "DejaVu" in (each.get("id") or "")]
    assert glyphs == [], path


def _check_pdf(path: Path) -> None:
    """Its fonts are TrueType with a map to characters; none is Type 3, which has only outlines."""
    data = path.read_bytes()
    assert data.startswith(b"%PDF-")
    streams = re.findall(rb"stream\r?\n(.*?)\r?\nendstream", data, re.DOTALL)
    whole = data + b"".join(filter(None, map(_inflated, streams)))
    assert b"/Type3" not in whole, path
    assert b"/CIDFontType2" in whole, path
    assert b"/ToUnicode" in whole, path


def _inflated(stream: bytes) -> bytes | None:
    try:
        return zlib.decompress(stream)
    except zlib.error:
        return None

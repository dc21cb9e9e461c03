"""What plots' files say about themselves, read back from their bytes."""

import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from made_sweeps import LIMITS, made
from PIL import Image
from synthetic_run import synthetic_run

import narrows
from narrows.report import plot_sweep
from narrows.results import Run, compare
from narrows.results.folder import parquet

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def run() -> Run:
    return synthetic_run(duration_s=20.0, workers=10)


def test_pdf_says_which_run_it_shows(run: Run, tmp_path: Path) -> None:
    saved = run.save(tmp_path / "run")
    written = json.loads((tmp_path / "run/run.json").read_text())
    assert saved.digest == run.digest == Run.load(tmp_path / "run").digest == written["digest"]
    name = "dns-behind-red & (co)\\ Zürich"
    other = replace(run, scenario={**run.scenario, "name": name}, set={"queue.limit": 7})
    for one in (run, saved, Run.load(tmp_path / "run"), other):
        [path] = one.plot("backlog").write(tmp_path / "plots", "pdf")
        data = path.read_bytes()
        assert (
            path.read_bytes()
            == one.plot("backlog").write(tmp_path / "again", "pdf")[0].read_bytes()
        )
        found = information(data)
        assert set(found) == {"Title", "Subject", "Keywords", "Creator"}, "no date"
        assert found["Title"] == one.plot("backlog")[path.stem].drawing.title
        assert found["Subject"].startswith("Curve: the backlog at")
        assert found["Creator"] == f"narrows {narrows.__version__}"
        assert found["Keywords"].split("; ") == [
            f"scenario={one.name}",
            *(["set=queue.limit=7"] if one is other else []),
            "seed=1",
            "backend=sim",
            f"narrows={one.narrows}",
            f"run.json={one.digest}",
        ]
    assert other.digest != run.digest


def test_svg_and_png_say_which_run_they_show(run: Run, tmp_path: Path) -> None:
    png, svg = run.plot("backlog").write(tmp_path)
    root = ElementTree.fromstring(svg.read_bytes())
    dublin = "{http://purl.org/dc/elements/1.1/}"
    title = root.find(f".//{dublin}title")
    assert title is not None and title.text
    rdf = "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}"
    words = [each.text for each in root.iterfind(f".//{dublin}subject//{rdf}li")]
    assert f"run.json={run.digest}" in words
    with Image.open(png) as image:
        assert image.info["Title"] == title.text
        assert image.info["Comment"].split("; ") == words
        assert image.info["Software"] == f"narrows {narrows.__version__}"


def test_files_of_a_comparison_name_all_runs(run: Run, tmp_path: Path) -> None:
    other = replace(run, scenario={**run.scenario, "name": "other"})
    [path] = compare([run, other]).plot("backlog").write(tmp_path, "pdf")
    words = information(path.read_bytes())["Keywords"]
    assert words.count("group=") == 2
    assert f"run.json={run.digest}" in words
    assert f"run.json={other.digest}" in words


def test_files_of_a_sweep_name_its_table(tmp_path: Path) -> None:
    sweep = made((LIMITS,))
    [path] = plot_sweep(sweep, "loss_percent", "limit").write(tmp_path, ["pdf"])
    words = information(path.read_bytes())["Keywords"].split("; ")
    assert words == [
        f"scenario={sweep.name}",
        "vary=queue.limit",
        "seeds=1,2,3",
        "backend=sim",
        f"narrows={sweep.narrows}",
        f"sweep.parquet={hashlib.sha256(parquet(sweep.table)).hexdigest()}",
    ]


def information(data: bytes) -> dict[str, str]:
    """The entries of a PDF's document information dictionary (ISO 32000-1, 14.3.3)."""
    trailer = re.search(rb"/Info (\d+) 0 R", data[data.rindex(b"trailer") :])
    assert trailer is not None
    [body] = re.findall(rb"\n%s 0 obj\n<<(.*?)>>\nendobj" % trailer[1], data, flags=re.DOTALL)
    found = re.findall(rb"/(\w+)\s*\(((?:\\.|[^\\)])*)\)", body, flags=re.DOTALL)
    escapes = {b"n": b"\n", b"r": b"\r"}
    texts = {}
    for key, text in found:
        plain = re.sub(rb"\\(.)", lambda c: escapes.get(c[1], c[1]), text, flags=re.DOTALL)
        # PDFDocEncoding, whose printable ASCII is ASCII, or UTF-16 (7.9.2.2).
        coding = "utf-16" if plain.startswith(b"\xfe\xff") else "ascii"
        texts[key.decode()] = plain.decode(coding)
    return texts

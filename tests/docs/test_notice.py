"""NOTICE says where each file of data comes from, and names only what is there."""

from __future__ import annotations

import re
import subprocess
from fnmatch import fnmatch
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
NOTICE = (CHECKOUT / "NOTICE").read_text(encoding="utf-8")
DATA = (
    ".bin",
    ".csv",
    ".der",
    ".dnstap",
    ".geojson",
    ".gz",
    ".json",
    ".jsonl",
    ".parquet",
    ".pcap",
)
DATA += (".pcapng", ".pem", ".png", ".svg", ".txt")
OTHERS = ("docs/reference/*", "requirements-dev.txt", "gateway/monitoring/*")
"""Generated from the code, or settings."""


def tracked() -> list[str]:
    listed = ["git", "ls-files"]
    done = subprocess.run(listed, cwd=CHECKOUT, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def named(part: str) -> list[str]:
    """The files, folders and patterns at the beginnings of lines in a part of NOTICE."""
    _, _, rest = NOTICE.partition(f"{part}\n=")
    text = rest.partition("\n\n\n")[0]
    lines = [line for line in text.splitlines() if re.match(r"[a-z][\w/*.-]*/", line)]
    return [each for line in lines for each in re.split(r",? +", line.strip(" ,")) if "/" in each]


def covers(name: str, file: str) -> bool:
    return fnmatch(file, f"{name}*" if name.endswith("/") else name)


def test_every_file_of_data_has_an_origin() -> None:
    files = tracked()
    data = [name for name in files if name.endswith(DATA)]
    assert len(data) > 200
    known = [*named("Data and maps"), *OTHERS]
    assert [name for name in data if not any(covers(each, name) for each in known)] == []


def test_everything_that_is_named_is_there() -> None:
    files = tracked()
    names = [*named("Data and maps"), *named("Code of others")]
    assert len(names) > 15
    built = "python/narrows/backends/kernel/narrows-live"
    for name in re.findall(r"(?<![\w/:.])[a-z][\w-]*/[\w/*.-]+", NOTICE):
        name = name.rstrip(".")
        if name != built:
            assert any(covers(name, file) or file.startswith(f"{name}/") for file in files), name


def test_code_of_others_has_its_licence_beside_it() -> None:
    vendor = CHECKOUT / "python/narrows/report/vendor"
    version = re.search(r"uPlot ([\d.]+)", (vendor / "README.md").read_text(encoding="utf-8"))
    assert version is not None
    assert f"uPlot {version[1]}, MIT licence" in NOTICE
    licence = (vendor / "LICENSE-uPlot").read_text(encoding="utf-8")
    assert "Copyright (c) 2022 Leon Sorokin" in licence
    assert "Copyright (c) 2022 Leon Sorokin" in NOTICE


def test_the_map_says_what_it_is_made_with() -> None:
    readme = CHECKOUT / "python/narrows/ratio/data/README.md"
    for text in (NOTICE, readme.read_text(encoding="utf-8")):
        assert "Made with Natural Earth" in " ".join(text.split())

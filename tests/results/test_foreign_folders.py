"""Run folders of strangers: no script, no file elsewhere, no control character, no traceback.

NARROWS_EDITS sets how many folders are edited at random (12; more take about a second each).
"""

from __future__ import annotations

import copy
import json
import os
import random
import re
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from synthetic_run import synthetic_run

from narrows.cli.app import main
from narrows.report.files import file_name
from narrows.results import RUN_FILE, Measurement, Run, RunFolderError, Sweep, TextTable
from narrows.results.checked import fault_of_table
from narrows.results.folder import is_as_written

pytestmark = pytest.mark.slow

EDITS = int(os.environ.get("NARROWS_EDITS", "12"))

ESCAPES = "\x1b[31mred\x9b\x07\x7f\u202e"

ODD: list[Any] = [
    *(None, True, "", "x", 0, -1, 10**19, 10**400, 1e300, -1e300, float("nan"), float("inf")),
    *([], {}, [[]], {"a": [1]}, [1], ["x"], ESCAPES, "../../x", "<b>", "$x^{", "\ud800"),
]

SAMPLE = Path(__file__).parents[2] / "samples" / "csv" / "example.csv"

SWEPT = """
name = "s"
duration = "2 s"
[[links]]
name = "l"
between = ["a", "b"]
rate = "1 Mbit/s"
[[traffic]]
kind = "bulk"
name = "x"
sender = "a"
receiver = "b"
[[dns]]
name = "d"
client = "b"
server = "a"
"""

NAMES = [
    '"><img src=x onerror=alert(1)>',
    "<script>alert(1)</script>",
    "../../../ESC",
    "/tmp/ESC",
    "a\\b",
    "$x^{",
    "x" * 400,
    ESCAPES,
]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("written")
    for seed in (1, 2):
        synthetic_run(seed=seed, duration_s=20.0, workers=3).save(folder / f"{seed}")
    return folder


def compare(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    """The exit code of `narrows compare`, and what it prints."""
    code = main(["compare", *words])
    found = capsys.readouterr()
    return code, found.out + found.err


def is_harmless(text: str) -> bool:
    return all(each.isprintable() for each in text.split("\n"))


@pytest.mark.parametrize("name", NAMES)
def test_a_name_that_no_scenario_may_have_is_refused(
    name: str, written: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, out = tmp_path / "edited", tmp_path / "out"
    shutil.copytree(written / "1", folder)
    link = "bottleneck"
    document = json.loads((folder / RUN_FILE).read_text())
    text = json.dumps(document).replace(link, json.dumps(name)[1:-1])
    document = json.loads(text)
    for path in folder.glob("*.parquet"):
        table = pl.read_parquet(path)
        texts = pl.col(pl.String).str.replace_all(link, name, literal=True)
        table.with_columns(texts).write_parquet(path)
        document["files"][path.name] = None
    (folder / RUN_FILE).write_text(json.dumps(document))
    code, said = compare(capsys, str(folder), str(written / "2"), "--out", str(out))
    assert code == 2 and not out.exists()
    assert said.count("\n") == 1 and is_harmless(said) and "is damaged" in said
    assert not list(Path("/tmp").glob("ESC*")) and not list(tmp_path.glob("ESC*"))


def test_a_class_that_no_queue_may_have_is_refused() -> None:
    for name in ("<script>", "x" * 400, ESCAPES, "other classes"):
        found = fault_of_table(pl.DataFrame({"class": ["tin-0", name]}))
        assert found == "column class has a name that no scenario may have"
    assert not fault_of_table(pl.DataFrame({"class": ["tin-0", "@others"]}))


def test_names_of_files_have_nothing_that_leads_elsewhere() -> None:
    for name in [*NAMES, ".", "..", "", "a/../b", "\0"]:
        found = file_name(name)
        assert re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,120}", found)
    assert len({file_name("x" * length) for length in (200, 300, 400)}) == 3


def test_control_characters_reach_nobody(
    written: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "edited"
    shutil.copytree(written / "1", folder)
    document = json.loads((folder / RUN_FILE).read_text())
    document["stopped"] = document["scenario"]["description"] = ESCAPES
    document["summary"]["flags"] = [ESCAPES]
    document["status"] = "partial"
    (folder / RUN_FILE).write_text(json.dumps(document))
    run = Run.load(folder)
    assert is_harmless(run.stopped) and is_harmless("".join(run.flags))
    code, said = compare(capsys, str(folder), str(written / "2"))
    assert code == 0 and is_harmless(said) and "\\x1b[31mred" in said
    code, said = compare(capsys, str(folder) + ESCAPES, str(written / "2"))
    assert code == 2 and is_harmless(said)


def test_a_folder_knows_whether_it_was_edited(written: Path, tmp_path: Path) -> None:
    shutil.copytree(written / "1", tmp_path / "a")
    assert is_as_written(tmp_path / "a")
    document = json.loads((tmp_path / "a" / RUN_FILE).read_text())
    document["summary"]["dns"]["queries"] += 1
    (tmp_path / "a" / RUN_FILE).write_text(json.dumps(document))
    assert not is_as_written(tmp_path / "a")


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A sweep's folder, and one of a measurement."""
    place = tmp_path_factory.mktemp("others")
    scenario = place / "s.toml"
    scenario.write_text(SWEPT)
    vary = ["--vary", "links.l.rate=1 Mbit/s,2 Mbit/s", "--seeds", "2"]
    assert main(["sweep", str(scenario), *vary, "--out", str(place / "sweep")]) == 0
    assert main(["import", "csv", str(SAMPLE), "--out", str(place / "measurement")]) == 0
    return {name: place / name for name in ("sweep", "measurement")}


COMMANDS = {
    "sweep": [
        ["compare", "FOLDER"],
        ["sweep", "plot", "FOLDER", "--metric", "goodput_mbit_per_s", "--against", "l.rate"],
    ],
    "measurement": [["ratio", "FOLDER"]],
}


@pytest.mark.parametrize("seed", range(EDITS))
@pytest.mark.parametrize("kind", COMMANDS)
def test_edited_sweeps_and_measurements_are_read_or_refused(
    kind: str,
    seed: int,
    others: dict[str, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = tmp_path / "edited"
    shutil.copytree(others[kind], folder)
    edit(folder, random.Random(seed))
    files = {path for path in tmp_path.rglob("*") if folder in path.parents}
    for words in COMMANDS[kind]:
        out = ["--out", str(tmp_path / "out")] if words[0] != "compare" else []
        code = main([*(str(folder) if word == "FOLDER" else word for word in words), *out])
        found = capsys.readouterr()
        assert code in (0, 2) and "a bug" not in found.err, found.err
        assert is_harmless(found.out + found.err)
        assert code == 0 or found.err.startswith("error: "), found.err
    assert {path for path in tmp_path.rglob("*") if folder in path.parents} == files
    assert not list(tmp_path.glob("*ESC*"))


@pytest.mark.parametrize("seed", range(EDITS))
def test_an_edited_folder_is_read_or_refused(
    seed: int, written: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "edited"
    shutil.copytree(written / "1", folder)
    edit(folder, random.Random(seed))
    before = {path for path in tmp_path.rglob("*") if folder in path.parents}
    out = ["--out", str(tmp_path / "out"), "--plots", "svg"] if seed % 6 == 0 else []
    for words in (["compare", str(folder), str(written / "2"), *out], ["ratio", str(folder)]):
        code = main(words if words[0] == "compare" else [*words, "--no-report"])
        found = capsys.readouterr()
        assert code in (0, 2) and "a bug" not in found.err, found.err
        assert is_harmless(found.out + found.err)
        assert code == 0 or found.err.startswith("error: ")
    for path in (tmp_path / "out").rglob("*.svg"):
        assert is_harmless(path.read_text())
    assert {path for path in tmp_path.rglob("*") if folder in path.parents} == before


def edit(folder: Path, draw: random.Random) -> None:
    """Changes one thing, or some, in a file of JSON or a table."""
    texts = [*folder.glob("*.json"), *folder.glob("*.jsonl")]
    chosen = draw.choice(sorted(texts))
    lines = chosen.read_text().splitlines() if chosen.suffix == ".jsonl" else [chosen.read_text()]
    documents = [json.loads(line) for line in lines]
    document = draw.choice(documents)
    if draw.random() < 0.65:
        for _ in range(draw.choice((1, 1, 1, 2, 5))):
            _edit_value(document, draw)
    else:
        path = draw.choice(sorted(folder.glob("*.parquet")))
        _edit_table(path, draw)
        if draw.random() < 0.9:
            # The table's digest is forgotten, or else the edit is found by it.
            for each in documents:
                if "files" in each:
                    each["files"][path.name] = None
    chosen.write_text("\n".join(json.dumps(each) for each in documents) + "\n")


def _edit_value(document: Any, draw: random.Random) -> None:
    places = [place for place in _places(document) if place]
    # Every depth is as likely, because most values lie deep.
    depth = draw.choice(sorted({len(place) for place in places}))
    *above, last = draw.choice([place for place in places if len(place) == depth])
    at = document
    for key in above:
        at = at[key]
    how = draw.random()
    if how < 0.3:
        del at[last]
    elif how < 0.9 or not isinstance(at, dict):
        at[last] = copy.deepcopy(draw.choice(ODD))
    else:
        at[draw.choice(NAMES)] = at.pop(last)


def _places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield place
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from _places(value[key], (*place, key))


def _edit_table(path: Path, draw: random.Random) -> None:
    table = pl.read_parquet(path)
    name = draw.choice(table.columns)
    column = table.get_column(name)
    how = draw.choice(("gone", "cut", "drop", "empty", "type", "value", "null", "order"))
    if how == "gone":
        path.unlink()
    elif how == "cut":
        path.write_bytes(path.read_bytes()[: draw.randrange(path.stat().st_size)])
    elif how == "drop":
        table.drop(name).write_parquet(path)
    elif how == "empty":
        table.head(0).write_parquet(path)
    elif how == "type":
        table.with_columns(pl.lit("x").alias(name)).write_parquet(path)
    elif how == "null":
        table.with_columns(pl.lit(None, dtype=column.dtype).alias(name)).write_parquet(path)
    elif how == "order":
        table.reverse().write_parquet(path)
    else:
        if column.dtype.is_float():
            value: Any = draw.choice((1e300, -1e300, float("nan"), float("inf"), -1.0, 1e9))
        elif column.dtype.is_integer():
            value = draw.choice((0, 1, 200))
        elif column.dtype == pl.String:
            value = draw.choice((*NAMES, "nowhere", ""))
        else:
            value = None
        table.with_columns(pl.lit(value, dtype=column.dtype).alias(name)).write_parquet(path)


@pytest.mark.parametrize("kind", ["run", *COMMANDS])
def test_a_pipe_is_no_file_of_a_folder(
    kind: str, written: Path, others: dict[str, Path], tmp_path: Path
) -> None:
    shutil.copytree(others.get(kind, written / "1"), tmp_path / "edited")
    load = {"run": Run.load, "sweep": Sweep.load, "measurement": Measurement.load}[kind]
    load(tmp_path / "edited")
    signal.signal(signal.SIGALRM, lambda *_: pytest.fail("it waits for the pipe"))
    # narrows writes a sweep's table for other programs, and reads only its rows.
    read = {path for path in (tmp_path / "edited").iterdir() if path.name != "sweep.parquet"}
    for path in sorted(read):
        kept = path.read_bytes()
        path.unlink()
        os.mkfifo(path)
        signal.alarm(30)
        with pytest.raises(RunFolderError):
            load(tmp_path / "edited")
        signal.alarm(0)
        path.unlink()
        path.write_bytes(kept)


def test_what_servers_and_captures_say_is_printable() -> None:
    rows = [{"exchange": 0, "vantage": ESCAPES, "target": ESCAPES, "site": ESCAPES, "detail": None}]
    usual = {"transport": "udp", "outcome": "answered", "started_s": 0.0, "family": 4}
    found = Measurement.of_rows(
        "probe",
        exchanges=[{**usual, **row} for row in rows],
        findings={"remarks": [{"what": ESCAPES, "records": 1}]},
        narrows="1",
    )
    texts = found.exchanges.select(pl.col(pl.String)).row(0)
    assert all(text is None or is_harmless(text) for text in texts)
    assert is_harmless(found.findings["remarks"][0]["what"])
    assert is_harmless(str(TextTable(ESCAPES, (), [(ESCAPES, [(ESCAPES, "1")])], [ESCAPES])))


def test_what_servers_and_captures_say_is_short_enough_to_draw() -> None:
    names = ["x" * 100_000, "x" * 100_000 + "y", ESCAPES * 10_000, "x" * 255]
    rows = [
        {"exchange": number, "vantage": name, "target": name, "transport": "udp"}
        | {"outcome": "answered", "started_s": 0.0, "qname": name}
        for number, name in enumerate(names)
    ]
    found = Measurement.of_rows("probe", exchanges=rows, narrows="1").exchanges
    for column in ("vantage", "target", "qname"):
        texts = found[column].to_list()
        assert len(set(texts)) == 4 and texts[3] == names[3], "different names stay different"
        assert all(len(text) <= 300 and is_harmless(text) for text in texts)


def test_json_that_no_folder_holds_is_refused(tmp_path: Path) -> None:
    for text in ("[" * 70 + "]" * 70, "[" * 10**5, "NaN", "1e999", "1" + "0" * 30, "1" * 5000):
        (tmp_path / RUN_FILE).write_text(f'{{"format": 1, "seed": {text}}}')
        with pytest.raises(RunFolderError, match="is damaged"):
            Run.load(tmp_path)

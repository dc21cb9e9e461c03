"""The study end to end, on a product of a few cells."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest

from narrows.cli.app import main
from narrows.reproduce.hayes_2010.measure import BENCH
from narrows.results import RunFolderError
from narrows.results.gateway_bench import GatewayBench
from narrows.study import Study, dns_transport
from narrows.study.dns_transport.design import EmptyChoiceError, UnknownLevel, blocks
from narrows.study.dns_transport.factors import TRANSPORTS
from narrows.study.dns_transport.measure import response_times
from narrows.study.dns_transport.output import write
from narrows.study.dns_transport.phrases import UNMARKED
from narrows.study.dns_transport.pooled import FACTORS
from narrows.sweeps.axes import axes_of
from narrows.sweeps.conduct import base_values
from narrows.sweeps.plan import make_plan

pytestmark = pytest.mark.slow

FEW = [
    "--place",
    "operator",
    "--transport",
    "udp",
    "--transport",
    "tcp-new",
    "--queue",
    "fifo",
    "--load",
    "none",
]


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> tuple[Study, Path]:
    """UDP, TCP and stateless TCP without other load, with long replies and a path that drops."""
    folder = tmp_path_factory.mktemp("study") / "few"
    levels = {
        "place": ["operator"],
        "transport": ["udp", "udp-tcp", "tcp-new", "tcp-kept", "tcp-stateless"],
        "queue": ["fifo"],
        "load": ["none"],
    }
    study = dns_transport(out=folder, seeds=2, levels=levels, workers=2)
    write(study, folder)
    return study, folder


def metric(study: Study, name: str, **at: str) -> float:
    where = {"path": "clean", "round_trip": "20ms", "reply": "100B", **at}
    (value,) = study.cells.filter(**where).get_column(name).to_list()
    return float(value)


def test_handshakes_cost_the_round_trips_that_they_have(few: tuple[Study, Path]) -> None:
    study, _ = few
    assert study.status == "complete"
    for round_trip, trip_ms in (("20ms", 20.0), ("50ms", 50.0)):
        for name, trips in (("udp", 1), ("tcp-new", 2), ("tcp-kept", 1), ("tcp-stateless", 2)):
            found = metric(study, "response_p50_ms", transport=name, round_trip=round_trip)
            # Half a millisecond of service, and packets' transmission.
            assert trips * trip_ms < found < trips * trip_ms + 2.0


def test_connections_at_the_server_obey_littles_law(few: tuple[Study, Path]) -> None:
    study, _ = few
    # 100 clients pause for 2 s and then have a connection open for the second of two round trips.
    expected = 100 * 0.0207 / (2.0 + 2 * 0.0207)
    found = metric(study, "connections", transport="tcp-new")
    assert found == pytest.approx(expected, rel=0.12)
    assert metric(study, "connections", transport="udp") == 0.0
    # Clients ask every two seconds, and servers wait for ten: e^-5 of the pauses are longer.
    assert metric(study, "connections", transport="tcp-kept") == pytest.approx(100.0, rel=0.02)
    assert metric(study, "connections", transport="tcp-stateless") == 0.0


def test_paths_drop_what_their_names_say(few: tuple[Study, Path]) -> None:
    study, _ = few

    def lost(transport: str, path: str, reply: str) -> float:
        return metric(study, "failed_percent", transport=transport, path=path, reply=reply)

    assert lost("udp", "fragments", "1232B") == 0.0
    assert lost("udp", "fragments", "3000B") == 100.0
    assert lost("udp", "512", "1232B") == 100.0
    assert lost("udp-tcp", "512", "1232B") == lost("tcp-new", "512", "1232B") == 0.0
    # 3000 bytes are more than the client takes over UDP, so it gets a truncated reply at once.
    assert (
        metric(study, "within_1s_percent", transport="udp-tcp", path="fragments", reply="3000B")
        == 100.0
    )
    # Nothing comes, so it waits for 1 and 2 s first.
    assert metric(study, "response_p50_ms", transport="udp-tcp", path="512", reply="1232B") > 3000


def test_the_servers_time_is_what_the_bench_measured(few: tuple[Study, Path]) -> None:
    study, _ = few
    measured = GatewayBench.load(BENCH).summary
    for server in ("bind", "nsd", "knot"):
        for name, arm in (("udp", "udp"), ("tcp-new", "tcp"), ("tcp-stateless", "gateway")):
            found = metric(study, f"cpu_{server}_us", transport=name)
            # Every query is answered at once.
            assert found == pytest.approx(measured[server][arm]["us_per_query_5000qps"], rel=1e-3)
    kept = study.cells.filter(transport="tcp-kept").get_column("cpu_bind_us")
    assert kept.null_count() == kept.len()


def test_the_folder_holds_report_plots_and_tables(few: tuple[Study, Path]) -> None:
    study, folder = few
    document = json.loads((folder / "study.json").read_text())
    assert len(document["cells"]) == study.cells.height == 5 * (1 + 2 + 2 + 4)
    assert {"within_1s_percent", "within_1s_percent_low", "packets_per_answer"} <= document[
        "cells"
    ][0].keys()
    assert pl.read_parquet(folder / "cells.parquet").equals(study.cells)
    page = (folder / "report.html").read_text()
    assert page.index("<svg") < page.index("The answer") < page.index("Every cell")
    for each in document["tables"]:
        assert f"<p>{each['title']}." in page
        assert all(f">{row[0]}</td>" in page for row in each["rows"])
    assert (folder / "plots" / "within-1s-operator-none.png").read_bytes()[:4] == b"\x89PNG"
    assert (folder / "plots" / "within-1s-operator-none.svg").read_text().startswith("<?xml")


def test_a_study_is_read_back(few: tuple[Study, Path], tmp_path: Path) -> None:
    study, folder = few
    again = Study.load(folder)
    assert again.runs.equals(study.runs)
    assert again.document() == study.document()
    with pytest.raises(RunFolderError, match="holds no study"):
        Study.load(tmp_path)
    (tmp_path / "study.json").write_text("[]")
    with pytest.raises(RunFolderError, match="is damaged"):
        Study.load(tmp_path)


def test_percentiles_of_response_times_are_times_of_queries() -> None:
    """One of twenty was answered after 1 s and one never: 19 of 20 took at most 1 s."""
    times = response_times(pl.Series([20.0] * 18 + [1000.0, 17_000.0]))
    assert times == {
        "response_p50_ms": 20.0,
        "response_p95_ms": 1000.0,
        "response_p99_ms": 17_000.0,
    }
    assert set(response_times(pl.Series([], dtype=pl.Float64)).values()) == {None}


def test_every_level_is_a_scenario() -> None:
    names = [line.name for line in TRANSPORTS]
    assert len(set(names)) == len(names)
    for block in blocks({}, variations=True):
        axes = axes_of(block.vary)
        base, file, _ = base_values(block.scenario, {})
        # Each value is tried alone, whatever part of the product is run.
        plan = make_plan(base, file, axes, [1], only=lambda places: not any(places))
        assert len(plan.digests) == 1
        assert block.combinations > len(names)


def test_quick_is_a_part_of_the_whole() -> None:
    for quick, whole in zip(blocks({}, variations=False), blocks({}, variations=True), strict=True):
        assert quick.vary == whole.vary
        assert quick.combinations <= whole.combinations


def test_an_unknown_level_is_refused_by_name() -> None:
    with pytest.raises(UnknownLevel, match=r"'tcp-knew' is not a transport .*tcp-new"):
        blocks({"transport": ["tcp-knew"]}, variations=False)
    with pytest.raises(UnknownLevel, match="is not a round trip of this study; hint: one of 20ms"):
        blocks({"round_trip": ["x"]}, variations=False)


@pytest.mark.parametrize(
    ("levels", "variations", "hint"),
    [
        ({"path": ["fragments"], "queue": ["fifo"]}, False, "`quick`"),
        ({"path": ["fragments"]}, False, "`quick`"),
        ({"place": ["paper-h"], "queue": ["fifo"]}, True, "`place` or `queue`"),
        ({"place": ["paper-h"], "reply": ["3000B"]}, True, "`place` or `reply`"),
        ({"path": ["512"], "queue": ["red"]}, True, "`queue` or `path`"),
    ],
)
def test_a_choice_without_cells_is_refused_by_name(
    levels: dict[str, list[str]], variations: bool, hint: str
) -> None:
    with pytest.raises(EmptyChoiceError) as refused:
        blocks(levels, variations=variations)
    text = str(refused.value)
    assert text.endswith(f"; hint: leave out {hint}")
    for names in levels.values():
        assert names[0] in text


def test_what_is_left_of_a_choice_has_its_levels() -> None:
    (part,) = blocks({"path": ["fragments"], "reply": ["3000B"]}, variations=True)
    assert part.name == "operator"
    # Behind an empty FIFO, where ECN changes nothing.
    assert part.combinations == len(UNMARKED)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["dns-transport", "--path", "512"], ["no cell", "path 512", "leave out --quick"]),
        (["dns-transprot"], ["'dns-transprot' is not a study", "dns-transport"]),
        (["dns-transport", "--transport", "upd"], ["'upd' is not a transport", "udp"]),
        (["dns-transport", "--queue", "fq_codel"], ["'fq_codel' is not a queue", "fq-codel"]),
        # It names all of them.
        (["dns-transport", "--transport", "?"], ["one of udp, ", "quic-kept, quic-kept-ecn"]),
        (
            ["dns-transport", "--out", "full"],
            ["full", "holds other files", "choose a new or empty folder"],
        ),
        (["dns-transport", "--seeds", "0"], ["--seeds"]),
    ],
)
def test_bad_input_is_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    words: list[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    assert main(["study", *arguments, "--quick", "--quiet"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    for word in words:
        assert word in line
    assert [entry.name for entry in (tmp_path / "full").iterdir()] == ["mine.txt"]


@pytest.mark.slow
def test_an_interrupted_study_goes_on_where_it_stopped(tmp_path: Path) -> None:
    arguments = ["dns-transport", "--quick", *FEW, "--workers", "1", "--out", "study", "--quiet"]
    lines = tmp_path / "study" / "operator" / "rows.jsonl"
    first = subprocess.Popen(
        [sys.executable, "-m", "narrows", "study", *arguments, "--seeds", "40"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while first.poll() is None and not (lines.exists() and lines.read_bytes().count(b"\n")):
        time.sleep(0.05)
    first.send_signal(signal.SIGINT)
    _, errors = first.communicate()
    assert first.returncode == 130
    assert "the same command continues" in errors
    kept = lines.read_bytes()
    done = kept.count(b"\n")
    assert 0 < done < 80
    assert json.loads((tmp_path / "study" / "study.json").read_text())["status"] == "partial"
    # A study with the same seeds takes the existing runs, and adds the missing ones.
    study = dns_transport(
        out=tmp_path / "study",
        quick=True,
        seeds=40,
        levels={"transport": ["udp"], "queue": ["fifo"], "load": ["none"]},
        workers=2,
    )
    assert study.status == "complete"
    assert study.runs.height == 120  # In three places.
    assert lines.read_bytes().startswith(kept)


def test_json_has_every_cell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    command = ["study", "dns-transport", "--quick", *FEW, "--seeds", "2", "--workers", "1", "-q"]
    assert main([*command, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [cell["transport"] for cell in document["cells"]] == ["udp", "tcp-new"]
    assert document["status"] == "complete"
    rows = tmp_path / "runs" / "study-dns-transport" / "operator" / "rows.jsonl"
    once = rows.read_bytes()
    # The second time, nothing is run, and the tables go to stdout.
    assert main(command) == 0
    assert "The answer" in capsys.readouterr().out
    assert rows.read_bytes() == once


def test_a_study_without_a_run_says_so(tmp_path: Path) -> None:
    empty = pl.DataFrame(schema=dict.fromkeys(FACTORS, pl.String) | {"seed": pl.Int64})
    study = Study(runs=empty, seeds=(1,), status="failed", failures=("home, udp: no luck",))
    write(study, tmp_path)
    assert "no luck" in (tmp_path / "report.html").read_text()
    document = json.loads((tmp_path / "study.json").read_text())
    assert (document["status"], document["cells"], document["tables"]) == ("failed", [], [])

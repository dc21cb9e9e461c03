"""Flent's tests and files: what the suite shows, and what Flent reads of it and we of Flent's."""

from __future__ import annotations

import bz2
import gzip
import importlib.util
import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import narrows
from narrows import Run
from narrows.cli.app import main
from narrows.flent import FlentError, read_flent, write_flent
from narrows.suites import Line, SuiteRun, rrul
from narrows.suites.output import write
from narrows.suites.parts import Column
from narrows.suites.rrul import keep
from narrows.suites.rrul.parts import METRICS, suite
from narrows.suites.rrul.scenes import TESTS
from narrows.suites.seen import cell

SHORT = Line(length="10 s")
FLENT = importlib.util.find_spec("flent") is not None


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[SuiteRun, Path]:
    """All tests, shortened, behind Drop Tail and CAKE, with Flent's files."""
    folder = tmp_path_factory.mktemp("rrul") / "suite"
    queues = {"tail": {"kind": "pfifo", "limit": 100}, "cake": "cake"}
    run = rrul(queues, seeds=2, line=SHORT, out=folder, workers=2)
    write(run, folder, ())
    keep(run, folder / "flent")
    return run, folder


def mean(run: SuiteRun, scene: str, metric: str, queue: str) -> float:
    found = cell(run, Column(scene, metric), queue)
    assert found is not None, (scene, metric, queue)
    return found.mean


def test_every_column_has_a_value(whole: tuple[SuiteRun, Path]) -> None:
    run, folder = whole
    assert run.status == "complete" and run.runs.height == 2 * 2 * len(TESTS)
    for part in run.suite.parts:
        for column in part.columns:
            for queue in run.names:
                assert math.isfinite(mean(run, column.scene, column.metric, queue))
    assert {*run.runs.columns} - {"scene", "queue", "seed"} <= METRICS.keys()
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert all(f'id="s{test}"' in page for test in TESTS)


def test_pings_wait_behind_drop_tail_and_not_behind_cake(whole: tuple[SuiteRun, Path]) -> None:
    run, _ = whole
    # 100 packets of 1500 bytes take 60 ms at 20 Mbit/s, and the empty path takes 50.
    for test in ("rrul", "rrul_be", "tcp_nup", "tcp_ndown"):
        assert 70.0 < mean(run, test, "ping_avg", "tail") < 50.0 + 120.0
    assert 50.0 < mean(run, "rrul", "ping_icmp", "cake") < 60.0
    assert mean(run, "rrul_be", "down_sum", "tail") > 15.0
    assert mean(run, "voip", "voip_delay", "tail") == pytest.approx(25.08, abs=0.05)


def test_only_cake_knows_code_points(whole: tuple[SuiteRun, Path]) -> None:
    run, _ = whole
    cake = {name: mean(run, "rrul", f"up_{name}", "cake") for name in ("be", "bk")}
    assert cake["bk"] < 0.35 * cake["be"]
    tail = {name: mean(run, "rrul", f"up_{name}", "tail") for name in ("be", "bk")}
    assert tail["bk"] > 0.35 * tail["be"]


def test_files_have_flents_series(whole: tuple[SuiteRun, Path]) -> None:
    _, folder = whole
    document = json.loads(gzip.decompress((folder / "flent/rrul-cake.flent.gz").read_bytes()))
    assert document["version"] == 4 and document["metadata"]["NAME"] == "rrul"
    assert document["metadata"]["LENGTH"] == 10 and document["metadata"]["TOTAL_LENGTH"] == 20
    names = {f"TCP {to} {mark}" for to in ("upload", "download") for mark in ("BE", "EF", "sum")}
    assert names | {"TCP totals", "Ping (ms) UDP BK", "Ping (ms) avg"} <= document["results"].keys()
    xs = document["x_values"]
    assert xs[1] == 0.2 and xs[-1] == 20.0
    for name, values in document["results"].items():
        assert len(values) == len(xs), name
    # Before the load there is none, and a sum is that of its parts.
    results = document["results"]
    assert results["TCP upload BE"][10] is None
    ups = [results[f"TCP upload {mark}"][60] for mark in ("BE", "BK", "CS5", "EF")]
    assert results["TCP upload sum"][60] == pytest.approx(sum(ups))
    pings = [point["seq"] for point in document["raw_values"]["Ping (ms) ICMP"]]
    assert pings == sorted(pings) and pings[0] == 0
    voip = json.loads(gzip.decompress((folder / "flent/voip-cake.flent.gz").read_bytes()))
    delays = [value for value in voip["results"]["VoIP::delay"] if value is not None]
    assert delays and all(value == pytest.approx(25.08, abs=0.05) for value in delays)
    assert voip["metadata"]["SERIES_META"]["VoIP::bitrate"]["MEAN_VALUE"] == pytest.approx(
        80.0, abs=1.0
    )


def test_what_is_written_is_read(whole: tuple[SuiteRun, Path], tmp_path: Path) -> None:
    _, folder = whole
    ours = Run.load(folder / "flent/rrul_be-tail")
    found = read_flent(folder / "flent/rrul_be-tail.flent.gz")
    assert found.left_out == []
    theirs = found.run.save(tmp_path / "read")
    assert theirs.window == ours.window == (5.0, 15.0)
    for group, flows in theirs.summary["flows"]["groups"].items():
        own = ours.summary["flows"]["groups"][group]
        assert flows["goodput_mbit_per_s"] == pytest.approx(own["goodput_mbit_per_s"], rel=0.03)
        assert flows["retransmitted_percent"] is None
    for group, pings in theirs.summary["pings"]["groups"].items():
        own = ours.summary["pings"]["groups"][group]
        assert pings["rtt_median_ms"] == pytest.approx(own["rtt_median_ms"], rel=1e-3)
        # Probes that were lost last cannot be known.
        assert abs(pings["probes"] - own["probes"]) <= 1
        assert pings["answered"] == own["answered"]


def test_a_measurement_and_its_simulation_stand_in_one_comparison(
    whole: tuple[SuiteRun, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, folder = whole
    file, ours = (str(folder / "flent" / f"tcp_nup-cake{end}") for end in (".flent.gz", ""))
    assert main(["import", "flent", file, "--out", str(tmp_path / "measured")]) == 0
    assert "flent-tcp_nup: 20 s measured; metrics from 5 to 15 s" in capsys.readouterr().out
    assert main(["compare", ours, str(tmp_path / "measured")]) == 0
    shown = capsys.readouterr().out
    assert "round-trip time, median (ms)" in shown
    assert main(["report", str(tmp_path / "measured")]) == 0
    page = (tmp_path / "measured" / "report.html").read_text(encoding="utf-8")
    assert "Flent measured it" in page


def flent(*words: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "flent", *words],
        cwd=folder,
        env={**os.environ, "MPLBACKEND": "agg", "HOME": str(folder)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr and "ERROR" not in done.stderr, done.stderr
    return done.stdout


@pytest.mark.skipif(not FLENT, reason="needs Flent: pip install flent")
@pytest.mark.slow
def test_flent_draws_the_files(whole: tuple[SuiteRun, Path], tmp_path: Path) -> None:
    _, folder = whole
    plots = {**dict.fromkeys(TESTS, "totals"), "voip": "voip_delay", "rrul": "all_scaled"}
    for test, plot in plots.items():
        file = folder / "flent" / f"{test}-cake.flent.gz"
        flent("-i", str(file), "-p", plot, "-o", f"{test}.png", folder=tmp_path)
        assert (tmp_path / f"{test}.png").stat().st_size > 5000
    # Two files in one plot, as people compare queues.
    files = [str(folder / "flent" / f"rrul-{queue}.flent.gz") for queue in ("tail", "cake")]
    flent("-i", files[0], "-i", files[1], "-p", "ping_cdf", "-o", "both.png", folder=tmp_path)
    assert (tmp_path / "both.png").stat().st_size > 5000


@pytest.mark.skipif(not FLENT, reason="needs Flent: pip install flent")
@pytest.mark.slow
def test_flent_computes_the_same_means(whole: tuple[SuiteRun, Path], tmp_path: Path) -> None:
    _, folder = whole
    file = folder / "flent/tcp_ndown-tail.flent.gz"
    shown = flent("-i", str(file), "-f", "summary", folder=tmp_path)
    document = json.loads(gzip.decompress(file.read_bytes()))
    for name in ("Ping (ms) ICMP", "TCP download::1"):
        line = next(line for line in shown.splitlines() if line.strip().startswith(name))
        said = float(re.findall(r": +([0-9.]+)", line)[0])
        expected = document["metadata"]["SERIES_META"][name]["MEAN_VALUE"]
        assert said == pytest.approx(expected, rel=0.05)


def test_any_run_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    link = {"name": "wan", "between": ["home", "isp"], "rate": "10 Mbit/s", "delay": "10 ms"}
    scenario: dict[str, Any] = {
        "name": "mine",
        "duration": "8 s",
        "links": [link],
        "traffic": [
            {"kind": "bulk", "name": "film", "sender": "isp", "receiver": "home"},
            {"kind": "bulk", "name": "backup", "sender": "home", "receiver": "isp"},
            {"kind": "ping", "name": "probes", "sender": "home", "receiver": "isp"},
        ],
    }
    run = narrows.run(scenario, out=tmp_path / "run")
    file = write_flent(run, tmp_path / "both.flent.gz")
    document = json.loads(gzip.decompress(file.read_bytes()))
    assert document["metadata"]["NAME"] == "tcp_bidirectional"
    assert {"TCP upload", "TCP download", "Ping (ms) ICMP"} <= document["results"].keys()
    down = run.goodput.filter(group="film")["bytes_received"].max()
    assert isinstance(down, int)
    found = read_flent(file).run
    assert found.flows.filter(group="down")["bytes_received"][0] == pytest.approx(down, rel=0.02)
    scenario["traffic"].pop(1)
    one = narrows.run(scenario)
    document = json.loads(gzip.decompress(write_flent(one, tmp_path / "one.flent.gz").read_bytes()))
    assert document["metadata"]["NAME"] == "tcp_ndown"
    assert document["metadata"]["TEST_PARAMETERS"] == {"download_streams": 1}
    # The same run gives the same bytes, and nothing is overwritten.
    again = write_flent(one, tmp_path / "again.flent.gz")
    assert again.read_bytes() == (tmp_path / "one.flent.gz").read_bytes()
    assert main(["export", "flent", str(tmp_path / "run"), str(file)]) == 2
    assert "exists already" in capsys.readouterr().err
    scenario["traffic"] = [
        {"kind": "udp", "name": "u", "sender": "home", "receiver": "isp", "rate": "1 Mbit/s"}
    ]
    with pytest.raises(FlentError, match="mine: has neither samples of TCP nor probes; hint: add"):
        write_flent(narrows.run(scenario), tmp_path / "none.flent.gz")


WHOLE: dict[str, Any] = {
    "version": 4,
    "metadata": {"NAME": "tcp_nup", "T0": "2026-01-01T00:00:00.000000Z", "LENGTH": 2},
    "x_values": [0.0, 0.2, 0.4],
    "results": {"TCP upload::1": [None, 8.0, 16.0], "Ping (ms) ICMP": [10.0, 11.0, None]},
    "raw_values": {},
}


def test_a_small_file_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "small.flent"
    path.write_text(json.dumps(WHOLE), encoding="utf-8")
    run = read_flent(path).run
    # 8 Mbit/s from 0 (the step before) to 0.2 s, then 16: 0.2 and 0.4 MB.
    assert run.flows["bytes_received"].to_list() == [600_000]
    assert run.goodput["t_s"].to_list() == pytest.approx([0.0, 0.2, 0.4])
    assert run.table("pings")["rtt_ms"].to_list() == [10.0, 11.0]
    packed = tmp_path / "small.flent.bz2"
    packed.write_bytes(bz2.compress(path.read_bytes()))
    assert read_flent(packed).run.flows.equals(run.flows)
    # Raw values count more, and a number that is missing among them was lost.
    t0 = 1767225600.0
    raw = [{"t": t0 + at, "val": 20.0, "seq": seq} for at, seq in ((0.1, 0), (0.3, 1), (0.7, 3))]
    more = {**WHOLE, "raw_values": {"Ping (ms) ICMP": raw}}
    path.write_text(json.dumps(more), encoding="utf-8")
    pings = read_flent(path).run.table("pings")
    assert pings["fate"].to_list() == ["answered", "answered", "probe-lost", "answered"]
    assert pings.filter(pl.col("rtt_ms") == 20.0).height == 3


def changed(**parts: Any) -> bytes:
    return json.dumps({**WHOLE, **parts}).encode()


BAD: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "is not JSON"),
    "text": (b"dear Flent", "is not JSON"),
    "binary": (bytes(range(256)), "is not JSON"),
    "list": (b"[1, 2]", "is no data file of Flent"),
    "deep": (b"[" * 100_000, "is not JSON"),
    "nothing": (b"{}", "lacks metadata, x_values or results"),
    "newer": (changed(version=5), "has format 5; hint: narrows reads formats 1 to 4"),
    "odd version": (changed(version="x"), "has format x"),
    "lengths": (changed(x_values=[0.0]), "of another length than x_values"),
    "times": (changed(x_values=[0.0, -1.0, 1.0]), "has x_values that are no times"),
    "huge times": (changed(x_values=[0, 10**400, 1]), "has x_values that are no times"),
    "no values": (changed(results={"TCP upload": [None] * 3}), "has no values of TCP or pings"),
    "no series": (changed(results={"cpu": [1, 2, 3]}), "has no values of TCP or pings"),
    "negative": (changed(results={"Ping (ms) ICMP": [-1, 1, 1]}), "has the value -1 in Ping"),
    "rate": (changed(results={"TCP upload": [1e300, 1, 1]}), "has the value 1e+300 in TCP upload"),
    "terminal": (changed(results={"\x1b[31mTCP": [1]}), r"a series \x1b[31mTCP of another"),
    "cut": (gzip.compress(changed())[:-20], ""),
    "many": (
        changed(results={f"TCP upload::{n}": [1, 2, 3] for n in range(501)}),
        "has 501 series of TCP and pings, more than 500",
    ),
    "lost": (
        changed(
            raw_values={
                "Ping (ms) ICMP": [
                    {"t": 1767225600 + n, "val": 1, "seq": n * 600_000} for n in range(3)
                ]
            }
        ),
        "lacks more than 1000000 probes by their numbers, in Ping (ms) ICMP",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_foreign_bytes_are_one_line(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, said = BAD[name]
    path = tmp_path / "x.flent.gz"
    path.write_bytes(data)
    assert main(["import", "flent", str(path), "--out", str(tmp_path / "out")]) == 2
    shown = capsys.readouterr()
    assert shown.out == "" and shown.err.count("\n") == 1 and "\x1b" not in shown.err
    assert said in shown.err and "x.flent.gz" in shown.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "parts",
    [
        {"metadata": {"NAME": "../../etc/x\0\x1b[31m\n", "TITLE": "\\input{/etc/passwd}\x1b"}},
        {"metadata": {"NAME": "x" * 100_000, "NOTE": "y" * 100_000, "HOST": 1e300}},
        {"metadata": {"NAME": "\ud800", "HOST": 10**30, "TIME": "9999-12-31T23:59:59-23:00"}},
        {"metadata": {"HOST": float("inf")}},
        {"results": {"Ping (ms) ???": [1, 2, 3], "Ping (ms) !": [1, 2, 3]}},
        {"results": {"TCP upload BE": [1, 2, 3], "TCP upload::be": [1, 2, 3]}},
        {"results": {"Ping (ms) up": [1, 2, 3], "TCP upload": [1, 2, 3]}},
        {"x_values": [0, 0, 0]},
        {"x_values": [0], "results": {"TCP upload": [1]}},
    ],
)
def test_what_is_imported_can_be_read_and_exported(
    parts: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out, again = (tmp_path / name for name in ("x.flent", "out", "again.flent"))
    # JSON has no infinity, but readers make one of this number.
    path.write_bytes(changed(**parts).replace(b"Infinity", b"1e999"))
    assert main(["import", "flent", str(path), "--out", str(out)]) == 0
    shown = capsys.readouterr()
    assert "\x1b" not in shown.out + shown.err
    run = Run.load(out)
    groups = [each["name"] for each in run.scenario["traffic"]]
    assert len(groups) == len(set(groups)) == len(parts.get("results", WHOLE["results"]))
    assert main(["export", "flent", str(out), str(again)]) == 0
    assert "nan" not in again.read_text().lower()


def test_bombs_stop_early(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bomb.flent.gz"
    with gzip.open(path, "wb", compresslevel=9) as file:
        for _ in range(256):
            file.write(b" " * (1 << 20))
    assert path.stat().st_size < 1 << 20
    assert main(["import", "flent", str(path), "--out", str(tmp_path / "out")]) == 2
    assert "is longer than 64 MiB, unpacked" in capsys.readouterr().err
    assert main(["import", "flent", str(tmp_path / "none"), "--out", str(tmp_path / "out")]) == 2
    assert "none" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--test", "rul"], 'test rul: does not exist; hint: did you mean "rrul"?'),
        (["--up", "fast"], "--up fast: "),
        (["--rtt", "-1 ms"], "--rtt -1 ms: "),
        (["--length", "0 s"], "--length 0 s: is not within 1 s and 1 h"),
    ],
)
def test_bad_lines_are_one_line(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["suite", "rrul", "--queue", "codel", "--out", str(tmp_path / "new"), *words]
    assert main(command) == 2
    shown = capsys.readouterr().err
    assert shown.count("\n") == 1 and said in shown
    assert not (tmp_path / "new").exists()


def test_a_line_has_both_rates() -> None:
    made = suite(["rrul_be"], Line(up="5 Mbit/s", down="50 Mbit/s", rtt="20 ms"))
    link = made.scenes[0].scenario["links"][0]
    assert (link["forward"]["rate"], link["backward"]["rate"]) == ("5 Mbit/s", "50 Mbit/s")

"""Sweeps in processes of this machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from narrows import Run, Scenario, Sweep, run, sweep
from narrows.results import RunFolderError
from narrows.results.sweep import ROWS_FILE
from narrows.sweeps import axes_of
from narrows.sweeps.local import LocalWorkers
from narrows.sweeps.plan import combined, make_plan
from narrows.sweeps.work import job_of

pytestmark = pytest.mark.slow

VARY: dict[str, Any] = {
    "links.bottleneck.rate": ["1 Mbit/s", "2 Mbit/s"],
    "queue": [{"kind": "pfifo", "limit": 20}, {"kind": "bfifo", "limit": "15 kB"}],
}
OPTIONS = [
    "--vary", "links.bottleneck.rate=1 Mbit/s,2 Mbit/s",
    "--vary", 'queue={kind="pfifo", limit=20},{kind="bfifo", limit="15 kB"}',
]  # fmt: skip


def narrows(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "narrows", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_row_is_what_a_run_gives(small: dict[str, Any]) -> None:
    found = sweep(small, vary=VARY, seeds=[3, 8], workers=2)
    assert found.status == "complete"
    assert found.table.height == found.total == 8
    assert found.table.columns[:3] == ["links.bottleneck.rate", "queue", "seed"]
    assert found.table["seed"].to_list() == [3, 8] * 4
    settings = {"links.bottleneck.rate": '"2 Mbit/s"', "queue": '{kind="pfifo", limit=20}'}
    axes = axes_of({key: [value] for key, value in settings.items()})
    single = run(combined(small, axes, (0, 0), ""), seed=8)
    row = found.table.row(5, named=True)
    assert row["queue"] == '{"kind":"pfifo","limit":20}'
    assert (row["seed"], row["events"], row["end_s"]) == (8, single.events, single.end_s)
    for name in ("flows.goodput_mbit_per_s", "bursts.completion_mean_s"):
        section, key = name.split(".")
        assert row[name] == single.summary[section][key]
    queue = single.summary["queues"]["bottleneck.forward"]["run"]
    assert row["queues.bottleneck.forward.run.sojourn_mean_ms"] == queue["sojourn_mean_ms"]
    # Seeds matter.
    assert found.table["bursts.completion_mean_s"].n_unique() > 4


def test_the_table_is_the_same_for_any_number_of_workers(
    small: dict[str, Any], tmp_path: Path
) -> None:
    tables = []
    for workers in (1, 2, 3):
        out = tmp_path / str(workers)
        sweep(small, vary=VARY, seeds=5, workers=workers, out=out, csv=True)
        tables.append(((out / "sweep.parquet").read_bytes(), (out / "sweep.csv").read_bytes()))
    assert tables[0] == tables[1] == tables[2]


def test_a_sweep_may_grow_and_does_what_is_missing(small: dict[str, Any], tmp_path: Path) -> None:
    out = tmp_path / "sweep"
    sweep(small, vary={"traffic.connections": [1, 2]}, seeds=2, workers=1, out=out)
    before = (out / ROWS_FILE).read_bytes()
    again = sweep(small, vary={"traffic.connections": [1, 2]}, seeds=2, workers=1, out=out)
    assert (out / ROWS_FILE).read_bytes() == before
    assert again.complete
    grown = sweep(small, vary={"traffic.connections": [3, 1, 2]}, seeds=3, workers=2, out=out)
    assert (out / ROWS_FILE).read_bytes().startswith(before)
    assert grown.complete
    assert len(grown.runs) == 9
    fresh = sweep(small, vary={"traffic.connections": [3, 1, 2]}, seeds=3, workers=1)
    assert grown.table.equals(fresh.table)


def test_another_sweep_in_the_folder_is_refused(small: dict[str, Any], tmp_path: Path) -> None:
    out = tmp_path / "sweep"
    sweep(small, vary={"traffic.connections": [1, 2]}, seeds=2, workers=1, out=out)
    others: list[tuple[dict[str, Any], str]] = [
        ({"vary": {"traffic.burst": ["1 kB"]}, "seeds": 2}, "other keys varied"),
        ({"vary": {"traffic.connections": [1, 3]}, "seeds": 2}, "also has traffic.connections=2"),
        ({"vary": {"traffic.connections": [1, 2]}, "seeds": 1}, "also has seed 2"),
        (
            {"vary": {"traffic.connections": [1, 2]}, "seeds": 2, "set": {"duration": "3 s"}},
            "another scenario",
        ),
    ]
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    for other, message in others:
        with pytest.raises(RunFolderError, match=message):
            sweep(small, **other, workers=1, out=out)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    other_files = tmp_path / "other"
    other_files.mkdir()
    (other_files / "notes.txt").touch()
    with pytest.raises(RunFolderError, match="holds other files"):
        sweep(small, out=other_files)


def test_kept_runs_are_run_folders(small: dict[str, Any], tmp_path: Path) -> None:
    found = sweep(
        small, vary={"traffic.connections": [1, 2]}, out=tmp_path / "s", keep_runs=True, workers=1
    )
    for kept in found.runs:
        assert kept.folder is not None
        loaded = Run.load(kept.folder)
        assert loaded.summary == kept.summary
        assert Scenario.from_dict(dict(loaded.scenario)).traffic[0].connections in (1, 2)


def test_runs_that_end_early_or_fail_are_listed_and_the_others_kept(
    small_file: Path, tmp_path: Path
) -> None:
    done = narrows(
        "sweep", str(small_file), "--vary", "event_limit=100,1000000", "--seeds", "2",
        "--out", "s", "--workers", "1", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 1
    assert "failed: event_limit=100, seed 1: stopped early: event-limit" in done.stderr
    assert done.stderr.endswith("2 of 4 runs failed\n")
    found = Sweep.load(tmp_path / "s")
    assert [run.complete for run in found.runs] == [False, False, True, True]
    assert found.status == "failed"


def test_a_worker_that_is_killed_costs_no_run(small: dict[str, Any]) -> None:
    plan = make_plan(small, "small", axes_of(VARY), tuple(range(1, 31)))
    rows = []
    kill_at = [10, 40]
    with LocalWorkers(2) as workers:
        for event in workers.run(job_of(plan, None), plan.items()):
            if event.row is not None:
                rows.append(event.row)
            busy = [process for process in workers._processes if process.waiting]
            if kill_at and busy and len(rows) >= kill_at[0]:
                busy[0].popen.kill()
                kill_at.pop(0)
    assert not kill_at
    assert sorted(row["run"] for row in rows) == sorted(item.run for item in plan.items())
    assert {row["status"] for row in rows} == {"complete"}


def test_a_run_that_kills_its_workers_fails_alone(small: dict[str, Any]) -> None:
    plan = make_plan(small, "small", axes_of({"duration": ["1 s", "24 h"]}), (1, 2))
    long = next(item.run for item in plan.items() if item.places == (1,) and item.seed == 1)
    other = next(item.run for item in plan.items() if item.places == (1,) and item.seed == 2)
    items = [item for item in plan.items() if item.run != other]
    rows = []
    with LocalWorkers(1) as workers:
        for event in workers.run(job_of(plan, None), iter(items)):
            if event.row is not None:
                rows.append(event.row)
            for process in workers._processes:
                if process.progress > 0.0 and process.waiting[0].run == long:
                    process.popen.send_signal(signal.SIGKILL)
    assert {row["run"]: row["status"] for row in rows} == {
        item.run: "failed" if item.run == long else "complete" for item in items
    }
    (failed,) = [row for row in rows if row["status"] == "failed"]
    assert failed["message"] == "its worker process died, 2 times (killed by SIGKILL)"


def lines_of(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def test_a_sweep_that_is_killed_goes_on(small_file: Path, tmp_path: Path) -> None:
    options = [str(small_file), *OPTIONS, "--seeds", "60", "--workers", "2", "--quiet"]
    command = [sys.executable, "-m", "narrows", "sweep", *options]
    process = subprocess.Popen([*command, "--out", "killed"], cwd=tmp_path)
    try:
        while lines_of(tmp_path / "killed" / ROWS_FILE) < 20:
            assert process.poll() is None
            time.sleep(0.01)
        workers = psutil.Process(process.pid).children()
        assert len(workers) == 2
        process.send_signal(signal.SIGKILL)
        process.wait()
        # The workers notice that the sweep is gone.
        _, alive = psutil.wait_procs(workers, timeout=20)
        assert not alive
    finally:
        process.kill()
    rows = tmp_path / "killed" / ROWS_FILE
    with rows.open("ab") as file:
        file.write(b'{"run":"a torn line')
    left = Sweep.load(tmp_path / "killed")
    assert left.status == "running"
    assert 20 <= len(left.runs) < 240
    assert narrows("sweep", *options, "--out", "killed", cwd=tmp_path).returncode == 0
    assert narrows("sweep", *options, "--out", "whole", cwd=tmp_path).returncode == 0
    assert lines_of(rows) == 240
    assert len({json.loads(line)["run"] for line in rows.read_text().splitlines()}) == 240
    tables = [(tmp_path / name / "sweep.parquet").read_bytes() for name in ("killed", "whole")]
    assert tables[0] == tables[1]


def test_ctrl_c_leaves_a_sweep_that_goes_on(small_file: Path, tmp_path: Path) -> None:
    options = [str(small_file), *OPTIONS, "--seeds", "60", "--workers", "2", "--out", "s"]
    process = subprocess.Popen(
        [sys.executable, "-m", "narrows", "sweep", *options],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    try:
        while lines_of(tmp_path / "s" / ROWS_FILE) < 20:
            assert process.poll() is None
            time.sleep(0.01)
        # To the whole group, as a terminal does.
        os.killpg(process.pid, signal.SIGINT)
        printed, said = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130, said
    assert "the same command continues" in said
    assert "Traceback" not in said
    assert "of 240 runs are not complete" in printed
    left = Sweep.load(tmp_path / "s")
    assert left.status == "partial"
    assert left.table.height == len(left.runs) >= 20
    done = narrows("sweep", *options, "--json", cwd=tmp_path)
    assert done.returncode == 0
    document = json.loads(done.stdout)
    assert document["runs"] == {
        "total": 240, "complete": 240, "partial": 0, "failed": 0, "missing": 0
    }  # fmt: skip
    assert len(document["table"]) == 240


def test_two_sweeps_do_not_fill_one_folder(small: dict[str, Any], tmp_path: Path) -> None:
    refused = []

    def other(_: object) -> None:
        if not refused:
            with pytest.raises(RunFolderError, match="is being filled by another sweep") as found:
                sweep(small, out=tmp_path / "s", workers=1)
            refused.append(found)

    assert sweep(small, out=tmp_path / "s", workers=1, progress=other).complete
    assert refused


def test_bad_input_is_one_line_and_code_2(small_file: Path, tmp_path: Path) -> None:
    for arguments, message in (
        (["--vary", "queue.limt=1"], "is not a known key"),
        (["--vary", "queue.limit"], "not KEY=VALUE"),
        (["--vary", "duration=1 s,x"], "(with duration=x)"),
        (["--seeds", "x"], "not seeds"),
        (["--seeds", "5-3"], "ends before it begins"),
        (["--seeds", "1-99999999999999"], "more than 100000 seeds"),
        (["--plan", "missing.toml"], "does not exist"),
        (["--vary", "queue=codel"], "hint: write a table: '{ kind = \"codel\" }'"),
        (["--set", "queue=fqcodel"], "hint: write a table: '{ kind = \"fq-codel\" }'"),
        (["--metric", "flows.goodputt"], "did you mean"),
    ):
        done = narrows("sweep", str(small_file), *arguments, "--workers", "1", "-q", cwd=tmp_path)
        assert done.returncode == 2, done.stderr
        assert done.stderr.count("\n") == 1
        assert message in done.stderr


@pytest.mark.parametrize(
    "vary",
    # Other queues may have other metrics.
    ["traffic.connections=1,2,3", 'queue={kind="pfifo", limit=9},{kind="codel"}'],
)
def test_wrong_metrics_are_all_named_before_a_sweep_starts(
    small_file: Path, tmp_path: Path, vary: str
) -> None:
    given = ("sweep", str(small_file), "--vary", vary, "--seeds", "4", "--workers", "1", "-q")
    wrong = ("--metric", "completion_meen_s", "--metric", "loss_percent", "--metric", "goodputt")
    # Metrics that other scenarios have: there is neither DNS nor a second group here.
    wrong += ("--metric", "response_p95_ms", "--metric", "bursts.groups.far.completion_mean_s")
    done = narrows(*given, *wrong, cwd=tmp_path)
    # A line for each wrong name; the hint for all is in the last line.
    assert (done.returncode, done.stderr.count("\n")) == (2, 4), done.stderr
    assert done.stderr.endswith('? --metric "?" lists all\n')
    assert 'did you mean "bursts.completion_mean_s"' in done.stderr
    assert "there is no metric goodputt" in done.stderr
    assert "metric loss_percent;" not in done.stderr
    assert "there is no metric response_p95_ms" in done.stderr
    assert "there is no metric bursts.groups.far.completion_mean_s" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == [small_file.name]
    done = narrows(*given, "--out", "s", "--metric", "completion_mean_s", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert Sweep.load(tmp_path / "s").complete


def test_metrics_are_listed_without_a_sweep(small_file: Path, tmp_path: Path) -> None:
    dns = '[[dns]]\nname = "home"\nclient = "client"\nserver = "server"\n'
    # The run is longer than its preview, and queries do not begin with the first event.
    text = small_file.read_text(encoding="utf-8").replace('"2 s"', '"10000 s"')
    text = text.replace("[monitor]", f'{dns}start = "1 s"\n\n[monitor]')
    small_file.write_text(text, encoding="utf-8")
    started = time.monotonic()
    done = narrows("sweep", str(small_file), "--metric", "?", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    title, *lines = done.stdout.splitlines()
    assert title == "small: metrics"
    listed = {line.split()[0] for line in lines if line.strip()}
    assert {
        "bursts.completion_p99_s",
        "dns.response_p95_ms",
        "queues.bottleneck.forward.dns_phase.loss_percent",
    } <= listed
    assert [path.name for path in tmp_path.iterdir()] == [small_file.name]
    done = narrows("sweep", str(small_file), "--metric", "dns.respons_p95_ms", cwd=tmp_path)
    assert done.returncode == 2 and 'did you mean "dns.response_p95_ms"' in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == [small_file.name]
    assert time.monotonic() - started < 120.0


def test_options_add_to_a_plan(small_file: Path, tmp_path: Path) -> None:
    # The documentation: "To add values, give the key again."
    plan = "[vary]\ntraffic.connections = [1, 4]\n"
    (tmp_path / "plan.toml").write_text(plan, encoding="utf-8")
    done = narrows(
        "sweep", str(small_file), "--plan", "plan.toml", "--vary", "traffic.connections=4,8",
        "--vary", "queue.limit=20 kB,30 kB", "--out", "s", "--workers", "1", "-q", "--json",
        cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    settings = {tuple(run.settings.values()) for run in Sweep.load(tmp_path / "s").runs}
    assert settings == {(n, limit) for n in (1, 4, 8) for limit in ("20 kB", "30 kB")}


def test_a_full_disk_is_one_line_and_keeps_what_there_is(
    small: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write
    written = 0

    def full(file: int, data: bytes) -> int:
        nonlocal written
        if data.startswith(b'{"run"'):
            written += 1
            if written > 3:
                write(file, data[:10])
                raise OSError(28, "No space left on device")
        return write(file, data)

    monkeypatch.setattr("narrows.sweeps.store.os.write", full)
    with pytest.raises(RunFolderError, match=r"rows.jsonl: no space left .*hint: free some space"):
        sweep(small, vary=VARY, seeds=3, workers=1, out=tmp_path / "s")
    monkeypatch.undo()
    left = Sweep.load(tmp_path / "s")
    assert (left.status, len(left.runs)) == ("partial", 3)
    assert sweep(small, vary=VARY, seeds=3, workers=1, out=tmp_path / "s").complete


def lengths(run: Run) -> dict[str, dict[str, float]]:
    """A section of metrics for `sweep`'s `measure`."""
    return {"mine": {"end_s": run.end_s}}


def broken(run: Run) -> dict[str, dict[str, float]]:
    """A function that expects something that no run has."""
    return {"mine": {"end_s": run.summary["no such section"]}}


def test_a_function_that_fails_is_named(small: dict[str, Any]) -> None:
    found = sweep(small, workers=1, measure="tests.sweep.test_sweep:broken")
    assert found.status == "failed"
    (row,) = found.runs
    assert row.message.startswith("tests.sweep.test_sweep:broken failed: KeyError")


def test_some_combinations_alone(small: dict[str, Any], tmp_path: Path) -> None:
    vary = {"queue.limit": ["9000 B", "30000 B"], "traffic.connections": [1, 2]}
    given: dict[str, Any] = {"vary": vary, "out": tmp_path / "s", "workers": 1}
    found = sweep(small, **given, only=lambda places: 0 in places)
    assert (found.status, found.total, len(found.runs)) == ("complete", 3, 3)
    assert Sweep.load(tmp_path / "s").complete
    # Another part of the same product goes into the same folder.
    other = sweep(small, **given, only=lambda places: places == (1, 1))
    assert (other.status, [run.settings["traffic.connections"] for run in other.runs]) == (
        "complete",
        [2],
    )
    again = Sweep.load(tmp_path / "s")
    assert (again.total, [run.run for run in again.runs]) == (1, [run.run for run in other.runs])
    assert len(sweep(small, **given).runs) == 4
    assert len(Sweep.load(tmp_path / "s").runs) == 4


def test_a_function_of_ones_own_measures_runs(small: dict[str, Any]) -> None:
    found = sweep(small, workers=1, measure="tests.sweep.test_sweep:lengths")
    assert found.table.get_column("mine.end_s").to_list() == [2.0]

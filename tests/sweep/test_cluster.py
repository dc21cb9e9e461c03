"""Sweeps on a real Dask cluster of two worker processes, on loopback."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dask
import distributed
import pytest

from narrows import Sweep, SweepError, _core, sweep
from narrows.builds import THIS
from narrows.queues import DROP, PASS, Queue
from narrows.results.sweep import ROWS_FILE
from narrows.sweeps import Progress, axes_of
from narrows.sweeps.cluster import DaskCluster
from narrows.sweeps.plan import make_plan
from narrows.sweeps.work import job_of

pytestmark = pytest.mark.slow

VARY: dict[str, Any] = {"links.bottleneck.rate": ["1 Mbit/s", "2 Mbit/s"]}


class Cluster:
    """A scheduler and its workers, each a process."""

    def __init__(self, folder: Path, *options: str, **environment: str) -> None:
        self._folder = folder
        self._file = folder / "scheduler.json"
        words = ("--port", "0", "--no-dashboard", *options)
        self.scheduler = self._start("dask_scheduler", *words, **environment)
        self.workers: list[subprocess.Popen[bytes]] = []
        self.address = self._published_address()

    def add_worker(self, **environment: str) -> subprocess.Popen[bytes]:
        """A worker of one thread, in an environment."""
        worker = self._start(
            "dask_worker", "--nthreads", "1", "--no-nanny", "--no-dashboard", **environment
        )
        self.workers.append(worker)
        return worker

    def _published_address(self) -> str:
        """The scheduler's address. This waits for the text, as the file exists before it."""
        deadline = time.monotonic() + 60
        while True:
            try:
                return str(json.loads(self._file.read_text())["address"])
            except (FileNotFoundError, json.JSONDecodeError):
                assert self.scheduler.poll() is None, "the scheduler has ended"
                assert time.monotonic() < deadline, "the scheduler wrote no file"
                time.sleep(0.05)

    def end(self) -> None:
        """Kills all processes."""
        for process in (*self.workers, self.scheduler):
            process.kill()
            process.wait()

    def _start(self, what: str, *options: str, **environment: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"distributed.cli.{what}", *options]
        command += ["--scheduler-file", str(self._file), "--host", "127.0.0.1"]
        return subprocess.Popen(
            command,
            cwd=self._folder,
            env={**os.environ, **environment},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )


@contextmanager
def running(folder: Path, *options: str, **environment: str) -> Iterator[Cluster]:
    cluster = Cluster(folder, *options, **environment)
    try:
        yield cluster
    finally:
        cluster.end()


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine takes long to start a worker."""
    monkeypatch.setattr("narrows.sweeps.cluster.CONNECT_S", 60.0)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with running(tmp_path) as found:
        yield found


def test_a_worker_that_is_killed_costs_no_run(
    small: dict[str, Any], cluster: Cluster, tmp_path: Path
) -> None:
    small["duration"] = "20 s"
    cluster.add_worker()
    doomed = cluster.add_worker()
    seen: list[str] = []

    def progress(at: Progress) -> None:
        seen.append(at.label)
        # When both have worked for a while and both have more to do.
        if at.done >= 20 and "2 threads on the cluster" in seen:
            doomed.kill()

    out = tmp_path / "sweep"
    found = sweep(small, vary=VARY, seeds=60, dask=cluster.address, out=out, progress=progress)
    assert doomed.wait(timeout=10) != 0
    assert "2 threads on the cluster" in seen
    assert [run.message for run in found.failures] == []
    assert found.status == "complete"
    lines = [json.loads(line) for line in (out / ROWS_FILE).read_text().splitlines()]
    assert len(lines) == 120
    assert len({line["run"] for line in lines}) == 120
    local = sweep(small, vary=VARY, seeds=60, workers=2, out=tmp_path / "local")
    assert local.complete
    tables = [(tmp_path / name / "sweep.parquet").read_bytes() for name in ("sweep", "local")]
    assert tables[0] == tables[1]


def test_a_lost_cluster_is_one_line_and_keeps_what_there_is(
    small: dict[str, Any], cluster: Cluster, tmp_path: Path
) -> None:
    small["duration"] = "20 s"
    cluster.add_worker()

    def progress(at: Progress) -> None:
        if at.done >= 5:
            cluster.end()

    with pytest.raises(SweepError, match="lost; what is done is kept; hint: run the same") as e:
        sweep(small, seeds=60, dask=cluster.address, out=tmp_path / "s", progress=progress)
    assert "\n" not in str(e.value)
    left = Sweep.load(tmp_path / "s")
    assert left.status == "partial"
    assert 5 <= len(left.runs) < 60


@pytest.mark.parametrize(
    ("core", "theirs"),
    [
        ('version = "0.0.1"\n', "0.0.1"),
        (
            f'version = "{_core.version}"\nbuild = "0123456789ab"\n',
            f"{_core.version} (0123456789ab)",
        ),
    ],
)
def test_workers_of_another_build_are_refused_by_name(
    small: dict[str, Any], cluster: Cluster, tmp_path: Path, core: str, theirs: str
) -> None:
    old = tmp_path / "old" / "narrows"
    old.mkdir(parents=True)
    (old / "__init__.py").touch()
    (old / "_core.py").write_text(core, encoding="utf-8")
    cluster.add_worker(PYTHONPATH=str(old.parent))
    with pytest.raises(SweepError, match=r"worker tcp://") as e:
        sweep(small, dask=cluster.address)
    assert str(e.value).endswith(
        f" has narrows {theirs}, but this is {THIS}; hint: install the same build on all workers"
    )


def test_no_scheduler_and_no_worker_are_one_line(
    small_file: Path, cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nobody = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    monkeypatch.setattr("narrows.sweeps.cluster.CONNECT_S", 1.0)
    with pytest.raises(SweepError, match="has no workers"):
        sweep(small_file, dask=cluster.address)
    for address in (nobody, "nonsense://x", "127.0.0.1:0:0"):
        with pytest.raises(SweepError, match="no scheduler answers there; hint: start one"):
            sweep(small_file, dask=address)
    # The same on the command line; stderr has nothing else, although Dask likes to write to it.
    for address in (nobody, "nonsense://x", "127.0.0.1:0:0"):
        done = subprocess.run(
            [sys.executable, "-m", "narrows", "sweep", str(small_file), "--dask", address],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 2
        assert done.stderr.count("\n") == 1, done.stderr
        assert "no scheduler answers there" in done.stderr


def certificates(folder: Path) -> dict[str, str]:
    """Runs the commands of docs/trust.md; returns the environment that they make."""
    text = (Path(__file__).parents[2] / "docs/trust.md").read_text(encoding="utf-8")
    shown = [line[6:] for line in text.splitlines() if line.startswith("    $ ")]
    wanted = [
        line for line in shown if line.startswith(("openssl req", "(umask 077; cat", "export"))
    ]
    script = "\n".join([*wanted, "env"])
    done = subprocess.run(["sh", "-ec", script], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = [line.partition("=") for line in done.stdout.splitlines()]
    found = {name: value for name, _, value in lines if name.startswith("DASK_")}
    assert len(found) == 5
    return found


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl: apt install openssl")
def test_a_cluster_with_tls_serves_only_who_has_a_certificate(
    small_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = certificates(tmp_path)
    with running(tmp_path, "--protocol", "tls", **environment) as cluster:
        assert cluster.address.startswith("tls://")
        cluster.add_worker(**environment)
        with dask.config.set(_settings(environment)):
            assert sweep(small_file, seeds=4, dask=cluster.address).status == "complete"
        # The address alone, a certificate of another authority, and no TLS are not enough.
        monkeypatch.setattr("narrows.sweeps.cluster.CONNECT_S", 2.0)
        with pytest.raises(SweepError, match=r"needs a certificate; hint: docs/trust\.md"):
            sweep(small_file, dask=cluster.address)
        (tmp_path / "other").mkdir()
        with (
            dask.config.set(_settings(certificates(tmp_path / "other"))),
            pytest.raises(SweepError, match=r"no scheduler answers there; hint: docs/trust\.md"),
        ):
            sweep(small_file, dask=cluster.address)
        with pytest.raises(SweepError, match="no scheduler answers there"):
            sweep(small_file, dask=cluster.address.replace("tls://", "tcp://"))


def _settings(environment: dict[str, str]) -> dict[str, str]:
    """Dask's settings in an environment; the sweep's own process reads it only at its start."""
    return {
        name.removeprefix("DASK_").lower().replace("__", "."): value
        for name, value in environment.items()
    }


def test_a_run_that_kills_its_workers_fails_alone(small: dict[str, Any]) -> None:
    """The scheduler gives up on a batch; then its runs are sent one by one, and one fails."""
    plan = make_plan(small, "small", axes_of(VARY), (1,))
    job, items = job_of(plan, None), list(plan.items())
    cluster = DaskCluster("nowhere")
    killed = distributed.KilledWorker("task", None, 3)
    assert cluster._lost(items, job, killed) == []
    assert list(cluster._alone) == items
    (row,) = cluster._lost(items[:1], job, killed)
    assert (row["status"], row["run"]) == ("failed", items[0].run)
    assert row["message"] == "every worker that ran it died"


def test_without_dask_it_says_what_to_install(
    small: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(SweepError, match=r"needs Dask.*hint: pip install 'narrows\[dask\]'"):
        sweep(small, dask="tcp://127.0.0.1:1")


def test_classes_travel_to_the_cluster_with_what_they_use(
    small: dict[str, Any], cluster: Cluster
) -> None:
    """A worker cannot import this file: the class comes by value, with the module's names."""
    cluster.add_worker()
    parts: dict[str, Any] = {"queues": {"bottleneck.forward": _Tail(4)}}
    there = sweep(small, seeds=2, dask=cluster.address, **parts)
    assert there.complete, [run.message for run in there.failures]
    here = sweep(small, seeds=2, workers=1, **parts)
    assert [run.summary for run in there.runs] == [run.summary for run in here.runs]
    assert there.runs[0].summary != sweep(small, seeds=1, workers=1).runs[0].summary


_MOST = 4


class _Tail(Queue):
    def __init__(self, most: int) -> None:
        self.most = most

    def admit(self, backlog: int, *_: Any) -> int:
        return DROP if backlog >= min(self.most, _MOST) else PASS

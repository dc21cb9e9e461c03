"""`narrows monitor` against tc's output for the same queue."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import os
import re
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from narrows import Run, progress
from narrows.cli import main
from narrows.monitor import MonitorError, Watch
from narrows.monitor.screen import Screen
from narrows.monitor.watch import Reading
from narrows.report import write_comparison, write_report
from narrows.results import compare, summary_table
from narrows.testbed.namespace import Namespace, namespace

pytestmark = pytest.mark.slow

needs_root = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("tc", path="/usr/sbin:/sbin:/usr/bin") is None,
    reason="SKIP: needs root, and tc (apt-get install iproute2)",
)


@pytest.fixture
def bottleneck() -> Iterator[Namespace]:
    """A namespace whose device `v0` sends 1 Mbit/s from a queue of 20 kB."""
    with namespace("monitor") as found:
        found.ip("link", "add", "v0", "type", "veth", "peer", "name", "v1")
        for device in ("v0", "v1"):
            found.ip("link", "set", device, "up")
        found.ip("addr", "add", "10.7.0.1/24", "dev", "v0")
        mac = "02:00:00:00:00:07"
        found.ip("neigh", "add", "10.7.0.2", "lladdr", mac, "dev", "v0", "nud", "permanent")
        for words in (
            "root handle 1: tbf rate 1mbit burst 2000 limit 100000",
            "parent 1:1 handle 10: bfifo limit 20000",
        ):
            subprocess.run(
                ["tc", "-n", found.name, "qdisc", "add", "dev", "v0", *words.split()], check=True
            )
        yield found


def send(count: int, pause_s: float) -> None:
    """Datagrams of 1000 bytes with their headers."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as found:
        for _ in range(count):
            with contextlib.suppress(OSError):
                found.sendto(bytes(958), ("10.7.0.2", 9))
            time.sleep(pause_s)


def send_until(done: threading.Event) -> None:
    while not done.is_set():
        send(50, 0.004)


def told_by_tc(where: Namespace) -> dict[str, dict[str, int]]:
    words = ["tc", "-s", "-j", "-n", where.name, "qdisc", "show", "dev", "v0"]
    done = subprocess.run(words, capture_output=True, check=True)
    return {entry["handle"]: entry for entry in json.loads(done.stdout)}


@needs_root
def test_counters_are_tcs(bottleneck: Namespace) -> None:
    with bottleneck.inside():
        before = told_by_tc(bottleneck)
        watch = Watch("v0", rate=20.0)
        sender = threading.Thread(target=send, args=(100, 0.002))
        sender.start()
        seen = [each for readings in watch.readings(4.0) for each in readings]
        sender.join()
        after = told_by_tc(bottleneck)
    assert dict(watch.queues) == {"v0": "tbf", "v0/10:": "bfifo"}
    last = [each for each in seen if each.queue == "v0/10:"][-1].counters
    assert last["drops"] == after["10:"]["drops"] - before["10:"]["drops"] > 0
    assert last["dropped_overflow"] == last["drops"]
    # The kernel's own packets, such as neighbour discovery's, may pass after the last reading.
    sent = after["10:"]["packets"] - before["10:"]["packets"]
    assert sent - 3 <= last["sent_packets"] <= sent
    # 20 kB hold 20 frames of 1000 bytes, or 19 and some of the kernel's own, which are short.
    assert 20 <= max(each.counters["backlog_packets"] for each in seen) <= 22


@needs_root
def test_the_command_leaves_a_run(
    bottleneck: Namespace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    with bottleneck.inside():
        # Sends until the command is done, because the machine decides how long it takes to begin.
        done = threading.Event()
        sender = threading.Thread(target=send_until, args=(done,))
        sender.start()
        words = ["monitor", "v0", "--duration", "1", "--out", str(out), "--json"]
        try:
            assert main(words) == 0
        finally:
            done.set()
            sender.join()
    shown = capsys.readouterr()
    document = json.loads(shown.out)
    missed = document["host"]["missed_samples"]
    assert ("no sample was missed" in shown.err) == (missed == 0)
    assert document["backend"] == "monitor" and document["status"] == "complete"
    assert document["summary"]["queues"]["v0/10:"]["run"]["drops_total_per_s"] > 0
    # The whole line is 10 Gbit/s for a veth pair; the bucket lets 1 Mbit/s through.
    throughput = document["summary"]["links"]["v0"]["run"]["throughput_mbit_per_s"]
    assert throughput == pytest.approx(1.0, rel=0.25)
    assert Run.load(out).queues.get_column("link").unique().to_list().sort() is None
    assert (out / "report.html").exists()


def at_lo(n: int) -> dict[str, tuple[str, dict[str, int]]]:
    """A queue at `lo` that has sent five packets and dropped one for each time it is looked at."""
    counters = {"backlog_packets": 1, "backlog_bytes": 100, "dropped_early": 0, "marked": 0}
    counters |= {"sent_packets": 5 * n, "sent_bytes": 500 * n}
    return {"lo": ("netem", {**counters, "drops": n, "dropped_overflow": n})}


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Run:
    calls = itertools.count()
    monkeypatch.setattr(Watch, "_look", lambda _self: at_lo(next(calls)))
    watch = Watch("lo", rate=20.0)
    assert len(list(watch.readings(0.5))) == 10
    return watch.run()


def test_a_report_says_that_it_was_measured(watched: Run, tmp_path: Path) -> None:
    """It has no seed or scenario to run again, and the kernel does not tell times in the queue."""
    assert (
        str(summary_table(watched)).splitlines()[0] == f"monitor-lo: {watched.end_s:.4g} s measured"
    )
    page = write_report(watched, tmp_path, ["png"]).read_text(encoding="utf-8")
    text = re.sub(r"<style>.*?</style>|<script.*?</script>", "", page, flags=re.DOTALL)
    for word in ("simulated", "seed", "Run it again", "byte for byte", "In the ring", "queue acts"):
        assert word not in text, word
    assert "s measured by narrows" in text
    assert "<pre>narrows monitor lo --rate 20 --duration 0.5</pre>" in text
    plots = {path.stem for path in (tmp_path / "plots").glob("*.png")}
    assert plots == {"backlog-lo", "drops-lo", "throughput-lo"}
    assert "busy - %" not in text
    assert watched.summary["queues"]["lo"]["run"]["ring_mean_bytes"] is None
    both = write_comparison(
        compare([watched, replace(watched, scenario={**watched.scenario, "rate": 5.0})]),
        tmp_path / "both",
        ["png"],
    )
    assert (both.parent / "plots").is_dir()
    assert not list((both.parent / "plots").glob("sojourn-*"))


@needs_root
def test_a_device_without_queue_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with namespace("monitor") as found, found.inside():
        assert main(["monitor", "lo", "--duration", "0.01s"]) == 2
        assert "--duration 0.01s: is shorter than 0.1 s" in capsys.readouterr().err
        assert main(["monitor", "lo", "--duration", "1 week"]) == 2
        assert 'the unknown unit "week"' in capsys.readouterr().err
        assert main(["monitor", "lo", "--duration", "1"]) == 2
        said = capsys.readouterr().err
        assert "lo has no queue; hint: " in said
        assert "a queue named noqueue does not count" in said
        with pytest.raises(MonitorError, match="eth7: no such interface; hint: one of lo"):
            Watch("eth7")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--duration", "0.5"], r"monitor lo: \d+ % done, about 0 s left, watched for [01] s"),
        # Until Ctrl-C nobody knows the end.
        ([], r"monitor lo: watched for 0 s"),
        (["--quiet"], None),
    ],
)
def test_without_a_terminal_progress_is_lines(
    words: list[str],
    line: str | None,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = itertools.count()

    def look(_self: Watch) -> dict[str, tuple[str, dict[str, int]]]:
        if (n := next(calls)) == 8 and "--duration" not in words:
            raise KeyboardInterrupt
        return at_lo(n)

    monkeypatch.setattr(Watch, "_look", look)
    monkeypatch.setattr(progress, "EVERY_S", 0.0)
    out = tmp_path / "run"
    assert main(["monitor", "lo", "--rate", "20", "--no-report", "--out", str(out), *words]) == 0
    shown = [each for each in capsys.readouterr().err.splitlines() if each.startswith("monitor lo")]
    assert bool(shown) is (line is not None)
    assert all(re.fullmatch(line or "", each) for each in shown)


def test_the_picture_shows_rates_over_the_last_second() -> None:
    screen = Screen(80)
    for number in range(30):
        t = number / 10
        counters = {
            "backlog_bytes": 3000 * number,
            "backlog_packets": 2 * number,
            "sent_packets": 100 * number,
            "sent_bytes": 125_000 * number,
            "drops": 5 * number,
            "dropped_early": 0,
            "dropped_overflow": 5 * number,
            "marked": number,
        }
        screen.add([Reading(t, "eth0", "red", counters)])
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(screen.show())
    text = console.export_text()
    # 125 kB every tenth of a second.
    assert "10.000" in text and "1000" in text and "50.0" in text and "10.0" in text
    assert "87.0 kB" in text and "█" in text

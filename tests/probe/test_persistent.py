"""Connections that a probe keeps, and a server that closes them."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import polars as pl
import pytest

from narrows.cli import main
from narrows.probe import Plan, Target, probe
from narrows.probe.persistent import persistent_connections
from narrows.results.verdict_groups import group_verdicts
from narrows.testbed.old_server import reply

from .rows import tcp

QUERIES = 5


@contextmanager
def closing_server(after: int) -> Iterator[int]:
    """Answers `QUERIES` queries over TCP, and closes each connection after `after` of them.

    The FIN is on the last reply's segment. If the server closed later, because the machine is busy,
    the probe would close the last connection.
    """
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        answered = 0
        while answered < QUERIES:
            made, _ = listening.accept()
            with made:
                for left in reversed(range(after)):
                    length = made.recv(2, socket.MSG_WAITALL)
                    if len(length) < 2:
                        break
                    message = reply(made.recv(int.from_bytes(length), socket.MSG_WAITALL), 200)
                    more = 0 if left else socket.MSG_MORE
                    made.sendall(len(message).to_bytes(2) + message, more)
                    answered += 1

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield listening.getsockname()[1]
    finally:
        thread.join()
        listening.close()


def test_a_probe_says_how_often_the_server_closed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing_server(2) as port:
        words = ["probe", f"127.0.0.1:{port}", "--transport", "tcp", "--reuse"]
        words += ["--count", str(QUERIES), "--interval", "0.05s", "--out", str(tmp_path / "run")]
        assert main(words) == 0
    _, row, *rest = capsys.readouterr().out.splitlines()
    # Queries 1 and 2, 3 and 4, 5: the server closed two connections, and two queries had to connect
    # again. The probe itself closed the last.
    assert "2 connected again" in row
    said = next(line for line in rest if "persistent connections" in line)
    assert "the server closed 2 of 3 persistent connections" in said
    assert "2 of 5 queries had to connect again" in said


def test_the_idle_time_ends_with_the_servers_fin() -> None:
    """The server closes at once, and the probe looks a fifth of a second later."""
    with closing_server(1) as port:
        made = Plan(
            (Target("mine", "127.0.0.1", port),),
            transports=("tcp",),
            count=QUERIES,
            interval_s=0.2,
            reuse=True,
        )
        found = probe(made)
    (kept,) = found.findings["kept"]
    assert (kept["closed"], kept["connections"], kept["again"]) == (QUERIES, QUERIES, QUERIES - 1)
    if kept["exact"]:
        assert kept["idle_s"][2] < 0.15
    else:
        assert "at most" in kept["sentence"]


def test_kept_connections_are_counted_and_their_idle_times_measured() -> None:
    def asked(at: float, connection: int, vantage: str = "a") -> dict[str, object]:
        place = {"vantage": vantage, "connection": connection, "started_s": at}
        return {**tcp(connect=None, total_ms=100.0), **place, "target": "ns"}

    exchanges = pl.DataFrame(
        [asked(0.0, 0), asked(10.0, 0), asked(20.0, 1), asked(0.0, 2, "b"), asked(20.0, 3, "b")]
    )
    connections = pl.DataFrame(
        {
            "connection": [0, 1, 2, 3],
            "target": "ns",
            "transport": "tcp",
            "closed_by": ["server", "client", "server", "client"],
            "ended_s": [12.1, 20.2, 4.1, 20.2],
        }
    )
    (kept,) = persistent_connections(exchanges, connections, exact=True)
    # The last answers came at 10.1 s and 0.1 s.
    assert kept.idle_s == pytest.approx((2.0, 3.0, 4.0))
    assert kept.sentence == (
        "the server closed 2 of 4 persistent connections after they were idle for 2 s to 4 s, "
        "median 3 s; 2 of 5 queries had to connect again"
    )


def test_vantage_points_of_one_verdict_share_a_line() -> None:
    same = {"target": "ns", "transport": "tcp", "sentence": "2.0: one", "notes": []}
    found = [{**same, "vantage": f"10.9.0.{number}"} for number in range(1, 15)]
    found[4] = {**found[4], "sentence": "3.0: two"}
    assert [(where, part["sentence"]) for where, part in group_verdicts(found)] == [
        ("13 vantage points", "2.0: one"),
        ("10.9.0.5", "3.0: two"),
    ]


def test_a_command_with_many_sources_prints_a_paragraph_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # A port that nobody listens on: loopback has many addresses to ask from.
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    words = ["probe", f"127.0.0.1:{port}", "--transport", "tcp", "--count", "1", "-q"]
    for number in range(2, 16):
        words += ["--source", f"127.0.0.{number}"]
    assert main([*words, "--interval", "0s", "--out", str(tmp_path / "run")]) == 1
    text = capsys.readouterr().out
    assert text.count("it refuses connections: nothing listens there") == 1
    assert "from 14 vantage points: it refuses connections" in text

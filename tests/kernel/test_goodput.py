"""The kernel backend's table `goodput`: the agent's samples, and the table that they make."""

from __future__ import annotations

import json
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from narrows.backends.kernel.inside.agent.bulk import Bulk
from narrows.backends.kernel.inside.agent.loop import Loop
from narrows.backends.kernel.inside.agent.tcp_info import tcp_info
from narrows.backends.kernel.tables import read_tables

PLAN: dict[str, Any] = {
    "links": [],
    "changes": [],
    "applications": [{"name": name} for name in ("a", "b")],
}


def job(**groups: list[Any]) -> dict[str, Any]:
    """A job with these groups and nothing else."""
    nothing = {kind: groups.get(kind, []) for kind in ("bulk", "dns")}
    return {**nothing, "samples": {"queues": None, "links": None}}


def bulk(group: str, directions: list[bool], **keys: Any) -> dict[str, Any]:
    """A process of a group whose connections go backward or not."""
    return {
        "group": group,
        "goodput_s": 0.1,
        "flows": [{"backward": direction} for direction in directions],
        **keys,
    }


def goodput(folder: Path, told: dict[str, Any], files: dict[str, Any]) -> list[tuple[Any, ...]]:
    """The rows of the table that these files of the agent make."""
    for number in range(len(told["bulk"])):
        (folder / f"bulk-{number}.json").write_text("[]")
    for name, (samples, last) in files.items():
        (folder / f"goodput-{name}.json").write_text(json.dumps({"samples": samples, "last": last}))
    columns = read_tables(folder, PLAN, told, []).get("goodput", {})
    return list(zip(*columns.values(), strict=True))


def two_directions(acceptor: str | None) -> dict[str, Any]:
    """A job of two connections of this machine with itself, one in each direction of the group.

    If the acceptor is None, it is not this process, and nobody listens.
    """
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    ends = {"opener": "", "opener_address": "127.0.0.1", "opener_port": 0}
    ends |= {"acceptor": acceptor, "acceptor_address": "127.0.0.1", "start_s": 0.0}
    return {
        **{"port": port, "congestion": "reno", "mss": None, "nodelay": False, "stop_s": 0.15},
        **{"goodput_s": 0.05, "samples_s": [0.1, 0.3]},
        "flows": [
            {**ends, "flow": 0, "download": False, "backward": False, "opener_port": port + 1},
            {**ends, "flow": 1, "download": True, "backward": True, "opener_port": port + 2},
        ],
    }


def test_a_refused_connection_has_no_start() -> None:
    loop = Loop(time.monotonic())
    made = Bulk(two_directions(acceptor=None), loop)
    made.listen()
    made.start()
    loop.at(0.1, loop.stop)
    loop.run()
    rows = made.rows()
    assert [(row["start_s"], row["established_s"]) for row in rows] == [(None, None)] * 2


def test_what_receivers_read_is_sampled() -> None:
    loop = Loop(time.monotonic())
    made = Bulk(two_directions(acceptor=""), loop)
    made.listen()
    made.start()
    loop.at(0.42, loop.stop)
    loop.run()
    rows, sampled = made.rows(), made.goodput.rows()
    open_ends = [end for flow in made.flows for end in (flow.sender, flow.receiver)]
    for end in (*made._listening, *open_ends):
        if end is not None:
            end.close()
    received = [row["bytes_received"] for row in rows]
    assert min(received) > 0
    assert list(sampled["last"][1:]) == received
    times = [sample[0] for sample in sampled["samples"]]
    assert len(times) == 8
    assert all(at >= 0.05 * number for number, at in enumerate(times, start=1))
    for row in rows:
        assert 0.0 <= row["start_s"] <= row["established_s"]
        # Data never ran out between 0 and 150 ms; the kernel counts in jiffies.
        busy_us = row["sender"]["busy_us"]
        assert busy_us > 100_000 and 0 <= row["sender"]["rwnd_limited_us"] <= busy_us
        first, last = row["samples"]
        assert first["t_s"] >= 0.1 and last["t_s"] >= 0.3
        assert 0 < first["bytes_received"] <= last["bytes_received"] == row["bytes_received"]
        assert 0 < first["sender"]["segs_out"] <= last["sender"]["segs_out"]
    for one, other in zip(sampled["samples"], sampled["samples"][1:], strict=False):
        assert one[1] <= other[1] and one[2] <= other[2]


class _Told(socket.socket):
    """A socket of a kernel whose `struct tcp_info` has this many bytes, each of them 1."""

    length = 0

    def getsockopt(self, *_args: Any) -> Any:
        return b"\1" * self.length


@pytest.mark.parametrize(("length", "known"), [(168, False), (184, True), (248, True)])
def test_older_kernels_tell_no_times(length: int, known: bool, tmp_path: Path) -> None:
    with _Told() as found:
        found.length = length
        sender = tcp_info(found)
    row = {"flow": 0, "start_s": 0.0, "established_s": 0.1, "end_s": None, "bytes_received": 9}
    (tmp_path / "bulk-0.json").write_text(json.dumps([{**row, "sender": sender}]))
    told = job(bulk=[bulk("a", [False], goodput_s=None)])
    columns = read_tables(tmp_path, PLAN, told, [{"name": "a-0", "group": "a"}])["flows"]
    # Eight bytes of 1 are so many microseconds.
    expected = 0x0101010101010101 / 1e6 if known else None
    assert columns["busy_s"] == columns["rwnd_limited_s"] == [expected]


def test_processes_of_a_group_are_added_up(tmp_path: Path) -> None:
    told = job(bulk=[bulk("a", [False]), bulk("b", [False, True]), bulk("a", [False])])
    files = {
        "bulk-0": ([(0.1, 10, 0), (0.2, 30, 0)], (0.21, 31, 0)),
        "bulk-1": ([(0.1, 1, 2)], (0.2, 3, 4)),
        # Its last sample was due when the run ended.
        "bulk-2": ([(0.11, 100, 0)], (0.2, 300, 0)),
    }
    rows = goodput(tmp_path, told, files)
    assert rows == [
        (0.11, "a", "forward", 110),
        (0.1, "b", "forward", 1),
        (0.1, "b", "backward", 2),
        (0.21, "a", "forward", 331),
        (0.2, "b", "forward", 3),
        (0.2, "b", "backward", 4),
    ]


def test_without_samples_there_is_no_table(tmp_path: Path) -> None:
    assert goodput(tmp_path, job(bulk=[bulk("a", [False], goodput_s=None)]), {}) == []

"""Queues of one's own: in Python, in C, and compiled functions."""

from __future__ import annotations

import ctypes
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import narrows
from narrows import laws
from narrows.backends.sim import QueueFailed
from narrows.queues import (
    DROP,
    INCLUDE,
    MARK,
    PASS,
    Compiled,
    Packet,
    Queue,
    QueueError,
    QueueFault,
    packet_type,
)
from narrows.scenario.toml_text import toml_text

from .own import EXAMPLES, compiled, interrupt_soon, scenario

LINK = "wan.forward"


class _Tail(Queue):
    """The short form of a pfifo."""

    version = "1.0"

    def __init__(self, most: int = 20) -> None:
        self.most = most

    def admit(self, backlog: int, _bytes: int, _now: float, _packet: Packet) -> int:
        return DROP if backlog >= self.most else PASS


class _Line(Queue):
    """The full form of a pfifo."""

    def __init__(self, most: int = 20) -> None:
        self.most = most
        self.packets: list[Packet] = []

    def enqueue(self, _now: float, packet: Packet) -> int:
        if len(self.packets) >= self.most:
            return DROP
        self.packets.append(packet)
        return PASS

    def dequeue(self, _now: float) -> Packet | None:
        return self.packets.pop(0) if self.packets else None


class _HeadDrop(_Line):
    """Makes room at the head."""

    def enqueue(self, _now: float, packet: Packet) -> int:
        if len(self.packets) >= self.most:
            self.packets.pop(0).drop()
        self.packets.append(packet)
        return PASS


class _Paced(_Line):
    """A packet leaves every 10 us at most."""

    next = 0.0

    def dequeue(self, now: float) -> Packet | None:
        if now < self.next:
            return None
        self.next = now + 1e-5
        return super().dequeue(now)

    def ready_at(self, _now: float) -> float | None:
        return self.next if self.packets else None


def received(run: narrows.Run) -> int:
    return int(run.flows["bytes_received"].sum())


@pytest.mark.parametrize("queue", [_Tail(), _Line()])
def test_a_pfifo_in_python_is_a_pfifo(queue: Queue) -> None:
    ours, theirs = narrows.run(scenario()), narrows.run(scenario(), queues={LINK: queue})
    assert ours.flows.equals(theirs.flows)


@pytest.mark.parametrize("queue", [_Tail, _Line, _HeadDrop])
def test_the_laws_hold(queue: type[Queue]) -> None:
    laws.check(queue)


def test_the_laws_hold_for_one_that_shapes() -> None:
    laws.check(_Paced, shapes=True)
    with pytest.raises(laws.LawBroken, match="a packet was waiting, but none came out"):
        laws.check(_Paced)


def test_a_broken_law_is_named() -> None:
    class Last(_Line):
        def dequeue(self, _now: float) -> Packet | None:
            return self.packets.pop() if self.packets else None

    with pytest.raises(laws.LawBroken, match="Last: a flow's packets left in another order"):
        laws.check(Last)


def test_a_queue_sees_code_points_and_hosts() -> None:
    seen = set()

    class Looks(Queue):
        def admit(self, _backlog: int, _bytes: int, _now: float, packet: Packet) -> None:
            seen.add((packet.dscp, packet.hosts, packet.protocol))

    found = scenario()
    found["traffic"].append({**found["traffic"][0], "name": "ef", "dscp": "EF"})
    narrows.run(found, queues={LINK: Looks()})
    assert len(seen) == 2 and {dscp for dscp, *_ in seen} == {0, 46}
    assert {(hosts[0] != hosts[1], protocol) for _, hosts, protocol in seen} == {(True, "tcp")}


def test_marks_and_random_numbers_follow_the_seed() -> None:
    class Half(Queue):
        def admit(self, backlog: int, _bytes: int, now: float, packet: Packet) -> int | None:
            assert now == packet.arrived and packet.bytes >= 52 and packet.ports[1] >= 0
            return MARK if backlog > 5 and self.random.random() < 0.1 else None

    runs = [narrows.run(scenario(), queues={LINK: Half()}, seed=seed) for seed in (1, 1, 2)]
    assert runs[0].flows.equals(runs[1].flows) and not runs[0].flows.equals(runs[2].flows)
    assert runs[0].flows["ecn_reductions"].sum() > 0


def test_a_run_records_its_queues(tmp_path: Path) -> None:
    run = narrows.run(scenario(), queues={LINK: _Tail(most=7)}, out=tmp_path / "run")
    (record,) = narrows.Run.load(run.folder or "").outside["queues"].values()
    assert (record["class"], record["arguments"], record["version"]) == ("_Tail", "most=7", "1.0")
    assert record["source"].startswith("class _Tail(Queue):")


def test_an_exception_ends_the_run_and_what_there_is_is_kept(tmp_path: Path) -> None:
    class Fails(Queue):
        def admit(self, _backlog: int, _bytes: int, now: float, _packet: Packet) -> None:
            if now > 3:
                raise ZeroDivisionError("at three")

    with pytest.raises(
        QueueFailed, match=r"failed: wan\.forward: Fails: ZeroDivisionError: at three"
    ) as caught:
        narrows.run(scenario(), queues={LINK: Fails()}, out=tmp_path / "run")
    cause = caught.value.__cause__
    assert isinstance(cause, ZeroDivisionError)
    assert cause.__traceback__ is not None and "admit" in str(
        [frame.name for frame in __import__("traceback").extract_tb(cause.__traceback__)]
    )
    kept = narrows.Run.load(tmp_path / "run")
    assert (kept.status, kept.stopped) == ("partial", "queue-failed")
    assert 3 < kept.end_s < 3.1 and received(kept) > 0


ABUSES: dict[str, tuple[dict[str, Any], str]] = {
    "text": ({"admit": lambda *_: "drop"}, "returned drop, which is none of PASS, MARK and DROP"),
    "number": ({"admit": lambda *_: 3}, "returned 3, which is none of"),
    "truth": ({"admit": lambda *_: True}, "returned True, which is none of"),
    "no truth": ({"admit": lambda *_: False}, "returned False, which is none of"),
    "short form drops": (
        {"admit": lambda _self, _backlog, _bytes, _now, packet: packet.drop()},
        r"called drop\(\) or mark\(\); admit and release return DROP or MARK",
    ),
    "twice": (
        {
            "enqueue": lambda self, _, packet: setattr(self, "kept", packet),
            "dequeue": lambda self, _: self.kept,
        },
        "gave a packet that does not wait",
    ),
    "never": (
        {"enqueue": lambda *_: None, "dequeue": lambda *_: None},
        "packets wait, but none leaves and ready_at names no time",
    ),
    "past": (
        {"enqueue": lambda *_: None, "dequeue": lambda *_: None, "ready_at": lambda *_: 0.0},
        "to be asked again at 0",
    ),
    "nan": (
        {
            "enqueue": lambda *_: None,
            "dequeue": lambda *_: None,
            "ready_at": lambda *_: float("nan"),
        },
        "ready_at returned nan, which is no time",
    ),
    "no packet": (
        {"enqueue": lambda *_: None, "dequeue": lambda *_: 5},
        "dequeue returned 5, which is no packet",
    ),
}  # fmt: skip


@pytest.mark.parametrize("abuse", ABUSES)
def test_an_abuse_is_one_line(abuse: str) -> None:
    methods, words = ABUSES[abuse]
    queue = type("Abuse", (Queue,), methods)()
    with pytest.raises(QueueFailed, match=words) as caught:
        narrows.run(scenario(), queues={LINK: queue})
    assert isinstance(caught.value.__cause__, QueueFault)
    assert "\n" not in str(caught.value)


def test_a_packet_that_is_kept_and_dropped_later_is_a_fault() -> None:
    class Stale(_Line):
        first: Packet | None = None

        def dequeue(self, now: float) -> Packet | None:
            self.first = self.first or self.packets[0]
            if now > 2:
                self.first.drop()
            return super().dequeue(now)

    with pytest.raises(QueueFailed, match="dropped a packet that does not wait"):
        narrows.run(scenario(), queues={LINK: Stale()})


class _Limited(_Tail):
    def __init__(self, limit: float) -> None:
        super().__init__()
        self.limit = limit  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("queues", "error", "words"),
    [
        (
            {"nowhere": _Tail()},
            QueueError,
            'no link "nowhere".*; hint: one of .*forward, .*backward',
        ),
        ({LINK: _Tail}, QueueError, r"is a class; hint: make one: _Tail\(\)"),
        ({LINK: 3}, QueueError, "is no queue"),
        ({5: _Tail()}, QueueError, r"queues\[5\]: is not named by text; hint: a link and its dir"),
        ([_Tail()], QueueError, "queues: is no mapping but list"),
        ({LINK: Queue()}, TypeError, "has neither admit nor release"),
        ({LINK: _Limited(-1)}, narrows.NarrowsError, "_Limited: limit = -1 is no number of pack"),
        ({LINK: _Limited(2**32)}, narrows.NarrowsError, "limit = 4294967296 is no number of pack"),
        ({LINK: _Limited(2.5)}, narrows.NarrowsError, "limit = 2.5 is no number of packets up to"),
    ],
)
def test_what_is_no_queue_is_refused(queues: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        narrows.run(scenario(), queues=queues)


def test_another_backend_refuses_them() -> None:
    with pytest.raises(narrows.NarrowsError, match="run in the simulator, not on kernel"):
        narrows.run(scenario(), queues={LINK: _Tail()}, backend="kernel")


def test_ctrl_c_ends_a_queue_that_blocks() -> None:
    class Blocks(Queue):
        def admit(self, _backlog: int, _bytes: int, now: float, _packet: Packet) -> None:
            if now > 1:
                interrupt_soon()
            while now > 1:
                pass

    # The first run imports what tables need; an interrupt there would hit the import.
    narrows.run(scenario(duration="1 s"))
    began = time.monotonic()
    run = narrows.run(scenario(), queues={LINK: Blocks()})
    assert (run.status, run.stopped) == ("partial", "interrupted")
    assert 1 <= run.end_s < 1.1 and time.monotonic() - began < 20


def plugin(name: str, **settings: Any) -> dict[str, Any]:
    found = scenario()
    found["links"][0]["queue"] = {"kind": "plugin", "name": name, **settings}
    return found


def test_a_queue_in_c_runs_where_the_scenario_names_it(tmp_path: Path) -> None:
    codel = compiled("codel", tmp_path)
    runs = [
        narrows.run(plugin("codel-rfc8289", target=target), plugins=[codel])
        for target in ("5 ms", "5000 us", 0.005, "1 ms")
    ]
    assert runs[0].flows.equals(runs[1].flows) and runs[0].flows.equals(runs[2].flows)
    assert not runs[0].flows.equals(runs[3].flows)
    (record,) = runs[0].outside["plugins"]
    assert record["file"] == "codel.so" and len(record["sha256"]) == 64
    with pytest.raises(narrows.NarrowsError, match="has the settings target and interval"):
        narrows.run(plugin("codel-rfc8289", targe="5 ms"), plugins=[codel])
    both = {"codel-rfc8289": _Tail()}
    with pytest.raises(narrows.NarrowsError, match='a plugin and a class offer "codel-rfc8289"'):
        narrows.run(plugin("codel-rfc8289"), plugins=[codel], queues=both)


def test_a_scenario_alone_loads_nothing(tmp_path: Path) -> None:
    with pytest.raises(narrows.NarrowsError, match='no plugin offers the queue "codel-rfc8289"'):
        narrows.run(plugin("codel-rfc8289"))
    turns = compiled("turns", tmp_path)
    with pytest.raises(narrows.NarrowsError, match=r"turns.so: the scenario uses nothing of it"):
        narrows.run(plugin("codel-rfc8289"), plugins=[turns])
    found = plugin("codel-rfc8289")
    found["links"].append(
        {**found["links"][0], "name": "lan", "between": ["b", "c"]}
        | {"queue": {"kind": "plugin", "name": "turns"}}
    )
    with pytest.raises(narrows.NarrowsError, match='no class offers "codel-rfc8289"'):
        narrows.run(found, plugins=[turns])


def test_a_plugin_in_a_band_runs_too(tmp_path: Path) -> None:
    codel = compiled("codel", tmp_path)
    inner = plugin("codel-rfc8289")["links"][0]["queue"]
    found = scenario()
    found["links"][0]["queue"] = {"kind": "prio", "bands": [{"name": "all", "queue": inner}]}
    alone = narrows.run(plugin("codel-rfc8289"), plugins=[codel])
    assert alone.flows.equals(narrows.run(found, plugins=[codel]).flows)


def test_the_command_line_runs_a_plugin(tmp_path: Path) -> None:
    slope = compiled("slope", tmp_path)
    narrows_ = [sys.executable, "-m", "narrows"]
    listed = subprocess.run(
        [*narrows_, "plugin", str(slope)], capture_output=True, text=True, check=True
    )
    assert listed.stdout == "queue slope\n"
    wrong = subprocess.run([*narrows_, "plugin", __file__], capture_output=True, text=True)
    assert (
        wrong.returncode == 2 and wrong.stderr.count("\n") == 1 and "Traceback" not in wrong.stderr
    )
    file = tmp_path / "mine.toml"
    file.write_text(toml_text(plugin("slope", most=30)))
    command = [*narrows_, "run", str(file), "--no-report", "--out", str(tmp_path / "run")]
    refused = subprocess.run(command, capture_output=True, text=True)
    assert refused.returncode == 2 and "load it with --plugin" in refused.stderr
    other = [str(file), "--plugin", str(compiled("turns", tmp_path)), "--plugin", str(slope)]
    for word in ("run", "check"):
        unused = subprocess.run([*narrows_, word, *other], capture_output=True, text=True)
        assert unused.returncode == 2 and unused.stderr.count("\n") == 1
        assert "turns.so: the scenario uses nothing of it; hint: queue = {" in unused.stderr
    subprocess.run([*command, "--plugin", str(slope)], check=True, capture_output=True)
    assert received(narrows.Run.load(tmp_path / "run")) > 0


def test_the_command_line_keeps_what_there_is(tmp_path: Path) -> None:
    abuse = compiled("../tests/c/abuse", tmp_path)
    file = tmp_path / "mine.toml"
    file.write_text(toml_text(plugin("twice")))
    command = [sys.executable, "-m", "narrows", "run", str(file), "--plugin", str(abuse)]
    done = subprocess.run(
        [*command, "--no-report", "--out", str(tmp_path / "run")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert (
        "error: mine: a queue from outside failed: wan.forward: twice: gave a packet" in done.stderr
    )
    assert "the run is partial: queue-failed" in done.stderr
    assert narrows.Run.load(tmp_path / "run").status == "partial"


ADMIT = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.POINTER(ctypes.c_double),
    ctypes.c_uint32,
    ctypes.c_uint64,
    ctypes.c_uint64,
    ctypes.c_void_p,
)


def test_compiled_functions_have_a_state_for_each_run() -> None:
    def tail(state: Any, backlog: int, _bytes: int, _now: int, _packet: int) -> int:
        state[1] += 1
        return 2 if state[1] > 5000 or backlog >= state[0] else 0

    function = ADMIT(tail)
    address = ctypes.cast(function, ctypes.c_void_p).value
    queue = Compiled(admit=address, state=np.array([20.0, 0.0]))
    runs = [narrows.run(scenario(), queues={LINK: queue}) for _ in range(2)]
    assert runs[0].flows.equals(runs[1].flows)
    assert queue.state[1] == 0


def test_compiled_functions_with_other_states_are_other_queues() -> None:
    """NumPy prints both states alike. An address is no setting."""

    def tail(state: Any, backlog: int, _bytes: int, _now: int, _packet: int) -> int:
        return 2 if backlog >= state[0] - 1e9 else 0

    function = ADMIT(tail)
    address = ctypes.cast(function, ctypes.c_void_p).value
    many, few = (Compiled(admit=address, state=np.array([1e9 + most])) for most in (20, 5))
    alone = narrows.run(scenario(), queues={LINK: few})
    key = "links.wan.{}.queue".format
    both = narrows.run(scenario(), set={key("backward"): many, key("forward"): few})
    assert both.flows.equals(alone.flows)
    names = list(both.outside["queues"])
    assert len(names) == 2 and str(address) not in str(both.scenario) + str(names)


def test_the_packet_of_numpy_is_that_of_c() -> None:
    assert packet_type().itemsize == 48


@pytest.mark.parametrize(
    ("example", "line", "values"),
    [
        ("slope", "return narrows_random_unit", plugin("slope")),
        ("aimd", "aimd->count = 0;\n    sending", scenario({"congestion": "aimd"})),
    ],
)
def test_ctrl_c_ends_compiled_code_that_blocks(
    example: str, line: str, values: dict[str, Any], tmp_path: Path
) -> None:
    """It takes the process with it, because nothing can interrupt compiled code."""
    program = "import narrows, sys; narrows.run(%r, plugins=[sys.argv[1]])"
    source = (EXAMPLES / f"{example}.c").read_text()
    assert line in source
    source = source.replace(line, f'if (write(2, "!", 1)) for (;;);\n    {line}')
    if shutil.which("cc") is None:
        pytest.skip("no C compiler cc")
    (tmp_path / "b.c").write_text(f"#include <unistd.h>\n{source}")
    made = tmp_path / "b.so"
    command = ["cc", "-O1", "-shared", "-fPIC", f"-I{INCLUDE}", str(tmp_path / "b.c")]
    subprocess.run([*command, "-o", str(made)], check=True)
    process = subprocess.Popen(
        [sys.executable, "-c", program % values, str(made)],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None and process.stderr.read(1) == "!"
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=20)
    assert process.returncode == 130, said
    assert "compiled code does not return" in said

"""Parts that meet over a real socket, and strangers who try to join, stop or exhaust a run."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from narrows.builds import THIS
from narrows.machines import MachineError, Part, clocks, control
from narrows.machines.control import Conductor, listening
from narrows.machines.lines import CONDUCTOR, LONGEST, PART, Line, LineError
from narrows.machines.member import Member

SECRET = "0123456789abcdef"
SERVE, RESOLVE = Part("serve", "server"), Part("resolve", "stubs")


@dataclass
class Place:
    """A conductor of two parts on loopback."""

    conductor: Conductor
    where: tuple[str, int]

    def join(self, part: Part, *, secret: str = SECRET, digest: str = "d") -> Member:
        """Joins as a part."""
        return Member(part, self.where, digest, secret, wait_s=30.0)

    def connect(self) -> socket.socket:
        """Connects, and says nothing."""
        return socket.create_connection(self.where, timeout=30.0)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        number: int = found.getsockname()[1]
        return number


@pytest.fixture
def place() -> Iterator[Place]:
    where = ("127.0.0.1", free_port())
    conductor = Conductor(*where, "d", [SERVE, RESOLVE], SECRET)
    yield Place(conductor, where)
    conductor.close(linger_s=0.0)


def is_closed(found: socket.socket) -> bool:
    """Waits until the other end has closed the connection; what it sent before does not matter."""
    with contextlib.suppress(ConnectionError):
        while found.recv(4096):
            pass
    return True


def test_parts_meet_start_and_stop_together(place: Place) -> None:
    members = [place.join(part) for part in (SERVE, RESOLVE)]
    assert {member.run for member in members} == {place.conductor.run}
    starts: list[float] = []
    threads = [
        threading.Thread(target=lambda each=member: starts.append(each.start(lambda: None)))
        for member in members
    ]
    threads[0].start()
    while place.conductor.missing != [RESOLVE]:
        threads[0].join(0.01)
    assert not starts, "one is missing"
    threads[1].start()
    for thread in threads:
        thread.join(30.0)
    assert starts[0] == starts[1] > clocks.now()
    with pytest.raises(MachineError, match="the run has already begun"):
        place.join(Part("monitor", "router"))
    # Both use one clock, so the offset is zero within its uncertainty.
    offset = members[0].offset()
    assert abs(offset.offset_s) <= offset.uncertainty_s
    # Only DNS workers end a run by being done.
    members[0].tell("done")
    assert members[0].offset() and members[0].stopped() is None
    members[1].tell("done")
    while (why := members[0].stopped()) is None:
        threads[0].join(0.01)
    assert why == "dns-done"
    for member in members:
        member.close()


def test_a_part_that_does_not_fit_is_told_why(place: Place) -> None:
    with pytest.raises(MachineError, match="another scenario or seed; hint: copy the same file"):
        place.join(SERVE, digest="other")
    with pytest.raises(MachineError, match="this run does not need drive at client"):
        place.join(Part("drive", "client"))
    there = place.join(SERVE)
    with pytest.raises(MachineError, match="serve at server has already connected"):
        place.join(SERVE)
    there.close()


@pytest.mark.parametrize("theirs", ["0.1.0 (0123456789ab)", None, ["a"]])
def test_another_build_does_not_take_part(
    place: Place, monkeypatch: pytest.MonkeyPatch, theirs: object
) -> None:
    monkeypatch.setattr("narrows.machines.member.THIS", theirs)
    with pytest.raises(MachineError) as caught:
        place.join(SERVE)
    assert str(caught.value) == (
        f"127.0.0.1 refused {SERVE}: it has narrows {theirs}, "
        f"but the conductor has {THIS}; hint: install the same on all machines"
    )
    monkeypatch.undo()
    place.join(SERVE).close()


def test_without_the_secret_nobody_joins_or_stops_a_run(place: Place) -> None:
    there = place.join(SERVE)
    with pytest.raises(
        MachineError, match=r"it has another secret, .*; hint: give the secret"
    ) as e:
        place.join(RESOLVE, secret=SECRET[::-1])
    assert "\n" not in str(e.value)
    hello = b'{"hello":{"role":"resolve","node":"stubs","digest":"d"}}'
    stop = b'{"interrupted":0}'
    greeting = Line(SECRET, PART).greeting
    for said in (
        b"\n",
        b"\xff\n",
        b"GET / HTTP/1.0\r\n\r\n",
        b"[" * 60_000 + b"\n",
        b'{"hello":' * 8000 + b"\n",
        b"x" * 200_000,
        hello + b"\n" + stop + b"\n",
        greeting + hello + b"\n",
        greeting + b"0" * 64 + b" " + hello + b"\n" + stop + b"\n",
        greeting + greeting,
        greeting + b"x" * LONGEST,
        greeting[:-2] + b"\n",
        greeting[:-2] + b"g\n",
    ):
        with place.connect() as found, contextlib.suppress(ConnectionError):
            found.sendall(said)
            assert is_closed(found), said[:60]
    assert there.offset().uncertainty_s >= 0.0, "it is still there"
    assert there.stopped() is None
    place.join(RESOLVE).close()
    there.close()


def both_ends() -> tuple[Line, Line]:
    part, conductor = Line(SECRET, PART), Line(SECRET, CONDUCTOR)
    part.feed(conductor.greeting)
    conductor.feed(part.greeting)
    assert part.next() is conductor.next() is None
    return part, conductor


def test_a_line_is_valid_once_in_its_place_direction_and_connection() -> None:
    part, conductor = both_ends()
    first, second = part.seal({"ready": 0}), part.seal({"time": 0})
    back = conductor.seal({"ready": 0})
    assert first != back, "directions have different keys"
    conductor.feed(first + second)
    assert (conductor.next(), conductor.next(), conductor.next()) == (
        {"ready": 0},
        {"time": 0},
        None,
    )
    changed = first[:65] + first[65:].replace(b"ready", b"hello")
    for name, lines in {
        "replayed": [first, first],
        "out of order": [second],
        "reflected": [back],
        "changed": [changed],
        "without its separator": [first.replace(b" ", b"_", 1)],
    }.items():
        # The same connection, as far as the keys show.
        again = Line(SECRET, CONDUCTOR)
        again._nonce, again._keys = conductor._nonce, conductor._keys
        again.feed(b"".join(lines))
        with pytest.raises(LineError):
            for _ in lines:
                again.next()
            pytest.fail(name)
    # A recorded connection does not open another one: the conductor's nonce differs.
    other = Line(SECRET, CONDUCTOR)
    other.feed(part.greeting + first)
    with pytest.raises(LineError, match="another secret"):
        other.next()
    # Nor does a conductor's own nonce, sent back to it, make its lines come from a part.
    mirror = Line(SECRET, CONDUCTOR)
    mirror.feed(mirror.greeting)
    assert mirror.next() is None
    mirror.feed(mirror.seal({"ready": 0}))
    with pytest.raises(LineError, match="another secret"):
        mirror.next()


@pytest.mark.parametrize(
    "body", ["[" * 4000, "9" * 4000, "[1]", '{"a":1,"b":2}', "{}", "\\", "NaN"]
)
def test_what_a_holder_of_the_secret_sends_may_be_nonsense(body: str) -> None:
    part, conductor = both_ends()
    real = json.dumps
    try:
        json.dumps = lambda *_args, **_kwargs: body  # type: ignore[assignment]
        conductor.feed(part.seal({}))
    finally:
        json.dumps = real
    with pytest.raises(LineError, match="is not a message") as e:
        conductor.next()
    assert len(str(e.value)) < 400 and "\n" not in str(e.value)


@pytest.mark.parametrize(
    "message",
    [
        {"hello": 3},
        {"hello": {"role": "drive"}},
        {"hello": {"role": ["serve"], "node": "server", "digest": "d"}},
        {"hello": {"role": "serve", "node": None, "digest": "d"}},
        {"interrupted": 0},
        {"ready": 0},
    ],
)
def test_who_knows_the_secret_must_say_hello_first(
    place: Place, message: dict[str, object]
) -> None:
    there = place.join(SERVE)
    with place.connect() as found:
        line = Line(SECRET, PART)
        found.sendall(line.greeting)
        line.feed(found.recv(4096))
        assert line.next() is None
        found.sendall(line.seal(message))
        assert is_closed(found)
    assert there.offset() and there.stopped() is None
    there.close()


def test_a_part_believes_no_conductor_without_the_secret() -> None:
    for said, why in (
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "not this version of narrows"),
        (Line(SECRET, CONDUCTOR).greeting + b'{"run":"x"}\n', "has another secret"),
        (Line(SECRET[::-1], CONDUCTOR).greeting, "has another secret, or too many"),
        (b"x" * LONGEST, f"longer than {LONGEST} bytes"),
    ):
        with socket.create_server(("127.0.0.1", 0)) as server:

            def answer(server: socket.socket = server, said: bytes = said) -> None:
                with contextlib.suppress(OSError):
                    while True:
                        found, _ = server.accept()
                        with found:
                            found.sendall(said)
                            found.recv(4096)

            thread = threading.Thread(target=answer)
            thread.start()
            with pytest.raises(MachineError, match=why):
                Member(SERVE, server.getsockname(), "d", SECRET, wait_s=5.0)
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


def test_strangers_have_few_places_and_little_time(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "MOST_STRANGERS", 8)
    # An address with many connections crowds out its own; here all have the same.
    before = threading.active_count()
    silent = [place.connect() for _ in range(200)]
    there = place.join(SERVE)
    assert all(is_closed(each) for each in silent[:150])
    assert threading.active_count() < before + 20
    # Another address keeps its place, although it is the oldest.
    with socket.create_connection(
        place.where, timeout=30.0, source_address=("127.0.0.9", 0)
    ) as one:
        assert one.recv(4096).startswith(b"narrows-machines")
        more = [place.connect() for _ in range(50)]
        assert is_closed(more[0])
        one.sendall(Line(SECRET, PART).greeting)
        one.settimeout(0.0)
        with pytest.raises(BlockingIOError):
            one.recv(4096)
    # Each has a deadline, which bytes do not extend.
    monkeypatch.setattr(control, "PROOF_S", 0.2)
    with place.connect() as slow, contextlib.suppress(ConnectionError):
        slow.settimeout(0.05)
        for _ in range(600):
            slow.sendall(b"x")
            with contextlib.suppress(TimeoutError):
                if not slow.recv(4096):
                    break
        else:
            pytest.fail("it is still there after 30 s")
    assert there.offset().uncertainty_s >= 0.0
    there.close()
    for each in (*silent, *more):
        each.close()


def test_a_part_that_does_not_read_holds_nobody_up(place: Place) -> None:
    with socket.socket() as found:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        found.settimeout(30.0)
        found.connect(place.where)
        line = Line(SECRET, PART)
        found.sendall(line.greeting)
        line.feed(found.recv(4096))
        assert line.next() is None
        hello = {"role": "serve", "node": "server", "digest": "d", "narrows": THIS}
        found.sendall(line.seal({"hello": hello}))
        with pytest.raises(ConnectionError):
            while True:
                found.sendall(b"".join(line.seal({"time": 0}) for _ in range(100)))
    there = place.join(SERVE)
    assert there.offset().uncertainty_s >= 0.0
    there.close()


def test_a_flood_of_connections_does_not_end_the_listener() -> None:
    """Descriptors run out before the limit of strangers does; afterwards a part joins as usual."""
    port = free_port()
    program = f"""
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
from narrows.machines.control import Conductor
from narrows.machines.parts import Part
conductor = Conductor("127.0.0.1", {port}, "d", [Part("serve", "server")], "{SECRET}")
print("listening", flush=True)
sys.stdin.read()
conductor.close(0.0)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    silent = []
    try:
        assert process.stdout is not None and process.stdout.readline() == "listening\n"
        where = ("127.0.0.1", port)
        silent = [socket.create_connection(where, timeout=30.0) for _ in range(300)]
        there = Member(SERVE, where, "d", SECRET, wait_s=30.0)
        assert there.offset().uncertainty_s >= 0.0
        there.close()
        _, said = process.communicate("", timeout=30.0)
        assert (process.returncode, said) == (0, "")
    finally:
        process.kill()
        process.wait()
        for each in silent:
            each.close()


def test_a_port_in_use_and_a_peer_that_is_away_are_one_line() -> None:
    port = free_port()
    with pytest.raises(MachineError, match=f"nothing listens on port {port} .*; hint: start the "):
        Member(SERVE, ("127.0.0.1", port), "d", SECRET, wait_s=0.0)
    held = listening("127.0.0.1", port)
    with pytest.raises(MachineError, match=f"127.0.0.1 port {port}: address already in use; hint"):
        listening("127.0.0.1", port)
    held.close()
    with pytest.raises(MachineError, match=r"192.0.2.1 port 5001: .*; hint: give this machine's"):
        listening("192.0.2.1", 5001)

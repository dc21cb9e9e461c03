"""The two C programs of these tests, compiled when first needed: a lossy wire, and a flood."""

from __future__ import annotations

import contextlib
import functools
import json
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.network import CLIENT_MAC, SERVER_MAC, Network

SOURCES = Path(__file__).parent / "programs"


@functools.cache
def compiled(name: str) -> Path:
    """The program, in a folder that is removed when this process ends."""
    folder = tempfile.TemporaryDirectory(prefix="nrw-e2e-")
    FOLDERS.append(folder)
    program = Path(folder.name) / name
    words = ["cc", "-O2", "-Wall", "-Wextra", "-Werror", "-o", str(program)]
    done = subprocess.run([*words, str(SOURCES / f"{name}.c")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return program


FOLDERS: list[tempfile.TemporaryDirectory[str]] = []


@dataclass(frozen=True)
class Conditions:
    """What happens to segments, in both directions; classes are client addresses."""

    loss: float = 0.0
    double: float = 0.0
    reorder: float = 0.0
    """The share that is held back for `reorder_delay`."""
    delay: float = 0.0
    """The delay of every segment, in seconds."""
    reorder_delay: float = 0.003
    """The extra delay of segments that are held back, in seconds."""
    seed: int = 1


@dataclass(frozen=True)
class Counts:
    """What the wire did."""

    from_client: int
    to_client: int
    lost: int
    doubled: int
    reordered: int


class Wire:
    """Joins the two ends of the wire's namespace."""

    def __init__(self, net: Network) -> None:
        assert net.wire is not None
        assert net.wire_links is not None
        self.process = subprocess.Popen(
            net.wire.command(str(compiled("wire")), *net.wire_links),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.answer() == "ready"

    def answer(self) -> str:
        """The next line of its output."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def tell(self, line: str) -> str:
        """Sends it a command."""
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.answer()
        assert answer not in ("", "error"), line
        return answer

    def set(self, conditions: Conditions, client: int = 1) -> None:
        """Settings for clients whose address ends in that byte; this resets its counts."""
        shares = [
            round(share * 10000)
            for share in (conditions.loss, conditions.double, conditions.reorder)
        ]
        delays = [round(delay * 1e6) for delay in (conditions.delay, conditions.reorder_delay)]
        self.tell(" ".join(map(str, ["set", client, conditions.seed, *shares, *delays])))

    def drop(self, to_client: bool, number: int, client: int = 1) -> None:
        """Loses one segment of a direction, counted from 1 since `set`; 0 loses none."""
        self.tell(f"drop {client} {int(to_client)} {number}")

    def counts(self, client: int = 1) -> Counts:
        """What the wire has done since `set`."""
        return Counts(*map(int, self.tell(f"count {client}").split()))


@contextlib.contextmanager
def wire(net: Network) -> Iterator[Wire]:
    """Runs a wire until the block ends."""
    made = Wire(net)
    try:
        yield made
    finally:
        made.process.kill()
        made.process.wait()
        for stream in (made.process.stdin, made.process.stdout):
            if stream is not None:
                stream.close()


@dataclass(frozen=True)
class Flood:
    """What a flood sent, and what came back."""

    sent: int
    seconds: float
    answers: int
    acknowledged: int


def flood_command(
    net: Network,
    kind: str,
    server: str,
    number: int,
    seconds: float,
    rate: int = 0,
    query: bytes = b"",
) -> tuple[list[str], dict[str, str]]:
    """The command line and environment of a flood; see programs/flood.c."""
    words = [
        str(compiled("flood")),
        kind,
        net.client_link,
        CLIENT_MAC.hex(":"),
        SERVER_MAC.hex(":"),
    ]
    words += [server, str(number), str(seconds), str(rate), "2026"]
    return net.client.command(*words), {
        "QUERY": query.hex(),
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
    }


def flood(
    net: Network, kind: str, server: str, number: int, seconds: float, **other: int | bytes
) -> Flood:
    """Runs a flood to its end."""
    words, environment = flood_command(net, kind, server, number, seconds, **other)  # type: ignore[arg-type]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    return Flood(**json.loads(done.stdout))


@contextlib.contextmanager
def flooding(
    net: Network, kind: str, server: str, seconds: float, **other: int | bytes
) -> Iterator[subprocess.Popen[str]]:
    """Runs a flood in the background, for that many seconds at most."""
    words, environment = flood_command(net, kind, server, 100_000_000, seconds, **other)  # type: ignore[arg-type]
    process = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()

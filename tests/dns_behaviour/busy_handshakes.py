"""How long Unbound waits for TLS handshakes while its table of connections fills.

# .venv/bin/python -m tests.dns_behaviour.busy_handshakes

Unbound listens on loopback, on free ports, and root is not needed. Each case has an Unbound of its
own, with room for `ROOM` connections, which open one after the other. It takes 40 seconds, and at
most 100 connections are open at a time.
"""

from __future__ import annotations

import contextlib
import selectors
import shutil
import socket
import ssl
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from .real_servers import CHAIN, KEY

_T = TypeVar("_T")

ROOM = 10
"""incoming-num-tcp of Unbound: its default."""
WATCH = 33.0
"""Seconds for which connections are watched: longer than Unbound's usual timeout of 30 s."""
GAP = 0.15
"""Seconds between two pieces of a slow ClientHello: less than the shortest timeout."""
PIECES = 5
"""The pieces of a slow ClientHello, the last of which never comes."""


@dataclass(frozen=True)
class Ports:
    """Where an Unbound listens."""

    plain: int
    tls: int


@dataclass
class Opened:
    """A connection, and what became of it."""

    sock: socket.socket
    begun: float
    """When it was established."""
    closed_after: float | None = None
    """Seconds from its establishment to the server's end; None: it was open at the end."""


@contextlib.contextmanager
def unbound(folder: Path, room: int = ROOM) -> Iterator[Ports]:
    """Runs Unbound with one thread and room for so many connections on each port."""
    ports = Ports(*free_ports(2))
    lines = ["server:", f"  interface: 127.0.0.1@{ports.plain}"]
    lines += [f"  interface: 127.0.0.1@{ports.tls}", f"  tls-port: {ports.tls}"]
    lines += [f'  tls-service-key: "{KEY}"', f'  tls-service-pem: "{CHAIN}"']
    lines += [f"  incoming-num-tcp: {room}", '  username: ""', '  chroot: ""', "  use-syslog: no"]
    lines += [f'  directory: "{folder}"', f'  pidfile: "{folder}/pid"', "  do-daemonize: no"]
    lines += ['  module-config: "iterator"', '  local-zone: "." refuse']
    lines += ["remote-control:", "  control-enable: no"]
    (folder / "unbound.conf").write_text("\n".join(lines) + "\n")
    words = ["unbound", "-d", "-p", "-c", f"{folder}/unbound.conf"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        until = time.monotonic() + 10
        while not listens(ports.tls):
            if process.poll() is not None or time.monotonic() > until:
                said = (folder / "log").read_text(errors="replace")[-1500:]
                raise RuntimeError(f"unbound does not listen: {said}")
            time.sleep(0.05)
        # Its place in the table of the trial above is free again.
        time.sleep(0.3)
        yield ports
    finally:
        process.terminate()
        process.wait(10)


def free_ports(count: int) -> list[int]:
    """Ports that nobody has."""
    with contextlib.ExitStack() as stack:
        socks = [stack.enter_context(socket.socket()) for _ in range(count)]
        for sock in socks:
            sock.bind(("127.0.0.1", 0))
        return [sock.getsockname()[1] for sock in socks]


def listens(port: int) -> bool:
    """Whether somebody accepts connections there."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def opened(port: int) -> Opened:
    """A new connection."""
    sock = socket.create_connection(("127.0.0.1", port), timeout=5)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return Opened(sock, time.monotonic())


class Handshake:
    """A client's side of TLS 1.3, one flight at a time."""

    def __init__(self) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out)

    def flight(self) -> bytes:
        """What the client writes next."""
        with contextlib.suppress(ssl.SSLWantReadError):
            self._tls.do_handshake()
        return self._out.read()

    def finish(self, sock: socket.socket) -> None:
        """Does the whole handshake."""
        sock.sendall(self.flight())
        while not (last := self.flight()):
            self._in.write(sock.recv(65535))
        sock.sendall(last)


def silent(one: Opened) -> None:
    """Sends nothing."""


def half_hello(one: Opened) -> None:
    """Sends the first half of the ClientHello."""
    hello = Handshake().flight()
    one.sock.sendall(hello[: len(hello) // 2])


def hello_alone(one: Opened) -> None:
    """Sends the ClientHello, and does not answer the server's flight."""
    one.sock.sendall(Handshake().flight())


def finished(one: Opened) -> None:
    """Completes the handshake, and sends no query."""
    Handshake().finish(one.sock)


def watched(connections: Sequence[Opened], seconds: float) -> None:
    """Notes when the server closes each connection."""
    selector = selectors.DefaultSelector()
    for one in connections:
        one.sock.setblocking(False)
        selector.register(one.sock, selectors.EVENT_READ, one)
    until = time.monotonic() + seconds
    while selector.get_map() and time.monotonic() < until:
        for key, _ in selector.select(max(0.0, until - time.monotonic())):
            one = key.data
            data = b""
            with contextlib.suppress(OSError):
                data = one.sock.recv(65535)
            if not data:
                one.closed_after = time.monotonic() - one.begun
                selector.unregister(one.sock)
    selector.close()


def filled(ports: Ports, does: Callable[[Opened], None], seconds: float = WATCH) -> list[Opened]:
    """Fills the table of TLS with connections that do the same, and watches all."""
    connections = []
    for _ in range(ROOM):
        one = opened(ports.tls)
        does(one)
        connections.append(one)
    watched(connections, seconds)
    for one in connections:
        one.sock.close()
    return connections


def slow_hello(ports: Ports) -> float | None:
    """The lifetime of the last place's connection if its ClientHello comes in slow pieces."""
    others = [opened(ports.tls) for _ in range(ROOM - 1)]
    one = opened(ports.tls)
    hello = Handshake().flight()
    size = len(hello) // PIECES
    with contextlib.suppress(OSError):
        for piece in range(PIECES - 1):
            one.sock.sendall(hello[piece * size : (piece + 1) * size])
            time.sleep(GAP)
    watched([one], 3.0)
    for each in [*others, one]:
        each.sock.close()
    return one.closed_after


def other_port(ports: Ports) -> float | None:
    """The lifetime of a TLS connection while the other port's table is full."""
    others = [opened(ports.plain) for _ in range(ROOM)]
    one = opened(ports.tls)
    watched([one], 3.0)
    for each in [*others, one]:
        each.sock.close()
    return one.closed_after


def afterwards(ports: Ports) -> float | None:
    """The lifetime of a connection that gets the place of one with a shorter timeout.

    The table was full a second before, and four of ten connections are open now. If the machine is
    so busy that the wrong place becomes free last, it tries again.
    """
    for _ in range(3):
        connections = [opened(ports.tls) for _ in range(ROOM)]
        for one in connections[:2]:
            one.sock.close()
        # These free their places last, and the place that became free last is used first.
        watched(connections[ROOM // 2 :], 3.0)
        time.sleep(1.0)
        one = opened(ports.tls)
        watched([one], 1.5)
        for each in [*connections, one]:
            each.sock.close()
        if one.closed_after is not None:
            return one.closed_after
        time.sleep(0.5)
    return None


def half_query(ports: Ports) -> float | None:
    """The lifetime of the last place's connection if it sends half a query over TCP."""
    others = [opened(ports.plain) for _ in range(ROOM - 1)]
    one = opened(ports.plain)
    one.sock.sendall(b"\0\x1d" + bytes(9))
    watched([one], 3.0)
    for each in [*others, one]:
        each.sock.close()
    return one.closed_after


FILLED = (silent, half_hello, hello_alone, finished)
OTHERS = (slow_hello, other_port, half_query, afterwards)


@dataclass
class Shown:
    """What Unbound did."""

    by_place: dict[str, list[float | None]]
    """For each way to fill the table: the lifetime of each connection, in the order of opening."""
    slow_hello: float | None
    other_port: float | None
    half_query: float | None
    afterwards: float | None


def trial() -> Shown:
    """All cases, at the same time."""
    with contextlib.ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        pool = stack.enter_context(ThreadPoolExecutor(len(FILLED) + len(OTHERS)))

        def run(name: str, case: Callable[[Ports], _T]) -> _T:
            folder = root / name
            folder.mkdir()
            with unbound(folder) as ports:
                return case(ports)

        def fill(does: Callable[[Opened], None]) -> list[float | None]:
            found = run(does.__name__, lambda ports: filled(ports, does))
            return [one.closed_after for one in found]

        waiting = {does.__name__: pool.submit(fill, does) for does in FILLED}
        others = [pool.submit(run, each.__name__, each) for each in OTHERS]
        return Shown(
            {name: part.result() for name, part in waiting.items()},
            *(part.result() for part in others),
        )


def missing() -> str | None:
    """Why the trial cannot run."""
    return None if shutil.which("unbound") else "unbound is not installed"


def main() -> None:
    """The command line."""
    shown = trial()
    print(f"Seconds until Unbound closes, with room for {ROOM} connections:")
    names = list(shown.by_place)
    print("place", *(f"{name:>12}" for name in names))
    for place in range(ROOM):
        cells = [shown.by_place[name][place] for name in names]
        print(f"{place + 1:>5}", *(f"{say(cell):>12}" for cell in cells))
    print(f"a ClientHello in pieces {GAP} s apart, at the last place: {say(shown.slow_hello)}")
    print(f"on the TLS port, while the other port's table is full: {say(shown.other_port)}")
    print(f"half a query over TCP, at the last place: {say(shown.half_query)}")
    print(f"the fourth, at a place that had a shorter timeout: {say(shown.afterwards)}")


def say(seconds: float | None) -> str:
    """A time, or that there is none."""
    return "open" if seconds is None else f"{seconds:.2f}"


if __name__ == "__main__":
    main()

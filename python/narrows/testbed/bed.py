"""Two namespaces with a path between them: clients at 10.9.0.0/16, servers at 10.8.0.0/16.

Each client address may be at a different distance, so one namespace can stand for many vantage
points. The path is `narrows._core.Path`: two TUN devices and a thread that carries packets.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from narrows import _core
from narrows.testbed.namespace import Namespace, ip, namespace
from narrows.testbed.needs import BedError

SERVER = "10.8.0.1"
"""The server's address."""

_PROTOCOLS = {"tcp": 6, "udp": 17}


@dataclass(frozen=True)
class Link:
    """The path of one client.

    Attributes:
        client: Its address, in 10.9.0.0/16.
        rtt_ms: Its round trip in ms, half of it each way.
        loss: The share of packets lost each way, from 0 to 1.
        tcp_rtt_ms: TCP's own round trip, if another place answers TCP; None for `rtt_ms`.

    Examples:
        >>> Link("10.9.0.1", rtt_ms=40.0, loss=0.01)
        Link(client='10.9.0.1', rtt_ms=40.0, loss=0.01, tcp_rtt_ms=None)
    """

    client: str
    rtt_ms: float
    loss: float = 0.0
    tcp_rtt_ms: float | None = None


@dataclass(frozen=True)
class Bed:
    """A path that is ready.

    Attributes:
        client: The namespace of the clients. A probe runs in `with bed.client.inside()`.
        server: The namespace of the servers. `bed.server.running(words, log)` starts one.
        links: The clients.
        path: Carries the packets.
    """

    client: Namespace
    server: Namespace
    links: Sequence[Link]
    path: _core.Path


@contextlib.contextmanager
def bed(
    links: Sequence[Link], *, servers: Sequence[str] = (SERVER,), seed: int = 1
) -> Iterator[Bed]:
    """Sets up a path until the block ends. It needs root; docs/probe.md has an example.

    Args:
        links: The clients: `Link(client, rtt_ms, loss=0.0, tcp_rtt_ms=None)`, each with an address
            in 10.9.0.0/16, its round trip in ms, the share of packets lost each way, and TCP's
            round trip if it differs.
        servers: The servers' addresses, in 10.8.0.0/16.
        seed: Determines which packets are lost.

    Raises:
        BedError: The path cannot be made.
    """
    with contextlib.ExitStack() as stack:
        client = stack.enter_context(namespace("client"))
        server = stack.enter_context(namespace("server"))
        number = client.name.split("-")[3]
        names = (f"nrwc{os.getpid()}x{number}"[:15], f"nrws{os.getpid()}x{number}"[:15])
        try:
            path = _core.Path(*names, _rules(links), seed)
        except OSError as error:
            raise BedError(f"TUN device {names[0]}: {error.strerror or error}") from None
        for space, name, own, other in (
            (client, names[0], [link.client for link in links], "10.8.0.0/16"),
            (server, names[1], servers, "10.9.0.0/16"),
        ):
            ip("link", "set", name, "netns", space.name)
            space.ip("link", "set", name, "up", "mtu", "1500", "txqueuelen", "10000")
            for address in own:
                space.ip("address", "add", f"{address}/32", "dev", name)
            space.ip("route", "add", other, "dev", name)
            # If the kernel remembered a connection's round trip, the next connection would behave
            # differently.
            space.setting("net/ipv4/tcp_no_metrics_save", "1")
        carrier = threading.Thread(target=_carry, args=(path,), name="path", daemon=True)
        carrier.start()
        try:
            yield Bed(client, server, tuple(links), path)
        finally:
            path.stop()
            carrier.join()


def prefer_this_thread() -> None:
    """Lets this thread run before others, if allowed, so that the path never waits for a probe."""
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))


def _carry(path: _core.Path) -> None:
    prefer_this_thread()
    path.run()


def _rules(links: Sequence[Link]) -> list[tuple[int | None, str | None, str | None, float, float]]:
    rules: list[tuple[int | None, str | None, str | None, float, float]] = []
    for link in links:
        if link.tcp_rtt_ms is not None:
            rules.append((_PROTOCOLS["tcp"], link.client, None, link.tcp_rtt_ms / 2, link.loss))
        rules.append((None, link.client, None, link.rtt_ms / 2, link.loss))
    return rules

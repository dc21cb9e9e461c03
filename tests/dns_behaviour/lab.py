"""All trials at once: each client against each case, on one line."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..network import network
from .cases import CASES, MTU, ROOT, Case, address
from .clients import CLIENTS, Ask, Client, asked, daemon, front_end, names
from .packets import SYN, TCP, UDP, Packet
from .scripted import Scripted
from .wire import Wire, fragments

SERVER, SERVER6 = "192.0.2.53", "2001:db8::53"
PLACES = "10.53.0.0/16"
STAGGER = 0.04
"""Seconds between the starts of two trials, so that they do not wait for each other."""
# The defaults of every Linux; see Documentation/networking/ip-sysctl.rst.
KERNEL = {
    "net/ipv4/tcp_syn_retries": "6",
    "net/ipv4/tcp_syn_linear_timeouts": "4",
    "net/ipv4/tcp_rto_max_ms": "120000",
    "net/ipv4/ip_local_port_range": "32768 60999",
    "net/ipv4/tcp_tw_reuse": "2",
    "net/ipv4/tcp_ecn": "2",
    "net/ipv4/tcp_fastopen": "1",
}


@dataclass(frozen=True)
class Trial:
    """What one client did in one case."""

    client: str
    version: str
    case: Case
    asks: list[Ask]
    packets: list[Packet]
    """The packets between client and server; times are seconds since the first packet."""


def rule_for(places: dict[str, Case]) -> object:
    """The rule of the line, which decides what becomes of frames."""

    def rule(packet: Packet, frame: bytes) -> list[bytes]:
        case = places.get(packet.server)
        if case is None:
            return [frame]
        if case.tcp == "lost" and packet.protocol == TCP and packet.flags & SYN:
            return []
        if case.fragments != "whole" and packet.protocol == UDP and not packet.from_client:
            pieces = fragments(frame, MTU)
            return pieces if case.fragments == "cut" else pieces[:1]
        return [frame]

    return rule


def run(
    folder: Path,
    clients: Sequence[Client] = CLIENTS,
    cases: Sequence[Case] = CASES,
    watch: float | None = None,
) -> list[Trial]:
    """Runs every client that is installed; `watch` replaces what each case says."""
    clients = [client for client in clients if client.version() is not None]
    for client in clients:
        client.prepare()
    places = {
        address(number, case): (client, case)
        for number, client in enumerate(clients, 1)
        for case in (*cases, ROOT)
    }
    trials: list[Trial] = []
    failures: list[BaseException] = []
    with contextlib.ExitStack() as stack:
        net = stack.enter_context(network([SERVER, SERVER6], offload=False, wired=True))
        for space in (net.client, net.server):
            space.settings(KERNEL)
        net.server.settings({"net/ipv4/tcp_fastopen": "3"})
        net.server.run("ip", "route", "add", "local", PLACES, "dev", "lo")
        net.client.run("ip", "route", "add", PLACES, "via", SERVER)
        at = {place: case for place, (_, case) in places.items()}
        wire = Wire(net, rule_for(at))  # type: ignore[arg-type]
        stack.callback(wire.close)
        server = Scripted(net.server, at)
        stack.callback(server.close)

        def one(number: int, client: Client, case: Case, where: Path) -> None:
            place, wanted = address(number, case), names(case)
            seconds = case.watch if watch is None else watch
            try:
                if client.run is not None:
                    asks = client.run(net.client, where, place, case, wanted, seconds)
                else:
                    listen = f"127.0.1.{number}"
                    asks = asked(
                        case,
                        wanted,
                        seconds,
                        lambda name, wait: front_end(net.client, listen, name, wait),
                    )
            except BaseException as error:
                failures.append(error)
                return
            trials.append(Trial(client.name, client.version() or "", case, asks, []))

        threads = []
        for number, client in enumerate(clients, 1):
            where = folder / client.name
            where.mkdir(parents=True)
            if client.daemon is not None:
                listen = f"127.0.1.{number}"
                net.client.run("ip", "addr", "add", f"{listen}/32", "dev", "lo")
                mine = {address(number, case): case for case in (*cases, ROOT)}
                stack.enter_context(daemon(client, net.client, where, listen, mine))
            for case in cases:
                thread = threading.Thread(target=one, args=(number, client, case, where))
                threads.append(thread)
        for thread in threads:
            thread.start()
            time.sleep(STAGGER)
        for thread in threads:
            thread.join()
        record = list(wire.record)
    if failures:
        raise failures[0]
    number_of = {client.name: number for number, client in enumerate(clients, 1)}
    return [seen(trial, address(number_of[trial.client], trial.case), record) for trial in trials]


def seen(trial: Trial, place: str, record: list[Packet]) -> Trial:
    """The trial with its packets, and times since the first of them."""
    mine = [packet for packet in record if packet.server == place]
    begin = mine[0].at if mine else 0.0
    asks = [
        replace(
            ask,
            asked=ask.asked - begin,
            answered=None if ask.answered is None else ask.answered - begin,
        )
        for ask in trial.asks
    ]
    packets = [replace(packet, at=packet.at - begin) for packet in mine]
    return replace(trial, asks=asks, packets=packets)

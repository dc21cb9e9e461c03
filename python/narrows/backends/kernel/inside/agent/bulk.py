"""TCP connections that send without end, over the kernel's sockets."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Mapping
from functools import partial
from typing import Any

from . import system
from .goodput import Goodput
from .loop import READ, WRITE, Loop
from .tcp_info import tcp_info
from .tcp_socket import tcp_socket

_BLOCK = b"\0" * 16384


class Flow:
    """A connection, and the known facts about it."""

    def __init__(self, told: Mapping[str, Any]) -> None:
        self.told = told
        self.sender: socket.socket | None = None
        self.receiver: socket.socket | None = None
        self.start_s: float | None = None
        self.established_s: float | None = None
        self.end_s: float | None = None
        self.received = 0
        self.facts: dict[str, Any] = {}
        self.samples: list[dict[str, Any]] = []

    def sent(self) -> dict[str, Any]:
        """What the kernel knows of the sending end."""
        return tcp_info(self.sender) if self.sender is not None else self.facts


class Bulk:
    """A group of connections: both ends of each, in any namespaces.

    The end that opens a connection binds a port that tells the other end which connection it is. An
    end on another machine has None as its namespace.
    """

    def __init__(self, job: Mapping[str, Any], loop: Loop) -> None:
        self._job = job
        self._loop = loop
        self.goodput = Goodput(job["goodput_s"], loop)
        self.flows = [Flow(told) for told in job["flows"]]
        self._by_peer = {
            (flow.told["opener_address"], flow.told["opener_port"]): flow for flow in self.flows
        }
        self._buffer = bytearray(65536)
        self._listening: list[socket.socket] = []

    def listen(self) -> None:
        """Opens the sockets that wait for connections.

        Raises:
            OSError: A port is taken.
        """
        ends = {
            (flow.told["acceptor"], flow.told["acceptor_address"])
            for flow in self.flows
            if flow.told["acceptor"] is not None
        }
        for namespace, address in sorted(ends):
            with system.inside(namespace):
                found = tcp_socket(self._job)
            found.bind((address, self._job["port"]))
            found.listen(4096)
            self._listening.append(found)
            self._loop.watch(found, READ, partial(self._accept, found))

    def start(self) -> None:
        """Schedules each connection to open at its time."""
        for flow in self.flows:
            if flow.told["opener"] is not None:
                self._loop.at(flow.told["start_s"], partial(self._open, flow))
        if self._job["stop_s"] is not None:
            self._loop.at(self._job["stop_s"], self._stop_sending)
        for at in self._job["samples_s"]:
            self._loop.at(at, self._sample)

    def rows(self) -> list[dict[str, Any]]:
        """What became of each connection."""
        rows = []
        for flow in self.flows:
            if len(flow.samples) < len(self._job["samples_s"]):
                # The run's end stands for times after it.
                self._sample_of(flow)
            rows.append(
                {
                    "flow": flow.told["flow"],
                    "start_s": flow.start_s,
                    "established_s": flow.established_s,
                    "end_s": flow.end_s,
                    "bytes_received": flow.received,
                    "sender": flow.sent(),
                    "samples": flow.samples,
                }
            )
        return rows

    def _sample(self) -> None:
        for flow in self.flows:
            self._sample_of(flow)

    def _sample_of(self, flow: Flow) -> None:
        flow.samples.append(
            {"t_s": self._loop.now(), "bytes_received": flow.received, "sender": flow.sent()}
        )

    def _open(self, flow: Flow) -> None:
        with system.inside(flow.told["opener"]):
            found = tcp_socket(self._job)
        found.bind((flow.told["opener_address"], flow.told["opener_port"]))
        began_s = self._loop.now()
        with contextlib.suppress(BlockingIOError):
            found.connect((flow.told["acceptor_address"], self._job["port"]))
        self._loop.watch(found, WRITE, lambda _events: self._opened(flow, found, began_s))

    def _opened(self, flow: Flow, found: socket.socket, began_s: float) -> None:
        if found.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            # Nobody answered while TCP repeated its SYN, which takes two minutes.
            self._loop.forget(found)
            found.close()
            return
        flow.start_s, flow.established_s = began_s, self._loop.now()
        self._use(flow, found, sends=not flow.told["download"])

    def _accept(self, listening: socket.socket, _events: int) -> None:
        with contextlib.suppress(OSError):
            while True:
                found, peer = listening.accept()
                found.setblocking(False)
                flow = self._by_peer.get(peer)
                if flow is None:
                    found.close()
                    continue
                self._use(flow, found, sends=flow.told["download"])

    def _use(self, flow: Flow, found: socket.socket, *, sends: bool) -> None:
        if sends:
            flow.sender = found
            self._loop.watch(found, WRITE, lambda _events: self._send(flow, found))
        else:
            flow.receiver = found
            self._loop.watch(found, READ, lambda _events: self._receive(flow, found))

    def _send(self, flow: Flow, found: socket.socket) -> None:
        try:
            found.send(_BLOCK)
        except BlockingIOError:
            return
        except OSError:
            self._loop.forget(found)
            flow.facts = tcp_info(found)
            flow.sender = None
            found.close()

    def _receive(self, flow: Flow, found: socket.socket) -> None:
        try:
            count = found.recv_into(self._buffer)
        except BlockingIOError:
            return
        except OSError:
            count = 0
        flow.received += count
        self.goodput.bytes[flow.told["backward"]] += count
        if count == 0:
            self._loop.forget(found)
            found.close()
            flow.receiver = None
            flow.end_s = self._loop.now()

    def _stop_sending(self) -> None:
        for flow in self.flows:
            if flow.sender is not None:
                self._loop.forget(flow.sender)
                with contextlib.suppress(OSError):
                    flow.sender.shutdown(socket.SHUT_WR)

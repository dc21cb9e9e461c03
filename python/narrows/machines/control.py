"""The connection between machines: who takes part, what time it is, when the run starts and ends.

One machine conducts. Each part of the run, including its own, keeps a TCP connection to it.
Messages are lines of JSON:

    part                                      conductor
    {"hello": {role, node, digest, ..}} ->
                                           <- {"run": "3f.."} or {"refused": "why"}
    {"time": 0}                         ->
                                           <- {"time": [came, went]}
    {"ready": 0}                        ->
                                           <- {"start": seconds since 1970}   when all are ready
    {"done": 0}                         ->                                    DNS workers only
                                           <- {"stop": "dns-done"}            when all are done
    {"interrupted": 0}                  ->
                                           <- {"stop": "interrupted"}
    {"time": 0} ..
    {"bye": 0}                          ->
"""

from __future__ import annotations

import contextlib
import errno
import json
import select
import socket
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from narrows.errors import argument
from narrows.machines import clocks
from narrows.machines.errors import MachineError
from narrows.machines.parts import Part

__all__ = ["Conductor", "Member"]

LEAD_S = 5.0
"""Seconds between the last part's "ready" and the start; programs start in this time."""

LINGER_S = 60.0
"""Seconds that the conductor waits for parts that still measure its clock."""

_SILENCE_S = 20.0
_LONGEST = 65_536
_RETRY_S = 0.2

Message = dict[str, Any]


class _Line:
    """A connection that carries lines of JSON."""

    def __init__(self, found: socket.socket) -> None:
        self.socket = found
        self._text = b""
        self._writing = threading.Lock()
        found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def tell(self, message: Mapping[str, Any]) -> None:
        """Sends a message.

        Raises:
            OSError: The connection has ended.
        """
        with self._writing:
            self.socket.sendall(json.dumps(message).encode() + b"\n")

    def hear(self, timeout_s: float | None) -> Message | None:
        """The next message; None if none arrived in time.

        Raises:
            OSError: The connection has ended, or the input is not a message.
        """
        until = None if timeout_s is None else time.monotonic() + timeout_s
        while b"\n" not in self._text:
            left = None if until is None else max(0.0, until - time.monotonic())
            if not select.select([self.socket], [], [], left)[0]:
                return None
            found = self.socket.recv(4096)
            if not found or len(self._text) > _LONGEST:
                raise ConnectionResetError("the other end has closed the connection")
            self._text += found
        line, _, self._text = self._text.partition(b"\n")
        try:
            message = json.loads(line)
        except ValueError:
            message = None
        if not isinstance(message, dict):
            raise ConnectionAbortedError("the input is not a message")
        return message


class Conductor:
    """Answers the parts of a run, in its own threads."""

    def __init__(self, address: str, port: int, digest: str, parts: Sequence[Part]) -> None:
        """Starts listening.

        Args:
            address: This machine's address.
            port: The port at which the parts reach it.
            digest: The digest of the scenario.
            parts: The parts that must be ready before the run starts.

        Raises:
            MachineError: The address is not this machine's, or the port is in use.
        """
        self.run = uuid.uuid4().hex[:12]
        self._digest = digest
        self._awaited = set(parts)
        self._ready: set[Part] = set()
        self._working = {part for part in parts if part.role == "resolve"}
        self._lines: dict[Part, _Line] = {}
        self._started = False
        self._changed = threading.Condition()
        self._listening = listening(address, port)
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    @property
    def missing(self) -> Sequence[Part]:
        """The parts that are not ready yet."""
        with self._changed:
            return sorted(self._awaited - self._ready)

    def close(self, linger_s: float = LINGER_S) -> None:
        """Waits until the parts have left, for at most `linger_s`, and ends."""
        with self._changed:
            self._changed.wait_for(lambda: not self._lines, linger_s)
            left = list(self._lines.values())
        # Wake the thread that waits for the next connection.
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._accepting.join()
        self._listening.close()
        for line in left:
            with contextlib.suppress(OSError):
                line.socket.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                found, _ = self._listening.accept()
                threading.Thread(target=self._serve, args=[_Line(found)], daemon=True).start()

    def _serve(self, line: _Line) -> None:
        part: Part | None = None
        with contextlib.suppress(OSError), line.socket:
            try:
                hello = line.hear(_SILENCE_S)
                part = self._greet(line, hello)
                while part is not None:
                    message = line.hear(None)
                    came = clocks.now()
                    if message is None or "bye" in message:
                        return
                    if "time" in message:
                        line.tell({"time": [came, clocks.now()]})
                    elif message.keys() & {"ready", "done", "interrupted"}:
                        self._note(part, next(iter(message)))
            finally:
                with self._changed:
                    if part is not None:
                        self._lines.pop(part, None)
                        if not self._started:
                            self._ready.discard(part)
                    self._changed.notify_all()

    def _greet(self, line: _Line, hello: Message | None) -> Part | None:
        """The part that says hello, or None after refusing it."""
        told = None if hello is None else hello.get("hello")
        if not isinstance(told, dict):
            return None
        part = Part(str(told.get("role")), str(told.get("node")))
        with self._changed:
            if told.get("digest") != self._digest:
                why = "it has another scenario or seed; hint: copy the same file to each machine"
            elif part.role != "monitor" and part not in self._awaited:
                why = f"this run does not need {part.role} at {part.node}"
            elif part in self._lines:
                why = f"{part.role} at {part.node} has already connected"
            elif self._started:
                why = "the run has already begun"
            else:
                self._lines[part] = line
                line.tell({"run": self.run})
                return part
        line.tell({"refused": why})
        return None

    def _note(self, part: Part, what: str) -> None:
        with self._changed:
            if what == "ready":
                self._ready.add(part)
                if self._started or self._awaited - self._ready:
                    return
                self._started = True
                self._tell_all({"start": clocks.now() + LEAD_S})
            elif what == "done":
                self._working.discard(part)
                if not self._working:
                    self._tell_all({"stop": "dns-done"})
            else:
                self._tell_all({"stop": "interrupted"})

    def _tell_all(self, message: Message) -> None:
        for line in self._lines.values():
            with contextlib.suppress(OSError):
                line.tell(message)


class Member:
    """A part's end of the connection."""

    def __init__(self, part: Part, where: tuple[str, int], digest: str, *, wait_s: float) -> None:
        """Connects as soon as the conductor listens.

        Args:
            part: This part.
            where: The conductor's address and port.
            digest: The digest of the scenario.
            wait_s: Seconds to wait for the conductor.

        Raises:
            MachineError: Nobody listens, or the conductor refuses this part.
        """
        self._where = where
        self._kept: list[Message] = []
        self._line = _Line(self._connect(wait_s))
        try:
            self._tell({"hello": {**part._asdict(), "digest": digest}})
            answer = self._hear(_SILENCE_S)
        except MachineError:
            self._line.socket.close()
            raise
        if answer is None or "run" not in answer:
            self._line.socket.close()
            why = "there is no answer" if answer is None else str(answer.get("refused", answer))
            raise MachineError(f"{where[0]} refused {part}: {why}")
        self.run = str(answer["run"])

    def offset(self) -> clocks.Offset:
        """How far the conductor's clock is ahead of this machine's.

        Raises:
            MachineError: The connection is over.
        """
        return clocks.measure(self._ask)

    def start(self, waiting: Callable[[], object]) -> float:
        """Reports that this part is ready, and waits; returns the start, by the conductor's clock.

        Args:
            waiting: Called now and then.

        Raises:
            MachineError: The connection is over.
        """
        self._tell({"ready": 0})
        while True:
            message = self._next(_RETRY_S)
            if message is not None and "start" in message:
                return float(message["start"])
            if message is not None and "stop" in message:
                raise MachineError(f"the run was {message['stop']} before it began")
            waiting()

    def stopped(self) -> str | None:
        """Why the run has ended for everybody; None if it has not.

        Raises:
            MachineError: The connection is over.
        """
        message = self._next(0.0)
        return None if message is None else message.get("stop")

    def tell(self, what: str) -> None:
        """Sends `done`, `interrupted` or `bye`; does nothing if the connection has ended."""
        with contextlib.suppress(MachineError):
            self._tell({what: 0})

    def close(self) -> None:
        """Ends the connection."""
        self.tell("bye")
        self._line.socket.close()

    def _ask(self) -> tuple[float, float]:
        self._tell({"time": 0})
        while True:
            message = self._hear(_SILENCE_S)
            if message is None:
                raise MachineError(f"{self._where[0]}: no answer for {_SILENCE_S:g} s")
            if "time" in message:
                came, went = message["time"]
                return float(came), float(went)
            self._kept.append(message)

    def _next(self, timeout_s: float) -> Message | None:
        return self._kept.pop(0) if self._kept else self._hear(timeout_s)

    def _connect(self, wait_s: float) -> socket.socket:
        address, port = self._where
        until = time.monotonic() + wait_s
        while True:
            try:
                return socket.create_connection(self._where, timeout=max(1.0, wait_s))
            except OSError as error:
                if time.monotonic() > until:
                    why = (error.strerror or str(error)).lower()
                    raise MachineError(
                        f"{address}: nothing listens on port {port} ({why}); hint: start the "
                        "command on that machine first, or wait longer with "
                        f"{argument('wait_s')}"
                    ) from None
            time.sleep(_RETRY_S)

    def _tell(self, message: Mapping[str, Any]) -> None:
        try:
            self._line.tell(message)
        except OSError as error:
            raise self._lost(error) from None

    def _hear(self, timeout_s: float) -> Message | None:
        try:
            return self._line.hear(timeout_s)
        except OSError as error:
            raise self._lost(error) from None

    def _lost(self, error: OSError) -> MachineError:
        why = (error.strerror or str(error)).lower()
        return MachineError(
            f"{self._where[0]}: lost the connection to the machine that keeps the time ({why}); "
            "hint: see the output of its command"
        )


def listening(address: str, port: int, *, kind: int = socket.SOCK_STREAM) -> socket.socket:
    """A socket bound to an address of this machine; a TCP socket listens.

    Raises:
        MachineError: The address is not this machine's, or the port is in use or needs root.
    """
    found = socket.socket(socket.AF_INET, kind)
    try:
        if kind == socket.SOCK_STREAM:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((address, port))
        if kind == socket.SOCK_STREAM:
            found.listen(128)
    except OSError as error:
        found.close()
        raise MachineError(f"{address} port {port}: {_why(error)}") from None
    return found


def _why(error: OSError) -> str:
    text = (error.strerror or str(error)).lower()
    hints = {
        "EADDRINUSE": "ss -tulnp shows the program",
        "EADDRNOTAVAIL": "give this machine's own address, which ip addr shows",
        "EACCES": "ports below 1024 need root",
    }
    hint = hints.get(errno.errorcode.get(error.errno or 0, ""))
    return text if hint is None else f"{text}; hint: {hint}"

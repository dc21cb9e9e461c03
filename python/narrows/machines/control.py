"""The conductor: who takes part, what time it is, when the run starts and ends.

One machine conducts. Each part of the run, including its own, keeps a TCP connection to it.
Messages are lines of JSON that prove that their writer knows the run's secret (`lines`):

    part                                      conductor
    greeting                            ->
                                           <- greeting
    {"hello": {role, node, digest,
               narrows}}                ->
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

Anybody may connect. Until a connection has proven that it knows the secret, it costs one of
`MOST_STRANGERS` places for at most `PROOF_S`. When all places are taken, the address that has the
most of them loses its oldest one. So a stranger cannot keep a part away, unless it has as many
addresses as there are places.
"""

from __future__ import annotations

import errno
import selectors
import socket
import threading
import time
import uuid
from collections import Counter
from collections.abc import Sequence
from typing import Any

from narrows.builds import THIS
from narrows.machines import clocks
from narrows.machines.errors import MachineError
from narrows.machines.lines import CONDUCTOR, Line, LineError, Message
from narrows.machines.parts import ROLES, Part

LEAD_S = 5.0
"""Seconds between the last part's "ready" and the start; programs start in this time."""

LINGER_S = 60.0
"""Seconds that the conductor waits for parts that still measure its clock."""

PROOF_S = 5.0
"""Seconds in which a connection must prove that it knows the secret."""

MOST_STRANGERS = 64
"""Connections at once that have not proven that they know the secret."""

MOST_PARTS = 256
"""Parts of a run."""

_MOST_UNSENT = 65_536
_REST_S = 0.1


class _Peer:
    """A connection to the conductor."""

    def __init__(self, found: socket.socket, source: str, secret: str) -> None:
        self.socket = found
        self.source = source
        self.line = Line(secret, CONDUCTOR)
        self.expires_at = time.monotonic() + PROOF_S
        self.unsent = bytearray()
        self.part: Part | None = None


class Conductor:
    """Answers the parts of a run, in its own thread."""

    def __init__(
        self, address: str, port: int, digest: str, parts: Sequence[Part], secret: str
    ) -> None:
        """Starts listening.

        Args:
            address: This machine's address.
            port: The port at which the parts reach it.
            digest: The digest of the scenario.
            parts: The parts that must be ready before the run starts.
            secret: What all parts of the run know, and nobody else.

        Raises:
            MachineError: The address is not this machine's, or the port is in use.
        """
        self.run = uuid.uuid4().hex[:12]
        self._digest = digest
        self._secret = secret
        self._awaited = set(parts)
        self._ready: set[Part] = set()
        self._working = {part for part in parts if part.role == "resolve"}
        self._started = False
        self._changed = threading.Condition()
        self._joined: dict[Part, _Peer] = {}
        # In the order in which they came.
        self._strangers: dict[_Peer, None] = {}
        self._listening = listening(address, port)
        self._listening.setblocking(False)
        self._rests_until = 0.0
        self._selector = selectors.DefaultSelector()
        self._wake, self._waking = socket.socketpair()
        self._selector.register(self._waking, selectors.EVENT_READ)
        self._selector.register(self._listening, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    @property
    def missing(self) -> Sequence[Part]:
        """The parts that are not ready yet."""
        with self._changed:
            return sorted(self._awaited - self._ready)

    def close(self, linger_s: float = LINGER_S) -> None:
        """Waits until the parts have left, for at most `linger_s`, and ends."""
        with self._changed:
            self._changed.wait_for(lambda: not self._joined, linger_s)
        self._wake.close()
        self._thread.join()

    def _serve(self) -> None:
        try:
            while True:
                for key, events in self._selector.select(self._pause_s()):
                    if key.fileobj is self._waking:
                        return
                    if key.fileobj is self._listening:
                        self._accept()
                    elif self._is_open(key.data):
                        self._handle(key.data, events)
                self._tidy()
        finally:
            for peer in [*self._strangers, *self._joined.values()]:
                peer.socket.close()
            self._selector.close()
            self._listening.close()
            self._waking.close()

    def _pause_s(self) -> float | None:
        """Seconds until something is due; None if nothing is."""
        due = [peer.expires_at for peer in self._strangers]
        due += [self._rests_until] if self._rests_until else []
        return max(0.0, min(due) - time.monotonic()) if due else None

    def _tidy(self) -> None:
        """Closes the connections that took too long, and accepts again after a rest."""
        now = time.monotonic()
        for peer in [each for each in self._strangers if each.expires_at <= now]:
            self._drop(peer)
        if self._rests_until and self._rests_until <= now:
            self._rests_until = 0.0
            self._selector.register(self._listening, selectors.EVENT_READ)

    def _accept(self) -> None:
        try:
            found, (source, _port) = self._listening.accept()
        except OSError as error:
            if error.errno in _EXHAUSTED:
                self._make_room()
            return
        if len(self._strangers) >= MOST_STRANGERS:
            self._crowd_out()
        found.setblocking(False)
        found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _MOST_UNSENT)
        peer = _Peer(found, source, self._secret)
        self._strangers[peer] = None
        self._selector.register(found, selectors.EVENT_READ, peer)
        self._send(peer, peer.line.greeting)

    def _make_room(self) -> None:
        """Makes descriptors free, or waits until other programs do."""
        if self._strangers:
            self._crowd_out()
        else:
            self._rests_until = time.monotonic() + _REST_S
            self._selector.unregister(self._listening)

    def _crowd_out(self) -> None:
        """Closes the oldest connection of the address that has the most without a proof."""
        counts = Counter(peer.source for peer in self._strangers)
        most = max(counts.values())
        self._drop(next(peer for peer in self._strangers if counts[peer.source] == most))

    def _is_open(self, peer: _Peer) -> bool:
        """Whether a peer is still there: an earlier event of the same round may have closed it."""
        return peer.socket.fileno() >= 0

    def _drop(self, peer: _Peer) -> None:
        if not self._is_open(peer):
            return
        self._selector.unregister(peer.socket)
        peer.socket.close()
        self._strangers.pop(peer, None)
        if peer.part is not None:
            with self._changed:
                del self._joined[peer.part]
                if not self._started:
                    self._ready.discard(peer.part)
                self._changed.notify_all()

    def _handle(self, peer: _Peer, events: int) -> None:
        if events & selectors.EVENT_WRITE:
            self._send(peer, b"")
        if not events & selectors.EVENT_READ or not self._is_open(peer):
            return
        try:
            found = peer.socket.recv(4096)
            came = clocks.now()
            peer.line.feed(found)
            while self._is_open(peer) and (message := peer.line.next()) is not None:
                self._answer(peer, message, came)
        except BlockingIOError:
            return
        except (OSError, LineError):
            self._drop(peer)
            return
        if not found:
            self._drop(peer)

    def _answer(self, peer: _Peer, message: Message, came: float) -> None:
        """Does what a holder of the secret asks.

        Raises:
            LineError: It asks for something that does not exist.
        """
        ((what, values),) = message.items()
        if peer.part is None:
            self._greet(peer, values if what == "hello" else None)
        elif what == "time":
            self._tell(peer, {"time": [came, clocks.now()]})
        elif what == "bye":
            self._drop(peer)
        elif what in ("ready", "done", "interrupted"):
            self._note(peer.part, what)
        else:
            raise LineError(f"{what} is not a message")

    def _greet(self, peer: _Peer, values: Any) -> None:
        """Takes a part into the run, or refuses it.

        Raises:
            LineError: It does not say which part it is.
        """
        if not isinstance(values, dict) or not isinstance(values.get("node"), str):
            raise LineError("hello expected")
        if values.get("role") not in list(ROLES):
            raise LineError("the role does not exist")
        part = Part(values["role"], values["node"])
        if values.get("narrows") != THIS:
            why = (
                f"it has narrows {values.get('narrows')}, but the conductor has {THIS}; "
                "hint: install the same on all machines"
            )
        elif values.get("digest") != self._digest:
            why = "it has another scenario or seed; hint: copy the same file to each machine"
        elif part.role != "monitor" and part not in self._awaited:
            why = f"this run does not need {part.role} at {part.node}"
        elif part in self._joined:
            why = f"{part.role} at {part.node} has already connected"
        elif self._started:
            why = "the run has already begun"
        elif len(self._joined) >= MOST_PARTS:
            why = f"it has {MOST_PARTS} parts, and no room for more"
        else:
            del self._strangers[peer]
            peer.part = part
            with self._changed:
                self._joined[part] = peer
            self._tell(peer, {"run": self.run})
            return
        self._tell(peer, {"refused": why})
        self._drop(peer)

    def _note(self, part: Part, what: str) -> None:
        if what == "ready":
            with self._changed:
                self._ready.add(part)
            if not self._started and not self._awaited - self._ready:
                self._started = True
                self._tell_all({"start": clocks.now() + LEAD_S})
        elif what == "interrupted":
            self._tell_all({"stop": "interrupted"})
        elif part in self._working:
            self._working.discard(part)
            if not self._working:
                self._tell_all({"stop": "dns-done"})

    def _tell_all(self, message: Message) -> None:
        for peer in list(self._joined.values()):
            self._tell(peer, message)

    def _tell(self, peer: _Peer, message: Message) -> None:
        self._send(peer, peer.line.seal(message))

    def _send(self, peer: _Peer, more: bytes) -> None:
        """Sends what the connection takes now, and the rest later; who never reads is dropped."""
        if not self._is_open(peer):
            return
        peer.unsent += more
        try:
            del peer.unsent[: peer.socket.send(peer.unsent)]
        except BlockingIOError:
            pass
        except OSError:
            self._drop(peer)
            return
        if len(peer.unsent) > _MOST_UNSENT:
            self._drop(peer)
            return
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if peer.unsent else 0)
        self._selector.modify(peer.socket, events, peer)


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


_EXHAUSTED = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}


def _why(error: OSError) -> str:
    text = (error.strerror or str(error)).lower()
    hints = {
        "EADDRINUSE": "ss -tulnp shows the program",
        "EADDRNOTAVAIL": "give this machine's own address, which ip addr shows",
        "EACCES": "ports below 1024 need root",
    }
    hint = hints.get(errno.errorcode.get(error.errno or 0, ""))
    return text if hint is None else f"{text}; hint: {hint}"

"""A part's end of the connection to the machine that conducts the run (`control`)."""

from __future__ import annotations

import contextlib
import math
import select
import socket
import time
from collections.abc import Callable

from narrows.builds import THIS
from narrows.errors import argument, one_line
from narrows.machines import clocks
from narrows.machines.errors import MachineError
from narrows.machines.lines import PART, Line, LineError, Message
from narrows.machines.parts import Part

_ATTEMPTS = 3
_SILENCE_S = 20.0
_RETRY_S = 0.2


class _ClosedEarlyError(MachineError):
    """The conductor closed the connection before it had proven that it knows the secret."""


class Member:
    """A part's end of the connection."""

    def __init__(
        self, part: Part, where: tuple[str, int], digest: str, secret: str, *, wait_s: float
    ) -> None:
        """Connects as soon as the conductor listens.

        Args:
            part: This part.
            where: The conductor's address and port.
            digest: The digest of the scenario.
            secret: What all parts of the run know, and nobody else.
            wait_s: Seconds to wait for the conductor.

        Raises:
            MachineError: Nobody listens, the conductor has another secret, or it refuses this part.
        """
        self._where = where
        self._kept: list[Message] = []
        for attempt in range(_ATTEMPTS):
            self._line = Line(secret, PART)
            self._socket = self._connect(wait_s)
            try:
                self.run = self._join(part, digest)
                return
            except _ClosedEarlyError:
                self._socket.close()
                # Strangers may crowd out a connection that has not proven anything yet.
                if attempt == _ATTEMPTS - 1:
                    raise
            except BaseException:
                self._socket.close()
                raise
            time.sleep(_RETRY_S)

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
                return self._number(message["start"])
            if message is not None and "stop" in message:
                why = one_line(str(message["stop"]))
                raise MachineError(f"the run was {why} before it began")
            waiting()

    def stopped(self) -> str | None:
        """Why the run has ended for everybody; None if it has not.

        Raises:
            MachineError: The connection is over.
        """
        message = self._next(0.0)
        return None if message is None or "stop" not in message else one_line(str(message["stop"]))

    def tell(self, what: str) -> None:
        """Sends `done`, `interrupted` or `bye`; does nothing if the connection has ended."""
        with contextlib.suppress(MachineError):
            self._tell({what: 0})

    def close(self) -> None:
        """Ends the connection."""
        self.tell("bye")
        self._socket.close()

    def _join(self, part: Part, digest: str) -> str:
        """Says which part this is; returns the identifier of the run."""
        answer = None
        self._send(self._line.greeting)
        self._hear(_SILENCE_S, until=lambda: self._line.is_greeted)
        if self._line.is_greeted:
            self._tell({"hello": {**part._asdict(), "digest": digest, "narrows": THIS}})
            answer = self._hear(_SILENCE_S)
        if answer is None or "run" not in answer:
            why = "there is no answer" if answer is None else answer.get("refused", answer)
            raise MachineError(f"{self._where[0]} refused {part}: {one_line(str(why))}")
        return one_line(str(answer["run"]))

    def _ask(self) -> tuple[float, float]:
        self._tell({"time": 0})
        while True:
            message = self._hear(_SILENCE_S)
            if message is None:
                raise MachineError(f"{self._where[0]}: no answer for {_SILENCE_S:g} s")
            if "time" in message:
                times = message["time"] if isinstance(message["time"], list) else []
                came, went = [*times, None, None][:2]
                return self._number(came), self._number(went)
            self._kept.append(message)

    def _next(self, timeout_s: float) -> Message | None:
        return self._kept.pop(0) if self._kept else self._hear(timeout_s)

    def _connect(self, wait_s: float) -> socket.socket:
        address, port = self._where
        until = time.monotonic() + wait_s
        while True:
            try:
                found = socket.create_connection(self._where, timeout=max(1.0, wait_s))
                found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return found
            except OSError as error:
                if time.monotonic() > until:
                    why = (error.strerror or str(error)).lower()
                    raise MachineError(
                        f"{address}: nothing listens on port {port} ({why}); hint: start the "
                        "command on that machine first, or wait longer with "
                        f"{argument('wait_s')}"
                    ) from None
            time.sleep(_RETRY_S)

    def _number(self, value: object) -> float:
        """A time from the conductor.

        Raises:
            MachineError: It is none.
        """
        if isinstance(value, int | float) and abs(value) < 1e12 and math.isfinite(value):
            return float(value)
        raise MachineError(f"{self._where[0]}: {one_line(repr(value))} is not a time")

    def _tell(self, message: Message) -> None:
        self._send(self._line.seal(message))

    def _send(self, text: bytes) -> None:
        try:
            self._socket.sendall(text)
        except OSError as error:
            raise self._lost(error) from None

    def _hear(self, timeout_s: float, until: Callable[[], bool] = lambda: False) -> Message | None:
        """The next message; None if none arrived in time, or after bytes that made `until` true.

        Raises:
            MachineError: The connection has ended, or the bytes are not from a conductor.
        """
        ends_at = time.monotonic() + timeout_s
        arriving = select.poll()
        arriving.register(self._socket, select.POLLIN)
        try:
            while (message := self._line.next()) is None and not until():
                left = max(0.0, ends_at - time.monotonic())
                if not arriving.poll(math.ceil(1e3 * left)):
                    return None
                found = self._socket.recv(4096)
                if not found:
                    raise ConnectionResetError("the other end has closed the connection")
                self._line.feed(found)
        except OSError as error:
            raise self._lost(error) from None
        except LineError as error:
            raise MachineError(f"{self._where[0]} port {self._where[1]}: {error}") from None
        return message

    def _lost(self, error: OSError) -> MachineError:
        why = (error.strerror or str(error)).lower()
        if not self._line.is_proven:
            return _ClosedEarlyError(
                f"{self._where[0]}: the machine that keeps the time closed the connection ({why}): "
                "it has another secret, or too many connections; hint: give the secret that its "
                "command has printed"
            )
        return MachineError(
            f"{self._where[0]}: lost the connection to the machine that keeps the time ({why}); "
            "hint: see the output of its command"
        )

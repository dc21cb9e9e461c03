"""TCP connections that send bursts, with an idle time between the last ACK and the next burst.

When the last byte of a burst is acknowledged (`SOF_TIMESTAMPING_TX_ACK`,
Documentation/networking/timestamping.rst), the kernel puts a message with that byte's number on the
socket's error queue. A burst ends when the process reads this message.
"""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Mapping
from functools import partial
from typing import Any

from .bulk import Bulk, Flow
from .draws import Draw
from .loop import WRITE, Loop
from .tcp_info import tcp_info

_BLOCK = memoryview(b"\0" * 65536)

_SO_TIMESTAMPING = 37
_SOFTWARE, _OPT_ID, _TX_ACK, _OPT_TSONLY = 1 << 4, 1 << 7, 1 << 9, 1 << 11
_LAST_BYTE = [(socket.SOL_SOCKET, _SO_TIMESTAMPING, struct.pack("I", _TX_ACK))]
_IP_RECVERR = 11
# struct sock_extended_err: errno, origin, type, code, padding, info, data.
_ERROR = struct.Struct("IBBBBII")
_ORIGIN_TIMESTAMPING, _SCM_TSTAMP_ACK = 4, 2
_WORD = 1 << 32


class _Sender:
    """The sending end of a connection."""

    def __init__(self, flow: Flow, told: Mapping[str, Any], seed: str) -> None:
        self.flow = flow
        self.burst = Draw(told["burst"], f"{seed} burst")
        self.idle = Draw(told["idle"], f"{seed} idle")
        self.begun = 0
        self.is_sending = False
        self.is_last = False
        # Bytes of this burst that the kernel has not accepted yet; bytes of all bursts so far.
        self.left = 0
        self.total = 0
        self.resent_before = 0
        self.rows: list[dict[str, Any]] = []


class Bursts(Bulk):
    """A group of connections that send bursts."""

    def __init__(self, job: Mapping[str, Any], loop: Loop, seed: str) -> None:
        super().__init__(job, loop)
        self._senders = {
            id(flow): _Sender(flow, job["bursts"], f"{seed} {flow.told['flow']}")
            for flow in self.flows
        }

    def rows(self) -> list[dict[str, Any]]:
        """The outcome of each connection, with its bursts."""
        found = []
        for row, flow in zip(super().rows(), self.flows, strict=True):
            sender = self._senders[id(flow)]
            if sender.is_sending and flow.sender is not None:
                sender.rows[-1]["segments_retransmitted"] = self._resent(sender)
            found.append({**row, "bursts": sender.rows})
        return found

    def _open(self, flow: Flow) -> None:
        sender = self._senders[id(flow)]
        if not sender.is_last:
            super()._open(flow)
            self._begin(sender)

    def _use(self, flow: Flow, found: socket.socket, *, sends: bool) -> None:
        if not sends:
            super()._use(flow, found, sends=sends)
            return
        flow.sender = found
        # Numbers of bytes count from here.
        flags = _SOFTWARE | _OPT_ID | _OPT_TSONLY
        found.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPING, flags)
        self._write(self._senders[id(flow)], found)

    def _begin(self, sender: _Sender) -> None:
        if sender.is_last:
            return
        turn = sender.begun
        sender.begun += 1
        sender.is_sending = True
        sender.is_last = self._job["bursts"]["count"] == sender.begun
        sender.left = sender.burst.whole(turn)
        sender.total += sender.left
        found = sender.flow.sender
        sender.resent_before = 0 if found is None else tcp_info(found).get("retransmitted", 0)
        sender.rows.append(
            {
                "flow": sender.flow.told["flow"],
                "burst": turn,
                "start_s": self._loop.now(),
                "end_s": None,
                "bytes": sender.left,
                "segments_retransmitted": 0,
            }
        )
        if found is not None:
            self._write(sender, found)

    def _write(self, sender: _Sender, found: socket.socket) -> None:
        try:
            while sender.left > len(_BLOCK):
                sender.left -= found.send(_BLOCK)
            while sender.left:
                sender.left -= found.sendmsg([_BLOCK[: sender.left]], _LAST_BYTE)
        except BlockingIOError:
            self._loop.watch(found, WRITE, partial(self._ready, sender, found))
            return
        except OSError:
            self._over(sender, found)
            return
        if sender.is_last:
            with contextlib.suppress(OSError):
                found.shutdown(socket.SHUT_WR)
        # Watch only for errors, which include the kernel's messages about acknowledgements.
        self._loop.watch(found, 0, partial(self._ready, sender, found))

    def _ready(self, sender: _Sender, found: socket.socket, _events: int) -> None:
        was_told = False
        for count in _acknowledged(found):
            was_told = True
            if sender.is_sending and not sender.left and count == sender.total % _WORD:
                self._delivered(sender)
        if sender.left:
            self._write(sender, found)
        elif not was_told:
            # Both directions are closed, or the connection has failed.
            self._over(sender, found)

    def _delivered(self, sender: _Sender) -> None:
        sender.is_sending = False
        now = self._loop.now()
        row = sender.rows[-1]
        row["end_s"] = now
        row["segments_retransmitted"] = self._resent(sender)
        if not sender.is_last:
            idle = sender.idle.next(sender.begun - 1)
            self._loop.at(now + idle, partial(self._begin, sender))

    def _resent(self, sender: _Sender) -> int:
        found = sender.flow.sender
        now = 0 if found is None else tcp_info(found).get("retransmitted", 0)
        return max(0, int(now) - sender.resent_before)

    def _over(self, sender: _Sender, found: socket.socket) -> None:
        self._loop.forget(found)
        sender.is_last = True

    def _stop_sending(self) -> None:
        for sender in self._senders.values():
            sender.is_last = True
            found = sender.flow.sender
            if found is not None and not sender.left:
                with contextlib.suppress(OSError):
                    found.shutdown(socket.SHUT_WR)


def _acknowledged(found: socket.socket) -> list[int]:
    """The acknowledged bytes, modulo 2^32, from each kernel message on the error queue."""
    counts: list[int] = []
    while True:
        try:
            _, told, _, _ = found.recvmsg(0, 512, socket.MSG_ERRQUEUE)
        except OSError:
            return counts
        for level, kind, data in told:
            if level == socket.SOL_IP and kind == _IP_RECVERR and len(data) >= _ERROR.size:
                _, origin, _, _, _, info, last = _ERROR.unpack_from(data)
                if origin == _ORIGIN_TIMESTAMPING and info == _SCM_TSTAMP_ACK:
                    counts.append((last + 1) % _WORD)

"""A flood of SYNs or DNS queries from forged addresses, and how its server responded.

Packets leave through a raw socket (raw(7)), each with its own port and sequence number. The forged
addresses belong to nobody: a route without a device discards packets to them, as in the simulator
(`flood.rs`).

The counters of the server's host show what the server did: netstat's `ListenDrops`,
`SyncookiesSent`, `TCPSynRetrans`, `PassiveOpens`, and its table of sockets. So other servers on the
host count too, and a SYN that an ordinary client repeats counts as given up. Sockets with filters
(classic BPF) that pass nothing else count the packets that arrive.
"""

from __future__ import annotations

import contextlib
import ctypes
import ipaddress
import os
import random
import socket
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from . import system
from .counters import Counters
from .dns_messages import query
from .loop import READ, Loop

_HEADERS = 28
_SYN = 0x02
# In Linux's order: MSS 1460; SACK; timestamps; no operation; a window scale of 7.
_OPTIONS = struct.pack("!BBHBBBBIIBBBB", 2, 4, 1460, 4, 2, 8, 10, 1, 0, 1, 3, 3, 7)
_SOL_PACKET, _PACKET_STATISTICS = 263, 6
_SO_ATTACH_FILTER = 26
_ETHERNET_IP = 0x0800
_MOST_ADDRESSES = 65_534

# Classic BPF (linux/filter.h): load a word, half, byte; compare; mask; return.
_WORD, _HALF, _BYTE, _EQUAL, _AND, _RETURN = 0x20, 0x28, 0x30, 0x15, 0x54, 0x06
_PACKET_TYPE = 0xFFFFF004
_OUTGOING = 4


class Flood:
    """A flood and its table."""

    def __init__(self, job: Mapping[str, Any], loop: Loop, seed: str) -> None:
        self._job = job
        self._loop = loop
        self._random = random.Random(seed)
        self._network = ipaddress.IPv4Network(job["forged"])
        self._target = ipaddress.IPv4Address(job["server_address"]).packed
        with system.inside(job["source"]):
            self._socket = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
            self._socket.setblocking(False)
        told = job["query"]
        self._message = b""
        if told is not None:
            length, payload = told["query"], told["payload"]
            self._message = query(0, length, payload, told["mark"], told["longest_name"])
        self._server = _Server(job, self._network)
        self._replies = _Counted(job["source"], _udp(self._network, _DESTINATION))
        loop.watch(self._replies.socket, READ, lambda _events: self._replies.read())
        self._sent = 0
        self._due: float = job["start_s"]
        self._before = {"sent": 0, "replies": 0, "reply_bytes": 0, "lost": 0}
        self._rows: list[dict[str, Any]] = []
        loop.at(self._due, self._send)
        loop.at(self._due + job["period_s"], self._sample)

    def tables(self) -> dict[str, list[dict[str, Any]]]:
        """A row for each period."""
        return {"floods": self._rows}

    def _send(self) -> None:
        turn = self._sent % self._job["addresses"]
        source = self._network[turn % _MOST_ADDRESSES + 1].packed
        port = self._random.randrange(1024, 65536)
        if self._message:
            packet = _datagram(source, self._target, port, self._job["port"], self._message)
        else:
            number = self._random.getrandbits(32)
            packet = _syn(source, self._target, port, self._job["port"], number)
        with contextlib.suppress(OSError):
            # The host's full queue loses the packet, like a full queue on the way.
            self._socket.sendto(packet, (self._job["server_address"], 0))
        self._sent += 1
        gap = self._job["interval_s"]
        if self._job["poisson"]:
            self._due += self._random.expovariate(1.0 / gap)
        else:
            # Count from the start, so that rounding errors do not add up.
            self._due = self._job["start_s"] + self._sent * gap
        stop = self._job["stop_s"]
        if stop is None or self._due < stop:
            self._loop.at(self._due, self._send)

    def _sample(self) -> None:
        self._replies.read()
        period = self._job["period_s"]
        at_s = self._job["start_s"] + (len(self._rows) + 1) * period
        # Packets that were sent a period ago and have not arrived will never arrive.
        lost = self._before["lost"]
        if self._message:
            lost = max(lost, self._before["sent"] - self._server.arrived())
        now = {
            "sent": self._sent,
            "lost": lost,
            "replies": self._replies.count,
            "reply_bytes": self._replies.bytes,
        }
        self._rows.append(
            {
                "group": self._job["group"],
                "from_s": at_s - period,
                "t_s": at_s,
                **{key: value - self._before[key] for key, value in now.items()},
                **self._server.since(),
            }
        )
        self._before = now
        self._loop.at(at_s + period, self._sample)


class _Server:
    """The counters of a server's host."""

    def __init__(self, job: Mapping[str, Any], network: ipaddress.IPv4Network) -> None:
        port: int = job["port"]
        self._port = f":{port:04X}"
        name = job["server"]
        self._came = _Counted(name, _syns(port) if job["query"] is None else _udp(network, _SOURCE))
        self._is_of_syns = job["query"] is None
        self._counters = Counters(name)
        with system.inside(name):
            # Files opened here still belong to the namespace later.
            self._table = os.open("/proc/thread-self/net/tcp", os.O_RDONLY)
        self._before = self._now()

    def arrived(self) -> int:
        """Queries of the flood that have arrived."""
        return self._came.passed()

    def since(self) -> dict[str, int]:
        """How much the counters have grown since the last call."""
        now, before = self._now(), self._before
        self._before = now
        found = {key: now[key] - before[key] for key in ("syns", "dropped", "cookies", "repeated")}
        taken = found["syns"] - found["dropped"] - found["cookies"]
        left = taken - (now["opened"] - before["opened"]) - (now["held"] - before["held"])
        return {"half_open": now["held"], **found, "expired": max(0, left)}

    def _now(self) -> dict[str, int]:
        told = self._counters.read("ListenDrops", "SyncookiesSent", "TCPSynRetrans", "PassiveOpens")
        return {
            "held": self._held(),
            "syns": self._came.passed() if self._is_of_syns else 0,
            "dropped": told["ListenDrops"],
            "cookies": told["SyncookiesSent"],
            "repeated": told["TCPSynRetrans"],
            "opened": told["PassiveOpens"],
        }

    def _held(self) -> int:
        """Half-open connections of the server's port, in the table of sockets (state 3)."""
        parts, place = [], 0
        while part := os.pread(self._table, 1 << 16, place):
            parts.append(part)
            place += len(part)
        lines = (line.split() for line in b"".join(parts).decode("ascii", "replace").splitlines())
        return sum(line[3] == "03" and line[1].endswith(self._port) for line in lines)


class _Counted:
    """Packets that arrive at a host and pass a filter."""

    def __init__(self, namespace: str, program: Sequence[tuple[int, int, int, int]]) -> None:
        self.count = 0
        self.bytes = 0
        self._passed = 0
        with system.inside(namespace):
            kind = socket.SOCK_RAW | socket.SOCK_NONBLOCK
            self.socket = socket.socket(socket.AF_PACKET, kind, socket.htons(_ETHERNET_IP))
        code = bytearray(b"".join(struct.pack("=HBBI", *each) for each in program))
        kept = (ctypes.c_char * len(code)).from_buffer(code)
        told = struct.pack("HP", len(program), ctypes.addressof(kept))
        self.socket.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, told)

    def passed(self) -> int:
        """Packets that passed the filter, including those that the socket had no room for."""
        told = self.socket.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8)
        self._passed += struct.unpack("II", told)[0]
        return self._passed

    def read(self) -> None:
        """Reads the waiting packets, and counts them and their bytes."""
        while True:
            try:
                data = self.socket.recv(64)
            except OSError:
                return
            self.count += 1
            # RFC 791: the total length.
            self.bytes += struct.unpack_from("!H", data, 16)[0]


_SOURCE, _DESTINATION = 26, 30


def _udp(network: ipaddress.IPv4Network, place: int) -> list[tuple[int, int, int, int]]:
    """A filter for incoming UDP from a network: whole datagrams and first fragments."""
    return _chain(
        (_BYTE, 23, None, socket.IPPROTO_UDP),
        (_HALF, 20, 0x1FFF, 0),
        (_WORD, place, int(network.netmask), int(network.network_address)),
    )


def _syns(port: int) -> list[tuple[int, int, int, int]]:
    """A filter for incoming SYNs to a port."""
    return _chain(
        (_BYTE, 23, None, socket.IPPROTO_TCP),
        (_HALF, 36, None, port),
        (_BYTE, 47, 0x12, _SYN),
    )


def _chain(*tests: tuple[int, int, int | None, int]) -> list[tuple[int, int, int, int]]:
    """A program that accepts packets that pass all tests: load, place, mask and value."""
    steps: list[tuple[int, int, int]] = []
    for load, place, mask, value in tests:
        steps.append((load, place, -1))
        if mask is not None:
            steps.append((_AND, mask, -1))
        steps.append((_EQUAL, value, 0))
    # It accepts no outgoing packets.
    program = [(_BYTE, 0, 0, _PACKET_TYPE), (_EQUAL, len(steps) + 1, 0, _OUTGOING)]
    for number, (code, value, test) in enumerate(steps):
        misses = 0 if test < 0 else len(steps) - number
        program.append((code, 0, misses, value))
    return [*program, (_RETURN, 0, 0, 64), (_RETURN, 0, 0, 0)]


def _syn(source: bytes, target: bytes, port: int, to: int, number: int) -> bytes:
    def header(checksum: int) -> bytes:
        words = (port, to, number, 0, (20 + len(_OPTIONS)) << 10, 65535, checksum, 0)
        head = bytearray(struct.pack("!HHIIHHHH", *words))
        head[13] = _SYN
        return bytes(head) + _OPTIONS

    return _packet(source, target, socket.IPPROTO_TCP, header)


def _datagram(source: bytes, target: bytes, port: int, to: int, data: bytes) -> bytes:
    def header(checksum: int) -> bytes:
        return struct.pack("!HHHH", port, to, 8 + len(data), checksum) + data

    return _packet(source, target, socket.IPPROTO_UDP, header)


def _packet(source: bytes, target: bytes, protocol: int, made: Callable[[int], bytes]) -> bytes:
    """An IPv4 packet; the kernel fills in its length, number and checksum (raw(7))."""
    body = made(0)
    pseudo = source + target + struct.pack("!BBH", 0, protocol, len(body))
    body = made(_checksum(pseudo + body))
    return struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(body), 0, 0, 64, protocol, 0) + (
        source + target + body
    )


def _checksum(data: bytes) -> int:
    """RFC 1071."""
    data += b"\0" * (len(data) % 2)
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF

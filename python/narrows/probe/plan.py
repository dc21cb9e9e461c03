"""What a probe asks which servers, and how often, within limits that keep it polite."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
from collections.abc import Sequence
from dataclasses import dataclass

from narrows import _core
from narrows.errors import argument
from narrows.probe.errors import ProbeError

TRANSPORTS = ("udp", "tcp", "tls", "quic")
"""The transports of queries."""

UNASKED = 300
"""For more queries than this to another machine's address, `count` must be given."""

LEAST_INTERVAL_S = 0.1
"""Shortest average time between two queries to another machine's address."""

ROUNDS = 10
"""Rounds by default."""

_PORTS = {"udp": 53, "tcp": 53, "tls": 853, "quic": 853}


@dataclass(frozen=True)
class Target:
    """A server to ask."""

    name: str
    """The server as the user wrote it."""
    address: str
    port: int | None = None
    """The port at which it listens; None: 53, and 853 for TLS and QUIC."""

    @property
    def family(self) -> int:
        """4 or 6."""
        return ipaddress.ip_address(self.address).version

    @property
    def local(self) -> bool:
        """Whether it is an address of this machine."""
        family = socket.AF_INET if self.family == 4 else socket.AF_INET6
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            try:
                probe.bind((self.address, 0))
            except OSError:
                return False
        return True

    def port_for(self, transport: str) -> int:
        """The port for this transport."""
        return self.port or _PORTS[transport]


@dataclass(frozen=True)
class Plan:
    """The plan of a probe; the function `plan` makes and checks one."""

    targets: tuple[Target, ...]
    sources: tuple[str | None, ...] = (None,)
    """Addresses to ask from; None: the system's choice."""
    name: str = "."
    kind: str = "SOA"
    transports: tuple[str, ...] = ("udp", "tcp")
    """The transports, asked one after the other in each round."""
    count: int = ROUNDS
    """The number of rounds."""
    interval_s: float = 5.0
    """Seconds from the beginning of a round to that of the next."""
    timeout_s: float = 5.0
    """Seconds for each exchange, including handshakes."""
    reuse: bool = False
    """Whether queries share a connection."""
    recursion: bool = False
    edns: int | None = 1232
    """The UDP payload that EDNS offers, in bytes; None: no EDNS."""
    nsid: bool = False
    """Whether to ask which machine answers."""
    late_acknowledgements: bool = False
    """Whether this machine's TCP delays acknowledgements."""
    retry: str | None = None
    """The schedule for repeating a query over UDP; None: it is sent once and waits `timeout_s`."""
    tls_name: str | None = None
    """The server name that TLS and QUIC send; None: no name. Certificates are not checked."""
    watch: bool = True
    """Whether to capture packets if this process is allowed to."""

    @property
    def queries(self) -> int:
        """Queries in all."""
        return self.count * len(self.transports) * len(self.targets) * len(self.sources)

    @property
    def length_s(self) -> float:
        """The least time that it takes, in seconds."""
        return (self.count - 1) * self.interval_s


def plan(
    servers: Sequence[str],
    *,
    count: int | None = None,
    sources: Sequence[str] = (),
    transports: Sequence[str] = ("udp", "tcp"),
    interval_s: float = 5.0,
    timeout_s: float = 5.0,
    family: int | None = None,
    **settings: object,
) -> Plan:
    """A plan for these servers, checked.

    Args:
        servers: Names or addresses, each perhaps with a port: `192.0.2.1`, `ns.example:5353`,
            `[2001:db8::1]:53`.
        count: The number of rounds; 10 by default.
        sources: Addresses of this machine to ask from.
        transports: Some of `TRANSPORTS`, in the order to ask.
        interval_s: Seconds from the start of a round to that of the next.
        timeout_s: Seconds for each exchange.
        family: 4 or 6: the IP version to which names resolve; the system's first by default.
        settings: Other fields of `Plan`.

    Raises:
        ProbeError: A name does not resolve, a setting makes no sense, or it would ask too much.
    """
    if not servers:
        raise ProbeError("probe", "no server is given", "narrows probe 192.0.2.1")
    for transport in transports:
        if transport not in TRANSPORTS:
            hint = f"one of {', '.join(TRANSPORTS)}; tls is DoT, quic is DoQ"
            raise ProbeError(f"{argument('transports')} {transport}", "is unknown", hint)
    if not transports or len(set(transports)) < len(transports):
        raise ProbeError(argument("transports"), "none is given, or one is given twice", "udp,tcp")
    for source in sources:
        with_hint = "an address of this machine, such as ip address shows"
        try:
            ipaddress.ip_address(source)
        except ValueError:
            raise ProbeError(
                f"{argument('sources')} {source}", "is not an IP address", with_hint
            ) from None
        if not Target(source, source).local:
            raise ProbeError(
                f"{argument('sources')} {source}", "is not an address of this machine", with_hint
            )
    if not 0.0 <= interval_s <= 86_400.0:
        raise ProbeError(argument("interval_s"), "is not between 0 and a day", "5s")
    if not 0.0 < timeout_s <= 60.0:
        raise ProbeError(argument("timeout_s"), "is not between 0 and 60 s", "5s")
    retry = settings.get("retry")
    if retry is not None and retry not in (known := _core.retry_schedules()):
        raise ProbeError(f"{argument('retry')} {retry}", "is unknown", f"one of {', '.join(known)}")
    made = Plan(
        targets=tuple(_resolve(server, family, sources) for server in servers),
        sources=tuple(sources) or (None,),
        transports=tuple(transports),
        count=ROUNDS if count is None else count,
        interval_s=interval_s,
        timeout_s=timeout_s,
        **settings,  # type: ignore[arg-type]
    )
    _check_manners(made, counted=count is not None)
    return made


def _check_manners(made: Plan, *, counted: bool) -> None:
    """Refuses to ask other machines' addresses too often or too fast."""
    if made.count < 1:
        raise ProbeError(argument("count"), "is less than 1", argument("count", ROUNDS))
    each = len(made.transports) * len(made.sources)
    asked: dict[str, int] = {}
    for target in made.targets:
        asked[target.address] = asked.get(target.address, 0) + each
    for address, times in asked.items():
        if Target(address, address).local:
            continue
        if not counted and times * made.count > UNASKED:
            what = f"would be asked {times * made.count} times"
            raise ProbeError(
                address, what, f"say so with {argument('count', made.count)}, or fewer"
            )
        # Rounded as it is printed, because 28 times 0.1 is more than 2.8 in binary.
        least = float(f"{times * LEAST_INTERVAL_S:.6g}")
        if made.count > 1 and made.interval_s < least:
            what = f"would be asked more than {1 / LEAST_INTERVAL_S:g} times a second"
            raise ProbeError(address, what, f"{argument('interval_s')} of {least:g} s or more")


def _resolve(server: str, family: int | None, sources: Sequence[str]) -> Target:
    host, port = _split(server)
    if host.isascii() and host.isdigit():
        # The C library takes 5301 for the address 0.0.20.181.
        hint = "name the address and the port together, such as 192.0.2.53:5301"
        raise ProbeError(server, "is a number, not a server", hint)
    with contextlib.suppress(ValueError):
        return Target(server, str(ipaddress.ip_address(host)), port)
    wanted = {4: socket.AF_INET, 6: socket.AF_INET6}
    if family is None and sources:
        family = ipaddress.ip_address(sources[0]).version
    try:
        found = socket.getaddrinfo(
            host, None, wanted.get(family or 0, socket.AF_UNSPEC), socket.SOCK_DGRAM
        )
    except (OSError, UnicodeError) as error:
        words = (getattr(error, "strerror", None) or "not a host name").lower()
        raise ProbeError(server, f"does not resolve ({words})", "check the name") from None
    return Target(server, str(found[0][4][0]), port)


def _split(server: str) -> tuple[str, int | None]:
    """Host and port of `host`, `host:port`, `[v6]:port` or a bare IPv6 address."""
    host, port = server, ""
    if server.startswith("@"):
        raise ProbeError(server, "begins with @", server[1:])
    for mark in "#@":
        if mark in server:
            raise ProbeError(server, f"has {mark} before its port", server.replace(mark, ":", 1))
    if server.startswith("["):
        host, closed, rest = server[1:].partition("]")
        if not closed or (rest and not rest.startswith(":")):
            raise ProbeError(server, "is not [address]:port", "[2001:db8::1]:53")
        port = rest[1:]
    elif server.count(":") == 1:
        host, _, port = server.partition(":")
    if not port:
        return host, None
    if not port.isascii() or not port.isdigit() or not 0 < int(port) < 65_536:
        raise ProbeError(server, "has no port between 1 and 65535", f"name one, as in {host}:53")
    return host, int(port)

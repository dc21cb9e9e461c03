"""What carries the queries of a DNS group: UDP, TCP, TLS, HTTPS, QUIC or HTTP/3.

Each has its own keys. `transport = "tcp"` means `transport = { kind = "tcp" }`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from narrows import dns_profiles
from narrows.scenario.amounts import SECOND, DataSize
from narrows.scenario.base import OneOf
from narrows.scenario.declared import Declared, find
from narrows.scenario.dns_connections import ConnectionUse, TcpUse, captured
from narrows.scenario.dns_quic import Quic
from narrows.scenario.dns_tls import TlsUse
from narrows.scenario.overrides import plain
from narrows.scenario.quantities import PositiveSpan, Switch, refuse
from narrows.scenario.retry import SCHEDULES, ScheduleName
from narrows.scenario.suggestions import kind_suggestion
from narrows.scenario.toml_text import inline

Timeouts = Annotated[
    tuple[PositiveSpan, ...],
    Field(min_length=1, max_length=int(find("DnsClientUdp", "timeouts")["most"])),
]


class OverUdp(TcpUse):
    """Queries go over UDP first; the keys of connections are for clients that then turn to TCP."""

    kind: Literal["udp"] = "udp"
    """The transport."""
    retry: ScheduleName | Timeouts | None = None
    """Timeouts of successive attempts: the name of a schedule, or a list of durations such as `["1
    s", "3 s"]`. By default the profile's, or `"windows"`."""
    edns_size: Annotated[DataSize, Declared("DnsClientUdp", "payload")] | None = None
    """The longest reply that the client takes over UDP (RFC 6891), 512 B to 65507 B; the server
    truncates longer ones. By default the profile's, or no limit."""
    tcp_if_truncated: Switch | None = None
    """After a truncated reply, the client asks over TCP; otherwise that reply is the answer. By
    default the profile's; without a profile, true if something limits the length of replies."""
    tcp_if_silent: Switch | None = None
    """After the last timeout, the client asks over TCP. By default the profile's, or false."""
    new_port: Switch | None = None
    """Each attempt comes from a new port, and is therefore a flow of its own to queues that tell
    flows apart. Otherwise, all attempts of a worker come from one port. By default the profile's,
    or false."""
    udp_between: Switch | None = None
    """After a failed connection, the client asks over UDP again before it tries the next one. By
    default the profile's, or false."""

    def plan(self, profile: dns_profiles.Client | None, tcp: int) -> dict[str, Any]:
        """The plan's form of connections."""
        between = self.udp_between
        if between is None and profile is not None:
            between = profile.tcp_retries == "udp-first"
        return super().plan(profile, tcp) | {"udp_between": bool(between)}

    def over_udp(self, profile: dns_profiles.Client | None, *, is_limited: bool) -> dict[str, Any]:
        """The plan's form of attempts over UDP.

        Args:
            profile: Provides missing keys.
            is_limited: Whether the server limits the length of replies, or may do so.
        """
        return {
            "timeouts": self.timeouts(profile),
            "payload": self.payload(profile),
            "tcp_if_truncated": self.turns_if_truncated(profile, is_limited=is_limited),
            "tcp_if_silent": self.turns_if_silent(profile),
            "new_port": bool(profile and profile.new_port)
            if self.new_port is None
            else self.new_port,
        }

    def timeouts(self, profile: dns_profiles.Client | None) -> list[int]:
        """Timeouts of successive attempts, in picoseconds; `profile` provides a missing key.

        Examples:
            >>> OverUdp(retry="glibc").timeouts(None)
            [5000000000000, 5000000000000]
        """
        if self.retry is None and profile is not None:
            # A forwarder that never asks again waits as long as its client does.
            waits = [round(seconds * SECOND) for seconds in profile.timeouts_s if seconds]
            return waits or [5 * SECOND]
        if self.retry is None or isinstance(self.retry, str):
            schedule = SCHEDULES[self.retry or "windows"]
            return [round(seconds * SECOND) for seconds in schedule.timeouts_s]
        return list(self.retry)

    def payload(self, profile: dns_profiles.Client | None) -> int:
        """The longest reply that the client takes over UDP; `profile` provides a missing key."""
        if self.edns_size is not None:
            return self.edns_size
        return max(profile.edns_bytes, 512) if profile else 65_507

    def turns_if_truncated(self, profile: dns_profiles.Client | None, *, is_limited: bool) -> bool:
        """Whether the client asks over TCP after a truncated reply (arguments: see `over_udp`)."""
        if self.tcp_if_truncated is not None:
            return self.tcp_if_truncated
        if profile is not None:
            return profile.fallback_on_truncation
        # Without any limit no reply is truncated.
        return is_limited or self.edns_size is not None

    def turns_if_silent(self, profile: dns_profiles.Client | None) -> bool:
        """Whether the client asks over TCP after the last timeout."""
        if self.tcp_if_silent is not None:
            return self.tcp_if_silent
        return profile.fallback_on_timeout if profile else False


class OverTcp(TcpUse):
    """Queries go over TCP (RFC 7766)."""

    kind: Literal["tcp"] = "tcp"
    """The transport."""


class _WithTls(TcpUse):
    kind: str
    tls: TlsUse = TlsUse.usual()
    """How the client speaks TLS."""

    def uses_fast_open(self, _profile: dns_profiles.Client | None) -> bool:
        """Whether SYNs ask for cookies and carry queries."""
        # No client was seen to use Fast Open with TLS.
        return bool(self.fast_open)

    def plan(self, profile: dns_profiles.Client | None, tcp: int) -> dict[str, Any]:
        """The plan's form."""
        tls = self.tls.plan(captured(profile, self.kind), self.kind)
        return super().plan(profile, tcp) | {"tls": tls | {"quic": None}}


class OverTls(_WithTls):
    """Queries go over TLS 1.3 on TCP (RFC 7858)."""

    kind: Literal["tls"] = "tls"
    """The transport."""


class OverHttps(_WithTls):
    """Queries go over HTTP/2 and TLS 1.3 (RFC 8484)."""

    kind: Literal["https"] = "https"
    """The transport."""


class WithQuic(ConnectionUse):
    """Queries go over QUIC, each in a stream of its own."""

    kind: str
    tls: TlsUse = TlsUse.usual()
    """How the client speaks TLS within QUIC."""
    quic: Quic = Quic.usual()
    """How both ends speak QUIC."""

    def plan(self, profile: dns_profiles.Client | None, tcp: int) -> dict[str, Any]:
        """The plan's form."""
        tls = self.tls.plan(captured(profile, self.kind), self.kind)
        known = profile.quic if profile and self.kind == "quic" else None
        return super().plan(profile, tcp) | {"tls": tls | {"quic": self.quic.plan(known)}}


class OverQuic(WithQuic):
    """Queries go over QUIC, each in a stream of its own (RFC 9250)."""

    kind: Literal["quic"] = "quic"
    """The transport."""


class OverHttp3(WithQuic):
    """Queries go over HTTP/3 and QUIC, each in a stream of its own (RFC 8484, RFC 9114)."""

    kind: Literal["http3"] = "http3"
    """The transport."""


TRANSPORTS: dict[str, type[OverUdp | OverTcp | OverTls | OverHttps | OverQuic | OverHttp3]] = {
    "udp": OverUdp,
    "tcp": OverTcp,
    "tls": OverTls,
    "https": OverHttps,
    "quic": OverQuic,
    "http3": OverHttp3,
}
"""The transports by their kinds."""


def _read(value: Any) -> Any:
    """Makes a table of a transport that is given by name alone."""
    if not isinstance(value, str) or value.startswith("{"):
        return value
    if value not in TRANSPORTS:
        raise refuse(f'"{value[:64]}" is not known here', kind_suggestion(value, [*TRANSPORTS]))
    return {"kind": value}


_Name = Literal["udp", "tcp", "tls", "https", "quic", "http3"]

if TYPE_CHECKING:
    _Table = OverUdp | OverTcp | OverTls | OverHttps | OverQuic | OverHttp3
else:

    class _Table(OneOf, kinds=TRANSPORTS):
        """Any transport, with its keys."""


Transport = Annotated[_Table, BeforeValidator(_read, json_schema_input_type=_Name | _Table)]
"""A transport: its name, or a table with its kind and keys."""


_MOVED = (
    *("retry", "edns_size", "tcp_if_truncated", "tcp_if_silent", "new_port"),
    *("connections", "tcp", "quic"),
)


def in_new_form(group: Mapping[str, Any]) -> str:
    """The key `transport` of a group that has a transport's keys beside it; empty without any.

    Keys of other transports, which had no effect, are left out.

    Examples:
        >>> in_new_form({"transport": "tcp", "retry": "glibc", "connections": {"reuse": True}})
        'transport = { kind = "tcp", reuse = true }'
    """
    given = {key: group[key] for key in _MOVED if key in group}
    over = group.get("transport", "quic" if "quic" in group else "udp")
    table = over if isinstance(over, Mapping) else {"kind": over}
    kind = table.get("kind")
    if not given or not isinstance(kind, str) or kind not in TRANSPORTS:
        return ""
    use = given.pop("connections", {})
    keys = {**given, **(use if isinstance(use, Mapping) else {})}
    known = {key: keys[key] for key in keys if key in TRANSPORTS[kind].model_fields}
    return f"transport = {inline(plain({**table, **known}))}"

"""DNS over TLS 1.3 (RFC 7858, RFC 8446): certificates, sessions, early data, padding; HTTPS.

The simulator models bytes and writes; `crates/transport/src/tls.rs` and
`crates/apps/src/dns/https.rs` say which.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from pydantic import Field

from narrows import dns_profiles
from narrows.scenario.amounts import DataSize, Duration
from narrows.scenario.base import Table
from narrows.scenario.declared import Declared, find, usual
from narrows.scenario.dns_quic import Quic
from narrows.scenario.quantities import Size, Span, Switch

if TYPE_CHECKING:
    from narrows.dns_profiles import ClientTls, ServerTls


class Chain(NamedTuple):
    """A server's chain: the lengths of its certificates, its own first, and the kind of its key."""

    certificates: tuple[int, ...]
    key: str
    source: str


CHAINS: dict[str, Chain] = {
    "cloudflare-ecdsa": Chain(
        (1395, 977),
        "ecdsa-p256",
        "packtpub.com behind Cloudflare, as openssl s_client -msg shows it in TLS Cryptography "
        "In-Depth (Packt 2024), section 13.6.3",
    ),
    "google-rsa": Chain(
        (1366, 1434),
        "rsa-2048",
        "www.google.com of January 2023 and GTS CA 1C3, in crypto/x509/verify_test.go of Go",
    ),
}
"""The chains of real servers, by name."""

SIGNATURES = {"ecdsa-p256": 71, "rsa-2048": 256, "rsa-3072": 384, "rsa-4096": 512}
"""Bytes of a signature; ECDSA's has 70 to 72, because its two numbers are written in ASN.1."""


@cache
def _openssl_client() -> ClientTls:
    """OpenSSL 3.0 as Python uses it (captures tls-resumed), without Nagle's algorithm.

    HTTP/2 is kdig's.
    """
    return dns_profiles.ClientTls(
        hello_bytes=225,
        pads_hello=True,
        key_share_bytes=32,
        alpn=False,
        apart=False,
        nagle=False,
        padding_bytes=128,
        resumption=False,
        close_notify=False,
        https_preface_bytes=39,
        https_fields_bytes=62,
        https_fields_again_bytes=20,
    )


@cache
def _openssl_server() -> ServerTls:
    """OpenSSL 3.0, with replies padded as RFC 8467 recommends; HTTP/2 is BIND's."""
    return dns_profiles.ServerTls(
        hash_bytes=48,
        groups_bytes=26,
        alpn=True,
        ticket_bytes=255,
        tickets=2,
        tickets_resumed=1,
        tickets_apart=True,
        padding_bytes=468,
        early_data=False,
        close_notify=False,
        https_settings_bytes=15,
        https_acknowledges_apart=True,
        https_fields_bytes=35,
        https_fields_again_bytes=8,
        https_tickets_apart=True,
        https_nagle=False,
    )


Block = Annotated[Size, Field(le=int(find("DnsClientTls", "padding")["most"]))]
CertificateSize = Annotated[Size, Field(ge=100, le=65_535)]
_ALPN = {"tls": len("dot"), "https": len("h2"), "quic": len("doq"), "http3": len("h3")}
"""The names of application protocols (RFC 7858; RFC 9113, 3.1; RFC 9250, 4.1; RFC 9114, 3.1)."""
_AROUND_ALPN = 4 + 2 + 1


class TlsUse(Table):
    """How clients speak TLS (RFC 7858)."""

    resume: Switch | None = None
    """A later connection resumes the session of an earlier one, if the server has given a ticket
    (RFC 8446, 2.2). This saves the certificates, but no round trip. By default the profile's, or
    false."""
    early_data: Switch = False
    """The first query of a resumed connection is sent right after the ClientHello (RFC 8446, 2.3;
    QUIC's 0-RTT), a round trip earlier; needs `resume` and `answers.tls.early_data`."""
    padding: Block | None = None
    """Queries are padded to a multiple of this size (RFC 8467); `"0 B"` turns padding off. By
    default the profile's, or 128 B."""
    hello: Annotated[DataSize, Declared("TlsClient", "hello")] | None = None
    """Length of a ClientHello that offers no session, including its record. By default the
    profile's, or 225 B, as OpenSSL 3 sends it without the server's name."""

    def pads(self, profile: ClientTls | None) -> int:
        """The multiple of bytes to which queries are padded; 0: they are not."""
        return (
            (profile or _openssl_client()).padding_bytes if self.padding is None else self.padding
        )

    def resumes(self, profile: ClientTls | None) -> bool:
        """Whether a later connection resumes a session."""
        return (profile or _openssl_client()).resumption if self.resume is None else self.resume

    def plan(self, profile: ClientTls | None, transport: str) -> dict[str, Any]:
        """The plan's form; `profile` gives what is left out."""
        known = profile or _openssl_client()
        hello = known.hello_bytes if self.hello is None else self.hello
        needs_alpn = transport != "tls"
        if needs_alpn and self.hello is None:
            # HTTP and QUIC need a protocol name; `dot` may be left out.
            before = _ALPN["tls"] if known.alpn else -_AROUND_ALPN
            hello += _ALPN[transport] - before
        handshake = {
            "hello": hello,
            "pads_hello": known.pads_hello,
            "key_share": known.key_share_bytes,
            "alpn": _ALPN[transport] if known.alpn or needs_alpn else 0,
            "apart": known.apart,
            "resume": self.resumes(profile),
            "early_data": self.early_data,
            "close_notify": known.close_notify,
        }
        https = {
            "preface": known.https_preface_bytes,
            "fields": known.https_fields_bytes,
            "fields_again": known.https_fields_again_bytes,
        }
        return {
            "handshake": handshake,
            "padding": self.pads(profile) or None,
            "https": https if transport == "https" else None,
            "http3": usual("Http3Requests") if transport == "http3" else None,
        }


class Certificates(Table):
    """What servers send over TLS."""

    certificates: (
        Literal["cloudflare-ecdsa", "google-rsa"]
        | Annotated[tuple[CertificateSize, ...], Field(min_length=1, max_length=20)]
    ) = "cloudflare-ecdsa"
    """The server's certificates: the name of a real server's chain (docs/dns-tls.md), or the
    lengths of the certificates, its own first, `["1395 B", "977 B"]`."""
    key: Literal["ecdsa-p256", "rsa-2048", "rsa-3072", "rsa-4096"] | None = None
    """The server's key, which determines the length of the signature. By default that of the named
    chain, or `"ecdsa-p256"`."""
    ticket_size: Annotated[DataSize, Declared("TlsServer", "ticket")] | None = None
    """Length of a ticket (NewSessionTicket), including its record. By default 255 B, as in OpenSSL
    3; with `answers.profile`, that of the profile."""


class TlsAnswers(Certificates):
    """How a server speaks TLS (RFC 7858)."""

    tickets: Annotated[int, Declared("TlsServer", "tickets")] | None = None
    """Tickets after a full handshake; each is good for one resumed connection. By default the
    profile's, or 2."""
    early_data: Switch | None = None
    """Whether its sessions allow early data. By default the profile's, or false."""
    padding: Block | None = None
    """Replies to padded queries are padded to a multiple of this size (RFC 8467); `"0 B"` turns
    padding off. By default the profile's, or 468 B."""

    handshake_service: Span = Duration("0 s")
    """Time to answer a ClientHello that offers no session, mostly for the signature. It is the same
    over TLS, HTTPS, QUIC and HTTP/3."""
    service: Span | None = None
    """Added to the service time of queries over TLS, HTTPS, QUIC and HTTP/3; by default
    `tcp_service`."""
    quic: Quic | None = None
    """How it speaks QUIC; by default as this group's clients do."""

    def takes_early_data(self, profile: ServerTls | None) -> bool:
        """Whether its sessions allow early data."""
        known = profile or _openssl_server()
        return known.early_data if self.early_data is None else self.early_data

    def plan(self, profile: ServerTls | None, https_tcp: int) -> dict[str, Any]:
        """The plan's form; `profile` gives what is left out.

        Args:
            profile: How the server's program speaks TLS.
            https_tcp: The index of its TCP settings over HTTPS.
        """
        known = profile or _openssl_server()
        if isinstance(self.certificates, str):
            certificates, key, _ = CHAINS[self.certificates]
        else:
            certificates, key = self.certificates, "ecdsa-p256"
        handshake = {
            # Header, context, length of the list; for each its length and no extensions (4.4.2).
            "certificate": 4 + 1 + 3 + sum(3 + size + 2 for size in certificates),
            "signature": SIGNATURES[self.key or key],
            "hash": known.hash_bytes,
            "groups": known.groups_bytes,
            "alpn": known.alpn,
            "ticket": known.ticket_bytes if self.ticket_size is None else self.ticket_size,
            "tickets": known.tickets if self.tickets is None else self.tickets,
            "tickets_resumed": min(
                known.tickets_resumed, 100 if self.tickets is None else self.tickets
            ),
            "tickets_apart": known.tickets_apart,
            "early_data": self.takes_early_data(profile),
            "write": known.write_bytes,
            "close_notify": known.close_notify,
            "service": self.handshake_service,
        }
        padding = known.padding_bytes if self.padding is None else self.padding
        https = {
            "tcp": https_tcp,
            "handshake": handshake | {"alpn": True, "tickets_apart": known.https_tickets_apart},
            "responses": {
                "settings": known.https_settings_bytes,
                "acknowledges_apart": known.https_acknowledges_apart,
                "fields": known.https_fields_bytes,
                "fields_again": known.https_fields_again_bytes,
            },
        }
        return {
            "handshake": handshake,
            "padding": padding or None,
            "extra_service": self.service,
            "https": None if known.https_settings_bytes is None else https,
        }

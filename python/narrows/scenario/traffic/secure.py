"""Web pages over TLS 1.3 and QUIC: sessions and certificates of browsers and their servers.

Keys have the same names as for DNS, where those of client and server are separate
(`connections.tls`, `answers.tls`).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from narrows.scenario.base import Table
from narrows.scenario.dns_quic import Quic
from narrows.scenario.dns_tls import CertificateSize, TlsAnswers, TlsUse
from narrows.scenario.quantities import Size, Switch, refuse
from narrows.scenario.rules import Faults, rule

__all__ = ["PageTls"]

_H2 = len("h2")
ALPN = {"http/1.1": len("http/1.1"), "http/2": _H2, "http/3": len("h3")}
"""Names of protocols (RFC 7301, 6; RFC 9113, 3.1; RFC 9114, 3.1)."""


class PageTls(Table):
    """How browsers and their servers speak TLS 1.3 (RFC 8446), on TCP or within QUIC."""

    resume: Switch = False
    """A later connection to a server resumes the session of an earlier one of the same browser (RFC
    8446, 2.2). This saves the certificates, but no round trip."""
    early_data: Switch = False
    """The first requests of a resumed connection are sent right after the ClientHello (RFC 8446,
    2.3; QUIC's 0-RTT), a round trip earlier; needs `resume`. Servers accept them."""
    hello: Annotated[Size, Field(ge=90, le=16_000)] | None = None
    """Length of a ClientHello that offers no session, including its record. By default 234 B, as
    OpenSSL 3 sends it without the server's name. Browsers with post-quantum keys send about 1800
    B."""
    certificates: (
        Literal["cloudflare-ecdsa", "google-rsa"]
        | Annotated[tuple[CertificateSize, ...], Field(min_length=1, max_length=20)]
    ) = "cloudflare-ecdsa"
    """The servers' certificates: the name of a real server's chain (docs/dns-tls.md), or the
    lengths of a chain's certificates, the server's own first, `["1395 B", "977 B"]`."""
    key: Literal["ecdsa-p256", "rsa-2048", "rsa-3072", "rsa-4096"] | None = None
    """The servers' key, which determines the length of the signature. By default that of the named
    chain, or `"ecdsa-p256"`."""
    tickets: Annotated[int, Field(strict=True, ge=0, le=100)] = 2
    """Tickets after a full handshake; each is good for one resumed connection."""
    ticket_size: Annotated[Size, Field(ge=56, le=16_000)] | None = None
    """Length of a ticket (NewSessionTicket), including its record. By default 255 B, as in OpenSSL
    3."""

    @rule
    def _has_sessions_to_resume(self) -> Faults:
        if self.early_data and not self.resume:
            yield refuse(
                "needs a session to resume", "set resume to true, or leave it out", "early_data"
            )
        if self.resume and not self.tickets:
            yield refuse("needs tickets", "set tickets to 1 or more, or leave it out", "resume")

    def client(self, protocol: str, quic: Quic | None) -> dict[str, Any]:
        """The browsers' part, as the plan has it."""
        use = TlsUse(resume=self.resume, early_data=self.early_data, hello=_bytes(self.hello))
        handshake = use.plan(None, "https")["handshake"]
        if self.hello is None:
            handshake["hello"] += ALPN[protocol] - _H2
        handshake["alpn"] = ALPN[protocol]
        return {"handshake": handshake, "quic": None if quic is None else quic.plan()}

    def server(self, quic: Quic | None) -> dict[str, Any]:
        """The servers' part, as the plan has it."""
        certificates: Any = self.certificates
        if not isinstance(certificates, str):
            certificates = [_bytes(size) for size in certificates]
        answers = TlsAnswers(
            certificates=certificates,
            key=self.key,
            tickets=self.tickets,
            ticket_size=_bytes(self.ticket_size),
            early_data=self.early_data,
        )
        handshake = answers.plan(None, https_tcp=0)["handshake"]
        return {"handshake": handshake, "quic": None if quic is None else quic.plan()}


def _bytes(size: int | None) -> Any:
    return None if size is None else f"{int(size)} B"

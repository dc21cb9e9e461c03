"""Web pages over TLS 1.3 and QUIC: sessions and certificates of browsers and their servers.

Keys have the same names as for DNS, where those of client and server are separate
(`transport.tls`, `answers.tls`).
"""

from __future__ import annotations

from typing import Annotated, Any

from narrows.scenario.amounts import DataSize
from narrows.scenario.declared import Declared
from narrows.scenario.dns_quic import Quic
from narrows.scenario.dns_tls import Certificates, TlsAnswers, TlsUse
from narrows.scenario.quantities import Switch, refuse
from narrows.scenario.rules import Faults, rule

_H2 = len("h2")
ALPN = {"http/1.1": len("http/1.1"), "http/2": _H2, "http/3": len("h3")}
"""Names of protocols (RFC 7301, 6; RFC 9113, 3.1; RFC 9114, 3.1)."""


class PageTls(Certificates):
    """How browsers and their servers speak TLS 1.3 (RFC 8446), on TCP or within QUIC."""

    resume: Switch = False
    """A later connection to a server resumes the session of an earlier one of the same browser (RFC
    8446, 2.2). This saves the certificates, but no round trip."""
    early_data: Switch = False
    """The first requests of a resumed connection are sent right after the ClientHello (RFC 8446,
    2.3; QUIC's 0-RTT), a round trip earlier; needs `resume`. Servers accept them."""
    hello: Annotated[DataSize, Declared("TlsClient", "hello")] | None = None
    """Length of a ClientHello that offers no session, including its record. By default 234 B, as
    OpenSSL 3 sends it without the server's name. Browsers with post-quantum keys send about 1800
    B."""
    tickets: Annotated[int, Declared("TlsServer", "tickets")] = 2
    """Tickets after a full handshake; each is good for one resumed connection."""

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
        use = TlsUse.model_construct(**self._given({"resume", "early_data", "hello"}))
        handshake = use.plan(None, "https")["handshake"]
        if self.hello is None:
            handshake["hello"] += ALPN[protocol] - _H2
        handshake["alpn"] = ALPN[protocol]
        return {"handshake": handshake, "quic": None if quic is None else quic.plan()}

    def server(self, quic: Quic | None) -> dict[str, Any]:
        """The servers' part, as the plan has it."""
        answers = TlsAnswers.model_construct(
            **self._given({"certificates", "key", "tickets", "ticket_size", "early_data"})
        )
        handshake = answers.plan(None, https_tcp=0)["handshake"]
        return {"handshake": handshake, "quic": None if quic is None else quic.plan()}

    def _given(self, keys: set[str]) -> dict[str, Any]:
        return {key: getattr(self, key) for key in keys}

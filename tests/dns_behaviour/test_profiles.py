"""The profiles can be read, and the documents show what they say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from narrows import NarrowsError, dns_profiles


@pytest.mark.parametrize("name", dns_profiles.clients())
def test_client_profiles_hold_together(name: str) -> None:
    client = dns_profiles.client(name)
    assert client.name == name
    assert client.attempts >= 1
    assert client.reuse == (client.idle_timeout_s is not None)
    assert not client.pipelining or client.reuse
    assert client.format_error != "never" or client.edns_bytes == 0


@pytest.mark.parametrize("name", dns_profiles.servers())
def test_server_profiles_hold_together(name: str) -> None:
    server = dns_profiles.server(name)
    assert server.name == name
    assert server.first_query_timeout_s >= server.half_query_timeout_s
    shares = [share for share, _ in server.busy_levels]
    spans = [span for _, span in server.busy_levels]
    assert shares == sorted(shares)
    assert all(span < server.idle_timeout_s for span in spans)


@pytest.mark.parametrize("name", dns_profiles.sizes_names())
def test_size_profiles_hold_together(name: str) -> None:
    for choice in dns_profiles.sizes(name).choices:
        longest = ((choice, 1232), (choice.without_do, 1232), (choice.without_edns, 512))
        for reply, limit in longest:
            assert reply.udp_reply_bytes <= min(limit, reply.reply_bytes)
            # RFC 2181, 9: additional records may be left out; TC is for what is needed.
            assert not reply.truncated or reply.udp_reply_bytes < reply.reply_bytes
        assert choice.query_bytes < choice.reply_bytes
        # RFC 6891, 6.1.1 and 7: a reply has an OPT record exactly where the query has one.
        assert choice.without_do.reply_bytes == choice.without_edns.reply_bytes + 11
        # RFC 4035, 3.1: signatures come only to those who ask for them.
        assert choice.reply_bytes >= choice.without_do.reply_bytes
        if name.startswith("unsigned"):
            assert choice.reply_bytes == choice.without_do.reply_bytes


def test_signed_replies_are_longer() -> None:
    """RFC 4035, 3.1.1: a signature beside each set, of 64 bytes or 256 (RFC 6605, RFC 5702)."""

    def address(name: str) -> int:
        return dns_profiles.sizes(name).choices[0].reply_bytes

    # RRSIG: owner 2, fixed 10, data 18, signer and signature.
    rrsig = 2 + 10 + 18
    ecdsa = address("ecdsa-nsec-minimal") - address("unsigned-minimal")
    assert ecdsa == rrsig + len(b"\5ecdsa\4test\0") + 64
    rsa = address("rsa-nsec-minimal") - address("unsigned-minimal")
    # Names of this zone are two bytes shorter, but only in the question, to which all others point.
    assert rsa == rrsig + len(b"\3rsa\4test\0") + 256 - 2


def test_unknown_name_is_one_line() -> None:
    with pytest.raises(NarrowsError) as caught:
        dns_profiles.client("nobody\n")
    assert "\n" not in str(caught.value)
    assert "unbound" in str(caught.value)


def test_the_tables_are_current() -> None:
    script = Path(__file__).parents[2] / "tools" / "dns_profile_tables.py"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("kind", "tls", "lacking"),
    [
        ("server", dns_profiles.server("bind").tls, "https_nagle"),
        ("server", dns_profiles.server("bind").tls, "https_fields_again_bytes"),
        ("client", dns_profiles.client("kdig").tls, "https_preface_bytes"),
    ],
)
def test_who_speaks_https_says_how(
    kind: str, tls: dns_profiles.ServerTls | dns_profiles.ClientTls | None, lacking: str
) -> None:
    assert tls is not None, kind
    values = tls.model_dump()
    with pytest.raises(ValueError, match=f"HTTPS also needs {lacking}"):
        type(tls).model_validate(values | {lacking: None})
    none = {key: None for key in values if key.startswith("https_")}
    type(tls).model_validate(values | none)

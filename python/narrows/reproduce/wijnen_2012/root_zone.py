"""The root zone of October 2012, as far as the SOA's reply shows it, and the length of that reply.

RFC 1035 (4.1): a header of 12 bytes, the question, and records of 10 bytes plus name and data. A
name is written once; later ones are pointers to it (4.1.4: two bytes). The reply has the SOA, the
thirteen NS of the authority section and all addresses of their hosts. IANA's hints (named.root) of
June 2011 to January 2013 list an IPv6 address for nine of them: B, C, E and G had none. The paper's
replies have 745 bytes over TCP, so its queries had no EDNS: with an OPT record they have 756.
"""

from __future__ import annotations

HOSTS = "abcdefghijklm"
WITH_IPV6 = "adfhijklm"
PRIMARY, PERSON = "a.root-servers.net", "nstld.verisign-grs.com"


def soa_reply_bytes() -> int:
    """The message's length, without TCP's prefix.

    Examples:
        >>> soa_reply_bytes()
        745
    """
    root, pointer, record, numbers = 1, 2, 10, 20
    question = root + 4
    # Both names in the SOA's data are written out, because a pointer needs an earlier name.
    soa = root + record + _length(PRIMARY) + _length(PERSON) + numbers
    first = root + record + pointer
    others = (len(HOSTS) - 1) * (root + record + len("b") + 1 + pointer)
    addresses = len(HOSTS) * (pointer + record + 4) + len(WITH_IPV6) * (pointer + record + 16)
    return 12 + question + soa + first + others + addresses


def zone_file() -> str:
    """The zone as a file for real servers; the addresses are for documentation."""
    lines = ["$TTL 518400"]
    lines += [f". IN SOA {PRIMARY}. {PERSON}. 2012092000 1800 900 604800 86400"]
    for number, letter in enumerate(HOSTS, start=1):
        host = f"{letter}.root-servers.net."
        lines += [f". IN NS {host}", f"{host} IN A 192.0.2.{number}"]
        if letter in WITH_IPV6:
            lines += [f"{host} IN AAAA 2001:db8::{number}"]
    return "\n".join(lines) + "\n"


def _length(name: str) -> int:
    """The length of a name written out: a byte before each label, and the root."""
    return sum(1 + len(label) for label in name.split(".")) + 1

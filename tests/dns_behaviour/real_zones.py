"""Zones like those of a small organisation and of the root, unsigned and signed with BIND's tools.

The names and the number of records are our choice; the sizes follow from them. `big` has a TXT set
of about 3000 bytes, for captures.
"""

from __future__ import annotations

import random
import string
import subprocess
from dataclasses import dataclass
from pathlib import Path

SERIAL = 2026010100
LETTERS = string.ascii_letters + string.digits


@dataclass(frozen=True)
class Zone:
    """A zone, and how it is signed."""

    name: str
    """Its origin, without the last dot; empty for the root."""
    algorithm: str | None = None
    """The algorithm of the keys, as dnssec-keygen names it; None: not signed."""
    bits: int | None = None
    """The bits of an RSA key that signs the zone; the key-signing key has 2048."""
    nsec3: bool = False


ZONES = {
    "unsigned": Zone("plain.test"),
    "ecdsa-nsec": Zone("ecdsa.test", "ECDSAP256SHA256"),
    "ecdsa-nsec3": Zone("ecdsa3.test", "ECDSAP256SHA256", nsec3=True),
    "rsa-nsec": Zone("rsa.test", "RSASHA256", 2048),
    "rsa-nsec3": Zone("rsa3.test", "RSASHA256", 2048, nsec3=True),
    "root": Zone("", "RSASHA256", 2048),
}


def text(size: int, seed: str) -> str:
    """Text of `size` characters, always the same, like a verification token."""
    return "".join(random.Random(seed).choices(LETTERS, k=size))


def records(zone: Zone) -> list[str]:
    """Lines of an organisation's zone."""
    lines = ["$TTL 3600", f"$ORIGIN {zone.name}."]
    lines += [f"@ SOA ns1 hostmaster {SERIAL} 7200 3600 1209600 300"]
    lines += ["@ NS ns1", "@ NS ns2", "ns1 A 192.0.2.1", "ns2 A 198.51.100.1"]
    lines += ["ns1 AAAA 2001:db8:1::1", "ns2 AAAA 2001:db8:2::1"]
    lines += ["@ A 192.0.2.80", "@ AAAA 2001:db8:1::80", "@ MX 10 mx1", "@ MX 20 mx2"]
    lines += ["mx1 A 192.0.2.25", "mx2 A 198.51.100.25"]
    lines += [f'@ TXT "v=spf1 mx ip4:192.0.2.0/24 include:_spf.{zone.name} -all"']
    lines += [f'@ TXT "site-verification={text(43, "site")}"', f'@ TXT "MS=ms{text(8, "ms")}"']
    lines += ["www A 192.0.2.81", "www AAAA 2001:db8:1::81", "shop CNAME www"]
    lines += [f'key._domainkey TXT "v=DKIM1; k=rsa; p={text(230, "a")}" "{text(170, "b")}"']
    lines += [f"host{i} A 192.0.2.{100 + i}" for i in range(20)]
    lines += [f'big TXT "{text(240, f"big{i}")}"' for i in range(12)]
    return lines


def root_records() -> list[str]:
    """Lines of a zone like the root: its SOA, thirteen servers with addresses, delegations."""
    letters = "abcdefghijklm"
    lines = ["$TTL 86400", "$ORIGIN ."]
    lines += [f". SOA a.root-servers.net. nstld.verisign-grs.com. {SERIAL} 1800 900 604800 86400"]
    lines += [f". 518400 NS {letter}.root-servers.net." for letter in letters]
    for number, letter in enumerate(letters, 1):
        lines += [f"{letter}.root-servers.net. 518400 A 192.0.2.{number}"]
        lines += [f"{letter}.root-servers.net. 518400 AAAA 2001:db8:{number}::53"]
    for tld, servers in (("com", 13), ("org", 6), ("net", 13), ("test", 2)):
        for number in range(servers):
            host = f"{letters[number]}.nic.{tld}."
            lines += [f"{tld}. 172800 NS {host}", f"{host} 172800 A 198.51.100.{number}"]
            lines += [f"{host} 172800 AAAA 2001:db8:{number}:{len(tld)}::30"]
        lines += [f"{tld}. DS 20326 8 2 " + "AB" * 32]
    return lines


def write(folder: Path) -> dict[str, Path]:
    """Writes and signs all zones; gives the files by the zone's name in `ZONES`."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {}
    for kind, zone in ZONES.items():
        plain = folder / f"{kind}.plain"
        plain.write_text("\n".join(records(zone) if zone.name else root_records()) + "\n")
        files[kind] = plain if zone.algorithm is None else sign(folder / kind, zone, plain)
    return files


def sign(folder: Path, zone: Zone, plain: Path) -> Path:
    """Signs with a key-signing key and a zone-signing key, as is usual."""
    assert zone.algorithm is not None
    folder.mkdir()
    origin = zone.name or "."
    for role, bits in ((["-f", "KSK"], 2048), ([], zone.bits)):
        words = ["dnssec-keygen", "-q", "-a", zone.algorithm, *role, "-K", str(folder)]
        words += ["-b", str(bits)] if zone.bits is not None else []
        run(*words, origin)
    signed = folder / "signed"
    words = ["dnssec-signzone", "-S", "-K", str(folder), "-d", str(folder), "-o", origin]
    words += ["-3", "-", "-H", "0"] if zone.nsec3 else []
    run(*words, "-f", str(signed), str(plain))
    return signed


def run(*words: str) -> None:
    """Runs a tool; its output matters only if it fails."""
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip()}")

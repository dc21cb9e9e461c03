"""Measures the sizes of queries and replies of the zones in real_zones.py.

NSD adds the zone's servers and their addresses to its replies, as BIND does if configured to
(`minimal-responses no`). Knot adds nothing; its profiles have names that end in `-minimal`.

    # .venv/bin/python -m tests.dns_behaviour.measure_sizes

This command writes python/narrows/dns_profiles/sizes/ again.
"""

from __future__ import annotations

import contextlib
import json
import socket
import tempfile
from pathlib import Path

import dns.flags
import dns.message

from ..network import Namespace, network
from .real_servers import SERVERS, RealServer, serving
from .real_zones import ZONES, Zone, write
from .server_trials import ADDRESS, ADDRESS6, connected, message

FOLDER = Path(__file__).parents[2] / "python" / "narrows" / "dns_profiles" / "sizes"
EDNS = 1232
"""What queries offer: the default of today's resolvers."""
OPT_BYTES = 11
"""What an OPT record without options adds to a query (RFC 6891, 6.1.2)."""

# What is asked for, and how often. The kinds and the weights are our choice.
ORGANISATION = (
    ("address", "www.", "A", 48.0),
    ("address6", "www.", "AAAA", 20.0),
    ("no such name", "nothing-here.", "A", 12.0),
    ("no such type", "host3.", "AAAA", 8.0),
    ("alias", "shop.", "A", 4.0),
    ("mail", "", "MX", 3.0),
    ("text", "", "TXT", 2.0),
    ("domain key", "key._domainkey.", "TXT", 1.0),
    ("servers", "", "NS", 1.0),
    ("authority", "", "SOA", 0.5),
    ("keys", "", "DNSKEY", 0.5),
)
ROOT = (
    ("delegation", "www.example.com", "A", 40.0),
    ("small delegation", "www.example.test", "A", 15.0),
    ("no such name", "nothing-here", "A", 35.0),
    ("authority", "", "SOA", 1.0),
    ("priming", "", "NS", 3.0),
    ("keys", "", "DNSKEY", 1.0),
    ("delegation signer", "com", "DS", 5.0),
)


def sized(space: Namespace, zone: Zone) -> list[dict[str, object]]:
    """Every kind of query with its sizes."""
    found: list[dict[str, object]] = []
    for kind, prefix, rdtype, weight in ORGANISATION if zone.name else ROOT:
        if rdtype == "DNSKEY" and zone.algorithm is None:
            continue
        name = f"{prefix}{zone.name}." if prefix or zone.name else "."
        plain = dns.message.make_query(name, rdtype).to_wire()
        edns, signed = (
            dns.message.make_query(
                name, rdtype, use_edns=0, payload=EDNS, want_dnssec=want
            ).to_wire()
            for want in (False, True)
        )
        assert len(signed) == len(edns) == len(plain) + OPT_BYTES
        found.append(
            {
                "kind": f"{kind}: {name} {rdtype}",
                "query_bytes": len(signed),
                **asked(space, signed),
                "weight": weight,
                "without_do": asked(space, edns),
                "without_edns": asked(space, plain),
            }
        )
    return found


def asked(space: Namespace, query: bytes) -> dict[str, object]:
    """The sizes of the replies over TCP and over UDP."""
    with space.inside():
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with udp, connected(space) as tcp:
        udp.settimeout(5)
        udp.sendto(query, (ADDRESS, 53))
        over_udp = udp.recv(65535)
        tcp.sendall(len(query).to_bytes(2) + query)
        over_tcp = message(tcp)
    assert over_tcp is not None
    return {
        "reply_bytes": len(over_tcp),
        "udp_reply_bytes": len(over_udp),
        "truncated": bool(int.from_bytes(over_udp[2:4]) & dns.flags.TC),
    }


def measured(folder: Path) -> dict[str, tuple[Zone, RealServer, list[dict[str, object]]]]:
    """Sizes by profile, with the zone and the server that they come from."""
    files = write(folder / "zones")
    by_name = {server.name: server for server in SERVERS}
    organisations = [kind for kind in ZONES if kind != "root"]
    # The root and the zones below it are on separate servers, as usual.
    places = (("nsd", organisations, ""), ("nsd", ["root", "unsigned"], ""))
    places += (("knot", organisations, "-minimal"),)
    found: dict[str, tuple[Zone, RealServer, list[dict[str, object]]]] = {}
    with contextlib.ExitStack() as stack:
        net = stack.enter_context(network([ADDRESS, ADDRESS6], offload=False))
        for number, (name, kinds, suffix) in enumerate(places):
            mine = {kind: files[kind] for kind in kinds}
            server = by_name[name]
            with serving(server, net.server, folder / str(number), mine, ADDRESS):
                for kind in kinds:
                    profile = kind + suffix
                    if profile not in found:
                        choices = sized(net.client, ZONES[kind])
                        found[profile] = (ZONES[kind], server, choices)
    return found


def toml(zone: Zone, server: RealServer, choices: list[dict[str, object]]) -> str:
    """The profile."""
    signed = "not signed"
    if zone.algorithm is not None:
        proof = "NSEC3 without salt and iterations" if zone.nsec3 else "NSEC"
        bits = f" of {zone.bits} bits" if zone.algorithm.startswith("RSA") else ""
        signed = f"signed with {zone.algorithm}{bits} and {proof}"
    what = "the zone of a small organisation" if zone.name else "a zone like the root"
    program = f"{TITLES[server.name]}, {what}, {signed}"
    lines = ["# Made by tests/dns_behaviour/measure_sizes.py.", f'program = "{program}"']
    lines += [f'version = "{server.version()} (Debian 12)"']
    source = "tests/dns_behaviour/measure_sizes.py"
    lines += [f'source = "{source}: EDNS 1232 with DO, without DO, and without EDNS"']
    weights = "a choice: mostly addresses, some names and types that do not exist"
    lines += [f'weights = "{weights}"', ""]
    for choice in choices:
        lines += ["[[choices]]"]
        lines += [f"{key} = {literal(value)}" for key, value in choice.items()]
        lines += [""]
    return "\n".join(lines).rstrip() + "\n"


def literal(value: object) -> str:
    """A value as TOML text."""
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{key} = {literal(item)}' for key, item in value.items())} }}"
    return json.dumps(value)


TITLES = {"nsd": "NSD", "knot": "Knot DNS"}


def main() -> None:
    """Writes the profiles."""
    with tempfile.TemporaryDirectory(prefix="nrw-dns-") as folder:
        for name, measurement in measured(Path(folder)).items():
            (FOLDER / f"{name}.toml").write_text(toml(*measurement))


if __name__ == "__main__":
    main()

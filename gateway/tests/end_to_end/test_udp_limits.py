"""What the server's own limit for UDP replies costs, whether `check` says so, and the remedy."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from . import gateway, servers, zones
from .clients import ask, ask_udp, query
from .conftest import Lab, laboratory

LONG = zones.size_name(2000)
"""A name whose reply has more than the 1232 bytes that most servers send over UDP, but less than
4096."""

FILES = {
    "nsd": "nsd.conf",
    "bind": "named.conf",
    "knot": "knot.conf",
    "unbound": "unbound.conf",
    "powerdns": "pdns.conf",
}
LIMITS = {
    "nsd": r" +ipv[46]-edns-size: (\d+)\n",
    "knot": r" +udp-max-payload: (\d+)\n",
    "unbound": r" +max-udp-size: (\d+)\n",
    "powerdns": r"udp-truncation-threshold=(\d+)\n",
}
"""The lines in the tests' settings that raise the limit; BIND has none."""
NAMES = {"nsd": "ipv4-edns-size", "knot": "udp-max-payload", "powerdns": "udp-truncation-threshold"}
"""The settings of servers whose EDNS states the size that they really send."""


def limited(
    kind: str, size: int | None, folder: Path, files: dict[str, Path], addresses: Sequence[str]
) -> list[str]:
    """The server's configuration with this limit, or with the default of its package."""
    words = servers.CONFIGURE[kind](folder, files, addresses)
    config = folder / FILES[kind]
    text = config.read_text().replace("version-string=anonymous\n", "")
    if kind == "bind":
        ours = "" if size is None else f"  max-udp-size {size};\n"
        text = text.replace("  recursion no;", f"{ours}  recursion no;")
    elif size is None:
        text = re.sub(LIMITS[kind], "", text)
    else:
        text = re.sub(LIMITS[kind], lambda line: line[0].replace(line[1], str(size)), text)
    config.write_text(text)
    return words


def checked(lab: Lab, kind: str, *words: str) -> tuple[list[str], dict[str, Any]]:
    """The warnings of `check` about the server's replies over UDP, and its findings."""
    ours = [str(gateway.program()), "check", "--json", "--interface", lab.network.server_link]
    for version in (4, 6):
        ours += ["--server", lab.address(kind, "gateway", version)]
    found = json.loads(lab.network.server.run(*ours, *words))
    (facts,) = found["facts"]["replies_over_udp"]
    assert len(facts["servers"]) == 2
    return [text for text in found["warnings"] if "over UDP" in text], facts


@pytest.mark.parametrize("kind", servers.PROGRAMS)
def test_check_warns_of_a_low_limit(tmp_path: Path, kind: str) -> None:
    """With the package's own settings, and then with the limit at 4096 bytes."""
    if gateway.program() is None:
        pytest.skip(gateway.absent())
    ask_for = ("--long-reply", f"{LONG} TXT")
    message = query(LONG, edns=4096, dnssec=True)
    # Unbound 1.17 sends 4096 bytes by default.
    sends = kind == "unbound"
    configure = functools.partial(limited, kind, 1232 if sends else None)
    with laboratory(tmp_path / "low", (kind,), configure=configure) as lab:
        (warning,), facts = checked(lab, kind)
        assert facts["software"].lower() == kind
        assert facts["edns_size"] == 1232
        if kind in NAMES:
            assert "sends at most 1232 bytes" in warning
            assert NAMES[kind] in warning
        else:
            assert "max-udp-size" in warning
            assert "--long-reply" in warning
        assert 'truncate_over = "1232 B"' in warning
        assert facts["long_reply"] is None
        (warning,), facts = checked(lab, kind, *ask_for)
        assert f"truncates its reply to {LONG} TXT" in warning
        over_tcp = len(ask(lab.network.client, lab.address(kind, "kernel"), message))
        assert facts["long_reply"] == {"bytes": over_tcp, "truncated": True}
        (warning,), facts = checked(lab, kind, "--long-reply", "nowhere.example TXT")
        assert "nowhere.example" in warning
        assert facts["long_reply"]["bytes"] is None
    configure = functools.partial(limited, kind, 4096)
    with laboratory(tmp_path / "high", (kind,), configure=configure) as lab:
        warnings, facts = checked(lab, kind, *ask_for)
        assert warnings == []
        assert facts["long_reply"] == {"bytes": over_tcp, "truncated": False}
        # BIND and Unbound state another size than they send.
        assert len(checked(lab, kind)[0]) == (0 if kind in NAMES else 1)


def test_long_replies_and_the_limit(tmp_path: Path) -> None:
    """Each costs a query over UDP and the kernel's TCP, until the limit is raised."""
    if gateway.program() is None:
        pytest.skip(gateway.absent())
    message = query(LONG, edns=1232)
    configure = functools.partial(limited, "nsd", None)
    with laboratory(tmp_path / "low", ("nsd",), configure=configure) as lab:
        address = lab.address("nsd", "gateway")
        before = lab.servers["nsd"].queries()
        for _ in range(4):
            assert len(ask(lab.network.client, address, message)) > 2000
        counted = {name: lab.counter(name) for name in ("query", "to_kernel_refused", "adopted")}
        assert counted == {"query": 4, "to_kernel_refused": 4, "adopted": 4}
        # The name is not remembered, so the server is asked twice each time.
        assert lab.counter("to_kernel_large") == 0
        assert lab.servers["nsd"].queries() - before == 8
        assert lab.gateway is not None
        status = lab.gateway.command("status", "--interface", lab.gateway.link)
        (line,) = (line for line in status.splitlines() if line.startswith("to_kernel_refused"))
        assert "too long for UDP" in line
    configure = functools.partial(limited, "nsd", 4096)
    options = ("--truncate-over", "1232 B")
    with laboratory(tmp_path / "high", ("nsd",), configure=configure, options=options) as lab:
        address = lab.address("nsd", "gateway")
        before = lab.servers["nsd"].queries()
        for _ in range(4):
            assert len(ask(lab.network.client, address, message)) > 2000
        assert (lab.counter("reply_segmented"), lab.counter("adopted")) == (4, 0)
        assert lab.servers["nsd"].queries() - before == 4
        reply = ask_udp(lab.network.client, address, query(LONG, edns=4096))
        assert reply is not None
        assert reply[2] & 2, "UDP clients get TC as before"
        assert len(reply) <= 1232

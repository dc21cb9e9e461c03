"""Over TLS and HTTPS the simulator sends what real servers and clients were captured to send.

The tests compare segments with data, SYNs and FINs, up to the client's FIN of each connection: who
sends them, how long they are, and after how many round trips. Bare acknowledgements depend on how
long a program computes before it writes. What a server sends after the client has closed is reset
by the client's kernel.

What dnsdist writes over HTTPS depends on the time in two ways, which `settled` removes: it
acknowledges the client's SETTINGS together with its own or in a separate record, and a reply is 23
bytes longer if its `date` differs from the last one on the connection.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from narrows import Scenario, run

from . import capture
from .test_simulated import BASE

Rows = list[dict[str, Any]]

SERVERS = ("bind", "dnsdist", "nsd", "unbound")
CERTIFICATES = {False: ["1010 B", "1271 B"], True: ["1010 B", "1271 B", "1010 B", "1271 B"]}
"""The lengths of the chains in certificates/, by `long_chain`."""
KDIG = 'transport.kind = "tls"\nprofile = "kdig"\nqueries = 1\n'
KEYS = {
    "tls": KDIG,
    "tls-chain": KDIG,
    "tls-large": KDIG,
    "tls-kept": KDIG.replace("1", "3") + "transport.reuse = true\ntransport.queries = 3\n",
    "https": KDIG.replace("tls", "https"),
    "https-kept": KDIG.replace("tls", "https").replace("1", "3")
    + "transport.reuse = true\ntransport.queries = 3\n",
    "tls-dig": 'transport.kind = "tls"\nprofile = "dig"\nqueries = 1\n',
    "tls-resumed": 'transport.kind = "tls"\nqueries = 2\ntransport.tls = { resume = true }\n',
}
"""The keys of each exchange in the scenario language."""
REPLIES = {"nsd": 183, "dnsdist": 183, "bind": 59, "unbound": 183}
"""Bytes of a DNS reply with an address; Unbound pads them."""
LARGE = {"nsd": 3203, "dnsdist": 3203, "bind": 3079, "unbound": 3203}
COOKIES = {"bind-tls-dig": 4 + 8 + 16}
"""The option of DNS cookies in a reply (RFC 7873); NSD leaves out what dig sent."""

CHANGE_CIPHER_SPEC = 6
"""GnuTLS sends this record when it has ServerHello, the simulator with Finished."""

SETTINGS = {"apart": (52, 35), "together": 65}
"""dnsdist's SETTINGS, and its acknowledgement of the client's."""
DATE = 23
REPLY_AGAIN = 236
"""dnsdist's later replies to `https-kept`, without a new `date`."""

TABLES = sorted(
    path for path in capture.FOLDER.glob("*.json") if path.stem.split("-", 1)[-1] in KEYS
)


def scenario(path: Path) -> Scenario:
    """The exchange in the language."""
    server, exchange = path.stem.split("-", 1)
    reply = (LARGE if exchange == "tls-large" else REPLIES)[server] + COOKIES.get(path.stem, 0)
    if exchange in ("tls-kept", "https-kept", "tls-resumed"):
        # Names of one letter more, twice in the reply.
        reply += 2
    query = 55 if exchange == "tls-dig" else 47
    chain = json.dumps(CERTIFICATES[exchange == "tls-chain"])
    answers = f'profile = "{server}", tls = {{ certificates = {chain}, key = "rsa-2048" }}'
    # Like BIND, dig sends no longer segments (TCP_MAXSEG 1220).
    mss = "mss = 1220" if "bind" in path.stem or "dig" in exchange else ""
    text = BASE + KEYS[exchange]
    text += f'messages = [{{ query = "{query} B", reply = "{reply} B" }}]\n'
    return Scenario.parse(text + f"answers = {{ {answers} }}\ntransport.tcp = {{ {mss} }}\n")


def simulated(path: Path, folder: Path) -> Rows:
    """The packets at the client's end of the line."""
    run(scenario(path), out=folder / "run")
    return capture.sequence(capture.recorded(folder / "run"))


def essence(rows: Rows) -> Rows:
    """The rows that are compared."""
    kept, over = [], set()
    for row in rows:
        kind = row["kind"].replace("P", "").replace(".", "")
        if row["flow"] in over or not (row["payload"] or kind):
            continue
        if row["from"] == "client" and "F" in kind:
            over.add(row["flow"])
        kept.append(row | {"kind": kind})
    return kept


def settled(rows: Rows) -> Rows:
    """The rows as dnsdist would have written them at a fixed time."""
    own, acknowledgement = SETTINGS["apart"]
    kept: Rows = []
    for row in rows:
        if row["from"] == "server" and row["payload"] == REPLY_AGAIN + DATE:
            row = row | {"payload": REPLY_AGAIN}
        elif row["payload"] == acknowledgement and kept[-1]["payload"] == own:
            row = kept.pop() | {"payload": SETTINGS["together"]}
        kept.append(row)
    return kept


def ways(rows: Rows) -> dict[tuple[int, str], Rows]:
    """What each end of each connection sent, in order."""
    sent: dict[tuple[int, str], Rows] = {}
    for row in settled(essence(rows)):
        sent.setdefault((row["flow"], row["from"]), []).append(row)
    return sent


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
def test_segments_are_as_captured(path: Path, tmp_path: Path) -> None:
    rows: Rows = json.loads(path.read_text())["packets"]
    ours, real = (ways(each) for each in (simulated(path, tmp_path), rows))
    assert ours.keys() == real.keys()
    for way, sent in ours.items():
        told = [[(row["kind"], row["payload"]) for row in each] for each in (sent, real[way])]
        assert told[0] == told[1], way
        # By how much the real one is later; computing adds less than a round trip would.
        pairs = zip(real[way], sent, strict=True)
        late = [
            one["at"] - other["at"]
            for one, other in pairs
            if other["payload"] != CHANGE_CIPHER_SPEC
        ]
        for before, after in itertools.pairwise(late):
            assert abs(after - before) < 0.8, (way, late)

"""Over QUIC the simulator sends the datagrams that kdig and Knot DNS were captured to send.

QUIC encrypts, so only lengths and times are compared, for each end's datagrams in their order. Two
kinds of datagrams are left out. The simulator does not send kdig's probes of the path, which are
longer than any datagram with data, or the connection IDs that it offers in a separate datagram. The
number of datagrams with only acknowledgements or a close depends on how busy the machine was.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from narrows import Scenario, run

from . import capture
from .test_simulated import BASE

Rows = list[dict[str, Any]]

TABLES = sorted(capture.FOLDER.glob("knot-quic*.json"))
CERTIFICATE = 366
"""The certificate of Knot's own ECDSA key; its Certificate message has 379 bytes."""
KEYS = {
    "quic": "queries = 1\n",
    "quic-large": "queries = 1\n",
    "quic-kept": "queries = 3\ntransport.reuse = true\ntransport.queries = 3\n",
}
REPLIES = {"quic": 183, "quic-large": 3079, "quic-kept": 185}
"""Bytes of DNS; Knot pads them to a multiple of 468."""
LEAST, MOST = 100, 1200
"""Shorter datagrams acknowledge, close, or offer connection IDs; longer ones probe the path."""
CLOSE = 8
"""Bytes of an acknowledgement more or less in the same packet, or of another delay in one."""


def scenario(exchange: str) -> Scenario:
    """The exchange in the language."""
    text = BASE + f'transport.kind = "quic"\nprofile = "kdig"\n{KEYS[exchange]}'
    text += f'messages = [{{ query = "47 B", reply = "{REPLIES[exchange]} B" }}]\n'
    tls = f'certificates = ["{CERTIFICATE} B"], key = "ecdsa-p256"'
    return Scenario.parse(text + f'answers = {{ profile = "knot", tls = {{ {tls} }} }}\n')


def simulated(exchange: str, folder: Path) -> Rows:
    """The datagrams at the client's end of the line."""
    run(scenario(exchange), out=folder / "run")
    return capture.sequence(capture.recorded(folder / "run"))


def ways(rows: Rows) -> dict[str, Rows]:
    """The datagrams of each end that are compared."""
    kept = [row for row in rows if LEAST <= row["payload"] <= MOST]
    return {end: [row for row in kept if row["from"] == end] for end in ("client", "server")}


def is_among(expected: Rows, found: Rows) -> bool:
    """Whether `found` has a datagram of about the same length for each expected one, in order."""
    rest = iter(row["payload"] for row in found)
    return all(any(abs(row["payload"] - other) <= CLOSE for other in rest) for row in expected)


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
def test_datagrams_are_as_captured(path: Path, tmp_path: Path) -> None:
    rows: Rows = json.loads(path.read_text())["packets"]
    ours, real = (ways(each) for each in (simulated(path.stem[5:], tmp_path), rows))
    for end in ("client", "server"):
        lengths = [[row["payload"] for row in each[end]] for each in (ours, real)]
        assert len(lengths[0]) == len(lengths[1]), (end, lengths)
        for one, other in zip(*lengths, strict=True):
            assert abs(one - other) <= CLOSE, (end, lengths)


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
def test_who_waits_for_whom(path: Path, tmp_path: Path) -> None:
    """The ends take turns as in the capture, and so take as many round trips."""
    rows: Rows = json.loads(path.read_text())["packets"]

    def turns(rows: Rows) -> list[str]:
        """The sender, each time that the sender changes."""
        senders = [row["from"] for row in rows if LEAST <= row["payload"] <= MOST]
        return [end for place, end in enumerate(senders) if senders[place - 1 : place] != [end]]

    expected = turns(rows)
    assert turns(simulated(path.stem[5:], tmp_path)) == expected
    # A round trip for the handshake, one for its confirmation, one for each query.
    assert expected.count("server") == 2 + path.stem.count("kept") * 2 + 1


def test_kdig_waits_for_the_confirmation(tmp_path: Path) -> None:
    """Its first query follows the server's second flight, though it could go with Finished."""
    captured: Rows = json.loads((capture.FOLDER / "knot-quic.json").read_text())["packets"]
    for rows in (captured, simulated("quic", tmp_path)):
        sent = ways(rows)
        assert sent["client"][2]["at"] - sent["client"][1]["at"] > 0.9
        assert sent["client"][2]["at"] >= sent["server"][1]["at"]

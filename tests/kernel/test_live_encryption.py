"""Encrypted plans that the language makes by default, in narrows-live and in the simulator."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from narrows import Run, Scenario, _core, run
from narrows.backends.kernel import live
from narrows.backends.kernel.inside.agent.live import TABLES
from tests.kernel.own_servers import attempts, own_servers

_EARLY = "tls = { resume = true, early_data = true }"
# Tickets arrive before a reply that takes so long.
_ANSWERS = 'answers.tls = { early_data = true, service = "20 ms" }'
_USES = {
    "new": ("", ""),
    "kept": ("reuse = true", ""),
    "resumed": ("tls = { resume = true }", ""),
    "early data": (_EARLY, _ANSWERS),
    "RSA": ("", 'answers.tls = { certificates = "google-rsa" }'),
    "slow server": ("", 'answers.tls = { handshake_service = "30 ms" }'),
    "no tickets": ("", "answers.tls = { tickets = 0 }"),
}
_PROGRAMS = {
    "tls": 'profile = "kdig"\nanswers.profile = "nsd"',
    "https": 'profile = "dig"\nanswers.profile = "bind"',
    "quic": 'profile = "kdig"\nanswers.profile = "knot"',
}


def _dns(kind: str, keys: str, answers: str) -> str:
    transport = f'kind = "{kind}", {keys}' if keys else f'kind = "{kind}"'
    return f"[[dns]]\nworkers = 1\nqueries = 5\ntransport = {{ {transport} }}\n{answers}"


def _page(kind: str, keys: str) -> str:
    objects = (
        '[{ name = "page", size = "20 kB" }, { name = "icon", size = "900 B", after = ["page"] }]'
    )
    page = f'[[traffic]]\nkind = "page"\nloads = 3\nobjects = {objects}'
    return f'{page}\ntransport = "{kind}"\ntls = {{ {keys} }}'


GROUPS = {
    f"{kind}: {name}": _dns(kind, *keys)
    for kind in ("tls", "https", "quic")
    for name, keys in (_USES | {"programs": ("", _PROGRAMS[kind])}).items()
} | {
    f"page over {kind}: {name}": _page(kind, keys)
    for kind in ("tls", "quic")
    for name, keys in {
        "new": "",
        "resumed": "resume = true",
        "early data": "resume = true, early_data = true",
    }.items()
}
"""Groups with what the language gives them: only what is written here is not the default."""

COMPARED = {
    "queries": ("worker", "index", "attempt", "attempts"),
    "attempts": ("query", "attempt", "fate", "transport", "reused", "handshake_round_trips"),
    "pages": ("browser", "load", "failed", "bytes", "connections"),
    "objects": ("browser", "load", "object", "bytes"),
}


HEADERS = 52
"""IPv4 and TCP with timestamps."""


ON_A_PATH = {
    f"{kind}-{name}": f'transport.kind = "{kind}"\nqueries = 3\n{keys}'
    for kind in ("tls", "https", "quic")
    for name, keys in {
        "new": 'answers.tls = { certificates = "google-rsa" }',
        "resumed": "transport.tls = { resume = true }",
        "early": "transport.tls = { resume = true, early_data = true }\n"
        "answers.tls = { early_data = true }",
        "kept": "transport.reuse = true",
        "slow": 'answers.tls = { handshake_service = "30 ms", tickets = 0 }',
    }.items()
}


@pytest.fixture(scope="module")
def on_a_path(guest: str) -> tuple[Run, Run]:
    """Groups on a guest's kernel, as narrows-live plays them, and in the simulator."""
    found = own_servers('name = "encrypted"\nduration = "30 s"\nend = "dns"', ON_A_PATH)
    return run(found, backend=guest), run(found)


@pytest.mark.slow
@pytest.mark.parametrize("name", ON_A_PATH)
def test_attempts_on_a_path_are_the_simulators(on_a_path: tuple[Run, Run], name: str) -> None:
    # The very first packets wait until ARP has resolved the neighbour.
    kernel, simulated = (attempts(result, name).filter(pl.col("index") > 0) for result in on_a_path)
    columns = ["transport", "fate", "reused", "handshake_round_trips"]
    assert kernel.select(columns).rows() == simulated.select(columns).rows()
    for column in ("handshake_ms", "response_ms"):
        times = [
            rows.with_columns(response_ms=1e3 * (pl.col("received_s") - pl.col("sent_s")))
            .get_column(column)
            .to_list()
            for rows in (kernel, simulated)
        ]
        assert times[0] == pytest.approx(times[1], abs=0.5)


def scenario(keys: str) -> Scenario:
    end = 'end = "dns"' if keys.startswith("[[dns]]") else ""
    return Scenario.parse(f"""
name = "encrypted"
duration = "3 s"
{end}

[[links]]
name = "wire"
between = ["client", "server"]
rate = "1 Gbit/s"

{keys}
name = "group"
client = "client"
server = "server"
""")


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(GROUPS)), ids=[*GROUPS])
def test_rows_are_the_simulators(number: int, tmp_path: Path) -> None:
    plan = scenario([*GROUPS.values()][number]).plan(1)
    simulation = _core.Simulation(json.dumps(plan))
    while not simulation.advance(1_000_000):
        pass
    expected = simulation.tables()
    found = play(plan, number, tmp_path)
    compared = 0
    for table, columns in COMPARED.items():
        for column in columns:
            if table in found:
                values = list(found[table][column])
                assert values == list(expected[table][column]), f"{table}.{column}"
                compared += len(values)
    assert compared
    name = [*GROUPS][number]
    if name.startswith(("tls", "https")) and not name.endswith("kept"):
        # On a busy machine, TCP sometimes repeats a segment.
        again = (play(plan, number, tmp_path) for _ in range(3))
        assert payloads(expected) in map(payloads, chain([found], again))


def payloads(tables: Mapping[str, Mapping[str, Any]]) -> list[list[int]]:
    """What each end put into TCP's streams, and the options of SYNs, by attempt.

    The last connection may still be open.
    """
    attempts = tables["attempts"]
    return [
        [
            int(size) - HEADERS * int(count)
            for size, count in zip(
                attempts[f"bytes_{direction}"], attempts[f"packets_{direction}"], strict=True
            )
        ][:-1]
        for direction in ("sent", "received")
    ]


def play(plan: Mapping[str, Any], number: int, folder: Path) -> dict[str, dict[str, Any]]:
    """The tables of a plan over the loopback device."""
    places = {
        node: {"address": f"127.78.{number}.{1 + place}"}
        for place, node in enumerate(plan["nodes"])
    }
    job = live.give(plan, places, (), folder)
    words = [job["program"], job["plan"], "--places", job["places"], "--prepared", "--out", TABLES]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=60)
    if "Permission denied" in done.stderr:
        pytest.skip("no ports below 1024 (SKIP: run as root)")
    assert (done.returncode, done.stderr) == (0, "")
    return live.tables(folder)

"""`check --deep`: real connections, and what is said where they fail."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from . import gateway
from .conftest import Lab, laboratory
from .test_firewalls import STRICT, rule

NO_UDP = """
table inet filter {
  chain input {
    type filter hook input priority 0;
    ip saddr 198.18.0.0/15 udp dport 53 drop
    ip6 saddr 2001:2::/48 udp dport 53 drop
  }
}
"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A network with NSD and a running gateway, beside which is checked."""
    if gateway.program() is None:
        pytest.skip(gateway.absent())
    with laboratory(tmp_path_factory.mktemp("deep") / "lab", ("nsd",)) as made:
        yield made


def deep(lab: Lab, *kinds: str) -> dict[str, Any]:
    """What it says of servers, over both versions of IP; nothing is left of it."""
    words = ["check", "--deep", "--json", "--interface", lab.network.server_link]
    for kind in kinds:
        for version in (4, 6):
            words += ["--server", lab.address(kind, "gateway", version)]
    before = lab.network.server.run("ip", "-j", "address"), pins()
    said = lab.network.server.run(str(gateway.program()), *words, check=False)
    after = lab.network.server.run("ip", "-j", "address"), pins()
    assert (interfaces(before[0]), before[1]) == (interfaces(after[0]), after[1])
    found = json.loads(said)
    assert isinstance(found, dict)
    return found


def interfaces(said: str) -> list[str]:
    """The names of a namespace's interfaces."""
    return [one["ifname"] for one in json.loads(said) if "ifname" in one]


def pins() -> list[str]:
    """Where gateways have their maps."""
    return sorted(path.name for path in Path("/sys/fs/bpf/narrows-gateway").iterdir())


def test_where_all_is_well(lab: Lab) -> None:
    found = deep(lab, "nsd", "unruly")
    assert found["problems"] == []
    assert len(found["facts"]["deep_check"]) == 4
    assert found["mode"] == "native"


@pytest.mark.parametrize(
    ("rules", "step", "hint"),
    [
        (STRICT, None, None),
        (STRICT.replace("tcp dport 53 ct state new accept", ""), "a second query", "about TCP"),
        (
            NO_UDP,
            "a first query",
            "about UDP",
        ),
    ],
    ids=["strict", "no-tcp", "no-udp"],
)
def test_behind_a_packet_filter(lab: Lab, rules: str, step: str | None, hint: str | None) -> None:
    rule(lab.network.server, rules)
    try:
        problems = deep(lab, "nsd")["problems"]
    finally:
        lab.network.server.run("nft", "delete table inet filter")
    assert len(problems) == (0 if step is None else 2), problems
    for problem in problems:
        assert step is not None
        assert hint is not None
        assert step in problem
        assert hint in problem


def test_a_server_without_tcp(lab: Lab) -> None:
    problems = deep(lab, "no-tcp")["problems"]
    assert len(problems) == 2
    assert all("the kernel did not take the connection over" in problem for problem in problems)

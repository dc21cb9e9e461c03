"""`check --deep`, alone and within `run`: real connections, and what is reported if they fail."""

from __future__ import annotations

import json
import signal
import time
import urllib.request
from collections.abc import Callable, Iterator
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
    """A network with NSD and a running gateway, beside which the checks run."""
    if gateway.program() is None:
        pytest.skip(gateway.absent())
    options = ("--check-every", "1 s", "--metrics", "127.0.0.1:9053")
    folder = tmp_path_factory.mktemp("deep") / "lab"
    with laboratory(folder, ("nsd",), options=options) as made:
        yield made


def checks(lab: Lab, wanted: Callable[[dict[str, str | None]], bool]) -> dict[str, str | None]:
    """What `run` reports about each server address, once it is as wanted."""
    assert lab.gateway is not None
    found: dict[str, str | None] = {}
    for _ in range(600):
        words = ("--json", "--interface", lab.gateway.link, "--interval", "0 s")
        status = json.loads(lab.gateway.command("status", *words))
        found = {one["server"]: one["failed"] for one in status["checks"]}
        if len(found) == 6 and wanted(found):
            return found
        time.sleep(0.1)
    raise AssertionError(f"not as wanted in a minute: {found}")


def own(lab: Lab) -> tuple[list[str], list[str]]:
    """The interfaces and pins of the client that `run` keeps for its checks."""
    links = interfaces(lab.network.server.run("ip", "-j", "address"))
    return (
        [name for name in links if name.startswith("nrwself")],
        [name for name in pins() if name.startswith("nrwself")],
    )


def wait_until_gone(lab: Lab) -> None:
    """A namespace without processes disappears a little later."""
    for _ in range(600):
        if not own(lab)[0]:
            return
        time.sleep(0.1)
    raise AssertionError(f"{own(lab)} after a minute")


def deep(lab: Lab, *kinds: str) -> dict[str, Any]:
    """What `check --deep` reports about servers, over IPv4 and IPv6. It leaves nothing behind."""
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
    return sorted(path.name for path in Path("/sys/fs/bpf/narrows-gateway").glob("*"))


def test_where_all_is_well(lab: Lab) -> None:
    found = deep(lab, "nsd", "unruly")
    assert found["problems"] == []
    assert len(found["facts"]["deep_check"]) == 4
    assert found["mode"] == "native"


@pytest.mark.parametrize(
    ("rules", "step", "hint"),
    [
        (STRICT, None, None),
        (
            STRICT.replace("tcp dport 53 ct state new accept", ""),
            "many queries at once",
            "about TCP",
        ),
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


def test_run_checks_by_itself(lab: Lab) -> None:
    without = {f"{lab.address('no-tcp', 'gateway')}:53"}
    without.add(f"[{lab.address('no-tcp', 'gateway', 6)}]:53")
    why = "the kernel did not take the connection over"

    def as_it_is(found: dict[str, str | None]) -> bool:
        # Packet filters of other tests may still be there for a moment.
        failed = {server: words for server, words in found.items() if words is not None}
        return failed.keys() == without and all(why in words for words in failed.values())

    checks(lab, as_it_is)
    with (
        lab.network.server.inside(),
        urllib.request.urlopen("http://127.0.0.1:9053/metrics", timeout=10) as reply,
    ):
        scrape = reply.read().decode().splitlines()
    failed = [line for line in scrape if line.startswith("narrows_gateway_check_failed{")]
    assert sorted(line.rsplit(" ", 1)[1] for line in failed) == list("000011")
    assert sum(line.startswith("narrows_gateway_checked_at_seconds{") for line in scrape) == 6


def test_run_notices_a_packet_filter_and_its_end(lab: Lab) -> None:
    nsd = f"{lab.address('nsd', 'gateway')}:53"
    assert checks(lab, lambda found: found[nsd] is None)
    rule(lab.network.server, NO_UDP)
    try:
        found = checks(lab, lambda found: found[nsd] is not None)
        assert "a first query" in str(found[nsd])
    finally:
        lab.network.server.run("nft", "delete table inet filter")
    assert checks(lab, lambda found: found[nsd] is None)


def test_run_leaves_no_client_behind(lab: Lab) -> None:
    running = lab.gateway
    assert running is not None
    links, pinned = own(lab)
    assert (len(links), len(pinned)) == (1, 1)
    # The programs stay and serve; the client goes.
    running.end(signal.SIGUSR2)
    wait_until_gone(lab)
    assert own(lab) == ([], [])
    running.process = gateway.start(running.space, running.words, running.folder)
    assert own(lab) == (links, pinned)
    # The next run removes what survives a kill, with or without checks of its own.
    running.restart(signal.SIGKILL)
    assert own(lab) == (links, pinned)
    assert checks(lab, lambda found: None in found.values())
    running.end(signal.SIGKILL)
    words = ["0 s" if word == "1 s" else word for word in running.words]
    running.process = gateway.start(running.space, words, running.folder)
    assert own(lab) == ([], [])
    status = running.command("status", "--json", "--interface", running.link, "--interval", "0 s")
    assert json.loads(status)["checks"] == []
    running.end()
    running.process = gateway.start(running.space, running.words, running.folder)
    assert own(lab) == (links, pinned)
    running.end()
    wait_until_gone(lab)
    assert own(lab) == ([], [])
    running.process = gateway.start(running.space, running.words, running.folder)

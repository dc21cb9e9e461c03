"""Real DNS servers on a real kernel, with replies as long as a scenario asks for."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from narrows import Run, Scenario, run
from narrows.backends import BackendError, get
from narrows.backends.kernel import software
from narrows.errors import ScenarioError
from narrows.testbed.needs import PATH
from narrows.testbed.software import SOFTWARE, Setup
from tests.kernel.scenarios import dumbbell

NAMES = sorted(SOFTWARE)
NSD = {"name": "nsd", "settings": {}, "threads": 1}


def scenario(**keys: str) -> Scenario:
    """A server of each kind; each answers over UDP, and over TCP what UDP does not hold."""
    text = """
name = "servers"
duration = "30 s"
end = "dns"
"""
    for name in NAMES:
        text += f"""
[[links]]
name = "{name}"
between = ["stub", "{name}"]
rate = "10 Mbit/s"
delay = "10 ms"

[[dns]]
name = "{name}"
client = "stub"
server = "{name}"
queries = 8
transport = {{ kind = "udp", retry = ["2 s", "2 s"] }}
messages = [{{ query = "60 B", reply = "200 B" }}, {{ query = "60 B", reply = "3000 B" }}]
answers.software = "{name}"
{keys.get(name, "")}
"""
    return Scenario.parse(text)


@pytest.fixture(scope="module")
def result(guest: str) -> Run:
    missing = [name for name in NAMES if not shutil.which(SOFTWARE[name].program, path=PATH)]
    if missing:
        pytest.skip(f"{missing[0]} is not installed (SKIP: sh tools/install_test_tools.sh)")
    return run(scenario(bind="answers.connections = 77"), backend=guest)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_replies_have_the_lengths_of_the_scenario(result: Run, name: str) -> None:
    """RFC 6891, 6.2.5: the servers send 1232 bytes over UDP, Unbound 4096 (docs/dns-servers.md)."""
    rows = result.attempts.join(
        result.queries.filter(pl.col("group") == name).select("query"), on="query"
    )
    over_udp = rows.filter(pl.col("transport") == "udp")
    lengths = set(over_udp.filter(pl.col("fate") == "answered").get_column("bytes_received"))
    # 3000 bytes are three fragments, with 20 bytes of IP each.
    assert lengths == ({228, 3000 + 8 + 3 * 20} if name == "unbound" else {228})
    cut = over_udp.filter(pl.col("fate") == "truncated")
    # Like the query, it has header, question and OPT record: 60 bytes, and 28 for IP and UDP.
    assert set(cut.get_column("bytes_received")) == (set() if name == "unbound" else {88})
    over_tcp = rows.filter(pl.col("transport") == "tcp")
    assert over_tcp.height == cut.height
    assert set(over_tcp.get_column("fate")) == (set() if name == "unbound" else {"answered"})
    # A TCP connection carries length and reply, and 52 bytes per segment, 60 for the SYN.
    carried = over_tcp.get_column("bytes_received") - 52 * over_tcp.get_column("packets_received")
    assert set(carried) == (set() if name == "unbound" else {3002 + 8})
    assert result.queries.filter(pl.col("attempt") == 0).is_empty()


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_versions_settings_and_logs_are_kept(result: Run, name: str) -> None:
    found = result.host["kernel"]["servers"][name]
    assert found["version"].startswith(SOFTWARE[name].program)
    assert found["log"]
    if name == "bind":
        assert found["settings"]["tcp-clients"] == "77"


def test_a_server_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("narrows.testbed.software.PATH", "/nowhere")
    servers: list[dict[str, Any]] = [{"software": {**NSD}, "addresses": [], "tls": None}]
    with pytest.raises(BackendError, match=r"^nsd is not installed; hint: apt-get install nsd$"):
        software.complete(servers)


def test_a_server_that_hangs_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "nsd"
    program.write_text("#!/bin/sh\nexec sleep 600\n")
    program.chmod(0o755)
    monkeypatch.setattr("narrows.testbed.software.PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr("narrows.testbed.software._VERSION_S", 0.2)
    servers: list[dict[str, Any]] = [
        {"software": {**NSD}, "addresses": [], "exchanges": [], "tls": None}
    ]
    with pytest.raises(BackendError, match=r"^nsd -v printed nothing for 0.2 s; hint: "):
        software.complete(servers)


REFUSED = {
    "dns.nsd.answers.first_query_timeout": "answers.first_query_timeout = '5 s'",
    "dns.nsd.answers.idle_timeout": "answers.idle_timeout = '1500 ms'",
    "dns.nsd.answers.in_order": "answers.in_order = true",
    "dns.nsd.service": "service = '1 ms'",
}


@pytest.mark.parametrize("key", REFUSED)
def test_what_a_server_has_no_setting_for_is_refused_by_name(key: str) -> None:
    refused = get("kernel").refusals(scenario(nsd=REFUSED[key]))
    assert [each.key for each in refused] == [key]


@pytest.mark.parametrize(
    ("name", "line"),
    {
        # named(8), nsd.conf(5), knot.conf(5), unbound.conf(5).
        "bind": "named -g -n 3 -c",
        "nsd": "server-count: 3",
        "knot": "udp-workers: 3",
        "unbound": "num-threads: 3",
    }.items(),
)
def test_servers_have_the_threads_of_the_scenario(name: str, line: str) -> None:
    chosen = software.named(scenario(**{name: "answers.threads = 3"}))[name]
    assert chosen.threads == 3 and "threads" not in chosen.given
    setup = Setup("folder", "zone", ["192.0.2.1"], {}, threads=chosen.threads)
    words = " ".join(SOFTWARE[name].command("folder", chosen.threads))
    assert line in SOFTWARE[name].configure(setup) + words


def test_threads_are_those_of_a_real_server() -> None:
    with pytest.raises(ScenarioError, match=r"answers\.threads: is only for a real server"):
        dumbbell(dns__stubs__answers__threads=2)


def test_the_simulator_takes_the_profile_of_that_name() -> None:
    plain = scenario()
    servers = [
        each["kind"]["dns-server"]
        for each in plain.plan()["applications"]
        if "dns-server" in each["kind"]
    ]
    # docs/dns-servers.md: connections at once.
    limits = dict(zip(NAMES, (each["tcp"]["connections"] for each in servers), strict=True))
    assert (limits["bind"], limits["nsd"], limits["unbound"]) == (150, 100, 10)
    with pytest.raises(ScenarioError, match="software: is another server than knot"):
        scenario(nsd='answers.profile = "knot"')


def test_zones_have_records_of_the_length() -> None:
    """RFC 1035, 3.3: character strings of up to 255 bytes, each with a byte of length."""
    row = {"query": 60, "reply": 400, "payload": 1232, "mark": "", "longest_name": 255}
    (line,) = [line for line in software.zone([row]).splitlines() if " TXT " in line]
    texts = line.partition(" TXT ")[2].split()
    # Header 12, name 33 and 4 bytes of question, 12 of the record, 11 of OPT.
    assert sum(len(text) - 1 for text in texts) == 400 - 12 - 33 - 4 - 12 - 11

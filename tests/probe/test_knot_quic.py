"""DNS over QUIC (RFC 9250) against a packaged server: Knot DNS, whose 3.2 serves it from XDP alone.

So the server needs a device that XDP can hold: two namespaces and a veth pair between them.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from narrows.probe import Plan, Target, probe
from narrows.testbed import missing
from narrows.testbed.namespace import Namespace, ip, namespace

SERVER, CLIENT = "10.77.0.1", "10.77.0.2"
ZONE = """\
. 86400 IN SOA ns. hostmaster. 1 1800 900 604800 86400
. 86400 IN NS ns.
ns. 86400 IN A 10.77.0.1
"""
CONFIG = """\
server:
  rundir: {folder}
  listen: {server}@53
  user: root:root
database:
  storage: {folder}
xdp:
  listen: {device}@53
  udp: on
  quic: on
log:
  - target: stderr
    any: info
zone:
  - domain: .
    file: {folder}/root.zone
"""


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Namespace]:
    """Where the server can be asked from."""
    if reason := missing(["knotd"]):
        pytest.skip(reason)
    with namespace("quic-client") as client, namespace("quic-server") as server:
        # The namespaces' names hold the process's number and their own.
        number = server.name.split("-")[2:4]
        near, far = ("nrwq" + "x".join([*number, end]) for end in "cs")
        pair = ["type", "veth", "peer", "name", far, "netns", server.name]
        ip("link", "add", near, "netns", client.name, *pair)
        for space, name, address in ((client, near, CLIENT), (server, far, SERVER)):
            space.ip("address", "add", f"{address}/24", "dev", name)
            space.ip("link", "set", name, "up")
        (tmp_path / "root.zone").write_text(ZONE)
        config = CONFIG.format(folder=tmp_path, server=SERVER, device=far)
        (tmp_path / "knot.conf").write_text(config)
        with (tmp_path / "log").open("w+b") as log:
            process = server.start(["knotd", "-c", str(tmp_path / "knot.conf")], log)
            try:
                wait_for_server(process, tmp_path / "log")
                yield client
            finally:
                process.terminate()
                process.wait()


def wait_for_server(process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + 30.0
    while b"server started" not in log.read_bytes():
        said = log.read_text(errors="replace")
        if process.poll() is not None and "XDP" in said:
            pytest.skip(f"SKIP: this kernel does not let knotd use XDP: {said.splitlines()[-1]}")
        assert process.poll() is None and time.monotonic() < until, said
        time.sleep(0.05)


def test_knot_answers_over_quic(client: Namespace) -> None:
    target = Target("knot", SERVER)
    plan = Plan((target,), transports=("udp", "quic"), count=3, interval_s=0.2)
    with client.inside():
        found = probe(plan)
    assert found.exchanges["outcome"].to_list() == ["answered"] * 6
    over = found.exchanges.filter(transport="quic")
    assert over["port"].to_list() == [853] * 3
    assert over["rcode"].to_list() == ["NOERROR"] * 3
    assert (over["answers"] == 1).all()
    # The handshake, then the query: RFC 9250, section 4.2, on a stream of its own.
    assert (over["connect_ms"] > 0.0).all()
    assert (over["connect_ms"] + over["query_ms"] <= over["total_ms"] + 0.001).all()
    assert found.findings["verdicts"][0]["transport"] == "quic"
    with client.inside():
        kept = probe(Plan((target,), transports=("quic",), count=3, interval_s=0.2, reuse=True))
    assert kept.exchanges["outcome"].to_list() == ["answered"] * 3
    assert kept.exchanges["reused"].to_list() == [False, True, True]

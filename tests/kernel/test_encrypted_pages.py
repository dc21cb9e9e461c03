"""Pages over TLS and QUIC on a real kernel and in the simulator."""

from __future__ import annotations

import polars as pl
import pytest

from narrows import Run, Scenario, run

pytestmark = pytest.mark.slow

PAGES = {
    "over-tls": 'protocol = "http/2"\ntls = {}',
    "over-quic": 'protocol = "http/3"\ntransport = "quic"',
}


def scenario() -> Scenario:
    """A page over each transport, after a ping that resolves the neighbours."""
    text = """
name = "pages"
duration = "8 s"
links = [
    { name = "wan", between = ["home", "r"], rate = "10 Mbit/s", delay = "10 ms" },
    { name = "web", between = ["r", "web"], rate = "1 Gbit/s" },
]

[[traffic]]
kind = "ping"
name = "first"
pairs = [["home", "web"]]
interval = "1 s"
probes = 1
"""
    for number, (name, keys) in enumerate(PAGES.items()):
        text += f"""
[[traffic]]
kind = "page"
name = "{name}"
client = "home"
server = "web"
start = "{2 + 2 * number} s"
loads = 2
pause = "500 ms"
{keys}
objects = [
    {{ name = "html", size = "20 kB" }},
    {{ name = "image", size = "3 kB", number = 8, after = ["html"] }},
]
"""
    return Scenario.parse(text)


@pytest.fixture(scope="module")
def results(guest: str) -> tuple[Run, Run]:
    """The same on the kernel and in the simulator."""
    found = scenario()
    return run(found, backend=guest), run(found)


@pytest.mark.parametrize("name", PAGES)
def test_pages_are_those_of_the_simulator(results: tuple[Run, Run], name: str) -> None:
    kernel, simulated = (
        result.table("pages").filter(pl.col("group") == name) for result in results
    )
    columns = ["failed", "bytes", "connections"]
    assert kernel.select(columns).rows() == simulated.select(columns).rows()
    took = [(rows["end_s"] - rows["start_s"]).to_list() for rows in (kernel, simulated)]
    assert took[0] == pytest.approx(took[1], rel=0.03)

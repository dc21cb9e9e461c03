"""`narrows size`: it prints a queue of the language, and gives the paper's numbers."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tomllib

import pytest

from narrows import Scenario, run
from narrows.scenario.amounts import DataRate, Duration
from narrows.sizing import size

from .conftest import SMALL, Narrows

PAPER = ("--rate", "10mbit", "--max-delay", "300ms", "--ring", "80")


def test_the_papers_link(narrows: Narrows) -> None:
    done = narrows("size", *PAPER, "--json")
    found = json.loads(done.stdout)
    # Harhalakis 2011, section IV: these three are printed; the thresholds differ by 126 bytes.
    assert found["red"]["limit_bytes"] == 375_000
    assert found["red"]["burst_packets"] == 98
    assert found["fifo"]["limit_bytes"] == 262_500
    assert (
        abs(found["red"]["min_bytes"] - 74_874) == abs(found["red"]["max_bytes"] - 262_374) == 126
    )


_RATE, _QUEUE = 'rate = "2 Mbit/s"\n', 'queue = { kind = "bfifo", limit = "30000 B" }\n'


def _pasted(printed: str) -> Scenario:
    """The small scenario with what `size` prints instead of its link's rate and queue."""
    return Scenario.parse(SMALL.replace(_RATE, "").replace(_QUEUE, printed))


def test_what_it_prints_goes_into_a_scenario(narrows: Narrows) -> None:
    printed = json.loads(narrows("size", *PAPER, "--json").stdout)["toml"]
    given = tomllib.loads(printed)
    assert given["ring"] == {"packets": 80}
    (link,) = _pasted(printed).written()["links"]
    assert {key: link[key] for key in given} == given
    assert "ring" not in size(DataRate("10mbit"), Duration("300ms")).toml()


@pytest.mark.parametrize("ring", [0, 80])
def test_a_full_fifo_and_ring_delay_by_the_targeted_time(ring: int) -> None:
    printed = size(DataRate("10mbit"), Duration("300ms"), ring).toml()
    red = next(line for line in printed.splitlines() if line.startswith("queue"))
    fifo = printed.replace(red, "").replace("# queue", "queue")
    full = {"traffic.background.connections": 40, "dns.start": "5 s", "dns.queries": 20}
    found = run(_pasted(fifo), set={**full, "duration": "15 s"})
    # The targeted 300 ms, and the link's 10 ms each way.
    assert found.summary["dns"]["response_median_ms"] == pytest.approx(320, rel=0.05)


TC = shutil.which("tc", path="/usr/sbin:/sbin:/usr/bin:/bin")
LINKS = [
    ("10mbit", "300ms", 80, 10_000_000),
    ("20 Mbit/s", "40 ms", 0, 20_000_000),
    ("1.544 Mbit/s", "300 ms", 0, 1_544_000),
    ("1 kbit/s", "30 s", 0, 1_000),
    ("100 Gbit/s", "10 ms", 0, None),
    ("1 bit/s", "30000 s", 0, None),
]


@pytest.mark.parametrize(("rate", "delay", "ring", "bits"), LINKS)
def test_tc_rates_have_a_unit_of_tc(rate: str, delay: str, ring: int, bits: int | None) -> None:
    red, _ = size(DataRate(rate), Duration(delay), ring).tc("eth0")
    # tc(8), PARAMETERS, RATES: "bit or a bare number: bits per second", with k, m, g, t before it.
    found = re.search(r" bandwidth ([0-9]+)([kmgt]?)bit$", red)
    assert found is not None, red
    if bits is not None:
        assert int(found[1]) * 1000 ** " kmgt".index(found[2] or " ") == bits


@pytest.mark.skipif(
    os.geteuid() != 0 or TC is None or shutil.which("unshare") is None,
    reason="needs root, tc and unshare (apt-get install iproute2 util-linux)",
)
@pytest.mark.parametrize(("rate", "delay", "ring", "bits"), LINKS)
def test_tc_accepts_what_it_prints(rate: str, delay: str, ring: int, bits: int | None) -> None:
    del bits
    for command in size(DataRate(rate), Duration(delay), ring).tc("lo"):
        done = subprocess.run(
            ["unshare", "--net", str(TC), *command.split()[1:]],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        # A kernel without RED refuses only after tc has understood every word.
        unknown = "Error: Specified qdisc kind is unknown.\n"
        understood = " red " in command and done.stderr.endswith(unknown)
        assert done.returncode == 0 or understood, (command, done.stderr)


def test_the_command_prints_what_tc_accepts(narrows: Narrows) -> None:
    printed = narrows("size", "--rate", "20 Mbit/s", "--max-delay", "40 ms").stdout
    assert size(DataRate("20 Mbit/s"), Duration("40 ms")).tc("eth0")[0] in printed
    assert " bandwidth 20000000bit\n" in printed


@pytest.mark.parametrize(
    ("rate", "delay", "ring", "named"),
    [
        ("10mbit", "100ms", "80", "at least 183 ms"),
        ("10", "300ms", "0", "--rate"),
        ("10mbit", "0 s", "0", "above zero"),
        ("10Gbit/s", "1 h", "0", "a shorter delay"),
        ("10mbit", "1 ms", "65536", "hint: a shorter ring or at least 147.459 s"),
        # 2 (65536 x 1406.25 + 1400) bytes take 17 days at 1 kbit/s, and 46 years at 1 bit/s.
        ("1 kbit/s", "1 ms", "65536", "hint: a shorter ring or a higher rate"),
        ("1 bit/s", "1 ms", "65536", "hint: a shorter ring or a higher rate"),
        ("1 bit/s", "1 ms", "0", "hint: at least 22400.001 s"),
        # tc computes no probability for thresholds 2.125 GB apart.
        ("34 Gbit/s", "1 s", "0", "tc takes 214748364 B; hint: a shorter delay"),
        ("100 Tbit/s", "240 h", "0", "makes 10800000000000000000 B at"),
        ("101 Tbit/s", "1 ms", "0", 'hint: at most "100000 Gbit/s"'),
        ("10mbit", "241 h", "0", 'hint: at most "864000 s"'),
        # 2^64 - 1 and 2^64, and what has even more digits.
        ("18446744073709551615 bit/s", "1 ms", "0", "too large; hint: "),
        ("18446744073709551616 bit/s", "1 ms", "0", "too large; hint: "),
        ("9" * 5000 + " bit/s", "1 ms", "0", '...": is too large; hint: '),
        ("10mbit", "18446744073709551616 ps", "0", "too large; hint: "),
        ("10mbit", "300ms", "18446744073709551616", "--ring"),
    ],
)
def test_what_cannot_be_sized(
    narrows: Narrows, rate: str, delay: str, ring: str, named: str
) -> None:
    done = narrows("size", "--rate", rate, "--max-delay", delay, "--ring", ring)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert named in done.stderr


def test_the_hint_is_enough(narrows: Narrows) -> None:
    assert (
        narrows("size", "--rate", "10mbit", "--max-delay", "183ms", "--ring", "80").returncode == 0
    )

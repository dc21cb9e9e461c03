"""A bad line: whatever is lost, doubled or reordered, each reply comes whole and unchanged."""

from __future__ import annotations

import itertools
import os
import random
import statistics
from collections.abc import Iterator
from pathlib import Path

import pytest

from . import zones
from .clients import ask, query
from .conftest import ARMS, Lab, laboratory
from .crowd import Job, Outcome, ask_all
from .programs import Conditions, Wire

NUMBERS = range(100, 220)
"""Numbers of clients and of the wire's classes: the last byte of an address, IPv4 or IPv6."""
LOSSES = (0.0, 0.01, 0.05, 0.10, 0.25)
SEGMENTS = (536, 1220, 1460, 8960)
SIZES = (60, 300, 1400, 4000, 16000, 60000)
FULL = os.environ.get("NARROWS_GATEWAY_TESTS") == "full"
"""Whether to test what takes minutes even on the kernel's TCP: long replies on the worst line."""
OPTIONS = ("--edns-size", "65500 B", "--max-segments", "64")
# No client is idle here: its second query may be lost again and again.
OPTIONS += ("--idle", "120 s")
OPTIONS += ("--limits-syn-rate", "0", "--limits-query-rate", "0")


@pytest.fixture(scope="module")
def bad_line(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Lab, Wire]]:
    """A network with a wire in the middle, and frames of up to 9000 bytes."""
    folder = tmp_path_factory.mktemp("loss") / "lab"
    clients = tuple(client(number, version) for number in NUMBERS for version in (4, 6))
    made = laboratory(folder, ("nsd",), mtu=9000, wired=True, options=OPTIONS, clients=clients)
    with made as lab:
        assert lab.wire is not None
        yield lab, lab.wire


def client(number: int, version: int) -> str:
    """A client's address."""
    return f"192.0.2.{number}" if version == 4 else f"2001:db8::{number:x}"


def classes(version: int = 4) -> Iterator[tuple[str, int]]:
    """The addresses, with the wire's number for each."""
    return ((client(number, version), number) for number in NUMBERS)


@pytest.mark.parametrize("size", [300, 4000, 9000])
def test_each_single_segment_may_be_lost(
    bad_line: tuple[Lab, Wire], arm: str, version: int, size: int
) -> None:
    """In either direction: the SYN, the query, each segment of the reply, each acknowledgement."""
    lab, line = bad_line
    server, message = lab.address("nsd", arm, version), query(zones.size_name(size))
    line.set(Conditions())
    expected = ask(lab.network.client, lab.address("nsd", "kernel"), message)
    jobs = []
    places = itertools.product((False, True), range(1, 16))
    for (address, number), (to_client, place) in zip(classes(version), places, strict=False):
        line.set(Conditions(delay=0.002), number)
        line.drop(to_client, place, number)
        jobs.append(Job(server, message, address, 1220, queries=2))
    outcomes = ask_all(lab.network.client, jobs, 20)
    assert [outcome.error for outcome in outcomes] == [""] * len(jobs)
    assert all(outcome.replies == [expected] * 2 for outcome in outcomes)
    lost = [line.counts(number).lost for (_, number), _ in zip(classes(), jobs, strict=False)]
    assert sum(lost) > 8


def configurations(version: int) -> list[tuple[float, int, int]]:
    """Loss, segment size and reply size, without what takes minutes on any TCP."""
    made = itertools.product(LOSSES, SEGMENTS, SIZES)
    if version == 6 and not FULL:
        made = itertools.product(LOSSES, (1220, 8960), (300, 4000, 16000, 60000))
    return [(loss, mss, size) for loss, mss, size in made if FULL or loss * size / mss <= 4]


def test_a_line_that_loses_doubles_and_reorders(
    bad_line: tuple[Lab, Wire], version: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Never corrupted, never stuck; the test prints the time beside that of the kernel's TCP."""
    lab, line = bad_line
    lab.address("nsd", "gateway")
    line.set(Conditions())
    expected = {
        size: ask(lab.network.client, lab.address("nsd", "kernel"), query(zones.size_name(size)))
        for size in SIZES
    }
    source = {}
    numbers = classes(version)
    for loss, arm in itertools.product(LOSSES, ARMS):
        address, number = next(numbers)
        source[loss, arm] = address
        bad = loss > 0
        line.set(
            Conditions(
                loss, 0.02 * bad, 0.05 * bad, delay=0.002, seed=100 * version + int(100 * loss)
            ),
            number,
        )
    repeats = 10 if FULL else 3
    work = [(each, arm) for each in configurations(version) for arm in ARMS for _ in range(repeats)]
    random.Random(2026).shuffle(work)
    jobs = {}
    for index, ((loss, mss, size), arm) in enumerate(work):
        message = query(zones.size_name(size))
        jobs[index] = Job(lab.address("nsd", arm, version), message, source[loss, arm], mss, 2)
    outcomes = ask_all(lab.network.client, list(jobs.values()), 600 if FULL else 120, apart=0.01)
    by: dict[tuple[float, int, str], list[Outcome]] = {}
    bad_ones = []
    for ((loss, mss, size), arm), outcome in zip(work, outcomes, strict=True):
        by.setdefault((loss, size, arm), []).append(outcome)
        if outcome.error or outcome.replies != [expected[size]] * 2:
            bad_ones.append((loss, mss, size, arm, outcome.error or "corrupted"))
    with capsys.disabled():
        print(
            f"\n{len(jobs)} connections, IPv{version}; median latency in ms, kernel's TCP / gateway"
        )
        print("loss     " + "".join(f"{size:>16}" for size in SIZES))
        for loss in LOSSES:
            row = f"{100 * loss:4.0f} %   "
            for size in SIZES:
                cell = [by.get((loss, size, arm), []) for arm in ARMS]
                times = [
                    f"{1000 * statistics.median(o.seconds for o in one):.1f}" if one else "-"
                    for one in cell
                ]
                row += f"{' / '.join(times):>16}"
            print(row)
    assert [one for one in bad_ones if one[3] == "gateway"] == []


@pytest.mark.parametrize("mode", ["native", "generic"])
def test_long_replies_to_clients_that_give_up(
    tmp_path: Path, mode: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of 30 segments, 7 are lost each time; everything that is lost comes again at each timeout.

    A client's timeout doubles each time, and after enough of them the client gives up: here after
    27 s.
    """
    lossy = tuple(client(number, 4) for number in NUMBERS[:4])
    made = laboratory(
        tmp_path / "lab",
        ("nsd",),
        mtu=9000,
        wired=True,
        options=(*OPTIONS, "--mode", mode),
        clients=lossy,
    )
    with made as lab:
        assert lab.wire is not None
        server = lab.address("nsd", "gateway")
        message = query(zones.size_name(16000))
        expected = ask(lab.network.client, lab.address("nsd", "kernel"), message)
        for number in NUMBERS[:4]:
            lab.wire.set(Conditions(0.25, 0.02, 0.05, delay=0.002, seed=number), number)
        jobs = [Job(server, message, lossy[i % 4], 536) for i in range(300)]
        outcomes = ask_all(lab.network.client, jobs, 120, apart=0.01)
    times = sorted(outcome.seconds for outcome in outcomes)
    with capsys.disabled():
        print(f"\n{mode}: median {times[150]:.2f} s, 95 % within {times[285]:.2f} s")
    assert [outcome.error for outcome in outcomes if outcome.error] == []
    assert all(outcome.replies == [expected] for outcome in outcomes)


def test_replies_that_differ_are_never_mixed(bad_line: tuple[Lab, Wire]) -> None:
    """The server never repeats a reply; a client gets one of them, whole."""
    lab, line = bad_line
    server = lab.address("unruly", "gateway")
    numbers = list(classes())[:4]
    for (_, number), loss in zip(numbers, (0.05, 0.10, 0.15, 0.25), strict=True):
        line.set(Conditions(loss, 0.05, 0.05, delay=0.001, seed=number), number)
    jobs = [
        Job(server, query(f"changing.4000.{i}.test", edns=4096), numbers[i % 4][0], 536)
        for i in range(200)
    ]
    outcomes = ask_all(lab.network.client, jobs, 120)
    assert [outcome.error for outcome in outcomes if outcome.error] == []
    mixed = [outcome for outcome in outcomes if len(contents(outcome.replies[0])) != 1]
    assert len(mixed) == 0


def contents(reply: bytes) -> set[bytes]:
    """The numbers in a changing reply."""
    found = set()
    at = reply.index(b"\x00\x10\x00\x01")
    for start in range(at, len(reply) - 240):
        text = reply[start + 1 : start + 241]
        if reply[start] == 240 and text.isdigit():
            found |= {text[i : i + 8] for i in range(0, 240, 8)}
    return found

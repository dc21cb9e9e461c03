"""What the examples' comments and the guide say about the examples."""

from __future__ import annotations

import functools
import re
import shlex
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest

from narrows import Run, Scenario, run
from narrows.sweeps.axes import parse_vary
from narrows.sweeps.options import varied

ROOT = Path(__file__).parents[2]


@functools.cache
def responses(name: str, **changes: str) -> dict[str, pl.Series]:
    """Response times of each group's measured queries in an example, in ms; null: no answer."""
    scenario = Scenario.load(ROOT / "scenarios" / f"{name}.toml", set=changes)
    queries = run(scenario).queries.filter("measured")
    groups = queries.partition_by("group", as_dict=True)
    return {str(name): group["response_ms"] for (name,), group in groups.items()}


def slow_percent(times: pl.Series) -> float:
    share = (times >= 1000).mean()
    assert isinstance(share, float)
    return 100 * share


def quantile(times: pl.Series, share: float) -> float:
    value = times.quantile(share)
    assert value is not None
    return value


def guide_rows() -> list[tuple[str, list[str]]]:
    """The guide's table of three examples: each row's example, and its last four cells."""
    guide = (ROOT / "docs" / "guide.md").read_text(encoding="utf-8")
    table = guide.split("| example | group | median, ms |")[1].split("\n\n")[0]
    rows, name = [], ""
    for line in table.splitlines()[2:]:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if found := re.match(r"\[([a-z-]+)\.toml\]", cells[0]):
            name = found[1]
        rows.append((name, cells[2:]))
    return rows


def test_the_guides_table_is_what_the_examples_give() -> None:
    groups = {
        "tcp-fast-open": ["udp", "tcp", "fast-open"],
        "ecn-plus-plus": ["ecn", "ecn-plus-plus"],
        "stateless-tcp": ["limited", "stateless"],
    }
    places = [(name, group) for name, names in groups.items() for group in names]
    for (name, group), (example, cells) in zip(places, guide_rows(), strict=True):
        times = responses(name)[group]
        unanswered = 100 * times.null_count() / len(times)
        shown = [quantile(times, 0.5), quantile(times, 0.95), slow_percent(times), unanswered]
        assert example == name
        for cell, value in zip(cells, shown, strict=True):
            _, _, decimals = cell.partition(".")
            assert f"{value:.{len(decimals)}f}" == cell, (name, group, shown)


@pytest.mark.parametrize("path", sorted(ROOT.glob("scenarios/*.toml")), ids=lambda path: path.stem)
def test_the_guide_lists_it(path: Path) -> None:
    guide = (ROOT / "docs" / "guide.md").read_text(encoding="utf-8")
    assert f"(../scenarios/{path.name}) | " in guide or f"(../scenarios/{path.name}), [" in guide


SUGGESTED = [
    pytest.param(path, line, id=f"{path.stem}-{number}")
    for path in sorted(ROOT.glob("scenarios/*.toml"))
    for number, line in enumerate(re.findall(r"^#   (.*)", path.read_text("utf-8"), flags=re.M))
    if "--set" in line or "--vary" in line
]
"""Lines in the examples' comments that change a key."""
NOT_HERE = "Verizon-LTE-short.down"
"""A file that readers have to get elsewhere."""


@pytest.mark.parametrize(("path", "line"), SUGGESTED)
def test_what_an_example_suggests_to_change_can_be_changed(
    path: Path, line: str, tmp_path: Path
) -> None:
    words = shlex.split(line, comments=True)
    if words[0] == "narrows":
        assert words[1] in {"run", "sweep"}
        assert words[2] == f"scenarios/{path.name}"
    given = {
        option: [value for word, value in pairwise(words) if word == option]
        for option in ("--set", "--vary")
    }
    changes = dict(each.split("=", 1) for each in given["--set"])
    # A change of the kind alone would keep the queue's other keys, such as its limit.
    assert not [key for key in changes if key.endswith(".kind")]
    if NOT_HERE in line:
        trace = tmp_path / NOT_HERE
        trace.write_text("1\n")
        changes = {key: value.replace(NOT_HERE, str(trace)) for key, value in changes.items()}
    Scenario.load(path, set=changes)
    for key, values in parse_vary(given["--vary"]).items():
        for value in values:
            Scenario.load(path, set={**changes, key: value})


def test_examples_suggest_changes() -> None:
    assert len(SUGGESTED) > 40


def test_fast_open_saves_a_round_trip() -> None:
    times = responses("tcp-fast-open")
    # 20 ms each way, and less than half a millisecond for packets of 200 bytes at 50 Mbit/s.
    for group, round_trips in (("udp", 1), ("tcp", 2), ("fast-open", 1)):
        assert quantile(times[group], 0.5) == pytest.approx(40 * round_trips, abs=0.5), group
    # A worker's first connection has no cookie: 10 of 1000 queries.
    assert (times["fast-open"] > 79).sum() == 10
    refused = responses("tcp-fast-open", **{"dns.fast-open.answers.fast_open": "false"})
    assert quantile(refused["fast-open"], 0.5) == pytest.approx(80, abs=0.5)


def test_transports_cost_the_round_trips_of_their_handshakes() -> None:
    times = responses("dns-over-quic")
    # RFC 9293 and RFC 8446: one handshake each; RFC 9000: one for both; 0-RTT takes it off.
    trips = {"udp": 1, "tcp": 2, "tls": 3, "https": 3, "quic": 2, "tls-early": 2, "quic-0rtt": 1}
    assert times.keys() == trips.keys()
    for group, round_trips in trips.items():
        assert quantile(times[group], 0.5) == pytest.approx(40 * round_trips, abs=1), group
    # A worker's first connection has no ticket: 10 of 200 queries take a round trip more.
    for group in ("tls-early", "quic-0rtt"):
        assert (times[group] > 40 * trips[group] + 39).sum() == 10


@pytest.mark.parametrize("queue", ["red", '{kind="codel", ecn=true}'])
def test_syn_acks_that_are_marked_are_not_lost(queue: str) -> None:
    times = responses("ecn-plus-plus", **({} if queue == "red" else {"queue": queue}))
    # RFC 6298: the first SYN-ACK is sent again after a second.
    assert slow_percent(times["ecn"]) > 1
    assert slow_percent(times["ecn-plus-plus"]) == 0
    unmarked = responses("ecn-plus-plus", **{"queue.ecn": "false"})
    assert slow_percent(unmarked["ecn-plus-plus"]) > 1


def test_a_server_without_connections_is_never_full() -> None:
    times = responses("stateless-tcp")
    assert times["stateless"].null_count() == 0
    assert times["limited"].null_count() > 100
    # A SYN or a SYN-ACK is lost, 1 % each: about 2 % of the queries take a second more.
    for group in ("stateless", "limited"):
        assert slow_percent(times[group]) == pytest.approx(2, abs=1)
    roomy = responses("stateless-tcp", **{"dns.limited.answers.connections": "1000"})
    assert roomy["limited"].null_count() == 0


def test_arp_lets_dns_through_red_that_marks_everything_else() -> None:
    # The worst cell of Harhalakis et al. 2011: Linux gives 39 to 52 %, and 0 % with permanent
    # neighbour entries (kernel-arp.csv).
    first = {}
    for neighbours in ("arp", "known"):
        changes = {"links.bottleneck.neighbours": neighbours}
        scenario = Scenario.load(ROOT / "scenarios" / "arp-behind-red.toml", set=changes)
        found = run(scenario).summary
        first[neighbours] = found["dns"]["first_attempt_percent"]
        if neighbours == "arp":
            assert found["neighbours"]["without_address_s"] > 1
    assert first["known"] == 0
    assert 39 <= first["arp"] <= 52


@pytest.mark.parametrize("transport", ["udp", "tls"])
def test_a_kept_connection_has_the_share_of_a_download(transport: str) -> None:
    def found(**keys: str) -> Run:
        changes = {f"dns.resolver.{key}": value for key, value in keys.items()}
        path = ROOT / "scenarios" / "truncation-or-tls.toml"
        return run(Scenario.load(path, set={"dns.resolver.transport.kind": transport, **changes}))

    kept = found()
    # 31 connections share 10 Mbit/s, of which Ethernet takes 38 of 1538 bytes. A reply of 1702
    # bytes takes two segments with 40 bytes of headers or more: 20 in a second need 0.285 Mbit/s.
    share = 10e6 * 1500 / 1538 / 31
    over_it = kept.attempts.filter(pl.col("transport") != "udp")
    carried = over_it.get_column("bytes_received").sum() * 8 / 55
    assert 0.5 * share < carried < 1.1 * share
    replies = over_it.filter(pl.col("fate").is_in(["answered", "late"]))
    assert (replies["fate"] == "late").mean() > 0.2  # type: ignore[operator]
    assert any("% of the replies over persistent connections came after" in f for f in kept.flags)
    # The connection itself never stalls: it is not silent for longer than it takes to give up.
    came = over_it.get_column("received_s").drop_nulls().sort()
    assert came.diff().max() < 1.9  # type: ignore[operator]
    several = found(**{"transport.pipelining": "false"})
    assert several.summary["dns"]["within_1s_percent"] > 80
    assert kept.summary["dns"]["within_1s_percent"] < 60
    assert not several.flags


def goodput(found: Run, group: str) -> float:
    rate = found.summary["flows"]["groups"][group]["goodput_mbit_per_s"]
    assert isinstance(rate, float)
    return rate


def test_bbr_takes_most_of_a_short_fifo_and_a_third_of_a_deep_one() -> None:
    path = ROOT / "scenarios" / "bbr-beside-cubic.toml"
    # Linux 7.3 with the same scenario: 41.4 and 4.6 Mbit/s.
    short = run(Scenario.load(path))
    assert 0.85 < goodput(short, "bbr") / (goodput(short, "bbr") + goodput(short, "cubic")) < 0.95
    # A probe each ten seconds (draft-cardwell-iccrg-bbr-congestion-control-00, 4.3.5).
    states = short.table("flow_states").filter(group="bbr")
    probing = states.filter(state="probe-rtt")["t_s"]
    assert sorted({int(at // 10) for at in probing}) == [1, 2, 3, 4, 5]
    deep = run(Scenario.load(path, set={"queue.limit": "1300 kB"}))
    assert 0.25 < goodput(deep, "bbr") / (goodput(deep, "bbr") + goodput(deep, "cubic")) < 0.45
    assert quantile(deep.queries.filter(group="udp")["response_ms"], 0.5) > 150


def test_only_packets_of_prague_do_not_wait_behind_dualpi2() -> None:
    def waits(**changes: str) -> dict[str, float]:
        path = ROOT / "scenarios" / "l4s-coexistence.toml"
        delays = run(Scenario.load(path, set=changes)).table("queue_delays")
        return dict(delays.select("ecn", "wait_p50_ms").iter_rows())

    # RFC 9332: a target of 15 ms for one queue, and marks from 1 ms on in the other.
    both = waits()
    assert both["ect1"] < 1
    assert both["not-ect"] == pytest.approx(15, abs=3)
    assert waits(**{"traffic.cubic.tcp.congestion": "prague"})["not-ect"] < 1


def test_the_plan_of_the_finding_on_bbr_fits_its_scenario() -> None:
    scenario = ROOT / "scenarios" / "bbr-beside-cubic.toml"
    plan = ROOT / "docs" / "plans" / "bbr-and-l4s.toml"
    values, seeds = varied(plan, [], [], {}, None)
    assert seeds == 10
    for changes in values["variants"].values():
        for queue in values["vary"]["queue"]:
            Scenario.load(scenario, set={**values["set"], **changes, "queue": queue})

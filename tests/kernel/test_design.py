"""The kernel's job for a scenario, and what is refused by name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from narrows import Scenario, _core
from narrows.backends import BackendError, get
from narrows.backends.kernel.backend import _no_cookies
from narrows.backends.kernel.design import Design
from narrows.backends.kernel.workspace import Workspace
from narrows.reproduce.harhalakis_2011 import PAPER
from tests.kernel.scenarios import dumbbell

EXAMPLES = sorted((Path(__file__).parents[2] / "scenarios").glob("*.toml"))


def designed(scenario: Scenario, stall_s: float = 0.0) -> Mapping[str, Any]:
    profile = json.loads(_core.tcp_profile("linux-6"))
    return Design(scenario.plan(), profile, prefix="n", stall_s=stall_s).job()


def queue_of(queue: str, **settings: Any) -> list[str]:
    """The commands for a queue at the bottleneck, without the shaper above."""
    scenario = dumbbell(links__bottleneck__forward__queue=queue, **settings)
    commands = [line for lines in designed(scenario)["tc"].values() for line in lines]
    below = [line for line in commands if " dev l0 " in line and " root " not in line]
    return [line for line in below if " classid 1:1 " not in line][:-1]


# The words are those of the manual pages, with parameters as in the scenario.
QUEUES = {
    '{ kind = "pfifo", limit = 100 }': "pfifo limit 100",
    '{ kind = "bfifo", limit = "90 kB" }': "bfifo limit 90000",
    '{ kind = "red", limit = "375 kB", min = "75 kB", max = "225 kB", avpkt = "1400 B", burst = 90,'
    " probability = 0.1, ecn = true }": "red limit 375000 min 75000 max 225000 avpkt 1400 burst 90 "
    "probability 0.1 bandwidth 10000000bit ecn",
    '{ kind = "codel", target = "10 ms" }': "codel limit 1000 target 10000us interval 100000us "
    "noecn",
    '{ kind = "fq-codel", ce_threshold = "1 ms" }': "fq_codel limit 10240 flows 1024 quantum 1514 "
    "memory_limit 33554432 drop_batch 64 target 5000us interval 100000us ecn ce_threshold 1000us",
    '{ kind = "fq-codel", ecn = false, ce_threshold = "1 ms", ce_threshold_selector = 1, '
    "ce_threshold_mask = 3 }": "fq_codel limit 10240 flows 1024 quantum 1514 memory_limit 33554432 "
    "drop_batch 64 target 5000us interval 100000us noecn ce_threshold 1000us "
    "ce_threshold_selector 1/3",
    '{ kind = "fq-pie", flows = 256, ecn = true, ecn_prob = 0.2 }': "fq_pie limit 10240 "
    "target 15000us tupdate 15000us alpha 2 beta 20 ecn nobytemode no_dq_rate_estimator flows 256 "
    "quantum 1514 ecn_prob 20",
    '{ kind = "cake" }': "cake unlimited diffserv3 triple-isolate rtt 100000us mpu 0 noatm "
    "no-ack-filter egress nowash split-gso",
    '{ kind = "cake", rate = "5 Mbit/s", tins = "diffserv4", isolation = "dual-srchost", '
    'rtt = "30 ms", memory_limit = "1 MB", overhead = 30, mpu = "68 B", link_layer = "atm", '
    'ack_filter = "ack-filter", ingress = true, wash = true }': "cake bandwidth 5000000bit "
    "diffserv4 dual-srchost rtt 30000us memlimit 1000000 overhead 30 mpu 68 atm ack-filter ingress "
    "wash split-gso",
    '{ kind = "fq", maxrate = "2 Mbit/s", horizon_drop = false }': "fq limit 10000 flow_limit 100 "
    "quantum 3028 initial_quantum 15140 orphan_mask 1023 maxrate 2000000bit "
    "low_rate_threshold 550000bit refill_delay 40000us horizon 10000000us horizon_cap",
    '{ kind = "dualpi2" }': "dualpi2 limit 10000 target 15000us tupdate 16000us alpha 0.16 "
    "beta 3.2 step_thresh 1000us min_qlen_step 0 coupling_factor 2 classic_protection 10% "
    "drop_on_overload drop_dequeue l4s_ect split_gso",
    '{ kind = "dualpi2", memlimit = "1 MB", step_packets = 5, drop_on_overload = false, '
    "drop_enqueue = true, any_ect = true }": "dualpi2 limit 10000 memlimit 1000000 target 15000us "
    "tupdate 16000us alpha 0.16 beta 3.2 step_thresh 5p min_qlen_step 0 coupling_factor 2 "
    "classic_protection 10% overflow drop_enqueue any_ect split_gso",
    '{ kind = "pie", jiffy = "10 ms", ecn = true }': "pie limit 1000 target 15000us "
    "tupdate 15000us alpha 2 beta 20 ecn nobytemode no_dq_rate_estimator",
    '{ kind = "sfq", perturb = "10 s" }': "sfq limit 127 depth 127 divisor 1024 flows 128 "
    "quantum 1514 perturb 10",
}


@pytest.mark.parametrize("queue", QUEUES)
def test_a_queue_is_told_in_tcs_words(queue: str) -> None:
    expected = f"qdisc add dev l0 parent 1:1 handle 10: {QUEUES[queue]}"
    assert queue_of(queue) == [expected]


def test_cakes_overhead_counts_from_the_ip_packet() -> None:
    """Linux subtracts 14 bytes from a length that is the IP packet's without framing."""
    queue = '{ kind = "cake", overhead = 30 }'
    (bare,) = queue_of(queue, links__bottleneck__framing='{ overhead = "0 B" }')
    assert " overhead 44 " in bare


def test_kinds_of_queues_are_named_with_their_keys() -> None:
    inside = '{ kind = "prio", bands = [{ name = "a", match = [{ protocol = "udp" }] }, '
    inside += '{ name = "b", queue = { kind = "dualpi2" } }] }'
    for queue, kinds in {
        '{ kind = "codel" }': ["codel"],
        '{ kind = "fq" }': ["fq"],
        inside: ["prio", "pfifo", "dualpi2"],
    }.items():
        job = designed(dumbbell(links__bottleneck__forward__queue=queue))
        key = "links.bottleneck.forward.queue"
        found = [
            command.split()[8]
            for commands in job["keys"].values()
            for command, of in commands.items()
            if of == key and command.startswith("qdisc")
        ]
        assert found == kinds


def test_bands_get_filters_of_u32() -> None:
    queue = (
        '{ kind = "prio", bands = [{ name = "dns", match = [{ protocol = "udp", port = 53 }] }, '
        '{ name = "rest", queue = { kind = "codel" } }] }'
    )
    lines = queue_of(queue)
    assert lines[0].endswith("prio bands 2 priomap " + " ".join("1" * 16))
    filters = [line for line in lines if line.startswith("filter")]
    # A port at either end is two filters.
    assert [line.partition("u32 ")[2] for line in filters] == [
        "match ip protocol 17 0xff match ip sport 53 0xffff flowid 10:1",
        "match ip protocol 17 0xff match ip dport 53 0xffff flowid 10:1",
    ]
    assert [
        line.split(" handle ")[0] for line in lines if " handle 10" in line and "parent 10" in line
    ] == [
        "qdisc add dev l0 parent 10:1",
        "qdisc add dev l0 parent 10:2",
    ]


def test_frames_are_as_long_as_framing_says() -> None:
    """Ethernet's 38 bytes: the kernel counts 14 of them itself, and 24 are the shaper's."""
    job = designed(dumbbell())
    (bottleneck,) = [line for line in job["tc"]["n4"] if "class add dev l0" in line]
    assert bottleneck.endswith("overhead 24 mpu 84")
    assert "stab" not in bottleneck
    (plain,) = [line for line in job["tc"]["n0"] if "dev l1 root" in line]
    # Without framing, the header that the kernel counts is subtracted.
    assert plain.endswith("stab overhead -14 htb default 1")


def test_a_ring_is_the_buckets_depth() -> None:
    ring = '{ bytes = "112626 B" }'
    job = designed(dumbbell(links__bottleneck__ring=ring))
    (bottleneck,) = [line for line in job["tc"]["n4"] if "dev l0 root" in line]
    assert "tbf rate 10000000bit burst 112626 " in bottleneck
    assert job["samples"]["queues"]["of"][0]["ring"] is True
    # For a discipline that hands packets out when it is looked at, there is room for the longest.
    queue = '{ kind = "codel" }'
    other = dumbbell(links__bottleneck__ring=ring, links__bottleneck__forward__queue=queue)
    (bottleneck,) = [line for line in designed(other)["tc"]["n4"] if "class add dev l0" in line]
    assert f"burst {112626 - 1538} " in bottleneck


def test_without_a_ring_nothing_is_sent_ahead() -> None:
    (bottleneck,) = [
        line for line in designed(dumbbell())["tc"]["n4"] if "class add dev l0" in line
    ]
    assert "rate 10000000bit ceil 10000000bit burst 1 cburst 1 " in bottleneck


def test_transmission_counts_on_links_below_a_gigabit_also_where_nothing_delays() -> None:
    def netem(rate: str) -> list[str]:
        job = designed(dumbbell(links__lan__rate=rate))
        return [line for line in job["tc"]["nwires"] if "dev w3" in line and "netem" in line]

    assert [line.endswith(" rate 100000000bit") for line in netem("100 Mbit/s")] == [True, True]
    assert netem("1 Gbit/s") == []


@pytest.mark.parametrize(
    ("more", "words"),
    [("", "10% 90% 100% 0%"), (", r = 0.25, loss_bad = 0.5, loss_good = 0.01", "10% 25% 50% 1%")],
)
def test_losses_in_bursts_are_netems(more: str, words: str) -> None:
    loss = f'{{ kind = "gilbert-elliott", p = 0.1{more} }}'
    job = designed(dumbbell(links__internet__loss=loss))
    lossy = [line for line in job["tc"]["nwires"] if " loss " in line]
    assert len(lossy) == 2
    assert all(f" loss gemodel {words} rate " in line for line in lossy)


def test_a_send_buffer_holds_a_window_and_more() -> None:
    """A socket is writable below two thirds of it, and 1448 bytes take 2304 (`sk_wmem_queued`)."""
    job = designed(dumbbell())
    for sysctls in (job["settings"]["n0"], job["settings"]["n2"]):
        most = int(sysctls["ipv4/tcp_wmem"].split()[2])
        window = int(sysctls["ipv4/tcp_rmem"].split()[2]) // 2
        assert most * 2 / 3 / 2304 > window / 1448


def test_changes_come_at_their_times() -> None:
    change = '[{ at = "5 s", link = "bottleneck.forward", rate = "5 Mbit/s" }]'
    wires, isp = sorted(designed(dumbbell(changes=change))["changes"], key=lambda c: c["commands"])[
        ::-1
    ]
    assert isp["at_s"] == wires["at_s"] == 5.0
    assert isp["namespace"] == "n4" and wires["namespace"] == "nwires"
    assert all(" change dev l0 " in each and "rate 5000000bit" in each for each in isp["commands"])
    (netem,) = wires["commands"]
    assert netem.startswith("qdisc change dev w0b root handle 1: netem ")
    assert "delay 5000us" in netem and "rate 5000000bit" in netem


def test_a_new_queue_replaces_the_old_one_unless_it_can_keep_its_packets() -> None:
    def commands(first: str, then: str) -> list[str]:
        job = designed(
            dumbbell(
                links__bottleneck__forward__queue=first,
                changes=f'[{{ at = "5 s", link = "bottleneck.forward", queue = {then} }}]',
            )
        )
        (found,) = [each["commands"] for each in job["changes"] if each["namespace"] == "n4"]
        return [command for command in found if "parent 1:1 " in command or "del" in command]

    fifo, codel = '{ kind = "pfifo", limit = 50 }', '{ kind = "codel" }'
    (kept,) = commands(fifo, '{ kind = "pfifo", limit = 20 }')
    assert kept == "qdisc change dev l0 parent 1:1 handle 10: pfifo limit 20"
    gone, made = commands(fifo, codel)
    assert gone == "qdisc del dev l0 parent 1:1"
    assert made.startswith("qdisc add dev l0 parent 1:1 handle 10: codel limit 1000 ")


def test_losses_and_jitter_change_with_netem() -> None:
    first = '{ at = "5 s", link = "bottleneck.forward", jitter = { deviation = "1 ms" } }'
    second = (
        '{ at = "6 s", link = "bottleneck.forward", loss = 0.1, jitter = { deviation = "0 s" } }'
    )
    found = [
        each["commands"][0]
        for each in designed(dumbbell(changes=f"[{first}, {second}]"))["changes"]
        if each["namespace"] == "nwires"
    ]
    assert " delay 5000us 1000us" in found[0] and " loss " not in found[0]
    assert found[1].endswith(" delay 5000us loss 10% rate 10000000bit 24")


def test_filters_match_code_points() -> None:
    bands = '[{ name = "ef", match = [{ dscp = "EF" }] }, { name = "rest" }]'
    queue = f'{{ kind = "prio", bands = {bands} }}'
    job = designed(dumbbell(links__bottleneck__forward__queue=queue))
    (words,) = [line for line in job["tc"]["n4"] if "dsfield" in line]
    assert words.endswith("prio 1 u32 match ip dsfield 0xb8 0xfc flowid 10:1")


def test_filters_match_all_addresses_of_a_host() -> None:
    """A host has an address for each flavour of connections, 172.16.x.y to 172.31.x.y."""
    bands = (
        '[{ name = "one", match = [{ source = "far", destination = "near" }] }, { name = "rest" }]'
    )
    queue = f'{{ kind = "prio", bands = {bands} }}'
    job = designed(dumbbell(links__bottleneck__forward__queue=queue))
    (words,) = [line for line in job["tc"]["n4"] if "match u32" in line]
    # The first and the third node.
    ends = "match u32 0xac100001 0xfff0ffff at 12 match u32 0xac100003 0xfff0ffff at 16"
    assert words.endswith(f"u32 {ends} flowid 10:1")


def test_a_flood_of_syns_needs_the_cookies_of_its_server() -> None:
    """A kernel without them is refused when the network is built."""
    scenario = Scenario.load(EXAMPLES[0].with_name("syn-flood.toml"))
    assert designed(scenario)["needed"] == {}
    cookies = scenario.with_({"dns.resolvers.answers.syncookies": "when-full"})
    needed = designed(cookies)["needed"]
    assert list(needed.values()) == [{"ipv4/tcp_syncookies": "dns.resolvers.answers.syncookies"}]


def test_syns_that_cookies_would_have_answered_are_told() -> None:
    place = Workspace(Path("run"))
    names = [f"{place.prefix}{number}" for number in range(3)]
    asked = {
        name: {"ipv4/tcp_syncookies": wanted} for name, wanted in zip(names, "110", strict=True)
    }
    # The first host's kernel has them; the third was told to do without.
    set_ = dict(
        zip(names, ({"ipv4/tcp_syncookies": value} for value in ("1", None, None)), strict=True)
    )
    applied = {"settings": set_, "syns_dropped": dict.fromkeys(names, 7)}
    (flag,) = _no_cookies({"settings": asked}, applied, place, {"nodes": ["a", "b", "c"]})
    assert flag.startswith("b: 7 SYNs were dropped that cookies")


# Only a real server needs messages that can be made.
REAL = {
    "dns__stubs__answers__software": "nsd",
    "dns__stubs__service": "0 s",
    "dns__stubs__service_jitter_mean": "0 s",
}

REFUSED = {
    "changes": {
        "changes": '[{ at = "5 s", link = "bottleneck", rate = "5 Mbit/s" }]',
        "links__bottleneck__ring": '{ bytes = "20 kB" }',
    },
    "monitor.delays": {"monitor__delays": '["downloads"]'},
    "changes.state": {"changes": '[{ at = "5 s", link = "bottleneck", state = "down" }]'},
    "links.bottleneck.forward.queue.jiffy": {
        "links__bottleneck__forward__queue": '{ kind = "pie", jiffy = "5 ms" }'
    },
    "links.bottleneck.forward.queue.adaptive": {
        "links__bottleneck__forward__queue": '{ kind = "red", limit = "400 kB", adaptive = true }'
    },
    "links.bottleneck.forward.queue.kind": {
        "links__bottleneck__forward__queue": '{ kind = "drr", limit = 100 }'
    },
    "links.bottleneck.forward.ring.packets": {"links__bottleneck__ring": "{ packets = 80 }"},
    "links.internet.forward.jitter.reorder": {
        "links__internet__jitter": '{ deviation = "1 ms", reorder = false }'
    },
    "traffic.downloads.tcp.hystart": {"traffic__downloads__tcp__hystart": "false"},
    "traffic.downloads.tcp.acks": {"traffic__downloads__tcp__acks": "every-segment"},
    "dns.stubs.query_size": {"dns__stubs__query_size": "46 B", **REAL},
    "dns.stubs.messages": {"dns__stubs__messages": '[{ query = "40 B", reply = "18 B" }]', **REAL},
    "dns.stubs.answers.stateless": {
        "dns__stubs__transport__tcp_if_silent": "true",
        "dns__stubs__answers__stateless": "true",
    },
}


@pytest.mark.parametrize("key", REFUSED)
def test_what_linux_cannot_do_is_refused_by_name(key: str) -> None:
    with pytest.raises(BackendError) as refused:
        get("kernel").check(dumbbell(**REFUSED[key]))
    assert f"dumbbell: {key}: the backend kernel cannot honour it: " in str(refused.value)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"dns__stubs__transport": "quic"}, "the QUIC library does not tell the windows of stubs"),
        (
            {"dns__stubs__transport": "tcp", **REAL},
            "a real server does not tell the windows of stubs",
        ),
    ],
)
def test_windows_that_nobody_can_read_are_refused(settings: dict[str, str], why: str) -> None:
    with pytest.raises(BackendError, match=why) as refused:
        get("kernel").check(dumbbell(monitor__flows='["downloads", "stubs"]', **settings))
    assert "monitor.flows.groups: " in str(refused.value)
    assert "hint: name groups other than stubs" in str(refused.value)


def test_windows_over_tcp_are_read() -> None:
    scenario = dumbbell(monitor__flows='["*"]', dns__stubs__transport="tcp")
    assert get("kernel").refusals(scenario) == []


def test_too_many_workers_of_all_groups_are_refused_with_a_remedy_that_helps() -> None:
    with pytest.raises(BackendError, match="all groups together; hint: set it lower") as refused:
        get("kernel").check(dumbbell(dns__stubs__workers="5001"))
    assert "dns.stubs.workers" in str(refused.value)


def test_drr_is_refused_with_what_linux_means_by_it() -> None:
    queue = '{ kind = "drr", limit = 100 }'
    with pytest.raises(BackendError, match="Linux's drr has no limit that all flows share"):
        get("kernel").check(dumbbell(links__bottleneck__forward__queue=queue))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_is_designed_or_refused(path: Path) -> None:
    scenario = Scenario.load(path)
    refused = get("kernel").refusals(scenario)
    if not refused:
        assert designed(scenario)["namespaces"]


@pytest.mark.parametrize("cell", PAPER.cells, ids=lambda cell: cell.name)
def test_the_first_papers_cells_are_taken(cell: Any) -> None:
    scenario = Scenario.load(PAPER.folder / "scenarios" / cell.scenario, set=cell.set)
    assert get("kernel").refusals(scenario) == []


def test_linear_timeouts_of_syns_are_a_sysctl_that_must_exist() -> None:
    sysctl = "ipv4/tcp_syn_linear_timeouts"
    for linear in (0, 4):
        job = designed(dumbbell(traffic__downloads__tcp__syn_linear_timeouts=linear))
        ends = [values[sysctl] for values in job["settings"].values() if sysctl in values]
        assert ends.count(str(linear)) >= 2
        keys = {needed.get(sysctl) for needed in job["needed"].values()} - {None}
        assert keys == ({"traffic.downloads.tcp.syn_linear_timeouts"} if linear else set())


def test_how_long_sacks_are_held_back_is_a_sysctl_that_must_exist_if_it_is_not_linux_6s() -> None:
    sysctl = "ipv4/tcp_comp_sack_rtt_percent"
    for percent in (5, 33):
        job = designed(dumbbell(traffic__downloads__tcp__comp_sack_rtt_percent=percent))
        ends = [values[sysctl] for values in job["settings"].values() if sysctl in values]
        assert ends.count(str(percent)) >= 2
        keys = {needed.get(sysctl) for needed in job["needed"].values()} - {None}
        assert keys == ({"traffic.downloads.tcp.comp_sack_rtt_percent"} if percent != 5 else set())

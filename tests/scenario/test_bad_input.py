"""Each kind of bad input gives one line that names file, key and fix."""

from __future__ import annotations

import copy
import os
from pathlib import Path
from typing import Any

import pytest

from narrows import Scenario, ScenarioError

GOOD: dict[str, Any] = {
    "name": "small",
    "duration": "10 s",
    "links": [
        {
            "name": "bottleneck",
            "between": ["r1", "r2"],
            "rate": "10 Mbit/s",
            "delay": "50 ms",
            "queue": {
                "kind": "red",
                "limit": "375000 B",
                "min": "74874 B",
                "max": "262374 B",
                "avpkt": "1400 B",
                "burst": 98,
            },
        },
        {"name": "left", "between": ["a", "r1"], "rate": "100 Mbit/s"},
        {"name": "right", "between": ["r2", "b"], "rate": "100 Mbit/s"},
    ],
    "traffic": [{"kind": "bulk", "name": "data", "sender": "a", "receiver": "b"}],
    "dns": [{"name": "dns", "client": "b", "server": "a", "queries": 3}],
    "monitor": {"queues": {"links": ["bottleneck.forward"], "rate": 10}},
}


BULK = {"kind": "bulk", "name": "data", "sender": "a", "receiver": "b"}
ON_OFF = {**BULK, "kind": "on-off", "burst": "1 kB", "idle": "1 s"}
FTP = {"kind": "ftp", "name": "data", "servers": ["a"], "clients": ["b"], "file": "1 kB"}
PARETO = {"distribution": "pareto", "mean": "2 s", "shape": 1.5}


def with_change(path: str, value: Any) -> dict[str, Any]:
    """`GOOD` with one key set, or removed where the value is `...`."""
    values = copy.deepcopy(GOOD)
    *parents, last = (int(part) if part.isdigit() else part for part in path.split("/"))
    node: Any = values
    for part in parents:
        node = node.setdefault(part, {}) if isinstance(node, dict) else node[part]
    if value is ...:
        del node[last]
    elif isinstance(value, dict):
        node[last] = {key: given for key, given in value.items() if given is not ...}
    else:
        node[last] = value
    return values


def test_the_scenario_that_the_cases_change_is_good() -> None:
    assert Scenario.from_dict(GOOD).name == "small"


CASES = [
    # Unknown keys, with the nearest known one.
    ("descripton", "x", "descripton: is not a known key; hint: did you mean \"description\"?"),
    ("links/0/queue/limt", "1 B", "links[0].queue.limt: is not a known key; hint: did you mean \"limit\""),
    ("links/0/forward", {"rat": "1 Mbit/s"}, "links[0].forward.rat: is not a known key; hint: did you mean \"rate\""),
    ("traffic/0/burst", "1 kB", "traffic[0].burst: is not a known key"),
    ("traffic/0/tcp", {"msss": 1}, "traffic[0].tcp.msss: is not a known key; hint: did you mean \"mss\""),
    ("monitor/queue", {}, "monitor.queue: is not a known key; hint: did you mean \"queue_delays\" or \"queues\"?"),
    ("links/0/a b", 1, "links[0].\"a b\": is not a known key"),
    ("links/0/queue", {"kind": "prio", "bands": [{"name": "x", "match": [{"source": "r"}]}, {"name": "y"}]}, "links[0].queue.bands[0].match[0].source: \"r\" is not a node"),
    # Missing keys.
    ("name", ..., "name: is missing"),
    ("links", ..., "links: is missing"),
    ("links/0/rate", ..., "links[0].rate: is missing for the forward direction"),
    ("traffic/0/kind", ..., "traffic[0].kind: is missing; hint: one of bulk, flood, ftp, incast, on-off, once, page, ping, trace, transfer, udp, voip"),
    ("traffic/0/receiver", ..., "traffic[0]: needs sender and receiver, or pairs"),
    # Changes of links.
    ("changes", [{"at": "1 s", "link": "bottlneck", "rate": "1 Mbit/s"}], "changes[0].link: \"bottlneck\" is not a link; hint: did you mean \"bottleneck"),
    ("changes", [{"at": "1 s", "link": "bottleneck"}], "changes[0]: changes nothing; hint: such as rate"),
    ("changes", [{"at": "10 s", "link": "left", "rate": "1 Mbit/s"}], "changes[0].at: \"10 s\" is not before the end of the run"),
    ("changes", [{"at": "0 s", "link": "left", "rate": "1 Mbit/s"}], "changes[0].at: must be above zero"),
    ("changes", [{"at": "1 s", "link": "left", "rate": "0 Mbit/s"}], "changes[0].rate: \"0 Mbit/s\" must be above zero"),
    ("changes", [{"at": "1 s", "link": "left", "state": "dwn"}], "changes[0].state: \"dwn\" is not known here; hint: did you mean \"down\"?"),
    ("changes", [{"at": "1 s", "link": "left", "rat": "1 Mbit/s"}], "changes[0].rat: is not a known key; hint: did you mean \"rate\" or \"at\"?"),
    ("changes", [{"at": "1 s", "link": "left", "loss": 2.0}], "changes[0].loss: must be at most 1"),
    ("changes", [{"at": "1 s", "link": "left", "jitter": {"deviation": "1 s"}}], "changes[0].jitter.deviation: is above the delay of left.forward"),
    ("changes", [{"at": "1 s", "link": "left", "queue": {"kind": "codle"}}], "changes[0].queue.kind: \"codle\" is not known here"),
    ("changes", {"at": "1 s"}, "changes: is not an array; hint: write [[changes]], not [changes]"),
    ("monitor/queues/links", "bottleneck.forward", "monitor.queues.links: is not an array; hint: put it in brackets: [\"bottleneck.forward\"]"),
    # Traffic.
    ("traffic/0/stop", "0 s", "traffic[0].stop: must be above zero"),
    ("traffic/0", {**BULK, "start": "2 s", "spread": "1 s", "stop": "3 s"}, "traffic[0].stop: \"3 s\" is not after the last start (\"3 s\"); hint: stop later"),
    ("traffic/0/ramp", "rising", "traffic[0].ramp: needs a time over which it rises; hint: such as spread = \"60 s\""),
    ("traffic/0/ramp", "risng", "traffic[0].ramp: \"risng\" is not known here; hint: did you mean \"rising\"?"),
    ("traffic/0/ramp", [["0 s", 0], ["9 s", 5]], "traffic[0].ramp[1]: ends at 5 connections, but the group has 1"),
    ("traffic/0/ramp", [["2 s", 0], ["1 s", 1]], "traffic[0].ramp[1]: goes back"),
    ("traffic/0/ramp", [["2 s", "x"]], "traffic[0].ramp[0][1]: is not a whole number"),
    ("traffic/0", {**BULK, "spread": "1 s", "ramp": [["0 s", 1]]}, "traffic[0].ramp: already has times"),
    ("traffic/0", {**ON_OFF, "idle": ...}, "traffic[0].idle: is missing; hint: idle_mean"),
    ("traffic/0", {**ON_OFF, "idle_mean": "1 s"}, "traffic[0].idle: excludes idle_mean"),
    ("traffic/0", {**ON_OFF, "idle": 2}, "traffic[0].idle: is a number without a unit"),
    ("traffic/0", {**ON_OFF, "idle": "2 MB"}, "traffic[0].idle: \"2 MB\" has the unknown unit"),
    ("traffic/0", {**ON_OFF, "idle": []}, "traffic[0].idle: is empty"),
    ("traffic/0", {**ON_OFF, "idle": ["1 s", "1 B"]}, "traffic[0].idle[1]: \"1 B\" has the unknown unit"),
    ("traffic/0", {**ON_OFF, "idle": {"mean": "1 s"}}, "traffic[0].idle.distribution: is missing"),
    ("traffic/0", {**ON_OFF, "idle": {**PARETO, "distribution": "parto"}}, "traffic[0].idle.distribution: \"parto\" is not known here; hint: did you mean \"pareto\"?"),
    ("traffic/0", {**ON_OFF, "idle": {**PARETO, "shap": 1}}, "traffic[0].idle.shap: is not a known key; hint: did you mean \"shape\"?"),
    ("traffic/0", {**ON_OFF, "idle": {**PARETO, "shape": "2"}}, "traffic[0].idle.shape: is not a number; hint: write it without quotation marks: 2"),
    ("traffic/0", {**ON_OFF, "idle": {**PARETO, "shape": 1}}, "traffic[0].idle.shape: must be above 1"),
    ("traffic/0", {**ON_OFF, "idle": {"distribution": "pareto", "mean": "1 s"}}, "traffic[0].idle.shape: is missing"),
    ("traffic/0", {**ON_OFF, "idle": {**PARETO, "distribution": "exponential"}}, "traffic[0].idle.shape: is only for pareto"),
    ("traffic/0", {**ON_OFF, "burst": {**PARETO, "mean": "0 B"}}, "traffic[0].burst.mean: must be above zero"),
    ("traffic/0", {**ON_OFF, "bursts": 0}, "traffic[0].bursts: must be at least 1"),
    ("traffic/0", {**FTP, "clients": ...}, "traffic[0].clients: is missing; hint: servers and clients go together"),
    ("traffic/0", {**FTP, "sender": "a"}, "traffic[0].clients: excludes sender, receiver and pairs"),
    ("traffic/0", {**FTP, "servers": ["a", "c"]}, "traffic[0].servers[1]: \"c\" is not a node"),
    ("traffic/0", {**FTP, "servers": ["a", "b"]}, "traffic[0].servers: holds the client \"b\""),
    ("traffic/0", {**FTP, "servers": []}, "traffic[0].servers: is empty"),
    ("traffic/0", {**FTP, "servers": ["a"] * 400, "clients": ["b"] * 400}, "traffic[0].clients: makes more than 100000 pairs with servers"),
    ("traffic/0", {**FTP, "file": "0 B"}, "traffic[0].file: must be above zero"),
    ("traffic/0", {**FTP, "servers": ..., "clients": ...}, "traffic[0]: needs sender and receiver, or pairs"),
    # Wrong units and kinds of values.
    ("links/0/rate", "10 ms", "links[0].rate: \"10 ms\" has the unknown unit \"ms\"; use one of bit/s"),
    ("links/0/rate", "20Mbps", "links[0].rate: \"20Mbps\" has the unit \"Mbps\", which is bytes to tc(8) and bits to others; use Mbit/s"),
    ("links/0/rate", "20 mbps", "links[0].rate: \"20 mbps\" has the unit \"mbps\", which is bytes to tc(8) and bits to others; use Mbit/s"),
    ("links/0/rate", "5kbps", "links[0].rate: \"5kbps\" has the unit \"kbps\", which is bytes to tc(8) and bits to others; use kbit/s"),
    ("links/0/delay", "10 Mbit/s", "links[0].delay: \"10 Mbit/s\" has the unknown unit"),
    ("links/0/delay", 50, "links[0].delay: is a number without a unit; hint: write it as text with a unit, such as \"50 ms\""),
    ("links/0/delay", 0.5, "links[0].delay: is a number without a unit"),
    ("links/0/delay", "-5 ms", "links[0].delay: \"-5 ms\" does not start with a number"),
    ("links/0/delay", ["1 ms"], "links[0].delay: is an array, not a quantity"),
    ("links/0/delay", "9000000 h", "links[0].delay: \"9000000 h\" is too large"),
    ("links/0/delay", "241 h", "links[0].delay: \"241 h\" is too large; hint: at most \"864000 s\""),
    ("links/0/rate", "101 Tbit/s", "links[0].rate: \"101 Tbit/s\" is too large; hint: at most \"100000 Gbit/s\""),
    ("links/0/queue/limit", "3 packets", "links[0].queue.limit: \"3 packets\" has the unknown unit"),
    ("links/0/queue/limit", True, "links[0].queue.limit: is a Boolean, not a quantity"),
    ("links/0/queue/burst", 1.5, "links[0].queue.burst: is not a whole number"),
    ("links/0/queue/ecn", "yes", "links[0].queue.ecn: is not true or false"),
    ("links/0/queue", {"kind": "pfifo", "limit": "100"}, "links[0].queue.limit: is not a whole number; hint: write it without quotation marks: 100"),
    ("links/0/queue", {"kind": "pfifo", "limit": "256 kB"}, "links[0].queue.limit: is not a whole number; hint: it counts packets, such as 100; the limit of a bfifo counts bytes"),
    ("links/0/queue", 3, "links[0].queue: is not a table"),
    ("links/0/queue", "fq-codel", "links[0].queue: is not a table; hint: write a table: '{ kind = \"fq-codel\" }'"),
    ("links/0/queue", "fq_codel", "links[0].queue: is not a table; hint: write a table: '{ kind = \"fq-codel\" }'"),
    ("links/0/queue", {}, "links[0].queue.kind: is missing; hint: one of pfifo, bfifo, red, red-1993, pie, blue, codel, fq-codel, fq-pie, cake, dualpi2, fq, drr, tdrr, qsdrr, sfq, prio, classes"),
    ("links/0/queue/kind", "rde", "links[0].queue.kind: \"rde\" is not known here; hint: did you mean \"red\"? The kinds are pfifo, bfifo, red, red-1993, pie, blue, codel, fq-codel, fq-pie, cake, dualpi2, fq, drr, tdrr, qsdrr, sfq, prio, classes"),
    ("links/0/queue/kind", "fq_pie", "links[0].queue.kind: \"fq_pie\" is not known here; hint: did you mean \"fq-pie\"? The kinds are pfifo, bfifo, red, red-1993, pie, blue, codel, fq-codel, fq-pie, cake, dualpi2, fq, drr, tdrr, qsdrr, sfq, prio, classes"),
    # A kind that narrows lacks: where to read on, and all kinds.
    ("links/0/queue/kind", "bbr3", "links[0].queue.kind: \"bbr3\" is not known here; hint: narrows has no bbr3, and docs/limits.md says what to use instead; one of pfifo, bfifo, red, red-1993, pie, blue, codel, fq-codel, fq-pie, cake, dualpi2, fq, drr, tdrr, qsdrr, sfq, prio, classes"),
    ("links/0/queue", {"kind": "cake", "overhead": -65}, "links[0].queue.overhead: must be at least -64"),
    ("links/0/queue", {"kind": "cake", "mpu": "300 B"}, "links[0].queue.mpu: must be at most \"256 B\""),
    ("links/0/queue", {"kind": "cake", "tins": "diffserv5"}, "links[0].queue.tins: \"diffserv5\" is not known here; hint: did you mean \"diffserv"),
    # A part of a key, and what others call it.
    ("traffic/0/quic", {}, "traffic[0].quic: is not a known key; hint: traffic over QUIC has kind = \"page\" and transport = \"quic\""),
    ("traffic/0/ecn", 1, "traffic[0].ecn: is not a known key; hint: did you mean \"ecn_share\"?"),
    ("transport", "tls", "transport: is not a known key; hint: it is a key of [[traffic]] or [[dns]], such as traffic.NAME.transport"),
    ("delay", "5 ms", "delay: is not a known key; hint: it is a key of [[links]], such as links.NAME.delay"),
    ("dns/0/transport", {"kind": "udp", "timeout": "5 s"}, "dns[0].transport.timeout: is not a known key; hint: did you mean \"retry\"?"),
    ("dns/0/arrivals", {"per_second": "5"}, "dns[0].arrivals.per_second: is not a number; hint: write it without quotation marks: 5"),
    ("dns/0/arrivals", {"qps": 5}, "dns[0].arrivals.qps: is not a known key; hint: did you mean \"per_second\"?"),
    ("traffic/0/congestion", "cubic", "traffic[0].congestion: is not a known key; hint: it is a key of the table tcp: tcp = { congestion = \"cubic\" }"),
    ("monitor/queues", ["left.forward"], "monitor.queues: is not a table; hint: write a table; its keys are links, rate"),
    ("links/0/latency", "5 ms", "links[0].latency: is not a known key; hint: did you mean \"delay\"?"),
    ("links", {}, "links: is not an array"),
    ("name", "two words", "name: is not a valid name; hint: 1 to 64 letters"),
    ("seed", -1, "seed: must be at least 0"),
    ("seed", 2**70, "seed: "),
    ("end", "dsn", "end: \"dsn\" is not known here; hint: did you mean \"dns\""),
    # Impossible values.
    ("duration", "0 s", "duration: must be above zero"),
    ("links/0/rate", "0 Mbit/s", "links[0].rate: \"0 Mbit/s\" must be above zero"),
    ("links/0/queue/limit", "0 B", "links[0].queue.limit: must be above zero"),
    ("links/0/queue", {"kind": "pfifo", "limit": 0}, "links[0].queue.limit: must be at least 1"),
    ("links/0/queue/min", "262374 B", "links[0].queue.min: \"262374 B\" is not below max"),
    ("links/0/queue/max", "1 B", "links[0].queue.min: \"74874 B\" is not below max"),
    ("links/0/queue/burst", 53, "links[0].queue.burst: 53 is below min / avpkt, which no weight of the average gives; hint: at least 54"),
    ("links/0/queue/avpkt", "74875 B", "links[0].queue.burst: 98 is more than any weight of the average gives; hint: raise min above avpkt"),
    ("links/0/queue", {"kind": "red", "limit": "11 B", "burst": 1}, "links[0].queue.limit: is too small for a min of its own"),
    ("links/0/queue/burst", 10**9, "links[0].queue.burst: 1000000000 is more than any weight"),
    ("links/0/queue/burst", 2**17, "links[0].queue.min: \"74874 B\" is too large for the weight that burst 131072 asks for"),
    ("links/0/queue/probability", 1e-6, "links[0].queue.probability: is too small for the distance of min and max"),
    ("links/0/queue/bandwidth", "1 bit/s", "links[0].queue.bandwidth: is too low for RED's average to decay by"),
    ("links/0/forward", {"rate": "8 bit/s"}, "links[0].queue.bandwidth: is too low for RED's average"),
    ("links/0/jitter", {"deviation": "3 s"}, "links[0].jitter.deviation: must be at most \"2.147 s\""),
    ("traffic/0/tcp", {"min_rto": "2 s", "max_rto": "1 s"}, "traffic[0].tcp.min_rto: is above max_rto (\"1 s\")"),
    ("traffic/0/tcp", {"min_rto": "1 ms", "timer_granularity": "10 ms"}, "traffic[0].tcp.min_rto: is below timer_granularity"),
    ("traffic/0/tcp", {"recovery": "sack", "reduction": "at-once"}, "traffic[0].tcp.reduction: at-once goes with"),
    ("traffic/0/tcp", {"profile": "ns-2", "recovery": "sack", "reduction": "prr"}, "traffic[0].tcp.recovery: sack needs sack = true, which profile ns-2 does not have"),
    ("traffic/0/tcp", {"recovery": "sack", "sack": False}, "traffic[0].tcp.recovery: sack needs sack = true"),
    ("traffic/0/tcp", {"congestion": "bbr", "slow_start": "hystart++"}, "traffic[0].tcp.slow_start: hystart++ goes with congestion reno or cubic, not bbr; hint: leave slow_start out"),
    ("traffic/0/tcp", {"slow_start": "hystart"}, "traffic[0].tcp.slow_start: \"hystart\" is not known here; hint: did you mean \"hystart++\""),
    ("traffic/0/tcp", {"recovery": "tahoe"}, "traffic[0].tcp.recovery: tahoe does not go with reduction prr, as profile linux-6 has it"),
    ("traffic/0/tcp", {"receive_buffer": "2 kB", "mss": 1460}, "traffic[0].tcp.receive_buffer: must hold two segments"),
    ("links/0/queue/probability", 1.5, "links[0].queue.probability: must be at most 1"),
    ("links/0/queue/probability", 0, "links[0].queue.probability: must be above 0"),
    ("links/0/queue/probability", float("nan"), "links[0].queue.probability: is not a finite number"),
    ("links/0/queue/nodrop", True, "links[0].queue.nodrop: needs ecn = true"),
    ("traffic/0/dscp", "EE", 'traffic[0].dscp: "EE" is no code point'),
    ("traffic/0/dscp", 64, "traffic[0].dscp: must be 0 to 63"),
    ("traffic/0/dscp", 1.5, "traffic[0].dscp: is no code point"),
    ("links/0/loss", -0.1, "links[0].loss: must be at least 0"),
    ("links/0/loss", {"kind": "gilbert-elliott"}, "links[0].loss.p: is missing"),
    ("links/0/loss", {"kind": "gilbert", "p": 0.1}, "links[0].loss.kind: \"gilbert\" is not known here"),
    ("links/0/loss", {"kind": "gilbert-elliott", "p": 0.1, "r": 1.5}, "links[0].loss.r: must be at most 1"),
    ("links/0/jitter", {"deviation": "51 ms"}, "links[0].jitter.deviation: is above the delay of the forward direction"),
    ("links/0/backward", {"jitter": {"deviation": "51 ms"}}, "links[0].backward.jitter.deviation: is above the delay of the backward direction"),
    ("links/0/jitter", {"deviation": "1 ms", "correlation": 25}, "links[0].jitter.correlation: must be at most 1"),
    ("links/0/ring", {}, "links[0].ring: needs either packets or bytes"),
    ("links/0/ring", {"packets": 8, "wake": 8}, "links[0].ring.wake: must be below packets"),
    ("links/0/ring", {"bytes": "1 MB", "wake": 8}, "links[0].ring.wake: is for a ring of packets"),
    ("links/0/ring", {"packets": 80, "bytes": "1 MB"}, "links[0].ring: needs either packets or bytes"),
    ("links/0/mtu", "500 B", "links[0].mtu: must be at least \"576 B\""),
    ("links/0/mtu", "70 kB", "links[0].mtu: must be at most \"65535 B\""),
    ("links/0/middlebox", {}, "links[0].middlebox: lets everything pass"),
    ("links/0/middlebox", {"drop_syn_data": 1}, "links[0].middlebox.drop_syn_data: "),
    ("links/0/middlebox", {"block_tcp_53": "refuse"}, "links[0].middlebox.block_tcp_53: "),
    ("links/0/middlebox", {"drop_dns_above": "0 B"}, "links[0].middlebox.drop_dns_above: must be above zero"),
    ("links/0/framing", "atm", "links[0].framing: is not a known framing; hint: use \"ethernet\""),
    ("links/0/framing", {"overhead": "1 MB"}, "links[0].framing.overhead: must be at most \"1 kB\""),
    ("links/0/between", ["r1", "r1"], "links[0].between: joins a node with itself"),
    ("links/0/between", ["r1"], "links[0].between[1]: is missing"),
    ("traffic/0/ecn_share", 2, "traffic[0].ecn_share: must be at most 1"),
    ("traffic/0/pairs", [["a", "b"]], "traffic[0].pairs: excludes sender and receiver"),
    ("traffic/0/start", "10 s", "traffic[0].start: \"10 s\" is not before the end of the run"),
    ("traffic/0/tcp", {"profile": "linux-5"}, "traffic[0].tcp.profile: \"linux-5\" is not known here; hint: did you mean \"linux-7\" or \"linux-6\""),
    ("traffic/0/tcp", {"acks": {"delayed": "2 s"}}, "traffic[0].tcp.acks.delayed: must be at most \"1 s\""),
    ("traffic/0/tcp", {"congestion": "BBR"}, "traffic[0].tcp.congestion: \"BBR\" is not known here; hint: did you mean \"bbr\""),
    ("traffic/0/tcp", {"acks": "evry-segment"}, "traffic[0].tcp.acks: \"evry-segment\" is not known here; hint: did you mean \"every-segment\""),
    ("dns/0/transport", {"kind": "udp", "retry": "window"}, "dns[0].transport.retry: \"window\" is not known here; hint: did you mean \"windows\""),
    ("dns/0/transport", {"kind": "udp", "retry": "5 s"}, "dns[0].transport.retry: \"5 s\" is not known here; hint: one of windows, windows-7, windows-10, bind, dig, glibc, kdig, knot-resolver, musl, pdns-recursor, systemd-resolved, unbound; or a list of times, such as [\"5 s\", \"5 s\"]"),
    ("dns/0/transport", {"kind": "udp", "retry": 5}, "dns[0].transport.retry: is not one of the known words; hint: one of windows, windows-7, windows-10, bind, dig, glibc, kdig, knot-resolver, musl, pdns-recursor, systemd-resolved, unbound; or a list of times"),
    ("dns/0/transport", {"kind": "udp", "retry": ["1 s", 2]}, "dns[0].transport.retry[1]: is a number without a unit"),
    ("dns/0/transport", {"kind": "udp", "retry": []}, "dns[0].transport.retry: is empty"),
    ("dns/0/query_size", "30 B", "dns[0].query_size: must be \"40 B\" to \"1500 B\""),
    ("dns/0/server", "b", "dns[0].server: is also the client"),
    ("monitor/queues/rate", "10", "monitor.queues.rate: is not a number; hint: write it without quotation marks: 10"),
    ("monitor/queues/rate", 0, "monitor.queues.rate: must be at least 1e-06"),
    # Between tables.
    ("links/1/name", "bottleneck", "links[1].name: \"bottleneck\" is taken by links[0]"),
    ("dns/0/name", "data", "dns[0].name: \"data\" is taken by traffic[0]"),
    ("traffic/0/sender", "aa", "traffic[0].sender: \"aa\" is not a node; hint: "),
    ("traffic/0/sender", "b", "traffic[0].receiver: joins a node with itself"),
    ("nodes", {"hosts": ["a", "b"], "routers": ["r1"]}, "links[0].between[1]: \"r2\" is not among nodes.hosts and nodes.routers; hint: one of a, b, r1"),
    ("nodes", {"hosts": ["a", "a"]}, "nodes.hosts[1]: \"a\" is declared twice"),
    ("nodes", {"hosts": ["a", "b", "r1", "r2"]}, "traffic[0].receiver: there is no path from \"a\" to \"b\""),
    ("links/2/between", ["c", "b"], "traffic[0].receiver: there is no path from \"a\" to \"b\""),
    ("monitor/queues/links", ["bottlneck.forward"], "monitor.queues.links[0]: \"bottlneck.forward\" is not a link; hint: did you mean \"bottleneck.forward\""),
    ("monitor/flows", ["dta"], "monitor.flows.groups[0]: \"dta\" is not a group; hint: did you mean \"data\"?"),
    ("monitor/flows", ["data", "dns"], "monitor.flows.groups[1]: \"dns\" has no TCP or QUIC connections; hint: such as \"data\""),
    ("monitor/flows", {"groups": ["d*", "x*"]}, "monitor.flows.groups[1]: \"x*\" is not a group; hint: "),
    ("monitor/flows", "data", "monitor.flows: is not an array; hint: put it in brackets: [\"data\"]"),
    ("monitor/flows", [], "monitor.flows: is empty"),
    ("monitor/flows", {"rate": 2}, "monitor.flows.groups: is missing"),
    ("monitor/flows", {"groups": ["data"], "rate": 0}, "monitor.flows.rate: must be at least 1e-06"),
    ("monitor/flows", {"groups": ["d*"], "rate": 5}, None),
    ("monitor/capture", ["nothing*"], "monitor.capture[0]: \"nothing*\" is not a link"),
    ("end", "dns", None),
    # Counts that no machine holds, refused before anything is built.
    ("traffic/0/connections", 10**12, "traffic[0].connections: must be at most 100000"),
    ("dns/0/workers", 10**12, "dns[0].workers: must be at most 100000"),
    ("dns/0/queries", 10**9, "dns[0].queries: must be at most 10000000"),
    ("monitor/queues/rate", 10**9, "monitor.queues.rate: must be at most 10000"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "value", "expected"), CASES)
def test_message(path: str, value: Any, expected: str | None) -> None:
    values = with_change(path, value)
    if expected is None:
        Scenario.from_dict(values)
        return
    with pytest.raises(ScenarioError) as caught:
        Scenario.from_dict(values, file="case.toml")
    text = str(caught.value)
    assert text.startswith(f"case.toml: {expected}")
    assert "\n" not in text


def test_ending_with_dns_needs_dns() -> None:
    values = with_change("end", "dns")
    values["dns"] = []
    with pytest.raises(ScenarioError, match="end: has no resolver workers to wait for"):
        Scenario.from_dict(values)


def test_totals_are_bounded() -> None:
    values = with_change("dns/0/workers", 10_000)
    values["dns"][0]["queries"] = 10_000
    with pytest.raises(ScenarioError, match=r"dns\[0\]\.queries: brings the queries to 100000000"):
        Scenario.from_dict(values)
    values = with_change("duration", "240 h")
    values["monitor"]["queues"]["rate"] = 10_000
    with pytest.raises(ScenarioError, match=r"monitor\.queues\.rate: brings the samples to"):
        Scenario.from_dict(values)
    values = with_change("traffic/0/connections", 60_000)
    values["monitor"]["flows"] = {"groups": ["data"], "rate": 100}
    with pytest.raises(
        ScenarioError, match=r"monitor\.flows\.rate: brings the samples to 60000000"
    ):
        Scenario.from_dict(values)
    values = with_change("traffic/0/connections", 60_000)
    values["traffic"].append({**values["traffic"][0], "name": "more"})
    with pytest.raises(ScenarioError, match=r"traffic\[1\]\.connections: brings the connections"):
        Scenario.from_dict(values)


def test_red_1993_speaks_one_unit() -> None:
    queue = {"kind": "red-1993", "limit": 100, "min": 25, "max": 75}
    Scenario.from_dict(with_change("links/0/queue", queue))
    with pytest.raises(ScenarioError, match=r'queue\.min: is text where unit is "packets"'):
        Scenario.from_dict(with_change("links/0/queue", {**queue, "min": "37500 B"}))
    with pytest.raises(ScenarioError, match=r"queue\.limit: is a number without a unit"):
        Scenario.from_dict(with_change("links/0/queue", {**queue, "unit": "bytes"}))
    with pytest.raises(ScenarioError, match=r"queue\.min: 80 is not below max \(75\)"):
        Scenario.from_dict(with_change("links/0/queue", {**queue, "min": 80}))


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"name = ", "line 1: is not valid TOML: "),
        (
            b'name = "x\n',
            "line 1, column 10: is not valid TOML: illegal character '\\n'; hint: close the quotation marks",
        ),
        (b"\xff\xfe", "line 1: is not UTF-8; hint: save the file as UTF-8"),
        (b"a = 1\nb = '\xe4'", "line 2: is not UTF-8"),
        (b"\xef\xbb\xbfname = 'x'", "starts with a byte-order mark; hint: "),
        (b'name = "\0"', "line 1, column 9: is not valid TOML: "),
        (b"a = 1\na = 2", "line 2: is not valid TOML: "),
        (b"a = " + b"[" * 5000 + b"]" * 5000, "is nested too deeply"),
        (b"a = " + b"9" * 5000, "is not valid TOML: "),
        (b"a." * 3000 + b"a = 1", "line 1: has a key of more than 32 parts"),
        (b"#" * (2**20 + 1), "is longer than 1 MiB"),
        (b"#" * 2**20 + b"\xff", "is longer than 1 MiB"),
        (b"", "name: is missing"),
    ],
)
def test_text_that_is_no_scenario(tmp_path: Path, content: bytes, expected: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_bytes(content)
    with pytest.raises(ScenarioError) as caught:
        Scenario.load(path)
    assert str(caught.value).startswith(f"{path}: {expected}")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="does not exist; hint: check the path"):
        Scenario.load(tmp_path / "none.toml")
    with pytest.raises(ScenarioError, match="is a directory"):
        Scenario.load(tmp_path)
    with pytest.raises(ScenarioError, match="is not a file name"):
        Scenario.load("nul\0.toml")
    with pytest.raises(ScenarioError, match="cannot be read: File name too long"):
        Scenario.load("x" * 5000)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ScenarioError, match="is not a regular file"):
        Scenario.load(tmp_path / "pipe")
    # A path and a key may hold anything; the message stays one line.
    with pytest.raises(ScenarioError) as caught:
        Scenario.load(tmp_path / "two\nlines\x1b[31m.toml")
    assert str(caught.value).isprintable()
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(ScenarioError, match="is a run folder; hint: give a scenario file"):
        Scenario.load(tmp_path)


def test_a_file_without_read_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("")

    # Root may read anything, so the refusal is the operating system's in name only.
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(ScenarioError, match="cannot be read: permission denied; hint: check its"):
        Scenario.load(path)


def test_a_missing_file_that_is_named_like_an_example(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="hint: narrows examples copy dns-behind-red copies"):
        Scenario.load(tmp_path / "dns-behind-red.toml")

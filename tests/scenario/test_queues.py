"""Every queue of the language is one that the simulator takes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from narrows import Scenario, ScenarioError, _core
from narrows.scenario import queues
from narrows.scenario.overrides import override

from .test_bad_input import with_change

NEEDED: dict[str, dict[str, Any]] = {
    "pfifo": {"limit": 10},
    "bfifo": {"limit": "9 kB"},
    "red": {"limit": "400 kB"},
    "red-1993": {"limit": 60, "min": 10, "max": 30},
    "blue": {"limit": 60},
    "prio": {"bands": [{"name": "rest"}]},
    "classes": {"classes": [{"name": "rest"}]},
}
KINDS = [kind for kind in queues.DISCIPLINES if kind not in ("plugin", "tc")]
"""A plugin's queue runs only with its shared object (tests/runs/test_own_queues.py), and `tc` only
on kernels (tests/kernel/test_tc.py)."""


def scenario(queue: dict[str, Any]) -> Scenario:
    return Scenario.from_dict(with_change("links/0/queue", queue))


def lowered(queue: dict[str, Any]) -> Any:
    plan = scenario(queue).plan()
    simulation = _core.Simulation(json.dumps(plan))
    simulation.advance(2_000)
    return plan["links"][0]["queue"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_runs_with_its_defaults(kind: str) -> None:
    queue = {"kind": kind, **NEEDED.get(kind, {})}
    lowered(queue)
    read = scenario(queue)
    assert Scenario.from_dict(json.loads(json.dumps(read.resolved()))) == read


MS = 10**9
RED = {"kind": "red", "limit": "400 kB"}
RED_1993 = {"kind": "red-1993", **NEEDED["red-1993"]}
REST: dict[str, Any] = {"name": "rest"}
DNS: dict[str, Any] = {"name": "dns", "match": [{"protocol": "udp", "port": 53}]}


def inside(queue: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "prio", "bands": [{"name": "all", "queue": queue}]}


@pytest.mark.parametrize(
    ("queue", "plan"),
    [
        # tc-codel(8): limit 1000, target 5 ms, interval 100 ms, noecn.
        (
            {"kind": "codel"},
            {
                "codel": {
                    "limit": 1000,
                    "target": 5 * MS,
                    "interval": 100 * MS,
                    "ecn": False,
                    "ce_threshold": None,
                    "mtu": 1514,
                }
            },
        ),
        # tc-fq_codel(8): limit 10240, flows 1024, target 5 ms, interval 100 ms, quantum 1514, ecn.
        (
            {"kind": "fq-codel"},
            {
                "fq-codel": {
                    "limit": 10_240,
                    "memory_limit": 32 * 2**20,
                    "flows": 1024,
                    "quantum": 1514,
                    "target": 5 * MS,
                    "interval": 100 * MS,
                    "ecn": True,
                    "ce_threshold": None,
                    "ce_threshold_selector": 0,
                    "ce_threshold_mask": 0,
                    "drop_batch": 64,
                    "mtu": 1514,
                    "when_empty": "forget",
                    "idles": True,
                }
            },
        ),
        # tc-fq_pie(8): limit 10240, flows 1024, target 15 ms, tupdate 15 ms, alpha 2, beta 20,
        # noecn, ecn_prob 10 %.
        (
            {"kind": "fq-pie"},
            {
                "fq-pie": {
                    "limit": 10_240,
                    "flows": 1024,
                    "quantum": 1514,
                    "target": 15 * MS,
                    "tupdate": 15 * MS,
                    "jiffy": None,
                    "alpha": 2,
                    "beta": 20,
                    "ecn": False,
                    "ecn_prob": 0.1,
                    "bytemode": False,
                    "dq_rate_estimator": False,
                    "mtu": 1514,
                    "idles": True,
                }
            },
        ),
        # tc-cake(8): unlimited, diffserv3, triple-isolate, rtt 100 ms, noatm, overhead 0 (raw),
        # no-ack-filter, nowash.
        (
            {"kind": "cake"},
            {
                "cake": {
                    "rate": None,
                    "tins": "diffserv3",
                    "isolation": "triple-isolate",
                    "rtt": 100 * MS,
                    "memory_limit": None,
                    "overhead": None,
                    "mpu": 0,
                    "link_layer": "noatm",
                    "ack_filter": "no-ack-filter",
                    "ingress": False,
                    "wash": False,
                    "mtu": 1514,
                }
            },
        ),
        # tc-dualpi2(8): limit 10000, target 15 ms, tupdate 16 ms, alpha 0.16, beta 3.2, coupling
        # factor 2, step 1 ms, drop_on_overload, drop_dequeue, l4s_ect, classic protection 10 %.
        (
            {"kind": "dualpi2"},
            {
                "dualpi2": {
                    "limit": 10_000,
                    "memlimit": None,
                    "target": 15 * MS,
                    "tupdate": 16 * MS,
                    "alpha": 0.16,
                    "beta": 3.2,
                    "coupling_factor": 2,
                    "step_thresh": 1 * MS,
                    "step_packets": None,
                    "min_qlen_step": 0,
                    "drop_on_overload": True,
                    "drop_enqueue": False,
                    "any_ect": False,
                    "classic_protection": 0.1,
                    "mtu": 1514,
                    "idles": True,
                }
            },
        ),
        # tc-fq(8): limit 10000, flow_limit 100, quantum of two packets, initial_quantum of ten, no
        # maxrate, low_rate_threshold 550 kbit, refill_delay 40 ms, orphan_mask 1023, horizon 10 s.
        (
            {"kind": "fq"},
            {
                "fq": {
                    "limit": 10_000,
                    "flow_limit": 100,
                    "quantum": 3028,
                    "initial_quantum": 15_140,
                    "maxrate": None,
                    "low_rate_threshold": 550_000,
                    "refill_delay": 40 * MS,
                    "orphan_mask": 1023,
                    "ce_threshold": None,
                    "horizon": 10_000 * MS,
                    "horizon_drop": True,
                    # Linux 6.1 has none.
                    "bands": False,
                }
            },
        ),
        # tc-pie(8): limit 1000, target 15 ms, tupdate 15 ms, alpha 2, beta 20, noecn, nobytemode.
        (
            {"kind": "pie"},
            {
                "pie": {
                    "limit": 1000,
                    "target": 15 * MS,
                    "tupdate": 15 * MS,
                    "jiffy": None,
                    "alpha": 2,
                    "beta": 20,
                    "ecn": False,
                    "bytemode": False,
                    "dq_rate_estimator": False,
                    "mtu": 1514,
                }
            },
        ),
        # tc-sfq(8): limit 127, depth 127, divisor 1024, the MTU as quantum, no perturbation.
        (
            {"kind": "sfq"},
            {
                "sfq": {
                    "limit": 127,
                    "depth": 127,
                    "divisor": 1024,
                    "flows": 128,
                    "quantum": 1514,
                    "perturb": 0,
                    "headdrop": False,
                }
            },
        ),
    ],
)
def test_defaults_are_those_of_tc(queue: dict[str, Any], plan: Any) -> None:
    assert lowered(queue) == plan


@pytest.mark.parametrize(
    ("queue", "message"),
    [
        ({"kind": "codel", "target": "0 s"}, "queue.target: must be above zero"),
        ({"kind": "codel", "limit": 0}, "queue.limit: must be at least 1"),
        ({"kind": "codel", "intervall": "1 s"}, 'did you mean "interval"?'),
        ({"kind": "blue", "limit": "9 kB"}, 'queue.limit: is text where unit is "packets"'),
        ({"kind": "blue", "limit": 9, "increment": 0.0}, "queue.increment: must be above 0"),
        ({"kind": "blue", "limit": 9, "idle": "onc"}, 'did you mean "once"?'),
        ({"kind": "sfq", "divisor": 1000}, "queue.divisor: is no power of two; hint: 512 or 1024"),
        ({"kind": "sfq", "depth": 128}, "queue.depth: must be at most 127"),
        ({"kind": "sfq", "quantum": "1 MB"}, 'queue.quantum: must be at most "262136 B"'),
        ({"kind": "drr", "quantum": "0 B"}, "queue.quantum: must be above zero"),
        ({"kind": "drr", "longest_by": "bits"}, 'queue.longest_by: "bits" is not known here'),
        ({"kind": "drr", "weight": 0.5}, "queue.weight: is not a known key"),
        ({"kind": "tdrr", "weight": 1.0}, "queue.weight: must be below 1"),
        ({"kind": "tdrr", "sample": "0 s"}, "queue.sample: must be above zero"),
        ({"kind": "tdrr", "sample": 3}, "queue.sample: is a number without a unit"),
        ({"kind": "tdrr", "sample": "packets"}, 'queue.sample: "packets" does not start with a'),
        ({"kind": "qsdrr", "when_empty": "forget"}, "queue.when_empty: "),
        ({"kind": "fq-codel", "when_empty": "undefine"}, "queue.when_empty: "),
        ({**RED_1993, "adaptive": 1}, "queue.adaptive: is not a table"),
        ({**RED_1993, "adaptive": {"alpha": 0.0}}, "queue.adaptive.alpha: must be above 0"),
        ({**RED_1993, "adaptive": {"apha": 1}}, 'did you mean "alpha"?'),
        ({"kind": "fq-codel", "flows": 0}, "queue.flows: must be at least 1"),
        ({"kind": "fq-codel", "quantum": "100 B"}, 'queue.quantum: must be at least "256 B"'),
        (
            {"kind": "dualpi2", "limit": 50, "step_packets": 50},
            "queue.step_packets: is not below limit, so that the step would never mark; "
            "hint: at most 49, or a higher limit",
        ),
        (
            {"kind": "dualpi2", "classic_protection": 10},
            "queue.classic_protection: must be at most",
        ),
        ({"kind": "dualpi2", "ecn": True}, "queue.ecn: is not a known key"),
        (
            {"kind": "fq", "orphan_mask": 1000},
            "queue.orphan_mask: is not one less than a power of two; hint: 511 or 1023",
        ),
        ({"kind": "fq", "maxrate": "0 bit/s"}, "queue.maxrate: "),
        (
            {"kind": "fq-codel", "ce_threshold_selector": 1, "ce_threshold_mask": 3},
            "queue.ce_threshold_mask: goes with ce_threshold",
        ),
        (
            {"kind": "fq-codel", "ce_threshold": "1 ms", "ce_threshold_selector": 1},
            "queue.ce_threshold_selector: has bits that ce_threshold_mask lacks",
        ),
        ({"kind": "pie", "alpha": 33}, "queue.alpha: must be at most 32"),
        ({"kind": "pie", "tupdate": "0 s"}, "queue.tupdate: must be above zero"),
        ({"kind": "prio"}, "queue.bands: is missing"),
        ({"kind": "prio", "bands": []}, "queue.bands: is empty"),
        ({"kind": "prio", "bands": [REST] * 65}, "queue.bands: is longer than 64"),
        ({"kind": "prio", "bands": [DNS, DNS]}, 'queue.bands[1].name: "dns" is taken'),
        ({"kind": "prio", "bands": [REST, DNS]}, "queue.bands[0].match: is missing, so that"),
        ({"kind": "prio", "bands": [{**REST, "rate": "1 Mbit/s"}]}, "rate: is not a known key"),
        (
            {"kind": "prio", "bands": [{**DNS, "match": [{"prot": 53}]}, REST]},
            'queue.bands[0].match[0].prot: is not a known key; hint: did you mean "port" or',
        ),
        (
            {"kind": "prio", "bands": [{**DNS, "match": [{"port": 0}]}, REST]},
            "queue.bands[0].match[0].port: must be at least 1",
        ),
        (
            {"kind": "prio", "bands": [{**DNS, "match": [{}]}, REST]},
            "queue.bands[0].match[0]: matches every packet",
        ),
        (
            {
                "kind": "prio",
                "bands": [{**DNS, "match": [{"min_bytes": "9 B", "max_bytes": "8 B"}]}],
            },
            "queue.bands[0].match[0].min_bytes: is above max_bytes",
        ),
        (
            {"kind": "prio", "bands": [{**REST, "queue": {"kind": "code"}}]},
            'queue.bands[0].queue.kind: "code" is not known here; hint: did you mean "codel"?',
        ),
        (
            {"kind": "prio", "bands": [{**REST, "queue": {"kind": "codel", "limt": 1}}]},
            'queue.bands[0].queue.limt: is not a known key; hint: did you mean "limit"?',
        ),
        (
            {"kind": "classes", "classes": [{**REST, "rate": "1 Mbit/s"}]},
            "queue.classes[0].burst: is missing beside rate",
        ),
        (
            {"kind": "classes", "classes": [{**REST, "burst": "9 kB"}]},
            "queue.classes[0].burst: goes with rate",
        ),
        (
            {"kind": "classes", "classes": [{**REST, "rate": "1 Mbit/s", "burst": "1 B"}]},
            'queue.classes[0].burst: must be at least "1500 B"',
        ),
        (inside(inside(inside(inside({"kind": "codel"})))), "more than 4 deep"),
        (
            {"kind": "prio", "bands": [{**REST, "queue": {**RED, "bandwidth": "8 bit/s"}}]},
            "queue.bands[0].queue.bandwidth: is too low for RED's average to decay by",
        ),
        ({"kind": "code"}, 'queue.kind: "code" is not known here; hint: did you mean "codel"?'),
    ],
)
def test_impossible_settings_are_refused(queue: dict[str, Any], message: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        scenario(queue)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_variants_come_to_the_plan() -> None:
    """Every setting that is not a number, away from its default."""
    blue = lowered({"kind": "blue", "unit": "bytes", "limit": "9 kB", "idle": "once", "ecn": True})
    assert blue["blue"]["limit"] == 9000
    assert (blue["blue"]["unit"], blue["blue"]["idle"]) == ("bytes", "once")
    fair = {"buckets": 16, "longest_by": "packets", "ties": "newest", "drop_from": "tail"}
    assert fair.items() <= lowered({"kind": "drr", **fair})["drr"].items()
    keep = {**fair, "when_empty": "keep"}
    assert keep.items() <= lowered({"kind": "qsdrr", **keep})["qsdrr"].items()
    for sample, plan in (("packet", "packet"), ("50 ms", {"interval": 50 * MS})):
        assert lowered({"kind": "tdrr", "sample": sample})["tdrr"]["sample"] == plan


def test_queues_inside_queues_come_to_the_plan() -> None:
    conditions = {"protocol": "tcp", "sport": 80, "dport": 8080, "ecn": True}
    sizes = {"min_bytes": "100 B", "max_bytes": "900 B"}
    shaped = {
        "name": "web",
        "match": [{**conditions, **sizes}],
        "rate": "2 Mbit/s",
        "burst": "9 kB",
        "queue": RED,
    }
    plan = lowered(
        {
            "kind": "prio",
            "bands": [
                {**DNS, "queue": {"kind": "pfifo", "limit": 5}},
                {**REST, "queue": {"kind": "classes", "classes": [shaped, REST]}},
            ],
        }
    )
    unset = {
        "port": None,
        "sport": None,
        "dport": None,
        "min_bytes": None,
        "max_bytes": None,
        "dscp": None,
        "source": None,
        "destination": None,
    }
    dns, rest = plan["prio"]["bands"]
    assert dns == {
        "name": "dns",
        "match": [{**unset, "protocol": "udp", "port": 53, "ecn": None}],
        "queue": {"pfifo": {"limit": 5}},
    }
    web, other = rest["queue"]["classes"]["classes"]
    whole = {**conditions, "port": None, "min_bytes": 100, "max_bytes": 900, "dscp": None}
    whole |= {"source": None, "destination": None}
    assert web["match"] == [whole]
    assert (web["rate"], web["burst"]) == (2_000_000, 9000)
    # RED's average decays by the rate that serves it.
    assert web["queue"]["red"]["bandwidth"] == 2_000_000
    assert other == {
        "name": "rest",
        "match": [],
        "rate": None,
        "burst": None,
        "queue": {"pfifo": {"limit": 1000}},
    }


def test_adaptive_red_has_the_settings_of_its_paper() -> None:
    """Floyd, Gummadi and Shenker 2001, section 4."""
    own = {"interval": 500 * MS, "alpha": 0.01, "beta": 0.9, "top": 0.5, "bottom": 0.01}
    assert lowered({**RED_1993, "adaptive": True})["red-1993"]["adaptive"] == own
    assert lowered({**RED_1993, "adaptive": False})["red-1993"]["adaptive"] is None
    queue = {**RED_1993, "adaptive": {"interval": "1 s", "beta": 0.8}}
    assert lowered(queue)["red-1993"]["adaptive"] == {**own, "interval": 1000 * MS, "beta": 0.8}
    read = scenario(queue)
    assert Scenario.from_dict(json.loads(json.dumps(read.resolved()))) == read


def test_inner_queues_can_be_set_by_name() -> None:
    queue = {"kind": "prio", "bands": [DNS, {**REST, "queue": {"kind": "codel"}}]}
    text = "links.bottleneck.queue.bands.rest.queue.target"
    values = with_change("links/0/queue", queue)
    override(values, text, '"20 ms"', "")
    assert values["links"][0]["queue"]["bands"][1]["queue"]["target"] == "20 ms"
    assert Scenario.from_dict(values)


def test_buckets_of_all_queues_together_are_bounded() -> None:
    values = with_change("links/0/queue", {"kind": "fq-codel", "flows": 65_536})
    values["links"] += [
        {**values["links"][0], "name": f"l{n}", "between": [f"x{n}", "r1"]} for n in range(40)
    ]
    with pytest.raises(ScenarioError, match=r"brings the buckets of all queues to 5111808"):
        Scenario.from_dict(values)


def test_copies_of_a_large_queue_are_bounded() -> None:
    bands = [{"name": f"b{n}", "match": [{"port": 1}] * 60} for n in range(60)]
    values = with_change("links/0/queue", {"kind": "prio", "bands": bands})
    link = {**values["links"][0], "name": "l{i}", "between": ["h{i}", "r1"], "count": 10_000}
    values["links"].append(link)
    with pytest.raises(ScenarioError, match=r"links\[3\]\.count: makes more values than"):
        Scenario.from_dict(values)

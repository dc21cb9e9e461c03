"""Scenarios lower to plans that conform to the simulator's JSON schema."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from narrows import Scenario, _core
from narrows.scenario import KINDS, PROFILES, SCHEDULES

from .test_bad_input import CASES, FTP, GOOD, ON_OFF, with_change
from .test_lowering import TEXT
from .test_properties import RICH

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
FILES = sorted(
    [*ROOT.glob("scenarios/*.toml"), *ROOT.glob("python/narrows/reproduce/*/scenarios/*.toml")]
)
SCHEMA = json.loads(_core.plan_schema())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def check(scenario: Scenario) -> dict[str, Any]:
    """The scenario's plan, after a check against the schema and by the simulator."""
    plan = scenario.plan()
    text = json.dumps(plan)
    VALIDATOR.validate(shortened(json.loads(text)))
    assert _core.check_plan(text) == []
    return plan


def shortened(part: Any) -> Any:
    """A plan with only the ends of its long lists; the validator takes a second for 1000 links."""
    if isinstance(part, dict):
        return {key: shortened(value) for key, value in part.items()}
    if isinstance(part, list):
        return [shortened(entry) for entry in (part if len(part) <= 20 else part[:10] + part[-10:])]
    return part


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["title"] == "Plan"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_files(path: Path) -> None:
    check(Scenario.load(path))


@pytest.mark.parametrize("path", sorted(ROOT.glob("fuzz/plans/*.toml")), ids=lambda path: path.stem)
def test_the_fuzzer_starts_from_plans_of_today(path: Path) -> None:
    plan = json.loads(json.dumps(check(Scenario.load(path))))
    assert json.loads(path.with_suffix(".json").read_text(encoding="utf-8")) == plan, (
        "python tools/fuzz_plans.py"
    )


def test_the_fuzzer_starts_from_every_kind_of_traffic() -> None:
    traffic = Scenario.load(ROOT / "fuzz" / "plans" / "kinds.toml").resolved()["traffic"]
    assert {group["kind"] for group in traffic} == set(KINDS)


def test_every_kind_of_traffic_is_in_a_file() -> None:
    kinds = {group["kind"] for path in FILES for group in Scenario.load(path).resolved()["traffic"]}
    assert kinds == set(KINDS)


@pytest.mark.parametrize("path", sorted({path for path, _, message in CASES if message is None}))
def test_values_at_their_bounds(path: str) -> None:
    for changed, value, message in CASES:
        if (changed, message) == (path, None):
            check(Scenario.from_dict(with_change(path, value)))


def test_scenarios_that_have_a_bit_of_everything() -> None:
    for scenario in (Scenario.parse(TEXT), Scenario.from_dict(GOOD), Scenario.from_dict(RICH)):
        check(scenario)


def places(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all keys of all tables."""
    entries = node.items() if isinstance(node, dict) else enumerate(node)
    for key, value in entries:
        if isinstance(node, dict):
            yield (*path, key)
        if isinstance(value, dict | list):
            yield from places(value, (*path, key))


def test_the_schema_refuses_what_the_simulator_does_not_know() -> None:
    plan = Scenario.parse(TEXT).plan()
    optional = 0
    for *above, key in places(plan):
        changed = copy.deepcopy(plan)
        table: Any = changed
        for step in above:
            table = table[step]
        value = table.pop(key)
        if VALIDATOR.is_valid(changed):
            # A key that may be left out: null means the same, and so does its default.
            optional += 1
        else:
            (why,) = _core.check_plan(json.dumps(changed))
            assert re.search(r"missing field|expected|variant|line 1", why), why
        table[f"{key}-"] = value
        assert not VALIDATOR.is_valid(changed), (above, key)
        (why,) = _core.check_plan(json.dumps(changed))
        assert re.search(r"unknown field|unknown variant|missing field", why), why
    assert optional < 60


SPANS = st.integers(0, 2 * 10**9).map("{} ns".format)
RATES = st.integers(10**5, 10**9).map("{} bit/s".format)
SIZES = st.integers(1, 10**6).map("{} B".format)
ECN = st.booleans()

QUEUES = st.one_of(
    st.fixed_dictionaries({"kind": st.just("pfifo"), "limit": st.integers(1, 1000)}),
    st.just({"kind": "bfifo", "limit": "90 kB"}),
    st.fixed_dictionaries(
        {
            "kind": st.just("red"),
            "limit": st.just("400 kB"),
            "avpkt": st.just("1000 B"),
            "probability": st.floats(0.01, 1.0),
            "ecn": ECN,
        },
    ),
    st.fixed_dictionaries(
        {"kind": st.just("red-1993"), "limit": st.just(100), "min": st.just(5), "max": st.just(20)},
        optional={"adaptive": st.just(True), "gentle": ECN},
    ),
    st.fixed_dictionaries(
        {"kind": st.sampled_from(["codel", "fq-codel", "fq-pie", "pie"]), "ecn": ECN}
    ),
    st.fixed_dictionaries(
        {"kind": st.just("cake"), "isolation": st.sampled_from(["hosts", "dual-srchost"])},
        optional={"rate": RATES, "overhead": st.integers(-64, 256), "wash": ECN},
    ),
    st.fixed_dictionaries(
        {"kind": st.sampled_from(["blue", "drr", "tdrr", "qsdrr", "sfq"]), "limit": st.just(99)}
    ),
    st.just(RICH["links"][0]["queue"]),
    st.just(RICH["links"][1]["queue"]),
)
MTUS = st.integers(576, 65_535).map("{} B".format)
DROPS = {
    "drop_dns_above": st.integers(1, 65_507).map("{} B".format),
    "drop_fragments": ECN,
    "drop_too_big": ECN,
    "block_tcp_53": st.sampled_from(["drop", "reject"]),
}
# A middlebox that lets everything pass is refused.
MIDDLEBOXES = st.fixed_dictionaries({}, optional=DROPS).filter(lambda box: any(box.values()))
SHARES = st.floats(0.0, 1.0)
BURSTS = st.fixed_dictionaries(
    {"kind": st.just("gilbert-elliott"), "p": SHARES},
    optional={"r": SHARES, "loss_bad": SHARES, "loss_good": SHARES},
)
LINK = st.fixed_dictionaries(
    {"rate": RATES, "delay": SPANS},
    optional={
        "queue": QUEUES,
        "ring": st.one_of(
            st.fixed_dictionaries({"packets": st.integers(1, 512)}), st.just({"bytes": "9 kB"})
        ),
        "loss": SHARES | BURSTS,
        "framing": st.sampled_from(["ethernet", {"overhead": "20 B", "min": "64 B"}]),
        "dns_exempt": ECN,
        "mtu": MTUS,
        "middlebox": MIDDLEBOXES,
        "backward": st.fixed_dictionaries(
            {}, optional={"rate": RATES, "queue": QUEUES, "mtu": MTUS, "middlebox": MIDDLEBOXES}
        ),
    },
)
CHANGES = [
    {"at": "3 s", "link": "l0", "queue": {"kind": "codel"}, "loss": 0.1},
    {"at": "4 s", "link": "l2", "jitter": {"deviation": "0 s"}},
]
FLOWS = {
    "start": SPANS,
    "spread": SPANS,
    "stagger": st.sampled_from(["even", "random"]),
    "stop": st.integers(5, 9).map("{} s".format),
    "connections": st.integers(1, 4),
    "ecn_share": st.floats(0.0, 1.0),
    "tcp": st.fixed_dictionaries({"profile": st.sampled_from(PROFILES)}),
    "opener": st.sampled_from(["sender", "receiver"]),
    "route": st.just(["r1", "r2"]),
}
DRAWN = {
    "burst": st.one_of(
        SIZES,
        st.lists(SIZES, min_size=1, max_size=3),
        st.just({"distribution": "pareto", "mean": "9 kB", "shape": 1.5}),
    ),
    "idle": st.one_of(SPANS, st.just({"distribution": "exponential", "mean": "1 s"})),
}


def group(*given: dict[str, Any], **drawn: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    fixed = {key: st.just(value) for table in given for key, value in table.items()}
    return st.fixed_dictionaries({**fixed, **drawn}, optional=FLOWS)


ENDS = {"sender": "a", "receiver": "b"}
GROUPS = st.one_of(
    group(ENDS, {"kind": "bulk"}),
    group(ENDS, {"kind": "once"}, size=SIZES),
    group(ON_OFF, **DRAWN),
    group(FTP, file=DRAWN["burst"], pause=DRAWN["idle"]),
    group({"kind": "ftp", "servers": ["a", "r1"], "clients": ["b"]}, file=SIZES),
    st.fixed_dictionaries(
        {"kind": st.just("udp"), "sender": st.just("a"), "receiver": st.just("b"), "rate": RATES},
        optional={"spacing": st.sampled_from(["even", "poisson"]), "packet": st.just("3 kB")},
    ),
    st.fixed_dictionaries(
        {
            "kind": st.sampled_from(["ping", "voip"]),
            "sender": st.just("a"),
            "receiver": st.just("b"),
        }
    ),
    st.fixed_dictionaries(
        {"kind": st.just("incast"), "client": st.just("b"), "servers": st.just(["a", "r1"])}
        | {"block": DRAWN["burst"]},
        optional={"rounds": st.integers(1, 9), "pause": DRAWN["idle"], "reuse": ECN},
    ),
    st.fixed_dictionaries(
        {"kind": st.just("page"), "client": st.just("b"), "server": st.just("a")}
        | {"profile": st.just("desktop-2024")},
        optional={
            "browsers": st.integers(1, 9),
            "protocol": st.sampled_from(["http/1.1", "http/2"]),
            "transport": st.sampled_from(["tcp", "tls"]),
        },
    ),
    st.fixed_dictionaries(
        {"kind": st.just("page"), "client": st.just("b"), "server": st.just("a")}
        | {"profile": st.just("desktop-2024"), "transport": st.just("quic")},
        optional={
            "quic": st.fixed_dictionaries(
                {"payload": st.just("1452 B")},
                optional={
                    "congestion": st.sampled_from(
                        ["new-reno", "cubic", "bbr", "bbr-v3", "dctcp", "prague"]
                    ),
                    "pacing": st.booleans(),
                },
            ),
            "tls": st.just({"resume": True, "early_data": True, "certificates": ["900 B"]}),
        },
    ),
)
FLOODS = st.fixed_dictionaries(
    {"kind": st.just("flood"), "source": st.just("b"), "server": st.just("a")}
    | {"per_second": st.integers(1, 10**6)},
    optional={"of": st.sampled_from(["syns", "queries"]), "addresses": st.integers(1, 65_536)},
)
TRANSFERS = st.fixed_dictionaries(
    {"kind": st.just("transfer"), "secondaries": st.just(["b", "r1"]), "server": st.just("a")}
    | {"zone": st.sampled_from(["1 B", "1 MB"])},
    optional={"at": st.just(["0 s", "3 s"]), "records_per_message": st.integers(1, 9)},
)
LENGTHS = st.one_of(
    st.integers(12, 65_535).map("{} B".format),
    st.just(["100 B", "3 kB"]),
    st.just({"distribution": "pareto", "mean": "900 B", "shape": 1.5}),
)
ASKED = {
    "workers": st.integers(1, 9),
    "service_jitter_mean": SPANS,
    "route_back": st.just(["r1"]),
    "answers": st.fixed_dictionaries(
        {}, optional={"profile": st.sampled_from(["bind", "nsd", "unbound"]), "in_order": ECN}
    ),
    "messages": st.one_of(
        st.just("root"),
        st.just([{"query": "45 B", "reply": "1163 B", "weight": 2.0}]),
        st.fixed_dictionaries({"query": st.just("45 B"), "reply": LENGTHS}),
    ),
    "gives_up": st.just("9 s"),
}
WAYS = st.one_of(
    st.just({}),
    st.fixed_dictionaries(
        {
            "transport": st.fixed_dictionaries(
                {"kind": st.just("udp"), "retry": st.sampled_from([*SCHEDULES, ["1 s", "2 s"]])}
            )
        }
    ),
    st.fixed_dictionaries({"profile": st.sampled_from(["unbound", "bind", "glibc", "dig"])}),
    st.fixed_dictionaries({"transport": st.just("tcp")}),
    st.just({"transport": {"kind": "tcp", "reuse": True, "pipelining": True, "tries": 2}}),
)
DNS = st.builds(
    lambda asked, direction: {"client": "b", "server": "a", "queries": 3, **asked, **direction},
    st.fixed_dictionaries({}, optional=ASKED),
    WAYS,
)


@settings(deadline=None, max_examples=60)
@given(
    links=st.tuples(LINK, LINK, LINK),
    groups=st.lists(GROUPS, max_size=3),
    floods=st.lists(st.one_of(FLOODS, TRANSFERS), max_size=2),
    dns=st.lists(DNS, max_size=2),
    seed=st.integers(0, 2**63 - 1),
)
def test_any_scenario(
    links: tuple[dict[str, Any], ...],
    groups: list[dict[str, Any]],
    floods: list[dict[str, Any]],
    dns: list[dict[str, Any]],
    seed: int,
) -> None:
    # Floods and zone transfers need a server.
    groups = groups + (floods if dns else [])
    # RFC 9000, 14: the simulator refuses QUIC where a first link takes less than 1228 bytes.
    directions = [
        direction
        for link in links
        for direction in (link, link.get("forward", {}), link.get("backward", {}))
    ]
    if any(
        int(direction["mtu"].removesuffix(" B")) < 1228
        for direction in directions
        if "mtu" in direction
    ):
        groups = [group for group in groups if group.get("transport") != "quic"]
    ends = [["a", "r1"], ["r1", "r2"], ["r2", "b"]]
    # The shortest messages of real zones are too short for a capture.
    captured = [] if any("messages" in group for group in dns) else ["l1"]
    values = {
        "name": "any",
        "seed": seed,
        "duration": "10 s",
        "links": [
            {**link, "name": f"l{number}", "between": between}
            for number, (link, between) in enumerate(zip(links, ends, strict=True))
        ],
        "traffic": [{**group, "name": f"t{number}"} for number, group in enumerate(groups)],
        "dns": [{**each, "name": f"d{number}"} for number, each in enumerate(dns)],
        "monitor": {"queues": {"links": ["*"], "rate": 7}, "capture": captured},
        "changes": [{"at": "2 s", "link": "l1", "rate": "1 Mbit/s"}, *CHANGES],
    }
    plan = check(Scenario.from_dict(values))
    asking = sum(group["kind"] in ("incast", "page") for group in groups)
    assert len(plan["applications"]) == len(groups) + asking + 2 * len(dns)

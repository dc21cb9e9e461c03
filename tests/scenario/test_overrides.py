"""Overrides by dotted key."""

from __future__ import annotations

import pytest

from narrows import Scenario, ScenarioError

TEXT = """
name = "two-links"
duration = "10 s"
[[links]]
name = "near"
between = ["a", "r"]
rate = "10 Mbit/s"
queue = { kind = "bfifo", limit = "30000 B" }
[[links]]
name = "far"
between = ["r", "b"]
rate = "1 Mbit/s"
[links.forward]
queue = { kind = "pfifo", limit = 50 }
[[dns]]
name = "stubs"
client = "a"
server = "b"
queries = 10
"""
MONITORED = TEXT + '[monitor]\nqueues = { links = ["far.forward"], rate = 10 }\n'


def test_entries_go_by_name_or_index() -> None:
    for key in ("links.far.rate", "links[1].rate", "links.1.rate"):
        assert Scenario.parse(TEXT, set={key: "2 Mbit/s"}).links[1].rate == 2_000_000


def test_the_only_entry_may_be_left_out() -> None:
    assert Scenario.parse(TEXT, set={"dns.queries": "20"}).dns[0].queries == 20
    assert Scenario.parse(TEXT, set={"dns.stubs.queries": "20"}).dns[0].queries == 20


def test_values_are_toml_or_text() -> None:
    changed = Scenario.parse(
        TEXT,
        set={
            "dns.transport.retry": '["1 s", "3 s"]',
            "description": "a = 1\nb = 2",
            "seed": "0x10",
        },
    )
    assert changed.dns[0].timeouts == [10**12, 3 * 10**12]
    assert changed.description == "a = 1\nb = 2"
    assert changed.seed == 16


def test_tables_that_are_not_there_are_made() -> None:
    changed = Scenario.parse(
        TEXT, set={"monitor.links.links": '["far"]', "monitor.links.rate": "2"}
    )
    assert changed.monitor.links is not None
    assert changed.monitor.links.rate == 2


def test_a_direction_takes_over_the_queue_of_the_link() -> None:
    changed = Scenario.parse(TEXT, set={"links.near.forward.queue.limit": "60 kB"})
    near = changed.links[0]
    assert near.direction("forward").queue.limit == 60_000
    assert near.direction("backward").queue.limit == 30_000
    untouched = Scenario.parse(TEXT, set={"links.far.backward.queue.limit": "7"}).links[1]
    assert untouched.direction("backward").queue.limit == 7
    assert untouched.direction("forward").queue.limit == 50


def test_queue_alone_is_the_monitored_one() -> None:
    changed = Scenario.parse(MONITORED, set={"queue.limit": "70"})
    assert changed.links[1].direction("forward").queue.limit == 70
    replaced = Scenario.parse(MONITORED, set={"queue": '{ kind = "bfifo", limit = "9 kB" }'})
    assert replaced.links[1].direction("forward").queue.kind == "bfifo"


def test_another_kind_of_queue_does_not_keep_the_old_ones_keys() -> None:
    with pytest.raises(ScenarioError) as caught:
        Scenario.parse(MONITORED, set={"queue.kind": "fq-codel"}, file="x.toml")
    assert str(caught.value) == (
        "x.toml: queue.kind: would keep settings of pfifo: limit = 50; "
        "hint: another kind needs its whole table: queue='{ kind = \"fq-codel\" }'"
    )
    same = Scenario.parse(MONITORED, set={"queue.kind": "pfifo"})
    assert same.links[1].direction("forward").queue.limit == 50
    bare = MONITORED.replace('kind = "pfifo", limit = 50', 'kind = "pfifo"')
    changed = Scenario.parse(bare, set={"queue.kind": "fq-codel"})
    assert changed.links[1].direction("forward").queue.kind == "fq-codel"


def test_queue_alone_is_the_only_one_that_is_given() -> None:
    one = TEXT.replace('queue = { kind = "pfifo", limit = 50 }', "")
    assert Scenario.parse(one, set={"queue.limit": "9 kB"}).links[0].queue is not None
    with pytest.raises(ScenarioError) as caught:
        Scenario.parse(TEXT, set={"queue.limit": "70"}, file="x.toml")
    assert str(caught.value) == (
        "x.toml: queue.limit: may mean several queues; "
        "hint: one of links.near.queue.limit, links.far.forward.queue.limit"
    )


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("", "is not a key that can be set"),
        (".name", "is not a key that can be set"),
        ("links.", "is not a key that can be set"),
        ("links..rate", "is not a key that can be set"),
        ("[0]", "is not a key that can be set"),
        ("monitor[0].x", "leads into a value that is not a table"),
        ("a" * 501, "is not a key that can be set"),
        ("links.faar.rate", 'has no entry "faar"; hint: did you mean "far"?'),
        ("links.9.rate", 'has no entry "9"'),
        ("links.rate", 'has no entry "rate"; hint: one of near, far, as in links.near.rate'),
        ("links.x.rate", 'has no entry "x"; hint: one of near, far'),
        ("links.far", "is a whole entry; hint: name a key of it"),
        ("faar.rate", "faar: is not a known key; hint: did you mean links.far?"),
        ("far.forward.rate", "far: is not a known key; hint: did you mean links.far?"),
        ("linkz.far.rate", 'is not a known key; hint: did you mean "links"?'),
        (
            "links.far.queue.limit",
            "does not reach forward, which has its own; hint: set links.far.forward.queue.limit",
        ),
        ("links[1].queue", "does not reach forward"),
        ("name.first", "leads into a value that is not a table"),
        ("links.far.raet", "is not a known key"),
        ("monitor.queues.hz", "is not a known key"),
    ],
)
def test_keys_that_lead_nowhere(key: str, message: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        Scenario.parse(TEXT, set={key: "1"})
    assert message in str(caught.value)


def test_a_queue_that_is_not_there() -> None:
    bare = "[[links]]\nname = 'x'\n"
    with pytest.raises(ScenarioError, match="means no queue"):
        Scenario.parse(bare, set={"queue.limit": "1"})

from __future__ import annotations

from typing import Any

import pytest

from narrows import _core
from narrows.probe import ProbeError, Target, plan
from narrows.probe.plan import UNASKED
from narrows.scenario.retry import SCHEDULES


@pytest.mark.parametrize(
    ("server", "address", "port"),
    [
        ("127.0.0.1", "127.0.0.1", None),
        ("127.0.0.1:5353", "127.0.0.1", 5353),
        ("2001:db8::1", "2001:db8::1", None),
        ("[2001:db8::1]", "2001:db8::1", None),
        ("[2001:0db8::1]:53", "2001:db8::1", 53),
        ("localhost:53", "127.0.0.1", 53),
    ],
)
def test_servers_are_read_as_people_write_them(server: str, address: str, port: int | None) -> None:
    (target,) = plan([server], family=4 if "local" in server else None).targets
    assert target == Target(server, address, port)


def test_ports_are_the_transports_own() -> None:
    assert Target("a", "192.0.2.1").port_for("udp") == 53
    assert Target("a", "192.0.2.1", 5353).port_for("tcp") == 5353


@pytest.mark.parametrize(
    ("servers", "settings", "message"),
    [
        ([], {}, "no server is given"),
        (["192.0.2.1:0"], {}, "has no port between 1 and 65535"),
        (["192.0.2.1:x"], {}, "has no port"),
        (["192.0.2.1", "5301"], {}, "5301: is a number, not a server; hint: name the address and"),
        (["192.0.2.1#5301"], {}, "has # before its port; hint: 192.0.2.1:5301"),
        (["192.0.2.1@5301"], {}, "has @ before its port; hint: 192.0.2.1:5301"),
        (["@192.0.2.1"], {}, "@192.0.2.1: begins with @; hint: 192.0.2.1"),
        (["[2001:db8::1"], {}, r"is not \[address\]:port"),
        (["nosuch.invalid"], {}, "does not resolve"),
        (["." * 300], {}, "does not resolve"),
        (["192.0.2.1"], {"transports": ("smoke",)}, "smoke: is unknown; hint: one of udp, tcp"),
        (["192.0.2.1"], {"transports": ("udp", "udp")}, "none is given, or one is given twice"),
        (["192.0.2.1"], {"sources": ("elsewhere",)}, "is not an IP address"),
        (["192.0.2.1"], {"sources": ("192.0.2.9",)}, "is not an address of this machine"),
        (["192.0.2.1"], {"interval_s": -1.0}, "`interval_s`: is not between"),
        (["192.0.2.1"], {"timeout_s": 0.0}, "`timeout_s`: is not between"),
        (["127.0.0.1"], {"retry": "mine"}, "`retry` mine: is unknown; hint: one of windows"),
        (["127.0.0.1"], {"count": 0}, "`count`: is less than 1"),
    ],
)
def test_bad_input_is_one_line(servers: list[str], settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ProbeError, match=message) as caught:
        plan(servers, **settings)
    assert "\n" not in str(caught.value)


def test_retry_schedules_are_those_of_the_scenario_language() -> None:
    assert _core.retry_schedules() == list(SCHEDULES)
    for name, schedule in SCHEDULES.items():
        assert tuple(_core.retry_schedule(name)) == schedule.timeouts_s


def test_others_servers_are_asked_little_and_slowly() -> None:
    sources = tuple(f"127.0.0.{number}" for number in range(1, 40))
    with pytest.raises(ProbeError, match=r"would be asked 780 times; hint: say so with `count="):
        plan(["192.0.2.1"], sources=sources)
    assert plan(["192.0.2.1"], sources=sources, count=10, interval_s=60.0).queries > UNASKED
    with pytest.raises(ProbeError, match=r"10 times a second; hint: `interval_s` of 0.4 s"):
        plan(["192.0.2.1", "192.0.2.1:54"], interval_s=0.1)
    assert plan(["127.0.0.1"], sources=sources, interval_s=0.0).queries == 780
    # The hint's own interval: 28 queries in 2.8 s.
    with pytest.raises(ProbeError, match=r"hint: `interval_s` of 2.8 s or more"):
        plan(["192.0.2.1"], sources=sources[:14], interval_s=2.79)
    assert plan(["192.0.2.1"], sources=sources[:14], interval_s=2.8).queries == 280

"""Where a kernel's fq differs: its bands since Linux 6.7, and the time from which it counts."""

from __future__ import annotations

import os

import pytest

from narrows import Scenario
from narrows.backends import get
from narrows.backends.kernel import fq_differences
from narrows.backends.kernel.inside.agent import network, system
from narrows.backends.kernel.tcp_settings import LINUX_7
from tests.kernel.scenarios import dumbbell

INSIDE = (
    '{{ kind = "prio", bands = [{{ name = "a", match = [{{ protocol = "udp" }}], queue = {fq} }}, '
    '{{ name = "b" }}] }}'
)


def behind(queue: str) -> Scenario:
    return dumbbell(links__bottleneck__forward__queue=queue)


@pytest.mark.parametrize(
    ("queue", "place"), [("{fq}", "queue"), (INSIDE, "queue.bands[0].queue")], ids=["fq", "prio"]
)
def test_a_kernel_with_bands_names_an_fq_without(queue: str, place: str) -> None:
    for settings, expected in (("", 1), (", bands = true", 0)):
        scenario = behind(queue.format(fq=f'{{ kind = "fq"{settings} }}'))
        found = [each for each in get("kernel-7").differences(scenario) if "queue" in each]
        assert len(found) == expected
        assert not get("kernel-7").refusals(scenario)
        assert not get("kernel-virtual").differences(scenario)
        if expected:
            assert found[0].startswith(f"bottleneck.forward: {place}.bands = false is not followed")
            assert "hint: bands = true" in found[0]


def test_a_kernel_without_bands_refuses_them() -> None:
    key = "links.bottleneck.forward.queue.bands"
    scenario = behind('{ kind = "fq", bands = true }')
    for name in ("kernel-virtual", "kernel-2010"):
        found = {refusal.key: refusal for refusal in get(name).refusals(scenario)}
        assert found[key] == (key, "this guest has no bands of fq", "use the backend kernel-7")
    assert not get("kernel-virtual").refusals(behind('{ kind = "fq" }'))


def test_the_kernel_of_this_machine_is_asked_for_its_version(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    key = "links.bottleneck.forward.queue.bands"
    real = os.uname()
    for release, has_bands in (("6.1.0-18-amd64", False), ("6.7.1", True), ("7.0.0-rc1", True)):
        values = (real.sysname, real.nodename, release, real.version, real.machine)
        monkeypatch.setattr(os, "uname", lambda values=values: os.uname_result(values))
        monkeypatch.setattr("platform.release", lambda release=release: release)
        assert system.is_at_least(6, 7) is has_bands
        scenario = behind('{ kind = "fq" }')
        assert len(list(fq_differences.fq_differences(scenario, "host"))) == has_bands
        if not has_bands:
            with pytest.raises(network.NetworkError) as refused:
                network.build({"features": {fq_differences.FEATURE: key}})
            assert str(refused.value) == (
                f"{key}: this kernel has no bands of fq; hint: use the backend kernel-7"
            )
        if release < "7":
            with pytest.raises(network.NetworkError) as refused:
                network.build({"features": {LINUX_7: "traffic.a.tcp.window_growth"}})
            assert str(refused.value) == (
                "traffic.a.tcp.window_growth: this kernel has no TCP of Linux 7; "
                "hint: use the backend kernel-7"
            )


def test_a_threshold_that_counts_from_the_sender_is_named() -> None:
    scenario = behind('{ kind = "fq", bands = true, ce_threshold = "1 ms" }')
    for name in ("kernel-virtual", "kernel-7"):
        (found,) = [each for each in get(name).differences(scenario) if "queue" in each]
        assert found.startswith("bottleneck.forward: queue.ce_threshold counts from TCP's time")

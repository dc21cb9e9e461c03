"""Congestion controls, pacing and accurate ECN: what each kernel has, and what it is told."""

from __future__ import annotations

import errno
import json
from typing import Any

import polars as pl
import pytest

from narrows import Scenario, _core, run
from narrows.backends import BackendError, get
from narrows.backends.kernel import available, tcp_settings
from narrows.backends.kernel.inside.agent import network, system
from tests.kernel.scenarios import DUMBBELL, dumbbell
from tests.kernels import NO_PACKAGE

ALONE = """
name = "alone"
duration = "13 s"
nodes = { hosts = ["server", "client"], routers = ["isp", "home"] }
links = [
    { name = "server", between = ["server", "isp"], rate = "1 Gbit/s" },
    { name = "line", between = ["isp", "home"], rate = "10 Mbit/s", delay = "20 ms", framing = \
"ethernet", queue = { kind = "bfifo", limit = "100 kB" } },
    { name = "client", between = ["home", "client"], rate = "1 Gbit/s" },
]
monitor = { queues = { links = ["line.forward"], rate = 10 } }

# Resolves the neighbours, for which the simulator's packets need not wait.
[[traffic]]
kind = "ping"
name = "first"
pairs = [["server", "client"]]
interval = "1 s"
probes = 1

[[traffic]]
kind = "once"
name = "page"
sender = "server"
receiver = "client"
size = "100 kB"
start = "1 s"
tcp = { timer_granularity = "10 ms" }

[[traffic]]
kind = "bulk"
name = "download"
sender = "server"
receiver = "client"
connections = 1
start = "3 s"
tcp = { timer_granularity = "10 ms" }
"""

LINUX = json.loads(_core.tcp_profile("linux-6"))


def used(**settings: Any) -> tuple[tcp_settings.TcpUse, dict[str, str]]:
    """How a kernel gets the settings, and the keys that it cannot honour, with the reasons."""
    refused: dict[str, str] = {}

    def refuse(key: str, why: str) -> None:
        refused[key] = why

    return tcp_settings.use({**LINUX, **settings}, LINUX, refuse), refused


@pytest.mark.parametrize(
    ("settings", "key", "why"),
    [
        ({"congestion": "prague"}, "congestion", "no packaged kernel has Prague"),
        (
            {"congestion": "bbr-v3"},
            "congestion",
            "no packaged kernel has BBR v3; theirs is v1, bbr",
        ),
        (
            {"slow_start": "hystart++"},
            "slow_start",
            "no kernel here has HyStart++; Linux's own is hystart",
        ),
        ({"congestion": "dctcp"}, "ecn", "Linux's DCTCP always asks for ECN"),
        (
            {"segmentation_offload": True},
            "segmentation_offload",
            "the backend's devices send segment by segment",
        ),
    ],
)
def test_what_no_kernel_does_here_is_refused(settings: Any, key: str, why: str) -> None:
    assert used(**settings)[1] == {key: why}


@pytest.mark.parametrize(
    ("settings", "features"),
    [
        ({"congestion": "reno"}, {}),
        ({"congestion": "bbr"}, {"bbr": "congestion"}),
        ({"congestion": "dctcp", "ecn": True}, {"dctcp": "congestion"}),
        ({"ecn": True, "accurate_ecn": True}, {"AccECN": "ecn"}),
        ({"syn_ack_ecn_fallback": True}, {"TCP of Linux 7": "syn_ack_ecn_fallback"}),
        ({"window_growth": "linux-7.3"}, {"TCP of Linux 7": "window_growth"}),
        ({"pacing": True}, {}),
    ],
)
def test_what_not_every_kernel_has_is_named_with_its_key(settings: Any, features: Any) -> None:
    use, refused = used(**settings)
    assert (use.features, refused) == (features, {})


def test_accurate_ecn_is_a_sysctl_that_must_take_effect() -> None:
    for is_accurate, value in ((False, "2"), (True, "3")):
        use, _ = used(ecn=True, accurate_ecn=is_accurate)
        assert use.sysctls["ipv4/tcp_ecn"] == value
        assert use.needed == ({"ipv4/tcp_ecn": "ecn"} if is_accurate else {})


def test_a_control_that_a_kernel_lacks_is_one_line_before_anything_is_made() -> None:
    assert system.control_missing("reno") is None
    job = {"features": {"none-such": "traffic.a.tcp.congestion"}}
    with pytest.raises(network.NetworkError) as refused:
        # It knows nothing else of the job.
        network.build(job)
    assert str(refused.value) == (
        "traffic.a.tcp.congestion: this kernel has no none-such (no such file or directory); "
        "hint: load tcp_none-such, or use the backend kernel-virtual or kernel-7"
    )


@pytest.mark.parametrize(
    ("path", "number", "why"),
    [
        ("ipv4/tcp_ecn", errno.EINVAL, "traffic.a.tcp.ecn: this kernel has no tcp_ecn = 3"),
        ("ipv4/tcp_ecn", None, "traffic.a.tcp.ecn: this kernel has no tcp_ecn"),
    ],
)
def test_a_value_that_a_kernel_does_not_know_is_one_line(
    path: str, number: int | None, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(_path: str, _value: str) -> str | None:
        if number is not None:
            raise OSError(number, "invalid argument")
        return None

    monkeypatch.setattr(system, "write_setting", write)
    with pytest.raises(network.NetworkError) as refused:
        network._write_settings({path: "3"}, {path: "traffic.a.tcp.ecn"})
    assert str(refused.value) == why


def refusals(backend: str, **settings: str) -> dict[str, tuple[str, str]]:
    """Why a backend refuses keys of the dumbbell, and the hints."""
    set_ = {f"traffic__downloads__tcp__{key}": value for key, value in settings.items()}
    found = get(backend).refusals(dumbbell(**set_))
    return {refusal.key: (refusal.why, refusal.hint) for refusal in found}


@pytest.mark.parametrize("backend", ["kernel", "kernel-virtual", "kernel-7"])
def test_the_guests_have_bbr_and_pacing_but_no_bursts(backend: str) -> None:
    assert not refusals(backend, congestion="bbr")
    assert not refusals(backend, pacing="true")
    key = "traffic.downloads.tcp.segmentation_offload"
    why = "the backend's devices send segment by segment"
    assert refusals(backend, congestion="bbr", segmentation_offload="true") == {key: (why, "")}


def test_a_host_without_a_module_is_refused_before_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("narrows.backends.kernel.backend.has_control", lambda _name: False)
    key = "traffic.downloads.tcp.congestion"
    why = "this machine's kernel has no bbr"
    hint = "load tcp_bbr, or use the backend kernel-virtual"
    assert refusals("kernel-host", congestion="bbr") == {key: (why, hint)}
    assert not refusals("kernel-host", congestion="reno")
    assert not refusals("kernel-virtual", congestion="bbr")


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{"congestion": "bbr"}, {"pacing": "true"}], ids=str)
def test_a_kernel_paces_as_the_simulator_does(guest: str, settings: dict[str, str]) -> None:
    """A connection that fills 10 Mbit/s alone, and a transfer that ends in slow start.

    Nothing is random but the phase in which BBR begins to probe.
    """
    set_ = {
        f"traffic.{group}.tcp.{key}": value
        for group in ("page", "download")
        for key, value in settings.items()
    }
    scenario = Scenario.parse(ALONE, set=set_)
    backlogs, times = [], []
    for done in (run(scenario), run(scenario, backend=guest)):
        page = done.table("bursts")
        times.append(float((page["end_s"] - page["start_s"])[0]))
        queue = done.queues.filter(pl.col("t_s") > 5)
        backlogs.append(float(queue["backlog_bytes"].to_numpy().mean()))
    assert times[1] == pytest.approx(times[0], rel=0.01)
    assert backlogs[1] == pytest.approx(backlogs[0], rel=0.1)


def test_accurate_ecn_needs_linux_7() -> None:
    key = "traffic.downloads.tcp.ecn"
    for name in ("kernel-virtual", "kernel-2010"):
        found = refusals(name, ecn="accurate")
        assert found[key] == ("this guest has no AccECN", "use the backend kernel-7")
    assert not refusals("kernel-7", ecn="accurate")
    for name in ("kernel-virtual", "kernel-7"):
        assert not refusals(name, congestion="dctcp")


def test_what_linux_7_does_by_itself_needs_linux_7() -> None:
    for settings in ({"window_growth": "linux-7.3"}, {"syn_ack_ecn_fallback": "true"}):
        (key,) = settings
        found = refusals("kernel-virtual", **settings)
        why = ("this guest has no TCP of Linux 7", "use the backend kernel-7")
        assert found == {f"traffic.downloads.tcp.{key}": why}
        assert not refusals("kernel-7", **settings)


def test_a_kernel_with_newer_tcp_is_named() -> None:
    def said(backend: str = "kernel-7", **settings: str) -> list[str]:
        set_ = {f"traffic__downloads__tcp__{key}": value for key, value in settings.items()}
        return [each for each in get(backend).differences(dumbbell(**set_)) if "Linux 7" in each]

    (line,) = said()
    assert line == (
        "traffic.downloads.tcp: on this kernel, receive windows and repeated SYN-ACKs are those of "
        'Linux 7; hint: profile = "linux-7" in all groups makes the simulator do the same'
    )
    assert not said(profile="linux-7")
    # What a server says of ECN matters only if a connection asks for it.
    assert not said(window_growth="linux-7.3")
    assert not said(window_growth="linux-7.3", ecn="accurate")
    assert said(window_growth="linux-7.3", ecn="true")
    assert said(window_growth="linux-7.3", congestion="dctcp")
    assert not said("kernel-virtual")


def test_a_host_asks_for_accurate_ecn_on_all_connections_or_on_none() -> None:
    uploads = """
[[traffic]]
kind = "bulk"
name = "uploads"
sender = "near"
receiver = "far"
connections = 1
tcp = { ecn = "accurate" }
"""
    found = get("kernel-7").refusals(Scenario.parse(DUMBBELL + uploads))
    hint = "give the groups nodes of their own"
    assert {tuple(refusal) for refusal in found} == {
        ("traffic.uploads.tcp", f"tcp_ecn is one setting for all of {node}", hint)
        for node in ("near", "far")
    }


def test_a_control_that_only_the_kernel_has_is_named(guest: str) -> None:
    """Vegas holds two to four packets of its own in the queue (tcp_vegas.c), CUBIC fills it."""
    means = []
    for name in ("cubic", "vegas"):
        scenario = Scenario.parse(ALONE, set={"traffic.download.tcp.congestion": f'"{name}"'})
        queue = run(scenario, backend=guest).queues.filter(pl.col("t_s") > 5)
        means.append(float(queue["backlog_packets"].to_numpy().mean()))
    assert means[0] > 20
    assert means[1] < 6


def test_a_control_that_no_kernel_has_is_named_with_the_key(guest: str) -> None:
    scenario = dumbbell(traffic__downloads__tcp__congestion='"none-such"')
    why = r"traffic\.downloads\.tcp\.congestion: this kernel has no none-such"
    with pytest.raises(BackendError, match=why):
        run(scenario, backend=guest)
    settings = '{ name = "vegas", alpha = 2 }'
    found = refusals(guest, congestion=settings)
    why = "a kernel's congestion control has no settings of a scenario"
    assert found == {"traffic.downloads.tcp.congestion": (why, "")}


MARKS = {
    "links.line.queue": '{ kind = "codel", target = "1 s", interval = "10 s", '
    'ce_threshold = "5 ms" }',
    # Often, and not in step with round trips.
    "monitor.queues.rate": "97",
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("backend", "settings", "differs"),
    [
        ("kernel-virtual", {"congestion": "dctcp"}, 0.05),
        # Linux 7.3 marks 8 % more than Linux 6.1, which the simulator follows.
        ("kernel-7", {"congestion": "dctcp"}, 0.15),
        ("kernel-7", {"ecn": "accurate"}, 0.05),
    ],
    ids=str,
)
def test_a_kernel_reacts_to_marks_as_the_simulator_does(
    guest: str, backend: str, settings: dict[str, str], differs: float
) -> None:
    """A connection fills 10 Mbit/s alone. Its packets are marked if they wait for 5 ms.

    CUBIC reduces its window every two seconds, so a short run counts one reduction more or less.
    """
    assert guest == "kernel-virtual"
    try:
        available.choose(backend.removeprefix("kernel-"))
    except BackendError as error:
        assert backend == "kernel-7"
        pytest.skip(f"{error} (SKIP: {NO_PACKAGE})")
    set_ = {
        f"traffic.{group}.tcp.{key}": value
        for group in ("page", "download")
        for key, value in settings.items()
    }
    scenario = Scenario.parse(ALONE, set={**set_, **MARKS, "duration": '"60 s"'})
    found = []
    for done in (run(scenario), run(scenario, backend=backend)):
        queue = done.queues.filter(pl.col("t_s") > 5)
        marks = (queue["marked_early"] + queue["marked_forced"]).to_numpy().astype(float)
        found.append((queue["backlog_bytes"].to_numpy().mean(), marks[-1] - marks[0]))
    assert found[0][1] > 80
    assert found[1] == pytest.approx(found[0], rel=differs)


@pytest.mark.slow
def test_a_packet_counts_once_that_codels_control_and_threshold_mark(guest: str) -> None:
    """Linux counts it twice; an edit of the guests counts packets."""
    queue = (
        '{ kind = "codel", ecn = true, target = "1 ms", interval = "10 ms", ce_threshold = "1 ms" }'
    )
    set_ = {"links.line.queue": queue, "duration": '"15 s"', "traffic.download.connections": "60"}
    scenario = Scenario.parse(ALONE, set=set_ | {"traffic.download.tcp.ecn": "true"})
    found = []
    for done in (run(scenario), run(scenario, backend=guest)):
        queues = done.queues
        found.append(queues["marked_early"][-1] + queues["marked_forced"][-1])
    assert found[0] > 5000
    assert found[1] == pytest.approx(found[0], rel=0.1)

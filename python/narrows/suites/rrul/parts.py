"""What each of Flent's tests does, and the metrics that show it."""

from __future__ import annotations

from collections.abc import Sequence

from narrows.suites.parts import Metric, Part, Suite, columns
from narrows.suites.rrul.measure import MEASURED
from narrows.suites.rrul.scenes import STREAMS, TESTS, Line, scenes

_NAMES = (
    "be", "bk", "cs5", "ef", "be2", "be3", "be4", *(str(n) for n in range(1, STREAMS + 1)),
)  # fmt: skip
_PINGS = ("icmp", "udp_be", "udp_bk", "udp_ef", "udp_be1", "udp_be2", "udp_be3")

METRICS = {
    "up_sum": Metric("upload", "Mbit/s", 2),
    "down_sum": Metric("download", "Mbit/s", 2),
    "up_jain": Metric("Jain's index, upload", "", 3, high=1.0),
    "down_jain": Metric("Jain's index, download", "", 3, high=1.0),
    **{f"up_{name}": Metric(f"upload {name.upper()}", "Mbit/s", 2) for name in _NAMES},
    **{f"down_{name}": Metric(f"download {name.upper()}", "Mbit/s", 2) for name in _NAMES},
    "ping_avg": Metric("ping, mean", "ms"),
    "ping_p95": Metric("ping, 95 % within", "ms"),
    "ping_p99": Metric("ping, 99 % within", "ms"),
    "ping_lost_percent": Metric("pings lost", "%", 2, high=100.0),
    **{f"ping_{name}": Metric(f"ping {name.upper().replace('_', ' ')}", "ms") for name in _PINGS},
    "up_delay": Metric("queue up, mean", "ms"),
    "down_delay": Metric("queue down, mean", "ms"),
    "up_loss_percent": Metric("loss up", "%", 2, high=100.0),
    "down_loss_percent": Metric("loss down", "%", 2, high=100.0),
    "voip_delay": Metric("one-way delay", "ms", 2),
    "voip_jitter": Metric("jitter", "ms", 3),
    "voip_lost_percent": Metric("lost", "%", 2, high=100.0),
}


_BOTH = ("down_sum", "up_sum", "ping_avg", "ping_p99", "ping_lost_percent")
_CLASSES = ("be", "bk", "cs5", "ef")

PARTS = {
    "rrul": Part(
        "rrul",
        "Real-time response under load, with four code points",
        "How long do probes wait while the line is full in both directions, and what does each "
        "code point get?",
        "Four uploads and four downloads, one each with CS0 (BE), CS1 (BK), CS5 and EF; pings, "
        "and UDP probes of three code points.",
        columns(
            "rrul", *_BOTH, *(f"down_{name}" for name in _CLASSES),
            *(f"up_{name}" for name in _CLASSES), "ping_icmp", "ping_udp_be", "ping_udp_bk",
            "ping_udp_ef",
        ),
        ("rrul.ping_avg", "rrul.down_sum", "rrul.up_sum"),
    ),
    "rrul_be": Part(
        "rrul_be",
        "Real-time response under load, best effort only",
        "The same without code points.",
        "Four uploads and four downloads; pings, and three UDP probes.",
        columns("rrul_be", *_BOTH, "down_jain", "up_jain", "down_delay", "up_delay"),
        ("rrul_be.ping_avg", "rrul_be.down_sum", "rrul_be.up_sum"),
    ),
    "tcp_nup": Part(
        "tcp_nup",
        "Uploads",
        "How long do pings wait beside uploads alone?",
        f"{STREAMS} uploads, and pings.",
        columns("tcp_nup", "up_sum", "up_jain", "ping_avg", "ping_p99", "up_loss_percent"),
        ("tcp_nup.ping_avg", "tcp_nup.up_sum"),
    ),
    "tcp_ndown": Part(
        "tcp_ndown",
        "Downloads",
        "How long do pings wait beside downloads alone?",
        f"{STREAMS} downloads, and pings.",
        columns("tcp_ndown", "down_sum", "down_jain", "ping_avg", "ping_p99", "down_loss_percent"),
        ("tcp_ndown.ping_avg", "tcp_ndown.down_sum"),
    ),
    "voip": Part(
        "voip",
        "A telephone call's packets, one way",
        "How does a voice stream fare on the line?",
        "50 packets of 200 B a second from client to server, and nothing else, as Flent's test "
        "has it. (Section 9.1 of narrows suite rfc7928 has calls beside other traffic.)",
        columns("voip", "voip_delay", "voip_jitter", "voip_lost_percent"),
        ("voip.voip_delay",),
    ),
}  # fmt: skip


def suite(tests: Sequence[str] = TESTS, line: Line | None = None) -> Suite:
    """The suite, or some of its tests."""
    line = line or Line()
    return Suite(
        "rrul",
        "Flent's tests: real-time response under load",
        f"The tests of Flent (netperf-wrapper's successor) over a line of {line.down} down and "
        f"{line.up} up with a round trip of {line.rtt}; both directions have the queue "
        f"under test. The load lasts {line.length}, in which all metrics are taken. Flent "
        "itself draws the files beside this page (flent/*.flent.gz).",
        scenes(tests, line),
        [PARTS[test] for test in tests],
        METRICS,
        MEASURED,
    )

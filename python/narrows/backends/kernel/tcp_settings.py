"""From TCP's settings to sysctls, socket options and route metrics.

Source: ip-sysctl.rst, tcp(7), ip-route(8) of Linux 6.1. A connection gets its ECN, initial window
and minimum timeout from the route to its peer. Each combination has its own addresses at both ends
(`design`), so connections between the same two hosts may differ in them. A sysctl applies to a
whole host.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from narrows.scenario.tcp import tcp_tables

if TYPE_CHECKING:
    from narrows.scenario import Scenario

Refuse = Callable[[str, str], None]

_TIMER = (10**9, 4 * 10**9, 10**10)
"""A jiffy at HZ 1000, 250 and 100, in picoseconds; a kernel has one of these."""

_UNSENT = 256 << 10
"""`tcp_notsent_lowat`, in bytes: the application writes again when half of it is left."""

_FIXED = {
    *("initial_ssthresh", "reduction", "undo", "limited_transmit", "acks", "ecn_response"),
    *("initial_rto", "max_rto", "skip_handshake", "timer_rounding", "receive_autotuning"),
}
"""Settings that Linux always has, without a switch."""

_KNOWN = {
    *(
        "timer_granularity",
        "recovery",
        "sack",
        "congestion",
        "pacing",
        "segmentation_offload",
        "slow_start",
        "hystart",
        "restart_after_idle",
        "ecn",
        "accurate_ecn",
    ),
    *("initial_window", "min_rto", "receive_buffer", "rack", "tlp", "frto", "timestamps"),
    *("window_scaling", "max_retries", "syn_linear_timeouts", "mss", "nagle", "fast_open"),
    "comp_sack_rtt_percent",
}
"""Settings that `use` handles."""

_CONTROLS = ("bbr", "dctcp")
"""Congestion controls that not every kernel has."""

ACCURATE_ECN = "AccECN"
"""The feature that `ecn = "accurate"` needs (RFC 9768; Linux 7.0)."""

LINUX_7 = "TCP of Linux 7"
"""The feature that settings need that later kernels have without a switch."""

_LINUX_7 = {"syn_ack_ecn_fallback": True, "window_growth": "linux-7.3"}
"""Those settings, each with the value of Linux 7.3."""

_ECN = "ipv4/tcp_ecn"
_LINEAR_TIMEOUTS = "ipv4/tcp_syn_linear_timeouts"
_SACK_PERCENT = "ipv4/tcp_comp_sack_rtt_percent"


class TcpUse(NamedTuple):
    """How to make Linux connections with certain settings."""

    metrics: tuple[tuple[str, int], ...]
    """Metrics of the routes to both ends."""
    sysctls: Mapping[str, str]
    """Sysctls of the hosts at both ends, by path below /proc/sys/net."""
    needed: Mapping[str, str]
    """Those of them that the kernel must have, with the key that needs each."""
    features: Mapping[str, str]
    """What not every kernel has, with keys: congestion controls, `ACCURATE_ECN`, `LINUX_7`."""
    congestion: str
    mss: int | None
    nodelay: bool
    pacing: bool
    fast_open: bool
    """Whether sockets use TCP Fast Open, as clients and as servers."""


def use(settings: Mapping[str, Any], profile: Mapping[str, Any], refuse: Refuse) -> TcpUse:
    """How to give Linux the plan's TCP settings.

    Args:
        settings: The settings of a connection.
        profile: The settings of the kernel's own profile: `linux-6`, `linux-7` or `linux-2.6.30`.
        refuse: Called for each key that cannot be honoured.
    """
    features: dict[str, str] = {}
    for key in sorted(_FIXED):
        if settings[key] != profile[key]:
            refuse(key, "Linux has no switch for it")
    for key in settings.keys() - _KNOWN - _FIXED - _LINUX_7.keys():
        if settings[key] != profile.get(key):
            refuse(key, "not supported yet")
    if settings["timer_granularity"] not in _TIMER:
        refuse("timer_granularity", "a kernel's is 1, 4 or 10 ms")
    if settings["recovery"] != ("sack" if settings["sack"] else "new-reno"):
        refuse("recovery", "Linux has sack, or new-reno without it")
    if settings["congestion"] == "cubic" and not settings["hystart"]:
        refuse("hystart", "it is one switch for the whole kernel")
    if settings["slow_start"] != "standard":
        refuse("slow_start", "no kernel here has HyStart++; Linux's own is hystart")
    congestion = settings["congestion"]
    if isinstance(congestion, dict):
        own = congestion["custom"]
        if own["settings"]:
            refuse("congestion", "a kernel's congestion control has no settings of a scenario")
        congestion = own["name"]
        features[congestion] = "congestion"
    if settings["congestion"] == "prague":
        refuse("congestion", "no packaged kernel has Prague")
    if settings["congestion"] == "bbr-v3":
        refuse("congestion", "no packaged kernel has BBR v3; theirs is v1, bbr")
    if settings["congestion"] == "dctcp" and not settings["ecn"]:
        refuse("ecn", "Linux's DCTCP always asks for ECN")
    if settings.get("segmentation_offload"):
        refuse("segmentation_offload", "the backend's devices send segment by segment")
    if settings["restart_after_idle"] not in ("decay", "keep"):
        refuse("restart_after_idle", "Linux has only decay and keep")
    metrics = []
    if settings["ecn"]:
        metrics.append(("features", 1))
    if settings["initial_window"] != profile["initial_window"]:
        metrics.append(("initcwnd", settings["initial_window"]))
    if settings["min_rto"] != profile["min_rto"]:
        # The attribute is in milliseconds.
        metrics.append(("rto_min", round(settings["min_rto"] / 10**9)))
    if settings["congestion"] in _CONTROLS:
        features[settings["congestion"]] = "congestion"
    if settings.get("accurate_ecn"):
        features[ACCURATE_ECN] = "ecn"
    for key, value in _LINUX_7.items():
        if settings.get(key) == value:
            features.setdefault(LINUX_7, key)
    needed = {_ECN: "ecn"} if settings.get("accurate_ecn") else {}
    if settings["syn_linear_timeouts"]:
        # Kernels before 6.5 do not have it, and behave as with 0.
        needed[_LINEAR_TIMEOUTS] = "syn_linear_timeouts"
    if settings["comp_sack_rtt_percent"] != profile["comp_sack_rtt_percent"]:
        # Kernels before 6.19 do not have it, and behave as with 5.
        needed[_SACK_PERCENT] = "comp_sack_rtt_percent"
    return TcpUse(
        metrics=tuple(metrics),
        sysctls=_sysctls(settings),
        needed=needed,
        features=features,
        congestion=congestion,
        mss=None if settings["mss"] == profile["mss"] else settings["mss"],
        nodelay=not settings["nagle"],
        pacing=bool(settings.get("pacing")),
        fast_open=bool(settings.get("fast_open")),
    )


def not_followed(scenario: Scenario, profile: Mapping[str, Any]) -> Iterator[str]:
    """A sentence if a kernel's TCP is newer than a scenario's, for which it has no switch.

    Args:
        scenario: What would be run. Groups of DNS do not count: they seldom fill a window.
        profile: The settings of the kernel's own profile.
    """
    found = []
    for key, tcp in tcp_tables(scenario, "traffic"):
        settings = tcp.in_effect
        wanted = dict(_LINUX_7)
        if settings["accurate_ecn"] or not settings["ecn"]:
            # Without ECN it has no effect, and accurate ECN falls back in any case.
            del wanted["syn_ack_ecn_fallback"]
        if any(settings[each] != wanted[each] == profile[each] for each in wanted):
            found.append(key)
    if found:
        yield (
            f"{', '.join(found)}: on this kernel, receive windows and repeated SYN-ACKs are those "
            'of Linux 7; hint: profile = "linux-7" in all groups makes the simulator do the same'
        )


def _sysctls(settings: Mapping[str, Any]) -> Mapping[str, str]:
    window = settings["receive_buffer"]
    # With tcp_adv_win_scale 1, half of a buffer is overhead. Linux 7 ignores it.
    buffers = f"4096 {min(131_072, 2 * window)} {2 * window}"
    # As in the simulator, a send buffer may have any length from the start. Linux begins with
    # 87 KB, which limits what a sender may have in flight while a hole is open. poll(2) reports a
    # socket as writable below two thirds of its buffer, and a segment of 1448 bytes takes 2304
    # there. So data that fill the window need 2.4 times their length, and more with shorter
    # segments.
    unlimited = max(4 << 20, 4 * window)
    return {
        # ECN is for those who ask, and the routes decide who does. A kernel has no such route for
        # accurate ECN.
        _ECN: "3" if settings.get("accurate_ecn") else "2",
        "ipv4/tcp_adv_win_scale": "1",
        "ipv4/tcp_rmem": buffers,
        "ipv4/tcp_wmem": f"4096 {unlimited} {unlimited}",
        # Limit the unsent data, because endless data would fill the memory.
        "ipv4/tcp_notsent_lowat": str(_UNSENT),
        "ipv4/tcp_recovery": "1" if settings["rack"] else "0",
        "ipv4/tcp_early_retrans": "3" if settings["tlp"] else "0",
        "ipv4/tcp_frto": "2" if settings["frto"] else "0",
        "ipv4/tcp_sack": _switch(settings["sack"]),
        "ipv4/tcp_timestamps": _switch(settings["timestamps"]),
        "ipv4/tcp_window_scaling": _switch(settings["window_scaling"]),
        "ipv4/tcp_slow_start_after_idle": _switch(settings["restart_after_idle"] == "decay"),
        "ipv4/tcp_retries2": str(settings["max_retries"]),
        _LINEAR_TIMEOUTS: str(settings["syn_linear_timeouts"]),
        _SACK_PERCENT: str(settings["comp_sack_rtt_percent"]),
        # For sockets that request it, at both ends. A suspected black hole does not disable it.
        "ipv4/tcp_fastopen": "3",
        "ipv4/tcp_fastopen_blackhole_timeout_sec": "0",
        # As in the simulator, a connection knows nothing of earlier ones.
        "ipv4/tcp_no_metrics_save": "1",
        # A connection keeps its hash at a timeout, and so its queue (see `cables`).
        "core/txrehash": "0",
    }


def _switch(on: bool) -> str:
    return "1" if on else "0"

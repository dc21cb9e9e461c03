"""The paper's three queues, two other settings for D7, and other choices for unknown settings."""

from __future__ import annotations

from narrows.reproduce.cells import Cell, Choice

SCENARIO = "ds1.toml"

LIMIT = 100
"""The buffer in packets, as printed."""
MINIMUM, MAXIMUM = 25.0, 75.0
"""RED's thresholds in packets, as printed."""
WEIGHT = 1.0 / 512.0
"""The weight of a packet in RED's average, as printed."""
MAX_P = 0.1
"""RED's probability at the maximum, as printed."""
PACKET_BYTES = 1500
"""Bytes of a full segment with its headers: the scenario's MSS and 40 bytes."""

QUEUES = ("tail", "red", "ecn")
TITLES = {"tail": "Drop Tail", "red": "RED", "ecn": "RED+ECN"}

_ECN = {"traffic.ftp.tcp.ecn": "true"}


def tail(limit: int) -> dict[str, str]:
    """Drop Tail at router A."""
    return {"links.ds1.forward.queue": f'{{ kind = "pfifo", limit = {limit} }}'}


def red(limit: int, *, ecn: bool = False) -> dict[str, str]:
    """RED at router A with the printed parameters, which do not follow the limit."""
    text = (
        f'{{ kind = "red-1993", limit = {limit}, min = {MINIMUM}, max = {MAXIMUM}, '
        f"weight = {WEIGHT}, max_p = {MAX_P}, ecn = {str(ecn).lower()} }}"
    )
    return {"links.ds1.forward.queue": text, **(_ECN if ecn else {})}


_LINUX_TCP = {
    "profile": "linux-6",
    "recovery": "new-reno",
    "sack": "false",
    "timestamps": "false",
    "limited_transmit": "true",
    "acks": "linux",
    "initial_rto": "1 s",
    # Linux keeps one segment of a small buffer in reserve (tcp_init_buffer_space): a buffer of
    # seven makes a window of six, which is what the others have.
    "receive_buffer": "10220 B",
}
"""The Linux TCP that is closest to the scenario's: Reno without SACK, with the same window."""


def on_linux(cell: Cell) -> dict[str, str]:
    """Settings for a cell on Linux, which has neither OPNET's TCP nor the RED of 1993.

    Linux's RED counts bytes, so the thresholds are the printed ones times 1500 bytes. A `burst` of
    140 packets makes tc choose the printed weight. With ECN, `harddrop` drops above the maximum
    instead of marking, as the paper does.
    """
    found = {f"traffic.ftp.tcp.{key}": value for key, value in _LINUX_TCP.items()}
    if cell.name.partition("-")[0] == "tail":
        return found
    limit, low, high = (
        f"{round(PACKET_BYTES * packets)} B"
        for packets in (SMALL_LIMIT if cell.name.endswith("-small") else LIMIT, MINIMUM, MAXIMUM)
    )
    ecn = str(cell.name == "ecn").lower()
    found["links.ds1.forward.queue"] = (
        f'{{ kind = "red", limit = "{limit}", min = "{low}", max = "{high}", '
        f'avpkt = "{PACKET_BYTES} B", burst = 140, probability = {MAX_P}, ecn = {ecn}, '
        f"harddrop = {ecn} }}"
    )
    return found


SMALL_LIMIT = 50
"""D7's smaller buffer: half."""

_HEAVY = {"traffic.ftp.connections": "8"}
"""D7's heavier load: twice as many sessions in the same time."""

CELLS = [
    Cell("tail", "Drop Tail", SCENARIO, tail(LIMIT)),
    Cell("red", "RED", SCENARIO, red(LIMIT)),
    Cell("ecn", "RED+ECN", SCENARIO, red(LIMIT, ecn=True)),
    Cell("tail-small", "Drop Tail, 50 packets", SCENARIO, tail(SMALL_LIMIT)),
    Cell("red-small", "RED, 50 packets", SCENARIO, red(SMALL_LIMIT)),
    Cell("tail-heavy", "Drop Tail, twice the sessions", SCENARIO, {**tail(LIMIT), **_HEAVY}),
    Cell("red-heavy", "RED, twice the sessions", SCENARIO, {**red(LIMIT), **_HEAVY}),
]

_RED = frozenset({"red", "ecn", "red-small", "red-heavy"})
_LOADED = frozenset(QUEUES)
"""Cells that choices of other loads change; D7's cells have their own loads."""


def _ftp(**keys: str) -> dict[str, str]:
    return {f"traffic.ftp.{key.replace('tcp_', 'tcp.', 1)}": value for key, value in keys.items()}


_FRESH = "fresh"

CHOICES = [
    Choice(
        "five sessions without end",
        "another load: one large transfer for each client, windows of 64 KB",
        _ftp(connections="1", spread="16 s", tcp_receive_buffer="65535 B"),
        _LOADED,
        alone=True,
    ),
    Choice(
        "sessions go on opening",
        "another load: one every 3.25 s to 425 s, a hundred in all",
        _ftp(connections="20", spread="325 s"),
        _LOADED,
        alone=True,
    ),
    Choice(
        "two hundred sessions in the end",
        "another load: the same until 165 s, then 180 more until 265 s",
        _ftp(
            connections="40",
            spread="0 s",
            ramp='[["0 s", 0], ["65 s", 20], ["165 s", 200]]',
        ),
        _LOADED,
        alone=True,
    ),
    Choice(
        "files of 100 kB with pauses",
        "another load: a session of many files, 5 s between them",
        _ftp(
            file="100 kB",
            pause='{ distribution = "exponential", mean = "5 s" }',
            connections="6",
            spread="98 s",
            tcp_restart_after_idle=_FRESH,
        ),
        _LOADED,
        alone=True,
    ),
    Choice(
        "one file of 3 MB for each client",
        "another load: transfers that end, windows of 64 KB",
        _ftp(
            connections="1",
            spread="16 s",
            file="3 MB",
            files="1",
            tcp_receive_buffer="65535 B",
        ),
        _LOADED,
        alone=True,
    ),
    Choice(
        "windows of 64 KB",
        "OPNET's hosts have 8760 bytes unless told otherwise",
        _ftp(tcp_receive_buffer="65535 B"),
    ),
    Choice(
        "TCP Tahoe", "the paper does not name the TCP", _ftp(tcp_recovery="tahoe"), on_kernel=False
    ),
    Choice(
        "TCP NewReno",
        "the paper does not name the TCP",
        _ftp(tcp_recovery="new-reno"),
        on_kernel=False,
    ),
    Choice(
        "TCP with SACK",
        "the paper does not name the TCP",
        _ftp(tcp_sack="true", tcp_recovery="sack", tcp_reduction="prr"),
    ),
    Choice(
        "limited transmit",
        "RFC 3042; the paper does not name the TCP",
        _ftp(tcp_limited_transmit="true"),
        on_kernel=False,
    ),
    Choice(
        "an acknowledgement for every segment",
        "the paper does not name the TCP",
        _ftp(tcp_acks="every-segment"),
        on_kernel=False,
    ),
    Choice("DS1 delay 10 ms", "the paper does not print it", {"links.ds1.delay": "10 ms"}),
    Choice("DS1 delay 50 ms", "the paper does not print it", {"links.ds1.delay": "50 ms"}),
    Choice(
        "drops spaced 1/p to 2/p apart",
        "RED as ns-2 has it by default",
        {"links.ds1.forward.queue.wait": "true"},
        _RED,
        on_kernel=False,
    ),
    Choice(
        "marks above the maximum too",
        "the paper marks between the thresholds; Linux marks above as well",
        {"links.ds1.forward.queue.mark_above_max": "true"},
        frozenset({"ecn"}),
        on_kernel=False,
    ),
    Choice(
        "the TCP and the RED of Linux",
        "what a run with --backend kernel has instead",
        {},
        of_cell=on_linux,
        on_kernel=False,
    ),
    Choice(
        "delay variation as change from sample to sample",
        "the paper does not say how it computes it",
        {},
        reads={
            "variation": "jitter",
            "variation_early": "jitter_early",
            "variation_late": "jitter_late",
        },
    ),
    Choice(
        "a drop costs ten times as much",
        "the router's costs are a model",
        {},
        reads={"cpu_before": "cpu_before_drop10", "cpu_after": "cpu_after_drop10"},
        on_kernel=False,
    ),
    Choice(
        "a drop costs nothing",
        "the router's costs are a model",
        {},
        reads={"cpu_before": "cpu_before_drop0", "cpu_after": "cpu_after_drop0"},
        on_kernel=False,
    ),
    Choice(
        "averaging costs ten times as much",
        "the router's costs are a model",
        {},
        reads={"cpu_before": "cpu_before_average10", "cpu_after": "cpu_after_average10"},
        on_kernel=False,
    ),
]

"""The paper's experiments as settings on one scenario, and other choices for unknown settings."""

from __future__ import annotations

from narrows.reproduce.cells import Cell, Choice

SCENARIO = "testbed.toml"

ECN_SHARES = {"none": "0.0", "half": "0.5", "all": "1.0"}
"""Share of the 120 connections that negotiate ECN."""

# RED's parameters are bytes. 300 ms: as printed. 200 ms: by the same rule (README, "Settings that
# the paper does not print, and what we chose").
_RED_200 = {"limit": "250000 B", "min": "12374 B", "max": "137374 B", "burst": "38"}
_FIFO_300 = "262500 B"
_FIFO_200 = "137500 B"

_INTERNET = {
    "300": {},
    "200-20": {"links.internet.delay": "20 ms", "links.internet.jitter.deviation": "5 ms"},
    "200-50": {"links.internet.delay": "50 ms", "links.internet.jitter.deviation": "5 ms"},
}
_INTERNET_TITLES = {
    "300": "300 ms, 100±25 ms",
    "200-20": "200 ms, 20±5 ms",
    "200-50": "200 ms, 50±5 ms",
}
ECN_TITLES = {"none": "no ECN", "half": "50 % ECN", "all": "only ECN"}


def red(**settings: str) -> dict[str, str]:
    """Settings of the RED queue at both ends of the bottleneck."""
    return {f"links.bottleneck.queue.{key}": value for key, value in settings.items()}


def fifo(limit: str) -> dict[str, str]:
    """A byte FIFO at both ends of the bottleneck in RED's place."""
    return {"links.bottleneck.queue": f'{{ kind = "bfifo", limit = "{limit}" }}'}


def packet_fifo(limit: int) -> dict[str, str]:
    """A packet FIFO at both ends of the bottleneck in RED's place."""
    return {"links.bottleneck.queue": f'{{ kind = "pfifo", limit = {limit} }}'}


def _cells() -> list[Cell]:
    cells = []
    for delay, internet in _INTERNET.items():
        title = _INTERNET_TITLES[delay]
        limit = _FIFO_300 if delay == "300" else _FIFO_200
        thresholds = {} if delay == "300" else red(**_RED_200)
        cells.append(Cell(f"fifo-{delay}", f"FIFO, {title}", SCENARIO, {**internet, **fifo(limit)}))
        for share, value in ECN_SHARES.items():
            cells.append(
                Cell(
                    f"red-{delay}-{share}",
                    f"RED {ECN_TITLES[share]}, {title}",
                    SCENARIO,
                    {**internet, **thresholds, "traffic.background.ecn_share": value},
                )
            )
    return cells


EXTRA_CELLS = [
    # H9: the paper names no sizes. 175 packets of 1500 bytes are the byte FIFO's 262500.
    Cell("pfifo-300", "FIFO of 175 packets, 300 ms", SCENARIO, packet_fifo(175)),
    # More aggressive: half the thresholds, or a steeper slope.
    Cell(
        "red-300-low",
        "RED, thresholds halved, 300 ms",
        SCENARIO,
        red(min="37437 B", max="131187 B", burst="49"),
    ),
    Cell("red-300-p20", "RED, probability 0.2, 300 ms", SCENARIO, red(probability="0.2")),
    Cell("red-300-p50", "RED, probability 0.5, 300 ms", SCENARIO, red(probability="0.5")),
    # H11: RED's burst "has no significant effect"; DNS exempt from netem "did not affect" anything.
    Cell("red-300-burst60", "RED, burst 60, 300 ms", SCENARIO, red(burst="60")),
    Cell("red-300-burst196", "RED, burst 196, 300 ms", SCENARIO, red(burst="196")),
    Cell(
        "fifo-300-netem",
        "FIFO, 300 ms, DNS through netem",
        SCENARIO,
        {**fifo(_FIFO_300), "links.internet.dns_exempt": "false"},
    ),
    Cell(
        "red-300-netem",
        "RED, 300 ms, DNS through netem",
        SCENARIO,
        {"links.internet.dns_exempt": "false", "traffic.background.ecn_share": "0.0"},
    ),
    # These cells are only for the comparison with the kernel.
    Cell(
        "red-300-none-legacy",
        "RED no ECN, 300 ms, legacy TCP",
        SCENARIO,
        {"traffic.background.tcp.profile": "legacy"},
    ),
    Cell(
        "red-300-none-noring",
        "RED no ECN, 300 ms, no ring",
        SCENARIO,
        {"links.bottleneck.ring": "{ packets = 1 }"},
    ),
]

CELLS = _cells() + EXTRA_CELLS

MAIN_CELLS = tuple(cell.name for cell in CELLS if cell not in EXTRA_CELLS)
"""The twelve cells of Table IV."""

_FIFO_200_CELLS = frozenset({"fifo-200-20", "fifo-200-50"})
_RED_200_CELLS = frozenset(name for name in MAIN_CELLS if name.startswith("red-200"))
_RINGED = frozenset(cell.name for cell in CELLS if cell.name != "red-300-none-noring")


_ACCESS = ["gen1", "gen2", "dnsserver", "recv1", "recv2", "dnsclient"]


def _access(delay: str) -> dict[str, str]:
    return {f"links.{host}-access.delay": delay for host in _ACCESS}


def _service(constant: str, mean: str) -> dict[str, str]:
    return {"dns.dns.service": constant, "dns.dns.service_jitter_mean": mean}


def reply(octets: int) -> dict[str, str]:
    """Replies of this many bytes of IP."""
    return {"dns.dns.reply_size": f"{octets} B"}


def bursty_ring(stop: int, wake: int) -> dict[str, str]:
    """A card whose driver stops the queue at `stop` packets and wakes it at `wake`."""
    return {"links.bottleneck.ring": f"{{ packets = {stop}, wake = {wake} }}"}


REPLIES = (100, 200, 300, 400, 512)
"""Bytes of IP; the first is ours. A reply without EDNS has 540 at most (RFC 1035, 4.2.1)."""

BURSTY_RINGS = ((60, 47), (70, 57), (80, 67))
"""Where a driver stops and wakes the queue. e1000 of Linux 2.6.32 with its 80 descriptors stops at
60 (`e1000_maybe_stop_tx` with `MAX_SKB_FRAGS + 2`) and wakes at 47 (`TX_WAKE_THRESHOLD`); the
others hold 10 and 20 packets more, as the card's own memory might."""

FITTED = "found by looking at the paper's results: it counts as no agreement"

CHOICES = [
    Choice(
        "TCP of 2009",
        "the senders ran 2.6.26 and 2.6.30",
        {"traffic.background.tcp.profile": "linux-2.6.30"},
    ),
    Choice(
        "TCP without RACK and TLP",
        "today's TCP with its two largest changes since then off",
        {"traffic.background.tcp.profile": "legacy"},
    ),
    Choice(
        "ring of 80 packets",
        "the card counts packets; the paper's arithmetic counts bytes",
        {"links.bottleneck.ring": "{ packets = 80 }"},
        _RINGED,
    ),
    Choice(
        "ring of 48 packets",
        "a card of another kind; the paper names skge's 48",
        {"links.bottleneck.ring": "{ packets = 48 }"},
        _RINGED,
    ),
    Choice(
        "ring of 128 packets",
        "a card of another kind; the paper names e1000's 128",
        {"links.bottleneck.ring": "{ packets = 128 }"},
        _RINGED,
    ),
    Choice(
        "background opened over 5 s",
        "the paper does not say when and how fast the connections are opened",
        {"traffic.background.spread": "5 s"},
    ),
    Choice(
        "query and reply halved",
        "the paper does not print the sizes",
        {"dns.dns.query_size": "42 B", "dns.dns.reply_size": "50 B"},
    ),
    Choice(
        "query and reply doubled",
        "the paper does not print the sizes",
        {"dns.dns.query_size": "128 B", "dns.dns.reply_size": "200 B"},
    ),
    Choice(
        "server takes 0.25 ms",
        "the paper does not print the round-trip time of DNS",
        _service("0.15 ms", "0.1 ms"),
    ),
    Choice(
        "server takes 1 ms",
        "the paper does not print the round-trip time of DNS",
        _service("0.6 ms", "0.4 ms"),
    ),
    Choice(
        "server takes 10 ms",
        "the same for a far or slow server",
        _service("6 ms", "4 ms"),
    ),
    Choice(
        "permanent neighbour entries",
        "the paper does not mention ARP; a router that knows its neighbour for ever never asks",
        {"links.bottleneck.neighbours": "known"},
    ),
    Choice("access delay halved", "the paper does not print it", _access("0.05 ms")),
    Choice("access delay doubled", "the paper does not print it", _access("0.2 ms")),
    Choice("access delay 2 ms", "the same for a campus network", _access("2 ms")),
    Choice(
        "Internet delay at one end",
        "netem stood at both ends; the paper does not say whether each had the whole delay",
        {"links.internet.backward": '{ delay = "0 ms", jitter = { deviation = "0 ms" } }'},
    ),
    Choice(
        "jitter without overtaking",
        "netem lets packets overtake; a real path seldom does",
        {"links.internet.jitter.reorder": "false"},
    ),
    Choice(
        "normal jitter",
        "the paper does not print the distribution; netem's default is uniform",
        {"links.internet.jitter.distribution": "normal"},
    ),
    Choice(
        "FIFO of 200 ms not shifted",
        "the paper does not print the size of the 200 ms FIFO",
        fifo("250000 B"),
        _FIFO_200_CELLS,
    ),
    Choice(
        "RED of 200 ms at half the minimum",
        "the paper does not print the thresholds of the 200 ms RED",
        red(min="6187 B"),
        _RED_200_CELLS,
    ),
    Choice(
        "RED of 200 ms at twice the minimum",
        "the paper does not print the thresholds of the 200 ms RED",
        red(min="24748 B"),
        _RED_200_CELLS,
    ),
    *(Choice(f"reply of {octets} B (fitted)", FITTED, reply(octets)) for octets in REPLIES[1:]),
    *(
        Choice(
            f"ring of {stop}, wakes at {wake} (fitted)", FITTED, bursty_ring(stop, wake), _RINGED
        )
        for stop, wake in BURSTY_RINGS
    ),
]

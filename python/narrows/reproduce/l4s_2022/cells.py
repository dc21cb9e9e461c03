"""The experiments: a cell for each row of the published tables, and what they leave open."""

from __future__ import annotations

from collections.abc import Mapping

from narrows.reproduce.cells import Cell, Choice
from narrows.reproduce.l4s_2022.published import FAIRNESS, OVERLOAD, Fairness, Mixed, mixed

QUEUE = "links.bottleneck.forward.queue"

AQMS = {
    "dualpi2": '{ kind = "dualpi2", limit = 40000, alpha = 0.156, beta = 3.195, any_ect = true }',
    "pie": '{ kind = "pie", limit = 40000, target = "15 ms", tupdate = "16 ms", ecn = true }',
    "fqcodel": '{ kind = "fq-codel" }',
}
"""The queues of the mixed round trips, as the data's `info` files have them."""

RED = '{{ kind = "red", limit = "{limit} B", min = "{min} B", max = "{max} B", avpkt = "1000 B", \
burst = {burst}, probability = 0.02, ecn = true }}'


def _red(limit: int) -> str:
    """RED with tc's advice for what is not given: max a quarter of the limit, min a third of it."""
    most = limit // 4
    least = most // 3
    return RED.format(limit=limit, min=least, max=most, burst=(2 * least + most) // 3000)


FAIR_QUEUES = {
    "dualpi2": '{ kind = "dualpi2" }',
    "pfifo": '{ kind = "pfifo", limit = 1000 }',
    "fq-codel": '{ kind = "fq-codel" }',
    "fq-codel-1": '{ kind = "fq-codel", flows = 1 }',
    "fq-codel-1-1ms": '{ kind = "fq-codel", flows = 1, target = "1 ms", interval = "20 ms" }',
    "pie": '{ kind = "pie", ecn = true }',
    "pie-100p-5ms": '{ kind = "pie", limit = 100, target = "5 ms", ecn = true }',
    "red-150kB": _red(150_000),
    "red-400kB": _red(400_000),
}
"""The queues of Heist and Morton."""


def tcp(group: str, control: str, *, scaling: bool) -> Mapping[str, str]:
    """The settings of a group's TCP; `-ecn` asks for classic ECN."""
    name, _, ecn = control.partition("-")
    settings = {f"traffic.{group}.tcp.congestion": f'"{name}"'}
    if ecn:
        settings[f"traffic.{group}.tcp.ecn"] = "true"
    if name == "prague":
        settings[f"traffic.{group}.tcp.prague_rtt_scaling"] = "true" if scaling else "false"
    return settings


def _half(rtt_ms: int) -> str:
    return f'"{rtt_ms / 2:g} ms"'


def _mixed(row: Mixed) -> Cell:
    settings = {QUEUE: AQMS[row.aqm], "links.ecn.delay": _half(row.rtt_ecn_ms)}
    settings |= tcp("ecn", row.ecn, scaling=True)
    if not row.rtt_classic_ms:
        return Cell(row.cell, row.title, "alone.toml", settings)
    settings["links.classic.delay"] = _half(row.rtt_classic_ms)
    settings |= tcp("classic", row.classic, scaling=True)
    return Cell(row.cell, row.title, "mixed.toml", settings)


def fairness_cell(row: Fairness) -> str:
    """The name of a row's cell."""
    return f"{row.id.removeprefix('L4S-')}-{row.second[0]}"


def _fairness(row: Fairness) -> Cell:
    settings = {QUEUE: FAIR_QUEUES[row.queue]}
    for group, (control, rtt_ms) in (("first", row.first), ("second", row.second)):
        settings |= {f"links.{group}.delay": _half(rtt_ms), **tcp(group, control, scaling=False)}
    if row.window == "40 s":
        settings |= {"duration": '"60 s"', "measure.from": '"20 s"', "measure.to": '"60 s"'}
    return Cell(fairness_cell(row), row.title, "fairness.toml", settings)


CELLS = [
    *(_mixed(row) for row in mixed()),
    *(
        Cell(
            row.id,
            f"overload, {row.stream} Mbit/s",
            "overload.toml",
            {"traffic.stream.rate": f'"{row.stream * 1498 / 1470:.2f} Mbit/s"'},
        )
        for row in OVERLOAD
    ),
    *(_fairness(row) for row in FAIRNESS),
]

_PRAGUE = frozenset(row.cell for row in mixed() if row.ecn == "prague")


def _each(groups: tuple[str, ...], key: str, value: str) -> dict[str, str]:
    return {f"traffic.{group}.tcp.{key}": value for group in groups}


def _offload_off(cell: Cell) -> dict[str, str]:
    groups = {
        "mixed.toml": ("ecn", "classic"),
        "overload.toml": ("ecn", "classic"),
        "alone.toml": ("ecn",),
        "fairness.toml": ("first", "second"),
    }
    return _each(groups[cell.scenario], "segmentation_offload", "false")


CHOICES = [
    Choice(
        "no segmentation offload",
        "no source says how the hosts send; offload makes bursts of a millisecond",
        {},
        of_cell=_offload_off,
    ),
    Choice(
        "Heist and Morton's CUBIC unpaced",
        "they do not say which queue their hosts have; without fq only Prague paces",
        {},
        cells=frozenset(
            fairness_cell(row) for row in FAIRNESS if "prague" in (row.first[0], row.second[0])
        ),
        of_cell=lambda cell: {
            f"traffic.{group}.tcp.{key}": "false"
            for group in ("first", "second")
            if cell.set[f"traffic.{group}.tcp.congestion"] != '"prague"'
            for key in ("pacing", "segmentation_offload")
        },
    ),
    Choice(
        "Prague without RTT scaling",
        "the data's Prague scales; this shows how much that decides",
        _each(("ecn",), "prague_rtt_scaling", "false"),
        cells=_PRAGUE,
    ),
]

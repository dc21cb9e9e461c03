"""A run's summary for people: a few lines of what was asked, from the figures in `run.json`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TextIO

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from narrows.results import Run


def print_summary(run: Run, to: TextIO) -> None:
    """DNS by attempt, queues, links and TCP; only what the run has."""
    console = Console(file=to, highlight=False, width=None if to.isatty() else 120)
    console.print(
        f"{run.name}: seed {run.seed}, {run.end_s:.1f} s simulated, {run.events:,} events, "
        f"{run.status} ({run.stopped})"
    )
    figures = run.summary
    for table in (_dns(figures), _queues(figures), _links(figures), _flows(figures)):
        if table is not None:
            console.print()
            console.print(table)


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold")
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index == 0 else "right")
    return table


def _dns(figures: Mapping[str, Any]) -> Table | None:
    dns = figures["dns"]
    if not dns:
        return None
    table = _table("DNS", "answered", "queries", "%")
    counts = zip(dns["answered_at_attempt"], dns["answered_at_attempt_percent"], strict=True)
    for attempt, (count, share) in enumerate(counts, start=1):
        table.add_row(f"on attempt {attempt}", f"{count:,}", _text(share))
    table.add_row("never", f"{dns['unanswered']:,}", _text(dns["unanswered_percent"]))
    if dns["unfinished"]:
        table.add_row("unfinished", f"{dns['unfinished']:,}", "")
    table.caption = (
        f"response time: median {_text(dns['response_median_ms'])} ms, "
        f"95 % {_text(dns['response_p95_ms'])} ms, 99 % {_text(dns['response_p99_ms'])} ms"
    )
    return table


def _queues(figures: Mapping[str, Any]) -> Table | None:
    if not figures["queues"]:
        return None
    table = _table(
        "Queues", "link", "phase", "backlog B", "sojourn ms", "drops/s", "of DNS", "marks/s"
    )
    for link, phases in figures["queues"].items():
        for phase, queue in phases.items():
            table.add_row(
                link,
                phase.replace("_", " "),
                _text(queue["backlog_mean_bytes"]),
                _text(queue["sojourn_mean_ms"]),
                _text(queue["drops_total_per_s"]),
                _text(queue["dns_drops_per_s"]),
                _text(queue["marks_total_per_s"]),
            )
    return table


def _links(figures: Mapping[str, Any]) -> Table | None:
    if not figures["links"]:
        return None
    table = _table("Links", "link", "phase", "utilisation %", "Mbit/s", "packets/s", "lost/s")
    for link, phases in figures["links"].items():
        for phase, seen in phases.items():
            table.add_row(
                link,
                phase.replace("_", " "),
                _text(seen["utilisation_percent"]),
                _text(seen["throughput_mbit_per_s"]),
                _text(seen["packets_per_s"]),
                _text(seen["lost_per_s"]),
            )
    return table


def _flows(figures: Mapping[str, Any]) -> Table | None:
    flows = figures["flows"]
    if not flows:
        return None
    table = _table(
        "TCP",
        "group",
        "connections",
        "Mbit/s",
        "fairness",
        "retransmitted %",
        "time-outs",
        "srtt ms",
    )
    for name, group in flows["groups"].items():
        table.add_row(
            name,
            f"{group['flows']:,}",
            _text(group["goodput_mbit_per_s"]),
            _text(group["jain_fairness"], 3),
            _text(group["retransmitted_percent"]),
            f"{group['timeouts']:,}",
            _text(group["srtt_median_ms"]),
        )
    return table


def _text(value: float | None, digits: int = 2) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.{digits}f}"

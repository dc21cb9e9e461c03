"""The report of one run: one HTML file that needs nothing else, and its plots as files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from narrows.plot_files import PlotFile
from narrows.records import Declaration
from narrows.report import plots
from narrows.report.again import again
from narrows.report.bars import MOST_GROUPS
from narrows.report.extras import declared_extras, headlines
from narrows.report.fates import failed_text
from narrows.report.files import write_page
from narrows.report.page import Shown, live, render, shown_on_page, write_plots
from narrows.report.shown import cases_of, shown
from narrows.report.source import (
    QueueFacts,
    asked,
    column,
    ends_text,
    monitored_links,
    monitored_queues,
    queue_facts,
)
from narrows.results import Run
from narrows.results.goodput import delivered
from narrows.results.jump import is_at_jump
from narrows.results.metrics import value_text
from narrows.results.origin import MEASURED, MONITOR, length
from narrows.results.success import attempts_mislead
from narrows.results.text import shown_metrics, summary_table
from narrows.scenario.toml_text import toml_text

REPORT_FILE = "report.html"
"""The page's name within a folder."""

PLOTS = "plots"

ENDED = {
    "end": "after the scenario's duration",
    "dns-done": "when all resolver workers were done",
    "event-limit": "at the limit of events",
    "query-limit": "at the limit of recorded queries",
    "delay-limit": "at the limit of packets or flows whose delays are recorded",
    "interrupted": "because it was interrupted",
}
"""Why a run ended, in words."""

_SENT_AGAIN = 1.0
"""The smallest percentage of queries that makes a visible step in the curve."""
_STEPS = (
    "Each step is an attempt: users whose packet is lost wait for the retry timer, which is much "
    "longer than the queue."
)
_STEPS_OVER_TCP = (
    "Steps at multiples of the round trip are handshakes. Those far to the right come from lost "
    "packets, for which the client or TCP waits until a timer ends, or from connections that the "
    "server refused or closed (the column fate of the table attempts says which)."
)
_RING = "What waits in the card's ring, below the queue, adds delay that no queue discipline sees."
_IN_TRANSMISSION = "Grey is the packet in transmission, which has left the queue."
_WATCHED = "What waits in the queue, as its own counters say. They do not count the card's ring."
_WHO_WAITS = "The delay that every packet through this link suffers."
_DNS_WAITS = "The delay that every packet through this link suffers, DNS included."
_WHO_WAITS_LESS = (
    "Of the packets of all flows together. Here packets pass others: what goes first, or has no "
    "backlog of its own, waits for less. What DNS waits for is in its response times."
)


def write_run_report(
    run: Run | str | Path,
    out: str | Path | None = None,
    kinds: Sequence[PlotFile] = (),
) -> Path:
    """Writes `report.html`, and plots as files in `plots/` if kinds of files are named.

    Args:
        run: A run, or its folder.
        out: The folder for them; by default the run's own.
        kinds: The file types in which plots are written.

    Returns:
        The page's path.

    Raises:
        RunFolderError: The run cannot be read, or the report cannot be written.
        ValueError: The run was never saved and ``out`` is not given.
    """
    loaded = run if isinstance(run, Run) else Run.load(run)
    folder = Path(out) if out is not None else loaded.folder
    if folder is None:
        raise ValueError("a run that was not saved needs a folder for its report")
    shown = run_plots(loaded)
    write_plots(shown, folder / PLOTS, kinds, loaded)
    return write_page(folder / REPORT_FILE, _page(loaded, shown))


def write_report(run: Run, folder: str | Path, kinds: Sequence[PlotFile] = ()) -> Path:
    """Writes a run's report into ``folder``; the same as `write_run_report`."""
    return write_run_report(run, folder, kinds)


def run_plots(
    run: Run, choose: Callable[[list[Declaration]], list[Declaration]] = list
) -> list[Shown]:
    """The plots that a run's tables allow, or those of them that are chosen, with their texts."""
    cases = cases_of({run.name: run})
    return [shown(declared, cases) for declared in choose(declared_plots(run))]


def declared_plots(run: Run) -> list[Declaration]:
    """The plots that a run's tables allow, as declarations."""
    found: list[Declaration] = []
    dns = run.summary.get("dns")
    if dns:
        found += _dns_plots(run, dns)
    for link in monitored_queues(run):
        found += _queue_plots(run, link)
    for link in dict.fromkeys(link for link, _ in plots.waiting_classes(run)):
        found.append(_waits(run, link))
    if "queue_class_delays" in run.tables:
        for link in run.table("queue_class_delays")["link"].unique(maintain_order=True):
            found.append(_class_waits(run, link))
    if plots.delayed_groups(run):
        found.append(_delays(run))
    found += [_throughput(run, link) for link in monitored_links(run)]
    series = plots.goodput_groups(run)
    if series:
        found.append(_goodput(run, series))
    found += _flow_plots(run)
    return found + declared_extras(run)


def _dns_plots(run: Run, dns: Mapping[str, Any]) -> list[Declaration]:
    """The plots of attempts and response times; response times come first if attempts mislead."""
    found: list[Declaration] = []
    groups = asked(run.summary)
    if dns["queries"]:
        shares = [
            f"{each['first_attempt_percent']:.2f} % of {each['queries']} queries"
            + (f" of {group}" if group else "")
            for group, each in groups.items()
            if each["queries"]
        ]
        words = [
            "How many queries succeed at once, and how many have to be sent again. The bracket at "
            "the end of a first attempt's bar is its 95 % interval.",
            failed_text(run.queries, run.attempts),
            _second_attempts(run),
        ]
        alt = f"Bars: {_listed(shares)} were answered at the first attempt."
        found.append(replace(plots.attempts(), alt=alt, caption=" ".join(filter(None, words))))
    if dns["response_median_ms"] is not None:
        over_tcp = set(dns.get("transports") or ()) - {"udp"}
        times = [
            f"half of the answers{f' to {group}' if group else ''} came within "
            f"{_ms(each['response_median_ms'])}, 99 % within {_ms(each['response_p99_ms'])}"
            for group, each in groups.items()
            if each["response_median_ms"] is not None
        ]
        found.append(
            replace(
                plots.response_cdf({run.name: run}),
                alt=f"Curve{'s' if len(times) > 1 else ''}: {'; '.join(times)}.",
                caption=_STEPS_OVER_TCP if over_tcp else _steps(run),
            )
        )
    return found[::-1] if attempts_mislead([run.summary]) else found


def _listed(parts: Sequence[str]) -> str:
    *firsts, last = parts
    return f"{', '.join(firsts)} and {last}" if firsts else last


def _ms(value: float) -> str:
    """A time in whole milliseconds, or with two digits if it is short."""
    return f"{value:.0f} ms" if value >= 10.0 else f"{value:.2g} ms"


def _steps(run: Run) -> str:
    """A sentence on the curve's steps, if enough queries were sent again to make steps."""
    measured = run.queries.filter("measured")
    again = run.attempts.filter(pl.col("attempt") > 1).get_column("query")
    count = measured.filter(pl.col("query").is_in(again.unique().implode())).height
    percent = 100.0 * count / max(1, measured.height)
    if not count:
        return "No query was sent again."
    if percent < _SENT_AGAIN:
        return (
            f"{value_text(percent)} % of the queries were sent again: those that follow the "
            "retry timer are too few for a step."
        )
    return _STEPS


def _backlog(run: Run, link: str, facts: QueueFacts | None) -> str:
    """What the plot of the backlog shows, with the levels and the ring if they are drawn."""
    words = ["What waits in the queue."]
    if facts is not None and facts.thresholds:
        words = ["What waits in the queue, with the levels at which the queue acts."]
    _, below = column(run.queues, link, "ring_bytes")
    if len(below) and below.max() > 0.0:
        words.append(_RING if facts is None or facts.has_ring else _IN_TRANSMISSION)
    return " ".join(words)


def _uncounted(run: Run) -> str:
    """What backlogs do not count; empty without queues."""
    known = [queue_facts(run, link) for link in monitored_queues(run)]
    if not known:
        return ""
    if any(facts is None or facts.has_ring for facts in known):
        return "Backlogs do not count the card's ring."
    return "Backlogs do not count the packet in transmission."


def _second_attempts(run: Run) -> str:
    """Why there are second attempts although nothing was lost; empty if there are none."""
    truncated = run.summary["dns"].get("truncated_percent")
    if not truncated:
        return ""
    return (
        "A truncated reply makes a second attempt, over TCP, although nothing was lost: "
        f"{value_text(truncated)} % of the queries got one. Response times say how well the "
        "queries did."
    )


def _throughput(run: Run, link: str) -> Declaration:
    of_link = run.summary["links"][link]["run"]
    carried = f"{link} carried {value_text(of_link['throughput_mbit_per_s'])} Mbit/s"
    busy = of_link["utilisation_percent"]
    return replace(
        plots.utilisation({run.name: run}, link),
        alt=f"Curve: {carried}{_busy_text(busy)}.",
        caption="What was carried between samples, with the framing that the kernel counts."
        if run.backend == MONITOR
        else "What the link carried between samples, framing included, below what it could "
        "carry. If the link is always busy, a longer queue would not make it carry more.",
    )


def _busy_text(percent: float | None) -> str:
    return "" if percent is None else f" and was busy {value_text(percent)} % of the time"


def _goodput(run: Run, series: Sequence[tuple[str, str]]) -> Declaration:
    largest, carried = max(delivered(run.goodput).items(), key=lambda each: each[1])
    name = plots.series_name(largest, series)
    most = " most," if len(series) > 1 else ""
    mean = value_text(8e-6 * carried / run.end_s)
    return replace(
        plots.goodput(run),
        alt=f"Lines over time: {name} carried{most} {mean} Mbit/s on average over the run.",
        caption="Payload that reached the receiving applications in order, averaged over at least "
        "four round trips. After a loss, what came meanwhile waits for the missing segment and "
        "then arrives at once, so a short peak may be a little above what the link carries.",
    )


def _flow_plots(run: Run) -> list[Declaration]:
    """The plots of sampled connections, if there are any."""
    lines = plots.flow_lines(run)
    faint = any(line.behind for line in lines)
    note = " Thick lines are means over a group's open connections, thin ones the connections."
    found = []
    for quantity in plots.QUANTITIES:
        means = [(plots.mean_of_line(run, line, quantity), line.label) for line in lines]
        known = [(mean, label) for mean, label in means if mean is not None]
        if not known:
            continue
        most, label = max(known)
        said = f"{label} has {'most, ' if len(known) > 1 else ''}{value_text(most)}"
        found.append(
            replace(
                plots.flow_states(run, quantity),
                alt=f"Lines over time: {quantity.words}; {said} {quantity.unit} on average.",
                caption=quantity.caption + (note if faint else ""),
            )
        )
    return found


def _queue_plots(run: Run, link: str) -> list[Declaration]:
    queue = run.summary["queues"][link]["run"]
    facts = queue_facts(run, link)
    waits = _DNS_WAITS if run.summary.get("dns") else _WHO_WAITS
    alone = {run.name: run}
    found = [
        replace(
            plots.backlog(alone, link),
            alt=f"Curve: the backlog at {link} is {value_text(queue['backlog_mean_packets'])} "
            "packets on average.",
            caption=_WATCHED if run.backend == MONITOR else _backlog(run, link, facts),
        )
    ]
    if queue["sojourn_mean_ms"] is not None:
        found.append(
            replace(
                plots.sojourn(alone, link),
                alt=f"Curve: packets spend {value_text(queue['sojourn_mean_ms'])} ms in queue and "
                "ring on average.",
                caption=waits if facts is None or facts.is_shared else _WHO_WAITS_LESS,
            )
        )
    found.append(
        replace(
            plots.drop_rate(alone, link),
            alt=f"Curve: {value_text(queue['drops_total_per_s'])} packets a second are dropped and "
            f"{value_text(queue['marks_total_per_s'])} marked on average.",
            caption="Drops counted in slots of 100 ms and smoothed as "
            "V(n) = 0.9 V(n-1) + 0.1 P(n) (as in Harhalakis, Samaras and Vitsas 2011, Figure 2).",
        )
    )
    return found


def _waits(run: Run, link: str) -> Declaration:
    rows = run.table("queue_delays").filter(link=link).iter_rows(named=True)
    known = [(row["ecn"], row["wait_p9999_ms"]) for row in rows if row["wait_p9999_ms"] is not None]
    said = [f"99.99 % of {ecn} packets waited for {_ms(p)} or less" for ecn, p in known]
    return replace(
        plots.waits({run.name: run}, link),
        alt=f"Curves: {_listed(said) if said else 'waiting times'}.",
        caption="Every packet that was sent counts, by its ECN field on arrival; times are exact "
        "to 1.6 %. The further right a curve ends, the longer the unluckiest packets waited.",
    )


def _class_waits(run: Run, link: str) -> Declaration:
    rows = run.table("queue_class_delays").filter(link=link).iter_rows(named=True)
    shown, _ = plots.shown_classes(run, link)
    said = [
        f"99.99 % of the packets in {row['class']} waited for {_ms(row['wait_p9999_ms'])} or less"
        for row in rows
        if row["class"] in shown
    ]
    return replace(
        plots.class_waits(run, link),
        alt=f"Curves: {_listed(said) if said else 'waiting times'}.",
        caption="Every packet that was sent counts, by the class in which the queue put it; times "
        "are exact to 1.6 %.",
    )


def _delays(run: Run) -> Declaration:
    rows = run.table("delays").filter(flow="").iter_rows(named=True)
    said = [
        f"99.99 % of the packets of {row['group']} {row['direction']} took "
        f"{_ms(row['delay_p9999_ms'])} or less"
        for row in rows
        if row["delay_p9999_ms"] is not None
    ]
    return replace(
        plots.delays({run.name: run}),
        alt=f"Curves: {_listed(said) if said else 'one-way delays'}.",
        caption="Every packet that arrived counts, from when its host sent it until its last bit "
        "was there; times are exact to 1.6 %. Packets go there from the client or the sender of "
        "data, and back to it.",
    )


def _page(run: Run, shown: list[Shown]) -> str:
    sections: dict[str, list[tuple[str, str, str]]] = {}
    for metric in shown_metrics(run):
        row = (metric.name, value_text(metric.value), metric.unit)
        sections.setdefault(metric.section, []).append(row)
    on_page = shown_on_page(shown)
    return render(
        "run.html",
        live=live(on_page),
        run=run,
        of_scenario=run.backend not in MEASURED,
        length=length(run.backend, run.end_s),
        again=again(run),
        ended=ENDED.get(run.stopped, f"by {run.stopped}"),
        cards=_cards(run),
        ends=ends_text(run),
        plots=on_page,
        sections=sections,
        notes=summary_table(run).notes,
        uncounted=_uncounted(run),
        scenario=toml_text(run.scenario),
    )


@dataclass(frozen=True)
class _Card:
    """A metric that readers want to see first."""

    words: str
    values: Sequence[tuple[str, str]]
    """A value and the name of its group; a single value needs no name."""


def _cards(run: Run) -> list[_Card]:
    """The few metrics that readers want to see first."""
    summary = run.summary
    cards: list[tuple[str, str]] = []
    for link in monitored_queues(run)[:1]:
        phases = summary["queues"][link]
        queue = phases.get("dns_phase") or phases["run"]
        if queue["sojourn_mean_ms"] is not None:
            cards.append((_ms(queue["sojourn_mean_ms"]), f"mean time in queue at {link}"))
    for link in monitored_links(run)[:1]:
        share = summary["links"][link]["run"]["utilisation_percent"]
        if share is not None:
            cards.append((f"{share:.1f} %", f"utilisation of {link}"))
    goodput = (summary.get("flows") or {}).get("goodput_mbit_per_s")
    if goodput is not None and not summary["flows"].get("both_ways"):
        cards.append((f"{value_text(goodput)} Mbit/s", "goodput of TCP connections"))
    others = [_Card(words, [(value, "")]) for value, words in cards + headlines(run)]
    return [*_dns_cards(summary), *others]


def _dns_cards(summary: Mapping[str, Any]) -> list[_Card]:
    """How well DNS did: the metrics of each group, or the range over many groups.

    The share answered within a second is shown too if groups differ, or if DNS does not use UDP
    alone. The share of first attempts is left out where it misleads, and the 99th percentile where
    chance decides it.
    """
    dns = summary.get("dns")
    if not dns:
        return []
    groups = summary.get("dns_groups") or {"": dns}
    # Groups that were idle in the declared window have no metrics.
    groups = {group: of for group, of in groups.items() if of}
    wanted = []
    misleads = attempts_mislead([summary])
    if not misleads:
        wanted.append(("first_attempt_percent", "answered at the first attempt"))
    if misleads or len(groups) > 1 or set(dns.get("transports") or ()) - {"udp"}:
        wanted.append(("within_1s_percent", "answered within a second"))
    wanted.append(("response_median_ms", "median response time of DNS"))
    if not is_at_jump(summary, "response_p99_ms"):
        wanted.append(("response_p99_ms", "99 % of DNS answers within"))
    cards = []
    for key, words in wanted:
        text = _ms if key.endswith("_ms") else "{:.2f} %".format
        known = {group: of[key] for group, of in groups.items() if of.get(key) is not None}
        if len(known) > MOST_GROUPS:
            low, high = text(min(known.values())), text(max(known.values()))
            cards.append(_Card(f"{words}, in {len(known)} DNS groups", [(f"{low} to {high}", "")]))
        elif known:
            cards.append(_Card(words, [(text(value), group) for group, value in known.items()]))
    return cards

"""A reproduction on the terminal and on disk: tables, `result.json`, plots, `report.html`."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TextIO

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from narrows.plot_files import USUAL_PLOT_FILES, PlotFile
from narrows.report import REPORT_FILE
from narrows.report.files import write_page
from narrows.report.page import render
from narrows.report.picture import pictures_on_page, write_pictures
from narrows.reproduce.claims import MOST_SEEDS, Judged, Verdict
from narrows.reproduce.measurements import Agreement, Table
from narrows.reproduce.outcome import Outcome, document, reason
from narrows.reproduce.statistics import Interval
from narrows.results.folder import refuse_others

RESULT_FILE = "result.json"

_STYLES = {
    Verdict.HOLDS: "green",
    Verdict.DEPENDS: "yellow",
    Verdict.FAILS: "red",
    Verdict.UNDECIDED: "cyan",
    Verdict.FITTED: "dim",
    Verdict.NOT_TESTED: "dim",
}


def claim_folder(folder: Path) -> Path:
    """Creates `folder` and returns it; refuses one that already holds something.

    Raises:
        RunFolderError: It holds a run or other files, or is not a folder.
        OSError: It cannot be created or written to.
    """
    refuse_others(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder):
        pass
    return folder


def print_outcomes(outcomes: Sequence[Outcome], to: TextIO, *, as_json: bool) -> None:
    """Prints one JSON document about all papers, or each paper as text."""
    if as_json:
        print(json.dumps(document(outcomes), indent=2), file=to)
        return
    for outcome in outcomes:
        print_outcome(outcome, to)


def print_outcome(outcome: Outcome, to: TextIO) -> None:
    """Prints the paper's tables, its claims with verdicts, and the agreement with references."""
    console = Console(file=to, highlight=False, width=None if to.isatty() else 140)
    console.print(Text(f"{outcome.paper.title} ({outcome.paper.citation})", style="bold"))
    for sentence in outcome.words():
        console.print(Text(sentence))
    if outcome.source:
        console.print(Text(outcome.source))
    for table in outcome.paper.tables(outcome):
        console.print()
        console.print(_rich(table))
        if table.note:
            console.print(Text(table.note, style="dim"))
    console.print()
    console.print(_claims_table(outcome))
    if sentence := without_rows(outcome):
        console.print(Text(sentence))
    agreement = outcome.agreement()
    if agreement:
        console.print()
        console.print(_rich(agreement_table(agreement, outcome.paper.agreement_title)))
    rows = sensitivity_table(outcome, flips_only=True)
    if rows is not None:
        console.print()
        console.print(_rich(rows))


def write(
    outcomes: Sequence[Outcome],
    folder: Path,
    kinds: Sequence[PlotFile] = USUAL_PLOT_FILES,
) -> None:
    """Writes `report.html` (self-contained), `result.json` and the plots into `folder`.

    Raises:
        RunFolderError: They cannot be written.
    """
    # Results come first, because nothing else can restore them.
    write_page(folder / RESULT_FILE, json.dumps(document(outcomes), indent=2) + "\n")
    papers = []
    for outcome in outcomes:
        slug = outcome.paper.slug
        plots = [
            replace(shown, name=f"{slug}-{shown.name}") for shown in outcome.paper.plots(outcome)
        ]
        write_pictures(plots, folder / "plots", kinds)
        papers.append(
            {
                "paper": outcome.paper,
                "outcome": outcome,
                "words": outcome.words(),
                "tables": outcome.paper.tables(outcome),
                "claims": [_claim_cells(judged) for judged in outcome.judged()],
                "verdicts": verdict_counts(outcome),
                "without_rows": without_rows(outcome),
                "agreement": agreement_table(outcome.agreement(), outcome.paper.agreement_title)
                if outcome.agreement()
                else None,
                "sensitivity": sensitivity_table(outcome),
                "plots": pictures_on_page(plots),
            }
        )
    html = render("reproduction.html", package="narrows.reproduce", papers=papers)
    write_page(folder / REPORT_FILE, html)


def verdict_counts(outcome: Outcome) -> str:
    """How many claims have which verdict, in words."""
    verdicts = [judged.verdict for judged in outcome.judged()]
    counts = {verdict: verdicts.count(verdict) for verdict in Verdict}
    return ", ".join(f"{verdict}: {count}" for verdict, count in counts.items() if count)


def without_rows(outcome: Outcome) -> str:
    """A warning that no other choices were run; empty if some were."""
    choices = len(outcome.paper.choices)
    if outcome.choices or not choices:
        return ""
    return (
        f"The paper's {choices} other choices were not run, so no claim gets "
        "the verdict depends. The full run, without --quick and --no-sensitivity, may withdraw "
        "verdicts that stand here."
    )


def verdict_text(judged: Judged) -> str:
    """The verdict, with the choices that flip it or the number of seeds that would decide it."""
    if judged.within_reading:
        return f"{judged.verdict} (within the reading error)"
    if judged.verdict is Verdict.UNDECIDED:
        needed = judged.seeds_needed
        seeds = f"about {needed}" if needed is not None else f"more than {MOST_SEEDS}"
        return f"{judged.verdict} ({seeds} seeds would decide)"
    flips = f" (on {', '.join(judged.flips)})" if judged.flips else ""
    return f"{judged.verdict}{flips}"


def range_text(values: Sequence[float], text: Callable[[float], str]) -> str:
    """Lists up to two values; of more, gives the smallest, the largest and their number."""
    if len(values) <= 2:
        return ", ".join(map(text, values)) or "-"
    return f"{text(min(values))} to {text(max(values))} ({len(values)} runs)"


def agreement_table(entries: Sequence[Agreement], title: str) -> Table:
    """Our metrics next to the reference's measurements."""
    rows = []
    for entry in entries:
        rows.append(
            [
                entry.cell,
                f"{entry.metric}, {entry.unit}".removesuffix(", "),
                range_text(entry.reference, number),
                f"{number(entry.low)} to {number(entry.high)}",
                interval_text(entry.interval),
                _share(entry),
                {True: "yes", False: "no", None: "-"}[entry.agrees],
            ]
        )
    return Table(
        title,
        ["experiment", "metric", "reference", "asked for", "ours ± 95 %", "off by", "agrees"],
        rows,
    )


def sensitivity_table(outcome: Outcome, *, flips_only: bool = False) -> Table | None:
    """Each claim's verdict under each other choice, or only the verdicts that one flips."""
    if not outcome.choices:
        return None
    rows = []
    for judged in outcome.judged():
        for name, (interval, verdict) in judged.choices.items():
            # The choice is compared with base runs of the same cells and seeds.
            base = judged.bases.get(name, judged.interval)
            if interval is None or base is None:
                continue
            if flips_only and name not in judged.flips:
                continue
            rows.append(
                [
                    judged.claim.id,
                    judged.claim.metric,
                    name,
                    interval_text(base),
                    interval_text(interval),
                    f"{interval.mean - base.mean:+.2f}",
                    f"{judged.base(name)} -> {verdict}" if name in judged.flips else "",
                ]
            )
    if flips_only and not rows:
        return None
    return Table(
        "Verdicts that another choice flips"
        if flips_only
        else "Sensitivity to what the paper leaves open",
        ["id", "metric", "other choice", "base", "ours then", "shift", "flips"],
        rows,
    )


def number(value: float) -> str:
    """A number with about four digits."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.2f}"


def interval_text(interval: Interval | None) -> str:
    """A mean in few digits, with ± for a symmetric interval and with both ends for any other."""
    if interval is None:
        return "-"
    if interval.count < 2:
        return number(interval.mean)
    low, high = interval.mean - interval.low, interval.high - interval.mean
    if abs(low - high) > 1e-9 * max(1.0, abs(interval.mean)):
        return f"{number(interval.mean)} ({number(interval.low)} to {number(interval.high)})"
    return f"{number(interval.mean)} ± {number(interval.half_width)}"


def _share(entry: Agreement) -> str:
    if entry.interval is None:
        return "-"
    middle = (min(entry.reference) + max(entry.reference)) / 2.0
    if entry.unit == "%":
        return f"{entry.interval.mean - middle:+.2f} points"
    return f"{100.0 * (entry.interval.mean / middle - 1.0):+.1f} %"


def _claim_cells(judged: Judged) -> dict[str, str]:
    claim = judged.claim
    if claim.worded is not None:
        published = claim.worded.sentence
    else:
        assert claim.published is not None and claim.tolerance is not None, "a number's claim"
        published = f"{number(claim.published)} ± {claim.tolerance:g}"
    difference = judged.difference
    return {
        "id": claim.id,
        "metric": claim.metric,
        "unit": claim.unit,
        "published": published,
        "ours": interval_text(judged.interval),
        "difference": "" if difference is None else f"{difference:+.2f}",
        "verdict": str(judged.verdict),
        "verdict_text": verdict_text(judged),
        "note": claim.note,
        "reason": reason(judged),
    }


def _claims_table(outcome: Outcome) -> RichTable:
    table = RichTable(title="Claims and verdicts", title_justify="left", title_style="bold")
    for name in ("id", "metric", "published ± tolerance", "ours ± 95 %", "difference", "verdict"):
        table.add_column(name, justify="right" if name == "difference" else "left")
    for judged in outcome.judged():
        cells = _claim_cells(judged)
        metric = f"{cells['metric']}, {cells['unit']}" if cells["unit"] else cells["metric"]
        table.add_row(
            cells["id"],
            metric,
            cells["published"],
            cells["ours"],
            cells["difference"],
            Text(cells["verdict_text"], style=_STYLES[judged.verdict]),
        )
    return table


def _rich(table: Table) -> RichTable:
    rich = RichTable(title=table.title, title_justify="left", title_style="bold")
    for index, name in enumerate(table.columns):
        rich.add_column(name, justify="left" if index == 0 else "right")
    for row in table.rows:
        rich.add_row(*row)
    return rich

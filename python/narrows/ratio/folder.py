"""An analysis as a folder: ratio.json, with the pairs and failures behind it.

`narrows compare` reads two of them. It reads the pairs, the failures and the places, and computes
everything else again.
"""

from __future__ import annotations

import io
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import polars as pl

from narrows.foreign_text import parsed, regular_bytes
from narrows.ratio.analysis import Group, RatioAnalysis, Variant
from narrows.ratio.failures import Failures
from narrows.ratio.pairs import Dropped, Rules
from narrows.report.files import write_bytes, write_page
from narrows.results.checked import clean
from narrows.results.errors import RunFolderError
from narrows.results.folder import parquet

RATIO_FILE = "ratio.json"
"""The file that makes a folder an analysis."""

FORMAT = 1
_LARGEST = 64 * 2**20
_AGAIN = "run narrows ratio again"


def document(analysis: RatioAnalysis) -> dict[str, Any]:
    """The analysis as JSON values: rules, groups, failures, what was dropped."""
    return {
        "format": FORMAT,
        "sources": list(analysis.sources),
        "rules": _rules(analysis.rules),
        "groups": [
            _group(group)
            for group in [
                *analysis.by_server,
                *(analysis.by_server_and_day if len(analysis.days) > 1 else []),
                *(part for server in analysis.servers for part in analysis.by_source(server)),
                *([analysis.whole] if len(analysis.servers) > 1 else []),
            ]
        ],
        "failures": [asdict(part) for part in analysis.failures],
        "dropped": [asdict(part) for part in analysis.dropped],
        "variants": [asdict(part) for part in analysis.variants],
        "skipped": [list(part) for part in analysis.skipped],
        "warnings": list(analysis.warnings),
        "verdicts": list(analysis.verdicts),
        "asked": list(analysis.asked),
    }


def save(analysis: RatioAnalysis, folder: Path) -> None:
    """Writes the analysis; it replaces files of an earlier one.

    Raises:
        RunFolderError: The folder cannot be written.
    """
    write_bytes(folder / "pairs.parquet", parquet(analysis.table))
    write_bytes(folder / "vantages.parquet", parquet(analysis.vantages))
    text = json.dumps(document(analysis), indent=2, allow_nan=False)
    write_page(folder / RATIO_FILE, text + "\n")


def load(folder: Path) -> RatioAnalysis:
    """Reads an analysis that `save` wrote.

    Raises:
        RunFolderError: The folder holds no analysis, or a damaged one.
    """
    path = folder / RATIO_FILE
    try:
        if path.stat().st_size > _LARGEST:
            raise RunFolderError(path, "is larger than any analysis", _AGAIN)
        found = parsed(regular_bytes(path))
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            raise RunFolderError(path, "has another format", _AGAIN)
        return RatioAnalysis(
            table=_table(folder / "pairs.parquet", _PAIRS),
            dropped=tuple(Dropped(**part) for part in found["dropped"]),
            failures=tuple(_failures(part) for part in found["failures"]),
            vantages=_table(folder / "vantages.parquet", ("vantage", "latitude", "longitude")),
            rules=_read_rules(found["rules"]),
            variants=tuple(Variant(**part) for part in found["variants"]),
            sources=tuple(str(part) for part in found["sources"]),
            skipped=tuple((str(reason), int(count)) for reason, count in found["skipped"]),
            warnings=tuple(str(part) for part in found["warnings"]),
            verdicts=tuple(str(part) for part in found.get("verdicts", ())),
            asked=tuple(str(part) for part in found.get("asked", ())),
        )
    except OSError as error:
        raise RunFolderError.of_system(path, error) from None
    except (ValueError, TypeError, KeyError, AttributeError):
        raise RunFolderError(path, "is damaged", _AGAIN) from None


_PAIRS = ("vantage", "name", "day", "started_s", "udp_ms", "tcp_ms", "ratio", "excess_ms")


def _table(path: Path, needed: tuple[str, ...]) -> pl.DataFrame:
    data = regular_bytes(path)
    try:
        table = pl.read_parquet(io.BytesIO(data), use_pyarrow=False)
    except (KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except BaseException:
        # A panic in the reader is not an Exception.
        raise RunFolderError(path, "is not a readable Parquet file", _AGAIN) from None
    missing = [name for name in needed if name not in table.columns]
    if missing:
        raise RunFolderError(path, f"has no column {missing[0]}", _AGAIN)
    return clean(table)


def _group(group: Group) -> dict[str, Any]:
    peaks = group.peaks
    return {
        "server": group.server,
        "day": None if group.day is None else str(group.day),
        "source": group.source,
        "pairs": peaks.count,
        "vantages": peaks.vantages,
        "quantiles": {f"p{100 * share:g}": value for share, value in peaks.quantiles.items()},
        "median_interval": peaks.median_interval,
        "mode": peaks.mode,
        "mode_interval": peaks.mode_interval,
        "shares": peaks.shares,
        "share_intervals": peaks.share_intervals,
        "peaks": [asdict(peak) for peak in peaks.peaks],
        "bandwidth": peaks.bandwidth,
        "excess_median_ms": group.excess_ms[0],
        "excess_interval_ms": group.excess_ms[1],
        "line": None if group.line is None else asdict(group.line),
    }


def _rules(rules: Rules) -> dict[str, Any]:
    values = asdict(rules)
    # JSON has no infinity.
    values["window_s"] = None if values["window_s"] == float("inf") else values["window_s"]
    return values


def _read_rules(values: dict[str, Any]) -> Rules:
    window = values["window_s"]
    return Rules(
        window_s=float("inf") if window is None else float(window),
        families=tuple(int(family) for family in values["families"]),
        noerror_only=bool(values["noerror_only"]),
        matching=values["matching"],
        cycle_s=float(values["cycle_s"]),
    )


def _failures(part: dict[str, Any]) -> Failures:
    interval = part["interval"]
    return Failures(**{**part, "interval": None if interval is None else tuple(interval)})

"""Writes the folder, whole or not at all."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from narrows import _core
from narrows.errors import NarrowsError
from narrows.foreign_text import regular_bytes
from narrows.paper.parts import Given, Part, names_of, part_of_run, part_of_sweep
from narrows.paper.readme import Compared, readme
from narrows.paper.sums import SUMS_FILE, sums_of
from narrows.report.page import write_plots
from narrows.report.session import of_comparison, of_run
from narrows.report.sweep_report import sweep_plots
from narrows.results import (
    SWEEP_FILE,
    Comparison,
    Run,
    RunFolderError,
    Sweep,
    compare,
    compare_sweeps,
)
from narrows.results.folder import refuse_others
from narrows.unfinished import make_unfinished, write_whole

FORMAT = 1
PAPER_FILE = "paper.json"
README_FILE = "README.md"


@dataclass(frozen=True)
class _Sources:
    """What the user names."""

    runs: Sequence[Run]
    sweeps: Sequence[Sweep]


def write_paper(
    folders: Sequence[str | Path],
    out: str | Path = "paper",
    scenarios: Sequence[str | Path] = (),
    progress: Callable[[float], object] | None = None,
) -> Path:
    """Puts what a reader needs to repeat runs, sweeps and their comparisons into one folder.

    Args:
        folders: Folders of runs and of sweeps. Several runs are also compared with each other, and
            several sweeps.
        out: The folder, which must be new or empty.
        scenarios: Files of scenarios as they were given, to be added as they are, with the lists
            that they name. Each must be the scenario of one of the runs or sweeps.
        progress: Called with the completed share, from 0 to 1.

    Returns:
        The folder.

    Raises:
        RunFolderError: A folder cannot be read, or `out` holds something or cannot be written.
        NarrowsError: Nothing is named, a folder is named twice, or a scenario is of none of them.
    """
    target = Path(out)
    tell = progress or (lambda _: None)
    sources = _load([Path(folder) for folder in folders])
    _refuse_target(target)
    parts = _parts(sources, [Given(Path(path)) for path in scenarios])
    compared = [each for each in (_compared(sources.runs), _compared(sources.sweeps)) if each]
    temporary = None
    try:
        temporary = make_unfinished(target)
        steps = len(parts) + len(compared)
        for number, part in enumerate(parts):
            tell(number / steps)
            _write(temporary / part.at, part.files)
            _plots(part.result, temporary / part.at / "plots")
        for number, each in enumerate(compared, len(parts)):
            tell(number / steps)
            _write_compared(temporary, each)
        plots = {part.at: _names(temporary / part.at / "plots") for part in parts}
        document = _document(parts, compared)
        _write(
            temporary,
            {
                PAPER_FILE: (json.dumps(document, indent=2) + "\n").encode(),
                README_FILE: readme(parts, compared, plots).encode(),
            },
        )
        _write(temporary, {SUMS_FILE: sums_of(temporary).encode()})
        # A rename replaces only an empty folder, never one that has been filled in the meantime.
        temporary.rename(target)
    except OSError as error:
        raise RunFolderError.of_system(target, error) from None
    finally:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)
    tell(1.0)
    return target


def _load(folders: Sequence[Path]) -> _Sources:
    if not folders:
        raise NarrowsError("there is nothing to put into the folder; hint: name a run or a sweep")
    known = [folder.absolute().resolve() for folder in folders]
    for number, folder in enumerate(folders):
        if known[number] in known[:number]:
            raise NarrowsError(f"{folder}: is named twice; hint: name it once")
    sweeps = [folder for folder in folders if (folder / SWEEP_FILE).is_file()]
    return _Sources(
        [Run.load(folder) for folder in folders if folder not in sweeps],
        [Sweep.load(folder) for folder in sweeps],
    )


def _refuse_target(target: Path) -> None:
    try:
        if target.is_symlink():
            raise RunFolderError(target, "is a symbolic link", "choose another name")
        if (target / PAPER_FILE).exists():
            what = "already holds what narrows paper wrote"
            raise RunFolderError(target, what, "choose another folder, or remove it first")
        refuse_others(target)
    except OSError as error:
        raise RunFolderError.of_system(target, error) from None


def _parts(sources: _Sources, given: Sequence[Given]) -> list[Part]:
    used: set[Path] = set()

    def of(result: Run | Sweep) -> Given | None:
        found = next((each for each in given if each.is_of(result)), None)
        used.update([found.path] if found else [])
        return found

    results: list[Run | Sweep] = [*sources.runs, *sources.sweeps]
    names = names_of([each.folder for each in results if each.folder])
    parts = [
        part_of_run(each, name, of(each))
        if isinstance(each, Run)
        else part_of_sweep(each, name, of(each))
        for each, name in zip(results, names, strict=True)
    ]
    for each in given:
        if each.path not in used:
            regular_bytes(each.path, 0)
            raise NarrowsError(
                f"{each.path}: is not the scenario of any of these runs; hint: name the file as it "
                "was when it was run"
            )
    return parts


def _compared(results: Sequence[Run] | Sequence[Sweep]) -> Compared | None:
    """The comparison of all runs, or of all sweeps; None of a single one."""
    if len(results) < 2:
        return None
    runs = [each for each in results if isinstance(each, Run)]
    sweeps = [each for each in results if isinstance(each, Sweep)]
    at = "comparison" if runs else "comparison-of-sweeps"
    try:
        found = [compare(runs)] if runs else list(compare_sweeps(sweeps, {}))
    except NarrowsError as error:
        return Compared(at, (), str(error))
    return Compared(at, tuple(found))


def _write_compared(folder: Path, compared: Compared) -> None:
    for number, one in enumerate(compared.parts, 1):
        name = f"-{number}" if len(compared.parts) > 1 else ""
        _write(
            folder / compared.at,
            {
                f"table{name}.tex": f"{one.table().latex()}\n".encode(),
                f"table{name}.csv": _frame_csv(one),
            },
        )
        write_plots(
            of_comparison(one, ()).shown, folder / compared.at / f"plots{name}", ("pdf",), one
        )


def _frame_csv(comparison: Comparison) -> bytes:
    frame = comparison.frame
    # A list has no form in CSV.
    seeds = [" ".join(map(str, values)) for values in frame["seed_values"].to_list()]
    return frame.with_columns(pl.Series("seed_values", seeds, pl.String)).write_csv().encode()


def _plots(result: Run | Sweep, folder: Path) -> None:
    shown = list(of_run(result, ())) if isinstance(result, Run) else sweep_plots(result)
    write_plots(shown, folder, ("pdf",), result)


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    for name, data in files.items():
        write_whole(folder / name, data)


def _document(parts: Sequence[Part], compared: Sequence[Compared]) -> dict[str, Any]:
    """paper.json: what README.md says, for programs."""

    def of(part: Part) -> dict[str, Any]:
        return {**part.facts, "command": part.command, "not_repeated": part.why_not}

    return {
        "format": FORMAT,
        "narrows": _core.version,
        "build": _core.build,
        "runs": [of(part) for part in parts if isinstance(part.result, Run)],
        "sweeps": [of(part) for part in parts if isinstance(part.result, Sweep)],
        "comparisons": [
            {"folder": each.at, "command": each.command(parts), "not_compared": each.why_not}
            for each in compared
        ],
    }

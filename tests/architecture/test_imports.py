"""Which Python package may import which."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "python" / "narrows"

# Text and files made safe, the types of plots' files, which narrows this is, and how its processes
# start. They know nothing else of narrows, and every part may import them.
FOR_ALL = {"builds", "foreign_text", "plot_files", "private", "starting", "unfinished"}

# The parts of narrows that each part may import besides itself. A part that is not listed fails.
MAY_IMPORT: dict[str, set[str]] = {
    "builds": {"_core"},
    "foreign_text": set(),
    "plot_files": set(),
    "private": set(),
    "starting": set(),
    "unfinished": set(),
    "errors": set(),
    # Shows people how far something is.
    "progress": set(),
    # Values with their sources, for the language to name.
    "dns_profiles": {"errors"},
    # The classes for declaring records; other parts make the declarations.
    "records": {"_core"},
    # Knows no backend: a scenario is read and lowered without running anything.
    "scenario": {"_core", "errors", "dns_profiles", "records"},
    # Computes a queue's settings; the language is there to write them.
    "sizing": {"_core", "errors", "scenario"},
    # Reads a run folder without knowing what wrote it: the kinds of traffic in its scenario say
    # which tables it has.
    "results": {"errors", "_core", "records", "scenario"},
    # Read what others measured, into the same run folders.
    "atlas": {"_core", "errors", "results"},
    "captures": {"_core", "errors", "results"},
    # Likewise; the language finds the names that wrong ones are near.
    "delimited": {"_core", "errors", "results", "scenario"},
    # Judges measurements from any source.
    "ratio": {"errors", "records", "results", "report"},
    # What users derive their queues and congestion controls from, and the laws for these.
    "part": set(),
    "queues": {"_core", "errors", "part"},
    "controls": {"_core", "errors", "part"},
    "laws": {"_core", "errors", "queues", "controls"},
    # Writes crates to start from.
    "new": {"errors"},
    # A kernel's DNS servers are those of the laboratory.
    "backends": {
        "_core",
        "errors",
        "progress",
        "part",
        "queues",
        "controls",
        "scenario",
        "results",
        "testbed",
    },
    # Reads only run folders. The language is there to understand the scenarios in them; files of
    # plots name the version.
    "report": {"_core", "errors", "records", "results", "scenario"},
    # Runs, sweeps and comparisons as a folder that others can repeat.
    "paper": {"_core", "errors", "scenario", "results", "report", "backends", "sweeps"},
    # The page with examples and knobs; runs plans with parts of the user's own.
    "lab": {
        *("_core", "errors", "scenario", "queues", "controls", "backends"),
        *("results", "report", "sweeps"),
    },
    # Makes run folders' metrics into one table, in many processes.
    "sweeps": {
        *("_core", "errors", "progress", "queues", "controls", "scenario", "results", "backends"),
    },
    # Asks real servers; writes what a run folder holds.
    "probe": {"_core", "errors", "results"},
    # Servers and paths to ask; does not know who asks.
    "testbed": {"_core", "errors"},
    # Compares the simulator with a kernel.
    "agreement": {"_core", "errors", "scenario", "results", "backends", "report"},
    # Reads a machine's queues as the kernel backend does.
    "monitor": {"_core", "errors", "results", "backends"},
    # One scenario on several machines: the kernel backend's programs, and the monitor.
    "machines": {"_core", "errors", "scenario", "results", "backends", "monitor"},
    "reproduce": {
        "errors",
        "dns_profiles",
        "progress",
        "records",
        "scenario",
        "results",
        "backends",
        "report",
        "probe",
        "captures",
        "testbed",
        "__init__",
    },
    # Our own questions: many runs, judged; paper H's test bed and the gateway's bench are there.
    "study": {
        "_core",
        "errors",
        "records",
        "scenario",
        "results",
        "backends",
        "report",
        "reproduce",
        "sweeps",
        "__init__",
    },
    # Reads and writes another program's files; a run is all that it knows.
    "flent": {"_core", "errors", "results"},
    # Other people's tests, for any queue: many runs, and a page.
    "suites": {
        "_core",
        "errors",
        "flent",
        "controls",
        "queues",
        "scenario",
        "results",
        "backends",
        "report",
        "sweeps",
    },
    # An environment for learning: parts of one's own in a scenario, step by step.
    "gym": {"_core", "controls", "queues", "scenario"},
    "cli": {
        "queues",
        "suites",
        "flent",
        "new",
        "_core",
        "errors",
        "records",
        "scenario",
        "results",
        "backends",
        "report",
        "reproduce",
        "study",
        "probe",
        "monitor",
        "machines",
        "agreement",
        "lab",
        "sweeps",
        "atlas",
        "captures",
        "delimited",
        "ratio",
        "paper",
        "sizing",
        "progress",
        "__init__",
    },
    "__init__": {"_core", "errors", "scenario", "results", "backends", "sweeps"},
    "__main__": {"cli"},
}


def part_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(path: Path) -> Iterator[tuple[int, str]]:
    """The parts of narrows that a file imports, and where; relative imports too."""
    package = ("narrows", *path.relative_to(PACKAGE).parent.parts)
    for node in ast.walk(ast.parse(path.read_text())):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package[: len(package) - node.level + 1]
                base = ".".join((*above, base)) if base else ".".join(above)
            names = [f"{base}.{alias.name}" for alias in node.names]
        for name in names:
            first, *rest = name.split(".")
            if first != "narrows":
                continue
            known = rest and ((PACKAGE / rest[0]).is_dir() or list(PACKAGE.glob(f"{rest[0]}.*")))
            yield node.lineno, rest[0] if known else "__init__"


SOURCES = sorted(PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_one_way(path: Path) -> None:
    part = part_of(path)
    assert part in MAY_IMPORT, f"give {part} a rule here"
    for line, name in imported(path):
        assert name == part or name in FOR_ALL | MAY_IMPORT[part], (
            f"line {line}: {part} imports {name}"
        )


def test_the_rules_have_no_circle() -> None:
    rules = {part: set(others) - {"__init__"} for part, others in MAY_IMPORT.items()}
    done: set[str] = {"_core"}
    while rules:
        free = {part for part, others in rules.items() if others <= done}
        assert free, f"a circle among {sorted(rules)}"
        done |= free
        rules = {part: others for part, others in rules.items() if part not in free}


@pytest.mark.parametrize("module", ["narrows", "narrows.scenario", "narrows.scenario.traffic"])
def test_the_language_loads_no_library_for_tables_or_plots(module: str) -> None:
    """Kinds of traffic only declare what is made of their tables, and need no such library."""
    words = f"import sys, {module}; print(*{{'matplotlib', 'polars'}} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


NOT_TO_START = "polars matplotlib numpy scipy rich jinja2"
# Every kind of traffic, the profiles of DNS programs, and the schema of the language.
NOT_FOR_EVERY_SCENARIO = (
    "narrows.scenario.traffic.kinds narrows.dns_profiles.models narrows.scenario.schema"
)
SMALL = """
name = "small"
duration = "1 s"
links = [{ name = "wan", between = ["a", "b"], rate = "2 Mbit/s" }]
"""


@pytest.mark.parametrize(
    ("arguments", "heavy"),
    [
        *((words, f"{NOT_TO_START} pydantic") for words in ("--version", "--help")),
        *((words, NOT_TO_START) for words in ("run --help", "sweep plot --help", "study --help")),
        ("check small.toml", f"{NOT_TO_START} {NOT_FOR_EVERY_SCENARIO}"),
        ("schema", NOT_TO_START),
    ],
)
def test_commands_load_what_they_need(arguments: str, heavy: str, tmp_path: Path) -> None:
    """Commands load no library that they do not use."""
    (tmp_path / "small.toml").write_text(SMALL)
    words = (
        "import sys; from narrows.cli import main; code = main(sys.argv[1:]); "
        f"print(*(set({heavy.split()}) & sys.modules.keys()), file=sys.stderr); sys.exit(code)"
    )
    command = [sys.executable, "-c", words, *arguments.split()]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (done.returncode, done.stderr.split()) == (0, [])

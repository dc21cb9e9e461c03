"""README.md of the folder: how a reader repeats each number."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from narrows.builds import THIS, named
from narrows.foreign_text import printable, shortened
from narrows.paper.parts import GIVEN_FILE, PLAN_FILE, SCENARIO_FILE, TABLE_FILE, Part
from narrows.results import RUN_FILE, Comparison, Run, Sweep
from narrows.scenario.toml_text import inline


@dataclass(frozen=True)
class Compared:
    """The comparison of all runs of the folder, or of all its sweeps."""

    at: str
    """Its folder."""
    parts: tuple[Comparison, ...]
    why_not: str = ""
    """Why they cannot be compared; empty if they can."""

    def command(self, of: Sequence[Part]) -> str:
        """What compares a reader's own results."""
        mine = [part for part in of if isinstance(part.result, Run) == self._of_runs]
        return shlex.join(["narrows", "compare", *(part.again for part in mine)])

    @property
    def _of_runs(self) -> bool:
        return self.at == "comparison"


def readme(
    parts: Sequence[Part], compared: Sequence[Compared], plots: Mapping[str, Sequence[str]]
) -> str:
    """The text; `plots` has the names of each part's plots, by its folder."""
    versions = sorted({named(part.result.narrows, part.result.build) for part in parts})
    lines = [
        "# How to repeat these numbers",
        "",
        f"`narrows paper` {THIS} wrote this folder. The numbers come from narrows "
        f"{' and '.join(map(_code, versions))}. Everything in it is listed in SHA256SUMS:",
        "",
        "    narrows paper --check .             # or: sha256sum --check SHA256SUMS",
        "    narrows paper --check . --repeat    # runs again and compares the tables' bytes",
        "",
        "The same scenario, seed and version of narrows give the same bytes in the simulator, on "
        "every machine. All commands below run in this folder, and write into `again`, which "
        "`--check` does not look at. paper.json has the same facts for programs.",
    ]
    for part in parts:
        lines += [
            "",
            f"## {part.at}",
            "",
            *_facts(part),
            "",
            *_again(part),
            "",
            *_holds(part, plots[part.at]),
        ]
    for each in compared:
        lines += ["", f"## {each.at}", "", *_comparison(each, parts)]
    return "\n".join([*lines, ""])


def _facts(part: Part) -> list[str]:
    facts = part.facts
    rows: list[tuple[str, Any]] = [("scenario", facts["scenario"])]
    if isinstance(part.result, Run):
        rows += [("seed", facts["seed"]), ("set for this run", part.result.settings)]
    else:
        rows += [
            ("varied", ", ".join(facts["vary"])),
            ("seeds", ", ".join(map(str, facts["seeds"]))),
        ]
    rows += [
        ("backend", facts["backend"]),
        ("narrows", named(facts["narrows"], facts["build"])),
    ]
    host = facts.get("host") or {}
    kernel = host.get("kernel")
    for key in ("python", "numpy", "polars", "profile"):
        rows.append((key if key != "profile" else "Rust core, built for", host.get(key, "")))
    rows.append(
        ("system", " ".join(str(host.get(key, "")) for key in ("system", "release", "machine")))
    )
    if isinstance(kernel, Mapping):
        rows += [
            (f"kernel: {key}", value) for key, value in kernel.items() if isinstance(value, str)
        ]
    rows += [
        ("SHA-256 of run.json", facts.get("digest")),
        ("SHA-256 of its plan", facts.get("plan_sha256")),
    ]
    rows += [
        (f"plugin {plugin.get('file')}", f"SHA-256 {plugin.get('sha256')}")
        for plugin in facts.get("plugins") or ()
    ]
    if not facts.get("as_written", True):
        rows.append(("run.json", "is not as narrows wrote it"))
    given = [(name, str(value).strip()) for name, value in rows if value is not None]
    shown = [(_cell(name), _code(shortened(text, _LONGEST))) for name, text in given if text]
    return [
        "| | |",
        "|---|---|",
        *(f"| {name} | {text} |" for name, text in shown),
    ]


_LONGEST = 2000
"""The most characters of a fact, which may come from other people."""


def _again(part: Part) -> list[str]:
    lines = [f"    {part.command}"]
    if part.why_not:
        lines += ["", f"`narrows paper --check . --repeat` leaves it out: {_prose(part.why_not)}."]
    return lines


def _holds(part: Part, plots: Sequence[str]) -> list[str]:
    """What is in the part's folder, and which of a reader's own numbers must be equal."""
    given = []
    if GIVEN_FILE in part.files:
        given = [f"- `{GIVEN_FILE}`: the scenario as it was given{_set(part.result)}"]
    if isinstance(part.result, Run):
        lines = [
            f"- `{SCENARIO_FILE}`: the scenario with every default filled in",
            *given,
            f"- `{RUN_FILE}`: the run's own record. Its key `files` has the SHA-256 of each table, "
            f"which the tables in `{part.again}` must have",
            "- `summary.tex`, `summary.csv`: the summary",
        ]
    else:
        lines = [
            f"- `{SCENARIO_FILE}`, `{PLAN_FILE}`: the scenario, and what is varied",
            *given,
            "- `sweep.json`: the sweep's own record",
            f"- `{TABLE_FILE}`: every run; `{part.again}/sweep.csv` must have the same columns, "
            "and one more, `run`",
            "- `means.tex`, `means.csv`: means over the seeds, with 95 % intervals",
        ]
    return [*lines, *([f"- `plots/`: {', '.join(map(_code, plots))}"] if plots else [])]


def _set(result: Run | Sweep) -> str:
    """The options that changed the given scenario; empty if nothing was changed."""
    if isinstance(result, Sweep) or not result.set:
        return ""
    words = [
        word for key, value in result.set.items() for word in ("--set", f"{key}={inline(value)}")
    ]
    return f", to which this was added: {_code(shlex.join(words))}"


def _comparison(compared: Compared, parts: Sequence[Part]) -> list[str]:
    if compared.why_not:
        return [f"They cannot be compared: {_prose(compared.why_not)}."]
    return [
        "Differences from the first, with 95 % intervals, as `.tex`, `.csv` and plots. After the "
        "commands above:",
        "",
        f"    {compared.command(parts)} --latex",
    ]


def _code(text: str) -> str:
    """Foreign text as code, which Markdown takes as it is."""
    text = printable(text)
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    room = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{room}{text}{room}{fence}".replace("|", "\\|")


def _prose(text: str) -> str:
    return re.sub(r"([\\`*_{}\[\]<>#|&])", r"\\\1", printable(text))


def _cell(text: str) -> str:
    return _prose(text)

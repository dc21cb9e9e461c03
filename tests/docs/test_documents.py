"""Examples in the documents work as they are, and print what the documents say."""

from __future__ import annotations

import gzip
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from narrows import Scenario, _core, run

CHECKOUT = Path(__file__).parents[2]
DOCUMENTS = tuple(
    str(path.relative_to(CHECKOUT))
    for pattern in (
        "*.md",
        "docs/**/*.md",
        "benchmarks/**/*.md",
        "crates/*/*.md",
        "fuzz/*.md",
        "gateway/**/*.md",
        "python/narrows/reproduce/*/README.md",
        "python/narrows/study/*/README.md",
    )
    for path in sorted(CHECKOUT.glob(pattern))
)


NODES = {
    *("between", "client", "clients", "pairs", "receiver", "secondaries", "sender", "server"),
    *("servers", "source"),
}
"""Keys that name nodes."""
NO_SCENARIOS = {
    "docs/extending.md",
    "docs/sweeps.md",
    "crates/link/README.md",
    "crates/qdisc/README.md",
    "crates/transport/README.md",
}
"""Documents whose TOML is Cargo's, or a sweep that another test follows."""
ASSERTING = (
    *("docs/captures.md", "docs/dns-clients.md", "docs/dns-servers.md"),
    "docs/extending.md",
)
"""Documents whose Python runs only in the checkout."""


FOLLOWED = {
    "README.md": 3,
    "docs/dns-quic.md": 1,
    "docs/dns-tls.md": 1,
    "docs/dns-transports.md": 1,
    "docs/guide.md": 10,
    "docs/learning.md": 1,
    "docs/queues.md": 1,
    "docs/ratio.md": 8,
    "docs/requests.md": 1,
    "docs/study.md": 1,
    "docs/suites.md": 8,
    "docs/sweeps.md": 14,
    "docs/tour.md": 21,
    "python/narrows/study/dns_transport/README.md": 1,
}
"""Documents that can be followed from their beginning, and at least how many things each shows."""
PREPARED = {"docs/atlas.md", "docs/measurements.md", "docs/run-folder.md"}
"""Documents that are followed after what they expect is there."""
ELSEWHERE = {"docs/own-aqm.md", "docs/probe.md"}
"""Documents that test_own_aqm.py and tests/testbed/test_example.py follow."""


@dataclass(frozen=True)
class Block:
    """A block of lines in a document that are not prose."""

    kind: str
    """The language of a fenced block, or `indented`."""
    lines: tuple[str, ...]

    @property
    def text(self) -> str:
        """The lines as they would stand in a file."""
        return "\n".join(self.lines) + "\n"


def blocks(text: str) -> Iterator[Block]:
    """The code of a document, in its order."""
    fence: str | None = None
    lines: list[str] = []
    # The last line ends an indented block at the document's end.
    for line in [*text.splitlines(), "end"]:
        if line.startswith("```"):
            if fence is not None:
                yield Block(fence, tuple(lines))
            elif lines:
                yield Block("indented", tuple(lines))
            fence, lines = (line[3:] if fence is None else None), []
        elif fence is not None or line.startswith("    ") or (lines and not line.strip()):
            lines.append(line if fence is not None else line[4:])
        elif lines:
            yield Block("indented", tuple(lines))
            lines = []


def commands(block: Block) -> list[tuple[str, list[str]]]:
    """Shell commands of an indented block, each with the output below it."""
    if block.lines[0].startswith("for "):
        return [(block.text, [])]
    found: list[tuple[str, list[str]]] = []
    for line in re.sub(r"\\\n *", "", block.text).splitlines():
        # What stands apart behind a command explains it.
        bare, _, _ = line.removeprefix("$ ").partition("     ")
        if bare.startswith("narrows "):
            found.append((bare, []))
        elif found and line.strip():
            found[-1][1].append(" ".join(line.split()))
    return found


def is_whole(block: Block) -> bool:
    """Whether TOML is a whole file, and not a part to add to a scenario."""
    return not block.lines[0].startswith(("[", "forward"))


def names_in(part: object, key: str = "") -> Iterator[str]:
    """The nodes that a part of a scenario names."""
    if isinstance(part, dict):
        for below, value in part.items():
            yield from names_in(value, below)
    elif isinstance(part, list):
        for value in part:
            yield from names_in(value, key)
    elif isinstance(part, str) and key in NODES:
        yield part


def stage(part: str) -> str:
    """A scenario around a part: its nodes around a hub, and a link and a DNS group to refer to."""
    values = tomllib.loads(part)
    nodes = {*names_in(values), "server"}
    # Hosts that the part itself connects would become routers through a second link.
    nodes -= {node for node in names_in(values.get("links")) if "{i}" in node}
    lines = ['name = "stage"', 'duration = "600 s"']
    lines += ["[[dns]]", 'name = "stub"', 'client = "a"', 'server = "b"', "queries = 10"]
    if 'kind = "flood"' in part or 'kind = "transfer"' in part:
        lines[-2] = re.findall("^server = .*", part, flags=re.M)[0]
    for number, node in enumerate(sorted(nodes)):
        name = f"hub-{number}" + ("-{i}" if "{i}" in node else "")
        lines += ["[[links]]", f'name = "{name}"', f'between = ["{node}", "hub"]']
        lines += ['rate = "1 Gbit/s"', *(["count = 500"] if "{i}" in node else [])]
    lines += ["[[links]]", 'name = "hub"', 'between = ["a", "hub"]', 'rate = "1 Gbit/s"']
    lines += ["[[links]]", 'name = "line"', 'between = ["hub", "b"]', 'rate = "10 Mbit/s"']
    return "\n".join(lines) + "\n" + part


def alike(shown: list[str], printed: list[str]) -> bool:
    """Whether two lines say the same, with numbers within a tenth; versions differ by less."""
    if len(shown) != len(printed):
        return False
    for one, other in zip(shown, printed, strict=True):
        try:
            if float(one) != pytest.approx(float(other), rel=0.1):
                return False
        except ValueError:
            if one != other:
                return False
    return True


def shell(command: str, folder: Path) -> str:
    binaries = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "-ec", command],
        cwd=folder,
        env={**os.environ, "PATH": binaries},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stderr}"
    return done.stdout


def follow(document: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """Does what a document shows, in order; returns how many things it did."""
    for data in ("samples", "scenarios"):
        shutil.copytree(CHECKOUT / data, folder / data, dirs_exist_ok=True)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("MPLBACKEND", "agg")
    names: dict[str, object] = {}
    count = 0
    for block in blocks((CHECKOUT / document).read_text(encoding="utf-8")):
        if block.kind == "toml" and is_whole(block):
            (folder / "mine.toml").write_text(block.text, encoding="utf-8")
        elif block.kind == "python":
            exec(compile(block.text, document, "exec"), names)
            count += 1
        elif block.kind == "indented":
            for command, printed in commands(block):
                if command.startswith(("narrows reproduce", "narrows study")):
                    continue  # they take minutes: tests/reproduce, tests/study, and below
                output = shell(command.replace("1 2 3 4 5", "1 2"), folder)
                lines = [line.split() for line in output.splitlines()]
                for shown in printed:
                    assert any(alike(shown.split(), line) for line in lines), shown
                count += 1
    return count


@pytest.mark.slow
@pytest.mark.parametrize(("document", "least"), FOLLOWED.items())
def test_what_a_document_shows_works(
    document: str, least: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert follow(document, tmp_path, monkeypatch) >= least


@pytest.mark.slow
def test_the_run_folder_is_read_as_its_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = CHECKOUT / "scenarios" / "dns-behind-red.toml"
    shell(f"narrows run {shlex.quote(str(scenario))} --no-report", tmp_path)
    assert follow("docs/run-folder.md", tmp_path, monkeypatch) == 2


@pytest.mark.slow
def test_measurements_are_read_as_their_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = CHECKOUT / "samples/csv/example.csv"
    shell(f"narrows import csv {shlex.quote(str(table))} --out runs/probe-1", tmp_path)
    assert follow("docs/measurements.md", tmp_path, monkeypatch) >= 2


@pytest.mark.slow
def test_results_of_ripe_atlas_are_read_as_their_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample = CHECKOUT / "samples/atlas"
    shutil.copy(sample / "probes.json", tmp_path / "probes-2026-11-01.json")
    for name in ("udp4", "tcp4"):
        there = tmp_path / f"atlas-k-{name}-2026-11-01.jsonl"
        there.write_bytes(gzip.decompress((sample / "nsd-3.2.14.jsonl.gz").read_bytes()))
    assert follow("docs/atlas.md", tmp_path, monkeypatch) == 3


def test_python_of_every_document_is_run() -> None:
    shown = {
        document
        for document in DOCUMENTS
        for block in blocks((CHECKOUT / document).read_text(encoding="utf-8"))
        if block.kind == "python"
    }
    assert shown <= FOLLOWED.keys() | PREPARED | ELSEWHERE | set(ASSERTING)


def scenarios(document: str) -> list[Block]:
    """A document's scenarios, whole or in part."""
    found = blocks((CHECKOUT / document).read_text(encoding="utf-8"))
    return [block for block in found if block.kind == "toml"]


@pytest.mark.parametrize(
    "document", [name for name in DOCUMENTS if name not in NO_SCENARIOS and scenarios(name)]
)
def test_scenarios_of_documents_start(document: str) -> None:
    for block in scenarios(document):
        text = block.text if is_whole(block) else stage(block.text)
        scenario = Scenario.parse(text, file=str(CHECKOUT / "scenarios" / "mine.toml"))
        assert not _core.Simulation(json.dumps(scenario.plan())).advance(1)


def test_the_pages_on_traffic_show_scenarios() -> None:
    least = {"guide": 7, "traffic": 5, "requests": 4, "dns-transports": 1, "dns-tls": 1}
    for page, number in least.items():
        assert len(scenarios(f"docs/{page}.md")) >= number, page


@pytest.mark.parametrize("document", ASSERTING)
def test_python_of_documents_says_what_is_true(
    document: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(CHECKOUT)
    names: dict[str, object] = {}
    ran = 0
    for block in blocks((CHECKOUT / document).read_text(encoding="utf-8")):
        if block.kind == "python":
            exec(compile(block.text, document, "exec"), names)
            ran += 1
    assert ran


def test_the_guides_scenario_fills_its_queue() -> None:
    guide = (CHECKOUT / "docs" / "guide.md").read_text(encoding="utf-8")
    (own,) = (b.text for b in blocks(guide) if b.kind == "toml" and is_whole(b))
    result = run(Scenario.parse(own))
    assert result.stopped == "dns-done"
    assert result.queues["dropped_overflow"].max() > 0
    assert result.queries.filter(measured=True).height == 500


@pytest.mark.slow
def test_reproductions_that_documents_name_exist() -> None:
    from narrows.reproduce import ids

    help_text = shell("narrows reproduce --help", CHECKOUT)
    known = {name.lower() for name in ids()}
    shown = [
        command
        for document in DOCUMENTS
        for block in blocks((CHECKOUT / document).read_text(encoding="utf-8"))
        if block.kind == "indented"
        for command, _ in commands(block)
        if command.startswith("narrows reproduce")
    ]
    assert len(shown) > 5
    for command in shown:
        for word in shlex.split(command, comments=True)[2:]:
            if word.startswith("--"):
                assert word in help_text, command
            elif word.lower() not in known:
                # The value of an option.
                assert re.search(rf"--\w+ {re.escape(word)}\b", command), command


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_lead_somewhere(document: str) -> None:
    path = CHECKOUT / document
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (path.parent / target).exists(), target


def test_tasks_that_documents_name_exist() -> None:
    tasks = set(re.findall(r"^([a-z-]+):", (CHECKOUT / "Makefile").read_text(), flags=re.M))
    for document in DOCUMENTS:
        text = (CHECKOUT / document).read_text(encoding="utf-8")
        for task in re.findall(r"`make ([a-z-]+)`|^    make ([a-z-]+)", text, flags=re.M):
            assert "".join(task) in tasks, document


def test_the_page_on_agreement_has_the_simulator_s_last_results_of_paper_h() -> None:
    folder = CHECKOUT / "python/narrows/reproduce/harhalakis_2011"
    claims = json.loads((folder / "result.json").read_text(encoding="utf-8"))["claims"]
    queues = {"FIFO": "FIFO", "none": "RED no ECN", "half": "RED 50 % ECN", "all": "RED only ECN"}
    page = (CHECKOUT / "docs/agreement.md").read_text(encoding="utf-8")
    _, _, rest = page.partition("| cell | first attempts answered, %: here | simulator |")
    rows = rest.split("\n\n")[0].splitlines()[2:]
    assert len(rows) == 12
    for row in rows:
        cell, _, simulator = (part.strip() for part in row.split("|")[1:4])
        words, _, delay = cell.partition(", ")
        target = words.split()[1]
        kind = queues["FIFO" if words.startswith("FIFO") else words.split()[2]]
        path = f"{delay.removesuffix(' ms')}±5 ms" if delay else "100±25 ms"
        metric = f"{kind}, {target} ms, {path}: replied on attempt 1"
        (measured,) = [claim["measured"] for claim in claims if claim["metric"] == metric]
        assert simulator == f"{measured:.2f}", cell

"""The paper cites the repository's results and commands that exist; CITATION.cff is right."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections import Counter
from pathlib import Path

import pytest
import yaml

from narrows.cli.app import COMMANDS

CHECKOUT = Path(__file__).parents[2]
PAPER = (CHECKOUT / "paper/paper.md").read_text(encoding="utf-8")
PLAIN = " ".join(PAPER.split())
REPRODUCED = CHECKOUT / "python/narrows/reproduce"
FOLDERS = {
    "H": "harhalakis_2011",
    "K": "kantawala_2002",
    "D": "dana_2010",
    "S": "hayes_2010",
    "R": "wijnen_2012",
    "BBR": "ware_2019",
    "L4S": "l4s_2022",
    "CAKE": "hoiland_jorgensen_2018",
}
NAMED = ("holds", "depends", "undecided", "fails")


def claims(paper: str) -> list[dict[str, object]]:
    text = (REPRODUCED / FOLDERS[paper] / "result.json").read_text(encoding="utf-8")
    found: list[dict[str, object]] = json.loads(text)["claims"]
    return found


def measured(paper: str, claim: str, metric: str) -> float:
    (found,) = (c for c in claims(paper) if (c["id"], c["metric"]) == (claim, metric))
    value = found["measured"]
    assert isinstance(value, float)
    return value


def published(paper: str, claim: str, metric: str) -> float:
    (found,) = (c for c in claims(paper) if (c["id"], c["metric"]) == (claim, metric))
    value = found["published"]
    assert isinstance(value, float)
    return value


def test_the_table_counts_the_verdicts_of_every_paper() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \|[^|]*\| (.*) \|$", PAPER, flags=re.M))
    assert rows.keys() == FOLDERS.keys()
    assert {p.parent.name for p in REPRODUCED.glob("*/result.json")} == set(FOLDERS.values())
    for paper, row in rows.items():
        counts = Counter(str(claim["verdict"]) for claim in claims(paper))
        named = [counts[verdict] for verdict in NAMED]
        expected = [counts.total(), *named, counts.total() - sum(named)]
        assert [int(cell) for cell in row.split("|")] == expected, paper


def test_numbers_of_findings_are_those_of_the_results() -> None:
    none, all_ = (
        f"RED {which} ECN, 200 ms, 20±5 ms: replied on attempt 1" for which in ("no", "only")
    )
    ours = [f"{measured('H', 'H6', metric):.1f} %" for metric in (all_, none)]
    theirs = [f"{published('H', 'H6', metric):.1f} %" for metric in (all_, none)]
    assert f"{ours[0]} of the first attempts succeed, and {ours[1]} if none does" in PLAIN
    assert f"the paper has {theirs[0]} and {theirs[1]}" in PLAIN
    three = measured("R", "R2", "most frequent ratio: length and message in two writes")
    two = measured("R", "R1", "most frequent ratio: BIND of today")
    assert f"TCP takes {three:.2f} times as long as UDP then, and {two:.2f} times" in PLAIN
    study = CHECKOUT / "python/narrows/study/dns_transport/result.json"
    runs = json.loads(study.read_text(encoding="utf-8"))["runs"]
    assert f"a study of our own with {runs} runs" in PLAIN


def test_the_agreement_is_the_recorded_one() -> None:
    recorded = json.loads((CHECKOUT / "docs/kernel-agreement.json").read_text(encoding="utf-8"))
    metrics = {m["metric"]: m["mean_absolute_difference"] for m in recorded["metrics"]}
    said = (
        f"{metrics['first-attempt success']:.2f} points (first attempts answered), "
        f"{metrics['mean backlog']:.1f} % (backlog), {metrics['drops']:.1f} % (drops), "
        f"{metrics['marks']:.1f} % (marks), {metrics['utilisation']:.2f} % (utilisation) and "
        f"{metrics['response, 95 % within']:.1f} % (response time)"
    )
    assert said in PLAIN
    agrees = sum(m["agrees"] for m in recorded["metrics"])
    assert (agrees, len(recorded["metrics"])) == (3, 7)
    assert "Three of seven metrics meet the bounds" in PLAIN
    command = f"narrows agreement --draws {recorded['draws']} --seed {recorded['seed']}"
    assert f"`{command}`" in PLAIN


def test_the_speed_is_that_of_the_page_on_accuracy() -> None:
    page = " ".join((CHECKOUT / "docs/accuracy.md").read_text(encoding="utf-8").split())
    numbers = re.search(
        r"(\d+) and (\d+) times as fast as ns-3.37, ([\d.]+) and ([\d.]+) times as fast as ns-2.35",
        page,
    )
    assert numbers is not None
    said = "{} (Drop Tail) and {} (RED) times as fast as ns-3.37, and {} and {} times"
    assert said.format(*numbers.groups()) in PLAIN


def test_commands_exist() -> None:
    names = {name.split()[0] for name in COMMANDS}
    shown = re.findall(r"`(narrows [^`]+|make [^`]+)`", PAPER)
    assert len(shown) > 8
    tasks = re.findall(r"^([a-z0-9-]+):", (CHECKOUT / "Makefile").read_text(), flags=re.M)
    ids = {str(claim["id"]) for paper in FOLDERS for claim in claims(paper)} | FOLDERS.keys()
    for command in shown:
        program, first, *rest = shlex.split(command)
        assert first in (tasks if program == "make" else names), command
        if first in ("reproduce", "suite", "study"):
            known = {*ids, "dns-transport", *(n.split()[-1] for n in COMMANDS if " " in n)}
            assert set(rest) <= known, command


def test_every_source_is_cited_and_every_citation_has_a_source() -> None:
    bib = (CHECKOUT / "paper/paper.bib").read_text(encoding="utf-8")
    assert set(re.findall(r"@\w+\{(\w+),", bib)) == set(re.findall(r"\[@(\w+)\]", PAPER))
    assert bib.count("{") == bib.count("}")


def test_the_paper_is_two_pages_with_the_parts_of_the_journal() -> None:
    """The journal asks for 250 to 1000 words, and for these headings."""
    _, front, text = PAPER.split("---\n", 2)
    facts = yaml.safe_load(front)
    assert facts.keys() == {"title", "tags", "authors", "affiliations", "date", "bibliography"}
    assert {"# Summary", "# Statement of need", "# References"} <= set(text.splitlines())
    prose = re.sub(r"^\|.*\|$", "", text, flags=re.M)
    assert 250 <= len(prose.split()) <= 1000


CITATION = yaml.safe_load((CHECKOUT / "CITATION.cff").read_text(encoding="utf-8"))


def test_the_citation_has_what_its_format_asks_for() -> None:
    """Citation File Format 1.2.0: required keys, and those of software that we use."""
    assert CITATION["cff-version"] == "1.2.0"
    assert {"message", "title", "authors"} <= CITATION.keys()
    assert CITATION.keys() <= {
        *("abstract", "authors", "cff-version", "date-released", "keywords", "license"),
        *("message", "title", "type", "version"),
    }
    assert CITATION["type"] == "software"
    # An entity: a group, which has a name and no given or family name.
    assert CITATION["authors"] == [{"name": "The narrows maintainers"}]
    facts = yaml.safe_load(PAPER.split("---\n", 2)[1])
    assert [author["name"] for author in facts["authors"]] == ["The narrows maintainers"]
    assert (facts["title"], facts["tags"]) == (CITATION["title"], CITATION["keywords"])


def test_the_citation_s_version_licence_and_date_are_the_package_s() -> None:
    package = tomllib.loads((CHECKOUT / "Cargo.toml").read_text())["workspace"]["package"]
    assert CITATION["version"] == package["version"]
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    assert project["license"] == package["license"] == " OR ".join(CITATION["license"])
    log = (CHECKOUT / "CHANGELOG.md").read_text(encoding="utf-8")
    dated = re.search(rf"^## {re.escape(package['version'])} \((\d{{4}}-\d\d-\d\d)\)$", log, re.M)
    if dated is None:
        assert "date-released" not in CITATION, "this version is not released"
    else:
        assert str(CITATION["date-released"]) == dated[1]


@pytest.mark.parametrize("outside", ["paper", "CITATION.cff"])
def test_the_wheel_is_without_it(outside: str) -> None:
    maturin = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["tool"]["maturin"]
    assert maturin["python-source"] == "python"
    assert not any(outside in entry["path"] for entry in maturin["include"])
    assert not (CHECKOUT / "python" / outside).exists()

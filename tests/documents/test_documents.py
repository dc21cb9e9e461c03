"""Code and commands in README.md and docs/ do what the text around them says."""

from __future__ import annotations

import re
import shlex
from itertools import pairwise
from pathlib import Path

import pytest

from narrows import Scenario, run
from narrows.cli import main

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of a page in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)


def commands(page: Path) -> list[list[str]]:
    """The words of every `narrows` command that stands on a line of its own, indented."""
    lines = re.findall(r"^ {4,}(?:\$ )?(narrows .*)$", page.read_text(), re.MULTILINE)
    return [shlex.split(line, comments=True)[1:] for line in lines]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the examples and the guide's scenario, and the guide's run."""
    (tmp_path / "scenarios").symlink_to(ROOT / "scenarios")
    (own,) = blocks(ROOT / "docs" / "guide.md", "toml")
    (tmp_path / "mine.toml").write_text(own)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
def test_python_in_documents_runs(place: Path) -> None:
    run(Scenario.load("mine.toml"), out=place / "runs" / "mine-1")
    found = [(page, code) for page in PAGES for code in blocks(page, "python")]
    assert len(found) >= 3
    for page, code in found:
        exec(compile(code, page.name, "exec"), {})


def test_the_guides_scenario_fills_its_queue(place: Path) -> None:
    result = run(Scenario.load("mine.toml"))
    assert result.stopped == "dns-done"
    assert result.queues["dropped_overflow"].max() > 0
    assert result.queries.filter(measured=True).height == 500


def test_commands_in_documents_name_what_is_there(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Runs are checked instead of run, and no reproduction is run."""
    found = [(page, words) for page in PAGES for words in commands(page)]
    assert len(found) >= 8
    for page, (command, *arguments) in found:
        if command in ("run", "check"):
            kept = [arguments[0]]
            for flag, value in pairwise(arguments):
                kept += ["--set", value] if flag == "--set" else []
            assert main(["check", *kept]) == 0, f"{page.name}: {arguments}"
        else:
            assert main([command, "--help"]) == 0, f"{page.name}: {command}"
            said = capsys.readouterr().out
            for flag in arguments:
                assert not flag.startswith("--") or flag in said, f"{page.name}: {command} {flag}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_documents_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text()):
        assert "://" in target or (page.parent / target).exists(), target

"""The workflows and forms of a public forge are well formed, and name only what exists.

No forge runs here, so this checks what can go wrong without one: YAML, names of tasks and files,
versions of actions, permissions.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from narrows.cli.app import COMMANDS

ROOT = Path(__file__).parents[2]
FORGE = ROOT / ".github"
WORKFLOWS = sorted((FORGE / "workflows").glob("*.yml"))
FORMS = sorted(p for p in (FORGE / "ISSUE_TEMPLATE").glob("*.yml") if p.name != "config.yml")
TASKS = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), flags=re.M))

workflows = pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
forms = pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)


def read(path: Path) -> dict[Any, Any]:
    found = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


def steps(path: Path) -> Iterator[Mapping[str, Any]]:
    for job in read(path)["jobs"].values():
        yield from job.get("steps", [])


def scripts(path: Path) -> list[str]:
    return [step["run"] for step in steps(path) if "run" in step]


def test_the_folder_has_what_strangers_meet() -> None:
    assert {path.stem for path in WORKFLOWS} == {"test", "wheels", "release", "site"}
    assert {path.stem for path in FORMS} == {"bug", "wrong-number", "question"}
    assert read(FORGE / "ISSUE_TEMPLATE/config.yml") == {"blank_issues_enabled": False}


@workflows
def test_a_workflow_has_names_limits_and_few_rights(path: Path) -> None:
    document = read(path)
    # YAML 1.1 reads the key `on` as true.
    assert document.keys() <= {"name", True, "permissions", "concurrency", "jobs"}
    assert document["name"] == path.stem
    assert document["permissions"] == {"contents": "read"}
    for name, job in document["jobs"].items():
        if "uses" in job:
            continue
        # An image with a version, also where a matrix names it.
        rows = job.get("strategy", {}).get("matrix", {}).get("include", [])
        images = [row["runs-on"] for row in rows] or [job["runs-on"]]
        assert all(re.fullmatch(r"(ubuntu|macos)-\d+(\.\d+)?(-arm)?", each) for each in images)
        assert 0 < job["timeout-minutes"] <= 180, name
        needs = job.get("needs", [])
        assert set([needs] if isinstance(needs, str) else needs) <= document["jobs"].keys()
        rights = job.get("permissions", {})
        # Those that publish wait for a variable that a maintainer sets.
        publishes = {
            "pypi": {"id-token": "write"},
            "pages": {"pages": "write", "id-token": "write"},
        }
        if name in publishes:
            assert rights == publishes[name] and job["environment"].endswith(name)
            assert re.match(r"vars\.PUBLISH_\w+ == 'true'", job["if"])
        else:
            assert rights in ({}, {"contents": "write"}), name


@workflows
def test_actions_have_a_fixed_version(path: Path) -> None:
    """A tag can be moved to other code, and a commit cannot."""
    lines = re.findall(r"^\s*(?:- )?uses: (.+)$", path.read_text(encoding="utf-8"), flags=re.M)
    for line in lines:
        if line.startswith("./"):
            assert (ROOT / line).is_file(), line
        else:
            assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line), line
    of_jobs = [job["uses"] for job in read(path)["jobs"].values() if "uses" in job]
    assert len(lines) == len(of_jobs) + sum("uses" in step for step in steps(path))
    for step in steps(path):
        if "actions/checkout@" in step.get("uses", ""):
            assert step["with"]["persist-credentials"] is False


@workflows
def test_scripts_are_shell_and_call_what_exists(path: Path) -> None:
    for script in scripts(path):
        # What others write (titles, branches) must not become part of a script.
        assert "${{" not in script, script
        done = subprocess.run(["sh", "-n"], input=script, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        called = re.findall(r"\bmake ([a-z-]+)", script)
        assert set(called) <= TASKS, script
        ours = re.findall(r"(?<![\w/.-])((?:\.ci|tools)/[\w./-]+)", script)
        assert all((ROOT / each).is_file() for each in ours), script
        for command in re.findall(r"bin/narrows ([a-z]+)", script):
            assert command in {name.split()[0] for name in COMMANDS}, script


def test_the_tests_are_those_of_make_test() -> None:
    assert any(".ci/run" in script for script in scripts(FORGE / "workflows/test.yml"))
    assert (ROOT / ".ci/run").read_text().rstrip().endswith("exec make test")
    assert (ROOT / ".ci/run").stat().st_mode & 0o111


def test_wheels_that_nobody_tried_say_so() -> None:
    (job,) = read(FORGE / "workflows/wheels.yml")["jobs"].values()
    assert job["continue-on-error"] == "${{ matrix.untried }}"
    rows = job["strategy"]["matrix"]["include"]
    assert [row["targets"] for row in rows if not row["untried"]] == ["x86_64-unknown-linux-gnu"]
    for row in rows:
        assert ("untried" in row["name"]) is ("untried" in row["file"]) is row["untried"]


def test_only_what_make_release_has_tried_is_published() -> None:
    jobs = read(FORGE / "workflows/release.yml")["jobs"]
    (fetched,) = (s["with"]["name"] for s in jobs["pypi"]["steps"] if "download" in s["uses"])
    (made,) = (
        s["with"] for s in jobs["release"]["steps"] if s.get("with", {}).get("name") == fetched
    )
    (script,) = (s["run"] for s in jobs["release"]["steps"] if "make release" in s.get("run", ""))
    _, _, copied = script.partition("make release")
    assert f"mkdir {Path(made['path']).parent}\ncp dist/" in copied
    assert jobs["pypi"]["if"] == "vars.PUBLISH_TO_PYPI == 'true'"
    # Nothing else has a secret.
    assert not re.search(r"\bsecrets\b", (FORGE / "workflows/release.yml").read_text())


@forms
def test_a_form_asks_in_fields_that_the_forge_knows(path: Path) -> None:
    document = read(path)
    assert document.keys() == {"name", "description", "labels", "body"}
    fields = [field for field in document["body"] if field["type"] != "markdown"]
    assert {field["type"] for field in document["body"]} <= {"markdown", "input", "textarea"}
    assert len({field["id"] for field in fields}) == len(fields)
    assert all(field["attributes"]["label"] for field in fields)
    assert any(field.get("validations", {}).get("required") for field in fields)
    for field in fields:
        assert field.keys() <= {"type", "id", "attributes", "validations"}
        assert field["attributes"].keys() <= {"label", "description", "placeholder", "render"}


def test_forms_and_the_template_name_files_and_commands_that_exist() -> None:
    for path in [*FORMS, FORGE / "PULL_REQUEST_TEMPLATE.md"]:
        text = path.read_text(encoding="utf-8")
        for name in re.findall(r"(?<![\w/])((?:docs/)?[\w-]+\.md)\b", text):
            assert (ROOT / name).is_file(), (path.name, name)
        for task in re.findall(r"`make ([a-z-]+)`", text):
            assert task in TASKS, (path.name, task)
        for command in re.findall(r"`narrows ([a-z]+)", text):
            assert command in {name.split()[0] for name in COMMANDS}, (path.name, command)


def test_faults_come_with_version_scenario_and_run() -> None:
    for name in ("bug", "wrong-number"):
        fields = {
            f["id"]: f for f in read(FORGE / f"ISSUE_TEMPLATE/{name}.yml")["body"] if "id" in f
        }
        assert fields.keys() >= {"version", "scenario", "run"}
        assert "`narrows --version`" in fields["version"]["attributes"]["description"]

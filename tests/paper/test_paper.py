"""`narrows paper`: the folder repeats its numbers, and a stranger's folder does no harm."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from narrows import Run, Scenario, Sweep, _core, run, sweep
from narrows.builds import THIS
from narrows.cli.app import main
from narrows.errors import NarrowsError
from narrows.paper import check, repeat, write_paper
from narrows.paper.parts import names_of
from narrows.queues import DROP, PASS, Queue
from narrows.results import RunFolderError

pytestmark = pytest.mark.slow

CHECKOUT = Path(__file__).parents[2]

SCENARIO = """\
# What I wrote, with its comments.
name = "mine"
duration = "3 s"

[[links]]
name = "wan"
between = ["a", "b"]
rate = "2 Mbit/s"
queue = { kind = "pfifo", limit = 30 }

[[traffic]]
kind = "bulk"
name = "download"
sender = "a"
receiver = "b"
connections = 2
stagger = "random"

[[dns]]
name = "dns"
client = "b"
server = "a"
queries = 20

[monitor]
queues = { links = ["wan.forward"], rate = 10 }
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two runs and a sweep."""
    home = tmp_path_factory.mktemp("paper")
    (home / "mine.toml").write_text(SCENARIO)
    run(home / "mine.toml", seed=7, out=home / "one")
    run(home / "mine.toml", set={"queue.limit": 10}, seed=7, out=home / "two")
    sweep(home / "mine.toml", vary={"queue.limit": [10, 30]}, seeds=[2, 5], out=home / "limits")
    folders = [home / name for name in ("one", "two", "limits")]
    return write_paper(folders, home / "paper", [home / "mine.toml"])


@pytest.fixture
def paper(made: Path, tmp_path: Path) -> Path:
    """A copy that a test may change."""
    return Path(shutil.copytree(made, tmp_path / "paper"))


def signed(paper: Path, path: str, data: bytes | str) -> None:
    """Changes a file and its checksum, as a stranger would."""
    data = data.encode() if isinstance(data, str) else data
    (paper / path).write_bytes(data)
    sums = (paper / "SHA256SUMS").read_text().splitlines()
    kept = [line for line in sums if line[66:] != path]
    kept.append(f"{hashlib.sha256(data).hexdigest()}  {path}")
    (paper / "SHA256SUMS").write_text("\n".join(kept) + "\n")


def test_the_commands_in_the_readme_give_the_same_tables(
    paper: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(paper)
    readme = Path("README.md").read_text()
    commands = re.findall(r"^    narrows ((?:run|sweep|compare) .*)$", readme, flags=re.M)
    assert len(commands) == 4
    assert "is not as narrows wrote it" not in readme
    for command in commands:
        capsys.readouterr()
        assert main([*shlex.split(command), *(["--quiet"] if "sweep" in command else [])]) == 0
    assert capsys.readouterr().out == Path("comparison/table.tex").read_text()
    for name in ("one", "two"):
        again, before = (
            json.loads(Path(at, name, "run.json").read_text()) for at in ("again", "runs")
        )
        assert again["files"] == before["files"]
        assert again["summary"] == before["summary"]
    table = pl.read_csv("again/limits/sweep.csv").drop("run")
    assert table.write_csv() == pl.read_csv("sweeps/limits/table.csv").write_csv()
    assert check(".") == [], "what a reader runs is not checked"
    given = ["run", "runs/two/given.toml", "--no-report", "--seed", "7", "--out", "again/given"]
    [words] = re.findall(r"to which this was added: `(.*)`", readme)
    assert main([*given, *shlex.split(words)]) == 0
    assert json.loads(Path("again/given/run.json").read_text())["files"] == again["files"]


def test_the_folder_has_what_a_reader_needs(made: Path) -> None:
    for name in ("one", "two"):
        at, source = made / "runs" / name, made.parent / name
        assert (at / "given.toml").read_text() == SCENARIO
        assert (at / "run.json").read_bytes() == (source / "run.json").read_bytes()
        loaded = Run.load(source)
        assert Scenario.load(at / "scenario.toml").resolved() == loaded.scenario
        summary = pl.read_csv(at / "summary.csv")
        [shown] = summary.filter(metric="dns.queries")["value"]
        assert shown == loaded.summary["dns"]["queries"]
        assert (at / "summary.tex").read_text().endswith("\\end{tabular}\n")
        plots = sorted(path.name for path in (at / "plots").iterdir())
        assert "backlog-wan.forward.pdf" in plots
        assert all((at / "plots" / plot).read_bytes().startswith(b"%PDF-") for plot in plots)
    means = pl.read_csv(made / "sweeps/limits/means.csv")
    table = Sweep.load(made.parent / "limits").table
    key = "dns.within_1s_percent"
    [mean] = means.filter(metric=key).filter(pl.col("queue.limit") == 10)["mean"]
    assert mean == pytest.approx(table.filter(pl.col("queue.limit") == 10)[key].mean())
    document = json.loads((made / "paper.json").read_text())
    one = document["runs"][0]
    assert one["digest"] == Run.load(made.parent / "one").digest
    plan = json.dumps(
        Scenario.load(made.parent / "mine.toml").plan(7), sort_keys=True, separators=(",", ":")
    )
    assert one["plan_sha256"] == hashlib.sha256(plan.encode()).hexdigest()
    assert one["host"]["python"]
    assert document["sweeps"][0]["seeds"] == [2, 5]


def test_checksums_are_those_of_sha256sum(made: Path) -> None:
    command = ["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"]
    assert subprocess.run(command, cwd=made, check=False).returncode == 0
    listed = {line[66:] for line in (made / "SHA256SUMS").read_text().splitlines()}
    files = {str(path.relative_to(made)) for path in made.rglob("*") if path.is_file()}
    assert files - listed == {"SHA256SUMS"}


def test_the_same_runs_give_the_same_folder(made: Path, tmp_path: Path) -> None:
    home = made.parent
    again = write_paper(
        [home / n for n in ("one", "two", "limits")], tmp_path / "p", [home / "mine.toml"]
    )
    assert (again / "SHA256SUMS").read_bytes() == (made / "SHA256SUMS").read_bytes()


def test_everything_is_repeated_and_a_wrong_number_is_found(paper: Path) -> None:
    assert main(["paper", "--check", str(paper), "--repeat", "--workers", "1", "--quiet"]) == 0
    text = (paper / "runs/one/scenario.toml").read_text()
    signed(paper, "runs/one/scenario.toml", text.replace("limit = 30", "limit = 29"))
    table = (paper / "sweeps/limits/table.csv").read_text()
    signed(paper, "sweeps/limits/table.csv", table.replace("complete,end", "complete,END", 1))
    assert check(paper) == []
    found = {each.at: each for each in repeat(paper, workers=1)}
    assert {at: each.outcome for at, each in found.items()} == {
        "runs/one": "differs",
        "runs/two": "same",
        "sweeps/limits": "differs",
    }
    assert "queues.parquet" in found["runs/one"].words
    assert main(["paper", "--check", str(paper), "--repeat", "--workers", "1", "--quiet"]) == 1


def test_another_build_is_named_as_a_reason(paper: Path) -> None:
    """Its bytes should be the same, so it is repeated; if they are not, this is a reason."""
    for path in ("runs/one/run.json", "sweeps/limits/sweep.json"):
        document = json.loads((paper / path).read_text())
        assert document["build"] == _core.build
        signed(paper, path, json.dumps({**document, "build": "0123456789ab"}))
    assert {each.outcome for each in repeat(paper, workers=1)} == {"same"}
    for path in ("runs/one", "runs/two", "sweeps/limits"):
        text = (paper / path / "scenario.toml").read_text()
        signed(paper, f"{path}/scenario.toml", text.replace('"2 Mbit/s"', '"3 Mbit/s"'))
    found = {each.at: each.words for each in repeat(paper, workers=1)}
    reason = (
        f"; they come from narrows {_core.version} (0123456789ab), and this is {THIS}, "
        "which may be why"
    )
    assert found["runs/one"].endswith(reason)
    assert found["sweeps/limits"] == f"table.csv{reason}"
    assert "which may be why" not in found["runs/two"]


def change(paper: Path) -> str:
    (paper / "README.md").write_text("mine")
    return "README.md: has changed"


def remove(paper: Path) -> str:
    (paper / "runs/one/run.json").unlink()
    return "runs/one/run.json: is missing"


def add(paper: Path) -> str:
    (paper / "runs/one/x\n\x1b[31m").touch()
    return "runs/one/x\\n\\x1b[31m: was added"


def link(paper: Path) -> str:
    (paper / "README.md").unlink()
    (paper / "README.md").symlink_to("/etc/passwd")
    return "README.md: is no regular file"


def link_folder(paper: Path) -> str:
    (paper / "runs").rename(paper.parent / "elsewhere")
    (paper / "runs").symlink_to(paper.parent / "elsewhere")
    return "runs: is no regular file"


def pipe(paper: Path) -> str:
    (paper / "paper.json").unlink()
    os.mkfifo(paper / "paper.json")
    return "paper.json: is no regular file"


@pytest.mark.parametrize("abuse", [change, remove, add, link, link_folder, pipe])
def test_every_difference_is_found(
    paper: Path, abuse: Callable[[Path], str], capsys: pytest.CaptureFixture[str]
) -> None:
    fault = abuse(paper)
    assert fault in check(paper)
    assert main(["paper", "--check", str(paper), "--repeat"]) == 1
    assert fault in capsys.readouterr().out.splitlines()
    with pytest.raises(RunFolderError):
        list(repeat(paper))


@pytest.mark.parametrize(
    "line",
    [
        f"{'0' * 64}  ../mine.toml",
        f"{'0' * 64}  /etc/passwd",
        f"{'0' * 64}  runs/../../x",
        f"{'0' * 64}  a\x1b",
        f"{'0' * 63}  README.md",
        "README.md",
        "",
    ],
)
def test_sums_name_only_files_in_the_folder(
    paper: Path, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with (paper / "SHA256SUMS").open("a") as file:
        file.write(line + "\n")
    assert main(["paper", "--check", str(paper)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "is no checksum of a file in the folder" in said
    (paper / "SHA256SUMS").unlink()
    (paper / "SHA256SUMS").symlink_to("/etc/passwd")
    assert main(["paper", "--check", str(paper)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def edited(folder: Path, **keys: object) -> Path:
    """A copy of a run's folder with other values in run.json."""
    copy = Path(
        shutil.copytree(folder, folder.parent / f"edited-{len(list(folder.parent.iterdir()))}")
    )
    document = json.loads((copy / "run.json").read_text())
    (copy / "run.json").write_text(json.dumps({**document, **keys}))
    return copy


@pytest.fixture
def one(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made.parent / "one", tmp_path / "one"))


def test_a_program_in_a_strangers_folder_does_not_run(one: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    strange = edited(one, backend=f"program:touch {victim}")
    paper = write_paper([strange], tmp_path / "paper")
    [found] = repeat(paper)
    assert found.outcome == "not repeated"
    assert not victim.exists()
    command = re.findall(r"^    (narrows run .*)$", (paper / "README.md").read_text(), flags=re.M)
    assert f"program:touch {victim}" in shlex.split(command[0]), "one word for the shell"
    assert "is not as narrows wrote it" in (paper / "README.md").read_text()


def test_a_strangers_scenario_brings_no_file_of_this_machine(one: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("17\n")
    document = json.loads((one / "run.json").read_text())
    [wan] = document["scenario"]["links"]
    wan["rate_trace"] = str(secret)
    strange = edited(one, scenario=document["scenario"])
    paper = write_paper([strange], tmp_path / "paper")
    assert not (paper / f"runs/{strange.name}/files").exists()
    [found] = repeat(paper)
    assert (found.outcome, found.words) == (
        "not repeated",
        f"its scenario names {secret}, which is not in this folder",
    )
    (one / "run.json").unlink()
    (one / "run.json").symlink_to(strange / "run.json")
    with pytest.raises(RunFolderError):
        write_paper([one], tmp_path / "other")
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    "plan",
    [
        "[vary]\n'links.wan.rate_trace' = ['SECRET']\n",
        "[vary]\n'links.wan.forward' = [{ rate_trace = 'SECRET' }]\n",
        "[variants.a]\n'links.wan.rate_trace' = 'SECRET'\n",
        "[variants.a]\n'traffic' = [{ kind = 'trace', file = 'SECRET' }]\n",
    ],
)
def test_a_strangers_plan_reads_no_file_of_this_machine(paper: Path, plan: str) -> None:
    secret = paper.parent / "secret"
    secret.write_text("17\n")
    signed(paper, "sweeps/limits/plan.toml", plan.replace("SECRET", str(secret)))
    found = {each.at: each for each in repeat(paper)}["sweeps/limits"]
    assert found.outcome == "not repeated"
    assert found.words == f"its plan names {secret}, which is not in this folder"


def test_lists_of_a_scenario_that_the_user_names_come_along(tmp_path: Path) -> None:
    (tmp_path / "my trace.txt").write_text("1\n2\n5\n")
    traced = SCENARIO.replace('rate = "2 Mbit/s"', 'rate_trace = "my trace.txt"')
    (tmp_path / "mine.toml").write_text(traced)
    run(tmp_path / "mine.toml", out=tmp_path / "one")
    paper = write_paper([tmp_path / "one"], tmp_path / "paper", [tmp_path / "mine.toml"])
    assert (paper / "runs/one/files/1-my-trace.txt").read_text() == "1\n2\n5\n"
    (tmp_path / "my trace.txt").unlink()
    assert [each.outcome for each in repeat(paper)] == ["same"]


class Full(Queue):
    """Drops every packet that finds ten others."""

    def admit(self, backlog: int, bytes: int, now: float, packet: Any) -> Any:
        """Decides when a packet arrives."""
        return DROP if backlog > 10 else PASS


def test_parts_in_python_and_partial_runs_are_not_repeated(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(SCENARIO)
    run(tmp_path / "mine.toml", queues={"wan.forward": Full()}, out=tmp_path / "own")
    run(tmp_path / "mine.toml", event_limit=100, out=tmp_path / "short")
    paper = write_paper([tmp_path / "own", tmp_path / "short"], tmp_path / "paper")
    words = {each.at: each.words for each in repeat(paper) if each.outcome == "not repeated"}
    assert "parts in Python" in words["runs/own"]
    assert words["runs/short"] == "it is partial (event-limit)"


def test_a_plugin_is_loaded_only_if_it_is_named_and_the_same(tmp_path: Path) -> None:
    if shutil.which("cc") is None:
        pytest.skip("no C compiler cc")
    include = CHECKOUT / "crates/plugin/include"
    source, made = CHECKOUT / "crates/plugin/examples/slope.c", tmp_path / "slope.so"
    command = ["cc", "-O2", "-shared", "-fPIC", f"-I{include}", str(source), "-o", str(made), "-lm"]
    subprocess.run(command, check=True)
    (tmp_path / "other.so").write_bytes(made.read_bytes() + b"\0")
    text = SCENARIO.replace('kind = "pfifo", limit = 30', 'kind = "plugin", name = "slope"')
    (tmp_path / "mine.toml").write_text(text)
    run(tmp_path / "mine.toml", plugins=[tmp_path / "slope.so"], out=tmp_path / "one")
    paper = write_paper([tmp_path / "one"], tmp_path / "paper")
    assert (
        hashlib.sha256((tmp_path / "slope.so").read_bytes()).hexdigest()
        in (paper / "README.md").read_text()
    )
    for plugins in ([], [tmp_path / "other.so"]):
        [found] = repeat(paper, plugins)
        assert (found.outcome, found.words) == (
            "not repeated",
            "it needs the plugin slope.so; hint: --plugin FILE",
        )
    assert [each.outcome for each in repeat(paper, [tmp_path / "slope.so"])] == ["same"]
    with pytest.raises(NarrowsError):
        list(repeat(paper, [tmp_path / "missing.so"]))


@pytest.fixture
def home(made: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(made.parent)
    return made.parent


@pytest.mark.parametrize(
    "words",
    [
        ["one", "--out", "paper"],
        ["one", "--out", "one"],
        ["one", "--out", "mine.toml"],
        ["one", "--out", "link"],
        ["one", "one"],
        ["one", "two/../one"],
        ["missing"],
        ["one", "--scenario", "other.toml"],
        ["one", "--scenario", "missing.toml"],
        ["one", "--repeat"],
        ["--check", "one"],
        ["--check", "missing"],
        ["--check", "paper", "one"],
        ["--check", "paper", "--out", "x"],
    ],
)
def test_bad_input_is_one_line_and_changes_nothing(
    home: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "other.toml").write_text(SCENARIO.replace("2 Mbit/s", "3 Mbit/s"))
    if not (home / "link").is_symlink():
        (home / "link").symlink_to("nowhere")
    before = sorted((path, path.lstat().st_mtime_ns) for path in home.rglob("*"))
    assert main(["paper", "--quiet", *words]) == 2
    shown = capsys.readouterr()
    assert (shown.out, shown.err.count("\n")) == ("", 1), shown.err
    assert "bug" not in shown.err
    after = sorted((path, path.lstat().st_mtime_ns) for path in home.rglob("*"))
    assert [p for p, _ in after] == [p for p, _ in before]


def test_names_are_different_and_safe(tmp_path: Path) -> None:
    folders = [Path("a/x"), Path("b/x"), Path("x-2"), Path("c/ü `|"), Path("d/x")]
    assert names_of(folders) == ["x", "x-2", "x-2-2", "-", "x-3"]

"""What the commands print and return."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from narrows import backends
from narrows.cli import app
from narrows.cli.options import DEFAULT_BACKEND

from .conftest import Narrows

ROOT = Path(__file__).parents[2]
COMMANDS = ("run", "sweep", "compare", "reproduce", "check", "schema", "profiles", "examples")


def test_without_arguments_it_explains_itself(narrows: Narrows) -> None:
    done = narrows()
    assert done.returncode == 0
    for command in COMMANDS:
        assert command in done.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_every_help_has_an_example(narrows: Narrows, command: str) -> None:
    done = narrows(command, "--help")
    assert done.returncode == 0
    # The usage line, and an example.
    assert len(re.findall(rf"narrows {command}\b", done.stdout)) >= 2
    for name in re.findall(r"\bscenarios/[\w.-]+", done.stdout):
        assert (ROOT / name).is_file(), f"the example names {name}, which is not there"


@pytest.mark.parametrize("command", app.COMMANDS)
def test_help_fits_a_terminal_and_names_no_types(narrows: Narrows, command: str) -> None:
    shown = narrows(*command.split(), "--help", COLUMNS="80").stdout
    assert max(map(len, shown.splitlines())) <= 80
    # Names of Python's types, ranges as inequalities, and the largest numbers of a machine.
    assert not re.search(r"<\w+( range)?>|list\[|<=|>=|\d{12}|[{}]\.\.\.|\{[A-Z]", shown)


def test_the_default_backend_is_the_one_of_the_library() -> None:
    # Options name the default without loading the backends.
    assert DEFAULT_BACKEND == backends.DEFAULT


def test_version(narrows: Narrows) -> None:
    assert re.fullmatch(r"narrows \d+\.\d+\.\d+\S* \([0-9a-f]{12}\)\n", narrows("--version").stdout)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_can_be_had(narrows: Narrows, shell: str) -> None:
    # Typer would look for the shell from which the test was started.
    done = narrows("--show-completion", shell, _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert done.returncode == 0
    assert f"complete_{shell}" in done.stdout


def complete(narrows: Narrows, words: str) -> list[str]:
    done = narrows(
        _NARROWS_COMPLETE="complete_bash",
        COMP_WORDS=f"narrows {words}",
        COMP_CWORD=str(len(words.split(" "))),
    )
    return done.stdout.split()


def test_completion_of_ids_and_scenarios(narrows: Narrows, small: Path) -> None:
    assert complete(narrows, "reproduce H1") == ["H1", "H10", "H11"]
    (small.parent / "note.txt").touch()
    assert complete(narrows, "run s") == ["small.toml"]
    assert complete(narrows, "run ./s") == ["./small.toml"]
    assert "reproduce" in complete(narrows, "re")


def test_completion_of_keys_to_set(narrows: Narrows, small: Path) -> None:
    assert complete(narrows, "run small.toml --set queue.l") == ["queue.limit="]
    assert sorted(complete(narrows, "run small.toml --set dns.dns.w")) == [
        "dns.dns.warm_up=",
        "dns.dns.workers=",
    ]
    assert {"dns.", "duration=", "description="} <= set(complete(narrows, "run small.toml --set d"))
    assert complete(narrows, "run missing.toml --set d") == []


def test_examples_of_help_can_be_copied_at_any_width(narrows: Narrows) -> None:
    shown = narrows("sweep", "plot", "--help", COLUMNS="40").stdout
    assert "  narrows sweep plot runs/buffers --metric bursts.completion_mean_s \\\n" in shown


def test_check_names_all_errors(narrows: Narrows, small: Path) -> None:
    text = small.read_text().replace("delay =", "dealy =").replace("workers =", "wrkers =")
    small.write_text(text.replace('kind = "bulk"', 'kind = "blk"') + "rte = 3\n")
    done = narrows("check", "small.toml", "--set", "queue.limt=3")
    assert done.returncode == 2
    shown = done.stderr.splitlines()
    assert all(line.startswith("error: small.toml: ") for line in shown)
    for words in (
        'links[0].dealy: is not a known key; hint: did you mean "delay"?',
        'dns[0].wrkers: is not a known key; hint: did you mean "workers"?',
        'traffic[0].kind: "blk" is not known here; hint: did you mean "bulk"?',
        # The key is named as it was written on the command line.
        'queue.limt: is not a known key; hint: did you mean "limit"?',
        "monitor.rte: is not a known key",
    ):
        assert any(words in line for line in shown), words
    # A key that is missing because it was mistyped is not a separate error.
    assert len(shown) == 5


def test_check_looks_behind_the_first_wrong_entry(narrows: Narrows, small: Path) -> None:
    second = '[[links]]\nname = "b"\nbetween = ["client", "c"]\nrate = 3\n'
    small.write_text(small.read_text().replace('"10 ms"', '"10"') + second)
    shown = narrows("check", "small.toml").stderr
    assert "links[0].delay" in shown
    assert "links[1].rate: is a number without a unit" in shown


def test_compare_names_what_is_not_there_or_does_not_belong_together(
    narrows: Narrows, small: Path
) -> None:
    for out, seed, limit in (("a-1", "1", "30 kB"), ("a-2", "2", "30 kB"), ("a-3", "3", "9 kB")):
        settings = ("--seed", seed, "--set", f"queue.limit={limit}", "--no-report")
        assert narrows("run", "small.toml", "--out", out, *settings).returncode == 0
    done = narrows("compare", "a-1", "a-22")
    assert done.returncode == 2
    assert 'error: a-22: does not exist; hint: did you mean "a-2"' in done.stderr
    shown = narrows("compare", "a-1", "a-2", "a-3").stdout
    assert (
        "small: the runs of this name are in 2 groups, not one: the first two differ in "
        "links.bottleneck.queue.limit"
    ) in shown
    assert "not one" not in narrows("compare", "a-1", "a-3").stdout


def test_schema_is_json(narrows: Narrows) -> None:
    schema = json.loads(narrows("schema").stdout)
    assert {"links", "dns", "traffic"} <= schema["properties"].keys()


def test_profiles(narrows: Narrows) -> None:
    found = json.loads(narrows("profiles", "--json").stdout)
    assert {"linux-6", "legacy", "linux-2.6.30", "ns-2"} <= found.keys()
    assert found["legacy"]["initial_window"] == 3
    table = narrows("profiles").stdout
    assert "initial_window" in table
    assert len(narrows("profiles", "--differing").stdout) < len(table)


def test_check_prints_the_size(narrows: Narrows, small: Path) -> None:
    done = narrows("check", str(small), "--json", "--set", "dns.dns.workers=7")
    found = json.loads(done.stdout)
    assert found["connections"] == 2
    assert found["links"] == 1
    assert found["resolver_workers"] == 7
    assert found["queries"] == 21
    assert found["longest_s"] == 3.0
    said = narrows("check", str(small)).stdout
    assert "connections" in said
    # Harhalakis et al. 2011, section V: Windows' timeouts.
    assert "dns: over UDP it waits 1 s, 2 s, 2 s, 4 s, 8 s (Windows' schedule" in said


def test_a_run_prints_its_summary_and_leaves_a_folder(narrows: Narrows, small: Path) -> None:
    done = narrows("run", str(small), "--json", "--seed", "5")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["seed"] == 5
    assert found["status"] == "complete"
    folder = small.parent / "runs" / "small-1"
    assert "runs/small-1" in done.stderr
    assert json.loads((folder / "run.json").read_text(encoding="utf-8"))["seed"] == 5
    assert (folder / "report.html").exists()
    again = narrows("run", str(small), "--no-report", "--quiet")
    assert again.returncode == 0
    assert again.stderr == ""
    assert (small.parent / "runs" / "small-2" / "run.json").exists()
    assert not (small.parent / "runs" / "small-2" / "report.html").exists()


def test_an_event_limit_leaves_a_partial_run(narrows: Narrows, small: Path) -> None:
    done = narrows(
        "run", str(small), "--event-limit", "100", "--out", "cut", "--json", "--no-report"
    )
    assert done.returncode == 1
    assert json.loads(done.stdout)["status"] == "partial"
    assert "event-limit" in done.stderr
    run = json.loads((small.parent / "cut" / "run.json").read_text(encoding="utf-8"))
    assert run["status"] == "partial"
    assert run["stopped"] == "event-limit"


def test_compare(narrows: Narrows, small: Path) -> None:
    for name, limit in (("short", "8000 B"), ("long", "30000 B")):
        setting = f"links.bottleneck.queue.limit={limit}"
        done = narrows("run", str(small), "--out", name, "--no-report", "--set", setting)
        assert done.returncode == 0, done.stderr
    done = narrows("compare", "short", "long", "--json")
    assert done.returncode == 0, done.stderr
    assert isinstance(json.loads(done.stdout), dict)
    assert narrows("compare", "short", "long").stdout.strip()
    missing = narrows("compare", "short", "nowhere")
    assert missing.returncode == 2
    assert "nowhere" in missing.stderr
    assert missing.stderr.count("\n") == 1


def test_a_reader_that_leaves_is_no_error_message(small: Path) -> None:
    done = subprocess.run(
        f"{sys.executable} -m narrows schema | head -1",
        shell=True,
        capture_output=True,
        text=True,
        cwd=small.parent,
        timeout=60,
        check=False,
    )
    assert done.stdout == "{\n"
    assert done.stderr == ""

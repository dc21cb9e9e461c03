"""A program with its own parts runs scenarios, and each of its possible faults is one line."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from narrows import Run, Scenario, _core, run
from narrows.backends import BackendError
from narrows.builds import THIS

ROOT = Path(__file__).parents[2]
SCENARIO = {
    "name": "small",
    "duration": "20 s",
    "links": [
        {
            "name": "wan",
            "between": ["a", "b"],
            "rate": "5 Mbit/s",
            "delay": "20 ms",
            "forward": {"queue": {"kind": "pfifo", "limit": 200}},
        },
    ],
    "traffic": [
        {"kind": "bulk", "name": "f", "sender": "a", "receiver": "b", "connections": 20},
    ],
    "monitor": {"queues": {"links": ["wan.forward"], "rate": 10}},
}


@pytest.fixture(scope="module")
def example() -> str:
    """The program of the crate narrows-example, built."""
    # With -p, its crates would not have the features that those of `cargo test` have.
    subprocess.run(
        ["cargo", "build", "--locked", "-q", "--bin", "narrows-example"], cwd=ROOT, check=True
    )
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    return f"program:{shlex.quote(str(target / 'debug' / 'narrows-example'))}"


@pytest.mark.slow
def test_a_program_that_changes_nothing_gives_the_same_tables(example: str) -> None:
    scenario = Scenario.from_dict(SCENARIO)
    theirs, ours = run(scenario, backend=example), run(scenario)
    assert theirs.backend == example
    assert theirs.complete
    assert theirs.tables.keys() == ours.tables.keys()
    for name, table in ours.tables.items():
        assert theirs.tables[name].equals(table), name


@pytest.mark.slow
def test_parts_from_outside_go_into_a_scenario(example: str, tmp_path: Path) -> None:
    backend = f"{example} pi wan.forward 20 20 100 typist a b"
    found = run(Scenario.from_dict(SCENARIO), backend=backend, out=tmp_path / "pi")
    # Hollot et al.: an integrating controller brings the queue to its reference.
    second_half = found.queues.tail(found.queues.height // 2)
    assert second_half["backlog_packets"].mean() == pytest.approx(20, abs=5)
    behind_fifo = run(Scenario.from_dict(SCENARIO), backend=f"{example} typist a b")
    echoes, late = found.tables["keys"]["echo_ms"], behind_fifo.tables["keys"]["echo_ms"]
    assert echoes.median() < late.median() / 2  # type: ignore[operator]
    loaded = Run.load(tmp_path / "pi")
    assert loaded.backend == backend
    assert loaded.tables["keys"].equals(found.tables["keys"])
    assert "keys" not in loaded.summary
    scalable = run(Scenario.from_dict(SCENARIO), backend=f"{example} scalable")
    assert not scalable.flows.equals(run(Scenario.from_dict(SCENARIO)).flows)


@pytest.mark.slow
def test_what_a_program_says_is_wrong_is_one_line(example: str) -> None:
    cases = {
        "red": "red: no such part; hint: one of pi, scalable, typist",
        "pi lan 1 1 1": "pi: lan: no such link; hint: one of wan.forward, wan.backward",
        "pi wan.forward 20": "pi: FLOWS is missing",
        "pi wan.forward 20 many": 'pi: FLOWS cannot be "many"',
        "typist a c": "typist: the scenario has no traffic from a to c, and so no path",
    }
    for arguments, said in cases.items():
        with pytest.raises(BackendError) as caught:
            run(Scenario.from_dict(SCENARIO), backend=f"{example} {arguments}")
        assert str(caught.value).endswith(f": {said}")


def program(code: str) -> str:
    return f"program:{shlex.quote(sys.executable)} -c {shlex.quote(code)}"


def test_a_program_that_is_none_is_refused(tmp_path: Path) -> None:
    cases = {
        "program:": "names no program",
        "program:'": "no closing quotation",
        "program:/nowhere/mine": "no such file or directory; hint: is it built",
        program("print('hello')"): "its standard output is not an answer; hint: print to standard",
        program("print(['ok'])"): "its standard output is not an answer",
        program("raise SystemExit(3)"): r"ended \(exit code 3\) before the run did",
    }
    for backend, said in cases.items():
        with pytest.raises(BackendError, match=said):
            run(Scenario.from_dict(SCENARIO), backend=backend, out=tmp_path / "run")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("answer", "theirs"),
    [
        ({"ok": f"{_core.version} (0123456789ab)"}, f"{_core.version} (0123456789ab)"),
        # Before builds were compared, programs said only their version.
        ({"ok": _core.version}, _core.version),
        ({"ok": ""}, ""),
        ({"ok": "\x1b[2J\nit is the same"}, "\\x1b[2J\\nit is the same"),
        ({"ok": [1]}, "[1]"),
        ({}, "None"),
    ],
)
def test_a_program_of_another_build_is_refused(answer: dict[str, object], theirs: str) -> None:
    with pytest.raises(BackendError) as caught:
        run(Scenario.from_dict(SCENARIO), backend=program(f"print({json.dumps(answer)!r})"))
    assert str(caught.value) == (
        f"{sys.executable}: was built with narrows {theirs}, but this is {THIS}; "
        "hint: build it again; if it is the newer one, build narrows again"
    )


def test_a_program_captures_nothing() -> None:
    watched = {**SCENARIO, "monitor": {"capture": ["wan.forward"]}}
    with pytest.raises(BackendError, match=r"monitor\.capture: .* cannot honour it"):
        run(Scenario.from_dict(watched), backend="program:/nowhere/mine")


def test_tables_that_are_none_are_refused() -> None:
    """An application's columns have different lengths."""
    code = """
import json, sys
from narrows.builds import THIS
def say(value):
    print(json.dumps(value), flush=True)
state = {"now_s": 1.0, "progress": 1.0, "events": 1, "stopped": "end"}
for line in sys.stdin:
    if line.startswith('{"advance"'):
        say(state)
    elif line.startswith('"tables"'):
        columns = [{"name": n, "type": "string", "bytes": len(b)} for n, b in COLUMNS]
        say({"tables": [{"name": "own", "columns": columns}]})
        sys.stdout.write("".join(b for _, b in COLUMNS))
        sys.stdout.flush()
    else:
        say({"ok": THIS})
"""
    scenario = Scenario.from_dict(SCENARIO)
    uneven = f"COLUMNS = [('a', '[\"x\"]'), ('b', '[\"x\", \"y\"]')]\n{code}"
    with pytest.raises(BackendError):
        run(scenario, backend=program(uneven))
    broken = f"COLUMNS = [('a', '[\"x\"')]\n{code}"
    with pytest.raises(BackendError, match="its standard output is not an answer"):
        run(scenario, backend=program(broken))
    whole = f"COLUMNS = [('a', '[\"x\"]')]\n{code}"
    found = run(scenario, backend=program(whole))
    assert found.tables["own"]["a"].to_list() == ["x"]
    assert (found.narrows, found.build) == (_core.version, _core.build)

"""Jobs for machines, the measured offsets of their clocks, and records that do not fit together."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from narrows import _core
from narrows.cli import main
from narrows.cli.machines import secret_of
from narrows.errors import ScenarioError
from narrows.machines import Lab, MachineError, Part, Parts, clocks, merge
from narrows.machines.record import Clock, Record
from narrows.machines.secret import given
from tests.machines.scenario import SCENARIO, lab

PLACES = {"server": "192.0.2.1", "client": "192.0.2.2", "stubs": "192.0.2.3"}
LAB = Lab(PLACES, "server")


def test_each_machine_is_told_its_part_of_the_job() -> None:
    parts = Parts(lab())
    assert parts.all == [
        Part("serve", "server"),
        Part("drive", "client"),
        Part("resolve", "stubs"),
    ]
    given = [parts.of(part, LAB) for part in parts.all]
    assert [each.arguments for each in given] == [
        ("--role", part.role, "--play", part.node) for part in parts.all
    ]
    for each in given:
        # All count the same connections, and find each other at the machines' addresses.
        assert each.plan == given[0].plan
        assert each.places == {node: {"address": address} for node, address in PLACES.items()}
    names = [application["name"] for application in given[0].plan["applications"]]
    assert names == [application["name"] for application in parts.plan["applications"]]
    ends = [(each.opener, each.acceptor, each.is_download) for each in parts.connections]
    assert ends == [*4 * [("client", "server", True)], ("client", "server", False)]


def test_links_are_the_machines_own() -> None:
    """Keys of links that no kernel supports do not matter, because nobody makes the links."""
    queue = '{ kind = "drr", limit = 50 }'
    assert Parts(lab(links__access__forward__queue=queue)).all == Parts(lab()).all
    assert Parts(lab(links__access__forward__queue=queue)).digest != Parts(lab()).digest


def test_metrics_that_only_routes_have_are_asked_of_the_machine() -> None:
    part = Part("drive", "client")
    parts = Parts(lab(traffic__downloads__ecn_share=1, traffic__upload__ecn_share=1))
    assert parts.metrics(part, LAB) == {PLACES["server"]: {"features": 1}}
    with pytest.raises(MachineError, match="differ in route settings"):
        Parts(lab(traffic__downloads__ecn_share=1)).metrics(part, LAB)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dns__stubs__answers__software": '"bind"'}, "real servers are not yet supported"),
        ({"traffic__upload__tcp__profile": '"linux-2.6.30"'}, "lab: traffic.upload.tcp."),
        (
            {
                "traffic__upload__kind": '"on-off"',
                "traffic__upload__burst": '"1 MB"',
                "traffic__upload__idle": '"1 s"',
            },
            "traffic.upload.kind: only bulk traffic and DNS run between machines yet",
        ),
        (
            {"dns__stubs__transport": '{ kind = "https" }'},
            "dns.stubs.transport: only UDP, TCP and TLS run between machines yet",
        ),
        (
            {"monitor__flows": '["upload"]'},
            "monitor.flows: machines do not sample their connections; hint: leave it out",
        ),
    ],
)
def test_what_is_not_supported_is_named(settings: dict[str, str], message: str) -> None:
    with pytest.raises(MachineError, match=message):
        Parts(lab(**{key: value.strip('"') for key, value in settings.items()}))


@pytest.mark.parametrize(
    ("text", "at", "message"),
    [
        (None, [], "no machine is named; hint: a file with"),
        (None, ["server"], "`at` server: not NODE=ADDRESS"),
        (None, ["server=here"], "`at`: server: 'here' is not an IPv4 address"),
        ("[machines]\nserver = 3", [], "server: 3 is not an IPv4 address"),
        ("machines = 1", [], r"machines: not a table; hint: \[machines\]"),
        ('clock = "x"\n[machines]\nserver = "192.0.2.1"', [], "clock: 'x' is not one of"),
        ('control_port = 0\n[machines]\nserver = "192.0.2.1"', [], "control_port: 0 is not a port"),
        ("port = 1", [], "port: no such key"),
        ('monitors = "r"\n[machines]\na = "192.0.2.1"', [], "monitors: not a list of nodes"),
        ("[machines", [], r"a TOML file with \[machines\]"),
    ],
)
def test_a_lab_that_is_none(tmp_path: Path, text: str | None, at: list[str], message: str) -> None:
    file = None
    if text is not None:
        file = tmp_path / "lab.toml"
        file.write_text(text)
    with pytest.raises(MachineError, match=message):
        Lab.read(file, at)


def test_a_part_that_is_not_there_is_named() -> None:
    parts = Parts(lab())
    with pytest.raises(MachineError, match="traffic drive --node stubs: nothing to do"):
        parts.of(Part("drive", "stubs"), LAB)
    with pytest.raises(MachineError, match="`node` nobody: no such node"):
        parts.of(Part("drive", "nobody"), LAB)
    with pytest.raises(MachineError, match="client: no machine is named for it"):
        parts.of(Part("serve", "server"), Lab({"server": "192.0.2.1"}, "server"))
    with pytest.raises(MachineError, match="clock: router has no traffic"):
        parts.conducting(Lab({"router": "192.0.2.9"}, "router"))


def exchange(
    ahead: float, delays: Iterator[tuple[float, float]]
) -> tuple[Any, Callable[[], float]]:
    """Another machine, whose clock is ahead, with given delays there and back."""
    time = [100.0]

    def ask() -> tuple[float, float]:
        there, back = next(delays)
        time[0] += there
        came = time[0] + ahead
        time[0] += 0.001
        went = time[0] + ahead
        time[0] += back
        return came, went

    return ask, lambda: time[0]


def test_an_offset_is_as_sure_as_the_shortest_way_is_short() -> None:
    """RFC 5905, section 8: offset and delay of an exchange; the shortest of several counts."""
    delays = iter([(0.3, 0.01), *[(0.02, 0.02)] * 10, (0.002, 0.004), *[(0.01, 0.2)] * 12])
    ask, clock = exchange(-7.5, delays)
    found = clocks.measure(ask, clock)
    assert found.uncertainty_s == pytest.approx(0.003)
    assert found.offset_s == pytest.approx(-7.5 - 0.001)
    assert abs(found.offset_s + 7.5) <= found.uncertainty_s


def record(part: Part, **changed: Any) -> Record:
    parts = Parts(lab())
    offset = clocks.Offset(0.25, 0.001)
    facts: dict[str, Any] = {
        "run": "r1",
        "part": part,
        "digest": parts.digest,
        "seed": 1,
        "scenario": parts.scenario.written(),
        "started": "2026-01-01T00:00:00+00:00",
        "stopped": "end",
        "end_s": 5.0,
        "late_s": 0.0,
        "clock": Clock(offset, clocks.Offset(0.253, 0.002)),
    }
    return Record(**{**facts, **changed})


def saved(folder: Path, *records: Record) -> list[Path]:
    places = [folder / f"{number}-{each.part.role}" for number, each in enumerate(records)]
    for place, each in zip(places, records, strict=True):
        each.save(place)
    return places


def test_records_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    serve, drive, resolve = Parts(lab()).all
    lost = Clock(clocks.Offset(0.0, 0.001), None)
    cases: dict[str, list[Record]] = {
        "is of run r2, but .* is of r1": [record(serve), record(drive, run="r2")],
        "has another scenario or seed than": [record(serve), record(drive, digest="x")],
        "is a second record of narrows traffic serve --node server": [record(serve), record(serve)],
        "the record of narrows resolve --node stubs is missing": [record(serve), record(drive)],
        # The clocks drifted by 3 ms, and the uncertainty was 2 ms.
        "off by 5 ms, more than 4 ms; hint: synchronise": [
            record(p) for p in (serve, drive, resolve)
        ],
        "not measured after the run": [record(serve, clock=lost), record(drive), record(resolve)],
        "reads its scenario differently": [record(serve, digest="x")],
        "the records have no flow 0": [
            record(p, files={"tables.json": {}}) for p in (serve, drive, resolve)
        ],
    }
    for number, (message, records) in enumerate(cases.items()):
        bound_s = 1.0 if message.startswith("the records") else 0.004
        with pytest.raises(MachineError, match=message):
            merge(saved(tmp_path / str(number), *records), bound_s=bound_s)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "no such file"),
        ("{", "damaged"),
        ("[]", "is not a record of this version"),
        ('{"format": "narrows-record 2"}', "run: missing or damaged"),
    ],
)
def test_a_folder_that_is_no_record(
    tmp_path: Path, text: str | None, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if text is not None:
        (tmp_path / "record.json").write_text(text)
    assert main(["merge", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert message in said and said.count("\n") == 1


def test_a_record_names_no_file_outside(tmp_path: Path) -> None:
    record(Part("serve", "server")).save(tmp_path)
    document = json.loads((tmp_path / "record.json").read_text())
    document["files"] = {"../other.json": None}
    (tmp_path / "record.json").write_text(json.dumps(document))
    with pytest.raises(MachineError, match="files: damaged"):
        Record.load(tmp_path)


def test_commands_refuse_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def nobody(_prompt: str) -> str:
        raise AssertionError("bad input must be refused before a secret is asked for")

    monkeypatch.setattr("getpass.getpass", nobody)
    file = tmp_path / "lab.toml"
    file.write_text(SCENARIO)
    at = [f"--at={node}={address}" for node, address in PLACES.items()]
    for words, message in (
        (["traffic", "serve", str(file), "--node", "server"], "no machine is named"),
        (["traffic", "drive", str(file), "--node", "stubs", *at], "nothing to do"),
        (["traffic", "drive", str(file), "--node", "client", *at, "--tcp", "x"], "--tcp x"),
        (["traffic", "drive", str(file), "--node", "client", *at, "--wait", "25h"], "a day; hint"),
        (["monitor", "--scenario", str(file), *at, "--link", "x=y", "--wait", "x"], "--wait x: "),
        (["traffic", "serve", str(file), "--node", "server", *at], "192.0.2.1 port"),
        (["monitor", "--scenario", str(file), *at], "needs --link LINK=QUEUE"),
        (["monitor", "--scenario", str(file), *at, "--link", "x"], "not LINK=QUEUE"),
        (
            ["traffic", "drive", str(file), "--node", "client", *at],
            "--secret-file FILE or NARROWS_",
        ),
        (["monitor", "--scenario", str(file), *at, "--link", "x=y"], "--secret-file FILE or NARR"),
        (["monitor", "eth0", "--scenario", str(file), *at], "give --link"),
    ):
        assert main(words) == 2, words
        said = capsys.readouterr().err
        assert message in said and said.count("\n") == 1, said
    monkeypatch.setenv("NARROWS_SECRET", "0123456789abcdef")
    assert main(["monitor", "--scenario", str(file), *at, "--link", "x=y"]) == 2
    assert "no such link" in capsys.readouterr().err


def test_a_port_in_use_ends_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "lab.toml"
    file.write_text(SCENARIO)
    at = [f"--at={node}={address}" for node, address in {**PLACES, "server": "127.0.0.7"}.items()]
    with socket.create_server(("127.0.0.7", LAB.control_port)):
        words = ["traffic", "serve", str(file), "--node", "server", *at]
        assert main([*words, "--out", str(tmp_path / "record")]) == 2
    said = capsys.readouterr().err
    assert f"127.0.0.7 port {LAB.control_port}: address already in use; hint: " in said
    assert said.count("\n") == 1
    assert not (tmp_path / "record").exists()


def test_the_secret_comes_with_the_commands_of_the_others(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("NARROWS_SECRET", raising=False)
    parts, machines = Parts(lab()), Lab(PLACES, "server", monitors=["router"])
    common = ["--machines", "my lab.toml", "--seed", "3"]
    file, serve = Path("lab.toml"), Part("serve", "server")
    secret, report = secret_of(parts, serve, machines, None, file, quiet=True, common=common)
    assert len(secret) == 32 and capsys.readouterr().err == "", "nobody can connect yet"
    report("waiting")
    report("waiting")
    said = capsys.readouterr().err.splitlines()
    assert said[0].endswith(secret) and sum(secret in line for line in said) == 1
    end = "--machines 'my lab.toml' --seed 3"
    assert said[2:] == [
        f"  client$ narrows traffic drive lab.toml --node client {end}",
        f"  stubs$ narrows resolve lab.toml --node stubs {end}",
        f"  router$ narrows monitor --scenario lab.toml --node router --link LINK=QUEUE {end}",
    ]
    other, _ = secret_of(parts, serve, machines, None, file, quiet=True)
    assert other != secret


def test_a_secret_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("0123456789abcdef\n")
    file.chmod(0o600)
    assert given(file) == "0123456789abcdef"
    file.chmod(0o640)
    with pytest.raises(MachineError, match="other users may read or change it; hint: chmod 600"):
        given(file)
    file.chmod(0o600)
    for text in (
        "short",
        "0123456789abcde\N{DEGREE SIGN}f",
        "x" * 5000,
        "",
        "0123456789\x00abcdef",
    ):
        file.write_text(text, encoding="utf-8")
        with pytest.raises(MachineError, match="not a secret of 16 to 1024 printable ASCII"):
            given(file)
    with pytest.raises(MachineError, match="no such file"):
        given(tmp_path / "none")


def flows(sent: int, opened: bool) -> dict[str, list[Any]]:
    """What an end knows of five connections."""
    count = 5
    nodes = {"sender": 4 * ["server"] + ["client"], "receiver": 4 * ["client"] + ["server"]}
    known: dict[str, Any] = {
        **{"flow": list(range(count)), "name": count * ["c"], "group": count * ["downloads"]},
        **nodes,
        **{"ecn": count * [False], "bytes_acked": count * [sent], "cwnd_segments": count * [10.0]},
        **{"bytes_received": count * [sent + 1], "segments_sent": count * [sent + 2]},
        "start_s": count * [1.0 if opened else None],
        "established_s": count * [1.5 if opened else None],
        "end_s": count * [None if opened else 4.0],
    }
    columns = [each["name"] for each in json.loads(_core.tables())[0]["columns"]]
    return {name: known.get(name, count * [None]) for name in columns} | {
        "segments_retransmitted": count * [0]
    }


def test_each_end_tells_what_it_knows(tmp_path: Path) -> None:
    serve, drive, resolve = Parts(lab()).all
    accepted, opened = flows(100, opened=False), flows(200, opened=True)
    records = [
        record(serve, files={"tables.json": {"flows": accepted}}),
        record(drive, files={"tables.json": {"flows": opened}}),
        record(resolve, files={"tables.json": {}}),
    ]
    found = merge(saved(tmp_path, *records), bound_s=1.0).flows
    # The client opens all connections, and sends on the last one.
    assert found["established_s"].to_list() == 5 * [1.5]
    assert found["bytes_acked"].to_list() == [100, 100, 100, 100, 200]
    assert found["segments_sent"].to_list() == [102, 102, 102, 102, 202]
    assert found["bytes_received"].to_list() == [201, 201, 201, 201, 101]
    assert found["end_s"].to_list() == [None, None, None, None, 4.0]


@pytest.mark.parametrize(
    ("accepted", "asked"),
    [
        *[(table, {}) for table in ([1], 5, None, "x", {"flow": 1}, {"flow": [1]}, {"a": [1]})],
        ({name: [*column, 1] for name, column in flows(1, opened=False).items()}, {}),
        ({**flows(1, opened=False), "bytes_received": 5 * ["x"]}, {}),
        ({**flows(1, opened=False), "flow": [[1]]}, {}),
        ({**flows(1, opened=False), "segments_sent": [{f"k{n}": 1 for n in range(5000)}] * 5}, {}),
        *[(flows(1, opened=False), asked) for asked in (3, None, [1], {"query": ["x"]})],
        *[(flows(1, opened=False), asked) for asked in ({"query": 3}, {"a": [1]})],
    ],
)
def test_odd_rows_are_damage(accepted: Any, asked: Any, tmp_path: Path) -> None:
    serve, drive, resolve = Parts(lab()).all
    ends = [
        record(serve, files={"tables.json": {"flows": accepted}}),
        record(drive, files={"tables.json": {"flows": flows(1, opened=True)}}),
    ]
    asks = record(resolve, files={"tables.json": {"queries": asked}})
    with pytest.raises(MachineError, match="; hint: run again") as refused:
        merge(saved(tmp_path, *ends, asks), bound_s=1.0)
    assert len(str(refused.value)) < 1000


@pytest.mark.parametrize("odd", [{}, {"tables.json": 3}, {"tables.json": {"flows": {}}}])
def test_a_record_without_tables_is_damage(odd: Any, tmp_path: Path) -> None:
    places = saved(tmp_path, *(record(part, files=odd) for part in Parts(lab()).all))
    with pytest.raises(MachineError, match="; hint: run again"):
        merge(places, bound_s=1.0)


def test_a_scenario_that_is_none_is_named_by_its_record(tmp_path: Path) -> None:
    places = saved(tmp_path, record(Part("serve", "server"), scenario={"name": 1}))
    with pytest.raises(ScenarioError, match=f"^{re.escape(str(places[0]))}/record.json: "):
        merge(places)


@pytest.mark.parametrize("odd", [("nan", 0.001), (0.0, "nan"), ("inf", 0.0), (0.0, -1.0)])
def test_an_offset_that_is_no_time_is_damage(odd: Any, tmp_path: Path) -> None:
    record(Part("serve", "server"), clock=Clock(clocks.Offset(*odd), None)).save(tmp_path)
    with pytest.raises(MachineError, match="clock: damaged"):
        Record.load(tmp_path)

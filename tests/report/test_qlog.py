"""Runs as qlog: the file has the drafts' form, and its events are those of the samples.

The forms below follow the definitions (CDDL) of draft-ietf-quic-qlog-main-schema-13 and
draft-ietf-quic-qlog-quic-events-12 (recovery_metrics_updated, congestion_state_updated,
packet_lost), as far as narrows uses them.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from narrows import Scenario, run
from narrows.cli import main
from narrows.report.qlog import MOST_LOST, QUIC_EVENTS, TCP_EVENTS, qlog, write_qlog
from narrows.results import Run, RunFolderError

TEXT = """
name = "both"
duration = "12 s"
[[links]]
name = "line"
between = ["isp", "home"]
rate = "5 Mbit/s"
delay = "10 ms"
loss = 0.02
queue = { kind = "pfifo", limit = 30 }
[[traffic]]
kind = "page"
name = "pages"
client = "home"
server = "isp"
transport = "quic"
profile = "desktop-2024"
[[traffic]]
kind = "bulk"
name = "upload"
sender = "home"
receiver = "isp"
connections = 2
[monitor]
flows = { groups = ["*"], rate = 20 }
"""

Form = Callable[[Any], bool]


def text(value: Any) -> bool:
    return isinstance(value, str)


def whole(value: Any) -> bool:
    """CDDL's uint of 64 bits; JSON has no other numbers than these and floats."""
    return type(value) is int and 0 <= value < 2**64


def number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) < float("inf")


def one_of(*words: str) -> Form:
    return lambda value: value in words


def several(form: Form, least: int) -> Form:
    return lambda value: (
        isinstance(value, list) and len(value) >= least and all(form(entry) for entry in value)
    )


def table(members: Mapping[str, Form], *, more: bool = False) -> Form:
    """A map; a name that ends with `?` may be missing. `more`: others may be there."""

    def fits(value: Any) -> bool:
        forms = {name.rstrip("?"): form for name, form in members.items()}
        needed = {name for name in members if not name.endswith("?")}
        return (
            isinstance(value, dict)
            and needed <= value.keys()
            and (more or value.keys() <= forms.keys())
            and all(forms[name](entry) for name, entry in value.items() if name in forms)
        )

    return fits


METRICS = table(
    {
        **dict.fromkeys(("min_rtt?", "smoothed_rtt?", "latest_rtt?", "rtt_variance?"), number),
        **dict.fromkeys(("pto_count?", "congestion_window?", "bytes_in_flight?"), whole),
        **dict.fromkeys(("ssthresh?", "packets_in_flight?", "pacing_rate?"), whole),
    }
)
STATE = table({"old?": text, "new": text, "trigger?": text})
LOST = table(
    {
        "header?": table({"packet_type": text}, more=True),
        "trigger?": one_of("reordering_threshold", "time_threshold", "pto_expired"),
    }
)
EVENTS = {
    "quic:recovery_metrics_updated": METRICS,
    "quic:congestion_state_updated": STATE,
    "quic:packet_lost": LOST,
    "tcp:recovery_metrics_updated": METRICS,
    "tcp:congestion_state_updated": STATE,
}
EVENT = table({"time": number, "name": one_of(*EVENTS), "data": table({}, more=True)}, more=True)
REFERENCE = table(
    {"clock_type": text, "epoch": one_of("unknown"), "wall_clock_time?": text},
)
TRACE = table(
    {
        "title?": text,
        "description?": text,
        "common_fields?": table(
            {
                "time_format?": one_of("relative_to_epoch", "relative_to_previous_event"),
                "reference_time?": REFERENCE,
                "group_id?": text,
            },
            more=True,
        ),
        "vantage_point?": table(
            {
                "name?": text,
                "type": one_of("client", "server", "network", "unknown"),
                "flow?": one_of("client", "server", "network", "unknown"),
            }
        ),
        "event_schemas": several(text, 1),
        "events": several(EVENT, 0),
    }
)
FILE = table(
    {
        "file_schema": one_of("urn:ietf:params:qlog:file:contained"),
        "serialization_format": one_of("application/qlog+json"),
        "title?": text,
        "description?": text,
        "traces?": several(TRACE, 1),
    }
)


@pytest.fixture(scope="module")
def sampled(tmp_path_factory: pytest.TempPathFactory) -> Run:
    file = tmp_path_factory.mktemp("qlog") / "t.toml"
    file.write_text(TEXT)
    return run(Scenario.load(file))


@pytest.fixture(scope="module")
def written(sampled: Run, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path = write_qlog(sampled, tmp_path_factory.mktemp("qlog") / "both.qlog")
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def test_the_file_has_the_form_of_the_drafts(written: dict[str, Any]) -> None:
    assert FILE(written)
    for trace in written["traces"]:
        times = [event["time"] for event in trace["events"]]
        assert times == sorted(times)
        for event in trace["events"]:
            assert EVENTS[event["name"]](event["data"]), event


def test_the_checker_refuses_other_forms(written: dict[str, Any]) -> None:
    trace = written["traces"][0]
    assert not FILE({**written, "traces": []})
    assert not FILE({"traces": [trace]})
    assert not TRACE({name: value for name, value in trace.items() if name != "event_schemas"})
    assert not EVENT({**trace["events"][0], "time": "1"})
    assert not METRICS({"congestion_window": 1.5}) and not METRICS({"min_rtt": None})
    assert not METRICS({"cwnd": 1}) and not STATE({"old": "a"}) and not LOST({"trigger": "x"})


def test_quic_and_tcp_have_their_own_schemas(written: dict[str, Any]) -> None:
    kinds = {
        (trace["title"].split()[0], *trace["event_schemas"], event["name"].split(":")[0])
        for trace in written["traces"]
        for event in trace["events"]
    }
    assert kinds == {("pages", QUIC_EVENTS, "quic"), ("upload", TCP_EVENTS, "tcp")}
    # A draft's events carry its number, and TCP's are not the IETF's.
    assert re.fullmatch(r"urn:ietf:params:qlog:events:quic-\d+", QUIC_EVENTS)
    assert not TCP_EVENTS.startswith("urn:ietf")


def test_the_events_say_what_the_samples_do(sampled: Run, written: dict[str, Any]) -> None:
    """Played from the start, they come to the values of every sample."""
    rows = sampled.table("flow_states")
    losses = 0
    for trace in written["traces"]:
        group, number = trace["title"].split()
        own = rows.filter((pl.col("group") == group) & (pl.col("connection") == int(number)))
        events = iter([*trace["events"], {"time": float("inf")}])
        event = next(events)
        metrics: dict[str, Any] = {}
        state, lost = "", 0
        for row in own.iter_rows(named=True):
            while event["time"] <= row["t_s"] * 1e3 + 1e-6:
                kind = event["name"].split(":")[1]
                if kind == "recovery_metrics_updated":
                    metrics |= event["data"]
                elif kind == "congestion_state_updated":
                    assert event["data"].get("old", "") == state
                    state = event["data"]["new"]
                else:
                    lost += 1
                event = next(events)
            assert metrics["congestion_window"] == row["cwnd_bytes"]
            assert metrics["bytes_in_flight"] == row["in_flight_bytes"]
            assert metrics.get("smoothed_rtt") == row["srtt_ms"]
            assert state == row["state"]
            assert lost == (row["retransmissions"] if group == "pages" else 0)
        losses += lost
    assert losses > 5, "nothing was lost, so nothing was tested"


def test_nothing_is_said_twice(written: dict[str, Any]) -> None:
    for trace in written["traces"]:
        metrics: dict[str, Any] = {}
        for event in trace["events"]:
            if event["name"].endswith("metrics_updated"):
                assert all(metrics.get(name) != value for name, value in event["data"].items())
                metrics |= event["data"]


def test_a_run_without_samples_and_a_file_that_exists_are_refused(
    sampled: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "t.toml").write_text(TEXT.split("[monitor]")[0])
    with pytest.raises(RunFolderError, match="has no samples of connections"):
        qlog(run(Scenario.load(tmp_path / "t.toml")))
    sampled.save(tmp_path / "run")
    (tmp_path / "mine").write_text("mine")
    assert main(["export", "qlog", str(tmp_path / "run"), str(tmp_path / "mine")]) == 2
    assert "exists already" in capsys.readouterr().err
    assert (tmp_path / "mine").read_text() == "mine"
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    assert main(["export", "qlog", str(tmp_path / "run"), str(tmp_path / "link")]) == 2
    assert "exists already" in capsys.readouterr().err
    assert (tmp_path / "link").is_symlink() and not (tmp_path / "nowhere").exists()
    assert main(["export", "qlog", str(tmp_path / "run"), str(tmp_path / "new"), "-q"]) == 0
    assert FILE(json.loads((tmp_path / "new").read_text()))


def test_a_strangers_number_of_losses_does_not_fill_memory(
    sampled: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = sampled.save(tmp_path / "run").folder
    assert folder is not None
    path = folder / "flow_states.parquet"
    rows = pl.read_parquet(path)
    most = rows["retransmissions"].dtype.max().alias("retransmissions")  # type: ignore[attr-defined]
    rows.with_columns(most).write_parquet(path)
    document = json.loads((folder / "run.json").read_text())
    data = path.read_bytes()
    facts = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    document["files"][path.name] = facts
    (folder / "run.json").write_text(json.dumps(document))
    assert main(["export", "qlog", str(folder), str(tmp_path / "new")]) == 2
    shown = capsys.readouterr().err
    assert shown.count("\n") == 1 and f"more than {MOST_LOST} losses" in shown
    assert not (tmp_path / "new").exists()

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from synthetic_run import synthetic_run

from narrows.results import TABLES, Run
from narrows.results.extras import records
from narrows.results.schema import frame, reference

PAGE = Path(__file__).parents[2] / "docs" / "run-folder.md"


def test_nan_becomes_null() -> None:
    run = synthetic_run(kind="bfifo", duration_s=5.0, workers=1)
    assert run.queues.get_column("average_bytes").null_count() == run.queues.height
    assert run.flows.get_column("end_s").null_count() == run.flows.height


def test_a_table_says_which_column_is_wrong() -> None:
    good = {
        "t_s": np.array([1.0]),
        "link": ["a"],
        "packets": [1],
        "bytes": [1],
        "busy_s": [0.1],
        "lost": [0],
    }
    assert frame(TABLES["links"], good).height == 1
    with pytest.raises(ValueError, match="lacks lost"):
        frame(TABLES["links"], {k: v for k, v in good.items() if k != "lost"})
    with pytest.raises(ValueError, match="does not know more"):
        frame(TABLES["links"], {**good, "more": [1]})
    with pytest.raises(ValueError, match="column lost"):
        frame(TABLES["links"], {**good, "lost": [-1]})
    with pytest.raises(ValueError, match="columns of 1 to 2 rows"):
        frame(TABLES["links"], {**good, "lost": [1, 2]})


@pytest.mark.parametrize("names", [["b", "a", "b"], []])
def test_texts_may_be_numbers_in_a_list_of_texts(names: list[str]) -> None:
    numbers = {key: np.zeros(len(names)) for key in ("t_s", "busy_s")}
    counts = {key: np.zeros(len(names), np.uint64) for key in ("packets", "bytes", "lost")}
    different = list(dict.fromkeys(names))
    coded = (np.array([different.index(name) for name in names], np.uint32), different)
    table = frame(TABLES["links"], {**numbers, **counts, "link": coded})
    assert table.get_column("link").to_list() == names
    assert table.equals(frame(TABLES["links"], {**numbers, **counts, "link": names}))


def test_an_empty_table_has_its_columns() -> None:
    run = Run(
        scenario={},
        seed=1,
        backend="sim",
        status="complete",
        stopped="end",
        end_s=1.0,
        events=0,
        tables={},
        narrows="0",
    )
    assert run.queries.schema == TABLES["queries"].schema
    assert run.summary["dns"] is None


def test_fates_tell_each_attempt_in_order() -> None:
    attempts = {
        "query": [1, 0, 1],
        "attempt": [2, 1, 1],
        "sent_s": [2.0, 0.0, 1.0],
        "fate": ["answered", "pending", "reply-lost"],
        "lost_at": ["", "", "bottleneck.forward"],
        "reason": ["", "", "early"],
        "first_byte_s": [2.5, float("nan"), float("nan")],
        "received_s": [2.5, float("nan"), float("nan")],
        "transport": ["udp"] * 3,
        "reused": [False] * 3,
        "handshake_round_trips": [0] * 3,
        "handshake_ms": [float("nan")] * 3,
        **{f"{what}_sent": [1] * 3 for what in ("packets", "bytes")},
        **{f"{what}_received": [1] * 3 for what in ("packets", "bytes")},
    }
    queries = {
        "query": [0, 1, 2],
        "group": ["dns"] * 3,
        "worker": [0, 1, 2],
        "index": [0, 0, 0],
        "measured": [True] * 3,
        "start_s": [0.0, 1.0, 3.0],
        "end_s": [float("nan"), 2.5, float("nan")],
        "attempt": [0, 2, 0],
        "attempts": [1, 2, 0],
        "response_ms": [float("nan"), 1500.0, float("nan")],
        "rtt_ms": [float("nan"), 500.0, float("nan")],
        "late_answers": [0, 0, 0],
    }
    run = Run.from_columns(
        {"queries": queries, "attempts": attempts},
        scenario={},
        seed=1,
        backend="sim",
        status="complete",
        stopped="end",
        end_s=3.0,
        events=0,
        narrows="0",
    )
    fates = run.queries.get_column("fates").to_list()
    assert fates == [["pending"], ["reply-lost: early at bottleneck.forward", "answered"], []]


def test_every_column_is_explained() -> None:
    for table in TABLES.values():
        for column in table.columns:
            assert column.doc.endswith("."), column
            if column.name.endswith(("_ms", "_s", "_bytes", "_packets")):
                assert column.unit == column.name.rsplit("_", 1)[1], column
            assert isinstance(column.dtype, pl.DataType)


def test_the_page_has_the_tables_as_they_are() -> None:
    assert reference() in PAGE.read_text(encoding="utf-8")


def test_the_reference_gives_units_as_people_write_them() -> None:
    rows = [line.split(" | ") for line in reference().splitlines() if line.startswith("| `")]
    units = {cells[0].strip("|` "): cells[1] for cells in rows if len(cells) == 3}
    assert {unit for name, unit in units.items() if "mbit" in name or "mbps" in name} == {"Mbit/s"}
    assert {unit for name, unit in units.items() if name.endswith("_percent")} == {"%"}
    # The summary of web pages counts bytes, though people see megabytes.
    assert units["load_mean_s"] == "s" and units["bytes"] == "bytes"


@pytest.mark.parametrize("name", sorted(records()))
def test_each_row_of_a_kind_says_when_it_began(name: str) -> None:
    """A declared window takes the rows that began within it."""
    began = records()[name].table.began
    assert began in {"start_s", "from_s", "t_s", "sent_s", "ready_s", "asked_s"}

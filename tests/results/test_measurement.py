from pathlib import Path

import polars as pl
import pytest

from narrows.results import Measurement, Run, RunFolderError
from narrows.results.exchanges import MEASUREMENT_TABLES, OUTCOMES, frame_of, reference

PAGE = Path(__file__).parents[2] / "docs" / "measurements.md"

ONE = {
    "exchange": 0,
    "vantage": "10.9.0.2",
    "target": "k.root-servers.example",
    "server": "10.8.0.1",
    "port": 53,
    "family": 4,
    "transport": "tcp",
    "connection": 0,
    "started_s": 1_348_128_000.0,
    "connect_ms": 40.0,
    "query_ms": 80.0,
    "total_ms": 120.0,
    "outcome": "answered",
    "rcode": "NOERROR",
    "reply_bytes": 745,
    "segments": 2,
    "segment_bytes": [2, 745],
    "prefix": "alone",
}
LINK = {
    "connection": 0,
    "vantage": "10.9.0.2",
    "target": "k.root-servers.example",
    "transport": "tcp",
    "started_s": 1_348_128_000.0,
    "exchanges": 1,
}


def measured(**more: object) -> Measurement:
    return Measurement.of_rows(
        "probe", exchanges=[ONE], connections=[LINK], narrows="0.1.0", **more
    )


def test_a_folder_gives_back_what_was_saved(tmp_path: Path) -> None:
    skipped = [{"source": "a.json", "reason": "no result", "records": 3, "first": "line 2"}]
    saved = measured(
        skipped=skipped, findings={"verdicts": ["3.0"]}, captures={"lo": b"pcap"}
    ).save(tmp_path / "probe-1")
    again = Measurement.load(tmp_path / "probe-1")
    for name in MEASUREMENT_TABLES:
        assert again.tables[name].equals(saved.tables[name])
    assert again.findings == {"verdicts": ["3.0"]}
    assert again.captures["lo"] == tmp_path / "probe-1" / "captures" / "lo.pcapng"
    assert again.summary == saved.summary
    assert again.summary["skipped"] == 3
    assert again.summary["outcomes"] == [
        {
            "target": "k.root-servers.example",
            "transport": "tcp",
            "outcome": "answered",
            "exchanges": 1,
            "total_median_ms": 120.0,
        }
    ]


def test_a_measurement_is_no_run_and_a_run_no_measurement(tmp_path: Path) -> None:
    measured().save(tmp_path / "probe")
    with pytest.raises(RunFolderError, match="holds a measurement, "):
        Run.load(tmp_path / "probe")
    facts = {"seed": 1, "backend": "sim", "status": "complete", "stopped": "end"}
    run = Run(scenario={}, end_s=1.0, events=0, tables={}, narrows="0", **facts)  # type: ignore[arg-type]
    run.save(tmp_path / "run")
    with pytest.raises(RunFolderError, match="holds a scenario's run, "):
        Measurement.load(tmp_path / "run")


def test_what_a_row_does_not_name_is_null_where_it_may_be() -> None:
    assert measured().exchanges["firmware"][0] is None
    with pytest.raises(ValueError, match="does not know colour"):
        frame_of("exchanges", [{"colour": "red"}])
    with pytest.raises(ValueError, match="outcome has rows without a value"):
        Measurement.of_rows("atlas", exchanges=[{**ONE, "outcome": None}], narrows="0")
    with pytest.raises(ValueError, match="comes from one of probe, atlas, capture"):
        Measurement.of_rows("sim", narrows="0")


def test_every_column_is_explained() -> None:
    for table in MEASUREMENT_TABLES.values():
        for column in table.columns:
            assert column.doc.endswith("."), column
            if column.name.endswith(("_ms", "_s", "_bytes")):
                assert column.unit in (column.name.rsplit("_", 1)[1], "bytes"), column
            assert isinstance(column.dtype, pl.DataType)
    assert ONE["outcome"] in OUTCOMES


def test_the_page_has_the_tables_as_they_are() -> None:
    assert reference() in PAGE.read_text(encoding="utf-8")

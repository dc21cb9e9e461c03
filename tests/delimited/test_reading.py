"""Tables that other people might have, and what becomes of each of their cells."""

from __future__ import annotations

import bz2
import gzip
import lzma
import random
from pathlib import Path

import pytest

from narrows.cli.app import main
from narrows.delimited import COLUMNS, CsvError, read_csv
from narrows.probe import verdicts
from narrows.results import Measurement

EXAMPLE = Path(__file__).parents[2] / "samples" / "csv" / "example.csv"
HEAD = "vantage,target,transport,started_s,total_ms\n"


def reading(folder: Path, content: str | bytes) -> Measurement:
    file = folder / "a.csv"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_csv([file])


def refused(folder: Path, content: str | bytes) -> str:
    with pytest.raises(CsvError) as error:
        reading(folder, content)
    return str(error.value).removeprefix(f"{folder}/")


def test_the_example_has_every_usual_column_and_a_verdict() -> None:
    assert EXAMPLE.read_text().splitlines()[0] == ",".join(COLUMNS)
    measurement = read_csv([EXAMPLE])
    assert measurement.summary["answered"] == 7
    # 2026-11-01T12:00:00Z, by `date -d ... +%s`.
    assert measurement.exchanges["started_s"][0] == 1793534400.0
    found = verdicts(measurement.exchanges)
    assert [verdict.name for verdict in found] == ["two-writes", "two-writes"]


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_separators_quotes_and_line_ends_vary(tmp_path: Path, separator: str) -> None:
    head = "vantage,target,transport,started_s,total_ms".replace(",", separator)
    name = '"a, b"' if separator == "," else "a"
    rows = [head, separator.join([name, "192.0.2.1", "UDP", "1.8e9", '"12.5"'])]
    for end in ("\n", "\r\n"):
        for mark in (b"", b"\xef\xbb\xbf"):
            measurement = reading(tmp_path, mark + end.join([*rows, ""]).encode())
            (row,) = measurement.exchanges.to_dicts()
            assert (row["transport"], row["total_ms"], row["query_ms"]) == ("udp", 12.5, 12.5)
            assert (row["outcome"], row["exchange"]) == ("answered", 0)


def test_times_that_follow_from_others_are_added(tmp_path: Path) -> None:
    text = (
        "vantage,target,transport,started_s,connect_ms,secure_ms,query_ms,total_ms,reused\n"
        "a,192.0.2.1,tcp,1.8e9,20,,21,,\n"
        "a,192.0.2.1,DoT,1.8e9,20,20,21,,\n"
        "a,192.0.2.1,dot,1.8e9,20,,21,,\n"
        "a,192.0.2.1,tcp,1.8e9,,,,21,true\n"
    )
    exchanges = reading(tmp_path, text).exchanges
    assert exchanges["total_ms"].to_list() == [41.0, 61.0, None, 21.0]
    assert exchanges["query_ms"].to_list() == [21.0, 21.0, 21.0, 21.0]
    assert exchanges["transport"].to_list() == ["tcp", "tls", "tls", "tcp"]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("a,b,udp,1.8e9,fast", "total_ms is not a number"),
        ("a,b,udp,1.8e9,nan", "total_ms is not a number"),
        ("a,b,udp,1.8e9,-1", "total_ms is negative or above a day (it is in milliseconds)"),
        ("a,b,udp,1.8e9,1e300", "total_ms is negative or above a day (it is in milliseconds)"),
        ("a,b,udp,1.8e12,1", "started_s makes no sense (it is in seconds)"),
        ("a,b,udp,noon,1", "started_s is not a number"),
        ("a,b,sctp,1.8e9,1", "transport is none of udp, tcp, tls, https, quic, http3"),
        (",b,udp,1.8e9,1", "vantage is empty"),
        ("a,b,udp,1.8e9,", "it has neither a time nor an outcome"),
    ],
)
def test_an_unusable_row_is_counted_and_costs_no_other(
    tmp_path: Path, row: str, reason: str
) -> None:
    measurement = reading(tmp_path, f"{HEAD}a,b,udp,1.8e9,1\n{row}\na,b,udp,1.8e9,3\n")
    assert measurement.exchanges["total_ms"].to_list() == [1.0, 3.0]
    (skipped,) = measurement.skipped.to_dicts()
    assert (skipped["reason"], skipped["records"]) == (reason, 1)
    assert skipped["first"].startswith("line 3")
    assert f"(1: {reason}; line 2" in refused(tmp_path, HEAD + row)


def test_parts_are_not_longer_than_the_whole(tmp_path: Path) -> None:
    text = HEAD.replace("total_ms", "total_ms,query_ms") + "a,b,tcp,1.8e9,20,40\n"
    assert "total_ms is shorter than connect_ms or query_ms" in refused(tmp_path, text)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("a,b\n1,2\n", "a.csv: has the unknown column a; hint: one of"),
        (HEAD.replace("total_ms", "totl_ms"), 'unknown column totl_ms; hint: did you mean "total'),
        ("vantage,target,started_s,total_ms\n", "a.csv: has no column transport; hint: the first"),
        ("vantage,target,transport,started_s\n", "a.csv: has neither a time nor an outcome"),
        (f"line,{HEAD}", "a.csv: has the unknown column line"),
        (HEAD.replace("target", "vantage "), "a.csv: has the column vantage twice"),
        (HEAD, "a.csv: has no rows; hint:"),
        ("", "a.csv: is no table of values ("),
        (HEAD + "a,b,udp\na,b,udp,1,2,3,4,5\n", "a.csv: is no table of values ("),
        (HEAD.encode("utf-16"), "a.csv: is UTF-16 text, and not UTF-8; hint: convert it: iconv"),
        (HEAD.encode("utf-16-be"), "a.csv: is UTF-16 text"),
        (b"\x80\x81,\xff\n\xfe\n", "a.csv: "),
    ],
)
def test_what_is_no_such_table_gets_one_line(
    tmp_path: Path, content: str | bytes, words: str
) -> None:
    message = refused(tmp_path, content)
    assert message.startswith(words) or words in message
    assert "\n" not in message


def test_any_bytes_are_refused_or_read(tmp_path: Path) -> None:
    draw = random.Random(20261128)
    example = EXAMPLE.read_bytes()
    for _ in range(300):
        damaged = bytearray(example)
        for _ in range(draw.randrange(1, 12)):
            at = draw.randrange(len(damaged))
            kind = draw.randrange(3)
            if kind == 0:
                damaged[at] = draw.randrange(256)
            elif kind == 1:
                del damaged[at : at + draw.randrange(40)]
            else:
                damaged[at:at] = draw.choice([b",", b'"', b"\n", b"\0", b"\xff", b"9" * 400])
        try:
            reading(tmp_path, bytes(damaged))
        except CsvError as error:
            assert "\n" not in str(error)


def test_the_command_writes_a_folder_that_others_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "theirs"
    assert main(["import", "csv", str(EXAMPLE), "--out", str(folder), "-q"]) == 0
    assert "8 queries from 2 vantage points to 1 server" in capsys.readouterr().out
    loaded = Measurement.load(folder)
    assert loaded.source == "csv"
    assert loaded.exchanges.equals(read_csv([EXAMPLE]).exchanges)
    assert main(["import", "csv", str(tmp_path / "none.csv"), "--out", str(folder / "b")]) == 2
    assert "none.csv: no such file or directory; hint: check the path" in capsys.readouterr().err


COMPRESSED = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}


@pytest.mark.parametrize("kind", COMPRESSED)
def test_compressed_tables_read_as_plain_ones(tmp_path: Path, kind: str) -> None:
    compress, table = COMPRESSED[kind], HEAD + "a,192.0.2.1,udp,1.8e9,12.5\n" * 50
    for separator in (",", ";", "\t"):
        text = table.replace(",", separator).encode()
        assert reading(tmp_path, compress(text)).exchanges.height == 50
    assert "is UTF-16 text" in refused(tmp_path, compress(table.encode("utf-16")))
    assert "check the path" in refused(tmp_path, compress(table.encode())[:-1])

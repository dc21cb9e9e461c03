"""Probe archives and lists of probes."""

from __future__ import annotations

import datetime as dt
import gzip
import json
from pathlib import Path

import pytest

from narrows.atlas import AtlasError, download_commands, read_probes
from narrows.errors import NarrowsError

ARCHIVED = {
    "id": 1,
    "country_code": "NL",
    "asn_v4": 3265,
    "latitude": 52.3475,
    "longitude": 4.9275,
    "tags": ["home", "system-v1"],
    "is_anchor": False,
}
LISTED = {
    "id": 2,
    "country_code": "NL",
    "asn_v4": None,
    "asn_v6": 1103,
    "geometry": {"type": "Point", "coordinates": [4.9, 52.3]},
    "tags": [{"name": "system: software", "slug": "system-software"}],
    "description": "a shelf",
}


@pytest.mark.parametrize("key", ["objects", "results", None])
def test_archives_and_lists_hold_the_same(tmp_path: Path, key: str | None) -> None:
    probes = [ARCHIVED, LISTED]
    file = tmp_path / "probes.json.gz"
    file.write_bytes(gzip.compress(json.dumps({key: probes} if key else probes).encode()))
    table = read_probes(file)
    assert table["vantage"].to_list() == ["1", "2"]
    assert table["latitude"].to_list() == [52.3475, 52.3]
    assert table["longitude"].to_list() == [4.9275, 4.9]
    assert table["asn"].to_list() == [3265, 1103]
    assert table["hardware"].to_list() == ["v1", "software"]


def test_values_of_wrong_types_are_left_out(tmp_path: Path) -> None:
    odd = [
        {"id": 3, "latitude": "north", "longitude": 400, "asn_v4": -1, "country_code": 7},
        {"id": True},
        {"id": "4"},
        "probe",
        None,
    ]
    file = tmp_path / "probes.json"
    file.write_text(json.dumps(odd))
    (row,) = read_probes(file).rows()
    assert row == ("3", None, None, None, None, None, None, None)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is not a JSON document"),
        ("[" * 100_000, "is not a JSON document"),
        ("{}", "does not hold a list of probes"),
        ("[1]", "holds no probe with a number"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, text: str, why: str) -> None:
    file = tmp_path / "probes.json"
    file.write_text(text)
    with pytest.raises(AtlasError, match=why):
        read_probes(file)


def test_the_built_in_measurements_have_ripes_numbers() -> None:
    # RIPE's page of built-in measurements: SOA of the root, 10001 K by UDP, 10101 by TCP.
    commands = download_commands(["k", "J"], dt.date(2012, 9, 20), families=(4, 6), sites=True)
    numbers = [line.split("/measurements/")[1].split("/")[0] for line in commands[:-1]]
    assert numbers[:6] == ["10001", "10101", "11001", "11101", "10301", "11301"]
    assert numbers[6:8] == ["10016", "10116"]
    assert "start=1348099200&stop=1348185599" in commands[0]
    assert len(download_commands(["all"], dt.date(2012, 9, 20))) == 13 * 2 + 1
    with pytest.raises(NarrowsError, match="x: is not a root server"):
        download_commands(["x"], dt.date(2012, 9, 20))

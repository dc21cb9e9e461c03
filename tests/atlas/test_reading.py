"""Atlas results of every shape as rows; what cannot be used is counted."""

from __future__ import annotations

import bz2
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from narrows.atlas import AtlasError, read_atlas
from narrows.results import Measurement
from narrows.results.exchanges import OUTCOMES

# A result as the API gives it: measurement 11501 of K-root, from 2015, with its reply.
REPLY = "kmqAAAABAAEAAAAAB3ZlcnNpb24Gc2VydmVyAAAQAAPADAAQAAMAAAAAAAsKTlNEIDMuMi4xNA=="
RESULT: dict[str, Any] = {
    "type": "dns",
    "af": 6,
    "fw": 4670,
    "lts": 93,
    "prb_id": 10003,
    "msm_id": 11501,
    "proto": "UDP",
    "dst_addr": "2001:7fd::1",
    "timestamp": 1422663192,
    "result": {"rt": 17.834, "size": 55, "ID": 37482, "ANCOUNT": 1, "abuf": REPLY},
}
OTHER = RESULT | {"prb_id": 10004, "result": {"rt": 2.788, "size": 55}}


def read(folder: Path, data: bytes | str, name: str = "results") -> Measurement:
    file = folder / name
    file.write_bytes(data.encode() if isinstance(data, str) else data)
    return read_atlas([file])


def skipped(measurement: Measurement) -> dict[str, int]:
    return dict(measurement.skipped.select("reason", "records").iter_rows())


def zstandard(data: bytes) -> bytes:
    """One frame of raw blocks (RFC 8878, sections 3.1.1.1 and 3.1.1.2)."""
    frame = b"\x28\xb5\x2f\xfd\xa0" + len(data).to_bytes(4, "little")
    while data:
        block, data = data[:100_000], data[100_000:]
        frame += ((len(block) << 3) | (not data)).to_bytes(3, "little") + block
    return frame


TWO = json.dumps([RESULT, OTHER]).encode()
LINES = f"{json.dumps(RESULT)}\n{json.dumps(OTHER)}\n".encode()


@pytest.mark.parametrize(
    "data",
    [
        TWO,
        LINES,
        json.dumps([RESULT, OTHER], indent=2).encode(),
        json.dumps({"count": 2, "next": None}).encode() + b"\n" + LINES,
        b"\xef\xbb\xbf" + TWO,
        b"# a probe's own form\nRESULT " + LINES.replace(b"\n", b"\nRESULT ", 1),
        gzip.compress(TWO, mtime=0),
        gzip.compress(LINES[:700], mtime=0) + gzip.compress(LINES[700:], mtime=0),
        bz2.compress(TWO),
        zstandard(TWO),
        zstandard(LINES[:100]) + zstandard(LINES[100:]),
    ],
    ids=["array", "lines", "indented", "paged", "bom", "probe", "gz", "gz2", "bz2", "zst", "zst2"],
)
def test_every_form_holds_the_same_results(tmp_path: Path, data: bytes) -> None:
    exchanges = read(tmp_path, data).exchanges
    assert exchanges["vantage"].to_list() == ["10003", "10004"]
    assert exchanges["total_ms"].to_list() == [17.834, 2.788]
    first = exchanges.row(0, named=True)
    assert first["query_ms"] == first["total_ms"]
    assert (first["server"], first["family"], first["transport"]) == ("2001:7fd::1", 6, "udp")
    assert (first["qname"], first["qtype"], first["rcode"]) == ("version.server.", "TXT", "NOERROR")
    assert (first["site"], first["reply_bytes"], first["truncated"]) == ("NSD 3.2.14", 55, False)
    assert (first["measurement"], first["firmware"]) == (11501, 4670)
    assert exchanges.row(1, named=True)["rcode"] is None


# Errors as probes report them, and what docs/measurements.md calls them.
@pytest.mark.parametrize(
    ("error", "outcome", "stage"),
    [
        ({"timeout": 5000}, "timeout", None),
        ({"TUCONNECT": "Connection refused"}, "refused", "connect"),
        ({"TUCONNECT": "No route to host"}, "unreachable", "connect"),
        ({"TUCONNECT": "Network is unreachable"}, "unreachable", "connect"),
        ({"TUCONNECT": "Connection timed out"}, "timeout", "connect"),
        ({"TU_READ_ERR": ""}, "closed", "query"),
        (
            {"TCPREADSIZE": "reply too small, got 0", "TCPREAD": "expected 2 bytes and got 1"},
            "malformed",
            "reply",
        ),
        ({"idmismatch": "mismatch id from tcp fd 14"}, "mismatched", "reply"),
        ({"TU_BAD_ADDR": True}, "not-asked", None),
        ({"reason": "address not allowed"}, "not-asked", None),
        ({"nameserver": "no local resolvers found"}, "not-asked", None),
        ({"getaddrinfo": "Name or service not known"}, "not-asked", None),
        ({"socket": "connect failed Network is unreachable"}, "not-asked", None),
        ({"TU_OF_THE_FUTURE": {"more": [1]}}, "failed", None),
        ("a text", "failed", None),
    ],
)
def test_errors_have_names(tmp_path: Path, error: object, outcome: str, stage: str | None) -> None:
    result = {key: value for key, value in RESULT.items() if key != "result"}
    row = read(tmp_path, json.dumps(result | {"error": error})).exchanges.row(0, named=True)
    assert outcome in OUTCOMES
    assert (row["outcome"], row["stage"], row["total_ms"]) == (outcome, stage, None)
    assert row["detail"]


def test_a_resultset_gives_a_row_for_each_resolver(tmp_path: Path) -> None:
    elements = [
        {"subid": 1, "time": 100, "proto": "UDP", "dst_addr": "192.0.2.1", "af": 4}
        | {"result": {"rt": 1.5}},
        {"subid": 2, "time": 101, "proto": "TCP", "dst_name": "192.168.1.1"}
        | {"error": {"TU_BAD_ADDR": True}},
    ]
    around = {"type": "dns", "fw": "4790", "prb_id": 7, "msm_id": 8, "timestamp": 99}
    exchanges = read(tmp_path, json.dumps(around | {"resultset": elements})).exchanges
    assert exchanges["vantage"].to_list() == ["7", "7"]
    assert exchanges["firmware"].to_list() == [4790, 4790]
    assert exchanges["started_s"].to_list() == [100, 101]
    assert exchanges["target"].to_list() == ["192.0.2.1", "192.168.1.1"]
    assert exchanges["server"].to_list() == ["192.0.2.1", None]
    assert exchanges["outcome"].to_list() == ["answered", "not-asked"]


@pytest.mark.parametrize(
    ("more", "target"),
    [
        ({}, "2001:7fd::1"),
        ({"dst_port": "53"}, "2001:7fd::1"),
        ({"dst_port": "5301"}, "[2001:7fd::1]:5301"),
        ({"dst_port": 5301, "dst_addr": "192.0.2.1", "af": 4}, "192.0.2.1:5301"),
        ({"dst_port": "853", "proto": "TCP"}, "2001:7fd::1"),
        ({"dst_port": 8853, "proto": "TCP", "sslvers": 772}, "[2001:7fd::1]:8853"),
    ],
)
def test_a_server_is_an_address_and_a_port(
    tmp_path: Path, more: dict[str, Any], target: str
) -> None:
    (row,) = read(tmp_path, json.dumps(RESULT | more)).exchanges.to_dicts()
    assert row["target"] == target
    assert row["port"] == (int(more["dst_port"]) if more else None)


def test_the_handshake_is_the_whole_without_the_query(tmp_path: Path) -> None:
    result = RESULT | {"proto": "TCP", "result": {"rt": 40.5, "qt": 20.25}}
    row = read(tmp_path, json.dumps(result)).exchanges.row(0, named=True)
    assert (row["connect_ms"], row["query_ms"], row["total_ms"]) == (20.25, 20.25, 40.5)


def test_future_firmware_is_read_as_far_as_it_keeps_to_the_past(tmp_path: Path) -> None:
    future = RESULT | {"fw": 6100, "mver": "3.0.0", "proto": "UDP", "quantum": {"a": [1, {}]}}
    assert read(tmp_path, json.dumps(future)).exchanges["firmware"].to_list() == [6100]


def test_the_same_result_twice_counts_once(tmp_path: Path) -> None:
    measurement = read(tmp_path, LINES + LINES)
    assert measurement.exchanges.height == 2
    assert skipped(measurement) == {"the same result again": 2}


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ('{"type":"dns","prb_id":7,"af', "cut short"),
        ('{"type":"dns","result":{"abuf":"AAA', "cut short"),
        ('{"type":"dns","result":' + "[" * 1_000_000 + "]" * 1_000_000 + "}", "nested too deep"),
        (json.dumps(RESULT | {"result": [1, 2]}), "a key of a wrong type"),
        (json.dumps(RESULT | {"timestamp": "soon"}), "a key of a wrong type"),
        (json.dumps(RESULT | {"result": {"rt": {}}}), "a key of a wrong type"),
        (json.dumps(RESULT | {"timestamp": -1}), "no usable timestamp"),
        (json.dumps(RESULT | {"timestamp": None}), "no usable timestamp"),
        (json.dumps(RESULT | {"result": {"rt": -3.5}}), "response time not above 0"),
        (json.dumps(RESULT | {"result": {"size": 55}}), "no response time"),
        (json.dumps(RESULT | {"result": None}), "neither result nor error"),
        (json.dumps(RESULT | {"proto": "SCTP"}), "neither UDP nor TCP"),
        (json.dumps(RESULT | {"resultset": []}), "neither result nor error"),
        (json.dumps(RESULT | {"resultset": [{}] * 65}), "a key of a wrong type"),
        (json.dumps({"type": "ping", "result": [{"rtt": 1}]}), "not a DNS result"),
        ('{"type":"dns",,}', "no JSON"),
        ('{"a":"' + "x" * 5_000_000 + '"}', "too long"),
    ],
)
def test_what_cannot_be_used_is_counted_and_the_rest_is_read(
    tmp_path: Path, bad: str, reason: str
) -> None:
    measurement = read(tmp_path, f"{json.dumps(RESULT)}\n{bad}\n{json.dumps(OTHER)}\n")
    assert measurement.exchanges["vantage"].to_list() == ["10003", "10004"]
    assert skipped(measurement) == {reason: 1}
    (first,) = measurement.skipped["first"]
    assert first.startswith("record 2: ")


def test_a_file_that_ends_in_the_middle_of_its_compression_keeps_what_was_read(
    tmp_path: Path,
) -> None:
    whole = gzip.compress(LINES * 10_000, mtime=0)
    measurement = read(tmp_path, whole[: len(whole) // 2])
    assert measurement.exchanges.height == 2
    assert skipped(measurement)["the file is damaged from there on"] == 1


def test_a_message_that_cannot_be_read_does_not_cost_the_result(tmp_path: Path) -> None:
    result = RESULT | {"result": {"rt": 5.0, "abuf": "!!"}}
    measurement = read(tmp_path, json.dumps(result))
    assert measurement.exchanges["total_ms"].to_list() == [5.0]
    (remark,) = measurement.findings["remarks"]
    assert remark["what"] == "a message that cannot be read"


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"\0" * 1000, b"a,b\n1,2\n", gzip.compress(b"", mtime=0)]
)
def test_a_file_without_results_is_refused(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(AtlasError, match=r"holds no DNS result; hint: .* --download"):
        read(tmp_path, data)


def test_nothing_usable_says_why(tmp_path: Path) -> None:
    with pytest.raises(AtlasError, match=r"of 1 records \(1: not a DNS result; record 1: it is of"):
        read(tmp_path, '{"type":"traceroute"}')


def test_files_that_cannot_be_opened_are_named(tmp_path: Path) -> None:
    with pytest.raises(AtlasError, match="gone: no such file or directory"):
        read_atlas([tmp_path / "gone"])
    with pytest.raises(AtlasError, match="is a directory"):
        read_atlas([tmp_path])

"""Several files as one capture, packets out of order, compressed files, and standard input."""

from __future__ import annotations

import lzma
import random
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from narrows.captures import CaptureError, read_captures
from narrows.cli import main
from narrows.results import Measurement
from tests.captures.written import Written

DATA = Path(__file__).parent / "data"


def traffic() -> Written:
    """Thirty exchanges, a third of them over TCP; no two packets at the same time."""
    capture = Written()
    for count in range(10):
        at = 300.0 * count
        capture.over_udp(at, 53, 20.0)
        capture.over_tcp(at + 5.0, 53, 40.0)
        capture.over_udp(at + 150.0, 53, 3.0)
    capture.frames.sort(key=lambda frame: frame[0])
    capture.frames = [(ms + at / 500, frame) for at, (ms, frame) in enumerate(capture.frames)]
    return capture


def file(frames: list[tuple[float, bytes]], path: Path) -> Path:
    capture = Written()
    for ms, frame in frames:
        capture.frame(ms, frame)
    path.write_bytes(capture.bytes)
    return path


def same(found: Measurement, expected: Measurement) -> None:
    assert found.exchanges.equals(expected.exchanges)
    assert found.connections.equals(expected.connections)


@pytest.fixture
def whole(tmp_path: Path) -> Measurement:
    return read_captures([file(traffic().frames, tmp_path / "whole.pcap")])


@pytest.mark.parametrize("pieces", [2, 7, 110])
def test_pieces_are_one_capture_whatever_their_order(
    tmp_path: Path, whole: Measurement, pieces: int
) -> None:
    frames = traffic().frames
    size = -(-len(frames) // pieces)
    files = [
        file(frames[at : at + size], tmp_path / f"piece-{at}.pcap")
        for at in range(0, len(frames), size)
    ]
    # More than 64 files are opened one after the other.
    assert len(files) > 64 or pieces < 110
    random.Random(1).shuffle(files)
    same(read_captures(files), whole)


def test_a_file_for_each_direction(tmp_path: Path, whole: Measurement) -> None:
    # The third byte of the source address is the same, the second tells the ends apart.
    frames = traffic().frames
    there = [frame for frame in frames if frame[1][13] == 9]
    back = [frame for frame in frames if frame[1][13] == 8]
    assert there and back
    files = [file(back, tmp_path / "back.pcap"), file(there, tmp_path / "there.pcap")]
    found = read_captures(files)
    same(found, whole)
    assert not found.findings["remarks"]


def test_packets_out_of_order_are_sorted_and_counted(tmp_path: Path, whole: Measurement) -> None:
    frames = traffic().frames
    swapped = [frame for at in range(0, len(frames), 2) for frame in reversed(frames[at : at + 2])]
    found = read_captures([file(swapped, tmp_path / "swapped.pcap")])
    same(found, whole)
    (remark,) = found.findings["remarks"]
    assert remark["kind"] == "out-of-order"
    assert 0 < remark["records"] <= len(frames) // 2


def test_what_is_too_late_to_sort_is_counted_and_gives_no_negative_times(tmp_path: Path) -> None:
    capture = Written()
    capture.over_udp(60_000.0, 53, 20.0)
    capture.over_tcp(60_100.0, 53, 20.0)
    capture.over_udp(0.0, 53, 20.0)
    found = read_captures([file(capture.frames, tmp_path / "late.pcap")])
    assert {remark["kind"] for remark in found.findings["remarks"]} == {"late"}
    assert found.exchanges.filter(outcome="answered").height == 3
    for column in ("total_ms", "query_ms", "connect_ms"):
        assert (found.exchanges[column].drop_nulls() >= 0).all()
    backwards = [(1000.0 * (9 - at), frame) for at, (_, frame) in enumerate(capture.frames[:9])]
    rows = read_captures([file(backwards, tmp_path / "backwards.pcap")]).exchanges
    assert (rows["total_ms"].drop_nulls() >= 0).all()


def test_a_damaged_piece_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    frames = traffic().frames
    half = len(frames) // 2
    files = [file(frames[:half], tmp_path / "a.pcap"), file(frames[half:], tmp_path / "b.pcap")]
    files[0].write_bytes(files[0].read_bytes()[:-5])
    found = read_captures(files)
    (row,) = found.skipped.to_dicts()
    assert (row["source"], row["records"]) == (str(files[0]), 1)
    assert found.exchanges.height >= 29
    files[1].write_bytes(b"GET / HTTP/1.1\r\n")
    with pytest.raises(CaptureError, match=r"b\.pcap: is neither pcap"):
        read_captures(files)


def test_dnstap_is_merged_too(tmp_path: Path) -> None:
    files = [DATA / "kdig-udp.dnstap", DATA / "kdig-tcp.dnstap", DATA / "nsd3213-soa.pcapng"]
    found = read_captures(files)
    assert found.exchanges["transport"].to_list().count("udp") == 2
    assert found.exchanges["started_s"].is_sorted()


def test_xz_is_read_and_its_memory_is_bounded(tmp_path: Path) -> None:
    data = (DATA / "nsd3213-soa.pcapng").read_bytes()
    for preset in (0, 9):
        (tmp_path / "a.xz").write_bytes(lzma.compress(data, preset=preset))
        assert read_captures([tmp_path / "a.xz"]).exchanges.height == 2
    (tmp_path / "two.xz").write_bytes(lzma.compress(data[:900]) + lzma.compress(data[900:]))
    assert read_captures([tmp_path / "two.xz"]).exchanges.height == 2
    # A header that claims a dictionary of 4 GB (the .xz file format, 5.3.1), with its checksum.
    packed = bytearray(lzma.compress(data))
    header = packed[12:24]
    at = header.index(b"\x21\x01") + 2
    header[at] = 40
    header[8:12] = zlib.crc32(bytes(header[:8])).to_bytes(4, "little")
    packed[12:24] = header
    (tmp_path / "huge.xz").write_bytes(packed)
    with pytest.raises(CaptureError, match=r"huge\.xz: .*mem"):
        read_captures([tmp_path / "huge.xz"])


def test_a_dash_is_standard_input(tmp_path: Path) -> None:
    out = tmp_path / "run"
    words = [sys.executable, "-m", "narrows", "import", "capture", "-", "--out", str(out)]
    data = (DATA / "nsd3213-soa.pcapng").read_bytes()
    done = subprocess.run(words, input=data, capture_output=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert Measurement.load(out).exchanges.height == 2


def test_nothing_on_standard_input_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    words = [sys.executable, "-m", "narrows", "import", "capture", "-"]
    done = subprocess.run(words, input=b"", capture_output=True, check=False, timeout=60)
    assert done.returncode == 2
    assert done.stderr.count(b"\n") == 1 and b"-: is neither" in done.stderr
    assert main(["import", "capture", "--help"]) == 0
    assert "standard input" in capsys.readouterr().out

"""tshark counts the same in every capture that is at hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.captures import judge
from tests.captures.tshark import NEEDS_TSHARK
from tests.captures.written import Written
from tests.shared_data import SHARED

FOLDERS = (Path(__file__).parent / "data", SHARED / "data" / "pcap", SHARED / "cases" / "captures")

pytestmark = NEEDS_TSHARK


@pytest.mark.slow
@pytest.mark.parametrize(
    "folder",
    [folder for folder in FOLDERS if folder.is_dir()],
    ids=lambda folder: f"{folder.parent.name}-{folder.name}",
)
def test_tshark_counts_the_same(folder: Path) -> None:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    compared, found = judge.judged(files)
    assert compared >= 5
    assert [f"{each.file.name}: {each.what}" for each in found] == []


def test_the_judge_finds_what_differs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capture = Written()
    capture.over_udp(0.0, 53, 20.0)
    capture.over_tcp(100.0, 53, 20.0)
    (tmp_path / "same.pcap").write_bytes(capture.bytes)
    assert judge.main([str(tmp_path)]) == 0
    # tshark counts a query without a question.
    capture.message(200.0, message=b"\x77\x77" + b"\1\0\0\0\0\0\0\0\0\0")
    (tmp_path / "other.pcap").write_bytes(capture.bytes)
    assert judge.main([str(tmp_path)]) == 1
    said = capsys.readouterr().out
    assert "other.pcap: udp queries: narrows 1, tshark 2" in said
    assert "2 captures, 1 differ, 0 other files" in said

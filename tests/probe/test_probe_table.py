"""What the table of a probe shows for known times."""

from __future__ import annotations

import io
from typing import Any

import pytest

from narrows import progress
from narrows.cli.probe_table import live, print_measurement
from narrows.probe import Progress, plan
from narrows.results import Measurement

from .rows import tcp, udp, unanswered


def shown(*rows: dict[str, Any], **facts: Any) -> list[str]:
    """The lines that are printed."""
    known = [
        {"exchange": number, "started_s": 1.8e9 + number, **row} for number, row in enumerate(rows)
    ]
    out = io.StringIO()
    print_measurement(Measurement.of_rows("probe", exchanges=known, narrows="0", **facts), out)
    return out.getvalue().splitlines()


def cells(lines: list[str], transport: str) -> dict[str, str]:
    """The cells of a row up to the ratio, by the heads that are one word."""
    heads = lines[0].replace("no reply", "no-reply").replace("95 %", "95%").split()
    (row,) = [line for line in lines[1:] if line.split()[1:2] == [transport]]
    return dict(zip(heads, row.split()[: heads.index("ratio") + 1], strict=False))


def test_lost_queries_show_beside_medians() -> None:
    """A median alone hides that one answer took a second more, and that two never came."""
    slow = [tcp(connect=1040.0), *[unanswered("timeout", "connect")] * 2]
    lines = shown(*[udp()] * 10, *[tcp()] * 7, *slow)
    assert cells(lines, "tcp") | {"no-reply": "2", "whole": "80.00", "longest": "1080.00"} == (
        cells(lines, "tcp")
    )
    assert cells(lines, "udp")["no-reply"] == "0"
    assert "timeout" not in lines[2]


def test_twenty_answers_have_a_95th_percentile() -> None:
    times = [float(ms) for ms in range(1, 102)]
    lines = shown(*[udp(ms) for ms in times], *[tcp(first=ms) for ms in times])
    # Of 1 to 101, 95 % are at most 96; over TCP 40 ms more.
    assert cells(lines, "udp")["95%"] == "96.00"
    assert cells(lines, "tcp")["95%"] == "136.00"
    assert "no reply" not in lines[0]


def test_a_table_has_at_most_100_columns() -> None:
    where = {"target": "2001:db8:1234:5678:9abc:def0:1234:5678"}
    sizes = {"segment_bytes": [1460, 1460, 1460, 800]}
    rows = [udp(**where), tcp(**where, **sizes), unanswered("timeout", "query", **where)]
    lines = shown(*rows, udp(**where, rcode="REFUSED", truncated=True))
    assert max(map(len, lines)) <= 100
    assert lines[0].split()[-1] == "else"


def test_the_rows_of_a_server_stay_together() -> None:
    """The second server's first answer overtakes the first one's second."""
    one, other = {"target": "a"}, {"target": "b"}
    lines = shown(udp(**one), udp(**other), tcp(**other), tcp(**one))
    rows = [line.split()[:2] for line in lines[1:5]]
    assert rows == [["a", "udp"], ["a", "tcp"], ["b", "udp"], ["b", "tcp"]]


def test_the_ratio_stands_beside_the_one_with_the_truncated_query() -> None:
    rows = [{**row, "round": n} for n in range(3) for row in (udp(truncated=True), tcp())]
    assert "2.00; 3.00" in "\n".join(shown(*rows))


def test_a_verdict_follows_an_empty_line_and_controls_no_terminal() -> None:
    said = {"vantage": "", "transport": "tcp", "name": "one-write", "notes": [], "metrics": {}}
    verdict = {"target": "a\x1b[31m", "sentence": "it is near\nand fast", **said}
    lines = shown(udp(), tcp(), findings={"verdicts": [verdict]})
    assert lines[-2:] == ["", r"a\x1b[31m: it is near\nand fast"]


def test_without_a_terminal_progress_is_lines(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "EVERY_S", 0.0)
    made = plan(["127.0.0.1"], count=2)
    for quiet, said in ((False, "probe: 50 % done, about 0 s left, 2 of 4 queries\n"), (True, "")):
        with live(made, quiet=quiet) as update:
            update(Progress(2, made.queries, udp()))
        assert capsys.readouterr().err == said

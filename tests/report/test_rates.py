"""Rates over time that a run writes for other programs: what they say, and what is lost."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from narrows import Scenario, run
from narrows.cli import main
from narrows.report.rates import write_rates
from narrows.results import Run, RunFolderError

TEXT = """
name = "t"
duration = "8 s"
[[links]]
name = "l"
between = ["a", "b"]
rate = "10 Mbit/s"
delay = "5 ms"
forward = { rate_trace = "rates.csv", queue = { kind = "pfifo", limit = 50 } }
[[traffic]]
kind = "udp"
name = "t"
sender = "a"
receiver = "b"
rate = "12 Mbit/s"
packet = "1500 B"
[monitor]
links = { links = ["l.forward"], rate = 1 }
"""
RATES = "t_s,rate_bps\n0,7300000\n2.5,0\n3,640000\n5.0625,9000000\n"
"""Times that are exact as numbers of the machine."""


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("rates")
    (folder / "rates.csv").write_text(RATES)
    (folder / "t.toml").write_text(TEXT)
    return run(Scenario.load(folder / "t.toml"))


def again(tmp_path: Path, name: str) -> Run:
    """The same scenario with a written trace."""
    (tmp_path / "t.toml").write_text(TEXT.replace("rates.csv", name))
    return run(Scenario.load(tmp_path / "t.toml"))


def carried(of: Run) -> list[int]:
    """Bytes in each second."""
    totals = [0, *of.links.get_column("bytes").to_list()]
    return [after - before for before, after in pairwise(totals)]


def test_a_table_comes_back_as_it_was(written: Run, tmp_path: Path) -> None:
    file = write_rates(written, tmp_path / "out.csv")
    assert file.read_text() == RATES
    assert again(tmp_path, "out.csv").links.equals(written.links)


def test_changes_become_a_table(tmp_path: Path) -> None:
    changes = [(2, 'rate = "2 Mbit/s"'), (3, 'state = "down"'), (4, 'state = "up"')]
    text = TEXT.replace('rate_trace = "rates.csv", ', "") + "".join(
        f'[[changes]]\nat = "{at} s"\nlink = "l"\n{what}\n' for at, what in changes
    )
    (tmp_path / "t.toml").write_text(text)
    file = write_rates(run(Scenario.load(tmp_path / "t.toml")), tmp_path / "out.csv")
    assert file.read_text() == "t_s,rate_bps\n0,10000000\n2,2000000\n3,0\n4,2000000\n"


def test_what_a_link_carried_is_its_samples(written: Run, tmp_path: Path) -> None:
    file = write_rates(written, tmp_path / "out.csv", throughput=True)
    rows = [line.split(",") for line in file.read_text().splitlines()[1:]]
    steps = {int(at): int(rate) for at, rate in rows}
    held = [0] * 8
    for second in range(8):
        held[second] = steps.get(second, held[second - 1])
    assert held == [8 * count for count in carried(written)]


def test_mahimahi_s_list_carries_the_same_to_within_its_error(written: Run, tmp_path: Path) -> None:
    write_rates(written, tmp_path / "out.trace", mahimahi=True)
    lines = [int(line) for line in (tmp_path / "out.trace").read_text().splitlines()]
    assert lines == sorted(lines) and lines[-1] == 8000
    bits = 2.5 * 7.3e6 + 2.0625 * 0.64e6 + 2.9375 * 9e6
    assert len(lines) == bits // 12_000
    # A second's count may differ by what the list lacks at both of its ends, and by a packet in
    # transmission.
    followed = again(tmp_path, "out.trace")
    assert carried(followed) == pytest.approx(carried(written), abs=3 * 1500)
    assert sum(carried(followed)) == pytest.approx(sum(carried(written)), abs=2 * 1500)


def test_a_trace_becomes_a_table_with_all_its_bytes(tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text("7\n7\n450\n1000\n")
    followed = again(tmp_path, "list.txt")
    text = write_rates(followed, tmp_path / "out.csv").read_text().splitlines()[1:]
    rows = [tuple(map(float, line.split(","))) for line in text]
    ends = [at for at, _ in rows[1:]] + [8.0]
    bits = sum(rate * (end - at) for (at, rate), end in zip(rows, ends, strict=True))
    assert bits == pytest.approx(8 * 4 * 12_000, abs=12_000)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"link": "m.forward"}, "its scenario has no link m.forward"),
        ({"link": "l.backward", "throughput": True}, "has no samples of l.backward"),
    ],
)
def test_what_a_run_does_not_have_is_refused(
    written: Run, tmp_path: Path, more: dict[str, object], said: str
) -> None:
    with pytest.raises(RunFolderError, match=said):
        write_rates(written, tmp_path / "out", **more)  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()


def test_a_file_that_exists_and_a_run_without_samples_are_refused(
    written: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "out").write_text("mine")
    written.save(tmp_path / "run")
    assert main(["export", "rates", str(tmp_path / "run"), str(tmp_path / "out")]) == 2
    assert "exists already; hint: choose another name" in capsys.readouterr().err
    assert (tmp_path / "out").read_text() == "mine"
    assert main(["export", "rates", str(tmp_path / "run"), str(tmp_path / "new"), "-q"]) == 0
    assert (tmp_path / "new").read_text() == RATES
    (tmp_path / "t.toml").write_text(TEXT.split("[monitor]")[0].replace("rates.csv", "new.csv"))
    (tmp_path / "new.csv").write_text(RATES)
    with pytest.raises(RunFolderError, match="has no samples of links"):
        write_rates(run(Scenario.load(tmp_path / "t.toml")), tmp_path / "other")

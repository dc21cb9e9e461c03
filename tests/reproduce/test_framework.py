"""Running cells, judging them and writing them down, without a simulator."""

import errno
import io
import json
import os
import re
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest

from narrows.reproduce import (
    Cell,
    Measured,
    Paper,
    Progress,
    UnknownClaim,
    Verdict,
    document,
    ids,
    reproduce,
    select,
)
from narrows.reproduce.harhalakis_2011 import PAPER, published
from narrows.reproduce.output import claim_folder, print_outcome, write
from narrows.results import RunFolderError
from narrows.unfinished import write_whole

pytestmark = pytest.mark.slow

KEYS = {
    "id",
    "metric",
    "published",
    "measured",
    "ci_low",
    "ci_high",
    "unit",
    "tolerance",
    "verdict",
    "seeds",
    "backend",
}


def pretend(
    paper: Paper, cell: Cell, set: Mapping[str, str], seed: int, stop: threading.Event
) -> Measured:
    """A run that gives what the paper printed, and 10 points less with TCP of 2009."""
    assert paper is PAPER
    assert not stop.is_set()
    success = published.FIRST_ATTEMPT_PERCENT.get(cell.name, 60.0) + 0.1 * (seed % 3)
    if set.get("traffic.background.tcp.profile") == "linux-2.6.30":
        success -= 10.0
    attempts = published.ATTEMPTS.get(cell.name, (12000, 8000, 0, 0, 0))
    values = {f"attempt_{n}": count / 200.0 for n, count in enumerate(attempts, start=1)}
    values |= {
        "attempt_1": success,
        "first_attempt": success,
        "unanswered": 0.0,
        "late": 0.0,
        "rtt_median_ms": 250.0,
        "dns_phase_s": 140.0,
        "drops_per_s": 120.0,
        "marks_per_s": 100.0,
        "backlog_bytes": 187_000.0,
        "ring_bytes": 110_000.0,
        "utilisation": 100.0,
        "drops_before": 100.0,
        "drops_after": 130.0 + seed,
        "drops_rise": 30.0 + seed,
        "drops_rise_per_s": (30.0 if cell.name.startswith("red") else 5.0) + seed,
        "ewma_deviation": 10.0,
        "slots_with_drops": 99.0,
        "drops_dispersion": 1.0 if cell.name.startswith("red") else 9.0,
        "drop_burst_s": 0.5,
        "backlog_most_bytes": 262_500.0,
        "room": 97.0 + 0.1 * seed,
    }
    times = [0.1 * n for n in range(300)]
    return Measured(
        values,
        {"ewma": (times, [100.0 + n % 7 for n in range(300)]), "cdf": ([200.0, 1300.0], [0.5, 1])},
    )


def test_every_cell_of_the_chosen_claims_runs_once_for_each_seed() -> None:
    ran: list[tuple[str, int]] = []
    lock = threading.Lock()

    def counting(
        paper: Paper, cell: Cell, set: Mapping[str, str], seed: int, stop: threading.Event
    ) -> Measured:
        with lock:
            ran.append((cell.name, seed))
        return pretend(paper, cell, set, seed, stop)

    steps: list[Progress] = []
    ((paper, claims),) = select(["h1", "H2"])
    outcome = reproduce(paper, claims=claims, seeds=3, execute=counting, progress=steps.append)
    cells = ("fifo-300", "red-300-none")
    assert sorted(ran) == [(cell, seed) for cell in cells for seed in (1, 2, 3)]
    assert [(step.done, step.total) for step in steps] == [(n, 6) for n in range(1, 7)]
    assert outcome.complete
    assert [judged.verdict for judged in outcome.judged()] == [Verdict.HOLDS] * 10


def test_all_claims_and_their_document() -> None:
    outcome = reproduce(PAPER, seeds=3, execute=pretend)
    found = json.loads(json.dumps(document([outcome])))
    assert found["status"] == "complete"
    assert len(found["claims"]) == len(PAPER.claims)
    for claim in found["claims"]:
        assert claim.keys() >= KEYS
        assert claim["verdict"] in {"holds", "depends", "fails", "not tested"}
        assert (claim["published"] is None) == (claim["worded"] is not None)
        assert claim["ci_low"] <= claim["measured"] <= claim["ci_high"]
        assert claim["seeds"] == 3
        assert claim["backend"] == "sim"
    pairs = [(claim["id"], claim["metric"]) for claim in found["claims"]]
    assert len(pairs) == len(set(pairs))


def test_another_choice_that_flips_a_claim_makes_it_depend() -> None:
    choices = [
        each for each in PAPER.choices if each.name in ("TCP of 2009", "FIFO of 200 ms not shifted")
    ]
    ((paper, claims),) = select(["H6"])
    outcome = reproduce(paper, claims=claims, choices=choices, seeds=3, execute=pretend)
    fifo, red, *_ = outcome.judged()
    assert fifo.verdict is Verdict.DEPENDS
    assert fifo.flips == ["TCP of 2009"]
    assert set(fifo.choices) == {"TCP of 2009", "FIFO of 200 ms not shifted"}
    assert set(red.choices) == {"TCP of 2009"}


def test_a_run_that_fails_is_a_line_and_the_rest_counts() -> None:
    def failing(
        paper: Paper, cell: Cell, set: Mapping[str, str], seed: int, stop: threading.Event
    ) -> Measured:
        if cell.name == "fifo-300" and seed == 2:
            raise RuntimeError("the run stopped early: event-limit")
        return pretend(paper, cell, set, seed, stop)

    ((paper, claims),) = select(["H1", "H2"])
    outcome = reproduce(paper, claims=claims, seeds=3, execute=failing)
    assert not outcome.complete
    assert outcome.failures == ["fifo-300, seed 2: the run stopped early: event-limit"]
    found = document([outcome])
    assert found["status"] == "partial"
    assert {claim["seeds"] for claim in found["claims"]} == {2, 3}


def test_an_interrupt_leaves_what_was_measured() -> None:
    def interrupt(at: Progress) -> None:
        if at.done == 8:
            raise KeyboardInterrupt

    outcome = reproduce(PAPER, seeds=50, jobs=1, execute=pretend, progress=interrupt)
    assert outcome.interrupted
    assert not outcome.complete
    # Some runs had ended, in any order, but not all.
    assert sum(len(runs) for runs in outcome.measured.values()) == 8
    verdicts = {judged.verdict for judged in outcome.judged()}
    assert Verdict.NOT_TESTED in verdicts


def test_the_report_is_one_file_and_the_folder_is_not_overwritten(tmp_path: Path) -> None:
    choices = PAPER.choices[:1]
    outcome = reproduce(PAPER, choices=choices, against=True, seeds=3, execute=pretend)
    folder = tmp_path / "out"
    claim_folder(folder)
    write([outcome], folder)
    html = (folder / "report.html").read_text(encoding="utf-8")
    assert html.count("<svg") == 3
    # Nothing is fetched: the only addresses are names of XML vocabularies.
    assert set(re.findall(r"https?://([^/\"]+)", html)) <= {"www.w3.org"}
    assert "Table III" in html
    assert json.loads((folder / "result.json").read_text(encoding="utf-8"))["claims"]
    assert {path.name for path in folder.iterdir()} == {"report.html", "result.json", "plots"}
    assert {path.suffix for path in (folder / "plots").iterdir()} == {".png", ".svg"}
    with pytest.raises(RunFolderError, match="holds other files; hint: choose a new or empty"):
        claim_folder(folder)


def test_a_run_s_folder_is_not_written_into(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(RunFolderError, match="already holds a run; hint: choose another folder"):
        claim_folder(tmp_path)


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RunFolderError, match="is not a folder; hint: choose another name"):
        claim_folder(tmp_path / "file")


def test_a_full_disk_leaves_the_result_if_it_fits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, data: bytes) -> None:
        if path.name != "result.json":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        write_whole(path, data)

    outcome = reproduce(PAPER, seeds=2, execute=pretend)
    monkeypatch.setattr("narrows.report.files.write_whole", full)
    with pytest.raises(RunFolderError, match="no space left on device; hint: free"):
        write([outcome], tmp_path / "out")
    result = json.loads((tmp_path / "out" / "result.json").read_text(encoding="utf-8"))
    assert result == document([outcome])


def test_the_terminal_shows_the_papers_tables() -> None:
    outcome = reproduce(PAPER, seeds=3, against=True, execute=pretend)
    text = io.StringIO()
    print_outcome(outcome, text)
    shown = text.getvalue()
    for title in ("Table I:", "Table II:", "Table III:", "Table IV:", "Figure 2:", "kernel"):
        assert title in shown
    assert "19474" in shown


def test_a_part_of_a_paper_says_so(tmp_path: Path) -> None:
    chosen = [claim for claim in PAPER.claims if claim.id == "H1"]
    for claims, noted in ((None, False), (chosen, True)):
        outcome = reproduce(PAPER, claims=claims, seeds=2, execute=pretend)
        text = io.StringIO()
        print_outcome(outcome, text)
        shown = " ".join(text.getvalue().split())
        assert ("a part of the paper (H1); on the whole paper, narrows says:" in shown) is noted
        assert ("marked *" in outcome.paper.plots(outcome)[0].caption) is not noted


def test_results_without_other_choices_say_so(tmp_path: Path) -> None:
    # What the READMEs say: "without other choices, so no claim gets the verdict depends".
    for choices, noted in (((), True), (PAPER.choices[:1], False)):
        outcome = reproduce(PAPER, choices=choices, seeds=3, execute=pretend)
        text = io.StringIO()
        print_outcome(outcome, text)
        assert (
            "so no claim gets the verdict depends" in " ".join(text.getvalue().split())
        ) is noted
        write([outcome], tmp_path / str(noted))
        html = (tmp_path / str(noted) / "report.html").read_text(encoding="utf-8")
        assert ("so no claim gets the verdict depends" in html) is noted


def test_ids_are_checked() -> None:
    assert {"H", "harhalakis-2011", "H1", "H10"} <= set(ids())
    with pytest.raises(UnknownClaim, match="no reproduction has the id 'H12'; hint: one of H,"):
        select(["H1", "H12"])
    assert len(select([])[0][1]) == len(PAPER.claims)

"""The committed results belong to the present claims and rule, and are those in the READMEs."""

import json
import re
from typing import Any

import pytest

from narrows.reproduce import Paper, papers
from narrows.reproduce.claims import Verdict
from narrows.reproduce.outcome import DIFFERS
from narrows.reproduce.readme import filled
from narrows.reproduce.statistics import Interval

HINT = "run make results"


def result(paper: Paper) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((paper.folder / "result.json").read_text(encoding="utf-8"))
    return found


def sentences(text: str) -> int:
    """How many sentences a text has, each with a full stop, a question mark or a colon at its end.

    A colon before a small letter is inside a sentence, as are dots of numbers, "vs." and "et al.".
    """
    return len(re.findall(r"""(?<!\bvs)(?<!\bal)[.?](?=["')]*(\s|$))|:(?=\s+[A-Z]|\s*$)""", text))


every_paper = pytest.mark.parametrize("paper", papers(), ids=lambda paper: paper.key)
with_reasons = pytest.mark.parametrize(
    "paper", [paper for paper in papers() if paper.key in "HKDSR"], ids=lambda paper: paper.key
)
"""Papers whose claims have reasons of their own. The READMEs of BBR and L4S explain groups."""


@every_paper
def test_the_readme_shows_the_committed_result(paper: Paper) -> None:
    text = (paper.folder / "README.md").read_text(encoding="utf-8")
    found = result(paper)
    assert found["papers"][0]["summary"] == list(paper.summary), HINT
    assert "<!-- from result.json: summary -->" in text
    assert re.search("<!-- from result.json: (verdicts|table .*) -->", text)
    assert filled(text, found) == text, HINT


def test_the_readme_of_bbr_shows_the_result_on_a_kernel() -> None:
    (paper,) = (paper for paper in papers() if paper.key == "BBR")
    text = (paper.folder / "README.md").read_text(encoding="utf-8")
    found = json.loads((paper.folder / "kernel.json").read_text(encoding="utf-8"))
    assert filled(text, found, "kernel.json") == text, "run make results RESULTS=BBR-kernel"
    assert {entry["backend"] for entry in found["claims"]} == {"kernel-virtual"}


def test_the_readme_shows_the_result_on_a_kernel() -> None:
    (paper,) = (paper for paper in papers() if paper.key == "D")
    text = (paper.folder / "README.md").read_text(encoding="utf-8")
    found = json.loads((paper.folder / "kernel.json").read_text(encoding="utf-8"))
    assert "<!-- from kernel.json: verdicts -->" in text
    assert filled(text, found, "kernel.json") == text, "run make results RESULTS=D-kernel"
    assert found["papers"][0]["summary"] == list(paper.summary), "run make results RESULTS=D-kernel"
    claims = {claim.key for claim in paper.claims}
    assert {(entry["id"], entry["metric"]) for entry in found["claims"]} == claims
    assert {entry["backend"] for entry in found["claims"]} == {"kernel-virtual"}


@every_paper
def test_the_result_is_of_todays_claims(paper: Paper) -> None:
    claims = {claim.key: claim for claim in paper.claims}
    found = {(entry["id"], entry["metric"]): entry for entry in result(paper)["claims"]}
    assert set(found) <= set(claims), HINT
    ids = {id for id, _ in found}
    # If an id is there, all of its claims are.
    assert set(found) == {key for key in claims if key[0] in ids}, HINT
    for key, entry in found.items():
        claim = claims[key]
        assert (entry["published"], entry["tolerance"]) == (claim.published, claim.tolerance), key
        assert entry["worded"] == (claim.worded.sentence if claim.worded else None), key
        assert entry["reason"] == (claim.reason if entry["verdict"] in DIFFERS else ""), key
        assert (entry["note"], entry["bound"]) == (
            claim.note,
            claim.worded.bound if claim.worded else None,
        ), key


@every_paper
def test_the_verdicts_follow_from_the_intervals(paper: Paper) -> None:
    claims = {claim.key: claim for claim in paper.claims}
    for entry in result(paper)["claims"]:
        claim = claims[entry["id"], entry["metric"]]
        low, high = entry["ci_low"], entry["ci_high"]
        interval = None
        if low is not None and high is not None:
            interval = Interval(entry["measured"], low, high, entry["seeds"])
        verdict = claim.test(interval)
        if entry["flipped_by"] and not claim.fitted:
            verdict = Verdict.DEPENDS
        if claim.fitted and verdict in (Verdict.HOLDS, Verdict.UNDECIDED):
            verdict = Verdict.FITTED
        assert entry["verdict"] == verdict, claim.key
        if verdict is Verdict.UNDECIDED and entry["seeds_needed"] is not None:
            assert entry["seeds_needed"] > entry["seeds"], claim.key


@with_reasons
def test_what_is_contradicted_has_its_reason_beside_it(paper: Paper) -> None:
    silent = [
        (entry["id"], entry["metric"])
        for entry in result(paper)["claims"]
        if entry["verdict"] == Verdict.FAILS and not entry["reason"]
    ]
    assert silent == []


@with_reasons
def test_the_head_has_three_to_six_sentences(paper: Paper) -> None:
    found = result(paper)["papers"][0]
    for part in paper.summary:
        assert part.endswith((".", ":"))
    assert 3 <= sentences(" ".join([*found.get("headline", []), *paper.summary])) <= 6


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("One. Two? Three:", 3),
        ("One: Two.", 2),
        ("One: not two.", 1),
        ("TCP takes 2.5 times as long vs. UDP (Hayes et al. 2010).", 1),
        ('The paper says "none." We find 0.3 %.', 2),
        ("One. Two. Three. Four. Five. Six. Seven.", 7),
    ],
)
def test_sentences_are_counted_by_their_ends(text: str, count: int) -> None:
    assert sentences(text) == count


def test_a_part_shows_why_and_how_many_seeds_it_takes() -> None:
    claim = {
        "id": "X1",
        "metric": "success",
        "unit": "%",
        "published": 90.0,
        "tolerance": 2.0,
        "worded": None,
        "measured": 90.5,
        "ci_low": 88.5,
        "ci_high": 92.5,
        "verdict": "undecided",
        "seeds_needed": 6,
        "flipped_by": [],
        "note": "Read so by us.",
        "reason": "It rains.",
    }
    paper = {"summary": ["One.", "Two."], "seeds": 4, "sensitivity_rows": []}
    found = {"papers": [paper], "claims": [claim], "tables": []}
    text = filled("<!-- from result.json: verdicts -->\nold\n<!-- end -->\n", found)
    assert "| X1 | success, % (Read so by us) | 90.00 ± 2 | 90.50 ± 2.00 |" in text
    assert "undecided (about 6 seeds would decide). It rains. |" in text
    assert "old" not in text
    summary = filled("<!-- from result.json: summary -->\n<!-- end -->", found)
    assert summary == "<!-- from result.json: summary -->\nOne. Two.\n<!-- end -->"
    with pytest.raises(KeyError, match="no table 'Figure 9'"):
        filled("<!-- from result.json: table Figure 9 -->\n<!-- end -->", found)

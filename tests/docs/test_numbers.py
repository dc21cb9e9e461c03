"""The numbers of README.md and docs/accuracy.md are those of the recorded results."""

from __future__ import annotations

import json
from collections import Counter
from statistics import fmean
from typing import Any

from narrows.agreement.conduct import LUCK, SHARE, WITHIN
from tests.docs.test_documents import CHECKOUT
from tests.docs.test_paper import FOLDERS, REPRODUCED, claims, measured

FRONT, ACCURACY = (
    " ".join((CHECKOUT / name).read_text(encoding="utf-8").split())
    for name in ("README.md", "docs/accuracy.md")
)
WORDS = (
    *("none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    *("eleven", "twelve", "13", "14"),
)


def recorded(name: str) -> Any:
    return json.loads((CHECKOUT / name).read_text(encoding="utf-8"))


def every(tables: list[dict[str, Any]], title: str) -> list[list[dict[str, str]]]:
    """The rows of each table with a title."""
    return [
        [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]
        for table in tables
        if table["title"] == title
    ]


def within(source: str) -> tuple[int, int]:
    """How many of the numbers of DualPI2's authors lie within their tolerances, and of how many."""
    result = json.loads((REPRODUCED / FOLDERS["L4S"] / "result.json").read_text(encoding="utf-8"))
    counts = [
        [int(word) for word in row["all"].split(" of ")]
        for row in every(result["tables"], "Means within the tolerance")[0]
        if (row["source"] == "Heist and Morton") is (source == "Heist and Morton")
    ]
    near, total = (sum(column) for column in zip(*counts, strict=True))
    return near, total


def test_the_front_page_has_the_first_attempts_of_the_first_paper() -> None:
    all_, none = (
        measured("H", "H6", f"RED {which} ECN, 200 ms, 20±5 ms: replied on attempt 1")
        for which in ("only", "no")
    )
    said = "{:.0f} % of first attempts succeed if all other connections use ECN, and {:.0f} %"
    assert said.format(all_, none) in FRONT


def test_both_have_the_numbers_of_dualpi2_s_authors() -> None:
    near, total = within("DualPI2's authors")
    assert f"Of {total} numbers of DualPI2's authors, {near} lie within" in FRONT
    assert f"{near} of {total} rates, delays, marks, drops and utilisations lie" in ACCURACY


def test_accuracy_has_the_counts_of_the_papers() -> None:
    cake = Counter(claim["verdict"] for claim in claims("CAKE"))
    assert f"{cake['holds']} of {cake.total()} metrics lie within tolerances" in ACCURACY
    bed = recorded("python/narrows/reproduce/harhalakis_2011/result.json")["agreement"]
    near, cells = sum(row["agrees"] for row in bed), len({row["cell"] for row in bed})
    assert f"{near} of {len(bed)} metrics over {cells} experiments lie within" in ACCURACY


LINUX_6 = "docs/kernel-agreement.json"
ORDER = {
    "first-attempt success": "{:.1f} points",
    "mean backlog": "{:.1f} %",
    "drops": "{:.1f} %",
    "marks": "{:.1f} %",
    "utilisation": "{:.1f} %",
    "Jain's index": "{:.3f}",
    "response, 95 % within": "{:.1f} %",
}
NAMES = ("first-attempt success", "backlog", "drops", "marks", "utilisation", "Jain's index")


def test_accuracy_has_the_agreement_with_linux_6() -> None:
    linux = recorded(LINUX_6)
    means = {row["metric"]: row["mean_absolute_difference"] for row in linux["metrics"]}
    parts = [form.format(means[metric]) for metric, form in ORDER.items()]
    names = [*NAMES, "response time"]
    assert ", ".join(f"{name} {part}" for name, part in zip(names, parts, strict=True)) in ACCURACY
    agreeing = sum(row["agrees"] for row in linux["metrics"])
    assert f"{WORDS[agreeing].capitalize()} of these {WORDS[len(means)]} are within" in ACCURACY
    assert f"narrows agreement --draws {linux['draws']} --seed {linux['seed']}" in ACCURACY


def test_accuracy_has_the_agreement_without_quic() -> None:
    draws = recorded(LINUX_6)["comparisons"]
    plain = [row for row in draws if " over quic" not in row["what"]]
    own_bounds = {row["metric"]: row["own_bound"] for row in recorded(LINUX_6)["metrics"]}
    parts, agreeing = [], 0
    for metric, form in ORDER.items():
        judged = [
            row
            for row in plain
            if metric in row["differences"]
            and not (metric.startswith("response") and row["at_the_jump"])
        ]
        values = [abs(row["differences"][metric]) for row in judged]
        chance = [row["by_chance"][metric] for row in judged if metric in row["by_chance"]]
        bound = max(own_bounds[metric], LUCK * fmean(chance))
        near = sum(value <= WITHIN * bound for value in values)
        agreeing += fmean(values) <= bound and near >= SHARE * len(values)
        parts.append(form.format(fmean(values)))
    said = "Without the {} draws over QUIC: {} and {}, and {} of {}".format(
        *(len(draws) - len(plain), ", ".join(parts[:-1]), parts[-1]),
        *(WORDS[agreeing], WORDS[len(parts)]),
    )
    assert said in ACCURACY


def test_accuracy_has_the_agreement_with_linux_7() -> None:
    linux = recorded("docs/kernel-agreement-7.json")
    both = [*linux["metrics"], *linux["metrics_at_2_bounds"]]
    agreeing = sum(row["agrees"] for row in both)
    assert f"does not agree: {WORDS[agreeing]} of {len(both)} rows are within" in ACCURACY
    assert f"on {linux['draws']} scenarios" in ACCURACY
    assert linux["command"] in ACCURACY


def test_accuracy_has_the_agreement_of_cake_and_fq_pie() -> None:
    home = recorded("docs/kernel-agreement-home.json")
    assert f"on {home['draws']} scenarios with two hosts (seed {home['seed']})" in ACCURACY
    assert all(row["agrees"] for row in home["metrics"])
    assert f"agrees in all {WORDS[len(home['metrics'])]} rows" in ACCURACY
    means = {row["metric"]: row["mean_absolute_difference"] for row in home["metrics"]}
    parts = [form.format(means[metric]) for metric, form in ORDER.items()]
    names = [*NAMES, "response time"]
    assert ", ".join(f"{name} {part}" for name, part in zip(names, parts, strict=True)) in ACCURACY
    assert f"share of each host {means['share of the first group']:.1f} points" in ACCURACY
    assert home["command"] in ACCURACY


def test_findings_have_the_numbers_of_l4s() -> None:
    text = " ".join((CHECKOUT / "docs/findings.md").read_text(encoding="utf-8").split())
    assert "{} of {} numbers of DualPI2's authors".format(*within("DualPI2's authors")) in text
    assert "{} of {} of Heist and Morton's".format(*within("Heist and Morton")) in text

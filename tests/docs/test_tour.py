"""The numbers in the answers of docs/tour.md are those that its commands print."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from narrows.lab.tour import questions

ROOT = Path(__file__).parents[2]
TOUR = (ROOT / "docs" / "tour.md").read_text(encoding="utf-8")
SECTIONS = dict(
    section.split("\n", 1) for section in re.split(r"^## ", TOUR, flags=re.MULTILINE)[1:]
)
DERIVED = {
    # The round trip of dns-behind-fifo.toml, in ms, and what 10 Mbit/s carry in it, in kB.
    "How large must my buffer be?": (2 * (50 + 5), 10_000 * 110 / 8_000),
}
"""Numbers that follow from a scenario's."""

NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)*(?![\w]|\.\d)")


def answers() -> dict[str, str]:
    return {each["title"]: each["answer"] for each in questions(TOUR)}


def test_each_section_has_an_answer_and_settings_of_the_page() -> None:
    assert len(SECTIONS) == 10
    assert list(answers()) == list(SECTIONS)
    assert len({each["link"] for each in questions(TOUR)}) == 10


@pytest.mark.parametrize("title", SECTIONS)
def test_numbers_of_an_answer_are_printed_or_set(title: str) -> None:
    """A number may have fewer digits than what a command prints."""
    code = "\n".join(re.findall(r"^    .*", SECTIONS[title], flags=re.MULTILINE))
    scenarios = set(re.findall(r"scenarios/[a-z-]+\.toml", code))
    assert scenarios
    words = code + "".join((ROOT / each).read_text(encoding="utf-8") for each in scenarios)
    known = NUMBER.findall(words)
    values = [float(each) for each in known if each.count(".") < 2]
    values += DERIVED.get(title, ())
    said = NUMBER.findall(re.sub(r"RFC \d+", "", answers()[title]))
    assert len(said) > 2
    for number in said:
        digits = len(number.partition(".")[2])
        assert number in known or any(round(value, digits) == float(number) for value in values), (
            number
        )

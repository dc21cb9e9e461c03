"""The generated pages are up to date, and the examples are valid."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, get_type_hints

import jsonschema
import pytest
from pydantic import TypeAdapter

from narrows import Scenario, ScenarioError, _core
from narrows.scenario import PROFILES, SCHEDULES, Tcp, json_schema
from narrows.scenario.dns import Dns
from narrows.scenario.dns_transports import OverUdp

from .test_bad_input import CASES, GOOD, with_change

ROOT = Path(__file__).parents[2]
TOOLS = str(ROOT / "tools")
sys.path.insert(0, TOOLS)
try:
    import scenario_reference
finally:
    sys.path.remove(TOOLS)

PAGE = ROOT / "docs" / "reference" / "scenario.md"
EXAMPLES = sorted(ROOT.glob("scenarios/*.toml"))
VALIDATOR = jsonschema.Draft202012Validator(json_schema())


def test_the_pages_are_up_to_date() -> None:
    script = ROOT / "tools" / "scenario_reference.py"
    done = subprocess.run(
        [sys.executable, script, "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_reference_has_every_key_of_the_schema() -> None:
    schema = json_schema()
    tables = [schema, *schema["$defs"].values()]
    # `count` is in the introduction: a table with it stands for many.
    keys = {key for table in tables for key in table.get("properties", ())} - {"count"}
    page = PAGE.read_text(encoding="utf-8")
    assert {key for key in keys if f"| `{key}` |" not in page} == set()


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 4


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_are_good(path: Path) -> None:
    scenario = Scenario.load(path)
    assert scenario.name == path.stem
    assert path.read_text().startswith("# ")
    VALIDATOR.validate(tomllib.loads(path.read_text()))
    VALIDATOR.validate(scenario.resolved())


def test_the_schema_is_a_schema_and_names_every_key() -> None:
    jsonschema.Draft202012Validator.check_schema(json_schema())
    VALIDATOR.validate(GOOD)


@pytest.mark.parametrize(("path", "value", "message"), CASES)
def test_the_schema_refuses_nothing_that_is_good(
    path: str, value: Any, message: str | None
) -> None:
    values = with_change(path, value)
    try:
        Scenario.from_dict(values)
    except ScenarioError:
        # The schema may accept what it cannot express (sums, other tables).
        unknown = message is not None and "is not a known key" in message
        assert not (unknown and VALIDATOR.is_valid(values))
    else:
        VALIDATOR.validate(values)


def test_every_schedule_can_be_named() -> None:
    for name in SCHEDULES:
        over = OverUdp(retry=name)
        dns = Dns(name="d", client="a", server="b", queries=1, transport=over)
        assert len(dns.timeouts) == len(SCHEDULES[name].timeouts_s)


def test_every_profile_can_be_named() -> None:
    for name in PROFILES:
        assert Tcp(profile=name).profile == name  # type: ignore[arg-type]


def test_every_key_has_a_meaning() -> None:
    def check(schema: Any) -> None:
        for table in schema["$defs"].values():
            for key, entry in table["properties"].items():
                assert entry.get("description"), (table["title"], key)

    check(json.loads(json.dumps(json_schema())))


def test_the_language_reads_every_default_of_the_page_as_itself() -> None:
    tables = {section.heading: section.table for section in scenario_reference.sections()}
    found = 0
    for section in PAGE.read_text(encoding="utf-8").split("\n## ")[1:]:
        heading, _, text = section.partition("\n")
        for key, default in re.findall(r"^\| `(\w+)` \| .*? \| `([^`|]+)` \| ", text, re.M):
            found += 1
            field, said = tables[heading].model_fields[key], tomllib.loads(f"it = {default}")["it"]
            if field.default is None:
                # TCP's profile gives it.
                configs = [tcp.config(_core.tcp_profile) for tcp in (Tcp(**{key: said}), Tcp())]
                assert configs[0] == configs[1], key
            else:
                # The class variable's type is there for type checkers alone.
                names = {"Record": Any}
                kind = get_type_hints(tables[heading], None, names, include_extras=True)[key]
                assert TypeAdapter(kind).validate_python(said) == field.default, (heading, key)
    assert found > 150


def test_every_default_of_the_schema_is_what_a_file_would_say() -> None:
    """So an editor may fill defaults in: with a unit if there is one, and never null."""
    schema, found = json_schema(), 0
    places: list[Any] = [schema]
    while places:
        place = places.pop()
        if isinstance(place, dict):
            if "default" in place:
                found += 1
                VALIDATOR.evolve(schema=place).validate(place["default"])
            assert place.get("type") != "null"
            places += place.values()
        elif isinstance(place, list):
            places += place
    assert found > 100
    assert schema["$defs"]["FqCodel"]["properties"]["interval"]["default"] == "100 ms"

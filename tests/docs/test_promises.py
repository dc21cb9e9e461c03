"""docs/promises.md lists what is public, and the numbers that the code has."""

from __future__ import annotations

import ast
import re
from importlib import import_module
from pathlib import Path

import pytest

from narrows.machines import record
from narrows.results import FORMAT
from narrows.results.sweep import SWEEP_FORMAT
from tests.docs.test_documents import DOCUMENTS, blocks

CHECKOUT = Path(__file__).parents[2]
PAGE = (CHECKOUT / "docs/promises.md").read_text(encoding="utf-8")
_, _, PYTHON = PAGE.partition("**Python**")
PYTHON, _, _ = PYTHON.partition("**Rust**")
MODULES = re.findall(r"`(narrows[\w.]*)`", "\n".join(re.findall(r"^\|[^|]*\|", PYTHON, flags=re.M)))
BESIDES = {
    *(f"narrows.results.goodput.{name}" for name in ("goodput_of", "goodput_series")),
    "narrows.results.gateway_bench.GatewayBench",
}


def public(name: str) -> set[str]:
    """The public names of a module, with the module's."""
    return {f"{name}.{each}" for each in import_module(name).__all__}


def test_public_modules_have_the_names_that_they_list() -> None:
    assert len(MODULES) > 15
    assert len(set(MODULES)) == len(MODULES)
    for module in MODULES:
        for name in public(module):
            where, _, what = name.rpartition(".")
            assert hasattr(import_module(where), what), name
    for name in BESIDES:
        where, _, what = name.rpartition(".")
        assert hasattr(import_module(where), what)
        assert f"`{what}`" in PYTHON
        assert f"`{where}`" in PYTHON


def imported(code: str) -> set[str]:
    """What Python code imports from narrows: modules, and names with their modules."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{each.name}" for each in node.names}
    return {name for name in found if name.split(".")[0] == "narrows"}


def test_documents_show_only_what_is_public() -> None:
    allowed = {*MODULES, *BESIDES}.union(*map(public, MODULES))
    shown = {
        name: document
        for document in DOCUMENTS
        for block in blocks((CHECKOUT / document).read_text(encoding="utf-8"))
        if block.kind.startswith("python")
        for name in imported(block.text)
    }
    assert len(shown) > 15
    assert {name: at for name, at in shown.items() if name not in allowed} == {}


@pytest.mark.parametrize(
    ("row", "number"),
    [
        ("run.json", FORMAT),
        ("sweep.json", SWEEP_FORMAT),
        ("records", record.FORMAT),
    ],
)
def test_formats_have_the_numbers_of_the_code(row: str, number: int | str) -> None:
    (line,) = re.findall(rf"^\| {re.escape(row)} .*\|$", PAGE, flags=re.M)
    assert [part.strip() for part in line.split("|")][3] == str(number)


def test_the_interface_in_c_has_the_number_of_the_header() -> None:
    header = (CHECKOUT / "crates/plugin/include/narrows.h").read_text(encoding="utf-8")
    (number,) = re.findall(r"^#define NARROWS_ABI (\d+)$", header, flags=re.M)
    assert f"`NARROWS_ABI` ({number})" in PAGE


def test_crates_for_others_are_those_that_are_packaged() -> None:
    script = (CHECKOUT / "tools/package_crates.sh").read_text(encoding="utf-8")
    (packaged,) = re.findall(r'^crates="(.*)"$', script, flags=re.M)
    _, _, rust = PAGE.partition("**Rust**")
    assert re.findall(r"`(narrows-\w+)`", rust.partition("**C**")[0]) == packaged.split()

"""The stub of the extension says what the extension has, name by name."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

from narrows import _core

STUB = Path(__file__).parents[2] / "python" / "narrows" / "_core.pyi"


def declared() -> dict[str, ast.stmt]:
    names: dict[str, ast.stmt] = {}
    for node in ast.parse(STUB.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names[node.name] = node
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names[node.target.id] = node
    return names


def public(thing: object) -> set[str]:
    return {name for name in vars(thing) if not name.startswith("_")}


def parameters(node: ast.FunctionDef) -> list[str]:
    names = [argument.arg for argument in [*node.args.args, *node.args.kwonlyargs]]
    return [name for name in names if name not in ("self", "cls")]


def signature(function: object) -> list[str]:
    names = inspect.signature(function).parameters  # type: ignore[arg-type]
    return [name for name in names if name != "self"]


def test_the_same_names() -> None:
    assert set(declared()) == public(_core)


def test_the_same_parameters() -> None:
    for name, node in declared().items():
        if isinstance(node, ast.FunctionDef):
            assert parameters(node) == signature(getattr(_core, name)), name


def test_the_same_members_of_classes() -> None:
    for name, node in declared().items():
        if not isinstance(node, ast.ClassDef):
            continue
        real = getattr(_core, name)
        members = {part.name: part for part in node.body if isinstance(part, ast.FunctionDef)}
        assert {member for member in members if not member.startswith("_")} == public(real)
        if "__new__" in members:
            assert parameters(members["__new__"]) == signature(real)
        for member, part in members.items():
            found = inspect.getattr_static(real, member)
            is_property = bool(part.decorator_list)
            assert inspect.isgetsetdescriptor(found) == is_property, member
            if not is_property and not member.startswith("_"):
                assert parameters(part) == signature(found), member

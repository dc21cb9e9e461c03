"""In each crate, at most six Rust files need each other in a circle.

A file needs another if it names something of it, in a `use` or in a path that begins with `crate`,
`super` or `self`. A name that a module only passes on (`pub use`) belongs to the file that defines
it. Tests are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# A file and those that its type is split into, such as `flow.rs` and the files of `flow/`.
MOST = 6
# Not yet qdisc, whose disciplines and their list need each other.
CHECKED = (
    "units",
    "link",
    "link-c",
    "transport",
    "apps",
    "sim",
    "wire",
    "capture",
    "client",
    "live",
    "intake",
    "engine",
    "example",
)

Module = tuple[str, ...]
USE = re.compile(r"\b(pub(?:\([^)]*\))?\s+)?use\s+([^;]+);")
PATH = re.compile(r"\b(?:crate|super|self)(?:::\w+)+")


def modules(root: Path) -> dict[Module, str]:
    """The text of each module, without comments and tests."""
    found = {}
    for path in sorted(root.rglob("*.rs")):
        parts = path.relative_to(root).with_suffix("").parts
        if "tests" in parts:
            continue
        if parts[-1] in ("mod", "lib"):
            parts = parts[:-1]
        text = re.sub(r"//[^\n]*", "", path.read_text())
        found[parts] = text.split("#[cfg(test)]\nmod tests {")[0]
    return found


def expand(tree: str) -> Iterator[list[str]]:
    """The paths of a `use`, each as its segments."""
    head, brace, rest = tree.partition("{")
    if not brace:
        path = re.sub(r"\s+as\s+(\w+)", r" as \1", tree)
        yield [segment.strip() for segment in path.split("::")]
        return
    depth, start = 1, 0
    for at, letter in enumerate(rest):
        depth += (letter == "{") - (letter == "}")
        if (letter == "," and depth == 1) or depth == 0:
            if rest[start:at].strip():
                yield from expand(head + rest[start:at])
            start = at + 1
        if depth == 0:
            return


def needs(root: Path) -> dict[Module, set[Module]]:
    """The modules that each module needs."""
    texts = modules(root)
    passed_on: dict[tuple[Module, str], Module] = {}

    def home(module: Module, path: list[str]) -> Module | None:
        """The module in which a path ends; `None`: it leads out of the crate."""
        segments = [segment.split(" as ")[0] for segment in path]
        at: Module = module
        if segments[0] == "crate":
            at, segments = (), segments[1:]
        elif segments[0] not in ("super", "self") and (*module, segments[0]) not in texts:
            return None
        while segments and segments[0] in ("super", "self"):
            at = at[:-1] if segments[0] == "super" else at
            segments = segments[1:]
        for segment in segments:
            if (*at, segment) in texts:
                at = (*at, segment)
            elif (at, segment) in passed_on:
                at = passed_on[at, segment]
            else:
                break
        return at

    # Names are passed on through several files, in any order.
    known = None
    while known != passed_on:
        known = dict(passed_on)
        for module, text in texts.items():
            for public, tree in USE.findall(text):
                for path in expand(tree) if public else ():
                    found = home(module, path)
                    if found is not None and found != module:
                        passed_on[module, path[-1].split(" as ")[-1]] = found
    graph: dict[Module, set[Module]] = {}
    for module, text in texts.items():
        paths = [path for _, tree in USE.findall(text) for path in expand(tree)]
        paths += [path.split("::") for path in PATH.findall(USE.sub("", text))]
        graph[module] = {home(module, path) or module for path in paths} - {module}
    return graph


def circles(graph: dict[Module, set[Module]]) -> list[set[Module]]:
    """The sets of modules that need each other, the largest first."""

    def reached(start: Module) -> set[Module]:
        seen: set[Module] = set()
        todo = [start]
        while todo:
            for other in graph[todo.pop()] - seen:
                seen.add(other)
                todo.append(other)
        return seen

    reach = {module: reached(module) for module in graph}
    found: list[set[Module]] = []
    for module, others in reach.items():
        if module in others and not any(module in circle for circle in found):
            found.append({other for other in others if module in reach[other]})
    return sorted(found, key=len, reverse=True)


@pytest.mark.parametrize("folder", [*(f"crates/{name}" for name in CHECKED), "gateway"])
def test_no_circle_is_large(folder: str) -> None:
    found = circles(needs(ROOT / folder / "src"))
    largest = sorted("::".join(module) or "lib" for module in found[0]) if found else []
    assert len(largest) <= MOST, largest


@pytest.mark.parametrize(
    "of_b",
    [
        "use crate::a::X;",
        "use crate::{a::X, c};",
        "use super::a::{X, Y as Z};",
        "fn f() -> crate::a::X {}",
        "use crate::X;",
        "use crate::d::Y;",
    ],
)
def test_every_form_of_use_counts(of_b: str, tmp_path: Path) -> None:
    (tmp_path / "lib.rs").write_text("mod a;\nmod b;\nmod c;\npub use a::X;\n")
    (tmp_path / "a.rs").write_text("use crate::b::B;\n")
    (tmp_path / "c.rs").write_text("")
    (tmp_path / "d.rs").write_text("pub use crate::e::Y;\n")
    (tmp_path / "e.rs").write_text("pub use crate::a::X as Y;\n")
    (tmp_path / "b.rs").write_text(
        "// use crate::a::X;\n#[cfg(test)]\nmod tests { use crate::a::X; }\n"
    )
    assert not circles(needs(tmp_path))
    (tmp_path / "b.rs").write_text(f"{of_b}\n")
    assert circles(needs(tmp_path))[0] == {("a",), ("b",)}

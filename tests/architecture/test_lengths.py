"""No file above 600 lines, and no function above 80, except where a comment says why.

The comment begins with `Long:` and stands above the function or on its first lines. A Python
function's documentation does not count.
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

MOST_LINES, MOST_OF_A_FUNCTION = 600, 80

BEGINS = {
    ".rs": re.compile(r"\s*(pub(\(\w+\))? )?((const|async|unsafe|extern \"C\") )*fn (?P<name>\w+)"),
    ".c": re.compile(r"[a-z_].*?(?P<name>\w+)\("),
    ".h": re.compile(r"[a-z_].*?(?P<name>\w+)\("),
}

Function = tuple[str, int, int, int]
"""Its name, its first and last line from 0, and the lines that do not count."""


def sources() -> list[Path]:
    """All files of code, tests included."""
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    paths = [ROOT / name for name in listed]
    kinds = {".py", ".sh", ".js", ".mjs", *BEGINS}
    return [path for path in paths if path.suffix in kinds and path.is_file()]


def functions(path: Path, lines: list[str]) -> Iterator[Function]:
    """The functions of a file."""
    if path.suffix == ".py":
        for node in ast.walk(ast.parse("\n".join(lines))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                documented = ast.get_docstring(node) is not None
                first = node.body[0]
                uncounted = (first.end_lineno or 0) - first.lineno + 1 if documented else 0
                yield node.name, node.lineno - 1, (node.end_lineno or 0) - 1, uncounted
    elif path.suffix in BEGINS:
        for number, line in enumerate(lines):
            found = BEGINS[path.suffix].match(line)
            if not found or line.rstrip().endswith((";", "}")):
                continue
            end = line[: len(line) - len(line.lstrip())] + "}"
            last = next((at for at in range(number, len(lines)) if lines[at] == end), number)
            body = next((at for at in range(number, last) if lines[at].endswith("{")), None)
            if body is not None and not any(";" in lines[at] for at in range(number, body)):
                yield found["name"], number, last, 0


def has_a_reason(lines: list[str], first: int) -> bool:
    """Whether a comment at a function says why it is long."""
    return any("Long:" in line for line in lines[max(0, first - 12) : first + 4])


def too_long(path: Path, text: str) -> list[str]:
    """The functions of a file that are too long, and the file itself."""
    lines = text.splitlines()
    found = [
        f"{path}: {name}() has {last - first + 1 - uncounted} lines"
        for name, first, last, uncounted in functions(path, lines)
        if last - first + 1 - uncounted > MOST_OF_A_FUNCTION and not has_a_reason(lines, first)
    ]
    if len(lines) > MOST_LINES:
        found.append(f"{path}: has {len(lines)} lines")
    return found


def test_files_and_functions_are_short() -> None:
    found = [
        words
        for path in sources()
        for words in too_long(path.relative_to(ROOT), path.read_text(encoding="utf-8"))
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("suffix", "head", "end"),
    [
        (".py", "def f():", "    return"),
        (".rs", "    pub(crate) const fn f(", "    }"),
        (".h", "static int f(int a) {", "}"),
    ],
)
def test_a_long_function_is_found(suffix: str, head: str, end: str) -> None:
    opening = ["        a: u32,", "    ) {"] if suffix == ".rs" else []
    for length, expected in [(80, 0), (81, 1)]:
        inner = ["        1" if suffix == ".py" else "        a"] * (length - 2 - len(opening))
        lines = [head, *opening, *inner, end]
        if suffix == ".py":
            lines = [head, *["    1"] * (length - 2), end]
        assert len(too_long(Path("a" + suffix), "\n".join(lines))) == expected
        reasoned = (
            ["// Long: a table.", *lines] if suffix != ".py" else ["# Long: a table.", *lines]
        )
        assert not too_long(Path("a" + suffix), "\n".join(reasoned))

"""No Python file imports, directly or indirectly, a file that imports it.

Imports for types and imports inside functions count as well: what two files need from each other
belongs in a third.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

PYTHON = Path(__file__).parents[2] / "python"


def module_name(path: Path, root: Path) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(path: Path, name: str, known: set[str]) -> Iterator[str]:
    """The modules among `known` that a file imports by name."""
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                whole = f"{base}.{alias.name}"
                # The extension is not a source file, and importing it needs nothing of the package.
                if whole in known:
                    yield whole
                elif base in known and alias.name != "_core":
                    yield base


def circle(root: Path) -> list[str] | None:
    """Files that import each other in a circle; None if there are none."""
    files = {module_name(path, root): path for path in root.rglob("*.py")}
    graph = {
        name: {other for other in imported(path, name, set(files)) if other != name}
        for name, path in files.items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        found: list[str] = error.args[1]
        return found
    return None


def test_no_file_imports_itself_over_others() -> None:
    assert circle(PYTHON) is None


@pytest.mark.parametrize(
    "of_b",
    [
        "from narrows.a import x",
        "from narrows import a",
        "from . import a",
        "from .a import x",
        "import narrows.a",
        "def f():\n    import narrows.a",
        "if TYPE_CHECKING:\n    from narrows.a import x",
    ],
)
def test_every_form_of_import_counts(of_b: str, tmp_path: Path) -> None:
    package = tmp_path / "narrows"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "a.py").write_text("from narrows.b import y\n")
    (package / "b.py").write_text("y = 1\n")
    assert circle(tmp_path) is None
    (package / "b.py").write_text(f"{of_b}\n")
    assert sorted(set(circle(tmp_path) or ())) == ["narrows.a", "narrows.b"]

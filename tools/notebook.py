"""Makes docs/own-aqm.ipynb, with outputs, and its plot from the Python in docs/own-aqm.md."""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from narrows.report import style

ROOT = Path(__file__).parent.parent
CHAPTER = ROOT / "docs" / "own-aqm.md"
NOTEBOOK = ROOT / "docs" / "own-aqm.ipynb"
IMAGE = ROOT / "docs" / "images" / "own-aqm.png"

_CODE = re.compile(r"^```python\n(.*?)^```\n", re.DOTALL | re.MULTILINE)
_IMAGE = re.compile(r"^!\[.*\n\n?", re.MULTILINE)
"""The chapter's picture, which is an output in the notebook."""


def notebook(text: str) -> dict[str, Any]:
    """The notebook of a chapter (nbformat 4.5), with the outputs of its cells."""
    names: dict[str, Any] = {"__name__": "notebook"}
    cells = []
    with _in_a_checkout():
        for number, (kind, source) in enumerate(_cells(text)):
            cell = {"cell_type": kind, "id": f"cell-{number}", "metadata": {}}
            if kind == "code":
                cell |= {"execution_count": None, "outputs": _outputs(source, names)}
            cells.append({**cell, "source": source.splitlines(keepends=True)})
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {
        "cells": cells,
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def image(document: dict[str, Any]) -> bytes:
    """The first image of a notebook."""
    found = (
        output["data"]["image/png"]
        for cell in document["cells"]
        for output in cell.get("outputs", ())
        if "image/png" in output.get("data", {})
    )
    return base64.b64decode(next(found))


def _cells(text: str) -> Iterator[tuple[str, str]]:
    parts = _CODE.split(text)
    for number, part in enumerate(parts):
        kind = "code" if number % 2 else "markdown"
        source = (part if number % 2 else _IMAGE.sub("", part)).strip("\n")
        if source:
            yield kind, source


def _outputs(source: str, names: dict[str, Any]) -> list[dict[str, Any]]:
    """Runs a cell as a notebook does: prints, and shows the value of its last line."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, CHAPTER.name, "exec"), names)
        value = None
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), CHAPTER.name, "eval"), names)
    outputs: list[dict[str, Any]] = []
    if text := printed.getvalue():
        lines = text.splitlines(keepends=True)
        outputs.append({"name": "stdout", "output_type": "stream", "text": lines})
    if isinstance(value, Figure):
        data = {"image/png": base64.b64encode(style.png(value)).decode()}
        shown = {**data, "text/plain": ["<Figure>"]}
        outputs.append({"data": shown, "metadata": {}, "output_type": "display_data"})
    return outputs


@contextlib.contextmanager
def _in_a_checkout() -> Iterator[None]:
    """A folder with the scenarios, in which cells may write."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "scenarios", Path(folder) / "scenarios")
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


if __name__ == "__main__":
    made = notebook(CHAPTER.read_text(encoding="utf-8"))
    NOTEBOOK.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    IMAGE.write_bytes(image(made))

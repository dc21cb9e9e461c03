"""Tables for LaTeX: a small reader of LaTeX gets back every text that went in."""

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic_run import synthetic_run

from narrows.foreign_text import printable
from narrows.results import TextTable, compare, summary_table
from narrows.results.latex import escaped

# What LaTeX prints for each command, from the LaTeX Companion's tables of symbols.
PRINTED = {
    **{f"\\{character}": character for character in "&%$#_{}"},
    r"\textbackslash": "\\",
    r"\textasciitilde": "~",
    r"\textasciicircum": "^",
    r"\textless": "<",
    r"\textgreater": ">",
    r"\textbar": "|",
    r"\textendash": "–",
    r"\textemdash": "—",
    r"\ldots": "…",
    r"\mu": "µ",
    r"^\circ": "°",
    r"\pm": "±",
    r"\times": "×",
    r"\cdot": "·",
    r"\leq": "≤",
    r"\geq": "≥",
    "^2": "²",
    "^3": "³",
    "-": "−",
}
LIGATURES = ("--", ",,", "``", "''", "?`", "!`", "<<", ">>")


def read(latex: str) -> str:
    """The text that LaTeX prints for this, if it is text and nothing else."""
    found: list[str] = []
    rest, depth, is_math = latex, 0, False
    while rest:
        # A command of letters swallows spaces behind it, unless a group ends it.
        token = re.match(r"\\[A-Za-z]+(?:\d+)?|\\.|\^(?:\\[a-z]+|.)|.", rest, re.DOTALL)
        assert token is not None
        text, rest = token[0], rest[token.end() :]
        if text in "{}":
            depth += 1 if text == "{" else -1
            assert depth >= 0, latex
            found.append("")
        elif text == "$":
            is_math = not is_math
        elif text.startswith("\\char"):
            assert rest.startswith("{}"), "or the next digit would belong to the number"
            found.append(chr(int(text.removeprefix("\\char"))))
        elif len(text) > 1 or (is_math and text == "-"):
            assert text in PRINTED, f"{text!r} in {latex!r}"
            assert not text[1:].isalpha() or rest.startswith(("{}", "$")), latex
            found.append(PRINTED[text])
        else:
            assert text not in "&%#_~^<>|\"`'[*" or (depth and text in "[*"), f"{text!r}: {latex!r}"
            assert text >= " ", latex
            assert "".join(found[-1:]) + text not in LIGATURES, latex
            found.append(text)
    assert depth == 0 and not is_math, latex
    return "".join(found)


SPECIAL = "\\{}$&#^_%~<>|\"'`-,?![]*@ \n\t\x1b\u202eäŁ東µ−–°±×2"


@given(st.text(st.sampled_from(SPECIAL) | st.characters(), max_size=30))
def test_foreign_text_is_printed_as_it_is(text: str) -> None:
    assert read(escaped(text)).replace("μ", "µ") == printable(text).replace("μ", "µ")


def cells(latex: str) -> list[list[str]]:
    """The rows of a table; each ends with two backslashes."""
    body = latex[latex.index("\\toprule") : latex.index("\\bottomrule")]
    lines = [line for line in body.splitlines() if line.endswith(r" \\")]
    return [re.split(r" (?<!\\)& ", line.removesuffix(r" \\")) for line in lines]


@given(st.lists(st.text(st.sampled_from(SPECIAL), max_size=8), min_size=3, max_size=3))
def test_a_table_keeps_its_form_whatever_its_names(names: list[str]) -> None:
    rows = [(names[0], "1", "a"), (names[1], "12.25", "b")]
    latex = TextTable(names[2], ("", names[2], "x"), [(names[0], rows), ("", rows)], names).latex()
    comments, _, rest = latex.partition("\\begin{tabular}")
    assert all(line.startswith("% ") for line in comments.splitlines())
    assert "%" not in re.sub(r"\\%", "", rest)
    found = cells(latex)
    assert [len(row) for row in found if not row[0].startswith("\\multicolumn")] == [3] * 5
    assert read(found[0][1]) == printable(names[2])
    assert read(found[-1][0]) in (printable(names[1]), "–", printable(names[1]).replace("-", "−"))
    assert not any(row[0].lstrip().startswith(("[", "*")) for row in found)


def test_numbers_stand_below_each_other_and_intervals_stay() -> None:
    rows = [
        ("a", "1", "-", "+1 to +2"),
        ("b", "12.25", "-0.5", "-3 to -1"),
        ("c", "", "1e-05", "-"),
    ]
    latex = TextTable("t", ("", "v", "d", "95 % interval"), [("", rows)]).latex()
    assert latex.splitlines() == [
        "% t",
        "% Needs the package booktabs.",
        r"\begin{tabular}{lrrr}",
        r"\toprule",
        r" & v & d & 95 \% interval \\",
        r"\midrule",
        r"a & 1\phantom{.00} & \textendash{} & +1 to +2 \\",
        r"b & 12.25 & $-$0.5 & $-$3 to $-$1 \\",
        r"c &  & 1$\cdot10^{-5}$ & \textendash{} \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]


def test_letters_that_pdflatex_lacks_are_told() -> None:
    said = TextTable("", (), [("", [("東京", "1")])]).latex()
    assert "% Needs XeLaTeX or LuaLaTeX, and a font that has all its letters, such as 京." in said
    assert "XeLaTeX" not in TextTable("", (), [("", [("Zürich µ “–”", "1")])]).latex()


def test_a_comparison_compiles(tmp_path: Path) -> None:
    run = synthetic_run(duration_s=20.0, workers=10)
    named = replace(run, scenario={**run.scenario, "name": "50 %_of {a} & b~c^d\\e #1 $x$ --[y] Ł"})
    tables = [summary_table(named), compare([run, named]).table()]
    for table in tables:
        rows = [row for _, part in table.sections for row in part]
        assert len(cells(table.latex())) >= len(rows)
    program = shutil.which("tectonic") or shutil.which("pdflatex")
    if program is None:
        return
    begin = r"\documentclass{article}\usepackage{booktabs}\begin{document}"
    text = "\n\n".join([begin, *(table.latex() for table in tables), r"\end{document}"])
    (tmp_path / "paper.tex").write_text(text)
    done = subprocess.run([program, "paper.tex"], cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout.decode(errors="replace")[-2_000:]


@pytest.mark.parametrize("text", ["a--b", "?`", "[x]", "*", "-1", "50%", "\\input{/etc/passwd}"])
def test_well_known_traps(text: str) -> None:
    assert read(escaped(text)) == text

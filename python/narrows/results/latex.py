r"""Tables as LaTeX: a `tabular` with the rules of the package booktabs, which a paper includes.

Names of links, groups, scenarios and queues are foreign text. Every character in them is printed as
it is: none begins a command, a comment, mathematics or a ligature. Letters beyond those of European
languages in Latin script stay as they are, and a comment says that the table needs XeLaTeX or
LuaLaTeX.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from narrows.foreign_text import printable

Rows = Sequence[tuple[str, ...]]


def tabular(
    title: str, head: Rows, sections: Sequence[tuple[str, Rows]], notes: Sequence[str]
) -> str:
    """A table for LaTeX; the title and the notes are comments above it.

    Args:
        title: What it shows.
        head: The lines of its header; empty for none.
        sections: Titles of sections, which may be empty, and their rows.
        notes: What readers must know.
    """
    rows = [row for _, part in sections for row in part]
    count = max((len(row) for row in [*head, *rows]), default=1)
    columns = [_Column([row[at] for row in rows if at < len(row)]) for at in range(count)]
    texts = [*(text for row in [*head, *rows] for text in row), *(name for name, _ in sections)]
    said = [title, *notes, "Needs the package booktabs.", *_letters(texts)]
    lines = [f"% {printable(text)}" for text in said if text]
    lines += [rf"\begin{{tabular}}{{{''.join(column.letter for column in columns)}}}", r"\toprule"]
    lines += [_row([escaped(cell) for cell in row], count) for row in head]
    lines += [r"\midrule"] if head else []
    for number, (name, part) in enumerate(sections):
        lines += [r"\addlinespace"] if number else []
        if name:
            lines.append(rf"\multicolumn{{{count}}}{{l}}{{\emph{{{escaped(name)}}}}} \\")
        for row in part:
            cells = zip(columns, row, strict=False)
            lines.append(_row([column.cell(text) for column, text in cells], count))
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"])


def escaped(text: str) -> str:
    r"""Any text for LaTeX, which prints each of its characters as it is.

    Examples:
        >>> print(escaped("50 % of_#1 & {a}~b^c\\d"))
        50 \% of\_\#1 \& \{a\}\textasciitilde{}b\textasciicircum{}c\textbackslash{}d
        >>> print(escaped("fast--lane"))
        fast-{}-lane
    """
    return _LIGATURES.sub("{}", "".join(_SPECIAL.get(c, c) for c in printable(text)))


_SPECIAL = {
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\char34{}",
    "'": r"\char39{}",
    "`": r"\char96{}",
    # At the beginning of a row, they would belong to the end of the row above.
    "[": "{[}",
    "*": "{*}",
    "–": r"\textendash{}",
    "—": r"\textemdash{}",
    "…": r"\ldots{}",
    "µ": r"$\mu$",
    "μ": r"$\mu$",
    "°": r"$^\circ$",
    "±": r"$\pm$",
    "×": r"$\times$",
    "·": r"$\cdot$",
    "−": "$-$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "²": "$^2$",
    "³": "$^3$",
}
"""Characters that LaTeX would not print as they are, in any encoding of fonts."""

_LIGATURES = re.compile(r"(?<=-)(?=-)|(?<=,)(?=,)|(?<=[?!])(?=\\char96)")
"""Where two characters would become another one."""

_LAST_LETTER = 0x17F
"""The end of Latin Extended-A, whose letters pdfLaTeX knows too."""
_MARKS = set("‘’“”‚„†‡•‰€™")
"""Further characters that it knows."""


def _letters(texts: Sequence[str]) -> list[str]:
    """A comment about the first letter that pdfLaTeX does not know; empty if there is none."""
    letters = sorted({c for text in texts for c in printable(text)} - _SPECIAL.keys() - _MARKS)
    unknown = next((c for c in letters if ord(c) > _LAST_LETTER), "")
    if not unknown:
        return []
    return [f"Needs XeLaTeX or LuaLaTeX, and a font that has all its letters, such as {unknown}."]


class _Column:
    """How a column is aligned: numbers at their decimal points, other texts at the left."""

    def __init__(self, cells: Sequence[str]) -> None:
        filled = [cell for cell in cells if cell not in ("", "-")]
        numbers = [_NUMBER.match(cell) for cell in filled]
        self.letter = "r" if numbers and all(numbers) else "l"
        plain = all(re.fullmatch(r"[+-]?\d+(\.\d+)?", cell) for cell in filled)
        self._digits = max((len(_fraction(cell)) for cell in filled), default=0) if plain else 0

    def cell(self, text: str) -> str:
        """A cell with as much room behind the decimal point as the others have."""
        if text == "-":
            return r"\textendash{}"
        if self.letter == "l":
            return _numbers(text) if _NUMBER.match(text) else escaped(text)
        missing = self._digits - len(_fraction(text)) if text else 0
        room = rf"\phantom{{{('' if '.' in text else '.')}{'0' * missing}}}" if missing > 0 else ""
        return _numbers(text) + room


_NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?(?:e[+-]\d+)?(?![\w/])")
"""A number, and no unit that begins with a digit, such as 1/s."""


def _fraction(text: str) -> str:
    return text.partition(".")[2]


def _numbers(text: str) -> str:
    """A cell that begins with a number: minus signs in it are no hyphens, and powers are powers."""
    text = escaped(text)
    text = re.sub(r"(?<=\d)e([+-])0*(\d+)\b", _power, text)
    return re.sub(r"(?<![\w.{^])-(?=\d)", "$-$", text)


def _power(found: re.Match[str]) -> str:
    return rf"$\cdot10^{{{found[1].strip('+')}{found[2]}}}$"


def _row(cells: Sequence[str], count: int) -> str:
    whole = [*cells, *([""] * (count - len(cells)))]
    return " & ".join(whole) + r" \\"

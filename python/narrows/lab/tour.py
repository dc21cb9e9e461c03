"""The questions of docs/tour.md, as the page asks them."""

from __future__ import annotations

import re

_SECTION = re.compile(
    r"^!\[.*?\]\(.*?\)\n\n(?P<answer>.*?)\n\nOn the laboratory page: `(?P<link>#[^`]+)`",
    flags=re.MULTILINE | re.DOTALL,
)


def questions(text: str) -> list[dict[str, str]]:
    r"""Each section's question, the page's settings and the answer.

    Examples:
        >>> questions(
        ...     "# A tour\n\n## Why?\n\n![A plot](a.png)\n\nBecause **x**\nis [y](z.md).\n\n"
        ...     "On the laboratory page: `#a&A`\n"
        ... )
        [{'title': 'Why?', 'link': '#a&A', 'answer': 'Because x is y.'}]
    """
    found = []
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        title, _, rest = section.partition("\n")
        if part := _SECTION.search(rest):
            answer = _plain(part["answer"])
            found.append({"title": title, "link": part["link"], "answer": answer})
    return found


def _plain(text: str) -> str:
    """Markdown without its marks, and with a line for each paragraph."""
    words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text).replace("**", "").replace("`", "")
    return "\n\n".join(" ".join(part.split()) for part in words.split("\n\n"))

"""Every command that a document shows exists, with its options."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from narrows.cli.app import COMMANDS, app
from tests.docs.test_documents import CHECKOUT, DOCUMENTS, blocks, commands

GROUP: Any = typer.main.get_command(app)
OF_ALL = {"--help", "-h", "--version", "--install-completion"}
HISTORY = {"CHANGELOG.md", "gateway/CHANGELOG.md"}
"""Documents that also name what is gone."""


def shown(document: str) -> Iterator[str]:
    """The commands of a document's examples and sentences."""
    text = (CHECKOUT / document).read_text(encoding="utf-8")
    for block in blocks(text):
        if block.kind in ("indented", "sh"):
            yield from (command for command, _ in commands(block) if command[:4] != "for ")
    prose = re.sub(r"^(```.*?^```$|    .*?$)", "", text, flags=re.M | re.S)
    for found in re.findall(r"`(narrows [^`]+)`", prose):
        yield " ".join(found.split())


def words_of(command: str) -> list[str]:
    """A command's words up to a pipe, a file for its output, or a comment."""
    lexer = shlex.shlex(command.removeprefix("narrows "), posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words = []
    for word in lexer:
        if word[0] in "|>;&" or word == "2":
            break
        words.append(word)
    return words


def wrong(command: str) -> str | None:
    """What of a command does not exist."""
    words = words_of(command)
    # A version is what the program prints.
    if not words or words[0] in OF_ALL or words[0][0].isdigit():
        return None
    name = next((n for n in (" ".join(words[:2]), words[0]) if n in COMMANDS), None)
    if name is None:
        begun = any(each.startswith(f"{words[0]} ") for each in COMMANDS)
        return None if begun and len(words) == 1 else f"no command {words[0]}"
    options = {
        opt for each in GROUP.commands[name].params for opt in (*each.opts, *each.secondary_opts)
    }
    for word in words:
        option = word.partition("=")[0]
        if re.match(r"--?[a-zA-Z]", option) and option not in options | OF_ALL:
            return f"narrows {name} has no {option}"
    return None


@pytest.mark.parametrize("document", [each for each in DOCUMENTS if each not in HISTORY])
def test_commands_of_documents_exist_with_their_options(document: str) -> None:
    found = {command: wrong(command) for command in shown(document)}
    assert {command: why for command, why in found.items() if why} == {}


def test_commands_are_found_and_judged() -> None:
    found = [command for document in DOCUMENTS for command in shown(document)]
    assert len(found) > 250
    assert "narrows sweep plot" in {" ".join(each.split()[:3]) for each in found}
    assert wrong("narrows run FILE --sed 1") == "narrows run has no --sed"
    assert wrong("narrows rum FILE") == "no command rum"
    assert wrong("narrows compare a b --latex > table.tex") is None
    assert wrong("narrows kernel") is None

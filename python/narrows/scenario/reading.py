"""Reads TOML values from a file or text, in bounded time and memory whatever it holds."""

from __future__ import annotations

import json
import re
import stat
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from narrows.errors import ScenarioError
from narrows.scenario.example_files import examples

MOST_BYTES = 1 << 20
"""Longest scenario file."""

# tomllib's time grows with the square of a dotted key's parts. No key of the language has ten.
_MOST_KEY_PARTS = 32
_KEY_TOKEN = re.compile(
    r"""(?P<part>[A-Za-z0-9_-]++|"(?:[^"\\]|\\.)*+"|'[^']*+')|(?P<dot>\.)|(?P<space>[ \t]++)|."""
)
_BRACE = re.compile(
    r"""\"{3}(?:[^\\]|\\.)*?\"{3,5}|'{3}.*?'{3,5}|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'|\#[^\n]*"""
    r"""|(?P<brace>\{)[ \t]*(?P<empty>\})?""",
    re.DOTALL,
)
"""An opening brace, or a string or comment, in which braces have no meaning."""
_AT_LINE = re.compile(r"^(?P<message>.*) \(at (?P<place>line \d+, column \d+|end of document)\)$")


class InlineTable(dict[str, Any]):
    """A table in braces: it is one value, while dotted keys and headers give single keys."""


def read(path: str | Path) -> dict[str, Any]:
    """Reads a TOML file of at most `MOST_BYTES`.

    Raises:
        ScenarioError: It cannot be read, or it is not TOML.
    """
    return parse(_text_of(path), str(path))


def with_inline_tables(path: str | Path) -> dict[str, Any]:
    """Reads a TOML file's values, with tables in braces as `InlineTable`.

    Raises:
        ScenarioError: It cannot be read, or it is not TOML.
    """
    text = _text_of(path)
    known = set(_keys(parse(text, str(path))))
    # tomllib does not distinguish tables in braces, so each gets a key that marks it.
    mark = "inline"
    while mark in known:
        mark += "-"

    def marked(found: re.Match[str]) -> str:
        if not found["brace"]:
            return found[0]
        return f"{{{mark} = 0}}" if found["empty"] else f"{{{mark} = 0, "

    values = _unmarked(tomllib.loads(_BRACE.sub(marked, text)), mark)
    assert isinstance(values, dict)
    return values


def _keys(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from value
        value = list(value.values())
    if isinstance(value, list):
        for inner in value:
            yield from _keys(inner)


def _unmarked(value: Any, mark: str) -> Any:
    if isinstance(value, list):
        return [_unmarked(inner, mark) for inner in value]
    if not isinstance(value, dict):
        return value
    inner = {key: _unmarked(each, mark) for key, each in value.items() if key != mark}
    return InlineTable(inner) if mark in value else inner


def _missing(file: str) -> str:
    """The hint for a scenario that is not there: an example may be meant."""
    name = Path(file).name.removesuffix(".toml")
    if any(name == each.name for each in examples()):
        return f"narrows examples copy {name} copies the example of this name"
    return "check the path"


def _text_of(path: str | Path) -> str:
    file = str(path)
    try:
        mode = Path(path).stat().st_mode
        if (Path(path) / "run.json").is_file():
            hint = "give a scenario file; narrows compare and Run.load read run folders"
            raise ScenarioError(file, "", "is a run folder", hint)
        if stat.S_ISDIR(mode):
            raise ScenarioError(file, "", "is a directory", "name a file in it")
        if not stat.S_ISREG(mode):
            raise ScenarioError(file, "", "is not a regular file")
        with Path(path).open("rb") as stream:
            content = stream.read(MOST_BYTES + 1)
    except FileNotFoundError:
        raise ScenarioError(file, "", "does not exist", _missing(file)) from None
    except PermissionError:
        raise ScenarioError(
            file, "", "cannot be read: permission denied", "check its owner and mode"
        ) from None
    except OSError as error:
        raise ScenarioError(file, "", f"cannot be read: {error.strerror}") from None
    except ValueError:
        raise ScenarioError(file, "", "is not a file name") from None
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        if len(content) <= MOST_BYTES:
            line = content.count(b"\n", 0, error.start) + 1
            raise ScenarioError(
                file, f"line {line}", "is not UTF-8", "save the file as UTF-8"
            ) from None
        text = " " * len(content)
    return text


def parse(text: str, file: str) -> dict[str, Any]:
    """Reads TOML text of at most `MOST_BYTES`.

    Raises:
        ScenarioError: It is not TOML.
    """
    if len(text) > MOST_BYTES:
        raise ScenarioError(file, "", "is longer than 1 MiB, the limit for scenarios")
    if text.startswith("\ufeff"):
        raise ScenarioError(
            file, "", "starts with a byte-order mark", "save the file as UTF-8 without BOM"
        )
    for number, line in enumerate(text.split("\n"), 1):
        if line.count(".") >= _MOST_KEY_PARTS and _key_parts(line) > _MOST_KEY_PARTS:
            raise ScenarioError(
                file, f"line {number}", f"has a key of more than {_MOST_KEY_PARTS} parts"
            )
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = _AT_LINE.match(str(error))
        place, message = (found["place"], found["message"]) if found else ("", str(error))
        if place == "end of document":
            place = f"line {len(text.splitlines())}"
        # Python's name for the end of a line that comes before the end of its text.
        hint = "close the quotation marks" if message == r"Illegal character '\n'" else ""
        raise ScenarioError(
            file, place, f"is not valid TOML: {message[:1].lower()}{message[1:]}", hint
        ) from None
    except RecursionError:
        raise ScenarioError(file, "", "is nested too deeply") from None
    except ValueError as error:
        # If an integer has thousands of digits, Python's message is about its own settings. Other
        # errors are values such as the 31st of February.
        what = "a number has too many digits" if "digits" in str(error) else str(error)
        raise ScenarioError(file, "", f"is not valid TOML: {what}") from None


def value_of(text: str) -> Any:
    """Parses a text as a TOML value; returns the text itself if it is not one.

    Examples:
        >>> value_of("3"), value_of("[1, 2]"), value_of("10 Mbit/s"), value_of("true")
        (3, [1, 2], '10 Mbit/s', True)
    """
    try:
        values = parse(f"value = {text}", "")
    except ScenarioError:
        return text
    return values["value"] if values.keys() == {"value"} else text


def with_quotes(text: str) -> str:
    """Adds missing quotation marks in a table or an array; returns "" for any other text.

    Examples:
        >>> with_quotes("{kind=bfifo, limit=90 kB}"), with_quotes("[far, near]")
        ('{kind="bfifo", limit="90 kB"}', '["far", "near"]')
        >>> with_quotes("{kind=}"), with_quotes("fq-codel")
        ('', '')
    """
    if not text.startswith(("{", "[")) or len(text) > _LONGEST_VALUE:
        return ""
    quoted = _BARE_VALUE.sub(_with_quotes, text)
    return "" if isinstance(value_of(quoted), str) else quoted


def _with_quotes(found: re.Match[str]) -> str:
    before, value = found.groups()
    return before + (json.dumps(value) if isinstance(value_of(value), str) else value)


_LONGEST_VALUE = 200
_BARE_VALUE = re.compile(r"([=\[,]\s*)([^\s\"'\[\]{},=][^\"'\[\]{},=]*?)(?=\s*[,\]}])")
"""A value in a table or an array that has no quotation marks, and what stands before it."""


def _key_parts(line: str) -> int:
    """The largest number of parts in anything on the line that may be a dotted key."""
    most = parts = 0
    joined = False
    for token in _KEY_TOKEN.finditer(line):
        if token["part"]:
            parts = parts + 1 if joined else 1
            joined = False
            most = max(most, parts)
        elif token["dot"]:
            joined = parts > 0
        elif not token["space"]:
            parts, joined = 0, False
    return most

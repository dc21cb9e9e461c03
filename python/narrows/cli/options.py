"""Options that several commands share."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from narrows.cli.complete import backends, keys, scenarios
from narrows.cli.failure import UserError
from narrows.plot_files import PLOT_FILES, USUAL_PLOT_FILES, PlotFile

if TYPE_CHECKING:
    from narrows.backends.outside import Outside


def option(metavar: str, help: str, *names: str, **more: Any) -> Any:
    """An option with a value. Its help names the default, if it has one."""
    return typer.Option(*names, metavar=metavar, help=help, show_default=False, **more)


def argument(metavar: str, help: str, **more: Any) -> Any:
    """An argument. Its help names the default, if it has one."""
    return typer.Argument(metavar=metavar, help=help, show_default=False, **more)


def set_keys(ctx: typer.Context, incomplete: str) -> list[str]:
    """Keys of the scenario that stands earlier on the command line."""
    return keys(incomplete, [str(ctx.params.get("scenario") or ""), *ctx.args])


ScenarioFile = Annotated[
    Path, argument("SCENARIO", "The scenario file (TOML).", autocompletion=scenarios)
]

Settings = Annotated[
    list[str] | None,
    option(
        "KEY=VALUE",
        "Change a key of the scenario, such as "
        "queue.probability=0.2 (the monitored queue) or "
        "links.bottleneck.rate='5 Mbit/s'; may be repeated. "
        "A queue of another kind needs its whole table: queue='{kind=\"codel\"}'.",
        "--set",
        autocompletion=set_keys,
    ),
]

DEFAULT_BACKEND = "sim"
"""`narrows.backends.DEFAULT`, without loading what runs scenarios."""

Backend = Annotated[
    str,
    typer.Option(
        "--backend",
        metavar="NAME",
        help="What runs the scenario: sim, kernel, or "
        "program:COMMAND, a simulator with components of your own.",
        autocompletion=backends,
    ),
]


def seed_option(help: str, metavar: str = "N", **shown: Any) -> Any:
    """The option `--seed`, with the same range in all commands; `help` says what it decides."""
    return typer.Option("--seed", min=0, max=2**63 - 1, metavar=metavar, help=help, **shown)


Seed = Annotated[
    int | None, seed_option("The seed to use instead of the scenario's.", show_default=False)
]

Workers = Annotated[
    int | None, option("N", "Number of processes. [default: the number of cores]", min=1, max=4096)
]

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]

Latex = Annotated[
    bool, typer.Option("--latex", help="Print tables for LaTeX, with the package booktabs.")
]


Form = Literal["text", "json", "latex"]
"""How a command prints its results."""


def form_of(*, json_output: bool, latex: bool) -> Form:
    """The form that `--json` or `--latex` chooses.

    Raises:
        UserError: Both are given.
    """
    if json_output and latex:
        raise UserError("--latex: prints a table, and --json a document; hint: give one of them")
    return "json" if json_output else "latex" if latex else "text"


Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only errors on stderr.")]


def _plots(help: str) -> Any:
    return option(
        "|".join(PLOT_FILES),
        help,
        "--plots",
        autocompletion=lambda incomplete: [
            kind for kind in PLOT_FILES if kind.startswith(incomplete)
        ],
    )


Plots = Annotated[
    list[str] | None,
    _plots(
        "Also draw the report's plots into files of this type; may be repeated, or be a list with "
        "commas."
    ),
]

Plugins = Annotated[
    list[Path] | None,
    option(
        "FILE",
        'A shared object with queues (kind = "plugin") or congestion controls that the scenario '
        "names; may be repeated. Its code runs with your rights.",
        "--plugin",
    ),
]

PlotFiles = Annotated[
    list[str] | None,
    _plots(
        "File type of plots; may be repeated, or be a list with commas. "
        f"[default: {','.join(USUAL_PLOT_FILES)}]"
    ),
]


def plot_files(
    given: Sequence[str] | None,
    usual: Sequence[PlotFile] = (),
    *,
    written: bool = True,
    needs: str = "",
) -> tuple[PlotFile, ...]:
    """The file types that `--plots` names, each once, in the given order.

    Args:
        given: The option's values, if it was given.
        usual: The types if it was not given.
        written: Whether the command writes plots at all.
        needs: If it does not, what the user can do to get plots.

    Raises:
        UserError: A type is unknown, or the command writes no plots.
    """
    if given and not written:
        raise UserError(f"--plots: there are no plots to write; hint: {needs}")
    found: dict[PlotFile, None] = {}
    for text in (text.strip() for each in given or () for text in each.split(",")):
        kind = next((known for known in PLOT_FILES if known == text.lower()), None)
        if kind is None:
            raise UserError(f"--plots {text}: is not known; hint: one of {', '.join(PLOT_FILES)}")
        found[kind] = None
    return tuple(found or usual)


def outside(plugins: Sequence[Path] | None) -> Outside | None:
    """The parts from outside that `--plugin` names; None if there are none."""
    from narrows.backends import parts_from_outside

    return parts_from_outside(plugins=plugins)


def settings(given: Sequence[str] | None) -> dict[str, str]:
    """Parses `KEY=VALUE` texts into a mapping.

    Raises:
        UserError: A text has no `=`, no key, or the key comes twice.
    """
    return _pairs("--set", given, "seed=2")


def key_values(option: str, given: Sequence[str] | None) -> dict[str, object]:
    """Parses `KEY=VALUE` texts into a mapping with TOML values, for the keys of a sweep.

    Raises:
        UserError: A text has no `=`, no key, or the key comes twice.
    """
    from narrows.scenario.reading import value_of

    pairs = _pairs(option, given, "queue.limit=100")
    return {key: value_of(text) for key, text in pairs.items()}


def _pairs(option: str, given: Sequence[str] | None, example: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in given or []:
        key, equals, value = text.partition("=")
        key = key.strip()
        if not equals or not key:
            raise UserError(f"{option} {text}: not KEY=VALUE; hint: such as {option} {example}")
        if key in found:
            raise UserError(f"{option} {key}: given twice; hint: keep one")
        found[key] = value.strip()
    return found


def lasting(option: str, text: str) -> float:
    """Returns the seconds of an option's time, which may lack its unit.

    Raises:
        UserError: It is no time.
    """
    from narrows import _core

    try:
        return _core.parse_span(f"{text} s" if re.fullmatch(r"[0-9.]+", text) else text) / 1e12
    except ValueError as error:
        raise UserError(f"{option} {text}: {error}; hint: such as {option} 60s") from None


def address_family(number: int | None) -> int | None:
    """Returns the value of `--family`: 4, 6, or None if it is not given.

    Raises:
        UserError: It is another number.
    """
    if number not in (None, 4, 6):
        raise UserError(f"--family {number}: is neither 4 nor 6; hint: 4 is IPv4, 6 is IPv6")
    return number


@contextmanager
def listing_metrics() -> Iterator[None]:
    """Adds the way to list all metrics to an error about a metric's name.

    Raises:
        UserError: A metric that `--metric` names does not exist.
    """
    from narrows.errors import together
    from narrows.results.metric_names import ALL, NoSuchMetric

    try:
        yield
    except NoSuchMetric as error:
        *others, last = map(str, (error, *error.others))
        joint = "" if last.endswith("?") else ";"
        listing = f'{last}{joint} --metric "{ALL}" lists all'
        raise together(list(map(UserError, (*others, listing)))) from None

"""The Typer application and its entry point.

A command is a module beside this file with `EXAMPLES` and a function `command`, whose docstring is
its help. It may have `ELSEWHERE`: options that people look for in this command, each with the hint
that they get. Beyond its options, a module imports what it needs inside `command`. This keeps
`narrows --help` fast, which imports all of these modules.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from narrows.cli.failure import (
    Exit,
    open_standard_streams,
    report,
    say,
    terminations_as_interrupts,
)
from narrows.cli.readable import complaint, readable

COMMANDS = {
    "run": "run",
    "sweep": "sweep",
    "sweep plot": "sweep_plot",
    "compare": "compare",
    "report": "report",
    "plot": "plot",
    "paper": "paper",
    "lab": "lab",
    "import atlas": "import_atlas",
    "import capture": "import_capture",
    "import csv": "import_csv",
    "import flent": "import_flent",
    "export flent": "export_flent",
    "export rates": "export_rates",
    "export qlog": "export_qlog",
    "ratio": "ratio",
    "reproduce": "reproduce",
    "study": "study",
    "suite rfc7928": "suite_rfc7928",
    "suite rrul": "suite_rrul",
    "suite l4s": "suite_l4s",
    "probe": "probe",
    "agreement": "agreement",
    "monitor": "monitor",
    "traffic serve": "traffic_serve",
    "traffic drive": "traffic_drive",
    "resolve": "resolve",
    "merge": "merge",
    "kernel check": "kernel_check",
    "kernel prepare": "kernel_prepare",
    "examples": "examples",
    "examples copy": "examples_copy",
    "check": "check",
    "schema": "schema",
    "plugin": "plugin",
    "new": "new",
    "profiles": "profiles",
    "size": "size",
}
"""The module of each command, in the order of `narrows --help`."""

EPILOG = """\
Data goes to stdout, everything else to stderr.

Exit codes: 0 done; 1 the command failed (for example, a run ended early); 2 bad input, with a line
for each error that names the file, the key and the remedy; 130 interrupted (partial results are
written and marked as partial).
"""


def _prose(text: str) -> str:
    """Puts each paragraph on one line, so that only the terminal breaks lines."""
    return "\n\n".join(" ".join(part.split()) for part in text.strip().split("\n\n"))


def _examples(text: str) -> str:
    r"""Keeps paragraphs of commands and comments as they are (`\b`), and reflows all others."""
    parts = text.strip().split("\n\n")
    return "\n\n".join(
        f"\b\n{part}" if part.startswith(("#", "narrows ")) else _prose(part) for part in parts
    )


def _module(name: str) -> Any:
    return import_module(f"narrows.cli.{COMMANDS[name]}")


def _help(name: str) -> str:
    return _prose(_module(name).command.__doc__ or "")


class _OnDemand(Mapping[str, Any]):
    """The commands by name; each is made when it is looked up."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            module = _module(name)
            alone = typer.Typer(
                add_completion=False,
                rich_markup_mode=None,
                context_settings=_SETTINGS,
                pretty_exceptions_enable=False,
            )
            epilog = _examples(module.EXAMPLES)
            alone.command(name, help=_help(name), epilog=epilog)(module.command)
            self._made[name] = readable(typer.main.get_command(alone))
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


class _Commands(TyperGroup):
    """Commands of one word or two."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands: Any = _OnDemand()

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of the commands."""
        return list(COMMANDS)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Writes names and first sentences without making any command."""
        self._write_commands(formatter, list(COMMANDS))

    def _write_commands(self, formatter: Any, names: list[str]) -> None:
        with formatter.section("Commands"):
            firsts = (re.split(r"\.\s", f"{_help(name)} ")[0] for name in names)
            formatter.write_dl(list(zip(names, firsts, strict=True)))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """`sweep plot DIR` is the command `sweep plot`; `sweep FILE` is `sweep`.

        `kernel --help` lists the commands that begin with `kernel`.
        """
        if args[0] not in COMMANDS and len(args) > 1 and args[1] in _HELP:
            begun = [name for name in COMMANDS if name.startswith(f"{args[0]} ")]
            if begun:
                formatter = ctx.make_formatter()
                formatter.write_usage(f"narrows {args[0]}", "COMMAND [ARGS]...")
                self._write_commands(formatter, begun)
                print(formatter.getvalue(), end="")
                ctx.exit()
        two = " ".join(args[:2])
        return super().resolve_command(ctx, [two, *args[2:]] if two in COMMANDS else args)


_HELP = ["-h", "--help"]
_SETTINGS = {"help_option_names": _HELP, "max_content_width": 100}

app = typer.Typer(
    name="narrows",
    cls=_Commands,
    help="A bottleneck laboratory for DNS and short flows.",
    epilog=_prose(EPILOG),
    context_settings=_SETTINGS,
    pretty_exceptions_enable=False,
    # Rich would break the examples at the terminal's width, cut keys, and take half a second.
    rich_markup_mode=None,
)

# Newer versions of Typer contain a copy of Click. This is the base of usage errors in both cases.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]


def _version(wanted: bool) -> None:
    if wanted:
        from narrows.builds import THIS

        print(f"narrows {THIS}")
        raise typer.Exit(Exit.DONE)


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_version,
            is_eager=True,
            help="Print the version and the build, and exit.",
        ),
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns its exit code; never raises, never shows a traceback.

    If `NARROWS_TRACEBACK` is set in the environment, an unexpected failure is raised instead.
    """
    try:
        open_standard_streams()
        with terminations_as_interrupts():
            code = app(
                args=None if arguments is None else list(arguments),
                prog_name="narrows",
                standalone_mode=False,
            )
        if code == Exit.INTERRUPTED and not isinstance(code, Exit):
            # Typer caught the interrupt and printed nothing.
            return report(KeyboardInterrupt())
        sys.stdout.flush()
    except _UsageError as error:
        return _misused(error)
    except typer.Abort:
        return report(KeyboardInterrupt())
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else Exit.FAILED
    except BaseException as error:
        if os.environ.get("NARROWS_TRACEBACK"):
            raise
        return report(error, sys.argv[1:] if arguments is None else arguments)
    return int(code) if isinstance(code, int) else Exit.DONE


_UNKNOWN = re.compile(r"^no such command '(.*)'$")
_NO_COMMANDS = {
    "kernel": "narrows run FILE --backend kernel runs a scenario on a kernel; narrows kernel check "
    "and narrows kernel prepare are about that backend",
}
"""What people mean by words that are no commands."""


def _misused(error: Exception) -> Exit:
    """Prints a line about an unknown command or option, a missing argument, or a wrong value."""
    describe = getattr(error, "format_message", lambda: str(error))
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "narrows"
    message, hint = complaint(str(describe()), command)
    unknown = _UNKNOWN.search(message)
    if unknown is not None and unknown[1] in _NO_COMMANDS:
        hint = _NO_COMMANDS[unknown[1]]
    option, name = getattr(error, "option_name", None), command.removeprefix("narrows ")
    elsewhere = getattr(_module(name), "ELSEWHERE", {}) if name in COMMANDS else {}
    if option in elsewhere:
        # Options with similar names are wrong here.
        message, hint = f"no such option: {option}", elsewhere[option]
    say(f"error: {message}; hint: {hint}")
    return Exit.BAD_INPUT

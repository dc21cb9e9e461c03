"""The Typer application and its entry point."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from narrows.cli import (
    agreement,
    check,
    compare,
    import_atlas,
    import_capture,
    kernel_check,
    kernel_prepare,
    monitor,
    probe,
    profiles,
    ratio,
    reproduce,
    run,
    schema,
    size,
    study,
    sweep,
    sweep_plot,
)
from narrows.cli.failure import (
    Exit,
    open_standard_streams,
    report,
    say,
    terminations_as_interrupts,
)

EPILOG = """\
Data goes to stdout, everything else to stderr.

Exit codes: 0 done; 1 what was asked for failed (a run ended early); 2 bad input, with one line that
names file, key and mend; 130 interrupted (what was measured until then is written and says so).
"""


def _prose(text: str) -> str:
    """Paragraphs as one line each, so that the terminal breaks them and nobody else."""
    return "\n\n".join(" ".join(part.split()) for part in text.strip().split("\n\n"))


class _Commands(TyperGroup):
    """Commands of one word or two."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """`sweep plot DIR` is the command `sweep plot`; `sweep FILE` is `sweep`."""
        two = " ".join(args[:2])
        return super().resolve_command(ctx, [two, *args[2:]] if two in self.commands else args)


app = typer.Typer(
    name="narrows",
    cls=_Commands,
    help="A bottleneck laboratory for DNS and short flows.",
    epilog=_prose(EPILOG),
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)

for _name, _module in (
    ("run", run),
    ("sweep", sweep),
    ("sweep plot", sweep_plot),
    ("compare", compare),
    ("import atlas", import_atlas),
    ("import capture", import_capture),
    ("ratio", ratio),
    ("reproduce", reproduce),
    ("study", study),
    ("probe", probe),
    ("agreement", agreement),
    ("monitor", monitor),
    ("kernel check", kernel_check),
    ("kernel prepare", kernel_prepare),
    ("check", check),
    ("schema", schema),
    ("profiles", profiles),
    ("size", size),
):
    _help = _prose(_module.command.__doc__ or "")
    app.command(_name, help=_help, epilog=_prose(_module.EXAMPLES))(_module.command)

# Typer brings its own copy of Click from some version on; this is the base of both one's errors.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]


def _version(wanted: bool) -> None:
    if wanted:
        from narrows import _core

        print(f"narrows {_core.version}")
        raise typer.Exit(Exit.DONE)


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns its exit code; never raises, never shows a traceback.

    With `NARROWS_TRACEBACK` set in the environment an unexpected failure is raised instead.
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
            # Typer has caught the interrupt, and says nothing.
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
        return report(error)
    return int(code) if isinstance(code, int) else Exit.DONE


def _misused(error: Exception) -> Exit:
    """One line for an unknown command or option, a missing argument, a value of another kind."""
    describe = getattr(error, "format_message", lambda: str(error))
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "narrows"
    message = " ".join(str(describe()).split()).rstrip(".")
    say(f"error: {message[:1].lower()}{message[1:]}; hint: see {command} --help")
    return Exit.BAD_INPUT

"""The Typer application and its entry point."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from narrows.cli import check, compare, profiles, reproduce, run, schema
from narrows.cli.failure import Exit, report, say

EPILOG = """\
Data goes to stdout, everything else to stderr.
Exit codes: 0 done; 1 what was asked for failed (a run ended early);
2 bad input, with one line that names file, key and mend;
130 interrupted (what was measured until then is written and says so).
"""

app = typer.Typer(
    name="narrows",
    help="A bottleneck laboratory for DNS and short flows.",
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)

app.command("run", epilog=run.EXAMPLES)(run.command)
app.command("compare", epilog=compare.EXAMPLES)(compare.command)
app.command("reproduce", epilog=reproduce.EXAMPLES)(reproduce.command)
app.command("check", epilog=check.EXAMPLES)(check.command)
app.command("schema", epilog=schema.EXAMPLES)(schema.command)
app.command("profiles", epilog=profiles.EXAMPLES)(profiles.command)

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
        code = app(
            args=None if arguments is None else list(arguments),
            prog_name="narrows",
            standalone_mode=False,
        )
        sys.stdout.flush()
    except _UsageError as error:
        say(f"error: {' '.join(str(error).split())}; hint: see narrows --help")
        return Exit.BAD_INPUT
    except typer.Abort:
        return report(KeyboardInterrupt())
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else Exit.FAILED
    except BaseException as error:
        if os.environ.get("NARROWS_TRACEBACK"):
            raise
        return report(error)
    return int(code) if isinstance(code, int) else Exit.DONE

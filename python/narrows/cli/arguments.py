"""Replaces arguments of the API in messages by options.

The library's messages name arguments (`narrows.errors.argument`). The command line shows its
options instead.
"""

from __future__ import annotations

import re

OPTIONS = {
    "against": "--against",
    "at": "--at",
    "bound_s": "--bound",
    "by": "--by",
    "classic": "--classic",
    "control": "--control",
    "count": "--count",
    "dask": "--dask",
    "down": "--down",
    "interval_s": "--interval",
    "keep_runs": "--keep-runs",
    "kind": "--type",
    "length": "--length",
    "links": "--link",
    "load": "--load",
    "max_delay": "--max-delay",
    "name": "--name",
    "node": "--node",
    "out": "--out",
    "path": "--path",
    "plugins": "--plugin",
    "ports": "--port",
    "queue": "--queue",
    "queues": "--queue",
    "quick": "--quick",
    "recorded": "--bench",
    "reply": "--reply",
    "retry": "--retry",
    "round_trip": "--round-trip",
    "rtt": "--rtt",
    "secret_file": "--secret-file",
    "seeds": "--seeds",
    "setting": "--tcp",
    "source": "--source",
    "sources": "--source",
    "timeout_s": "--timeout",
    "transport": "--transport",
    "transports": "--transport",
    "up": "--up",
    "variants": "--variant",
    "vary": "--vary",
    "wait_s": "--wait",
    "where": "--where",
    "window_s": "--window",
    "workers": "--workers",
}
"""The option for each argument that a message names."""

_ARGUMENT = re.compile(rf"(?<!`)`({'|'.join(OPTIONS)})(?:=([^`]*))?`(?!`)")


def with_options(text: str) -> str:
    """Replaces the arguments in a message by options.

    Examples:
        >>> with_options("holds another sweep; hint: choose another folder with `out`")
        'holds another sweep; hint: choose another folder with --out'
        >>> with_options("say so with `count=10`, or fewer")
        'say so with --count 10, or fewer'
    """
    return _ARGUMENT.sub(_option, text)


def _option(found: re.Match[str]) -> str:
    name, value = found.groups()
    return f"{OPTIONS[name]} {value}" if value else OPTIONS[name]

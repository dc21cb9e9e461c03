"""How processes of narrows start."""

from __future__ import annotations

import gc


def start_of(module: str) -> str:
    """What `python -c` gets to call `main` of a module, with the JSON of this `sys.path` behind it.

    It finds narrows where this process has found it.

    Examples:
        >>> start_of("narrows.sweeps.worker").split("; ")[2:]
        ['from narrows.sweeps.worker import main', 'main()']
    """
    path = "import json, sys; sys.path[:] = json.loads(sys.argv[1])"
    return f"{path}; from {module} import main; main()"


def collect_rarely() -> None:
    """Lets Python search for garbage rarely.

    What modules make while they load stays. To look through it takes a tenth of a short command.
    """
    gc.set_threshold(200_000)

"""`narrows kernel check`: which kernels scenarios can run on."""

from __future__ import annotations

import json

from narrows.cli.failure import Exit
from narrows.cli.options import Json

EXAMPLES = """\
# The kernels of this machine, and which one a run would take.
narrows kernel check

narrows kernel check --json
"""


def command(json_output: Json = False) -> Exit:
    """Say which kernels a scenario can run on here, and what to install for the others.

    Exit codes: 0 there is one; 1 there is none.
    """
    from narrows.backends.kernel import ways

    found = ways.look()
    usable = [way for way in found if not way.lacks]
    tools = ways.missing_tools()
    chosen = usable[0].name if usable and not tools else None
    if json_output:
        print(
            json.dumps(
                {
                    "chosen": chosen,
                    "ways": [
                        {
                            "name": way.name,
                            "title": way.title,
                            "usable": not way.lacks,
                            "lacks": way.lacks,
                            "mend": way.mend,
                            "virtual_time": way.virtual,
                        }
                        for way in found
                    ],
                    "queues": list(ways.NEEDED) if usable else [],
                    "missing_tools": [need.package for need in tools],
                },
                indent=2,
            )
        )
        return Exit.DONE if chosen else Exit.FAILED
    for way in found:
        mark = "*" if way.name == chosen else " "
        says = f"no: {way.lacks} ({way.mend})" if way.lacks else "yes"
        print(f"{mark} {way.name:<8} {way.title}: {says}")
    for need in tools:
        print(f"  {need.command} is missing: apt-get install {need.package}")
    if chosen is None:
        print("none can be used: run narrows kernel prepare")
        return Exit.FAILED
    print(f"a run with --backend kernel takes {chosen}; --backend kernel-NAME takes another")
    return Exit.DONE

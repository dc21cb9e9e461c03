"""`narrows size`: settings of RED and FIFO for a given longest delay."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from narrows.cli.failure import UserError
from narrows.cli.options import Json, option
from narrows.foreign_text import shortened

if TYPE_CHECKING:
    from narrows.scenario.amounts import Quantity

EXAMPLES = """\
# The paper's test bed.
narrows size --rate 10mbit --max-delay 300ms --ring 80

narrows size --rate "50 Mbit/s" --max-delay "40 ms" --json
"""


def command(
    rate: Annotated[str, option("RATE", "The link's rate.", "--rate")],
    max_delay: Annotated[
        str,
        option(
            "TIME",
            "The longest that a packet may wait in the queue and the ring together.",
            "--max-delay",
        ),
    ],
    ring: Annotated[
        int,
        typer.Option(
            "--ring",
            metavar="PACKETS",
            min=0,
            max=65_536,
            help="Packets in the card's ring (ethtool -g, TX).",
        ),
    ] = 0,
    interface: Annotated[
        str, typer.Option("--interface", metavar="NAME", help="The interface in the tc commands.")
    ] = "eth0",
    json_output: Json = False,
) -> None:
    """Print settings of RED and FIFO for a given maximum delay of a link.

    The settings follow the rule of Harhalakis et al. (2011): the queue and the ring together hold
    what the link sends in the given time.
    """
    from narrows.scenario.amounts import DataRate, Duration
    from narrows.scenario.quantities import MOST_RATE, MOST_SPAN
    from narrows.sizing import size

    found = size(
        _quantity("--rate", rate, DataRate, MOST_RATE, "10mbit"),
        _quantity("--max-delay", max_delay, Duration, MOST_SPAN, "300ms"),
        ring,
    )
    red, fifo = found.tc(interface)
    if json_output:
        document = {
            "red": {
                "limit_bytes": found.limit,
                "min_bytes": found.min,
                "max_bytes": found.max,
                "burst_packets": found.burst,
                "tc": red,
            },
            "fifo": {"limit_bytes": found.fifo, "tc": fifo},
            "toml": found.toml(),
        }
        print(json.dumps(document, indent=2))
        return
    print(f"# In a scenario, for a link:\n{found.toml()}\n# On a machine, one of:\n{red}\n{fifo}")


def _quantity(option: str, text: str, kind: type[Quantity], most: int, example: str) -> int:
    from narrows.scenario.quantities import LONGEST_TEXT

    shown = shortened(text, LONGEST_TEXT)
    try:
        value = kind(text)
    except ValueError as error:
        raise UserError(f'{option} "{shown}": {error}; hint: such as {example}') from None
    if value == 0:
        raise UserError(f'{option} "{shown}": must be above zero; hint: such as {example}')
    if value > most:
        raise UserError(f'{option} "{shown}": is too large; hint: at most "{kind(most)}"')
    return value

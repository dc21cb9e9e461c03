"""Traffic: the kinds of `[[traffic]]`, one file each.

To add a kind, add a file with its class, which is a `Group`, and a line in kinds.py. The class has
a `kind`, its keys, what must hold between them (methods marked with `rules.rule`), its form in the
plan (`lower`), and what it records in addition to every run's tables (`records`). Everything else
follows from the class: checks, copies, counts, the reference and the JSON schema, the run folder's
tables, summaries and reports.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from narrows.records import Record
from narrows.scenario.traffic import kinds
from narrows.scenario.traffic.base import Amount as Amount
from narrows.scenario.traffic.base import Countable as Countable
from narrows.scenario.traffic.base import Group as Group
from narrows.scenario.traffic.base import Leg as Leg
from narrows.scenario.traffic.connections import Connections as Connections
from narrows.scenario.traffic.flows import Flows as Flows
from narrows.scenario.traffic.kinds import *  # noqa: F403

KINDS: Mapping[str, type[Group]] = {
    found.model_fields["kind"].default: found
    for found in vars(kinds).values()
    if isinstance(found, type) and issubclass(found, Group)
}
"""The kinds of traffic by name."""

RECORDS: Mapping[str, Record] = {
    record.table.name: record for kind in KINDS.values() for record in kind.records
}
"""What kinds of traffic record, by the name of its table."""

if TYPE_CHECKING:
    Traffic = Group
else:
    Traffic = Annotated[reduce(or_, KINDS.values()), Field(discriminator="kind")]
    """Any kind of traffic."""


def recorded_by(names: Iterable[object]) -> set[str]:
    """The names of the tables that kinds of traffic record."""
    known = [KINDS[name] for name in names if isinstance(name, str) and name in KINDS]
    return {record.table.name for kind in known for record in kind.records}

"""Traffic from a trace: a file with a list of times and lengths, sent again as datagrams."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic_core import PydanticCustomError

from narrows.scenario.amounts import Duration
from narrows.scenario.listings import FileName, packets
from narrows.scenario.quantities import PositiveSpan, refuse
from narrows.scenario.rules import Faults, rule
from narrows.scenario.traffic.streams import Streams

if TYPE_CHECKING:
    from narrows.scenario.planner import Planner


class Trace(Streams):
    """Datagrams at listed times, whether earlier ones arrive or not."""

    listed: ClassVar[tuple[str, ...]] = ("file",)

    kind: Literal["trace"] = "trace"
    """Which kind of traffic this is."""
    file: FileName
    """A file with a line for each packet: seconds after the stream's start, and the IP packet's
    length in bytes. Times must not fall. A relative name starts from the folder of the scenario's
    file. At most 1,000,000 packets and 64 MiB."""
    repeat: PositiveSpan | None = None
    """The list begins again after this time, which must not be before its last packet. Without it,
    the list is sent once."""

    @rule
    def _is_a_list(self) -> Faults:
        try:
            last, _ = packets(self.file, "file")[-1]
        except PydanticCustomError as fault:
            yield fault
            return
        if self.repeat is not None and self.repeat < last:
            yield refuse(
                f'is before the last packet of the list, at "{Duration(last)}"',
                "raise it or cut the list",
                "repeat",
            )

    def lower(self, planner: Planner) -> list[dict[str, Any]]:
        """One application, `trace`."""
        return [
            self.application(
                "trace",
                streams=self.lower_flows(planner),
                packets=packets(self.file, "file"),
                repeat_after=self.repeat,
                period=self.period,
            )
        ]

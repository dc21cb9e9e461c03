"""The analysis of Wijnen 2012 over any measurements: N servers, N days, one table of peaks."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt
import polars as pl

from narrows.errors import NarrowsError, argument
from narrows.ratio.failures import Failures, failures_of
from narrows.ratio.pairs import NO_TYPE, PAPER, Dropped, Pairs, Rules, pair_up, questions
from narrows.ratio.peaks import Peaks, peaks_of
from narrows.ratio.regression import Line, line_through
from narrows.ratio.resampling import Interval, of_medians
from narrows.ratio.servers import server_name
from narrows.records.numbers import Floats
from narrows.results import Measurement
from narrows.results.exchanges import AMBIGUOUS
from narrows.results.verdict_groups import group_verdicts

_MOST_SERVERS = 30
OTHERS = "other servers"
"""The name of the group of all servers except the thirty that were asked most."""


class RatioError(NarrowsError):
    """The measurements hold no pair; the error's text is one line."""


@dataclass(frozen=True)
class Group:
    """The pairs of one server: all of them, or those of a day or a measurement."""

    server: str
    day: dt.date | None
    """The day; None: all days."""
    table: pl.DataFrame = field(repr=False)
    source: str | None = None
    """The measurement; None: all measurements."""

    @property
    def label(self) -> str:
        """The server, with its day or measurement."""
        parts = [self.server, *([self.source] if self.source else [])]
        return ", ".join(parts if self.day is None else [*parts, str(self.day)])

    @cached_property
    def ratios(self) -> Floats:
        """The ratio of each pair."""
        return self.table["ratio"].to_numpy()

    @cached_property
    def vantage(self) -> npt.NDArray[np.int64]:
        """The number of each pair's vantage point, from 0."""
        _, codes = np.unique(self.table["vantage"].to_numpy(), return_inverse=True)
        return codes.astype(np.int64)

    @cached_property
    def peaks(self) -> Peaks:
        """Where the ratios gather."""
        return peaks_of(self.ratios, self.vantage)

    @property
    def all_truncated(self) -> bool:
        """Whether each pair's answer over UDP was truncated."""
        # An analysis by an earlier version lacks this.
        known = "udp_truncated" in self.table.columns
        return known and bool(self.table["udp_truncated"].fill_null(value=False).all())

    @cached_property
    def udp_ms(self) -> float:
        """Median of the times over UDP, in ms."""
        return float(np.median(self.table["udp_ms"].to_numpy()))

    @cached_property
    def excess_ms(self) -> tuple[float, Interval | None]:
        """Median of TCP's time minus twice UDP's, in ms, with its interval."""
        values = self.table["excess_ms"].to_numpy()
        return float(np.median(values)), of_medians(values, self.vantage)

    @cached_property
    def by_vantage(self) -> pl.DataFrame:
        """A row for each vantage point: medians of its pairs."""
        return (
            self.table.group_by("vantage")
            .agg(
                pl.len().alias("pairs"),
                pl.col("udp_ms", "tcp_ms", "ratio", "excess_ms", "excess_round_trips").median(),
            )
            .sort("vantage")
        )

    @cached_property
    def line(self) -> Line | None:
        """The line through TCP's times against UDP's, if there is one."""
        each = self.by_vantage
        return line_through(each["udp_ms"].to_numpy(), each["tcp_ms"].to_numpy())


@dataclass(frozen=True)
class Variant:
    """The result under another reading of the article."""

    rule: str
    count: int
    median: float | None
    around_2: float | None
    around_3: float | None


@dataclass(frozen=True, repr=False)
class RatioAnalysis:
    """Ratios of TCP's to UDP's response time.

    Attributes:
        table: All pairs, with the columns of `Pairs.table`, `name` and `day`.
        dropped: Queries that no pair contains, by reason.
        failures: Unanswered queries by server and transport.
        vantages: The places of the vantage points.
        rules: The rules that made the pairs.
        variants: The results under other rules.
        sources: The folders that were read.
        skipped: Records that the import could not use, by reason.
        warnings: Why the ratios may not mean what they seem to.
        verdicts: Sentences on what the exchanges of a probe or a run say about a server.
        asked: The questions, such as `example. SOA`; empty if there are many, or none is known.
    """

    table: pl.DataFrame
    dropped: tuple[Dropped, ...]
    failures: tuple[Failures, ...]
    vantages: pl.DataFrame
    rules: Rules
    variants: tuple[Variant, ...]
    sources: tuple[str, ...]
    skipped: tuple[tuple[str, int], ...] = ()
    warnings: tuple[str, ...] = ()
    verdicts: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()

    @cached_property
    def servers(self) -> list[str]:
        """Servers by name, `other servers` last."""
        names = [str(name) for name in self.table["name"].unique()]
        return sorted(names, key=lambda name: (name == OTHERS, name))

    @cached_property
    def days(self) -> list[dt.date]:
        """Days in order."""
        return sorted(self.table["day"].unique().to_list())

    @cached_property
    def whole(self) -> Group:
        """All pairs."""
        return Group("all servers" if len(self.servers) > 1 else self.servers[0], None, self.table)

    @cached_property
    def by_server(self) -> list[Group]:
        """A group for each server, over all days."""
        return [Group(name, None, self.table.filter(name=name)) for name in self.servers]

    @cached_property
    def by_server_and_day(self) -> list[Group]:
        """A group for each server and day that has pairs."""
        parts = {
            (str(name), day): part
            for (name, day), part in self.table.group_by("name", "day", maintain_order=True)
        }
        return [
            Group(name, day, parts[name, day])
            for name in self.servers
            for day in self.days
            if (name, day) in parts
        ]

    def by_source(self, server: str) -> list[Group]:
        """A group for each measurement of a server; none if there is only one measurement.

        A pair belongs to the measurement of its TCP query, because UDP may have been measured
        separately.
        """
        # An analysis by an earlier version does not know its measurements.
        table = self.table.filter(name=server)
        known = table["source"].unique().to_list() if "source" in table.columns else []
        found = [source for source in self.sources if source in known]
        if len(found) < 2:
            return []
        return [Group(server, None, table.filter(source=source), source) for source in found]

    def __repr__(self) -> str:
        return (
            f"<RatioAnalysis: {self.table.height} pairs, {len(self.servers)} servers, "
            f"{len(self.days)} days, median {self.whole.peaks.quantiles[0.5]:.3f}>"
        )


def analyse(
    measurements: Sequence[Measurement],
    rules: Rules = PAPER,
    *,
    servers: Sequence[str] = (),
    variants: bool = True,
) -> RatioAnalysis:
    """Pairs the queries of all measurements together.

    Args:
        measurements: One or more, from any source.
        rules: The rules for pairs.
        servers: Use only these servers, given by name or address; empty for all. An address alone
            stands for its servers at all ports.
        variants: Whether to compute the results under other rules too.

    Raises:
        RatioError: No query pairs with another; the message says why.
    """
    sources = _labels(measurements)
    exchanges = pl.concat(
        [
            part.exchanges.select(*_NEEDED, source=pl.lit(source))
            for part, source in zip(measurements, sources, strict=True)
        ]
    )
    exchanges = exchanges.with_columns(name=_names(exchanges), question=questions(exchanges))
    if servers:
        wanted = set(servers)
        chosen = exchanges.filter(
            pl.any_horizontal(pl.col(key).is_in(wanted) for key in ("name", "target", "server"))
        )
        if not chosen.height:
            known = ", ".join(sorted(exchanges["name"].unique())[:20])
            raise RatioError(f"{servers[0]}: was not asked; hint: the servers are {known}")
        exchanges = chosen
    exchanges = _few_servers(exchanges)
    pairs = pair_up(exchanges, rules)
    if not pairs.count:
        raise RatioError(_no_pairs(exchanges, pairs))
    skipped: dict[str, int] = {}
    for part in measurements:
        for reason, count in part.skipped.select("reason", "records").iter_rows():
            skipped[reason] = skipped.get(reason, 0) + count
    return RatioAnalysis(
        table=pairs.table.with_columns(
            day=pl.from_epoch(pl.col("started_s").cast(pl.Int64)).dt.date()
        ),
        dropped=pairs.dropped,
        failures=tuple(failures_of(_comparable(exchanges))),
        vantages=_places(measurements),
        rules=rules,
        variants=tuple(_variants(exchanges, rules)) if variants else (),
        sources=sources,
        skipped=tuple(sorted(skipped.items(), key=lambda item: -item[1])),
        warnings=tuple(_warnings(measurements, sources)),
        verdicts=tuple(_verdicts(measurements, set(exchanges["target"].unique()))),
        asked=_asked(exchanges),
    )


_MOST_ASKED = 3


def _asked(exchanges: pl.DataFrame) -> tuple[str, ...]:
    """The questions in order; none if there are more than fit into a sentence."""
    known = exchanges.select("qname", "qtype").drop_nulls().unique().sort("qname", "qtype")
    if known.height > _MOST_ASKED:
        return ()
    return tuple(f"{name} {kind}" for name, kind in known.iter_rows())


def _labels(measurements: Sequence[Measurement]) -> tuple[str, ...]:
    """Labels measurements by their folders, numbered if two have the same folder or none."""
    found: list[str] = []
    for part in measurements:
        name = str(part.folder or f"unsaved ({part.source})")
        again = sum(1 for other in found if other == name or other.startswith(f"{name} #"))
        found.append(f"{name} #{again + 1}" if again else name)
    return tuple(found)


def _verdicts(measurements: Sequence[Measurement], targets: set[str]) -> list[str]:
    """What the measurements themselves found, by server and vantage point."""
    said = []
    for part in measurements:
        for where, found in group_verdicts(part.findings.get("verdicts", ())):
            if found["target"] in targets:
                words = "; ".join([found["sentence"], *found["notes"]])
                over = found["transport"].upper()
                said.append(f"{found['target']} from {where} over {over}: {words}.")
        said += [
            f"{found['target']} over {found['transport'].upper()}: {found['sentence']}."
            for found in part.findings.get("kept", ())
            if found["target"] in targets
        ]
    return said


def _warnings(measurements: Sequence[Measurement], sources: Sequence[str]) -> list[str]:
    said = []
    for part, source in zip(measurements, sources, strict=True):
        if part.findings.get("watched_near") == "server":
            said.append(
                f"{source} was captured near the server, where times contain no round trip, so "
                "its ratios mean nothing; connections.ack_ms has the clients' round trips"
            )
        repeated = part.exchanges.filter(AMBIGUOUS).height
        if repeated:
            said.append(
                f"{repeated} answers of {source} are to queries that were asked more than once, so "
                "they may answer any attempt, and no pair contains them"
            )
        untold = _untold(part)
        if part.source == "capture" and untold:
            said.append(
                f"{untold} answers of {source} lack the type that was asked for, so they can "
                f"be in no pair if others have it; hint: {WHOLE_PACKETS}"
            )
        if not part.complete:
            said.append(f"{source} is partial: {part.stopped}")
    return said


WHOLE_PACKETS = "a capture that cuts packets loses names and types; tcpdump -s 0 keeps them"
"""A hint for measurements whose queries have unknown types."""


def _untold(part: Measurement) -> int:
    """The number of answers over UDP or TCP that do not show the question."""
    rows = part.exchanges.filter(pl.col("transport").is_in(["udp", "tcp"]), outcome="answered")
    return rows["qtype"].null_count()


_NEEDED = (
    "vantage",
    "target",
    "server",
    "family",
    "transport",
    "reused",
    "round",
    "started_s",
    "connect_ms",
    "query_ms",
    "total_ms",
    "outcome",
    "attempts",
    "replies",
    "qname",
    "qtype",
    "rcode",
    "truncated",
    "site",
    "measurement",
    "firmware",
)


def _names(exchanges: pl.DataFrame) -> pl.Series:
    targets = exchanges["target"].unique().to_list()
    names = {target: server_name(target) for target in targets}
    return exchanges["target"].replace_strict(names, return_dtype=pl.String)


def _few_servers(exchanges: pl.DataFrame) -> pl.DataFrame:
    """Gives all servers except the thirty that were asked most a common name."""
    counts = exchanges.group_by("name").len().sort("len", "name", descending=[True, False])
    if counts.height <= _MOST_SERVERS:
        return exchanges
    kept = set(counts["name"].head(_MOST_SERVERS))
    return exchanges.with_columns(
        name=pl.when(pl.col("name").is_in(kept)).then("name").otherwise(pl.lit(OTHERS))
    )


def _comparable(exchanges: pl.DataFrame) -> pl.DataFrame:
    """Queries of the kinds that the same server got over both UDP and TCP."""
    keys = ["name", "question"]
    both = (
        exchanges.filter(pl.col("transport").is_in(["udp", "tcp"]))
        .group_by(keys)
        .agg(pl.col("transport").n_unique().alias("transports"))
        .filter(pl.col("transports") == 2)
    )
    part = exchanges.filter(pl.col("transport").is_in(["udp", "tcp"]))
    return part.join(both, on=keys, how="semi", maintain_order="left")


def _places(measurements: Sequence[Measurement]) -> pl.DataFrame:
    tables = [part.vantages for part in measurements]
    return pl.concat(tables).unique("vantage", keep="first", maintain_order=True)


def _variants(exchanges: pl.DataFrame, rules: Rules) -> list[Variant]:
    found = []
    known = exchanges["rcode"].null_count() < exchanges.height
    for name, varied in rules.varied().items():
        ratios = pair_up(exchanges, varied).table["ratio"].to_numpy()
        some = len(ratios) > 0
        found.append(
            Variant(
                name if known or not varied.noerror_only else f"{name} (no reply's code is known)",
                len(ratios),
                float(np.median(ratios)) if some else None,
                float(((ratios >= 1.8) & (ratios <= 2.2)).mean()) if some else None,
                float(((ratios >= 2.7) & (ratios <= 3.3)).mean()) if some else None,
            )
        )
    return found


def _no_pairs(exchanges: pl.DataFrame, pairs: Pairs) -> str:
    asked = set(exchanges["transport"].unique())
    for transport in ("udp", "tcp"):
        if transport not in asked:
            where = " and ".join(sorted(exchanges["source"].unique())[:3])
            return (
                f"{where}: there are no queries over {transport.upper()}; "
                "hint: name the run folders of both transports together"
            )
    reasons = sorted(pairs.dropped, key=lambda part: -part.exchanges)[:3]
    said = "; ".join(f"{part.transport}: {part.exchanges} {part.reason}" for part in reasons)
    hint = f"{argument('window_s')} sets how far apart they may be"
    if any(part.reason == NO_TYPE for part in pairs.dropped):
        hint = WHOLE_PACKETS
    return f"no UDP answer pairs with a TCP answer ({said}); hint: {hint}"

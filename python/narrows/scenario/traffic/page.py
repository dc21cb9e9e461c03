"""Web pages: browsers that fetch objects, some of which are known only when others have come."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import cycle
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from narrows.records import (
    Completed,
    Headline,
    Metric,
    Plot,
    Record,
    Series,
    Spans,
    declared_table,
)
from narrows.scenario.amounts import Duration
from narrows.scenario.base import Table as Keys
from narrows.scenario.declared import Declared, DeclaredTable, find
from narrows.scenario.dns_quic import Quic
from narrows.scenario.draws import Pauses, Sizes, draw
from narrows.scenario.quantities import Name, Span, refuse
from narrows.scenario.rules import Faults, Unknown, rule
from narrows.scenario.tcp import Tcp
from narrows.scenario.traffic.asking import Asking, bounded
from narrows.scenario.traffic.base import Amount, Countable, Names
from narrows.scenario.traffic.page_names import LOOKUPS
from narrows.scenario.traffic.page_profiles import PROFILES
from narrows.scenario.traffic.secure import PageTls

if TYPE_CHECKING:
    import polars as pl

    from narrows.scenario.planner import Planner

BROWSERS = Countable("browser", "browsers", 100_000)
OBJECTS = Countable("page object", "page objects", 10_000_000, can_be="recorded")
MOST_OBJECTS = int(find("Page", "objects")["most"])
MOST_WAITS = 1_000_000

# Connections to a server, and requests at a time on each.
PROTOCOLS = {"http/1.1": (6, 1), "http/2": (1, 100), "http/3": (1, 100)}


def _times(pages: pl.DataFrame) -> pl.Series:
    """How long completed loads took."""
    return (pages.get_column("end_s") - pages.get_column("start_s")).drop_nulls()


def _summarise_pages(pages: pl.DataFrame, _end_s: float) -> dict[str, Any]:
    from narrows.records.numbers import floats, mean, percentile, reached

    times = floats(_times(pages))
    first = floats((pages.get_column("first_s") - pages.get_column("start_s")).drop_nulls())
    return {
        "loads": pages.height,
        "completed": len(times),
        "failed": int(pages.get_column("failed").sum()),
        "load_mean_s": mean(times),
        "load_p50_s": percentile(times, 0.5),
        "load_p95_s": reached(times, 95),
        "first_object_mean_s": mean(first),
        "connections_mean": mean(floats(pages.get_column("connections"))),
        "bytes": int(pages.get_column("bytes").sum()),
    }


def _pages_say(metrics: Mapping[str, Any]) -> str | None:
    if not metrics["completed"]:
        return None
    return (
        f"Curve: half of the {metrics['completed']} completed loads took at most "
        f"{metrics['load_p50_s']:.4g} s, 95 % of them {metrics['load_p95_s']:.4g} s."
    )


PAGES = Record(
    table=declared_table("pages"),
    title="pages",
    metrics=(
        Metric("loads", "loads", doc="Loads that began."),
        Metric("completed", "completed", doc="Loads whose objects all arrived."),
        Metric("failed", "failed", doc="Loads in which a connection failed.", better="lower"),
        Metric(
            "load_mean_s",
            "load time, mean",
            "s",
            doc="Time until the last object arrives, mean; of completed loads only, like the "
            "next two.",
            better="lower",
        ),
        Metric("load_p50_s", "load time, median", "s", better="lower"),
        Metric("load_p95_s", "load time, 95 % within", "s", better="lower"),
        Metric(
            "first_object_mean_s",
            "first object, mean",
            "s",
            doc="Time until the first object arrives, mean over all loads that got it.",
            better="lower",
        ),
        Metric("connections_mean", "connections of a load, mean"),
        Metric("bytes", "bytes of objects", "MB", 1e-6, doc="Bytes of all objects that arrived."),
    ),
    summarise=_summarise_pages,
    headline=Headline("load_p50_s", "median page load"),
    completed=Completed("loads", ("load_mean_s", "load_p50_s", "load_p95_s")),
    plots=(
        Plot(
            "page-cdf",
            title="Page load time, until the last object arrives",
            x="load time (s)",
            y="pages loaded\nwithin this time (%)",
            caption=(
                "From the start of a load, without connections, until the last object arrives. "
                "The curve ends below 100 % where loads failed or were unfinished at the end."
            ),
            says=_pages_say,
            series=(Series("", "pages", ("-", "end_s", "start_s"), shape="cdf"),),
        ),
    ),
)


def _summarise_objects(objects: pl.DataFrame, _end_s: float) -> dict[str, Any]:
    from narrows.records.numbers import floats, mean

    times = {
        "waited_mean_ms": objects.get_column("asked_s") - objects.get_column("ready_s"),
        "fetched_mean_ms": objects.get_column("end_s") - objects.get_column("asked_s"),
    }
    means = {key: mean(floats(spans)) for key, spans in times.items()}
    first = _first_load(objects)
    return {
        "objects": objects.height,
        "came": objects.height - objects.get_column("end_s").null_count(),
        **{key: None if value is None else 1e3 * value for key, value in means.items()},
        "shown": first.height,
    }


def _first_load(objects: pl.DataFrame) -> pl.DataFrame:
    """The requested objects of the load that began first."""
    import polars as pl

    if objects.is_empty():
        return objects
    # Of the rows that begin at the same time, this takes the first.
    at = objects.get_column("ready_s").arg_min() or 0
    first = objects.row(at, named=True)
    same = [pl.col(key) == first[key] for key in ("group", "browser", "load")]
    return objects.filter(*same).filter(pl.col("asked_s").is_not_null())


def _objects_say(metrics: Mapping[str, Any]) -> str | None:
    if not metrics["shown"]:
        return None
    took = "had not arrived at the end"
    if metrics["came"]:
        took = f"took {metrics['fetched_mean_ms']:.4g} ms from there"
    return (
        f"Bars: the {metrics['shown']} objects of the load. On average over all loads, "
        f"an object waited {metrics['waited_mean_ms']:.4g} ms for a connection (0 where one was "
        f"free) and {took}."
    )


WATERFALL = Record(
    table=declared_table("objects"),
    title="page objects",
    metrics=(
        Metric("objects", "objects"),
        Metric("came", "arrived", doc="Objects whose last byte arrived."),
        Metric(
            "waited_mean_ms",
            "wait for a connection, mean over all objects",
            "ms",
            doc="Time from when an object could be requested to its request, mean; 0 for "
            "objects that found a free connection.",
            better="lower",
        ),
        Metric("fetched_mean_ms", "request to last byte, mean", "ms", better="lower"),
        Metric(
            "shown",
            "objects of the first load",
            doc="Requested objects of the load that began first; a plot shows this load.",
        ),
    ),
    summarise=_summarise_objects,
    plots=(
        Plot(
            "page-waterfall",
            title="First page load, object by object",
            x="time since the load began (s)",
            y="objects, in the\npage's order",
            caption=(
                "The load that began first. A thin line is an object that waits for a "
                "connection, a thick one goes from its request to its last byte."
            ),
            says=_objects_say,
            bars=Spans(
                "objects",
                "object",
                ("ready_s", "asked_s", "end_s"),
                ("group", "browser", "load"),
                "{group}, browser {browser}, load {load}",
            ),
            single=True,
        ),
    ),
)


class PageObject(Keys):
    """An object of a page, or several of the same kind."""

    name: Name
    """Unique in its page."""
    size: Sizes
    """Bytes, at most 1 GB: a size, a list with one for each load, or a distribution."""
    number: Annotated[int, Field(strict=True, ge=1, le=MOST_OBJECTS)] = 1
    """Number of objects of this kind. An object that names this one in `after` waits for all of
    them."""
    after: Annotated[tuple[Name, ...], Field(max_length=1000, fail_fast=True)] = ()
    """Names of objects, listed before this one, that must have arrived before this one is
    requested."""
    wait: Span = Duration("0 s")
    """Time from the arrival of the last of these to the request: for parsing, or running a
    script."""
    server: Name | None = None
    """The node that has it, instead of the group's `server`."""


Objects = Annotated[tuple[PageObject, ...], Field(min_length=1, max_length=MOST_OBJECTS)]


class Page(
    DeclaredTable,
    Asking,
    declares="Page",
    without=(
        "responder",
        "servers",
        "tcp",
        "start",
        "connections",
        "streams",
        "secure",
        "resolver",
    ),
):
    """Browsers that load a web page by HTTP/1.1, 2 or 3. Each load opens new connections."""

    countables: ClassVar[tuple[Countable, ...]] = (BROWSERS, OBJECTS)
    records: ClassVar[tuple[Record, ...]] = (PAGES, WATERFALL, LOOKUPS)

    kind: Literal["page"] = "page"
    """Which kind of traffic this is."""
    server: Name
    """The node that answers."""
    protocol: Literal["http/1.1", "http/2", "http/3"] | None = None
    """`http/1.1`: up to six connections to each server, with one request at a time on each;
    `http/2`: one connection, with up to a hundred requests at a time; `http/3`: the same over QUIC,
    with a stream for each request. By default `http/3` if `transport` is `"quic"`, else
    `http/2`."""
    transport: Literal["tcp", "tls", "quic"] = "tcp"
    """What carries the page: TCP without encryption, TLS 1.3 on TCP, or QUIC (RFC 9000), which is
    always encrypted."""
    tls: PageTls = PageTls.usual()
    """Sessions and certificates, if the transport is encrypted."""
    quic: Quic = Quic.usual()
    """How both ends speak QUIC."""
    objects: Objects | None = None
    """What the page consists of; the first object is the page itself. Give this or `profile`."""
    profile: Literal["desktop-2024"] | None = None
    """A named page. `desktop-2024` has the types, sizes and numbers of objects of the median home
    page in October 2024 (HTTP Archive, Web Almanac 2024)."""
    pause: Pauses = Duration("0 s")
    """Time from the end of a load to the start of the next: a duration, a list, or a
    distribution."""

    resolver: Name | None = None
    """The DNS group that browsers ask for the names of servers before they connect, once for each
    name in a load. It begins at the same node, and has `queries = 0`. Without it, browsers know all
    addresses."""
    hosts: Annotated[int, Field(strict=True, ge=1, le=MOST_OBJECTS)] | None = None
    """Number of names of a page, dealt to its servers in turn; a server's objects are dealt to its
    names in turn. Browsers have connections of their own for each name. By default one for each
    server."""
    cached: Annotated[float, Declared("PageResolver", "cached")] = 0.0
    """Share of the names that a browser knows when it needs them, from an earlier load or another
    page."""

    @rule
    def _names_have_a_use(self) -> Faults:
        if self.resolver is not None:
            return
        # A run's scenario has every default.
        for key in ("hosts", "cached"):
            if getattr(self, key):
                yield refuse("has no effect without a resolver", "name a DNS group", key)

    @rule
    def _names_are_enough(self) -> Faults:
        servers, of_each = len(self._servers), self.of_each
        if self.hosts is not None and not servers <= self.hosts <= of_each:
            yield refuse(
                f"must be {servers} to {of_each}: each server has a name, and each name an object",
                "leave it out, or change it",
                "hosts",
            )

    @rule
    def _has_one_list_of_objects(self) -> Faults:
        if (self.objects is None) == (self.profile is None):
            said = "is missing" if self.objects is None else "excludes profile"
            yield refuse(said, 'or profile = "desktop-2024"', "objects")

    @rule
    def _objects_are_possible(self) -> Faults:
        seen: set[str] = set()
        named_well = True
        for index, entry in enumerate(self.objects or ()):
            key = f"objects[{index}]"
            if entry.name in seen:
                named_well = False
                yield refuse(f'"{entry.name}" is already used', "use number", f"{key}.name")
            for place, name in enumerate(entry.after):
                if name not in seen:
                    named_well = False
                    hint = "objects come after those that they depend on"
                    yield refuse(
                        f'"{name}" is not an object before this one', hint, f"{key}.after[{place}]"
                    )
            seen.add(entry.name)
            yield from bounded(entry.size, f"{key}.size")
        if self.of_each > MOST_OBJECTS:
            yield refuse(f"are {self.of_each}; a page has at most {MOST_OBJECTS}", "", "objects")
        elif named_well:
            yield from self._waits_are_few()

    def _waits_are_few(self) -> Faults:
        numbers = {entry.name: entry.number for entry in self.entries}
        waits = sum(
            entry.number * sum(numbers[name] for name in entry.after) for entry in self.entries
        )
        if waits > MOST_WAITS:
            yield refuse(
                f"wait for {waits} others in all; at most {MOST_WAITS} can be held",
                "let them wait for fewer",
                "objects",
            )

    @rule
    def _transport_carries_the_protocol(self) -> Faults:
        if self.protocol == "http/3" and self.transport != "quic":
            yield refuse("runs over QUIC", 'set transport = "quic"', "protocol")
        if self.transport == "quic" and self.protocol not in (None, "http/3"):
            yield refuse(
                f"does not carry {self.protocol}",
                'leave protocol out, or set "http/3"',
                "transport",
            )

    @rule
    def _tcp_has_a_use(self) -> Faults:
        if self.transport == "quic" and self.tcp != Tcp():
            yield refuse('is for TCP, but transport is "quic"', "leave it out", "tcp")

    @rule
    def _quic_has_a_use(self) -> Faults:
        # A page over HTTP/3 needs the transport, so only the transport is reported.
        needs_quic = self.protocol == "http/3"
        if self.transport != "quic" and not needs_quic and self.quic != Quic():
            yield refuse("has no effect without QUIC", 'set transport = "quic"', "quic")

    @rule
    def _tls_has_a_use(self) -> Faults:
        if self.transport == "tcp" and self.protocol != "http/3" and self.tls != PageTls():
            yield refuse("has no effect without TLS", 'set transport = "tls" or "quic"', "tls")

    @property
    def speaks(self) -> str:
        """The protocol in effect."""
        return self.protocol or ("http/3" if self.transport == "quic" else "http/2")

    @property
    def entries(self) -> tuple[PageObject, ...]:
        """The objects in effect."""
        if self.objects is not None:
            return self.objects
        if self.profile is None:
            raise Unknown("objects")
        return tuple(
            PageObject(name=kind.name, size=f"{kind.size} B", number=kind.count, after=kind.after)
            for kind in PROFILES[self.profile]
        )

    @property
    def of_each(self) -> int:
        """Objects of a load."""
        return sum(entry.number for entry in self.entries)

    @property
    def _servers(self) -> list[str]:
        """The nodes that answer, without repetition."""
        return [*dict.fromkeys(entry.server or self.server for entry in self.entries)]

    @property
    def names(self) -> int:
        """The number of its names that browsers may have to ask for; 0: they ask for none."""
        return 0 if self.resolver is None else self.hosts or len(self._servers)

    def keyed_servers(self) -> Iterator[tuple[str, str]]:
        """The server of the page, and those of its objects."""
        yield "server", self.server
        for index, entry in enumerate(self.objects or ()):
            if entry.server is not None:
                yield f"objects[{index}].server", entry.server

    def asks_for_names(self) -> Iterator[Names]:
        """The names of its servers."""
        if self.resolver is not None:
            yield Names("resolver", self.resolver, self.client, self.browsers * self.names)

    def beginnings(self) -> tuple[int, int]:
        """When the first and the last browser begin, at the latest."""
        return self.start, self.start + self.spread

    @property
    def wants_ecn(self) -> bool:
        """Whether its connections use ECN."""
        return self.quic.wants_ecn if self.transport == "quic" else super().wants_ecn

    def amounts(self) -> Iterator[Amount]:
        """Its browsers, and the objects of all loads."""
        yield Amount(self.browsers, BROWSERS, "browsers")
        objects = self.browsers * self.loads * self.of_each
        yield Amount(objects, OBJECTS, "loads", "browsers or objects")

    def lower(self, planner: Planner) -> list[dict[str, Any]]:
        """Two applications: the browsers, and what answers at all servers."""
        nodes = self._servers
        # Each name is an entry in the plan's list of servers.
        servers = [nodes[number % len(nodes)] for number in range(self.names or len(nodes))]
        connections, streams = PROTOCOLS[self.speaks]
        quic = self.quic if self.transport == "quic" else None
        encrypts = self.transport != "tcp"
        browsers = self.application(
            "page",
            responder=planner.position + 1,
            servers=[self.paths(planner, server) for server in servers],
            tcp=self.tcp_settings(planner),
            start=self.start,
            connections=connections,
            streams=streams,
            secure=self.tls.client(self.speaks, quic) if encrypts else None,
            resolver=None,
            **self.plain() | {"objects": list(self._objects(servers))},
        )
        if self.resolver is not None:
            planner.at_last(lambda: self._ask(planner, browsers["kind"]["page"]))
        return [browsers, self.responder(planner, self.tls.server(quic) if encrypts else None)]

    def _ask(self, planner: Planner, plan: dict[str, Any]) -> None:
        """Gives the plan of its browsers the resolver, which then has places for their names."""
        assert self.resolver is not None, "it has one"
        client = planner.find(self.resolver, "dns-client")
        plan["resolver"] = {"client": client, "cached": self.cached}
        planner.applications[client]["kind"]["dns-client"]["workers"] += self.browsers * self.names

    def _objects(self, servers: list[str]) -> Iterator[dict[str, Any]]:
        """The page's objects in the plan, with entries for several objects written out."""
        names = {node: cycle(_places(servers, node)) for node in servers}
        places: dict[str, range] = {}
        first = 0
        for entry in self.entries:
            places[entry.name] = range(first, first + entry.number)
            first += entry.number
            for number in range(entry.number):
                yield {
                    "name": entry.name if entry.number == 1 else f"{entry.name}/{number}",
                    "server": next(names[entry.server or self.server]),
                    "bytes": draw(entry.size),
                    "after": [place for name in entry.after for place in places[name]],
                    "wait": entry.wait,
                }


def _places(entries: list[str], entry: str) -> list[int]:
    """Where a list has an entry."""
    return [place for place, other in enumerate(entries) if other == entry]

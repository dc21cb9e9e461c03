"""A map of vantage points coloured by ratio, as SVG with texts on hover.

The outlines of countries are Natural Earth's (1:110m, public domain). They come with narrows, which
fetches nothing. Longitude and latitude are plotted directly, from 60 degrees south to 84 north.
"""

from __future__ import annotations

import gzip
import json
from functools import cache
from html import escape
from importlib import resources

import polars as pl

from narrows.ratio.analysis import Group
from narrows.ratio.plots.colours import RANGES, range_of

SOUTH, NORTH = -60.0, 84.0
LAND = "#d9dee4"
_PAPER = "#ffffff"
_SCALE = 1000.0 / 360.0


@cache
def outlines() -> tuple[tuple[tuple[float, float], ...], ...]:
    """The outlines of countries, as longitudes and latitudes."""
    data = resources.files("narrows.ratio").joinpath("data/countries-110m.json.gz").read_bytes()
    rings = json.loads(gzip.decompress(data))
    return tuple(tuple((float(x), float(y)) for x, y in ring) for ring in rings)


def placed(group: Group, vantages: pl.DataFrame) -> pl.DataFrame:
    """A row for each vantage point whose place is known, ordinary ratios first.

    Unusual ratios are therefore on top on the map.
    """
    known = vantages.filter(
        pl.col("latitude").is_between(-90.0, 90.0) & pl.col("longitude").is_between(-180.0, 180.0)
    )
    table = group.by_vantage.join(known, on="vantage", how="inner")
    kind = pl.Series("kind", range_of(table["ratio"].to_numpy()))
    # Two round trips come first, then the other ratios by their distance from two.
    return table.with_columns(kind).sort((pl.col("kind") - 1).abs(), "vantage")


def hover_map(points: pl.DataFrame, name: str, alt: str) -> str:
    """The same map as an element of a page; each point describes itself under the pointer.

    Args:
        points: The result of `placed`.
        name: Unique on the page.
        alt: What the map shows, in one sentence.
    """
    height = (NORTH - SOUTH) * _SCALE
    land = "".join(
        "M" + "L".join(f"{_x(x):.1f} {_y(y):.1f}" for x, y in ring) + "Z"
        for ring in outlines()
        if max(y for _, y in ring) > SOUTH
    )
    radius = 4.0 if points.height < 1_500 else 2.2
    spots = []
    for row in points.iter_rows(named=True):
        colour = RANGES[row["kind"]].colour
        spots.append(
            f'<circle cx="{_x(row["longitude"]):.1f}" cy="{_y(row["latitude"]):.1f}" '
            f'r="{radius}" fill="var(--{colour})">'
            f"<title>{escape(_said(row))}</title></circle>"
        )
    return (
        f'<svg viewBox="0 0 1000 {height:.0f}" role="img" aria-labelledby="{name}-title" '
        f'class="map"><title id="{name}-title">{escape(alt)}</title>'
        f'<path d="{land}" fill="var(--grid, {LAND})" stroke="var(--paper, {_PAPER})" '
        f'stroke-width="0.6"/><g fill-opacity="0.85">{"".join(spots)}</g></svg>'
    )


def _x(longitude: float) -> float:
    return (longitude + 180.0) * _SCALE


def _y(latitude: float) -> float:
    return (NORTH - latitude) * _SCALE


def _said(row: dict[str, object]) -> str:
    where = [str(row["country"])] if row["country"] else []
    where += [f"AS{row['asn']}"] if row["asn"] else []
    where += [str(row["hardware"])] if row["hardware"] else []
    place = f" ({', '.join(where)})" if where else ""
    return (
        f"{row['vantage']}{place}: ratio {row['ratio']:.2f} "
        f"({row['tcp_ms']:.1f} ms over TCP, {row['udp_ms']:.1f} ms over UDP, "
        f"{row['pairs']} pair{'' if row['pairs'] == 1 else 's'})"
    )

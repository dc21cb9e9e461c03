"""Where Atlas probes are: vantage points from the archive of probes.

The archive and the list of probes have two forms: coordinates as keys, or as a GeoJSON point; tags
as texts, or as objects with a slug. RIPE blurs positions by up to a kilometre.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from narrows import _core
from narrows.atlas.errors import AtlasError
from narrows.results.exchanges import MEASUREMENT_TABLES

_LARGEST = 256 * 2**20
_HINT = "narrows import atlas --download k prints how to download one"
_HARDWARE = {
    "system-anchor": "anchor",
    "system-software": "software",
    **{f"system-v{number}": f"v{number}" for number in range(1, 10)},
}


def read_probes(path: str | Path) -> pl.DataFrame:
    """The table `vantages` from a probe archive or a list of probes, compressed or not.

    Raises:
        AtlasError: The file cannot be read, or is neither.
    """
    file = Path(path)
    try:
        data = _core.decompressed(file, _LARGEST)
    except OSError as error:
        raise AtlasError(file, (error.strerror or str(error)).lower(), "check the path") from None
    except ValueError:
        raise AtlasError(file, f"is longer than {_LARGEST >> 20} MB", _HINT) from None
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        raise AtlasError(file, "is not a JSON document", _HINT) from None
    probes = document
    if isinstance(document, dict):
        probes = document.get("objects", document.get("results"))
    if not isinstance(probes, list):
        raise AtlasError(file, "does not hold a list of probes", _HINT)
    rows = [row for probe in probes if (row := _row(probe)) is not None]
    if not rows:
        raise AtlasError(file, "holds no probe with a number", _HINT)
    schema = MEASUREMENT_TABLES["vantages"].schema
    table = pl.DataFrame(rows, schema=schema, orient="row", infer_schema_length=None)
    return table.unique("vantage", keep="last", maintain_order=True)


def _row(probe: object) -> tuple[Any, ...] | None:
    """A probe's row; None if it is not a probe. Values of other types than RIPE's are null."""
    if not isinstance(probe, dict):
        return None
    number = probe.get("id")
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        return None
    latitude, longitude = _position(probe)
    tags = set(_tags(probe.get("tags")))
    hardware = next((name for tag, name in _HARDWARE.items() if tag in tags), None)
    if probe.get("is_anchor") is True:
        hardware = "anchor"
    country = probe.get("country_code")
    network = next((n for key in ("asn_v4", "asn_v6") if _is_asn(n := probe.get(key))), None)
    address = next((a for key in ("address_v4", "address_v6") if (a := probe.get(key))), None)
    name = probe.get("description")
    return (
        str(number),
        name if isinstance(name, str) else None,
        address if isinstance(address, str) else None,
        latitude,
        longitude,
        country if isinstance(country, str) and len(country) == 2 else None,
        network,
        hardware,
    )


def _position(probe: Mapping[str, Any]) -> tuple[float | None, float | None]:
    latitude, longitude = probe.get("latitude"), probe.get("longitude")
    geometry = probe.get("geometry")
    if latitude is None and isinstance(geometry, dict):
        point = geometry.get("coordinates")
        if isinstance(point, list) and len(point) == 2:
            longitude, latitude = point
    if _is_number(latitude, 90.0) and _is_number(longitude, 180.0):
        return float(latitude), float(longitude)  # type: ignore[arg-type]
    return None, None


def _is_number(value: object, most: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= most


def _is_asn(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**32


def _tags(tags: object) -> Iterable[str]:
    if isinstance(tags, list):
        for tag in tags:
            slug = tag.get("slug") if isinstance(tag, dict) else tag
            if isinstance(slug, str):
                yield slug

"""Reads profiles from the TOML files next to this one."""

from __future__ import annotations

import functools
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from narrows.errors import NarrowsError, one_line

if TYPE_CHECKING:
    from pydantic import BaseModel

    from narrows.dns_profiles.models import Client, Server, Sizes

Model = TypeVar("Model", bound="BaseModel")

_FOLDER = Path(__file__).parent


def names(kind: str) -> list[str]:
    """The profiles of a kind: the files in its folder."""
    return sorted(entry.stem for entry in (_FOLDER / kind).glob("*.toml"))


def read(kind: str, name: str, model: type[Model]) -> Model:
    """One profile; an unknown name is a user error."""
    known = names(kind)
    if name not in known:
        what = {"clients": "DNS client", "servers": "DNS server", "sizes": "size"}[kind]
        raise NarrowsError(
            f"no {what} profile {one_line(repr(name))}; hint: one of {', '.join(known)}"
        )
    text = (_FOLDER / kind / f"{name}.toml").read_text("utf-8")
    return model.model_validate({"name": name, **tomllib.loads(text)})


def clients() -> list[str]:
    """Names of client profiles.

    Examples:
        >>> "unbound" in clients()
        True
    """
    return names("clients")


def servers() -> list[str]:
    """Names of server profiles."""
    return names("servers")


def sizes_names() -> list[str]:
    """Names of size profiles."""
    return names("sizes")


@functools.cache
def client(name: str) -> Client:
    """A client profile.

    Examples:
        >>> client("glibc").timeouts_s
        (5.0, 5.0)
    """
    from narrows.dns_profiles.models import Client

    return read("clients", name, Client)


@functools.cache
def server(name: str) -> Server:
    """A server profile."""
    from narrows.dns_profiles.models import Server

    return read("servers", name, Server)


@functools.cache
def sizes(name: str) -> Sizes:
    """A size profile."""
    from narrows.dns_profiles.models import Sizes

    return read("sizes", name, Sizes)

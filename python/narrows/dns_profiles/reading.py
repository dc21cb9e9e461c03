"""Reads profiles from the TOML files next to this one."""

from __future__ import annotations

import functools
import tomllib
from importlib import resources
from typing import TypeVar

from pydantic import BaseModel

from narrows.dns_profiles.models import Client, Server, Sizes
from narrows.errors import NarrowsError, one_line

Model = TypeVar("Model", bound=BaseModel)


def names(kind: str) -> list[str]:
    """The profiles of a kind: the files in its folder."""
    folder = resources.files("narrows.dns_profiles") / kind
    return sorted(
        entry.name.removesuffix(".toml")
        for entry in folder.iterdir()
        if entry.name.endswith(".toml")
    )


def read(kind: str, name: str, model: type[Model]) -> Model:
    """One profile; an unknown name is a user error."""
    known = names(kind)
    if name not in known:
        what = {"clients": "DNS client", "servers": "DNS server", "sizes": "size"}[kind]
        raise NarrowsError(
            f"no {what} profile {one_line(repr(name))}; hint: one of {', '.join(known)}"
        )
    text = (resources.files("narrows.dns_profiles") / kind / f"{name}.toml").read_text("utf-8")
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
    return read("clients", name, Client)


@functools.cache
def server(name: str) -> Server:
    """A server profile."""
    return read("servers", name, Server)


@functools.cache
def sizes(name: str) -> Sizes:
    """A size profile."""
    return read("sizes", name, Sizes)

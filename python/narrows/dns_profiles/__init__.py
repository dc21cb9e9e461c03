"""What real DNS clients and servers do, as profiles that scenarios can name.

Each profile is a TOML file, and each value names its source: a trial with the program itself
(tests/dns_behaviour), or a page of its documentation. docs/dns-clients.md and docs/dns-servers.md
show the profiles as tables.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from narrows.dns_profiles.reading import client, clients, server, servers, sizes, sizes_names

if TYPE_CHECKING:
    from narrows.dns_profiles.models import (
        Client,
        ClientQuic,
        ClientTls,
        Reply,
        Server,
        ServerQuic,
        ServerTls,
        SizeChoice,
        Sizes,
    )

__all__ = [
    "Client",
    "ClientQuic",
    "ClientTls",
    "Reply",
    "Server",
    "ServerQuic",
    "ServerTls",
    "SizeChoice",
    "Sizes",
    "client",
    "clients",
    "server",
    "servers",
    "sizes",
    "sizes_names",
]


def __getattr__(name: str) -> Any:
    """Imports the models on first use: most scenarios name no profile."""
    if name in __all__:
        return getattr(import_module(f"{__name__}.models"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

"""What real DNS clients and servers do, as profiles that scenarios can name.

Each profile is a TOML file, and each value names its source: a trial with the program itself
(tests/dns_behaviour), or a page of its documentation. docs/dns-clients.md and docs/dns-servers.md
show the profiles as tables.
"""

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
from narrows.dns_profiles.reading import client, clients, server, servers, sizes, sizes_names

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

"""Names of root servers by their current and earlier addresses (IANA's root hints since 2010)."""

from __future__ import annotations

from collections.abc import Mapping

_ADDRESSES: Mapping[str, str] = {
    "A": "198.41.0.4 2001:503:ba3e::2:30",
    "B": "192.228.79.201 199.9.14.201 170.247.170.2 2001:500:84::b 2001:500:200::b 2801:1b8:10::b",
    "C": "192.33.4.12 2001:500:2::c",
    "D": "128.8.10.90 199.7.91.13 2001:500:2d::d",
    "E": "192.203.230.10 2001:500:a8::e",
    "F": "192.5.5.241 2001:500:2f::f",
    "G": "192.112.36.4 2001:500:12::d0d",
    "H": "128.63.2.53 198.97.190.53 2001:500:1::803f:235 2001:500:1::53",
    "I": "192.36.148.17 2001:7fe::53",
    "J": "192.58.128.30 2001:503:c27::2:30",
    "K": "193.0.14.129 2001:7fd::1",
    "L": "199.7.83.42 2001:500:3::42 2001:500:9f::42",
    "M": "202.12.27.33 2001:dc3::35",
}

_NAMES = {
    address: f"{letter}-root"
    for letter, addresses in _ADDRESSES.items()
    for address in addresses.split()
}


def server_name(target: str) -> str:
    """Returns a root server's name for its address, and any other text unchanged.

    Examples:
        >>> server_name("193.0.14.129"), server_name("192.0.2.1")
        ('K-root', '192.0.2.1')
    """
    return _NAMES.get(target, target)

"""Unbound's shorter timeouts hold during TLS handshakes, as the profile says."""

from __future__ import annotations

import itertools

import pytest

from narrows import dns_profiles

from . import busy_handshakes
from .busy_handshakes import GAP, PIECES, ROOM, Shown
from .clients import installed
from .conftest import INSTALL, skip_other_release

PROFILE = dns_profiles.server("unbound")


@pytest.fixture(scope="module")
def shown() -> Shown:
    """What the installed Unbound does."""
    if reason := busy_handshakes.missing():
        pytest.skip(f"{reason}; {INSTALL}")
    version = installed(["unbound", "-V"])()
    assert version is not None
    skip_other_release("unbound", PROFILE.version, version)
    return busy_handshakes.trial()


def level(place: int) -> float:
    """The timeout of the connection at a place of the table, by the profile."""
    in_use = place if PROFILE.busy_counts_new else place - 1
    return min(
        (span for share, span in PROFILE.busy_levels if in_use / ROOM > share),
        default=PROFILE.idle_timeout_s,
    )


LATE = 1.5
"""Seconds by which a busy machine may be late."""


@pytest.mark.servers
@pytest.mark.parametrize("does", [each.__name__ for each in busy_handshakes.FILLED])
def test_each_stage_of_a_handshake_has_the_timeout_of_its_place(shown: Shown, does: str) -> None:
    for place, found in enumerate(shown.by_place[does], 1):
        assert found is not None
        assert level(place) - 0.05 <= found <= level(place) + LATE, place
    # The timeouts differ by less than a machine may be late, but their order shows.
    assert [level(place) for place in (5, 6, 7, 10)] == [30.0, 0.3, 0.2, 0.2]


@pytest.mark.servers
def test_each_piece_of_a_handshake_begins_the_timeout_again(shown: Shown) -> None:
    last = (PIECES - 2) * GAP
    assert shown.slow_hello is not None
    assert shown.slow_hello >= last + level(ROOM) - 0.05
    assert all(span > GAP for _, span in PROFILE.busy_levels)


@pytest.mark.servers
def test_half_a_query_has_the_timeout_of_its_place(shown: Shown) -> None:
    assert shown.half_query is not None
    assert level(ROOM) - 0.05 <= shown.half_query <= level(ROOM) + LATE


@pytest.mark.servers
def test_a_place_keeps_its_shorter_timeout(shown: Shown) -> None:
    assert PROFILE.busy_stays
    assert shown.afterwards is not None
    assert shown.afterwards <= level(ROOM) + LATE


@pytest.mark.servers
def test_each_port_has_a_table_of_its_own(shown: Shown) -> None:
    """The simulator has one for all ports of a server (docs/limits.md)."""
    assert shown.other_port is None


def test_the_levels_of_the_profile_get_shorter() -> None:
    spans = [level(place) for place in range(1, ROOM + 1)]
    assert all(later <= earlier for earlier, later in itertools.pairwise(spans))

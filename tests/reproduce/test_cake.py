"""The reproduction of CAKE: its tolerances, and a run of it."""

from __future__ import annotations

import pytest

from narrows.reproduce import select
from narrows.reproduce.hoiland_jorgensen_2018.claims import delay_tolerance, rate_tolerance
from narrows.reproduce.hoiland_jorgensen_2018.published import CONNECTIONS, RRUL, SHARES
from narrows.reproduce.runner import reproduce


def test_published_shares_are_whole() -> None:
    for shares in SHARES.values():
        whole = sum(
            share * count for share, count in zip(shares, CONNECTIONS.values(), strict=True)
        )
        assert whole == pytest.approx(100.0)


def test_published_uploads_add_up_but_in_one_row() -> None:
    """Which the claim says, since the row has a median of each column."""
    apart = [row.number for row in RRUL if abs(sum(row.classes) - row.up) > 0.05]
    assert apart == [7]


def test_tolerances_have_a_least_width() -> None:
    assert [rate_tolerance(rate) for rate in (5.0, 0.5, 0.04)] == [0.5, 0.05, 0.01]
    assert [delay_tolerance(ms, 50) for ms in (51.0, 90.0)] == [1.0, 10.0]
    assert delay_tolerance(51.0, 99) == 2.0


def test_tins_decide_what_a_code_point_gets() -> None:
    ((paper, claims),) = select(["CAKE-C1", "CAKE-C3"])
    outcome = reproduce(paper, claims=claims, seeds=2, quick=True)
    assert not outcome.failures
    (flat,) = {round(value, 1) for value in outcome.values("rrul-10-besteffort", "up-bk")}
    assert flat == 2.3
    by_class = [
        min(outcome.values("rrul-10-diffserv4", f"up-{name}")) for name in ("be", "ef", "bk")
    ]
    assert by_class[0] > 3 * by_class[1] and by_class[1] > 1.8 * by_class[2]
    # Within its tin's threshold, a probe passes the bulk of the others.
    assert max(outcome.values("rrul-10-diffserv4", "icmp-50")) < 53

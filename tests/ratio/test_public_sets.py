"""The Google set of 2017 (recdnsfp), against numbers that were computed from it independently."""

from __future__ import annotations

import pytest

from narrows.atlas import read_atlas
from narrows.ratio import Rules, analyse
from tests.shared_data import DATA, REASON, absent

pytestmark = pytest.mark.skipif(absent("atlas"), reason=REASON)


def test_the_google_set() -> None:
    files = [DATA / "atlas" / f"recdnsfp-google-{name}.json.gz" for name in ("tcp", "qname")]
    analysis = analyse([read_atlas(files)], Rules(window_s=float("inf")), variants=False)
    peaks = analysis.whole.peaks
    assert peaks.count == 8667
    found = {share: round(value, 2) for share, value in peaks.quantiles.items()}
    assert found == {0.05: 1.39, 0.25: 1.89, 0.5: 1.99, 0.75: 2.09, 0.95: 2.73}
    assert round(100 * peaks.shares["around_2"]) == 67
    assert round(100 * peaks.shares["above_10"], 1) == 0.6
    tcp, udp = analysis.failures
    assert (tcp.transport, tcp.asked, tcp.failed) == ("tcp", 9363, 579)
    assert (round(100 * tcp.share, 1), round(100 * udp.share, 1)) == (6.2, 1.8)
    # No two are closer than 5,360 s.
    assert analysis.table["apart_s"].abs().min() == 5360.0


def test_resolvers_of_probes_pair_by_probe_and_resolver() -> None:
    files = [DATA / "atlas" / f"recdnsfp-probes-{name}.json.gz" for name in ("tcp", "qname")]
    analysis = analyse([read_atlas(files)], Rules(window_s=float("inf")), variants=False)
    # Six resolvers stand twice in the list of their probe.
    assert analysis.table.unique(["vantage", "target"]).height == 9176
    assert analysis.table.height == 9182
    assert round(analysis.whole.peaks.quantiles[0.5], 2) == 1.97

"""Whole public sets of Atlas results, against counts from their sources or other parsers."""

from __future__ import annotations

import polars as pl
import pytest

from narrows.atlas import AtlasError, read_atlas, read_probes
from tests.shared_data import DATA, REASON, absent

pytestmark = pytest.mark.skipif(absent("atlas"), reason=REASON)

ATLAS = DATA / "atlas"


def outcomes(*names: str) -> dict[tuple[str, str], int]:
    exchanges = read_atlas([ATLAS / name for name in names]).exchanges
    counts = exchanges.group_by("transport", "outcome").len()
    return {(row[0], row[1]): row[2] for row in counts.iter_rows()}


def test_the_google_set_has_the_outcomes_that_its_source_counts() -> None:
    found = outcomes("recdnsfp-google-tcp.json.gz", "recdnsfp-google-qname.json.gz")
    tcp = {outcome: count for (transport, outcome), count in found.items() if transport == "tcp"}
    assert sum(tcp.values()) == 9363
    # TU_READ_ERR; timeout; TUCONNECT refused; no route and unreachable; TCPREADSIZE.
    assert (tcp["closed"], tcp["timeout"], tcp["refused"]) == (414, 103, 41)
    assert (tcp["unreachable"], tcp["malformed"]) == (15 + 3, 3)
    assert round(100 * (1 - tcp["answered"] / 9363), 1) == 6.2
    assert (found["udp", "timeout"], found["udp", "not-asked"]) == (167, 2)


def test_the_probes_refusal_to_ask_is_no_failure_of_the_server() -> None:
    found = outcomes("recdnsfp-probes-tcp.json.gz")
    # 6,432 TU_BAD_ADDR, and 2 probes without any resolver.
    assert found["tcp", "not-asked"] == 6432 + 2


def test_results_of_the_official_parsers_tests_are_all_read() -> None:
    measurement = read_atlas([ATLAS / "sagan-test-dns.jsonl"])
    again = measurement.skipped.filter(reason="the same result again")["records"].sum()
    assert measurement.exchanges.height + again == 1 + 5 + 2 + 51
    assert set(measurement.skipped["reason"]) == {"the same result again"}
    firmware = measurement.exchanges["firmware"]
    assert (firmware.min(), firmware.max(), firmware.n_unique()) == (4460, 4720, 14)


def test_what_a_probe_prints_itself_is_read() -> None:
    exchanges = read_atlas([ATLAS / "software-probe-evtdig.out.txt"]).exchanges
    transports = dict(exchanges["transport"].value_counts().iter_rows())
    assert transports["tls"] == transports["https"] == 1
    # qt leaves the handshake out: 1000.001 of 2000.002 ms.
    secure = exchanges.filter(pl.col("transport").is_in(["tls", "https"]))
    assert secure["query_ms"].to_list() == [1000.001, 1000.001]


def test_the_version_of_k_root_is_read() -> None:
    sites = read_atlas([ATLAS / "weineran-kroot-v6-11501.jsonl"]).exchanges["site"]
    assert sites.drop_nulls().mode().to_list() == ["NSD 3.2.14"]


@pytest.mark.parametrize("name", ["gmmoura-10310-excerpt.csv", "rssmon-kroot-udp-soa.dat"])
def test_files_of_other_kinds_are_refused(name: str) -> None:
    with pytest.raises(AtlasError, match="holds no DNS result"):
        read_atlas([ATLAS / name])


def test_the_probe_archive_places_every_probe_of_the_google_set() -> None:
    places = read_probes(ATLAS / "probe-archive-20181211.json.gz")
    assert places.height == 23_823
    measurement = read_atlas(
        [ATLAS / "recdnsfp-google-tcp.json.gz"], probes=ATLAS / "probe-archive-20181211.json.gz"
    )
    assert measurement.vantages.height == 9363
    assert measurement.vantages["country"].null_count() == 0
    assert measurement.vantages["latitude"].null_count() == 0
    hardware = set(measurement.vantages["hardware"].drop_nulls())
    assert {"v1", "v2", "v3", "anchor"} <= hardware

"""Groups whose QUIC probes as the kernel backend's QUIC does not."""

from __future__ import annotations

import pytest

from narrows.backends import get
from narrows.backends.kernel.backend import job_of
from narrows.backends.kernel.quic_probes import without_probes
from narrows.scenario import Scenario
from tests.kernel.scenarios import dumbbell


def over_quic(probes: str) -> Scenario:
    transport = f'{{ kind = "quic", quic = {{ probes = "{probes}" }} }}'
    return dumbbell(dns__stubs__transport=transport)


def test_only_a_group_with_other_probes_is_named() -> None:
    scenario = over_quic("rfc-9002")
    (found,) = get("kernel").differences(scenario)
    assert found.startswith("stubs: if a packet is lost")
    assert found.endswith('set quic.probes = "quinn"')
    assert not get("kernel").differences(over_quic("quinn"))
    assert not get("sim").differences(over_quic("rfc-9002"))


@pytest.mark.parametrize("other", ["rfc-9002", "quinn"])
def test_a_kernel_run_is_the_same_with_other_probes(other: str) -> None:
    assert job_of(over_quic("quinn")) == job_of(over_quic(other))
    assert job_of(over_quic("quinn")) != job_of(dumbbell())


def test_a_pings_number_of_packets_is_kept() -> None:
    plan = {"ping": {"probes": 5}, "quic": {"probes": "quinn", "id": 8}}
    assert without_probes([plan]) == [{"ping": {"probes": 5}, "quic": {"id": 8}}]

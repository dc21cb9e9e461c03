"""Congestion controls, pacing and accurate ECN: what each kernel has, and what it is told."""

from __future__ import annotations

import errno
import json
from typing import Any

import pytest

from narrows import _core
from narrows.backends.kernel import tcp_settings
from narrows.backends.kernel.inside.agent import network, system

LINUX = json.loads(_core.tcp_profile("linux-6"))


def used(**settings: Any) -> tuple[tcp_settings.TcpUse, dict[str, str]]:
    """How a kernel gets the settings, and the keys that it cannot honour, with the reasons."""
    refused: dict[str, str] = {}

    def refuse(key: str, why: str) -> None:
        refused[key] = why

    return tcp_settings.use({**LINUX, **settings}, LINUX, refuse), refused


@pytest.mark.parametrize(
    ("settings", "key", "why"),
    [
        ({"congestion": "prague"}, "congestion", "no packaged kernel has Prague"),
        ({"congestion": "dctcp"}, "ecn", "Linux's DCTCP always asks for ECN"),
        (
            {"segmentation_offload": True},
            "segmentation_offload",
            "the backend's devices send segment by segment",
        ),
    ],
)
def test_what_no_kernel_does_here_is_refused(settings: Any, key: str, why: str) -> None:
    assert used(**settings)[1] == {key: why}


@pytest.mark.parametrize(
    ("settings", "features"),
    [
        ({"congestion": "reno"}, {}),
        ({"congestion": "bbr"}, {"bbr": "congestion"}),
        ({"congestion": "dctcp", "ecn": True}, {"dctcp": "congestion"}),
        ({"ecn": True, "accurate_ecn": True}, {"AccECN": "ecn"}),
        ({"pacing": True}, {}),
    ],
)
def test_what_not_every_kernel_has_is_named_with_its_key(settings: Any, features: Any) -> None:
    use, refused = used(**settings)
    assert (use.features, refused) == (features, {})


def test_accurate_ecn_is_a_sysctl_that_must_take_effect() -> None:
    for is_accurate, value in ((False, "2"), (True, "3")):
        use, _ = used(ecn=True, accurate_ecn=is_accurate)
        assert use.sysctls["ipv4/tcp_ecn"] == value
        assert use.needed == ({"ipv4/tcp_ecn": "ecn"} if is_accurate else {})


def test_a_control_that_a_kernel_lacks_is_one_line_before_anything_is_made() -> None:
    assert system.control_missing("reno") is None
    job = {"features": {"none-such": "traffic.a.tcp.congestion"}}
    with pytest.raises(network.NetworkError) as refused:
        # It knows nothing else of the job.
        network.build(job)
    assert str(refused.value) == (
        "traffic.a.tcp.congestion: this kernel has no none-such (no such file or directory); "
        "hint: load tcp_none-such, or use the backend kernel-virtual or kernel-7"
    )


@pytest.mark.parametrize(
    ("path", "number", "why"),
    [
        ("ipv4/tcp_ecn", errno.EINVAL, "traffic.a.tcp.ecn: this kernel has no tcp_ecn = 3"),
        ("ipv4/tcp_ecn", None, "traffic.a.tcp.ecn: this kernel has no tcp_ecn"),
    ],
)
def test_a_value_that_a_kernel_does_not_know_is_one_line(
    path: str, number: int | None, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(_path: str, _value: str) -> str | None:
        if number is not None:
            raise OSError(number, "invalid argument")
        return None

    monkeypatch.setattr(system, "write_setting", write)
    with pytest.raises(network.NetworkError) as refused:
        network._write_settings({path: "3"}, {path: "traffic.a.tcp.ecn"})
    assert str(refused.value) == why

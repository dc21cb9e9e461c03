"""`idles`, which no kernel has: a value that is given and not followed is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from narrows import Scenario, run
from narrows.backends import get
from narrows.cli import main
from narrows.reproduce import papers
from tests.kernel.scenarios import DUMBBELL, dumbbell

RED = 'kind = "red", limit = "90 kB"'
KERNELS = ("kernel", "kernel-host", "kernel-virtual", "kernel-real", "kernel-2010")


def below_a_shaper(queue: str, profile: str = "linux-6") -> Scenario:
    return dumbbell(
        links__bottleneck__forward__queue=queue, traffic__downloads__tcp__profile=profile
    )


@pytest.mark.parametrize("backend", KERNELS)
def test_an_average_that_should_decay_is_named(backend: str) -> None:
    decays = below_a_shaper(f"{{ {RED}, idles = true }}")
    assert not any("idles" in refusal.key for refusal in get(backend).refusals(decays))
    (found,) = get(backend).differences(decays)
    assert found.startswith("bottleneck.forward: queue.idles = true is not followed")
    assert "hint: idles = false" in found
    for same in ("", ", idles = false"):
        assert not get(backend).differences(below_a_shaper(f"{{ {RED}{same} }}"))


@pytest.mark.parametrize(
    ("kind", "title"), [("dualpi2", "DualPI2"), ("fq-codel", "FQ-CoDel"), ("fq-pie", "FQ-PIE")]
)
def test_turns_that_should_start_anew_are_named(kind: str, title: str) -> None:
    jiffy = ', jiffy = "10 ms"' if kind == "fq-pie" else ""
    queue = f'{{ kind = "{kind}"{jiffy}, idles = true }}'
    (found,) = get("kernel-7").differences(below_a_shaper(queue, profile="linux-7"))
    assert found.startswith("bottleneck.forward: queue.idles = true is not followed")
    assert f"above {title}" in found
    for same in ("", ", idles = false"):
        scenario = below_a_shaper(f'{{ kind = "{kind}"{jiffy}{same} }}', profile="linux-7")
        assert not get("kernel-7").differences(scenario)
        assert not get("kernel-7").refusals(scenario)


def test_the_simulator_follows_it() -> None:
    assert not get("sim").differences(below_a_shaper(f"{{ {RED}, idles = true }}"))


def test_inside_other_queues() -> None:
    """Classes of htb are asked only if they hold packets (sch_htb.c), bands of prio always."""

    def named(queue: str) -> list[str]:
        found = get("kernel").differences(below_a_shaper(queue))
        return [each.split()[1] for each in found]

    for idles, expected in (("true", [0, 1]), ("false", [])):
        inner = f"queue = {{ {RED}, idles = {idles} }}"
        match = 'match = [{ protocol = "udp" }]'
        classes = f'{{ name = "a", {match}, {inner} }}, {{ name = "b", {inner} }}'
        assert named(f'{{ kind = "classes", classes = [{classes}] }}') == [
            f"queue.classes[{number}].queue.idles" for number in expected
        ]
    for idles, expected in (("true", [0, 1]), ("false", [0])):
        inner = f"queue = {{ {RED}, idles = {idles} }}"
        bands = f'{{ name = "a", {match}, {inner} }}, {{ name = "b", {inner} }}'
        assert named(f'{{ kind = "prio", bands = [{bands}] }}') == [
            f"queue.bands[{number}].queue.idles" for number in expected
        ]


def test_check_says_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "red.toml"
    path.write_text(DUMBBELL, encoding="utf-8")
    said = []
    for idles in ("true", "false"):
        queue = f"links.bottleneck.forward.queue={{ {RED}, idles = {idles} }}"
        assert main(["check", str(path), "--backend", "kernel", "--set", queue]) == 0
        said.append(capsys.readouterr().out)
    assert "warning: bottleneck.forward: queue.idles = true is not followed" in said[0]
    assert "idles" not in said[1]


@pytest.mark.slow
def test_a_run_on_the_kernel_says_it(guest: str) -> None:
    for idles in ("true", "false"):
        asked = below_a_shaper(f"{{ {RED}, idles = {idles} }}")
        flags = run(asked.with_(duration="5 s"), backend=guest).flags
        assert any("idles" in flag for flag in flags) is (idles == "true")


def test_runs_of_the_papers_have_nothing_to_say_of_it() -> None:
    for paper in papers():
        if paper.key not in "HD":
            continue
        for cell in paper.cells:
            given = {**cell.set, **paper.on_kernel(cell)}
            scenario = Scenario.load(paper.folder / "scenarios" / cell.scenario, set=given)
            assert not any("idles" in each for each in get("kernel-2010").differences(scenario))

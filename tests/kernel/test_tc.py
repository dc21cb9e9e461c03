"""kind = "tc": any queueing discipline of a kernel."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from narrows import ScenarioError, run
from narrows.backends import BackendError, get
from tests.kernel.scenarios import dumbbell


def behind(*args: str) -> Any:
    words = ", ".join(f'"{word}"' for word in args)
    return dumbbell(links__bottleneck__forward__queue=f'{{ kind = "tc", args = [{words}] }}')


def backlogs(scenario: Any, guest: str) -> pl.Series:
    return run(scenario, backend=guest).queues["backlog_packets"]


def test_a_discipline_that_narrows_does_not_have_runs(guest: str) -> None:
    """CHOKe drops with the packets of the queue that it drew; a short limit holds in any case."""
    found = backlogs(behind("choke", "limit", "20", "bandwidth", "10mbit"), guest)
    assert 5 < found.max() <= 20


def test_one_that_narrows_has_does_the_same_by_its_own_name(guest: str) -> None:
    own = dumbbell(links__bottleneck__forward__queue='{ kind = "pfifo", limit = 30 }')
    for scenario in (own, behind("pfifo", "limit", "30")):
        assert backlogs(scenario, guest).max() == 30


def test_the_simulator_refuses_it_by_name() -> None:
    scenario = behind("choke", "limit", "20")
    with pytest.raises(BackendError, match="only kernels have queues of kind tc"):
        run(scenario)
    assert not get("kernel-virtual").refusals(scenario)


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (["none-such"], "is no word for tc"),
        (["none_such"], "links.bottleneck.forward.queue.kind: this kernel has no none_such"),
        (["pfifo", "limit", "x"], "links.bottleneck.forward.queue: pfifo: Illegal value"),
    ],
)
def test_what_the_kernel_refuses_is_one_line_with_the_key(
    guest: str, args: list[str], why: str
) -> None:
    with pytest.raises((BackendError, ScenarioError), match=why) as caught:
        run(behind(*args), backend=guest)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "word", ["../choke", "/tmp/choke", "a b", "a;b", "a\\nb", "", "a\\\\", "#", "x" * 101, "'a'"]
)
def test_no_word_gets_out_of_its_place(word: str) -> None:
    """Tc loads a library by the discipline's name, and a line of its input is a command."""
    for args in ([word], ["pfifo", word]):
        with pytest.raises(ScenarioError, match="is no word for tc"):
            behind(*args)


def test_the_key_is_that_of_the_link_whose_queue_is_refused(guest: str) -> None:
    """Both directions have the same device and the same discipline."""
    scenario = dumbbell(
        links__bottleneck__forward__queue='{ kind = "tc", args = ["pfifo", "limit", "9"] }',
        links__bottleneck__backward__queue='{ kind = "tc", args = ["pfifo", "limit", "x"] }',
    )
    with pytest.raises(BackendError, match=r"links\.bottleneck\.backward\.queue: pfifo: Illegal"):
        run(scenario, backend=guest)

"""docs/findings.md has the numbers of the recorded results, and of its sweep with BBR."""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from narrows import Sweep, run
from narrows.results.sweep_means import metric_named, points
from narrows.study import Study
from tests.docs.test_documents import CHECKOUT, shell
from tests.docs.test_numbers import FRONT, every, recorded
from tests.docs.test_paper import claims, measured, published
from tools.findings_table import PART, cells

TEXT = (CHECKOUT / "docs/findings.md").read_text(encoding="utf-8")
PLAIN = " ".join(TEXT.split())


def numbers(words: str) -> list[float]:
    """The numbers of a sentence of the page."""
    found = re.search(words, PLAIN)
    assert found is not None, words
    return [float(number) for number in found.groups()]


def close(values: list[float]) -> Any:
    """Values to within a tenth, so that not each change of the simulator needs other words."""
    return pytest.approx(values, rel=0.1)


def interval(paper: str, claim: str, metric: str) -> str:
    """A measured value with its interval, without decimals."""
    (found,) = (c for c in claims(paper) if (c["id"], c["metric"]) == (claim, metric))
    return "{:.0f} % ({:.0f} to {:.0f})".format(
        *(found[key] for key in ("measured", "ci_low", "ci_high"))
    )


def said() -> Iterator[str]:
    """Sentences with the numbers of the recorded results."""
    first = "RED {} ECN, {}: replied on attempt 1"
    small, large = "200 ms, 20±5 ms", "300 ms, 100±25 ms"
    ecn, none = first.format("only", small), first.format("no", small)
    our = [measured("H", "H6", each) for each in (ecn, none)]
    yield "{:.0f} % of the first attempts succeed instead of {:.0f} %".format(*our)
    their = [published("H", "H6", each) for each in (ecn, none)]
    yield "measured {:.0f} and {:.0f} % in 2011".format(*their)
    ecn, none = first.format("only", large), first.format("no", large)
    our = [measured("H", "H4", ecn), measured("H", "H2", none)]
    yield "{:.0f} % of the first attempts succeed instead of {:.0f} %".format(*our)
    their = [published("H", "H4", ecn), published("H", "H2", none)]
    yield "of the paper ({:.1f} and {:.1f} %)".format(*their)

    over = "kernel and server at 500 q/s: {} over UDP"
    theirs = [
        published("S", "S6", over.format(of)) for of in ("stateless TCP", "TCP of the kernel")
    ]
    more = "{:.0f} % more processor time over stateless TCP than over UDP, and {:.0f} % more"
    yield more.format(*theirs)
    ours = [interval("S", "S6", over.format(of)) for of in ("stateless TCP", "TCP of the kernel")]
    yield "we measure {} and {}".format(*ours)

    today = ("BIND", "NSD", "Knot", "Unbound")
    ratios = [measured("R", "R1", f"most frequent ratio: {name} of today") for name in today]
    yield "| 2 | {} |".format(", ".join(f"{ratio:.2f}" for ratio in ratios))
    apart = measured("R", "R2", "most frequent ratio: length and message in two writes")
    together = measured("R", "R7", "most frequent ratio: length and message in one writev")
    yield f"| {apart:.2f}; {together:.2f} |"
    above = [interval("R", "R3", f"pairs above {n}: ten connections at most") for n in (4, 10)]
    yield "{}, {}".format(*above)

    gains = ("below 2000 packets", "at 5000 packets")
    ours = [measured("K", "K1", f"mean goodput: gain of QSDRR {where}") for where in gains]
    yield "QSDRR gains {:.1f} and {:.1f} %".format(*ours)


def test_sentences_have_the_numbers_of_the_results() -> None:
    sentences = list(said())
    assert len(sentences) > 9
    assert [sentence for sentence in sentences if sentence not in PLAIN] == []


def test_pages_take_as_long_as_the_study_says() -> None:
    study = recorded("python/narrows/study/dns_transport/result.json")
    tables = [
        {row["queue"]: float(row["page, s"].split()[0]) for row in found}
        for found in every(study["tables"], "The queues, over 16 transports without ECN under load")
    ]
    home, cafe, _ = tables
    assert [round(home["FIFO"] / home[each]) for each in ("FQ-CoDel", "CAKE")] == [7, 7]
    assert round(cafe["FIFO"] / cafe["FQ-CoDel"]) == 8
    for text in (PLAIN, FRONT):
        assert "takes seven times as long as behind FQ-CoDel or CAKE" in text
    assert "of a café, eight times as long as behind FQ-CoDel" in PLAIN


SHARED_QUEUES = ("RED", "CoDel", "PIE", "DualPI2")


def test_persistent_connections_get_the_answers_that_the_study_says() -> None:
    study = recorded("python/narrows/study/dns_transport/result.json")
    shown = "Answered within a second, %; page load time, median, s; under load"
    _, _, operator = every(study["tables"], shown)
    within = {
        row["transport"]: [float(row[queue].split()[0]) for queue in SHARED_QUEUES]
        for row in operator
        if row["transport"] == "UDP" or row["transport"].endswith("kept")
    }
    udp = within.pop("UDP")
    kept = list(itertools.chain.from_iterable(within.values()))
    said = "{} to {} % of the queries are answered within a second over persistent connections"
    assert said.format(min(kept), max(kept)) in PLAIN
    assert f"{min(udp)} to {max(udp)} % over UDP" in PLAIN


@pytest.mark.slow
def test_dns_behind_fq_codel_is_as_fast_and_as_lossy_as_the_page_says(tmp_path: Path) -> None:
    medians = [
        run(CHECKOUT / f"scenarios/dns-behind-{queue}.toml").summary["dns"]["response_median_ms"]
        for queue in ("fq-codel", "fifo")
    ]
    assert numbers(r"([\d.]+) instead of ([\d.]+) ms next to 60 downloads") == close(medians)
    (command,) = re.findall(r"^    (narrows study .* --load cubic-ecn)$", TEXT, flags=re.M)
    shell(f"{command} --quiet --out {shlex.quote(str(tmp_path / 'study'))}", CHECKOUT)
    cells = Study.load(tmp_path / "study").cells
    within = dict(cells.select("queue", "within_1s_percent").iter_rows())
    said = r"only ([\d.]+) % of the queries .*; behind a FIFO of bytes it is ([\d.]+) %"
    assert numbers(said) == close([within["fq-codel"], within["fifo"]])


@pytest.mark.slow
def test_the_table_on_bbr_is_what_its_sweep_gives(tmp_path: Path) -> None:
    """To within a tenth, so that not each change of the simulator needs a new table."""
    (command,) = re.findall(r"^    (narrows sweep .*)$", TEXT, flags=re.M)
    done = shlex.join([*shlex.split(command)[:-1], str(tmp_path / "sweep")])
    shell(f"{done} --quiet --json > {shlex.quote(str(tmp_path / 'sweep.json'))}", CHECKOUT)
    sweep = Sweep.load(tmp_path / "sweep")
    shown = PART.search(TEXT)
    assert shown is not None
    rows = [line.strip("|").split("|") for line in shown[0].splitlines()[2:]]
    for row, made in zip(rows, cells(sweep), strict=True):
        assert [cell.strip() for cell in row[:2]] == made[:2]
        for cell, value in zip(row[2:], made[2:], strict=True):
            mean = float(value.split()[0])
            assert float(cell.split()[0]) == pytest.approx(mean, rel=0.1, abs=0.2), made

    lost = {
        (point.settings["variant"], point.settings["queue"]["kind"]): 100 - point.mean
        for point in points(sweep, metric_named(sweep, "dns_groups.udp.first_attempt_percent"))
    }
    *lossy, most = numbers(
        r"loses (\d+) % of its first attempts behind DualPI2, and (\d+) % behind a short FIFO of "
        r"packets; beside CUBIC it loses less than ([\d.]+) %"
    )
    assert lossy == close([lost["BBR", "dualpi2"], lost["BBR", "pfifo"]])
    assert max(lost["CUBIC", "dualpi2"], lost["CUBIC", "pfifo"]) < most

"""What a report shows first, and what it shows of each group."""

import re
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from drawn import fig

from narrows import Scenario, run
from narrows.report import plots, write_run_report
from narrows.report.extras import extra_plots
from narrows.report.run_report import run_plots
from narrows.results.jump import jumps

pytestmark = pytest.mark.slow

GROUPS = """
name = "groups"
duration = "60 s"
end = "dns"
links = [{ name = "wan", between = ["c", "s"], rate = "10 Mbit/s", delay = "20 ms" }]

[[dns]]
name = "plain"
client = "c"
server = "s"
workers = 2
queries = 10

[[dns]]
name = "slow"
client = "c"
server = "s"
workers = 2
queries = 10
service = "1200 ms"
transport = { kind = "udp", retry = ["800 ms", "3 s"] }
"""


def _cards(page: str) -> dict[str, list[tuple[str, str]]]:
    """The values of each card with the names of their groups, by the card's words."""
    found = {}
    for card in re.findall(r'<div class="card">(.*?)</div>', page, flags=re.DOTALL):
        rows = re.findall(r"<td><b>(.*?)</b></td><td>(.*?)</td>", card)
        (words,) = re.findall(r"<span>(.*?)</span>", card)
        found[words] = rows or [(re.findall(r"<b>(.*?)</b>", card)[0], "")]
    return found


def test_each_dns_group_has_plots_of_its_own(tmp_path: Path) -> None:
    made = run(Scenario.parse(GROUPS))
    page = write_run_report(made, tmp_path).read_text(encoding="utf-8")
    cards = _cards(page)
    # The first attempts at the slow server time out after 0.8 s.
    first, within = "answered at the first attempt", "answered within a second"
    assert cards[first] == [("100.00 %", "plain"), ("0.00 %", "slow")]
    assert cards[within] == [("100.00 %", "plain"), ("0.00 %", "slow")]
    for words in ("median response time of DNS", "99 % of DNS answers within"):
        assert [group for _, group in cards[words]] == ["plain", "slow"]
    bars = [label.get_text() for label in fig(plots.attempts, made).axes[0].get_yticklabels()]
    assert bars == ["plain, attempt 1", "slow, attempt 1", "slow, attempt 2"]
    assert "Failed attempts: 20 timed out." in page
    assert "100.00 % of 20 queries of plain and 0.00 % of 20 queries of slow" in page


def test_a_single_group_over_udp_has_no_share_within_a_second(tmp_path: Path) -> None:
    alone = Scenario.parse(GROUPS.partition('[[dns]]\nname = "slow"')[0])
    cards = _cards(write_run_report(run(alone), tmp_path / "udp").read_text(encoding="utf-8"))
    assert cards["answered at the first attempt"] == [("100.00 %", "")]
    assert "answered within a second" not in cards
    over_tcp = run(alone, set={"dns.plain.transport": "tcp"})
    cards = _cards(write_run_report(over_tcp, tmp_path / "tcp").read_text(encoding="utf-8"))
    assert cards["answered within a second"] == [("100.00 %", "")]


def test_many_dns_groups_have_a_range(tmp_path: Path) -> None:
    name, _, group = GROUPS.partition("[[dns]]\n")[2].partition("[[dns]]")[0].partition('"plain"')
    text = GROUPS + "".join(f'[[dns]]\n{name}"more-{n}"{group}' for n in range(6))
    page = write_run_report(run(Scenario.parse(text)), tmp_path).read_text(encoding="utf-8")
    assert _cards(page)["answered within a second, in 8 DNS groups"] == [("0.00 % to 100.00 %", "")]


def test_objects_of_a_page_have_names_and_tcp_has_its_goodput(tmp_path: Path) -> None:
    made = run(
        Scenario.parse("""
name = "small"
duration = "20 s"
links = [{ name = "wan", between = ["a", "b"], rate = "10 Mbit/s", delay = "5 ms" }]

[[traffic]]
kind = "once"
name = "file"
sender = "b"
receiver = "a"
size = "1 MB"

[[traffic]]
kind = "page"
name = "web"
client = "a"
server = "b"
objects = [{ name = "html", size = "30 kB" }]
""")
    )
    (waterfall,) = [shown for shown in run_plots(made) if shown.name == "page-waterfall"]
    axis = waterfall.figure.axes[0]
    assert [label.get_text() for label in axis.get_yticklabels()] == ["html"]
    assert axis.get_title(loc="left") == "First page load, object by object"
    assert [text.get_text() for text in axis.texts] == ["web, browser 0, load 0"]
    # The load that began first, whatever the order of the rows.
    objects = made.table("objects")
    later = objects.with_columns(pl.lit(7, pl.UInt32).alias("browser"), pl.col("ready_s") + 1.0)
    turned = replace(made, tables={**made.tables, "objects": pl.concat([later, objects])})
    (again,) = [shown for shown in run_plots(turned) if shown.name == "page-waterfall"]
    assert [text.get_text() for text in again.figure.axes[0].texts] == ["web, browser 0, load 0"]
    page = write_run_report(made, tmp_path).read_text(encoding="utf-8")
    # 1 MB from the start of the connection to its end.
    goodput = 8.0 / made.table("flows")["end_s"][0]
    assert _cards(page)["goodput of TCP connections"] == [(f"{goodput:.4g} Mbit/s", "")]


def test_an_idle_group_and_a_page_that_never_arrives_need_no_numbers(tmp_path: Path) -> None:
    made = run(
        Scenario.parse("""
name = "idle"
duration = "3 s"
links = [{ name = "wan", between = ["c", "s"], rate = "1 Mbit/s", queue.kind = "fq-codel" }]
measure = { from = "1 s" }

[[dns]]
name = "early"
client = "c"
server = "s"
workers = 1
queries = 1

[[dns]]
name = "late"
client = "c"
server = "s"
arrivals = { per_second = 10, outstanding = 50 }

[[traffic]]
kind = "page"
name = "web"
client = "c"
server = "s"
start = "1500 ms"
objects = [{ name = "html", size = "1 MB" }]
""")
    )
    # The only query of `early` is over before the window begins.
    assert made.summary["dns_groups"]["early"] is None
    assert not jumps(made.summary)
    page = write_run_report(made, tmp_path).read_text(encoding="utf-8")
    late = made.summary["dns_groups"]["late"]["response_median_ms"]
    assert _cards(page)["median response time of DNS"] == [(f"{late:.2g} ms", "")]
    assert "(0 where one was free) and had not arrived at the end." in page


def test_compared_groups_of_pages_each_show_a_load_of_their_own() -> None:
    page = '[[traffic]]\nkind = "page"\nname = "{0}"\nclient = "a"\nserver = "b"\nstart = "{1}"\n'
    page += 'objects = [{{ name = "of-{0}", size = "30 kB" }}]\n'
    links = '[{ name = "l", between = ["a", "b"], rate = "5 Mbit/s" }]'
    text = f'name = "two"\nduration = "5 s"\nlinks = {links}\n'
    made = run(Scenario.parse(text + page.format("one", "0 s") + page.format("other", "1 s")))
    drawn = {shown.name: shown.drawing for shown in extra_plots({"a": made, "b": made})}
    for group in ("one", "other"):
        drawing = drawn[f"page-waterfall-{group}"]
        assert drawing.subtitle == f"{group}, browser 0, load 0"
        assert [bar.name for bar in drawing.bars] == ["a", f"of-{group}", "b", f"of-{group}"]

import errno
import html
import json
import os
import re
import subprocess
import sys
import tomllib
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from drawn import fig
from synthetic_run import LINK, synthetic_run

from narrows import Scenario, run
from narrows.report import plots, style, write_comparison, write_run_report
from narrows.report.comparison_report import comparison_plots
from narrows.report.evaluate import mean_of
from narrows.report.fates import failed_text
from narrows.report.marks import Mark
from narrows.results import (
    Axis,
    Run,
    RunFolderError,
    Sweep,
    SweepRun,
    compare,
    compare_sweeps,
    summary_table,
)
from narrows.scenario.toml_text import toml_text

pytestmark = pytest.mark.slow

VOID = {"meta", "link", "br", "img", "input", "hr", "wbr"}


class _Page(HTMLParser):
    """Collects what a page refers to, and checks that its elements close in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.references: list[str] = []
        self.text: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        self.references += [v or "" for k, v in attrs if k in ("src", "href", "xlink:href", "data")]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.references += [v or "" for k, v in attrs if k in ("src", "href", "xlink:href", "data")]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "a"
    synthetic_run(duration_s=60.0, workers=10).save(path)
    write_run_report(path, kinds=("png", "svg"))
    return path


def test_a_report_needs_nothing_else(folder: Path) -> None:
    text = (folder / "report.html").read_text(encoding="utf-8")
    page = _Page(text)
    assert page.references == []
    assert "@import" not in text
    assert not re.search(r"url\((?!#)", text)
    # What is embedded fetches nothing.
    assert not re.search(r"<script[^>]*\bsrc|\bfetch\(|XMLHttpRequest|\bimport\(", text)


def test_a_report_tells_how_to_run_it_again(folder: Path) -> None:
    words = "".join(_Page((folder / "report.html").read_text(encoding="utf-8")).text)
    assert "narrows run scenario.toml --backend sim --seed 1" in words
    start = words.index('name = "testbed-red"')
    scenario = words[start : words.index("Where and when it ran is")]
    assert tomllib.loads(scenario) == Run.load(folder).scenario


def test_a_report_says_which_keys_were_set(tmp_path: Path) -> None:
    made = synthetic_run(duration_s=60.0, workers=5)
    assert "set" not in made.document()
    assert "Changed for this run" not in write_run_report(made, tmp_path / "a").read_text("utf-8")
    changed = replace(made, set={"traffic.connections": "1", "queue": {"kind": "red"}})
    loaded = Run.load(changed.save(tmp_path / "b").folder or "")
    assert loaded.set == changed.set
    text = html.unescape(_words(write_run_report(loaded).read_text(encoding="utf-8")))
    assert 'Changed for this run: traffic.connections=1, queue={"kind": "red"} .' in text
    title = summary_table(loaded).title
    assert title.startswith("testbed-red, seed 1, with traffic.connections=1, queue=")


def test_plots_are_files_too(folder: Path) -> None:
    names = {path.name for path in (folder / "plots").iterdir()}
    stems = {"attempts", "response-cdf", "goodput", "burst-cdf"}
    stems |= {f"{what}-{LINK}" for what in ("backlog", "sojourn", "drops", "throughput")}
    assert names == {f"{stem}.{kind}" for stem in stems for kind in ("png", "svg")}


def test_a_report_adapts_to_the_reader(folder: Path) -> None:
    text = (folder / "report.html").read_text(encoding="utf-8")
    assert 'name="viewport"' in text
    assert "prefers-color-scheme: dark" in text
    # Where no script runs, each plot says in words what it shows.
    says = re.findall(r'<p class="says">([^<]+)</p>', text)
    assert len(says) == text.count("<figure>") == text.count('class="drawing"') == 8
    assert all(re.search(r"\d", words) for words in says)


def test_files_of_plots_are_written_only_where_asked_for(tmp_path: Path) -> None:
    words = (
        "import sys; from narrows.results import Run; from narrows.report import write_run_report; "
        "from pathlib import Path; here = Path(sys.argv[1]); "
        "write_run_report(here, here / 'page'); print('matplotlib' in sys.modules)"
    )
    synthetic_run(duration_s=60.0, workers=10).save(tmp_path / "a")
    done = subprocess.run(
        [sys.executable, "-c", words, str(tmp_path / "a")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "False\n"
    assert [path.name for path in (tmp_path / "a" / "page").iterdir()] == ["report.html"]


def test_reports_say_where_links_lead(folder: Path, tmp_path: Path) -> None:
    runs = [Run.load(folder), synthetic_run(seed=2, duration_s=10.0, workers=1)]
    source, target = runs[0].scenario["links"][0]["between"]
    said = f"Links: {LINK} from {source} to {target}"
    assert said in (folder / "report.html").read_text(encoding="utf-8")
    assert said in write_comparison(compare(runs), tmp_path).read_text(encoding="utf-8")


def test_a_report_leaves_a_readable_run(folder: Path) -> None:
    assert Run.load(folder).seed == 1


def test_a_partial_run_is_called_partial(tmp_path: Path) -> None:
    run = synthetic_run(duration_s=100.0, workers=5, partial=True)
    text = write_run_report(run, tmp_path / "b").read_text(encoding="utf-8")
    assert "This run is partial" in text


def test_a_run_without_tables_has_a_report(tmp_path: Path) -> None:
    run = Run(
        scenario={"name": "<script>alert(1)</script>"},
        seed=1,
        backend="sim",
        status="partial",
        stopped="interrupted",
        end_s=0.0,
        events=0,
        tables={},
        narrows="0",
    )
    text = write_run_report(run, tmp_path).read_text(encoding="utf-8")
    assert "<script" not in text
    _Page(text)


def test_a_report_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RunFolderError, match="not a directory"):
        write_run_report(synthetic_run(duration_s=5.0, workers=1), tmp_path / "file" / "x")


def test_a_full_disk_leaves_no_half_of_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int, *_: object) -> None:
        os.write(descriptor, b"half")
        os.close(descriptor)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("narrows.unfinished.os.fdopen", full)
    with pytest.raises(RunFolderError, match="no space left on device"):
        write_run_report(synthetic_run(duration_s=5.0, workers=1), tmp_path)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_comparison_has_a_page(tmp_path: Path) -> None:
    runs = [synthetic_run(kind=kind, duration_s=60.0, workers=5) for kind in ("bfifo", "red")]
    text = write_comparison(compare(runs), tmp_path).read_text(encoding="utf-8")
    page = _Page(text)
    assert all(reference.startswith("#") for reference in page.references)
    assert "testbed-bfifo" in "".join(page.text)
    document = json.loads((tmp_path / "comparison.json").read_text())
    assert [group["label"] for group in document["groups"]] == ["testbed-bfifo", "testbed-red"]


@pytest.mark.parametrize(
    "values",
    [
        {"a": 'quote " and \\ and \n and \x7f and é', "b": [1, 2.5, True], "c": {}},
        {"t": {"x": {"y": [{"z": "1"}, {"z": "2"}]}}, "list": [{"a b": 1}, {}]},
        {"list": [], "f": 1e-7, "n": -3, "inline": [["a", "b"], ["c", "d"]]},
        {"inf": float("inf"), "big": 1e22},
    ],
)
def test_toml_reads_back(values: dict[str, object]) -> None:
    assert tomllib.loads(toml_text(values)) == values


def test_a_page_of_many_groups_has_a_line_for_each(tmp_path: Path) -> None:
    kinds = ("bfifo", "red", "pfifo")
    runs = [synthetic_run(kind=kind, duration_s=60.0, workers=5) for kind in kinds]
    text = write_comparison(compare(runs), tmp_path).read_text(encoding="utf-8")
    header = re.search(r"<tr><th scope=\"col\"></th>.*?</tr>", text)
    assert header is not None
    assert re.findall(r">([^<>]+)</th>", header[0]) == ["value", "difference", "95 % interval"]


def test_several_comparisons_share_a_page(tmp_path: Path) -> None:
    runs = [
        synthetic_run(kind=kind, seed=seed, duration_s=60.0, workers=5)
        for kind in ("bfifo", "red")
        for seed in (1, 2)
    ]
    comparison = compare(runs)
    several = [replace(comparison, setting=f"queue.limit={n}") for n in (1, 2)]
    text = write_comparison(several, tmp_path, ["png", "svg"]).read_text(encoding="utf-8")
    assert 'href="#part-2">queue.limit=2</a>' in text
    assert text.count('id="part-') == 2
    assert "two runs are too few to rely on" in text and "significant with" not in text
    names = {path.name for path in (tmp_path / "plots").iterdir()}
    assert {"1-differences.png", "2-differences.svg"} <= names
    # Names of elements are unique on the page.
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    document = json.loads((tmp_path / "comparison.json").read_text())
    assert [part["setting"] for part in document["comparisons"]] == [
        "queue.limit=1",
        "queue.limit=2",
    ]


def _words(text: str) -> str:
    """The text of a page that a reader sees, without its pictures."""
    text = re.sub(r"<(style|svg|script|title).*?</\1>", " ", text, flags=re.DOTALL)
    return " ".join(re.sub(r"<[^>]+>", " ", text).split())


def _sweep(name: str, kind: str, seeds: tuple[int, ...] = (1, 2, 3)) -> Sweep:
    """Two losses with a red or a tail-drop queue, without the runs' folders."""
    found = []
    for loss in (0.03, 0.1):
        for seed in seeds:
            run = synthetic_run(kind=kind, seed=seed, loss=loss, duration_s=60.0, workers=5)
            found.append(
                SweepRun(
                    run=f"{loss}/{seed}",
                    seed=seed,
                    settings={"loss": loss},
                    status="complete",
                    stopped="end",
                    message="",
                    end_s=run.end_s,
                    events=run.events,
                    summary=run.summary,
                )
            )
    return Sweep(
        name, {"name": name}, (Axis("loss", (0.03, 0.1)),), seeds, tuple(found), "0", "complete"
    )


def test_a_page_of_sweeps_says_nothing_of_curves_and_folders(tmp_path: Path) -> None:
    kinds = ("bfifo", "red", "pfifo")
    sweeps = [_sweep(f"with-{kind}", kind) for kind in kinds]
    text = write_comparison(compare_sweeps(sweeps), tmp_path).read_text(encoding="utf-8")
    _Page(text)
    words = _words(text)
    assert "<h3>Plots</h3>" in text
    assert "Curves" not in words
    assert "not saved" not in words
    # The seeds are the same in both cases, and are listed once.
    assert words.count("group seeds") == 1
    assert words.endswith("group seeds with-bfifo 1 to 3 with-red 1 to 3 with-pfifo 1 to 3")
    title = re.search(r"<title>\s*(.*?)\s*</title>", text, re.DOTALL)
    assert title is not None
    assert title[1] == "with-bfifo; with-red; with-pfifo"


def test_a_page_of_several_seeds_says_what_its_curves_are(tmp_path: Path) -> None:
    both = [
        [synthetic_run(kind=kind, seed=seed, duration_s=60.0, workers=5) for seed in (1, 2)]
        for kind in ("bfifo", "red")
    ]
    single = [runs[0] for runs in both]
    words = _words(write_comparison(compare(single), tmp_path / "a").read_text(encoding="utf-8"))
    assert "seeds of a group" not in words
    words = _words(
        write_comparison(compare([*both[0], *both[1]]), tmp_path / "b").read_text("utf-8")
    )
    assert "Thick curves are of all seeds of a group together" in words


@pytest.mark.parametrize("only", [(), ("dns.first_attempt_percent",)])
def test_no_line_of_a_page_is_there_twice(tmp_path: Path, only: tuple[str, ...]) -> None:
    runs = [
        synthetic_run(kind=kind, seed=seed, duration_s=60.0, workers=5)
        for kind in ("bfifo", "red")
        for seed in (1, 2)
    ]
    compared = compare(runs).only(only) if only else compare(runs)
    text = write_comparison(compared, tmp_path).read_text(encoding="utf-8")
    assert text.count("<td>answered at the first attempt (%)</td>") == 1
    assert ("All other metrics" in text) is (not only)


def test_a_comparison_begins_with_the_picture_and_the_lines_that_matter(tmp_path: Path) -> None:
    runs = [synthetic_run(kind=kind, duration_s=60.0, workers=5) for kind in ("bfifo", "red")]
    text = write_comparison(compare(runs), tmp_path).read_text(encoding="utf-8")
    order = [
        text.index("Bars: queries answered at the first attempt"),
        text.index("<td>answered at the first attempt (%)</td>"),
        text.index("<td>response time of answered queries, 95 % within (ms)</td>"),
        text.index("<h3>Plots</h3>"),
    ]
    assert order == sorted(order)


def test_a_comparison_draws_every_seed_and_all_together() -> None:
    runs = [
        synthetic_run(kind=kind, seed=seed, duration_s=60.0, workers=5)
        for kind in ("bfifo", "red")
        for seed in (1, 2, 3)
    ]
    curves = {shown.name: shown.figure for shown in comparison_plots(compare(runs))}
    drawn = ("backlog", "sojourn", "drops", "throughput", "response", "burst")
    assert len([name for name in curves if name.startswith(drawn)]) == len(drawn)
    for name, figure in curves.items():
        if name.startswith(drawn):
            lines = figure.axes[0].get_lines()
            seeds = [line for line in lines if line.get_label() == style.SEED]
            assert len(seeds) == 6, name
    # The named curve is the mean of the seeds.
    lines = curves[f"backlog-{LINK}"].axes[0].get_lines()
    mean = np.asarray(lines[0].get_ydata())
    samples = [run.queues.get_column("backlog_bytes").to_numpy() * 1e-3 for run in runs[:3]]
    shortest = min(map(len, samples))
    assert mean == pytest.approx(np.mean([each[:shortest] for each in samples], axis=0))


def test_the_mean_of_curves_leaves_out_what_has_no_value() -> None:
    times = np.array([0.0, 1.0, 2.0])
    grid, mean = mean_of(
        [
            (times, np.array([1.0, np.nan, 3.0])),
            (times, np.array([3.0, 4.0, np.nan])),
            (np.array([0.0, 2.0, 4.0]), np.array([2.0, 4.0, 8.0])),
        ]
    )
    assert list(grid) == [0.0, 1.0, 2.0]
    assert mean == pytest.approx([2.0, 3.5, 3.5])


@pytest.mark.parametrize(
    ("kinds", "unit", "limits"),
    [
        (("pfifo", "pfifo-2"), "packets", ["limit 180 packets", "limit 90 packets"]),
        (("pfifo", "pfifo"), "packets", ["limit 180 packets"]),
        (("bfifo", "pfifo"), "kB", ["limit 262 kB"]),
        (("bfifo", "red"), "kB", ["limit 262 kB", "limit 375 kB"]),
    ],
)
def test_backlogs_have_the_unit_of_the_limits(
    kinds: tuple[str, str], unit: str, limits: list[str]
) -> None:
    runs = {}
    for number, kind in enumerate(kinds):
        name = kind.removesuffix("-2")
        made = synthetic_run(kind=name, duration_s=60.0, workers=5)
        if kind != name:
            links = json.loads(json.dumps(made.scenario["links"]).replace("180", "90"))
            made = replace(made, scenario={**made.scenario, "links": links})
        runs[f"{kind} {number}"] = made
    axes = fig(plots.backlog, runs, LINK).axes[0]
    assert axes.get_ylabel() == f"backlog ({unit})"
    assert [text.get_text() for text in axes.texts if "limit" in text.get_text()] == limits


def test_groups_are_apart_in_a_comparison() -> None:
    text = """
name = "NAME"
duration = "20 s"
links = [{ name = "wan", between = ["a", "b"], rate = "10 Mbit/s", delay = "DELAY" }]
"""
    for name in ("stub", "browser"):
        text += f'[[dns]]\nname = "{name}"\nclient = "a"\nserver = "b"\nqueries = 3\n'
    for name, size in (("small", "10 kB"), ("large", "1 MB")):
        text += f'[[traffic]]\nkind = "once"\nname = "{name}"\nsender = "b"\n'
        text += f'receiver = "a"\nsize = "{size}"\n'
    near, far = (
        run(Scenario.parse(text.replace("NAME", name).replace("DELAY", delay)))
        for name, delay in (("near", "5 ms"), ("far", "50 ms"))
    )
    shown = {each.name: each for each in comparison_plots(compare([near, far]))}
    for name in ("response-cdf-stub", "response-cdf-browser", "burst-cdf-small", "burst-cdf-large"):
        lines = shown[name].figure.axes[0].get_lines()
        assert [line.get_label() for line in lines if not isinstance(line, Mark)] == ["near", "far"]
    # A file of 10 kB takes three round trips at most, one of 1 MB at least 0.8 s at 10 Mbit/s.
    ends = {
        size: np.asarray(shown[f"burst-cdf-{size}"].figure.axes[0].get_lines()[0].get_xdata())[-1]
        for size in ("small", "large")
    }
    assert ends["small"] < 0.1 < 0.8 < ends["large"]
    names = [label.get_text() for label in shown["first-attempt"].figure.axes[0].get_yticklabels()]
    assert names == ["stub, near", "stub, far", "browser, near", "browser, far"]


def test_a_comparison_of_downloads_begins_with_their_times(tmp_path: Path) -> None:
    text = """
name = "NAME"
duration = "20 s"
links = [{ name = "wan", between = ["a", "b"], rate = "RATE", delay = "5 ms" }]
traffic = [{ kind = "once", name = "file", sender = "b", receiver = "a", size = "1 MB" }]
"""
    runs = [
        run(Scenario.parse(text.replace("NAME", name).replace("RATE", rate)))
        for name, rate in (("slow", "1 Mbit/s"), ("fast", "10 Mbit/s"))
    ]
    page = write_comparison(compare(runs), tmp_path).read_text(encoding="utf-8")
    assert page.index("Burst completion time") < page.index("<h3>")


def test_text_in_plots_is_text(folder: Path) -> None:
    drawn = ElementTree.parse(folder / "plots" / f"backlog-{LINK}.svg").getroot()
    words = "".join(drawn.itertext())
    assert "time (s)" in words
    assert "backlog (kB)" in words


def test_a_run_with_truncated_replies_leads_with_answers_within_a_second(tmp_path: Path) -> None:
    zone = Scenario.parse("""
name = "zone"
duration = "60 s"
end = "dns"
links = [{ name = "wan", between = ["c", "s"], rate = "10 Mbit/s", delay = "20 ms" }]

[[dns]]
name = "stub"
client = "c"
server = "s"
workers = 2
queries = 10
reply_size = "1700 B"
answers = { udp_size = "1232 B" }
""")
    udp = run(zone)
    tls = run(zone, set={"name": "tls", "dns.stub.transport": "tls"})
    page = write_run_report(udp, tmp_path / "run").read_text(encoding="utf-8")
    tiles = re.findall(r'<div class="card"><b>(.*?)</b><span>(.*?)</span>', page)
    assert tiles[0] == ("100.00 %", "answered within a second")
    assert "although nothing was lost: 100 % of the queries got one" in page
    compared = write_comparison(compare([udp, tls]), tmp_path / "both")
    text = compared.read_text(encoding="utf-8")
    assert text.index("DNS queries answered within a second") < text.index("<h3>")
    assert "DNS queries answered at the first attempt" not in text
    # Without truncation and over one transport, first attempts lead as usual.
    short = write_run_report(run(zone, set={"dns.stub.reply_size": "200 B"}), tmp_path / "short")
    assert "answered at the first attempt</span>" in short.read_text(encoding="utf-8")


def test_closed_connections_stand_beside_timeouts() -> None:
    # Query 3 is not measured, and query 4 is not done.
    queries = pl.DataFrame(
        {
            "query": [0, 1, 2, 3, 4],
            "measured": [True, True, True, False, True],
            "end_s": [1.0, 1.0, 1.0, 1.0, None],
        }
    )
    fates = ["timed-out", "reply-lost", "late", "closed", "answered", "closed", "reset", "refused"]
    attempts = pl.DataFrame({"query": [0, 0, 1, 1, 1, 3, 2, 4], "fate": fates})
    assert failed_text(queries, attempts) == (
        "Failed attempts: 3 timed out, 1 ended because the server closed the connection and 1 "
        "ended because the connection was reset."
    )
    assert failed_text(queries, attempts.filter(fate="answered")) == ""


def test_the_first_sentences_are_on_what_matters_most(tmp_path: Path) -> None:
    runs = [
        synthetic_run(kind=kind, seed=seed, duration_s=60.0, workers=5)
        for kind in ("bfifo", "red")
        for seed in (1, 2, 3)
    ]
    found = compare(runs)
    first, others = found.first_sentences, found.other_sentences
    assert sorted([*first, *others]) == sorted(found.sentences)
    assert 0 < len(first) <= 3 < len(others)
    titles = [f"{row.section}, {row.name}: " for row in found.leading]
    assert sum(sentence.startswith(tuple(titles)) for sentence in first) >= 1
    text = html.unescape(write_comparison(found, tmp_path).read_text(encoding="utf-8"))
    folded = text[text.index("<details>") : text.index("</details>")]
    assert all(sentence in folded for sentence in others)
    assert not any(sentence in folded for sentence in first)
    assert f"(The table above has the intervals of {len(others)} more.)" in str(found.table())

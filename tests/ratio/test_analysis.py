"""The whole analysis of the sample: real NSD 3.2.13 and 3.2.14, with few and many slots."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from matplotlib import image

from narrows.cli import main
from narrows.ratio import RatioError, Rules, analyse
from narrows.ratio.analysis import Group
from narrows.ratio.comparison import compare_ratios
from narrows.ratio.folder import load, save
from narrows.ratio.plots import excess_plot, line_plot
from narrows.ratio.report import write_ratio_report
from narrows.ratio.words import say_failures, say_group
from narrows.results import Measurement, RunFolderError
from tests.ratio.conftest import saved

pytestmark = pytest.mark.slow


def test_old_nsd_takes_three_round_trips_and_the_next_one_two(
    samples: dict[str, Measurement],
) -> None:
    # Measured with a script of its own when the sample was made: medians 3.00 and 2.00, lines
    # 3.005 udp - 0.5 ms and 2.002 udp + 0.3 ms.
    for name, ratio in (("after", 3.0), ("fixed", 2.0)):
        group = analyse([samples[name]]).whole
        assert group.peaks.quantiles[0.5] == pytest.approx(ratio, abs=0.01)
        assert group.peaks.mode == pytest.approx(ratio, abs=0.03)
        assert group.line is not None
        assert group.line.slope == pytest.approx(ratio, abs=0.03)
        words = "three round trips" if ratio == 3.0 else "two round trips"
        assert any(words in sentence for sentence in say_group(group))


def test_nothing_is_said_of_peaks_in_few_pairs_or_a_machines_own_times(
    samples: dict[str, Measurement],
) -> None:
    table = analyse([samples["after"]]).table
    (said,) = say_group(Group("server", None, table.head(10)))
    assert said == "server: 10 pairs show no peaks; at least 30 are needed."
    near = table.with_columns(pl.col("udp_ms", "tcp_ms") / 1000.0)
    (said,) = say_group(Group("server", None, near))
    assert "below 1 ms a ratio depends on the machines" in said and "peak" not in said


def test_the_truncated_query_counts_if_all_answers_over_udp_are_truncated(
    samples: dict[str, Measurement],
) -> None:
    """Two round trips over TCP after one over UDP are three."""
    table = analyse([samples["fixed"]]).table
    cut = table.with_columns(udp_truncated=pl.lit(value=True))
    said = " ".join(say_group(Group("server", None, cut)))
    assert "the median ratio is 2.00; 3.00 with the truncated query before it." in said
    some = cut.with_columns(udp_truncated=pl.col("ratio") > 2.0)
    assert "truncated" not in " ".join(say_group(Group("server", None, some)))


def test_ten_slots_make_tcp_wait(samples: dict[str, Measurement]) -> None:
    analysis = analyse([samples["before"]])
    peaks = analysis.whole.peaks
    # The same script: median 5.66, upper quartile 13.6, two failures.
    assert peaks.quantiles[0.5] == pytest.approx(5.66, abs=0.1)
    assert peaks.quantiles[0.75] == pytest.approx(13.6, abs=0.5)
    assert peaks.shares["above_4"] > 0.5
    assert any("waits for something" in sentence for sentence in say_group(analysis.whole))


def test_days_and_servers_make_groups(samples: dict[str, Measurement]) -> None:
    analysis = analyse(list(samples.values()))
    assert [str(day) for day in analysis.days] == ["2012-09-20", "2012-09-22", "2012-10-24"]
    assert analysis.by_server_and_day[0].label == "192.0.2.53, 2012-09-20"
    assert len(analysis.by_server) == 1
    # A change between days: a line through both has slope 3, and means nothing.
    assert any("does not describe several peaks" in said for said in say_group(analysis.whole))


def test_several_measurements_of_a_server_are_judged_apart(
    samples: dict[str, Measurement], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = saved({name: samples[name] for name in ("before", "after")}, tmp_path)
    assert main(["ratio", *map(str, runs.values()), "--no-report"]) == 0
    printed = capsys.readouterr().out
    analysis = analyse([Measurement.load(run) for run in runs.values()])
    parts = analysis.by_source("192.0.2.53")
    for run, part in zip(runs.values(), parts, strict=True):
        alone = analyse([Measurement.load(run)])
        assert part.source == str(run)
        assert part.peaks == alone.whole.peaks
        # Each measurement is judged as it would be alone, and nothing is said about the mixture.
        for sentence in say_group(alone.whole):
            assert sentence.split(": ", 1)[-1] in " ".join(printed.split())
    assert sum(part.peaks.count for part in parts) == analysis.whole.peaks.count
    mixed = [sentence for sentence in say_group(analysis.whole)[1:] if "round trips" in sentence]
    alone = [sentence for part in parts for sentence in say_group(part)]
    assert mixed and not set(mixed) & set(alone)
    assert not any(sentence in printed for sentence in mixed)
    assert "its own row combines 2 measurements, which may differ" in printed
    assert analyse([samples["before"]]).by_source("192.0.2.53") == []


def test_transports_that_were_measured_apart_are_one_measurement(
    samples: dict[str, Measurement],
) -> None:
    apart = [
        replace(
            samples["after"],
            tables={
                **samples["after"].tables,
                "exchanges": samples["after"].exchanges.filter(transport=transport),
            },
        )
        for transport in ("udp", "tcp")
    ]
    analysis = analyse(apart)
    assert analysis.table.height == analyse([samples["after"]]).table.height
    assert analysis.by_source("192.0.2.53") == []


def test_an_interval_says_what_it_counts(samples: dict[str, Measurement]) -> None:
    analysis = analyse([samples["before"], samples["after"]])
    udp = next(part for part in analysis.failures if part.transport == "udp")
    assert (udp.failed, udp.trials) == (0, 14)
    assert "the interval counts 14 vantage points" in say_failures(udp)


def test_a_sample_without_codes_says_so(samples: dict[str, Measurement]) -> None:
    (variant,) = (
        part for part in analyse([samples["after"]]).variants if part.rule.startswith("NOERROR")
    )
    exchanges = samples["after"].exchanges
    assert exchanges["rcode"].null_count() == exchanges.height, "the sample has codes"
    assert (variant.rule, variant.count) == ("NOERROR only (no reply's code is known)", 0)
    with pytest.raises(RatioError, match="168 whose code is not known"):
        analyse([samples["after"]], Rules(noerror_only=True))


def test_no_failure_is_no_certainty(samples: dict[str, Measurement]) -> None:
    udp = next(part for part in analyse([samples["after"]]).failures if part.transport == "udp")
    assert (udp.failed, udp.asked) == (0, 168)
    # Wilson for none of 14 vantage points: z2 / (n + z2), with z of 95 %.
    assert udp.interval == pytest.approx((0.0, 1.959964**2 / (14 + 1.959964**2)), abs=1e-6)


def test_a_comparison_finds_what_the_slots_changed(samples: dict[str, Measurement]) -> None:
    found = compare_ratios({name: analyse([samples[name]]) for name in ("before", "after")})
    assert found.paired
    rows = {row.what: row for row in found.rows}
    above = rows["ratio above 4"]
    assert above.interval is not None
    assert above.interval[1] < 0.0
    assert rows["median UDP time"].interval is not None
    assert rows["median UDP time"].interval[0] < 0.0 < rows["median UDP time"].interval[1]
    assert any("ratio above 4 is lower" in sentence for sentence in found.sentences())


def test_a_comparison_names_questions_that_differ(
    samples: dict[str, Measurement], tmp_path: Path
) -> None:
    def asking(name: str) -> Measurement:
        rows = samples["after"].exchanges.with_columns(qname=pl.lit(name), qtype=pl.lit("SOA"))
        return replace(samples["after"], tables={**samples["after"].tables, "exchanges": rows})

    root = analyse([asking(".")])
    save(analyse([asking("example.")]), tmp_path)
    first = compare_ratios({"a": root, "b": load(tmp_path)}).sentences()[0]
    assert first.startswith("The questions differ (a: . SOA; b: example. SOA)")
    assert "questions" not in compare_ratios({"a": root, "b": root}).sentences()[0]


def test_an_analysis_is_the_same_after_a_round_through_a_folder(
    samples: dict[str, Measurement], tmp_path: Path
) -> None:
    analysis = analyse(list(samples.values()), Rules(window_s=float("inf")))
    save(analysis, tmp_path)
    again = load(tmp_path)
    assert again.rules == analysis.rules
    assert again.failures == analysis.failures
    assert again.dropped == analysis.dropped
    assert again.table.equals(analysis.table)


@pytest.mark.parametrize("text", ["", "[]", '{"format": 1}', '{"format": 2}', "[" * 100_000])
def test_damaged_analyses_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "ratio.json").write_text(text)
    (tmp_path / "pairs.parquet").write_bytes(b"PAR1")
    with pytest.raises(RunFolderError, match="hint: run narrows ratio again"):
        load(tmp_path)


def test_measurements_without_pairs_say_why(samples: dict[str, Measurement]) -> None:
    only = samples["before"]
    udp = Measurement(
        source="atlas",
        settings={},
        status="complete",
        stopped="end",
        length_s=0.0,
        tables={"exchanges": only.exchanges.filter(transport="udp")},
        narrows="0",
    )
    words = r"unsaved \(atlas\): there are no queries over TCP; hint: name the run folders of both"
    with pytest.raises(RatioError, match=words):
        analyse([udp])
    with pytest.raises(RatioError, match=r"no TCP answer within 1 s;.*`window_s`"):
        analyse([only], Rules(window_s=1.0))
    with pytest.raises(RatioError, match=r"X: was not asked; hint: the servers are 192\.0\.2\.53"):
        analyse([only], servers=["X"])


def test_legends_say_what_points_and_colours_are(samples: dict[str, Measurement]) -> None:
    group = analyse([samples["after"]]).whole
    for draw in (line_plot, excess_plot):
        said = draw(group).legend
        assert "vantage point" in said
        assert "TCP's time divided by UDP's" in said


@pytest.mark.slow
def test_the_report_has_pages_plots_and_a_map(
    samples: dict[str, Measurement], tmp_path: Path
) -> None:
    other = samples["fixed"].exchanges.with_columns(target=samples["fixed"].exchanges["target"])
    root = other.with_columns(target=other["target"].str.replace("192.0.2.53", "193.0.14.129"))
    second = Measurement(
        source="atlas",
        settings={},
        status="complete",
        stopped="end",
        length_s=0.0,
        tables={"exchanges": root, "vantages": samples["fixed"].vantages},
        narrows="0",
    )
    analysis = analyse([samples["before"], second])
    report = write_ratio_report(analysis, tmp_path, kinds=("png", "svg", "pdf"))
    text = report.read_text()
    assert "in the folder plots too, as PNG, SVG, PDF." in text
    assert text.count('class="drawing"') == text.count('class="says"') >= 8
    assert "K-root" in text
    assert 'href="server-K-root.html"' in text
    assert text.count("<circle") == 14
    assert "<title>5 (GR): ratio " in text
    for name in ("density-by-server", "histogram-all", "map", "server-K-root-histogram"):
        picture = image.imread(tmp_path / "plots" / f"{name}.png")
        # The picture has more than one colour.
        assert picture[..., :3].std() > 0.02
        assert (tmp_path / "plots" / f"{name}.svg").read_text().startswith("<?xml")
        assert b"/Type3" not in (tmp_path / "plots" / f"{name}.pdf").read_bytes()
    assert (tmp_path / "server-K-root.html").exists()


def test_the_commands_run_end_to_end(
    samples: dict[str, Measurement], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = saved(samples, tmp_path / "runs")
    assert main(["ratio", str(runs["fixed"]), "--no-report", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["groups"][0]["quantiles"]["p50"] == pytest.approx(2.0, abs=0.01)
    out = tmp_path / "compared"
    words = ["compare", str(runs["before"]), str(runs["after"]), "--out", str(out)]
    assert main([*words, "--plots", "pdf"]) == 0
    assert "ratio above 4 (%)" in capsys.readouterr().out
    assert (out / "report.html").exists()
    names = {"density.pdf", "ratio.pdf", "failures-1.pdf", "failures-2.pdf"}
    assert {path.name for path in (out / "plots").iterdir()} == names


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["ratio", "gone"], "gone: does not exist"),
        (
            ["ratio", "{before}", "--window", "long"],
            "--window long: does not start with a number; hint: such as",
        ),
        (
            ["ratio", "{before}", "--family", "5"],
            "neither 4 nor 6; hint: 4 is IPv4",
        ),
        (["ratio", "{before}", "--out", "{before}"], "already holds a run"),
        (["compare", "{before}", "{before}"], "is given twice"),
        (["compare", "{before}"], "two at a time"),
        (["compare", "{before}", "gone"], "gone: does not exist"),
        (["compare", "{before}", "."], ".: is no measurement, but "),
        (
            ["import", "atlas", "{capture}"],
            "is a capture, not results of RIPE Atlas; hint: narrows",
        ),
        (["import", "atlas"], "no FILE is given"),
        (["import", "atlas", "gone"], "gone: no such file"),
        (["import", "atlas", "--download", "k", "--day", "today"], "--day today: is not a date"),
        (["import", "atlas", "--download", "z"], "z: is not a root server"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value[:1]),
)
def test_bad_input_is_one_line(
    samples: dict[str, Measurement],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    line: str,
) -> None:
    runs = saved({"before": samples["before"]}, tmp_path / "runs")
    monkeypatch.chdir(tmp_path)
    capture = tmp_path / "dns.pcap"
    capture.write_bytes(b"\xd4\xc3\xb2\xa1\2\0\4\0")
    assert main([part.format(before=runs["before"], capture=capture) for part in arguments]) == 2
    error = capsys.readouterr().err
    assert line in error
    assert error.count("\n") == 1

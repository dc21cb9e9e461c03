"""Named variants: several keys that change together are one value of an axis."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from narrows import Run, Scenario, Sweep, run, sweep
from narrows.results import RunFolderError
from narrows.results.compare_sweeps import compare_sweeps
from narrows.scenario.reading import read
from narrows.sweeps import SweepError, axes_of, parse_variants, read_plan
from narrows.sweeps.plan import combined
from narrows.sweeps.variants import variant_axis
from tests.sweep.test_sweep import narrows

pytestmark = pytest.mark.slow

RED = {
    "queue.kind": "red",
    "queue.limit": "60 kB",
    "queue.min": "6 kB",
    "queue.max": "18 kB",
    "queue.avpkt": "1000 B",
    "queue.burst": 20,
    "traffic.burst": "40 kB",
}
WHOLE = {
    "queue": {"kind": "red", "limit": "60 kB", "min": "6 kB", "max": "18 kB", "avpkt": "1000 B",
              "burst": 20},
    "traffic.burst": "40 kB",
}  # fmt: skip
PLAN = """
seeds = 2
[vary]
traffic.connections = [1, 4]
[variants.fifo]
[variants.red]
queue.kind = "red"
queue.limit = "60 kB"
queue.min = "6 kB"
queue.max = "18 kB"
queue.avpkt = "1000 B"
queue.burst = 20
traffic.burst = "40 kB"
"""


def test_the_command_line_a_plan_and_python_say_the_same(tmp_path: Path) -> None:
    settings = ",".join(f"{key}={value}" for key, value in RED.items())
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN, encoding="utf-8")
    for given in (
        parse_variants(["fifo", f"red:{settings}"]),
        read_plan(plan).variants,
        {"fifo": {}, "red": RED},
        {"fifo": {}, "red": WHOLE},
    ):
        axis = variant_axis(given)
        assert (axis.key, axis.values) == ("variant", ("fifo", "red"))
        assert [axis.settings(place) for place in (0, 1)] == [{}, WHOLE]


BRACES = """
[set]
"dns.stubs.transport" = { reuse = false }
dns.stubs.answers = {}
[vary]
traffic = { connections = [1, 4] }
[variants.new]
"dns.stubs.transport" = { reuse = false }   # { not = "this" }
dns.stubs.tcp = { profile = "ns-2", mss = 600 }
dns.stubs.messages = [{ query = "40 B{", reply = '''1 kB''' }]
[variants."inline"]
dns.stubs.transport.reuse = false
[variants.headed.dns.stubs.transport]
inline = true
"""


def test_a_table_in_braces_is_one_value_wherever_it_is_given(tmp_path: Path) -> None:
    # TOML 1.0, "Inline Table": braces define a whole table, dotted keys and headers add to one.
    path = tmp_path / "plan.toml"
    path.write_text(BRACES, encoding="utf-8")
    plan = read_plan(path)
    reuse = {"dns.stubs.transport": {"reuse": False}}
    messages = [{"query": "40 B{", "reply": "1 kB"}]
    assert plan.set == {**reuse, "dns.stubs.answers": {}}
    assert plan.vary == {"traffic.connections": [1, 4]}
    assert plan.variants == {
        "new": {
            **reuse,
            "dns.stubs.tcp": {"profile": "ns-2", "mss": 600},
            "dns.stubs.messages": messages,
        },
        "inline": {"dns.stubs.transport.reuse": False},
        "headed": {"dns.stubs.transport.inline": True},
    }
    given = parse_variants(["new:dns.stubs.transport={reuse=false}"])
    assert variant_axis(given).settings(0) == reuse


def test_a_plan_s_braces_replace_what_the_scenario_has(tmp_path: Path) -> None:
    scenario = Path(__file__).parents[2] / "scenarios" / "dns-over-tcp.toml"
    path = tmp_path / "plan.toml"
    over = '"dns.resolver.transport" = { kind = "udp", reuse = false }'
    path.write_text(f"[variants.new]\n{over}\n", encoding="utf-8")
    base = read(scenario)
    axis = variant_axis(read_plan(path).variants)
    found = combined(base, [axis], [0], "").resolved()["dns"][0]["transport"]
    # The scenario's own `shared = true` is gone, as with --set dns.resolver.transport=...
    assert (found["reuse"], found["shared"]) == (False, False)


def test_a_name_that_comes_again_adds_keys() -> None:
    given = ["a:duration=3 s", "b", "a: queue={kind='pfifo', limit=9} , traffic.burst=9 kB"]
    assert parse_variants(given) == {
        "a": {"duration": "3 s", "queue": "{kind='pfifo', limit=9}", "traffic.burst": "9 kB"},
        "b": {},
    }


def test_a_variant_gives_what_its_keys_give_alone(small: dict[str, Any]) -> None:
    variants = {"fifo": {}, "red": RED}
    found = sweep(small, variants=variants, vary={"traffic.connections": [1, 4]}, workers=1)
    assert found.table.columns[:3] == ["variant", "traffic.connections", "seed"]
    assert found.table["variant"].to_list() == ["fifo", "fifo", "red", "red"]
    assert found.table["traffic.connections"].to_list() == [1, 4, 1, 4]
    assert found.runs[1].summary == _alone(small, connections=4).summary
    small["links"][0]["queue"] = WHOLE["queue"]
    assert found.runs[3].summary == _alone(small, connections=4, burst="40 kB").summary


def _alone(values: dict[str, Any], **traffic: Any) -> Run:
    """A run of the scenario with these keys of its traffic."""
    changed = {**values, "traffic": [{**values["traffic"][0], **traffic}]}
    return run(Scenario.from_dict(changed), seed=1)


def test_other_axes_change_what_variants_leave_open(small: dict[str, Any]) -> None:
    small["links"][0]["queue"]["limit"] = "3000 B"
    variants = {"one": {"traffic.connections": 1}, "four": {"traffic.connections": 4}}
    vary = {"queue.limit": ["2000 B", "30000 B"]}
    found = sweep(small, variants=variants, vary=vary, workers=1)
    lost = found.table["queues.bottleneck.forward.run.loss_percent"].to_list()
    # A queue of one packet loses more than one that holds the burst.
    assert lost[0] > lost[1]
    assert lost[2] > lost[3]


def test_tables_plots_and_comparisons_show_the_names(small: dict[str, Any]) -> None:
    variants = {"tail drop": {}, "RED + long": RED}
    vary = {"traffic.connections": [1, 4]}
    found = sweep(small, variants=variants, vary=vary, seeds=2, workers=1)
    plot = found.plot("completion_mean_s")
    assert plot.against == "variant"
    assert [t.get_text() for t in plot.shown.figure.axes[0].get_xticklabels()] == list(variants)
    lines = found.plot("completion_mean_s", "connections")
    labels = lines.shown.figure.axes[0].get_legend_handles_labels()[1]
    legend = {text.get_text() for text in lines.shown.figure.findobj(match=_is_text)}
    assert set(variants) <= {*labels, *legend}
    assert "RED + long" in str(lines.table())
    words = compare_sweeps([found], {"variant": "tail drop"})
    assert [group.label for group in words[0].groups] == list(variants)
    assert words[0].setting == "connections 1"


def _is_text(artist: Any) -> bool:
    return hasattr(artist, "get_text")


def test_sweeps_whose_variants_differ_are_told_apart(small: dict[str, Any]) -> None:
    sweeps = [
        sweep(small, variants={"a": {}, "b": {"queue.limit": limit}}, workers=1)
        for limit in ("6000 B", "9000 B")
    ]
    labels = [group.label for group in compare_sweeps(sweeps)[1].groups]
    assert labels == ["limit 6000 B", "limit 9000 B"]


@pytest.mark.slow
def test_a_sweep_grows_by_variants_that_stay_what_they_are(
    small: dict[str, Any], tmp_path: Path
) -> None:
    out = tmp_path / "s"
    given: dict[str, Any] = {"out": out, "workers": 1, "seeds": 2}
    sweep(small, variants={"fifo": {}, "red": RED}, **given)
    rows = (out / "rows.jsonl").read_bytes()
    grown = sweep(small, variants={"fifo": {}, "long": {"duration": "3 s"}, "red": RED}, **given)
    assert (out / "rows.jsonl").read_bytes().startswith(rows)
    assert grown.complete
    loaded = Sweep.load(out)
    assert loaded.axes == grown.axes
    assert loaded.variants == {"fifo": {}, "long": {"duration": "3 s"}, "red": WHOLE}
    assert loaded.document()["variants"] == loaded.variants
    variants = {"fifo": {}, "long": {"duration": "4 s"}, "red": RED}
    with pytest.raises(RunFolderError, match="variant long sets other keys or values; hint: "):
        sweep(small, variants=variants, **given)
    with pytest.raises(RunFolderError, match=r"also has variant=.long"):
        sweep(small, variants={"fifo": {}, "red": RED}, **given)


@pytest.mark.slow
def test_variants_on_the_command_line(small_file: Path, tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(PLAN, encoding="utf-8")
    done = narrows(
        "sweep", str(small_file), "--plan", "plan.toml", "--variant", "long:duration=3 s",
        "--out", "s", "--metric", "completion_mean_s", "--workers", "2", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines() if line]
    assert lines[1][:3] == ["variant", "traffic.connections", "runs"]
    assert [line[:3] for line in lines[2:8]] == [
        [name, count, "2"] for name in ("fifo", "red", "long") for count in ("1", "4")
    ]
    done = narrows(
        "sweep", "plot", "s", "--metric", "completion_mean_s", "--against", "connections",
        "--where", "variant=red", "--json", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert [point["settings"] for point in json.loads(done.stdout)["points"]] == [
        {"variant": "red", "traffic.connections": count} for count in (1, 4)
    ]


@pytest.mark.slow
def test_bad_variants_are_one_line_and_code_2(small_file: Path, tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text("[variants]\nred = 3\n", encoding="utf-8")
    for arguments, message in (
        # All combinations have these errors, so no combination is named.
        (["--variant", "red:queue.limt=1"], "queue.limt: is not a known key; hint: did"),
        (["--variant", "red:queue.kind=red"], "limit: is missing"),
        (["--variant", "queue.limit=1"], "--variant queue.limit=1: not NAME:KEY=VALUE"),
        (["--variant", "red:queue.limit"], 'red: "queue.limit" is not KEY=VALUE; hint: '),
        (["--variant", "red:"], "hint: such as red:queue.kind=red"),
        (["--variant", "7:queue.limit=1"], "variant 7: is not a valid name; hint: a letter"),
        (["--variant", "true"], "variant true: is not a valid name; hint: a letter"),
        (["--variant", "a:duration=1 s", "--variant", "a:duration=2 s"], "gives duration twice"),
        (["--variant", "a:seed=1"], "variant a: sets the seed; hint: use --seeds"),
        (["--variant", "a", "--variant", "b"], "variant=a and variant=b are the same scenario"),
        (
            ["--variant", "a:queue.limit=9 kB", "--vary", "links.bottleneck.queue.limit=8 kB,7 kB"],
            "links.bottleneck.queue.limit: is varied, and variant a sets it too; hint: ",
        ),
        (["--vary", "variant=a,b"], "variant: is not varied like other keys; hint: use --variant"),
        (["--plan", "plan.toml"], "plan.toml: variants.red: is not a table of keys; hint: write ["),
    ):
        done = narrows("sweep", str(small_file), *arguments, "--workers", "1", "-q", cwd=tmp_path)
        assert done.returncode == 2, done.stderr
        assert done.stderr.count("\n") == 1
        assert message in done.stderr


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"queue": "red"}, ""),
        ({"queue.kind": "red", "queue": {"kind": "red"}}, "a key above it"),
        ({"queue.kind": "red", "queue.kind.x": 1}, "a key above it"),
        ({"queue.kind": "red", "queue.a": 1, "queue.a.b": 1}, "a key above it"),
        (["queue"], "is not a table of keys"),
    ],
)
def test_keys_that_cannot_be(keys: Any, message: str) -> None:
    if not message:
        assert variant_axis({"v": keys}).settings(0) == keys
        return
    with pytest.raises(SweepError, match=message):
        variant_axis({"v": keys})


def test_an_axis_may_not_be_called_variant() -> None:
    with pytest.raises(SweepError, match="use `variants`"):
        axes_of({"variant": ["a", "b"]})
